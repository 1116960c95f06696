import hashlib

import pytest


@pytest.fixture
def control(caller):
    def call(path, given=None):
        address = f"{caller.sandbox.address}/_sandbox/{path}"
        return caller.http.get(address) if given is None else caller.http.post(address, json=given)

    return call


def test_faults_are_switched_on_and_shown_with_what_is_left(control, caller):
    answer = control("faults", {"faults": [{"kind": "status", "operation": "search", "times": 2, "status": 500}]})
    assert answer.status_code == 200
    assert [caller.search("x").status_code, caller.index("all").status_code] == [500, 200]
    (shown,) = control("faults").json()["faults"]
    assert (shown["kind"], shown["operation"], shown["times"]) == ("status", "search", 1)
    caller.search("x")
    assert control("faults").json() == {"faults": []}


def test_an_empty_list_switches_all_faults_off(control, caller):
    control("faults", {"faults": [{"kind": "html"}]})
    control("faults", {"faults": []})
    assert caller.search("x").headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("given", [{}, [], {"faults": "html"}, {"faults": ["html"]}, {"faults": [{"kind": "x"}]}])
def test_what_is_no_list_of_faults_is_refused_with_a_sentence(control, given):
    answer = control("faults", given)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_what_is_not_json_is_refused_with_a_sentence(caller):
    answer = caller.http.post(f"{caller.sandbox.address}/_sandbox/faults", content=b"\xff{")
    assert (answer.status_code, answer.json()["error"][:17]) == (400, "This is not JSON:")


def test_a_folder_is_created_with_a_given_or_a_fresh_id(control, caller, folder):
    assert control("folders", {"name": "one", "id": "X-1"}).json() == {"id": "X-1", "name": "one"}
    fresh = control("folders", {"name": "two"}).json()["id"]
    assert control("folders").json() == [
        {"id": folder, "name": "SyncA"},
        {"id": "X-1", "name": "one"},
        {"id": fresh, "name": "two"},
    ]
    assert "success" in caller.upload(destfolderid=fresh).text


def test_a_folder_without_a_name_is_refused(control):
    assert control("folders", {"id": "X"}).status_code == 400


def test_everything_stored_is_listed(control, caller, folder):
    assetid = caller.uploaded("a.txt", b"abc", metadata="1", meta_file_desc="said")
    (asset,) = control("assets").json()
    assert asset["metadata"].pop("meta_file_desc") == "said"
    assert {key: asset[key] for key in ("id", "filename", "folder_id", "size", "md5")} == {
        "id": assetid,
        "filename": "a.txt",
        "folder_id": folder,
        "size": 3,
        "md5": hashlib.md5(b"abc").hexdigest().upper(),
    }
    assert [asset[key] for key in ("processed", "indexed", "visible", "damaged")] == [True, True, True, False]


def test_the_log_counts_requests_by_operation(control, caller):
    caller.upload()
    caller.upload(api_key="no")
    caller.search("x")
    caller.index("all")
    assert control("log").json() == {"upload": 2, "search": 1, "index": 1}


def test_a_picture_is_served_as_one_and_anything_else_is_a_download(control, caller, picture):
    shown = control(f"file/{caller.uploaded('a.png', picture(3, 2, 50))}")
    assert (shown.headers["content-type"], shown.content) == ("image/png", picture(3, 2, 50))
    page = control(f"file/{caller.uploaded('a.html', b'<script>alert(1)</script>')}")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_file_of_an_unknown_asset_is_404(control):
    assert control("file/nothing").status_code == 404
