"""Each parameter, syntax and format that the interface documents, by curl against the documented dialect.

The titles name the sections of the interface. A value inside round brackets stands as it is (section 4.1.1).
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree.ElementTree import fromstring

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings

KEY = "documented-key"
FOLDER = "A6CE649FAA5F434EB513CA15656AB5AA"
# fmt: off
COLUMNS = [
    "id", "filename", "folder_id", "extension", "video_image", "filename_org", "kind", "extension_thumb",
    "path_to_asset", "cloud_url", "cloud_url_org", "size", "width", "height", "description", "keywords", "rowtotal",
    "local_url_org", "local_url_thumb", "responsecode", "totalassetscount", "calledwith", "colid",
]
# fmt: on
NAMES = ["a.jpg", "b.jpg", "c.mp4", "d.mp3", "e.pdf", "f.xls"]

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")


def curl(*words: str) -> str:
    """Return the answer with its headers."""
    done = subprocess.run(["curl", "-gsSi", *words], check=True, capture_output=True, timeout=30)
    return done.stdout.decode()


def upload(sandbox: Sandbox, file: Path, *fields: str, query: str = "") -> str:
    given = [word for field in fields for word in ("-F", field)]
    return curl(*given, "-F", f"filedata=@{file}", sandbox.upload_url + query)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("files")
    for number, name in enumerate([*NAMES, "archive.bin"], 1):
        (made / name).write_bytes(b"x" * number)
    return made


def started(**settings: object) -> Sandbox:
    return Sandbox(SandboxSettings(dialect="documented", api_key=KEY, folders={FOLDER: "photos"}, **settings))


PLAIN = ("fa=c.apiupload", f"api_key={KEY}", f"destfolderid={FOLDER}")
WRITING = (*PLAIN, "metadata=1", "meta_lang_id_r=1")


@pytest.fixture(scope="module")
def filled(folder):
    """A service with a file of each kind, of which the first has metadata, labels and custom fields."""
    with started() as sandbox:
        described = (
            "meta_img_description=The old harbour",
            "meta_img_keywords=boat,dawn",
            "meta_labels=Ports/Oslo,my label",
            "metacf_7F3A=red,blue",
        )
        for name in NAMES:
            more = described if name == "a.jpg" else ()
            assert "<Response>0</Response>" in upload(sandbox, folder / name, *WRITING, *more)
        yield sandbox


@pytest.fixture
def empty():
    with started() as sandbox:
        yield sandbox


def call(sandbox: Sandbox, query: str) -> str:
    answer = curl(f"{sandbox.base_url}/global/api2/search.cfc?{query}&api_key={KEY}")
    return answer.partition("\r\n\r\n")[2].strip()


def found(sandbox: Sandbox, query: str) -> list[dict[str, object]]:
    answer = json.loads(call(sandbox, f"method=searchassets&{query}"))
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["data"]]


ALL, PICTURES = NAMES, ["a.jpg", "b.jpg"]
BEFORE, AFTER = "2000-01-01%2000:00:00", "2100-01-01%2000:00:00"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        # 4.1
        ("searchfor=*", ALL),
        ("searchfor=*&show=all", ALL),
        ("searchfor=*&show=img", PICTURES),
        ("searchfor=*&show=vid", ["c.mp4"]),
        ("searchfor=*&show=aud", ["d.mp3"]),
        ("searchfor=*&show=doc", ["e.pdf", "f.xls"]),
        ("searchfor=*&show=doc&doctype=", ["e.pdf", "f.xls"]),
        ("searchfor=*&show=doc&doctype=pdf", ["e.pdf"]),
        ("searchfor=*&show=doc&doctype=xls", ["f.xls"]),
        ("searchfor=*&show=doc&doctype=doc", []),
        ("searchfor=*&show=doc&doctype=other", []),
        ("searchfor=*&datecreate=2000-01-01", []),
        ("searchfor=*&datecreate=20000101", []),
        ("searchfor=*&datechange=2000-01-01", []),
        ("searchfor=*&datecreaterange=20000101%20TO%2021000101", ALL),
        ("searchfor=*&datechangerange=20000101%20TO%2020000102", []),
        (f"searchfor=*&folderid={FOLDER}", ALL),
        ("searchfor=*&folderid=0123", []),
        ("searchfor=*&sortby=name", ALL),
        ("searchfor=*&sortby=sizedesc", ALL[::-1]),
        ("searchfor=*&sortby=sizeasc", ALL),
        ("searchfor=*&sortby=dateadd", ALL[::-1]),
        ("searchfor=*&sortby=datechanged", ALL[::-1]),
        ("searchfor=*&available=1", ALL),
        ("searchfor=*&available=0", []),
        ("searchfor=*&maxrows=2", ALL[:2]),
        ("searchfor=*&startrow=3&maxrows=2", ALL[2:4]),
        ("searchfor=*&showrenditions=false", ALL),
        # The database.
        ("searchfor=%25.jpg&dbdirect=true", PICTURES),
        ("searchfor=a.jpg&dbdirect=true", ["a.jpg"]),
        ("searchfor=harbour&dbdirect=true", []),
        ("searchfor=%25&dbdirect=true&show=img&doctype=pdf", ALL),
        ("searchfor=%25&dbdirect=true&maxrows=2", ALL[:2]),
        ("searchfor=%25&dbdirect=true&startrow=3&maxrows=2", ALL[2:4]),
        (f"searchfor=%25&dbdirect=true&datecreateparam=%3E&datecreatestart={BEFORE}", ALL),
        (f"searchfor=%25&dbdirect=true&datecreateparam=%3C&datecreatestart={BEFORE}", []),
        (f"searchfor=%25&dbdirect=true&datecreateparam=%3D%3E&datecreatestart={AFTER}", []),
        (f"searchfor=%25&dbdirect=true&datecreateparam=%3D%3C&datecreatestart={AFTER}", ALL),
        (
            f"searchfor=%25&dbdirect=true&datechangeparam=between&datechangestart={BEFORE}&datechangestop={AFTER}",
            ALL,
        ),
        (f"searchfor=%25&datecreateparam=%3C&datecreatestart={BEFORE}", []),
        # 4.1.1
        ("searchfor=harbour", ["a.jpg"]),
        ("searchfor=harb*", ["a.jpg"]),
        ("searchfor=keywords:dawn", ["a.jpg"]),
        ("searchfor=description:harbour", ["a.jpg"]),
        ("searchfor=labels:(my+label)", ["a.jpg"]),
        ("searchfor=labels:(Ports/Oslo),(my+label)", ["a.jpg"]),
        ("searchfor=labels:(Ports/Oslo),(another)", []),
        ("searchfor=customfieldvalue:(%2B7F3A%20%2Bred)", ["a.jpg"]),
        ("searchfor=customfieldvalue:(+7F3A++red)", ["a.jpg"]),
        ("searchfor=customfieldvalue:(+7F3A++red++blue)", ["a.jpg"]),
        ("searchfor=customfieldvalue:(+7F3A++red)%20AND%20customfieldvalue:(+7F3A++green)", []),
    ],
)
def test_search_example_finds_its_assets(filled, query, names):
    assert [row["filename"] for row in found(filled, query)] == names


def test_search_without_maxrows_has_25_rows(empty, folder):
    for number in range(26):
        upload(empty, folder / "a.jpg", *PLAIN[:2], f"destfolderid={FOLDER};type=text/plain", f"number={number}")
    for query in ("searchfor=a*", "searchfor=%25&dbdirect=true"):
        assert len(found(empty, query)) == 25
        assert len(found(empty, f"{query}&startrow=26")) == 1


@pytest.mark.parametrize("query", ["searchfor=*", "searchfor=%25&dbdirect=true"])
def test_row_has_documented_values(filled, query):
    row = found(filled, f"{query}&maxrows=1")[0]
    assert [name for name in row if name in COLUMNS] == COLUMNS
    texts = set(COLUMNS) - {"width", "height", "rowtotal", "responsecode", "totalassetscount"}
    assert {name for name in COLUMNS if isinstance(row[name], str)} == texts
    assert {name for name in COLUMNS if isinstance(row[name], int)} == set(COLUMNS) - texts
    assert (row["responsecode"], row["totalassetscount"], row["rowtotal"]) == (0, 6, 6)
    assert row["calledwith"] in ("*", "%")


def test_available_0_finds_unprocessed_assets(folder):
    with started(processing_delay=3600) as sandbox:
        upload(sandbox, folder / "a.jpg", *PLAIN)
        for query in ("searchfor=a*", "searchfor=%25&dbdirect=true"):
            assert len(found(sandbox, f"{query}&available=0")) == 1
            assert found(sandbox, query) == []


@pytest.mark.parametrize(
    ("switches", "begins"),
    [
        ("", '{"columns":'),
        ("&BDQUERYFORMAT=column", '{"rowcount":6,"columns":'),
        ("&BDRETURNFORMAT=jsonp&callback=show", 'show({"columns":'),
        ("&BDQUERYFORMAT=column&BDRETURNFORMAT=jsonp&callback=show", 'show({"rowcount":6,'),
        ("&__BDRETURNFORMAT=wddx", "<wddxPacket"),
        # Only the documented names count.
        ("&__BDQUERYFORMAT=column", '{"columns":'),
        ("&__BDRETURNFORMAT=jsonp&callback=show", '{"columns":'),
        ("&BDRETURNFORMAT=wddx", '{"columns":'),
    ],
)
def test_format_has_its_switch(filled, switches, begins):
    assert call(filled, f"method=searchassets&searchfor=*{switches}").startswith(begins)


@pytest.mark.parametrize("assetid", ["one", "one,two", "all"])
def test_index_example_triggers_indexing(filled, assetid):
    ids = [asset.id for asset in filled.assets()]
    given = assetid.replace("one", ids[0]).replace("two", ids[1])
    said = call(filled, f"method=searchIndex&assetid={given}")
    assert re.fullmatch(r"\{responsecode:0,message:'.*successfully triggered'\}", said)


@pytest.mark.parametrize(
    "query", ["method=searchIndex", "method=searchassets", "searchfor=*"], ids=["assetid", "searchfor", "method"]
)
def test_required_parameter_is_missed(filled, query):
    said = call(filled, query)
    assert "successfully" not in said
    assert '"data"' not in said


@pytest.mark.parametrize("method", ["searchassets&searchfor=*", "searchIndex&assetid=all"])
def test_search_needs_the_parameter_api_key(filled, method):
    address = f"{filled.base_url}/global/api2/search.cfc?method={method}"
    for query in ("", "&api_key=another", f"&sessiontoken={KEY}"):
        assert "a.jpg" not in curl(address + query)
        assert "triggered" not in curl(address + query)


def fields_of(answer: str) -> dict[str, str]:
    return {one.tag: one.text or "" for one in fromstring(answer.partition("\r\n\r\n")[2].strip().encode())}


@pytest.mark.parametrize(
    ("name", "filetype"),
    [("a.jpg", "img"), ("c.mp4", "vid"), ("d.mp3", "aud"), ("e.pdf", "doc"), ("archive.bin", "other")],
)
def test_upload_answers_its_fields(empty, folder, name, filetype):
    said = fields_of(upload(empty, folder / name, *PLAIN))
    (asset,) = empty.assets()
    assert (said["Response"], said["assetid"], said["filetype"]) == ("0", asset.id, filetype)
    assert {"message", "comingfrom", "renamefilebody"} <= said.keys()


@pytest.mark.parametrize(
    "more",
    [
        ("debug=1", "emailto=dam@example.com"),
        ("metadata=0",),
        ("skip_event=on_file_add,on_file_edit",),
        ("upl_template=7",),
        ("zip_extract=0",),
    ],
)
def test_upload_takes_each_parameter(empty, folder, more):
    assert fields_of(upload(empty, folder / "a.jpg", *PLAIN, *more))["Response"] == "0"


def test_metadata_is_written(empty, folder):
    more = ("meta_img_description=old", "meta_img_keywords=boat", "meta_location=Bern")
    upload(empty, folder / "a.jpg", *PLAIN, "metadata=1", "meta_lang_id_r=2", *more)
    (row,) = found(empty, "searchfor=a*")
    assert (row["description"], row["keywords"]) == ("old", "boat")


@pytest.mark.parametrize("language", [(), ("meta_lang_id_r=",), ("meta_lang_id_r=English",)])
def test_metadata_needs_its_language(empty, folder, language):
    said = fields_of(upload(empty, folder / "a.jpg", *PLAIN, "metadata=1", "meta_img_description=old", *language))
    assert (said["Response"], empty.assets()) == ("1", [])


def test_metadata_is_not_written_unasked(empty, folder):
    upload(empty, folder / "a.jpg", *PLAIN, "meta_lang_id_r=1", "meta_img_description=old")
    assert found(empty, "searchfor=old") == []


def test_redirect_carries_the_answer(empty, folder):
    more = ("redirectto=https://app.example.com/done", "redirecttoparams=a=1&b=2")
    head = upload(empty, folder / "a.jpg", *PLAIN, *more)
    location = re.search(r"(?im)^location: (.*?)\r?$", head)[1]
    (asset,) = empty.assets()
    assert urlsplit(location)._replace(query="").geturl() == "https://app.example.com/done"
    said = {name: text for name, (text,) in parse_qs(urlsplit(location).query).items()}
    assert said == {"responsecode": "0", "message": "success", "assetid": asset.id, "a": "1", "b": "2"}
    assert location.endswith(f"assetid={asset.id}&a=1&b=2")


def test_file_field_alone_takes_parameters_from_the_url(empty, folder):
    query = f"?fa=c.apiupload&destfolderid={FOLDER}&zip_extract=0&sessiontoken={KEY}"
    assert fields_of(upload(empty, folder / "a.jpg", query=query))["Response"] == "0"


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        (("fa=c.apiupload", f"destfolderid={FOLDER}"), ""),
        (("fa=c.apiupload", f"destfolderid={FOLDER}", f"sessiontoken={KEY}"), ""),
        ((), f"?fa=c.apiupload&destfolderid={FOLDER}&api_key={KEY}"),
        (PLAIN[:2], ""),
        ((*PLAIN[:2], "destfolderid=0123"), ""),
    ],
    ids=["no key", "sessiontoken in the form", "api_key in the url", "no folder", "unknown folder"],
)
def test_upload_needs_key_and_folder(empty, folder, fields, query):
    assert "<Response>0</Response>" not in upload(empty, folder / "a.jpg", *fields, query=query)
    assert empty.assets() == []


def test_parameters_after_the_file_are_an_error(empty, folder):
    late = [word for field in PLAIN for word in ("-F", field)]
    answer = curl("-F", f"filedata=@{folder / 'a.jpg'}", *late, empty.upload_url)
    assert ("<Response>0</Response>" in answer, empty.assets()) == (False, [])


def test_too_much_content_is_error_10001(folder):
    with started(max_content_length=1000) as sandbox:
        (large := folder / "large.bin").write_bytes(b"x" * 2000)
        assert fields_of(upload(sandbox, large, *PLAIN))["Response"] == "10001"


@pytest.mark.parametrize(("more", "count"), [((), 2), (("zip_extract=1",), 2), (("zip_extract=0",), 1)])
def test_archive_is_extracted_by_default(empty, folder, tmp_path, more, count):
    archive = shutil.make_archive(str(tmp_path / "pictures"), "zip", folder, "a.jpg")
    upload(empty, Path(archive), *PLAIN, *more)
    assert len(empty.assets()) == count
