"""How the head and body of an answer are read in an event loop, and which connection carries another request."""

import asyncio
import socket
import ssl
import threading
import time

import httpx
import pytest

from assetsync.service import upload_connection
from assetsync.service.upload_connection import Line, Target, request_head

OK = b"HTTP/1.1 200 OK\r\n"
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"


class Asked:
    """The result of an exchange: the answer, and whether the same connection carried the next request."""

    def __init__(self, server, *, patience=20.0):
        self._server = server
        self._target = Target("127.0.0.1", server.port, None, 20.0, patience)

    def __call__(self, *, times=1, body=(b"x",)):
        async def ask():
            line = Line(self._target)
            answers = []
            try:
                for _ in range(times):
                    answers.append(await line.exchange(REQUEST, list(body)))
                    line.keep()
            finally:
                line.drop()
            return answers

        return asyncio.run(ask(), debug=True)


@pytest.fixture
def asked(serve, wire_tools):
    """Return what asks a server that answers each request on a connection with the same bytes."""

    def make(answer: bytes, *, ends=False, byte_by_byte=False, patience=20.0):
        def script(conn):
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while wire_tools.request(conn)[0]:
                pieces = [answer[at : at + 1] for at in range(len(answer))] if byte_by_byte else [answer]
                for piece in pieces:
                    conn.sendall(piece)
                if ends:
                    return

        asks = Asked(serve(script), patience=patience)
        asks.server = asks._server
        return asks

    return make


@pytest.mark.parametrize("byte_by_byte", [False, True], ids=["whole", "bytes"])
@pytest.mark.parametrize(
    ("answer", "status", "body", "stays"),
    [
        (OK + b"Content-Length: 2\r\n\r\nhi", 200, b"hi", True),
        (OK + b"content-length: 0\r\n\r\n", 200, b"", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\nTrailer: t\r\n\r\n", 200, b"hi", True),
        (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", 200, b"hi", True),
        (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", 200, b"hi", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, b"hi", True),
        (b"HTTP/1.1 204 None\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes of x", 101, b"", False),
    ],
)
def test_answer_ends_where_its_head_says(asked, answer, status, body, stays, byte_by_byte):
    asks = asked(answer, byte_by_byte=byte_by_byte)
    answers = asks(times=2)
    assert [(found.status, found.body) for found in answers] == [(status, body)] * 2
    assert asks.server.connections == (1 if stays else 2)


def test_announcement_headers_are_not_the_answers(asked):
    (found,) = asked(b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n")()
    assert found.headers == [(b"Content-Length", b"0")]


def test_answer_without_length_ends_with_the_connection(asked):
    asks = asked(OK + b"\r\nhi", ends=True)
    assert [found.body for found in asks(times=2)] == [b"hi", b"hi"]
    assert asks.server.connections == 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without an answer"),
        (b"HTTP/1.1 200", "without an answer"),
        (b"<html></html>", "Expected HTTP/"),
        (OK + b"A: b\r\n c\r\n\r\n", "whitespace"),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "Content-Length"),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi", "Transfer-Encoding"),
        (OK + b"Content-Length: -2\r\n\r\nhi", "Content-Length"),
        (OK + b"Content-Length: 3\r\n\r\nhi", "in the middle"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "in the middle"),
        (b"HTTP/1.1 103 Hints\r\nContent-Length: 2\r\n\r\nhi", "callback"),
        (b"HTTP/1.1 99 Odd\r\n\r\n", "status"),
    ],
)
def test_unsound_answer_is_none(asked, answer, says):
    with pytest.raises(httpx.RemoteProtocolError, match=says):
        asked(answer, ends=True)()


@pytest.mark.parametrize(
    "behind",
    [OK + b"Content-Length: 2\r\n\r\nho", b"garbage", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"],
)
def test_surplus_bytes_close_the_connection(asked, behind):
    asks = asked(OK + b"Content-Length: 2\r\n\r\nhi" + behind)
    assert [found.body for found in asks(times=2)] == [b"hi", b"hi"]
    assert asks.server.connections == 2


def test_late_surplus_bytes_close_the_connection(serve, wire_tools):
    """A second answer that nobody asked for follows the first; it is not taken for the answer to the next request."""
    said = threading.Event()

    def script(conn):
        while wire_tools.request(conn)[0]:
            conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
            time.sleep(0.05)
            conn.sendall(OK + b"Content-Length: 2\r\n\r\nho")
            said.set()

    server = serve(script)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 20.0))
        first = await line.exchange(REQUEST, [b"x"])
        line.keep()
        # The event loop is busy with something else while the bytes come.
        assert said.wait(60)
        second = await line.exchange(REQUEST, [b"x"])
        line.drop()
        return first.body, second.body

    assert asyncio.run(ask()) == (b"hi", b"hi")
    assert server.connections == 2


