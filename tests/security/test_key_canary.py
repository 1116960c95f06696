"""The API key is in no output and no file, though the service knows it and may quote it wherever it likes."""

import html
import json
import os
import signal
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from assetsync.core.outcome import is_sound_id

SOUND_KEY = "C4N4RY0123456789ABCDEF"
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("files", "--all"),
    ("files", "--all", "--json"),
    ("explain", "photos/a.jpg"),
    ("explain", "--json", "photos/a.jpg"),
    ("doubt list",),
    ("doubt list", "--json"),
    ("orphans",),
    ("orphans", "--json"),
    ("export", "--format", "csv"),
    ("export", "--format", "jsonl"),
    ("check",),
    ("check", "--json"),
    ("search", "x"),
    ("search", "--json", "x"),
    ("search", "--csv", "x"),
    ("search", "--all-pages", "x"),
    ("search", "--wire", "row", "x"),
    ("index", "A1"),
    ("index", "--json", "A1"),
)


def entities(text: str) -> str:
    return "".join(f"&#{ord(character)};" for character in text)


def refusing(message: str, code: str = "1", **more: str) -> str:
    fields = "".join(f"<{name}>{text}</{name}>" for name, text in more.items())
    return f"<Response><responsecode>{code}</responsecode><message>{message}</message>{fields}</Response>"


def success(assetid: str, **more: str) -> str:
    return refusing("success", "0", assetid=assetid, **more)


UPLOADS = {
    "plain": lambda key: refusing(f"odd {html.escape(key)}"),
    "entities": lambda key: refusing(f"odd {entities(key)}"),
    "cdata": lambda key: refusing(f"odd <![CDATA[{key}]]>"),
    "url": lambda key: refusing(f"odd {quote(key, safe='')}"),
    "code": lambda key: refusing("odd", code=entities(key)),
    "referrer": lambda key: success("A1", comingfrom=entities(key), renamefilebody=entities(key)),
    "key refused": lambda key: refusing(f"Login not valid! {entities(key)}"),
    "folder": lambda key: refusing(f"Specified folder '{entities(key)}' does not exist"),
    "page": lambda key: f"<html>{html.escape(key)}</html>",
    "id": success,
}


