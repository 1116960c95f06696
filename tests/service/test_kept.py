"""Connections that stay open between requests, over real sockets: each answer names the connection it came by."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import httpcore
import pytest

from assetsync.model import Answer
from assetsync.service import connection
from assetsync.service.kept import Kept
from assetsync.service.stream import Stream

IDLE = 20


class Keeping:
    """A script that keeps its connections, and answers what is called `held.txt` when it is told to."""

    def __init__(self, wire_tools, *, answers=1000, together=1):
        self._read = wire_tools.request
        self._numbers = itertools.count(1)
        self._answers = answers
        self._together = threading.Barrier(together)
        self.held = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Semaphore(0)

    def __call__(self, conn):
        number = next(self._numbers)
        for _ in range(self._answers):
            head, body = self._read(conn)
            if not head:
                break
            if b'filename="held.txt"' in body:
                self.held.set()
                assert self.go_on.wait(10)
            if b'filename="together.txt"' in body:
                self._together.wait(10)
            answer = (
                b"<Response><responsecode>0</responsecode><message>success</message><assetid>C%d</assetid></Response>"
                % number
            )
            conn.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)
            )
        conn.close()
        self.ended.release()


@pytest.fixture
def by(make_body, make_request):
    """Upload a file, and give the connection that it went by."""

    def upload(client, name="a.txt"):
        outcome = client.upload(make_request(name), make_body(b"x")).outcome
        assert outcome.answer is Answer.ACCEPTED
        return outcome.assetid

    return upload


def at_once(client, by, count):
    """Make so many connections that are all in use at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return sorted(pool.map(lambda _: by(client, "together.txt"), range(count)))


def test_a_connection_carries_one_request_at_a_time_and_the_last_one_used_is_taken_next(serve, connect, wire_tools, by):
    script = Keeping(wire_tools)
    client = connect(serve(script).port, read_timeout=10.0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(by, client, "held.txt")
        assert script.held.wait(10)
        second = by(client)
        script.go_on.set()
        assert (first.result(), second) == ("C1", "C2")
    assert [by(client) for _ in range(3)] == ["C1"] * 3


def test_a_connection_that_the_service_has_closed_meanwhile_costs_no_doubt(serve, connect, wire_tools, by):
    script = Keeping(wire_tools, answers=1)
    client = connect(serve(script).port)
    used = []
    for _ in range(3):
        used.append(by(client))
        assert script.ended.acquire(timeout=10)
    assert used == ["C1", "C2", "C3"]


def test_a_connection_to_another_host_waits_for_its_own(serve, connect, wire_tools, by):
    """Only an accepted upload leaves a connection open: each call of the interface has its own."""

    def indexing(conn):
        while wire_tools.request(conn)[0]:
            body = b'{"COLUMNS":["responsecode","message"],"DATA":[[0,"done"]]}'
            conn.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )

    one, other = serve(Keeping(wire_tools)), serve(indexing)
    client = connect(one.port, base_url=f"http://127.0.0.1:{other.port}/razuna")
    for _ in range(3):
        assert by(client) == "C1"
        client.index(["A1"])
    assert (one.connections, other.connections) == (1, 3)


def test_a_connection_by_a_proxy_is_used_again(serve, connect, wire_tools, by):
    proxy = serve(Keeping(wire_tools))
    client = connect(9, proxy=f"http://127.0.0.1:{proxy.port}")
    assert [by(client) for _ in range(3)] == ["C1"] * 3


def test_connections_that_nobody_needs_any_more_are_closed(serve, connect, wire_tools, by, monkeypatch):
    monkeypatch.setattr(connection, "_KEEPALIVE_SECONDS", 0.05)
    script = Keeping(wire_tools, together=3)
    client = connect(serve(script).port, read_timeout=10.0)
    assert at_once(client, by, 3) == ["C1", "C2", "C3"]
    threading.Event().wait(0.1)
    assert by(client) == "C4"
    for _ in range(3):
        assert script.ended.acquire(timeout=10)


def test_a_request_looks_at_few_of_many_connections(serve, connect, wire_tools, by, monkeypatch):
    script = Keeping(wire_tools, together=IDLE)
    client = connect(serve(script).port, read_timeout=10.0)
    assert len(at_once(client, by, IDLE)) == IDLE
    looks = []
    known = Stream.get_extra_info
    monkeypatch.setattr(Stream, "get_extra_info", lambda self, info: looks.append(info) or known(self, info))
    by(client)
    assert looks.count("is_readable") == 2, "the one that is taken, and the one that may have waited too long"


def used_once(kept, origin):
    """Give a connection that has carried a request and could carry another."""
    used = kept.take(origin)
    url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=b"/")
    answer = used.handle_request(httpcore.Request("GET", url, headers=[(b"Host", b"x")]))
    answer.read()
    answer.close()
    assert used.is_idle()
    return used


def test_none_is_kept_or_given_once_all_are_closed(serve, wire_tools):
    origin = httpcore.Origin(b"http", b"127.0.0.1", serve(Keeping(wire_tools)).port)
    kept = Kept(httpcore.HTTPConnection)
    one, other = used_once(kept, origin), used_once(kept, origin)
    kept.give_back(one)
    assert not one.is_closed()
    kept.close()
    kept.give_back(other)
    assert (one.is_closed(), other.is_closed()) == (True, True)
    with pytest.raises(httpcore.ConnectError):
        kept.take(origin)


def test_those_that_have_waited_too_long_are_closed_while_others_are_used(serve, wire_tools):
    origin = httpcore.Origin(b"http", b"127.0.0.1", serve(Keeping(wire_tools)).port)
    expiry = iter((0.01, 0.01, 100.0, 100.0))
    kept = Kept(lambda origin: httpcore.HTTPConnection(origin, keepalive_expiry=next(expiry)))
    # In use at once, or one would do for all.
    used = [used_once(kept, origin) for _ in range(4)]
    for one in used[:3]:
        kept.give_back(one)
    threading.Event().wait(0.05)
    kept.give_back(used[3])
    assert [one.is_closed() for one in used] == [True, True, False, False]
    kept.close()


def test_no_request_is_made_once_the_client_is_closed(serve, connect, make_request, make_body, wire_tools):
    server = serve(Keeping(wire_tools))
    client = connect(server.port)
    client.close()
    assert client.upload(make_request(), make_body(b"x")).outcome.answer is Answer.UNSENT
    assert server.connections == 0
