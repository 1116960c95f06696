"""Uploads to the sandbox: what is stored, and what is answered.

Covers `sandbox/store.py`.
"""

import hashlib
import re

import pytest

from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.sandbox.conftest import FOLDER, KEY


def test_stored_bytes_equal_sent_bytes(caller):
    content = bytes(range(256)) * 1000
    assetid = caller.uploaded("all bytes.bin", content)
    (asset,) = caller.sandbox.assets()
    assert caller.sandbox.content(assetid) == content
    assert (asset.id, asset.size, asset.damaged) == (assetid, len(content), False)
    assert asset.md5 == hashlib.md5(content).hexdigest().upper()


def test_stored_metadata_omits_the_credential(caller):
    caller.upload("t.png", metadata="1", meta_lang_id_r="1", meta_img_description="Grüße\n東京", meta_location="Köln")
    (asset,) = caller.sandbox.assets()
    assert asset.metadata == {
        "fa": "c.apiupload",
        "destfolderid": asset.folder_id,
        "metadata": "1",
        "meta_lang_id_r": "1",
        "meta_img_description": "Grüße\n東京",
        "meta_location": "Köln",
    }


@pytest.mark.parametrize(
    ("name", "field", "metadata", "shown"),
    [
        ("a.png", "meta_img_description", "1", "dawn"),
        ("a.mp4", "meta_vid_description", "1", "dawn"),
        ("a.mp3", "meta_aud_description", "1", "dawn"),
        ("a.pdf", "meta_file_desc", "1", "dawn"),
        ("a.zip", "meta_file_desc", "1", "dawn"),
        ("a.png", "meta_img_description", "0", ""),
        ("a.pdf", "meta_img_description", "1", ""),
    ],
)
def test_description_is_in_column_of_its_kind(caller, name, field, metadata, shown):
    caller.upload(name, **{"zip_extract": "0", "metadata": metadata, field: "dawn"})
    (row,) = caller.found(name, dbdirect="true")
    assert (row["description"] or "") == shown


@pytest.mark.parametrize(
    ("sent", "filename", "filename_org"),
    [
        ("Grüße 東京.jpg", "Grüße 東京.jpg", "Grue_.jpg"),
        ("日本語.jpg", "日本語.jpg", ".jpg"),
        ("say %22hi%22.txt", "say %22hi%22.txt", "say_22hi22.txt"),
        ("C:/tmp/a.txt", "a.txt", "a.txt"),
        ("a/b\\c.txt", "c.txt", "c.txt"),
    ],
)
def test_name_is_kept_beside_its_rewrite(caller, sent, filename, filename_org):
    caller.raw(caller.fields() + caller.file_header(sent) + b"x" + caller.closing)
    (asset,) = caller.sandbox.assets()
    assert (asset.filename, asset.filename_org) == (filename, filename_org)


@pytest.mark.parametrize("name", ['a\\"b.txt', "n" * 300 + ".txt"])
def test_unacceptable_name_fails_the_upload(caller, name):
    answer = caller.raw(caller.fields() + caller.file_header(name) + b"x" + caller.closing)
    assert b"<responsecode>1</responsecode>\n<message>Upload failed Error at line" in answer
    assert caller.sandbox.assets() == []


def test_file_kind_decides_answer_and_columns(make_caller):
    caller = make_caller(file_kinds={"cr3": "vid"})
    answer = caller.upload("a.CR3", metadata="1", meta_vid_keywords="right", meta_file_keywords="x")
    assert "<filetype>vid</filetype>" in answer.text
    (asset,) = caller.found("a")
    assert (asset["kind"], asset["keywords"]) == ("vid", "right")


def test_name_of_a_folder_is_refused(caller):
    answer = caller.raw(caller.fields() + caller.file_header("a/") + b"x" + caller.closing)
    assert b"<message>Upload failed There was no appropriate FILE found in the upload</message>" in answer
    assert caller.sandbox.assets() == []


def test_name_beyond_bmp_is_never_stored(caller):
    answer = caller.upload("smile 😀.txt")
    assert re.search("<responsecode>0</responsecode>.*<assetid>[0-9A-F]{32}</assetid>", answer.text, re.DOTALL)
    assert caller.sandbox.assets() == []


