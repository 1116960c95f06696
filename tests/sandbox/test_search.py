"""Searches in the sandbox: the query syntax, and what each field finds.

Covers `sandbox/query.py`.
"""

import json

import pytest

from tests.sandbox.conftest import FOLDER


@pytest.fixture
def filled(caller, picture):
    """Four files of four kinds in two folders."""
    other = caller.sandbox.create_folder("other", "B" * 32)
    caller.upload(
        "Alpha_1.txt", b"1" * 10, metadata="1", meta_file_keywords="harbour,dawn", meta_file_desc="An old pier"
    )
    caller.upload("alpha%2.pdf", b"2" * 40)
    caller.upload("beta-3.png", picture(30, 20, 30), metadata="1", meta_img_description="the sea", metacf_77="red,blue")
    caller.upload("Beta 4.mp4", b"4" * 20, destfolderid=other, meta_labels="Sea/Boats,at dawn")
    return caller


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("%", ["Alpha_1.txt", "alpha%2.pdf", "beta-3.png", "Beta 4.mp4"]),
        ("ALPHA%", ["Alpha_1.txt", "alpha%2.pdf"]),
        ("%.p__", ["alpha%2.pdf", "beta-3.png"]),
        (r"alpha\_1.txt", ["Alpha_1.txt"]),
        (r"alpha\%%", ["alpha%2.pdf"]),
        ("alpha_2.pdf", ["alpha%2.pdf"]),
        (r"alpha\_2.pdf", []),
        ("alpha", []),
        ("", []),
    ],
)
def test_dbdirect_matches_name_without_case(filled, pattern, names):
    assert sorted(filled.names(pattern, dbdirect="true")) == sorted(names)


def test_dbdirect_ignores_case_beyond_ascii(caller):
    caller.upload("Grüße.jpg")
    assert len(caller.names("GRÜSSE.JPG", dbdirect="true")) == 0
    assert len(caller.names("GRÜßE.JPG", dbdirect="true")) == 1


@pytest.mark.parametrize(
    ("folderid", "count"), [("B" * 32, 1), ("{folder}", 3), ("{folder}, " + "B" * 32, 4), ("C", 0)]
)
@pytest.mark.parametrize("dbdirect", ["true", "false"])
def test_folderid_narrows_to_several_folders(filled, folder, folderid, count, dbdirect):
    term = "%" if dbdirect == "true" else "alpha* OR beta*"
    assert len(filled.names(term, folderid=folderid.format(folder=folder), dbdirect=dbdirect)) == count


def test_dbdirect_ignores_paging_parameters(filled):
    assert len(filled.names("%", dbdirect="true", startrow="3", maxrows="1")) == 4


@pytest.mark.parametrize(("show", "total", "rows"), [("all", 0, 4), ("doc", 2, 2), ("img", 1, 1)])
def test_dbdirect_counts_only_with_a_kind(filled, show, total, rows):
    found = filled.found("%", dbdirect="true", show=show)
    assert [row["totalassetscount"] for row in found] == [total] * rows


def test_a_whole_folder_is_listed_at_once(caller, folder):
    for number in range(350):
        caller.upload(f"file {number:03}.txt", b"x")
    answer = caller.search("%", dbdirect="true", folderid=folder)
    assert answer.headers["transfer-encoding"] == "chunked"
    assert caller.names("%", dbdirect="true", folderid=folder) == [f"file {number:03}.txt" for number in range(350)]


