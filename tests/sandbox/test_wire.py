"""The sandbox answers as the live installation did, byte for byte but for identifiers, dates and the host.

Covers `sandbox/answers.py`.
"""

import re

import pytest


def plain(body: bytes) -> bytes:
    body = re.sub(rb"[0-9A-F]{32}", b"ID", body)
    body = re.sub(rb"[A-Z][a-z]+, \d\d \d{4} \d\d:\d\d:\d\d", b"DATE", body)
    body = re.sub(rb"\d{4}-\d\d-\d\dT\d+:\d+:\d+\+0:0", b"DATE", body)
    return re.sub(rb"http://127\.0\.0\.1:\d+", b"HOST", body)


def check(answer, expected):
    assert plain(answer.content) == plain(expected.body)
    assert answer.status_code == expected.status
    assert answer.headers.get("content-type") == expected.headers.get("content-type")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("upload-success", {"name": "t1.png"}),
        ("upload-zip", {"name": "archive.zip", "zip_extract": "0"}),
        ("upload-wrong-key", {"api_key": "no"}),
        ("upload-unknown-folder", {"destfolderid": "F" * 32}),
        ("upload-no-filedata", {"name": None}),
        ("upload-no-destfolderid", {"destfolderid": None}),
        ("upload-empty-file", {"content": b""}),
    ],
)
def test_an_upload_is_answered_as_observed(caller, sample, name, sent):
    if name == "upload-no-filedata":
        body = caller.fields() + caller.closing.lstrip(b"\r\n")
        answer = caller.http.post(
            caller.sandbox.upload_url,
            content=body,
            headers={"Content-Type": caller.head(0).split(b"Content-Type: ")[1].split(b"\r\n")[0]},
        )
    else:
        answer = caller.upload(**sent)
    check(answer, sample(name))


def test_duplicate_answer_has_converted_name(make_caller, sample):
    caller = make_caller(duplicate_check=True)
    caller.upload("first.png")
    check(caller.upload("t1.png"), sample("upload-duplicate"))


@pytest.mark.parametrize(("name", "key"), [("upload-redirect", None), ("upload-redirect-wrong-key", "no")])
def test_a_redirect_is_answered_as_observed(caller, sample, name, key):
    fields = {"api_key": key} if key else {}
    answer = caller.upload("t1.png", redirectto="http://127.0.0.1:18080/razuna/done.html", **fields)
    expected = sample(name)
    assert answer.status_code == expected.status == 302
    assert plain(answer.headers["location"].encode()) == plain(expected.headers["location"].encode())
    assert answer.content == b""


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("search-wrong-key", {"searchfor": "note", "api_key": "no"}),
        ("search-no-searchfor", {}),
        ("search-bad-method", {"searchfor": "note", "method": "searchnothing"}),
        ("search-no-method", {"searchfor": "note", "method": None}),
        ("search-none", {"searchfor": "nothing-like-it"}),
        ("search-one", {"searchfor": "note"}),
        ("search-dbdirect-like", {"searchfor": "%zip%", "dbdirect": "true"}),
        ("search-latin1-names", {"searchfor": "Grüße 東京.jpg", "dbdirect": "true"}),
        ("search-column", {"searchfor": "%", "dbdirect": "true", "show": "doc", "__BDQUERYFORMAT": "column"}),
        (
            "search-jsonp",
            {"searchfor": "%", "dbdirect": "true", "show": "doc", "__BDRETURNFORMAT": "jsonp", "callback": "cb"},
        ),
        ("search-wddx", {"searchfor": "%", "dbdirect": "true", "show": "doc", "__BDRETURNFORMAT": "wddx"}),
        ("index-one", {"method": "searchIndex", "assetid": "A" * 32}),
        ("index-all", {"method": "searchIndex", "assetid": "all"}),
        ("index-wrong-key", {"method": "searchIndex", "assetid": "all", "api_key": "no"}),
    ],
)
def test_search_and_index_answer_as_observed(caller, sample, picture, name, params):
    """Compare the sandbox's bytes with those recorded from a live installation."""
    sub = caller.sandbox.create_folder("sub")
    for filename, content in (
        ("archive.zip", bytes(2950)),
        ("archive2.zip", bytes(1540)),
        ("doc.pdf", b"%PDF".ljust(303)),
        ("note.txt", bytes(23)),
        ("ziptext.txt", bytes(8)),
        ("inzip1.jpg", picture(30, 30, 1213)),
        ("Grüße 東京.jpg", picture(80, 60, 734)),
    ):
        caller.upload(filename, content)
    caller.upload("in zip Ä.jpg", picture(30, 30, 1214), destfolderid=sub)
    expected = sample(name)
    answer = caller.search(**params)
    if name == "search-dbdirect-like":
        assert answer.content.count(b"in zip \xc4.jpg") == expected.body.count(b"in zip \xc4.jpg") == 2
    check(answer, expected)


def test_search_by_id_is_counted_twice(caller, sample):
    assetid = caller.uploaded("note.txt", bytes(23))
    check(caller.search(assetid), sample("search-by-id"))


def test_unprocessed_asset_has_size_0(make_caller, sample):
    caller = make_caller(processing_delay=60)
    caller.upload("unproc2.jpg")
    check(caller.search("unproc2.jpg", dbdirect="true"), sample("search-not-processed-yet"))


def test_head_over_8192_bytes_gets_400(caller, sample):
    answer = caller.search("x" * 8192)
    expected = sample("index-url-too-long")
    assert (answer.status_code, answer.content) == (expected.status, expected.body)


@pytest.mark.parametrize(("length", "status"), [(8192, 200), (8193, 400)])
def test_head_of_8192_bytes_is_accepted(caller, length, status):
    start = b"GET /razuna/global/api2/search.cfc?method=searchIndex&api_key=a-test-key&assetid="
    end = b" HTTP/1.1\r\nHost: sandbox\r\n\r\n"
    with caller.connect() as connection:
        connection.sendall(start + b"A" * (length - len(start) - len(end)) + end)
        assert connection.recv(65536).startswith(b"HTTP/1.1 %d " % status)