def test_url_parameters_and_sessiontoken_work(caller, folder):
    url = f"?fa=c.apiupload&sessiontoken=a-test-key&destfolderid={folder}&zip_extract=0"
    body = caller.file_header() + b"from the url" + caller.closing
    content_type = re.search(rb"Content-Type: (.*)\r\n", caller.head(0))[1]
    answer = caller.http.post(
        caller.sandbox.upload_url + url, content=body, headers={"Content-Type": content_type.decode()}
    )
    assert "<message>success</message>" in answer.text
    (asset,) = caller.sandbox.assets()
    assert caller.sandbox.content(asset.id) == b"from the url"
    assert "sessiontoken" not in asset.metadata


def test_missing_fa_returns_a_login_page(caller):
    answer = caller.upload(fa=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html;charset=ISO-8859-1")
    assert caller.sandbox.assets() == []


@pytest.mark.parametrize("late", ["api_key", "meta_img_description"])
def test_field_after_file_is_refused(caller, late):
    first = {"api_key": "no"} if late == "api_key" else {}
    after = caller.fields().partition(b'name="destfolderid"')[0].rpartition(b"--")[0]  # fa and api_key
    body = caller.fields(**first) + caller.file_header() + b"x\r\n" + after + caller.closing.lstrip(b"\r\n")
    assert b"<responsecode>1</responsecode>" in caller.raw(body)
    assert caller.sandbox.assets() == []


@pytest.mark.parametrize(("length", "code"), [(10_000, "10001"), (100, "0")])
def test_content_over_limit_is_error_10001(make_caller, length, code):
    caller = make_caller(max_content_length=5_000)
    answer = caller.upload(content=bytes(length))
    assert f"<responsecode>{code}</responsecode>" in answer.text
    assert len(caller.sandbox.assets()) == (code == "0")


def test_redirect_keeps_its_own_parameters(caller):
    answer = caller.upload("t.png", redirectto="http://example.com/done", redirecttoparams="a=1&b=2")
    (asset,) = caller.sandbox.assets()
    assert re.fullmatch(
        r"http://example\.com/done;jsessionid=[0-9A-F]{32}"
        rf"\?responsecode=0&message=success&assetid={asset.id}&filetype=img&a=1&b=2",
        answer.headers["location"],
    )


def test_a_duplicate_ignores_the_redirect(make_caller):
    caller = make_caller(duplicate_check=True)
    caller.upload()
    answer = caller.upload(redirectto="http://example.com/done")
    assert (answer.status_code, "File already exists" in answer.text) == (200, True)


def test_duplicate_check_covers_every_folder(make_caller, clock):
    caller = make_caller(duplicate_check=True, processing_delay=5, clock=clock)
    other = caller.sandbox.create_folder("other")
    caller.upload()
    assert "success" in caller.upload().text
    clock.seconds += 5
    assert "File already exists" in caller.upload(destfolderid=other).text


def test_same_file_is_stored_twice_by_default(caller):
    assert caller.uploaded() != caller.uploaded()
    assert len(caller.sandbox.assets()) == 2


def test_unknown_folder_is_created_if_allowed(make_caller):
    caller = make_caller(auto_folders=True)
    caller.upload(destfolderid="brand-new")
    assert [asset.folder_id for asset in caller.sandbox.assets()] == ["brand-new"]


def test_referrer_returns_as_comingfrom(caller):
    answer = caller.upload(headers={"Referer": "http://example.com/a?b=1&c=]]>"})
    assert "<comingfrom><![CDATA[http://example.com/a?b=1&c=]]]]><![CDATA[>]]></comingfrom>" in answer.text


def test_body_in_small_pieces_is_one_upload(caller):
    body = caller.fields() + caller.file_header() + b"\r\n--not the boundary\r\n" * 3 + caller.closing
    with caller.connect() as connection:
        message = caller.head(len(body)) + body
        for at in range(0, len(message), 7):
            connection.sendall(message[at : at + 7])
        answer = caller.read_all(connection)
    assert b"success" in answer
    (asset,) = caller.sandbox.assets()
    assert caller.sandbox.content(asset.id) == b"\r\n--not the boundary\r\n" * 3
    assert not asset.damaged


def test_unrecorded_upload_leaves_no_file(caller):
    stored = caller.sandbox._stored
    stored._writer.execute("DROP TABLE assets")
    assert caller.upload().status_code == 500
    assert [*stored.content("x").parent.iterdir(), *stored.incoming.iterdir()] == []


@pytest.mark.parametrize(
    ("key", "message"), [(KEY, "Missing &apos;filedata&apos; parameter"), ("wrong-key", "Login not valid!")]
)
def test_form_without_file_stores_nothing(caller, key, message):
    answer = caller.http.post(
        caller.sandbox.upload_url, data={"fa": "c.apiupload", "api_key": key, "destfolderid": FOLDER, "filedata": "x"}
    )
    assert answer.headers["content-type"] == "application/xml;charset=UTF-8"
    assert message.replace("&apos;", "'") in answer.text
    assert caller.sandbox.assets() == []
    assert caller.http.get(f"{caller.sandbox.address}/_sandbox/log").json()["upload"] == 0


def test_form_without_file_uses_up_no_fault(caller):
    lost = FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, status=500, times=1)
    caller.sandbox.set_faults(lost)
    form = {"fa": "c.apiupload", "api_key": KEY}
    assert caller.http.post(caller.sandbox.upload_url, data=form).status_code == 200
    assert [caller.upload().status_code, caller.upload().status_code] == [500, 200]
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    assert "Login not valid!" in caller.http.post(caller.sandbox.upload_url, data=form).text