@pytest.mark.parametrize(
    ("searchfor", "names"),
    [
        ("alpha", ["Alpha_1.txt", "alpha%2.pdf"]),
        ("ALPHA", ["Alpha_1.txt", "alpha%2.pdf"]),
        ("alph", []),
        ("alph*", ["Alpha_1.txt", "alpha%2.pdf"]),
        ("alpha_1.txt", ["Alpha_1.txt"]),
        ("beta-3.png", ["beta-3.png"]),
        ('"beta 4"', ["Beta 4.mp4"]),
        ("sea", ["Beta 4.mp4", "beta-3.png"]),
        ("description:sea", ["beta-3.png"]),
        ("keywords:dawn", ["Alpha_1.txt"]),
        ("keywords:(dawn AND harbour)", ["Alpha_1.txt"]),
        ("extension:PDF", ["alpha%2.pdf"]),
        ("beta AND sea AND NOT description:sea", ["Beta 4.mp4"]),
        ("pier OR extension:mp4", ["Alpha_1.txt", "Beta 4.mp4"]),
        ("(pier OR sea) png", ["beta-3.png"]),
        ("labels:(sea/boats)", ["Beta 4.mp4"]),
        ("labels:(sea)", []),
        ("labels:(sea/boats),(at+dawn)", ["Beta 4.mp4"]),
        ("labels:(sea/boats),(noon)", []),
        ("customfieldvalue:(+77 +red)", ["beta-3.png"]),
        ("customfieldvalue:(+77 +red +blue)", ["beta-3.png"]),
        ("customfieldvalue:(+77 +red +green)", []),
        ("customfieldvalue:(+78 +red)", []),
        ("customfieldvalue:(+77 +red) AND customfieldvalue:(+77 +blue)", ["beta-3.png"]),
        ("unknownfield:alpha", []),
        ("100%", []),
        ("(alpha", []),
        ("alpha AND", []),
        ("OR", []),
        ('"', []),
    ],
)
def test_the_index_reads_the_search_syntax(filled, searchfor, names):
    assert sorted(filled.names(searchfor)) == sorted(names)


def test_brackets_in_url_need_no_encoding(filled):
    query = "method=searchassets&api_key=a-test-key&searchfor=customfieldvalue:(+77+%2Bred)"
    assert filled.http.get(f"{filled.search_url}?{query}").json()["DATA"][0][1] == "beta-3.png"


@pytest.mark.parametrize("form", ["id:{0} OR id:{1}", "{0},{1}", "{0} {1}", "{0}, {1},", "id:{0} OR id:{1} OR id:{2}"])
def test_a_batch_of_ids_is_one_query(filled, form):
    ids = [asset.id for asset in filled.sandbox.assets()][:2]
    assert sorted(row["id"] for row in filled.found(form.format(*ids, "0" * 32))) == sorted(ids)


def test_thousand_ids_fit_into_one_post(caller):
    assetid = caller.uploaded()
    given = " OR ".join(f"id:{number:032X}" for number in range(1000)) + f" OR id:{assetid}"
    form = {"method": "searchassets", "api_key": "a-test-key", "searchfor": given}
    assert [row[0] for row in caller.http.post(caller.search_url, data=form).json()["DATA"]] == [assetid]


@pytest.mark.parametrize(
    ("sortby", "names"),
    [
        (None, ["alpha%2.pdf", "Alpha_1.txt"]),
        ("name", ["alpha%2.pdf", "Alpha_1.txt"]),
        ("sizedesc", ["alpha%2.pdf", "Alpha_1.txt"]),
        ("sizeasc", ["Alpha_1.txt", "alpha%2.pdf"]),
        ("dateadd", ["alpha%2.pdf", "Alpha_1.txt"]),
    ],
)
@pytest.mark.parametrize("term", [{"searchfor": "alpha"}, {"searchfor": "alpha%", "dbdirect": "true"}])
def test_sortby_orders_the_rows(filled, sortby, names, term):
    assert filled.names(**term, sortby=sortby) == names


@pytest.mark.parametrize(
    ("doctype", "names"),
    [("pdf", ["alpha%2.pdf"]), ("other", ["Alpha_1.txt"]), ("xls", []), ("", ["Alpha_1.txt", "alpha%2.pdf"])],
)
def test_doctype_narrows_the_documents(filled, doctype, names):
    assert sorted(filled.names("alpha", show="doc", doctype=doctype)) == sorted(names)