@pytest.mark.parametrize(
    "start",
    [OK + b"X: ", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b""],
    ids=["a_line", "lines", "a_chunks_extension", "announcements"],
)
def test_endless_head_is_given_up(asked, start):
    more = {OK: b"X: y\r\n", b"": b"HTTP/1.1 100 Continue\r\n\r\n"}.get(start, b"x")
    with pytest.raises(httpx.RemoteProtocolError, match="too long a head"):
        asked(start + more * (300_000 // len(more)))()


def test_kept_connection_expires(asked, monkeypatch):
    monkeypatch.setattr(upload_connection, "_KEEP_SECONDS", 0.0)
    asks = asked(OK + b"Content-Length: 0\r\n\r\n")
    asks(times=2)
    assert asks.server.connections == 2


def test_connection_closed_by_the_service_is_replaced(serve, wire_tools):
    """The service closes after each answer, and the next request uses a new connection without an error."""
    closed = threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        conn.close()
        closed.set()

    server = serve(script)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 20.0))
        for _ in range(3):
            assert (await line.exchange(REQUEST, [b"x"])).body == b"hi"
            line.keep()
            assert closed.wait(60)
            closed.clear()
        line.drop()

    asyncio.run(ask())
    assert server.connections == 3


def test_early_answer_stops_the_body(serve, wire_tools):
    """The service answers 413 in the middle of a body; the rest is not sent, and the connection is not used again."""
    taken = []

    def script(conn):
        wire_tools.head(conn)
        conn.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        time.sleep(0.2)

    server = serve(script)

    def body():
        for number in range(1000):
            taken.append(number)
            yield bytes(1 << 16)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 20.0))
        answer = await line.exchange(REQUEST, body())
        line.keep()
        # Behind half a body another request would be its other half.
        kept = line._connection is not None
        line.drop()
        return answer.status, kept

    assert asyncio.run(ask()) == (413, False)
    assert len(taken) < 1000


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def served(serve, tls_server, request):
    """Return what serves a script in plain HTTP or TLS, and the target that leads there."""

    def start(script):
        def encrypted(conn):
            with tls_server.context.wrap_socket(conn, server_side=True) as tls:
                script(tls)

        server = serve(encrypted if request.param else script)
        tls = ssl.create_default_context(cafile=tls_server.ca_file) if request.param else None
        return Target("127.0.0.1", server.port, tls, 20.0, 20.0)

    return start


@pytest.fixture
def ends(served):
    """Return what sends 16 MiB in one piece, and returns the answer and whether the end of the body was reached."""

    def run(script):
        reached = []

        def body():
            yield bytes(16 << 20)
            reached.append("end")

        async def ask():
            line = Line(target)
            try:
                return (await line.exchange(REQUEST, body())).body, bool(reached)
            finally:
                line.drop()
                await asyncio.sleep(0)

        target = served(script)
        return asyncio.run(ask())

    return run


def test_early_answer_finds_the_last_piece_unsent(ends, wire_tools):
    """An answer that says success names an asset only if the kernel had the whole body before."""
    over = threading.Event()

    def script(conn):
        wire_tools.head(conn)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        over.wait(60)

    found = ends(script)
    over.set()
    assert found == (b"hi", False)