def files_with(folder: Path, key: str) -> list[str]:
    return [
        path.name
        for path in folder.iterdir()
        if path.is_file() and path.name != "key" and key.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("quoting", UPLOADS)
def test_key_in_upload_answer_is_never_output(hostile, make_site, tools, quoting):
    """The service quotes the key in each place of an upload's answer, even as the asset's id."""
    key = SOUND_KEY if quoting == "id" else tools.key

    def answer(request):
        if request.kind == "upload":
            return tools.http(UPLOADS[quoting](key), "text/xml;charset=UTF-8")
        return tools.rows() if request.kind == "search" else tools.http('{"responsecode":0,"message":"ok"}')

    server = hostile(answer)
    site = make_site(server)
    site.configure(key=key)
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    for command, *arguments in COMMANDS[:12]:
        site.run(command, *arguments)
    site.run("upload", "--folder", tools.folder, "--send-again", str(site.photos / "a.jpg"))
    assert len(server.posts) >= 2
    assert key.encode() in server.posts[0].body
    assert key not in site.shown
    assert files_with(site.folder, key) == []


def test_asset_with_key_as_id_is_rejected(hostile, make_site, tools):
    assert is_sound_id(SOUND_KEY)
    row = (SOUND_KEY, "a.jpg", tools.folder, 10, None, "img", 0)
    server = hostile(lambda request: tools.accepted(SOUND_KEY) if request.kind == "upload" else tools.rows(row))
    site = make_site(server)
    site.configure(key=SOUND_KEY)
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    assert site.states() == {"photos/a.jpg": "in_doubt"}
    assert SOUND_KEY not in site.shown
    assert files_with(site.folder, SOUND_KEY) == []


@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_key_in_rows_and_messages_is_redacted(hostile, make_site, tools, escaped):
    """The service repeats the key in names, messages and errors; neither output, log nor ledger holds it."""
    said = "".join(f"\\u{ord(c):04x}" for c in tools.key) if escaped else json.dumps(tools.key)[1:-1]

    def answer(request):
        if request.kind == "upload":
            return tools.accepted("A1")
        if request.kind == "index":
            return tools.http(f'{{"responsecode":0,"message":"done with {said}"}}')
        row = f'["B1","{said}.jpg","{tools.folder}",10,null,"{said}","0","{said}"]'
        names = '["id","filename","folder_id","size","md5hash","kind","responsecode","calledwith"]'
        return tools.http(f'{{"COLUMNS":{names},"DATA":[{row},["{said}","x","{said}",1,null,"img","0","x"]]}}')

    site = make_site(hostile(answer))
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s", "--adopt")
    shown = site.run("search", "--json", "x").out
    assert "B1" in shown
    for command, *arguments in COMMANDS:
        # What is asked for as it comes is only searched for the key as it is.
        if not (escaped and "--wire" in arguments):
            site.run(command, *arguments)
    assert tools.key not in site.shown
    assert files_with(site.folder, tools.key) == []


@pytest.mark.parametrize("form", ['{{"message":"{0}","errorcode":1}}', "<html>{0}</html>", "{0}", "[{0}"])
def test_key_in_error_is_redacted(hostile, make_site, tools, form):
    site = make_site(hostile(lambda _request: tools.http(form.format(tools.key))))
    site.write("a.jpg")
    for command, *arguments in (("reconcile", "--wait", "0s"), ("check",), ("search", "x"), ("index", "A1")):
        assert site.run(command, *arguments).code == 3
    assert tools.key not in site.shown
    assert files_with(site.folder, tools.key) == []


def test_the_key_is_in_no_list_of_processes(hostile, make_site, tools):
    """Look for the key in the command line, environment and descriptors of a run that is uploading."""
    server = hostile(lambda request: tools.rows() if request.kind == "search" else None)
    site = make_site(server)
    site.write("a.jpg")
    process = site.start("reconcile")
    try:
        deadline = time.monotonic() + 15
        while not server.posts:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        place = Path(f"/proc/{process.pid}")
        known = [(place / name).read_bytes() for name in ("cmdline", "environ", "comm")]
        known += [os.fsencode(os.readlink(link)) for link in (place / "fd").iterdir() if link.is_symlink()]
        assert tools.key.encode() not in b"\n".join(known)
    finally:
        server.over.set()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert tools.key.encode() not in out + err


def test_ledger_write_error_omits_the_key(hostile, make_site, tools, obliging):
    site = make_site(hostile(obliging))
    site.write("a.jpg")
    site.ledger.write_bytes(os.urandom(8192))
    assert site.run("reconcile", "--wait", "0s").code == 2
    assert tools.key not in site.shown


@pytest.mark.parametrize("place", ["key", "ledger"])
def test_key_linked_into_the_tree_is_refused(hostile, make_site, obliging, place):
    server = hostile(obliging)
    site = make_site(server)
    site.write("a.jpg")
    link = site.folder / "elsewhere"
    link.symlink_to(site.photos)
    site.configure(**({"key_file": link / "k"} if place == "key" else {"ledger": link / "l.db"}))
    before = sorted(site.photos.iterdir())
    result = site.run("reconcile", "--wait", "0s")
    assert (result.code, result.out) == (2, "")
    assert "is inside root" in result.err
    assert sorted(site.photos.iterdir()) == before
    assert not server.posts


def test_key_file_in_tree_is_refused(hostile, make_site, obliging):
    site = make_site(hostile(obliging))
    site.configure(key_file=site.photos / "k")
    result = site.run("check")
    assert result.code == 2
    assert "service.api_key_file: it is inside root" in result.out
