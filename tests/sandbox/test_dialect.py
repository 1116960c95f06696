"""The documented dialect: the interface to the letter."""

import re

import pytest


@pytest.fixture
def documented(make_caller):
    return make_caller(dialect="documented", self_index=True)


DOCUMENTED = [
    "id",
    "filename",
    "folder_id",
    "extension",
    "video_image",
    "filename_org",
    "kind",
    "extension_thumb",
    "path_to_asset",
    "cloud_url",
    "cloud_url_org",
    "size",
    "width",
    "height",
    "description",
    "keywords",
    "rowtotal",
    "local_url_org",
    "local_url_thumb",
    "responsecode",
    "totalassetscount",
    "calledwith",
    "colid",
]


def test_search_answer_has_documented_columns(documented):
    documented.upload("Grüße 東京.jpg")
    answer = documented.search("Grüße*")
    assert answer.headers["content-type"] == "application/json;charset=UTF-8"
    assert list(answer.json()) == ["columns", "data"]
    assert answer.json()["columns"] == [*DOCUMENTED, "date_create", "date_change"]
    assert "Grüße 東京.jpg" in answer.content.decode("utf-8")


def test_upload_answer_names_its_result_code(documented):
    assert re.search(r"<Response>\n<Response>0</Response>\n<message>success</message>", documented.upload().text)
    assert "<Response>1</Response>\n<message>Login not valid!" in documented.upload(api_key="no").text


def test_the_index_answer_is_not_strict_json(documented):
    answer = documented.index("all")
    assert answer.text == "{responsecode:0,message:'Indexing successfully triggered'}"


def test_column_form_needs_no_underscores(documented):
    documented.upload()
    answer = documented.search("note", BDQUERYFORMAT="column").json()
    assert (list(answer), answer["data"]["filename"]) == (["rowcount", "columns", "data"], ["note.txt"])


def test_jsonp_needs_no_underscores(documented):
    assert documented.search("x", BDRETURNFORMAT="jsonp", callback="cb").text.startswith('cb({"columns":')


def test_kind_is_other_where_upload_set_it(documented):
    documented.upload("a.bin")
    assert [row["kind"] for row in documented.found("a")] == ["other"]


def test_maxrows_counts_all_kinds_together(documented):
    for number in range(20):
        documented.upload(f"row {number:02}.txt")
        documented.upload(f"row {number:02}.mp4")
    assert len(documented.names("row")) == 25
    assert len(documented.names("row", startrow="26")) == 15


@pytest.mark.parametrize(("available", "after", "found"), [(None, 0, 0), ("0", 0, 1), ("1", 9, 1), ("0", 9, 0)])
def test_available_separates_processed_assets(make_caller, clock, available, after, found):
    caller = make_caller(dialect="documented", processing_delay=9, clock=clock)
    caller.upload()
    clock.seconds += after
    assert len(caller.found("note.txt", dbdirect="true", available=available)) == found


def test_show_is_ignored_with_dbdirect(documented):
    documented.upload()
    assert len(documented.found("%", dbdirect="true", show="img")) == 1


def test_a_wrong_key_is_the_number_1(documented):
    assert documented.search("x", api_key="no").json()["data"][0][0] == 1
