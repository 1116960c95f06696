import hashlib

import pytest


@pytest.fixture
def control(caller):
    def call(path, given=None):
        address = f"{caller.sandbox.address}/_sandbox/{path}"
        return caller.http.get(address) if given is None else caller.http.post(address, json=given)

    return call


def test_fault_rules_are_set_and_shown(control, caller):
    answer = control("faults", {"faults": [{"kind": "status", "operation": "search", "times": 2, "status": 500}]})
    assert answer.status_code == 200
    assert [caller.search("x").status_code, caller.index("all").status_code] == [500, 200]
    (shown,) = control("faults").json()["faults"]
    assert (shown["kind"], shown["operation"], shown["times"]) == ("status", "search", 1)
    caller.search("x")
    assert control("faults").json() == {"faults": []}


def test_empty_list_clears_all_faults(control, caller):
    control("faults", {"faults": [{"kind": "html"}]})
    control("faults", {"faults": []})
    assert caller.search("x").headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("given", [{}, [], {"faults": "html"}, {"faults": ["html"]}, {"faults": [{"kind": "x"}]}])
def test_non_list_of_faults_is_refused(control, given):
    answer = control("faults", given)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_non_json_body_is_refused(caller):
    answer = caller.http.post(f"{caller.sandbox.address}/_sandbox/faults", content=b"\xff{")
    assert (answer.status_code, answer.json()["error"][:17]) == (400, "This is not JSON:")


@pytest.mark.parametrize(
    "given",
    [
        '"status": 99',
        '"status": 1000',
        '"seconds": NaN',
        '"seconds": "inf"',
        '"seconds": -1',
        '"times": -1',
        '"probability": 7',
    ],
)
def test_impossible_number_is_refused(caller, control, given):
    body = f'{{"faults": [{{"kind": "status", {given}}}]}}'
    answer = caller.http.post(f"{caller.sandbox.address}/_sandbox/faults", content=body)
    assert (answer.status_code, "A fault cannot have" in answer.json()["error"]) == (400, True)
    assert control("faults").json() == {"faults": []}


def test_deeply_nested_body_is_refused(caller):
    answer = caller.http.post(f"{caller.sandbox.address}/_sandbox/faults", content=b"[" * 100_000)
    assert (answer.status_code, answer.json()["error"][:17]) == (400, "This is not JSON:")


@pytest.mark.parametrize("origin", ["https://page.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize("path", ["faults", "folders"])
def test_foreign_site_page_changes_nothing(caller, control, path, origin):
    before = control(path).json()
    body = b'{"faults": [{"kind": "key_refused"}], "name": "x"}'
    headers = {"Origin": origin, "Content-Type": "text/plain"}
    answer = caller.http.post(f"{caller.sandbox.address}/_sandbox/{path}", content=body, headers=headers)
    assert (answer.status_code, control(path).json()) == (403, before)
    own = caller.http.post(
        f"{caller.sandbox.address}/_sandbox/{path}", content=body, headers={"Origin": caller.sandbox.address}
    )
    assert own.is_success


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("page.example", 403),
        ("127.0.0.1.page.example:8790", 403),
        ("localhost.page.example.", 403),
        ("[::1", 403),
        ("127.0.0.1:1", 200),
        ("[::1]:8790", 200),
        ("localhost:8790", 200),
        ("dam.localhost", 200),
        ("sandbox", 200),
        ("host.docker.internal:8790", 200),
    ],
)
def test_loopback_refuses_foreign_host_names(caller, host, status):
    for path in ("/", "/_sandbox/assets", "/razuna/global/api2/search.cfc?method=searchIndex&api_key=a-test-key"):
        assert caller.http.get(f"{caller.sandbox.address}{path}", headers={"Host": host}).status_code == status


def test_wildcard_address_accepts_any_host(make_caller):
    caller = make_caller(host="0.0.0.0")
    address = f"http://127.0.0.1:{caller.sandbox.port}/"
    assert caller.http.get(address, headers={"Host": "dam.page.example"}).status_code == 200


def test_folder_id_is_passed_or_generated(control, caller, folder):
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


def test_log_counts_requests_by_operation(control, caller):
    caller.upload()
    caller.upload(api_key="no")
    caller.search("x")
    caller.index("all")
    assert control("log").json() == {"upload": 2, "search": 1, "index": 1}


def test_only_pictures_are_served_inline(control, caller, picture):
    shown = control(f"file/{caller.uploaded('a.png', picture(3, 2, 50))}")
    assert (shown.headers["content-type"], shown.content) == ("image/png", picture(3, 2, 50))
    page = control(f"file/{caller.uploaded('a.html', b'<script>alert(1)</script>')}")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_file_of_an_unknown_asset_is_404(control):
    assert control("file/nothing").status_code == 404


def test_manual_asset_change_shows_at_once(control, caller):
    folder = control("folders", {"name": "archive"}).json()["id"]
    assetid = caller.uploaded("harbour.jpg")
    assert control("assets", {"id": assetid, "folder": folder, "name": "quay.jpg"}).status_code == 200
    (asset,) = control("assets").json()
    assert (asset["folder_id"], asset["folder_name"], asset["filename"]) == (folder, "archive", "quay.jpg")
    assert [row["id"] for row in caller.found("quay.jpg", folderid=folder)] == [assetid]
    assert caller.found("harbour.jpg") == []
    assert control("assets", {"id": assetid, "delete": True}).status_code == 200
    assert (control("assets").json(), caller.found("quay.jpg")) == ([], [])
    assert control("assets", {"id": assetid, "delete": True}).status_code == 404


@pytest.mark.parametrize("given", [{}, {"id": 1}, {"id": "a", "folder": "NONE"}, {"id": "a", "name": 1}])
def test_unknown_asset_or_folder_is_refused(control, given):
    answer = control("assets", given)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
