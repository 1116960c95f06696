"""How the head and body of an answer are read, and which connection carries another request.

Covers `service/network.py` and `service/transport.py`.
"""

import socket
import threading
import time
from contextlib import closing
from typing import NamedTuple

import httpx
import pytest
from pydantic import SecretStr

from assetsync.service import transport
from assetsync.service.errors import unreachable
from assetsync.service.transport import ServiceSettings, Transport

OK = b"HTTP/1.1 200 OK\r\n"


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Client:
    """A transport, and the address of the server to which it leads."""

    def __init__(self, port, *, host="127.0.0.1", ca_file=None, patience=20.0, connect_timeout=20.0):
        self.url = f"{'https' if ca_file else 'http'}://{host}:{port}/"
        waits = {"connect_timeout": connect_timeout, "read_timeout": patience}
        self.transport = Transport(ServiceSettings(self.url, self.url, SecretStr("key"), ca_file=ca_file, **waits))

    def exchange(self, body=(b"x",), size=1) -> Answer:
        """Send a request, and keep the connection if it may carry another one."""
        request = httpx.Request(
            "POST",
            self.url,
            headers={"Content-Length": str(size)},
            content=iter(body),
            extensions=self.transport.waits(),
        )
        with closing(self.transport.handle_request(request)) as response:
            body = b"".join(response.stream)
            self.transport.keep(response)
        return Answer(response.status_code, response.headers.raw, body)


@pytest.fixture
def client():
    clients = []

    def make(port, **said) -> Client:
        clients.append(Client(port, **said))
        return clients[-1]

    yield make
    for each in clients:
        each.transport.close_kept()


class Asked:
    """A client of a server that answers each request on a connection with the same bytes."""

    def __init__(self, server, client):
        self.server = server
        self._client = client

    def __call__(self, *, times=1):
        return [self._client.exchange() for _ in range(times)]


@pytest.fixture
def asked(serve, wire_tools, client):
    def make(answer: bytes, *, ends=False, byte_by_byte=False, host="127.0.0.1"):
        def script(conn):
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while wire_tools.request(conn)[0]:
                pieces = [answer[at : at + 1] for at in range(len(answer))] if byte_by_byte else [answer]
                for piece in pieces:
                    conn.sendall(piece)
                if ends:
                    return

        server = serve(script)
        return Asked(server, client(server.port, host=host))

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
        (b"", "without sending a response"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without sending a response"),
        (b"HTTP/1.1 200", "without sending a response"),
        (b"<html></html>\r\n\r\n", "illegal status line"),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "Content-Length"),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi\r\n", "illegal chunk header"),
        (OK + b"Content-Length: -2\r\n\r\nhi", "Content-Length"),
        (OK + b"Content-Length: 3\r\n\r\nhi", "complete message body"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "complete message body"),
        (b"HTTP/1.1 103 Hints\r\nContent-Length: 2\r\n\r\nhi", "without sending a response"),
        (b"HTTP/1.1 99 Odd\r\n\r\n", "status"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes of x", "pending proposal"),
    ],
)
def test_unsound_answer_is_none(asked, answer, says):
    with pytest.raises((httpx.RemoteProtocolError, httpx.LocalProtocolError), match=says):
        asked(answer, ends=True)()


