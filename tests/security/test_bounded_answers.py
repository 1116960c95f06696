"""What a service may answer, and what it may not: rows without end, names without end, texts that no database takes."""

import hashlib
import itertools
import json
import threading
import time
import tracemalloc
from contextlib import suppress

import pytest
from pydantic import SecretStr

from assetsync.errors import BadAnswer, ServiceError, ServiceUnreachable
from assetsync.model import SearchRequest
from assetsync.service.client import HttpService, ServiceSettings
from assetsync.service.json_stream import VALUE_LIMIT
from assetsync.service.records import LONGEST_TEXT, WHOLE_LIMIT, RecordStream, RowReader

MOST = 4 * max(WHOLE_LIMIT, VALUE_LIMIT)
JSON = "application/json;charset=UTF-8"
PIECE = b"x" * 65536


def endless(start: bytes, again, taken: list[int]):
    yield start
    for number in itertools.count():
        piece = again(number)
        taken[0] += len(piece)
        assert taken[0] < MOST, "it reads on for ever"
        yield piece


@pytest.mark.parametrize(
    ("start", "again"),
    [
        pytest.param(b'{"DATA":[', lambda n: b'["%d","' % n + PIECE + b'"],', id="rows before their columns"),
        pytest.param(b'{"DATA":[', lambda _n: b"[]," * 20_000, id="many empty rows before their columns"),
        pytest.param(b'{"COLUMNS":["id"],"DATA":[["', lambda _n: PIECE, id="one row"),
        pytest.param(b'{"', lambda _n: PIECE, id="one name"),
        pytest.param(b'{"COLUMNS":["id"],"DATA":{"id":[', lambda _n: b"1," * 32768, id="one column"),
        pytest.param(b'{"COLUMNS":["id"],"DATA":[', lambda _n: b"[" * 65536, id="nesting"),
        pytest.param(b'{"COLUMNS":["id"],"DATA":[', lambda _n: b"9" * 65536, id="one number"),
        pytest.param(b"<html>", lambda _n: PIECE, id="a page"),
        pytest.param(b"<wddxPacket>", lambda _n: b"<a/>" * 16384, id="a packet"),
    ],
)
def test_endless_answer_is_abandoned(start, again):
    taken = [0]
    with pytest.raises(BadAnswer):
        list(RecordStream(JSON, endless(start, again, taken)))


def test_unrequested_names_are_not_kept():
    text = "x" * 100_000
    pieces = [b"{"] + [f'"n{number}":"{text}",'.encode() for number in range(50)]
    tracemalloc.start()
    found = [asset.id for asset in RecordStream(JSON, [*pieces, b'"COLUMNS":["id"],"DATA":[["A1"]]}'])]
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == ["A1"]
    # The pieces themselves were there before: what was read from them is one value at a time.
    assert most < 20 * len(text)


def test_an_entity_bomb_is_no_packet():
    bomb = b'<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><wddxPacket>&c;</wddxPacket>'
    with pytest.raises(BadAnswer):
        list(RecordStream("text/xml", [bomb]))


@pytest.mark.parametrize(
    ("column", "value", "read"),
    [
        ("filename", "x\ud800y", "x\ufffdy"),
        ("filename", "n" * 5_000_000, "n" * LONGEST_TEXT),
        ("filename", "the secret one", "the *** one"),
        ("folder_id", "A B\x1b[31m", ""),
        ("folder_id", "F" * 65, ""),
        ("folder_id", "F_1-2", "F_1-2"),
        ("folder_id", "secret", ""),
        ("kind", "k" * 5000, "k" * LONGEST_TEXT),
        ("size", 1e999, None),
        ("size", "9" * 400, None),
        ("size", -1, None),
        ("size", True, None),
    ],
)
def test_what_a_row_says_is_fit_to_be_kept(column, value, read):
    names = ["id", "filename", "folder_id", "kind", "size"]
    row = {"id": "A1", "filename": "a", "folder_id": "F", "kind": "img", "size": 1} | {column: value}
    asset = RowReader(names, ["secret"]).read([row[name] for name in names])
    assert getattr(asset, column) == read


@pytest.mark.parametrize("assetid", ["A'; DROP TABLE files--", "\x1b[31mA", "A" * 65, "", "secret", 7, None, ["A"]])
def test_what_is_no_id_is_no_asset(assetid):
    reader = RowReader(["id"], ["secret"])
    assert (reader.read([assetid]), reader.unreadable) == (None, 1)


def test_non_json_numbers_are_rejected(hostile, make_site, tools):
    row = f'["A1","x","{tools.folder}",NaN,null,1e999,0]'
    names = json.dumps(["id", "filename", "folder_id", "size", "md5hash", "kind", "responsecode"])
    site = make_site(hostile(lambda _request: tools.http(f'{{"COLUMNS":{names},"DATA":[{row}]}}')))
    shown = json.loads(site.run("search", "--json", "x").out)
    assert (shown["size"], shown["kind"]) == (None, None)


@pytest.fixture
def service(hostile):
    services = []

    def make(server, read_timeout: float) -> HttpService:
        url = f"http://127.0.0.1:{server.port}"
        settings = ServiceSettings(url, url, SecretStr("k"), read_timeout=read_timeout)
        services.append(HttpService(settings))
        return services[-1]

    yield make
    for made in services:
        made.close()


def test_trickling_search_is_abandoned(hostile, service, tools, within):
    """A byte that comes every 50 ms does not renew the read timeout."""
    server = hostile(lambda _request: None)

    def drip(conn):
        with conn, suppress(OSError):
            conn.recv(65536)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{")
            while not server.over.wait(0.05):
                conn.sendall(b" ")

    server._serve = drip
    made = service(server, 0.5)

    def look():
        with made.search(SearchRequest("x")) as found:
            return list(found)

    assert isinstance(within(20, look), ServiceUnreachable)


def test_closing_client_wakes_its_waiters(hostile, service, within):
    server = hostile(lambda _request: None)
    made = service(server, 60)

    def look():
        with made.search(SearchRequest("x")) as found:
            return list(found)

    def close_soon():
        while not server.requests:
            time.sleep(0.01)
        made.close()

    threading.Thread(target=close_soon, daemon=True).start()
    assert isinstance(within(20, look), ServiceError)


def test_repeated_upload_id_is_believed_once(hostile, make_site, tools, obliging):
    def answer(request):
        if request.kind == "upload":
            return tools.accepted("SAME")
        return obliging(request)

    server = hostile(answer)
    site = make_site(server)
    for number in range(4):
        site.write(f"{number}.jpg", b"%d" % number)
    site.run("reconcile", "--wait", "0s")
    assert len(server.posts) == 4
    assert sorted(site.states().values()) == ["in_doubt", "in_doubt", "in_doubt", "stored"]


def test_asset_elsewhere_ends_no_doubt(hostile, make_site, tools):
    # The MD5 is that of the file, but it is not in the folder that was asked for.
    md5 = hashlib.md5(b"some bytes").hexdigest()

    def answer(request):
        if request.kind == "upload":
            return b""
        return tools.rows(("A1", "a.jpg", "ELSEWHERE", 10, md5, "img", 0)) if server.posts else tools.rows()

    server = hostile(answer)
    site = make_site(server)
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    assert site.states() == {"photos/a.jpg": "in_doubt"}