@pytest.mark.parametrize("served", [False], indirect=True, ids=["plain"])
def test_write_that_fails_leaves_the_last_piece_unsent(ends, wire_tools):
    def script(conn):
        wire_tools.head(conn)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        wire_tools.reset(conn)

    assert ends(script) == (b"hi", False)


def test_answer_after_the_body_finds_its_end_reached(ends):
    def script(conn):
        left = len(REQUEST) + (16 << 20)
        while left > 0:
            left -= len(conn.recv(1 << 18))
        conn.sendall(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi")

    assert ends(script) == (b"hi", True)


def test_plain_bytes_before_tls_are_no_answer(serve, tls_server):
    """Whoever sits between may not answer in place of the service whose certificate was to be checked."""

    def script(conn):
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        conn.recv(1 << 16)

    server = serve(script)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, ssl.create_default_context(cafile=tls_server.ca_file), 20.0, 20.0))
        await line.exchange(REQUEST, [b"x"])

    with pytest.raises(httpx.ConnectError):
        asyncio.run(ask())


def test_body_that_never_leaves_is_given_up(serve):
    over = threading.Event()
    server = serve(lambda _conn: over.wait(60))

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 0.3))
        try:
            await line.exchange(REQUEST, (bytes(1 << 18) for _ in range(1000)))
        finally:
            line.drop()
            await asyncio.sleep(0)

    began = time.monotonic()
    with pytest.raises(httpx.WriteTimeout):
        asyncio.run(ask())
    over.set()
    assert time.monotonic() - began < 20


def test_body_that_leaves_slowly_is_no_timeout(serve, wire_tools):
    """The service takes much longer for the body than a part of the answer may take."""
    size = 8 << 20

    def script(conn):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        left = size
        while left > 0:
            left -= len(conn.recv(1 << 18))
            # What the kernel holds in the end leaves at once: it counts as sent.
            time.sleep(0.03 if left > size / 2 else 0.0)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    server = serve(script)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 1.0))
        answer = await line.exchange(b"", [bytes(size)])
        line.drop()
        return answer.body

    assert asyncio.run(ask()) == b"hi"


def test_nothing_is_sent_after_shut(serve, wire_tools):
    server = serve(wire_tools.request)

    async def ask():
        line = Line(Target("127.0.0.1", server.port, None, 20.0, 20.0))
        line.shut()
        await line.exchange(REQUEST, [b"x"])

    with pytest.raises(httpx.ConnectError):
        asyncio.run(ask())


@pytest.mark.parametrize("header", [("A", "b\r\nC: d"), ("A\nB", "c"), ("A", "b\r")])
def test_line_end_in_a_header_is_not_sent(header):
    with pytest.raises(httpx.LocalProtocolError):
        request_head(b"/", dict([header]))


def test_resolver_that_hangs_ends_in_time(monkeypatch):
    """The event loop goes on meanwhile, and ends without the look-up."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(60) and [])
    steps = []

    async def ask():
        async def count():
            while True:
                steps.append(1)
                await asyncio.sleep(0.05)

        counting = asyncio.create_task(count())
        with pytest.raises(httpx.ConnectTimeout) as caught:
            await Line(Target("dam.example.org", 80, None, 0.5, 20.0)).exchange(REQUEST, [b"x"])
        counting.cancel()
        return caught.value

    began = time.monotonic()
    error = asyncio.run(ask())
    assert time.monotonic() - began < 10
    assert isinstance(error.__cause__, socket.gaierror)
    assert len(steps) > 2
    answered.set()


def test_names_with_two_addresses_try_both(asked, monkeypatch):
    """The service may listen at the second alone."""
    asks = asked(OK + b"Content-Length: 0\r\n\r\n")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: found if host == "dam" else real(host, *a, **k))
    asks._target = Target("dam", asks.server.port, None, 20.0, 20.0)
    (answer,) = asks()
    assert answer.status == 200