def test_maxrows_counts_per_kind(caller):
    for number in range(30):
        caller.upload(f"row {number:02}.txt")
        caller.upload(f"row {number:02}.mp4")
    assert len(caller.names("row")) == 50
    assert len(caller.names("row", maxrows="0")) == 60
    assert caller.names("row", show="doc", maxrows="2", startrow="26") == ["row 25.txt", "row 26.txt"]
    assert {row["totalassetscount"] for row in caller.found("row")} == {60}


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"datecreate": "2026-11-21"}, True),
        ({"datecreate": "20261121"}, True),
        ({"datecreate": "2026-11-22"}, False),
        ({"datechange": "20261121"}, True),
        ({"datecreaterange": "20261101 TO 20261121"}, True),
        ({"datechangerange": "20261122 TO 20261130"}, False),
        ({"datecreate": "yesterday"}, False),
    ],
)
def test_dates_narrow_an_index_search(make_caller, clock, params, found):
    clock.seconds = 1795233600.0 - 60 * 60  # 2026-11-21 03:00 UTC
    caller = make_caller(clock=clock)
    caller.upload()
    assert bool(caller.found("note", **params)) is found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((">", "2026-11-21 02:59:59", ""), True),
        ((">", "2026-11-21 03:00:00", ""), False),
        (("=>", "2026-11-21 03:00:00", ""), True),
        (("<", "2026-11-21 03:00:00", ""), False),
        (("=<", "2026-11-21 03:00:00", ""), True),
        (("between", "2026-11-21 00:00:00", "2026-11-21 04:00:00"), True),
        (("between", "2026-11-21 04:00:00", "2026-11-21 05:00:00"), False),
    ],
)
def test_dbdirect_dates_narrow_pictures_only(make_caller, clock, given, found):
    clock.seconds = 1795233600.0 - 60 * 60
    caller = make_caller(clock=clock)
    caller.upload("a.png")
    caller.upload("a.txt")
    params = dict(zip(("datecreateparam", "datecreatestart", "datecreatestop"), given, strict=True))
    names = caller.names("a.%", dbdirect="true", **params)
    assert names == (["a.png", "a.txt"] if found else ["a.txt"])


def test_non_latin_1_becomes_question_marks(caller):
    caller.upload("東京.txt")
    answer = caller.search("%", dbdirect="true")
    assert b'"??.txt"' in answer.content


def test_unprocessed_asset_needs_dbdirect(make_caller, clock):
    caller = make_caller(processing_delay=10, clock=clock)
    caller.upload()
    (row,) = caller.found("note.txt", dbdirect="true")
    assert (row["size"], row["md5hash"], caller.found("note")) == ("0", None, [])
    clock.seconds += 10
    (row,) = caller.found("note.txt", dbdirect="true")
    assert (row["size"], len(row["md5hash"]), len(caller.found("note"))) == ("23", 32, 1)


@pytest.mark.parametrize("callback", ["alert(1)//", "a b", ""])
def test_bad_callback_returns_plain_json(caller, callback):
    assert caller.search("x", __BDRETURNFORMAT="jsonp", callback=callback).content.startswith(b'{"COLUMNS"')


@pytest.mark.parametrize("switch", [{"BDQUERYFORMAT": "column"}, {"BDRETURNFORMAT": "jsonp", "callback": "cb"}])
def test_switch_needs_two_underscores(caller, switch):
    assert caller.search("x", **switch).content == caller.search("x").content


def test_wddx_encodes_control_characters(caller):
    caller.upload("a.png", metadata="1", meta_img_description="<b>\x01&")
    answer = caller.search("a", __BDRETURNFORMAT="wddx")
    assert b"<string>&lt;b&gt;<char code='01'/>&amp;</string>" in answer.content


def test_user_without_rights_is_refused_without_folderid(make_caller):
    """Observed with a key whose user is in neither of the service's two groups of administrators."""
    caller = make_caller(rights={FOLDER: "write"})
    refused = [json.loads(caller.search("%", dbdirect=dbdirect).text) for dbdirect in ("true", "false")]
    assert {answer["errorcode"] for answer in refused} == {"errorCode.expressionError"}
    caller.upload()
    assert caller.names("%", dbdirect="true", folderid="") == ["note.txt"]
    assert caller.names("note", folderid=FOLDER) == ["note.txt"]


@pytest.mark.parametrize("rights", [None, {FOLDER: "write"}])
def test_empty_folderid_shows_nothing_of_the_index(make_caller, rights):
    caller = make_caller(rights=rights)
    caller.upload()
    assert caller.names("note", folderid="") == []


def test_folder_without_a_right_is_empty(make_caller):
    caller = make_caller(rights={FOLDER: "none"})
    caller.upload()
    assert [caller.names("%", dbdirect="true", folderid=folder) for folder in (FOLDER, "")] == [[], []]


def test_reader_loses_the_metadata_of_uploads(make_caller):
    caller = make_caller(rights={FOLDER: "read"})
    caller.upload(metadata="1", meta_file_desc="An old pier")
    assert caller.found("%", dbdirect="true", folderid=FOLDER)[0]["description"] is None
