"""The page that finds files and the page of one file, from a real ledger.

Covers `status/file_page.py`, `status/shell.py` and `ledger/deliveries.py`.
"""

import html
import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from pydantic import SecretStr

import assetsync.log as log_module
from assetsync.errors import LedgerError
from assetsync.ledger.queue import Intent
from assetsync.log import register_secret
from assetsync.model import NextTry
from tests.status.conftest import Shown

HOSTILE = b'<img src=x onerror="alert(1)">&caf\xe9\n{{ 7*7 }}.jpg'


def said(reply):
    text = re.sub(r"(?s)<(style|script)>.*?</\1>", "", reply.body.decode())
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text)))


def files(shown, query=""):
    return shown.board.questions()["/files"](query)


def file(shown, path):
    return shown.board.questions()["/file"](f"path={quote(path, safe='')}")


def links(reply):
    return [html.unescape(found) for found in re.findall(r'href="(file\?[^"]*)"', reply.body.decode())]


def test_part_of_a_name_finds_the_file(shown):
    world = shown.world
    world.write("photos/IMG_0003.jpg")
    world.write("photos/other.jpg", b"other")
    world.scan_and_send()
    answer = files(shown, "q=img_0003")
    assert answer.status == 200
    assert "1 file found" in said(answer)
    assert "Sent, not read back yet" in said(answer)
    (address,) = links(answer)
    page = shown.board.questions()["/file"](address.partition("?")[2])
    assert "IMG_0003.jpg : Sent, not read back yet" in said(page)


def test_asset_id_finds_the_file(shown):
    shown.world.write("photos/a.jpg")
    shown.world.scan_and_send()
    assetid = shown.world.row("photos/a.jpg").assetid
    answer = files(shown, f"q={assetid.lower()}")
    assert f"1 file for asset {assetid}" in said(answer)
    assert links(answer) == ["file?path=photos/a.jpg"]


def test_absolute_path_below_the_root_is_found(shown):
    shown.world.write("photos/a.jpg")
    shown.world.scan()
    assert links(files(shown, f"q={quote(str(shown.world.config().root))}/photos/a.jpg")) == ["file?path=photos/a.jpg"]


def test_only_the_first_fifty_are_listed(shown):
    for number in range(60):
        shown.world.write(f"IMG_{number:03}.jpg", b"%d" % number)
    shown.world.scan()
    answer = files(shown, "q=IMG_")
    assert len(links(answer)) == 50
    assert "60 files found" in said(answer)
    assert "And 10 more." in said(answer)


def test_nothing_found_says_what_is_searched(shown):
    assert "No file known here has zebra in its name" in said(files(shown, "q=zebra"))


def test_search_says_while_names_are_read(shown, monkeypatch):
    shown.world.write("a.jpg")
    monkeypatch.setattr(shown.board._find.search, "_reach", lambda: (5_000, 20_000))
    answer = files(shown, "q=zebra")
    assert "No file found so far" in said(answer)
    assert "25 % are done" in said(answer)


def test_hostile_name_is_text_and_has_a_page(shown):
    shown.world.write(HOSTILE)
    shown.world.scan_and_send()
    found = files(shown, f"q={quote('<img')}")
    (address,) = links(found)
    page = shown.board.questions()["/file"](address.partition("?")[2])
    for answer in (found, page, files(shown)):
        text = answer.body.decode()
        assert "<img" not in text
        assert "49" not in said(answer)
        assert "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;&amp;caf\ufffd\\n{{ 7*7 }}.jpg" in text


@pytest.mark.parametrize("query", ["", "q=", "q=%00", "q=%ff", "q=" + "a" * 5000, "&" * 50, "q=a&q=b", "x"])
def test_odd_queries_are_answered(shown, query):
    assert files(shown, query).status == 200


@pytest.mark.parametrize("path", ["", "nothing.jpg", "../../etc/passwd", "/etc/passwd", "%00", "photos"])
def test_page_of_a_path_outside_the_ledger_is_404(shown, path):
    answer = file(shown, path)
    assert answer.status == 404
    assert "root:" not in answer.body.decode()


def test_blocked_file_shows_reason_and_help(shown):
    world = shown.world
    world.write("big.jpg")
    world.scan()
    world.ledger.queue.block(world.row("big.jpg").id, "changed", "size differs: `assetsync check`", world.clock.now())
    text = said(file(shown, "big.jpg"))
    assert "big.jpg : Blocked" in text
    assert "Why size differs: assetsync check" in text
    assert "What helps assetsync retry --send-again big.jpg" in text


def test_waiting_file_shows_its_next_try(shown):
    shown.world.write("a.jpg")
    shown.world.scan()
    shown.due = NextTry(0.0, "brake", "once brake 7 is released: assetsync status tells why", is_timed=False)
    text = said(file(shown, "a.jpg"))
    assert "Next try once brake 7 is released" in text
    assert "It waits to be sent." in text