@pytest.mark.parametrize(
    "behind",
    [OK + b"Content-Length: 2\r\n\r\nho", b"garbage", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"],
)
def test_surplus_bytes_close_the_connection(asked, behind):
    asks = asked(OK + b"Content-Length: 2\r\n\r\nhi" + behind)
    assert [found.body for found in asks(times=2)] == [b"hi", b"hi"]
    assert asks.server.connections == 2


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def served(serve, tls_server, client, request):
    """Return what serves a script in plain HTTP or TLS, and returns the server and its client."""

    def start(script, **said):
        def encrypted(conn):
            with tls_server.context.wrap_socket(conn, server_side=True) as tls:
                script(tls)

        server = serve(encrypted if request.param else script)
        return server, client(server.port, ca_file=tls_server.ca_file if request.param else None, **said)

    return start


def test_late_surplus_bytes_close_the_connection(served, wire_tools):
    """A second answer that nobody asked for follows the first; it is not taken for the answer to the next request."""
    said = threading.Event()

    def script(conn):
        while wire_tools.request(conn)[0]:
            conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
            time.sleep(0.05)
            conn.sendall(OK + b"Content-Length: 2\r\n\r\nho")
            said.set()

    server, client = served(script)
    first = client.exchange()
    assert said.wait(60)
    assert (first.body, client.exchange().body) == (b"hi", b"hi")
    assert server.connections == 2


@pytest.mark.parametrize(
    "start",
    [OK + b"X: ", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b""],
    ids=["a_line", "lines", "a_chunks_extension", "announcements"],
)
def test_endless_head_is_given_up(asked, start):
    more = {OK: b"X: y\r\n", b"": b"HTTP/1.1 100 Continue\r\n\r\n"}.get(start, b"x")
    with pytest.raises(httpx.RemoteProtocolError, match="too long"):
        asked(start + more * (300_000 // len(more)))()


def test_kept_connection_expires(asked, monkeypatch):
    monkeypatch.setattr(transport, "_KEEP_SECONDS", 0.0)
    asks = asked(OK + b"Content-Length: 0\r\n\r\n")
    asks(times=2)
    assert asks.server.connections == 2


def test_connection_is_closed_unless_kept(serve, wire_tools, client):
    """The service sees the end of the connection at once, not only with the next request."""
    gone = threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        conn.recv(1)
        gone.set()

    client = client(serve(script).port)
    request = httpx.Request("POST", client.url, content=b"x", extensions=client.transport.waits())
    with closing(client.transport.handle_request(request)) as response:
        assert response.read() == b"hi"
    assert gone.wait(60)


def test_connection_closed_by_the_service_is_replaced(serve, wire_tools, client):
    """The service closes after each answer, and the next request uses a new connection without an error."""
    closed = threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        conn.close()
        closed.set()

    server = serve(script)
    client = client(server.port)
    for _ in range(3):
        assert client.exchange().body == b"hi"
        assert closed.wait(60)
        closed.clear()
    assert server.connections == 3


def test_early_answer_stops_the_body(served, wire_tools):
    """The service answers 413 in the middle of a body; the rest is not sent, and the connection is not used again."""
    taken, answered = [], []

    def script(conn):
        if not answered:
            answered.append(413)
            wire_tools.head(conn)
            conn.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            time.sleep(0.2)
        else:
            wire_tools.request(conn)
            conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    def body():
        for number in range(1000):
            taken.append(number)
            yield bytes(1 << 16)

    server, client = served(script)
    assert client.exchange(body(), 1000 << 16).status == 413
    assert len(taken) < 1000
    # Behind half a body another request would be its other half.
    assert (client.exchange().status, server.connections) == (200, 2)


def test_early_answer_ends_a_hanging_write(served, wire_tools):
    """The service answers once the body cannot leave any more, and reads no more of it."""
    over = threading.Event()

    def script(conn):
        wire_tools.head(conn)
        time.sleep(0.5)
        conn.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        over.wait(60)

    _, client = served(script)
    began = time.monotonic()
    assert client.exchange([bytes(64 << 20)], 64 << 20).status == 413
    over.set()
    assert time.monotonic() - began < 15


def test_announcement_ends_no_body(served, wire_tools):
    """Before the body has left, the service announces that it goes on."""
    size = 16 << 20

    def script(conn):
        _head, rest = wire_tools.head(conn)
        conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 10")
        time.sleep(0.1)
        conn.sendall(b"2 Processing\r\n\r\n")
        left = size - len(rest)
        while left > 0:
            left -= len(conn.recv(1 << 18))
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    _, client = served(script)
    assert client.exchange([bytes(size)], size).body == b"hi"


@pytest.fixture
def ends(served):
    """Return what sends 16 MiB in one piece, and returns the answer and whether the end of the body was reached."""

    def run(script):
        reached = []

        def body():
            yield bytes(16 << 20)
            reached.append("end")

        _, client = served(script)
        return client.exchange(body(), 16 << 20).body, bool(reached)

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


def test_answer_after_the_body_finds_its_end_reached(ends, wire_tools):
    def script(conn):
        _head, rest = wire_tools.head(conn)
        left = (16 << 20) - len(rest)
        while left > 0:
            left -= len(conn.recv(1 << 18))
        conn.sendall(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi")

    assert ends(script) == (b"hi", True)


def test_plain_bytes_before_tls_are_no_answer(serve, tls_server, client):
    """Whoever sits between may not answer in place of the service whose certificate was to be checked."""

    def script(conn):
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
        conn.recv(1 << 16)

    with pytest.raises(httpx.ConnectError):
        client(serve(script).port, ca_file=tls_server.ca_file).exchange()


def test_body_that_never_leaves_is_given_up(served, wire_tools):
    over = threading.Event()

    def script(conn):
        wire_tools.head(conn)
        over.wait(60)

    _, client = served(script, patience=0.5)
    began = time.monotonic()
    with pytest.raises(httpx.TimeoutException):
        client.exchange((bytes(1 << 18) for _ in range(1000)), 1000 << 18)
    over.set()
    assert time.monotonic() - began < 20


def test_body_that_leaves_slowly_is_no_timeout(served, wire_tools):
    """The service takes much longer for the body than a part of the answer may take."""
    size = 8 << 20

    def script(conn):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        _head, rest = wire_tools.head(conn)
        left = size - len(rest)
        while left > 0:
            left -= len(conn.recv(1 << 18))
            # What the kernel holds in the end leaves at once: it counts as sent.
            time.sleep(0.03 if left > size / 2 else 0.0)
        conn.sendall(OK + b"Content-Length: 2\r\n\r\nhi")

    _, client = served(script, patience=1.0)
    assert client.exchange([bytes(size)], size).body == b"hi"


def test_nothing_is_sent_after_close(serve, wire_tools, client):
    client = client(serve(wire_tools.request).port)
    client.transport.close()
    with pytest.raises(httpx.ConnectError):
        client.exchange()


@pytest.mark.parametrize("header", [("A", "b\r\nC: d"), ("A\nB", "c"), ("A", "b\r")])
def test_line_end_in_a_header_is_not_sent(serve, wire_tools, client, header):
    client = client(serve(wire_tools.request).port)
    request = httpx.Request("POST", client.url, headers=dict([header]), content=b"x")
    with pytest.raises(httpx.LocalProtocolError):
        client.transport.handle_request(request)


def test_resolver_that_hangs_ends_in_time(monkeypatch, client):
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(httpx.ConnectError) as caught:
        client(80, host="dam.example.org", connect_timeout=0.5).exchange()
    assert time.monotonic() - began < 10
    answered.set()
    assert "could not be resolved" in str(unreachable(caught.value, httpx.URL("http://dam.example.org")))


def test_names_with_two_addresses_try_both(asked, monkeypatch):
    """The service may listen at the second alone."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]
    real = socket.getaddrinfo

    def both(host, port, *args, **said):
        return [(*each[:4], (each[4][0], port)) for each in found] if host == "dam" else real(host, port, *args, **said)

    monkeypatch.setattr(socket, "getaddrinfo", both)
    (answer,) = asked(OK + b"Content-Length: 0\r\n\r\n", host="dam")()
    assert answer.status == 200