@pytest.mark.parametrize("path", ["", "/", "/index.cfm"])
@pytest.mark.parametrize(
    ("strays", "status", "kind", "location"),
    [
        ("missing", 404, "text/plain; charset=utf-8", None),
        ("redirect", 302, None, "/razuna/login.cfm"),
        ("html", 200, "text/html;charset=ISO-8859-1", None),
    ],
)
def test_address_without_tenant_is_no_upload(make_caller, path, strays, status, kind, location):
    caller = make_caller(strays=strays)
    answer = caller.http.post(caller.sandbox.base_url + path, data={"fa": "c.apiupload", "api_key": KEY})
    found = answer.status_code, answer.headers.get("content-type"), answer.headers.get("location")
    assert found == (status, kind, location)
    if location:
        assert "name='pass'" in caller.http.get(caller.sandbox.address + location).text


def test_proxy_refuses_a_large_body(make_caller):
    caller = make_caller(proxy_limit=10_000)
    assert caller.upload(content=b"x" * 9000).status_code == 200
    assert caller.raw(b"", 20_000).startswith(b"HTTP/1.1 413")
    assert len(caller.sandbox.assets()) == 1


def is_processed(caller, name, **fields):
    """Return whether an upload is processed, None if it is not stored."""
    assetid = caller.uploaded(name, metadata="1", **fields)
    return next((asset.processed for asset in caller.sandbox.assets() if asset.id == assetid), None)


@pytest.mark.parametrize(("name", "processed"), [("a.png", True), ("a.pdf", False), ("a.mp4", False), ("a.mp3", False)])
def test_unknown_custom_field_keeps_file_unprocessed(make_caller, name, processed):
    caller = make_caller(custom_fields=["known-1"])
    assert is_processed(caller, name, **{"metacf_known-1": "x"})
    assert is_processed(caller, name, **{"metacf_other-2": "x"}) is processed


def test_unknown_custom_field_drops_later_metadata(make_caller):
    caller = make_caller(custom_fields=["known-1"])
    fields = {
        "meta_img_description": "kept",
        "metacf_other-2": "lost",
        "metacf_known-1": "lost",
        "meta_location": "lost",
    }
    caller.upload("a.png", metadata="1", **fields)
    (asset,) = caller.sandbox.assets()
    assert {name: value for name, value in asset.metadata.items() if value in ("kept", "lost")} == {
        "meta_img_description": "kept"
    }


@pytest.mark.parametrize(
    ("ending", "length", "processed"),
    [
        (".pdf", 200, True),
        (".pdf", 201, False),
        (".mp3", 201, False),
        (".zip", 201, False),
        (".png", 201, True),
        (".mp4", 196, True),
        (".mp4", 197, None),
    ],
)
def test_long_name_keeps_file_unprocessed(make_caller, ending, length, processed):
    caller = make_caller(longest_name=200)
    assert is_processed(caller, "x" * (length - 4) + ending, zip_extract="0") is processed