def test_next_try_names_the_file_in_its_command(shown):
    shown.world.write("a.jpg")
    shown.world.scan()
    why = "it is sent when that comes; `assetsync retry --without-sidecar PATH` sends it without"
    shown.due = NextTry(0.0, "no_sidecar", why, is_timed=False)
    assert "assetsync retry --without-sidecar a.jpg sends it without" in said(file(shown, "a.jpg"))


def test_history_has_earlier_versions_and_uploads(shown):
    world = shown.world
    world.write("a.jpg", b"first")
    world.scan_and_send()
    world.write("a.jpg", b"the second one")
    world.scan_and_send()
    text = said(file(shown, "a.jpg"))
    assert "Earlier versions Replaced by a newer version: 5 bytes" in text
    assert text.count("as a.jpg: ") == 2


@pytest.mark.parametrize("is_set", [True, False])
def test_asset_is_linked_only_if_its_address_is_known(shown, is_set):
    world = shown.world
    world.write("a.jpg")
    world.scan_and_send()
    if is_set:
        config = shown.board._file._config
        service = config.service.model_copy(update={"asset_url": "https://dam.example.com/?a=1&id={assetid}"})
        shown.board._file._config = config.model_copy(update={"service": service})
    expected = f'href="https://dam.example.com/?a=1&amp;id={world.row("a.jpg").assetid}"'
    assert (expected in file(shown, "a.jpg").body.decode()) is is_set


def test_page_shows_uploads_in_flight(shown):
    world = shown.world
    world.write("film.mov", b"x" * 1000)
    world.scan()
    row = world.row("film.mov")
    intent = Intent(row.id, row.destfolderid, "film.mov", "boundary", row.stat, None, "digest")
    world.ledger.queue.begin(intent, world.clock.now())
    world.clock.advance(10)
    assert "film.mov 1.0 KB \u2013 \u2013 \u2013" in said(files(shown))
    shown.live = replace(shown.live, sent={row.id: 250})
    assert "film.mov 1.0 KB 25 % 25 bytes/s 30 s" in said(files(shown))
    assert '<progress max="100" value="25" aria-label="film.mov">' in files(shown).body.decode()


def test_page_shows_what_comes_next_and_came_last(shown):
    world = shown.world
    world.write("sent.jpg", b"sent")
    world.scan_and_send()
    world.write("later.jpg", b"later one")
    world.scan()
    text = said(files(shown))
    assert "Next File Size When later.jpg 9 bytes when its turn comes" in text
    assert "Delivered last File Size Sent State sent.jpg 4 bytes 0 s ago Sent, not read back yet" in text


def test_pages_have_no_secret(shown, monkeypatch):
    monkeypatch.setattr(log_module, "_SECRETS", log_module._Secrets())
    key = 'C4n4ry&<k>"3y'
    register_secret(SecretStr(key))
    shown.world.write(f"a {key}.jpg")
    shown.world.scan()
    world = shown.world
    world.ledger.queue.block(world.row(f"a {key}.jpg").id, "changed", f"it said {key}", world.clock.now())
    for answer in (files(shown), files(shown, "q=jpg"), file(shown, f"a {key}.jpg")):
        assert "C4n4ry" not in re.sub(r'href="[^"]*"', "", answer.body.decode())


def test_one_search_runs_at_a_time(shown, monkeypatch):
    monkeypatch.setattr("assetsync.status.board._PATIENCE", 0.01)
    with shown.board._searches, pytest.raises(LedgerError, match="busy"):
        files(shown, "q=abc")
    assert files(shown, "q=abc").status == 200


def test_indexing_pauses_between_its_steps(shown):
    shown.world.write("a.jpg")
    shown.world.scan()
    assert shown.board.index_paths() == 5.0
    assert shown.board._find.search._indexed == 1


def test_file_that_waits_for_its_sidecar_says_so(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "sidecars": "required"}])
    shown = Shown(world)
    world.write("it's.jpg")
    world.scan_and_send()
    assert "it's.jpg Waiting for its sidecar" in said(files(shown, "q=it's"))
    status = said(shown.get("/"))
    assert "Waiting for their own sidecars" in status
    assert "Nothing waits." not in status
    assert "not before" not in said(files(shown))
    assert "when its sidecar has come" in said(files(shown))
    text = said(file(shown, "it's.jpg"))
    assert "it's.jpg : Waiting for its sidecar" in text
    assert "It waits for a YAML or XMP file of its own." in text
    assert "assetsync retry --without-sidecar 'it'\\''s.jpg' sends it without" in text
    world.write("it's.jpg.yaml", b"description: d")
    world.hint("it's.jpg.yaml")
    world.send()
    assert "Sent, not read back yet" in said(file(shown, "it's.jpg"))
