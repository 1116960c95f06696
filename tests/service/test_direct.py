"""How the heads and bodies of answers are read on a connection of our own, over pairs of real sockets."""

import socket
import threading
from contextlib import suppress

import httpcore
import pytest

from assetsync.service.direct import Direct, Incoming, head
from assetsync.service.stream import Stream

ORIGIN = httpcore.Origin(b"http", b"127.0.0.1", 80)
OK = b"HTTP/1.1 200 OK\r\n"


class Pair:
    """A connection whose other side is in the test's hand."""

    def __init__(self):
        self.far, near = socket.socketpair()
        self._near = near
        stream = Stream(httpcore._backends.sync.SyncStream(near), 5.0, lambda _stream: None)
        self.stream = stream
        self.connection = Direct(ORIGIN, lambda: stream, 5.0, 60.0)

    def ask(self, answer: bytes, *, ends: bool = False, byte_by_byte: bool = False):
        """Send a request and give its answer, of which the head has been read."""
        self.connection.send(head("GET", b"/", [(b"Host", b"x")]), [b""])
        assert self.far.recv(1 << 16).startswith(b"GET / HTTP/1.1\r\n")

        def say():
            pieces = [answer[at : at + 1] for at in range(len(answer))] if byte_by_byte else [answer]
            with suppress(OSError):
                for piece in pieces:
                    self.far.sendall(piece)
            if ends:
                self.far.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=say)
        thread.start()
        try:
            return self.connection.receive()
        except httpcore.RemoteProtocolError:
            self.connection.close()
            raise
        finally:
            if len(answer) < (1 << 16):
                thread.join()

    def close(self):
        self.far.close()
        self._near.close()


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.mark.parametrize("byte_by_byte", [False, True])
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
def test_an_answer_ends_where_its_head_says(pair, answer, status, body, stays, byte_by_byte):
    found = pair.ask(answer, byte_by_byte=byte_by_byte)
    assert (found.status, b"".join(found)) == (status, body)
    found.close()
    assert (pair.connection.is_idle(), pair.connection.is_closed()) == (stays, not stays)


def test_the_head_of_an_announcement_is_not_that_of_the_answer(pair):
    found = pair.ask(b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n")
    assert found.headers == [(b"Content-Length", b"0")]


def test_an_answer_without_a_length_ends_with_its_connection(pair):
    found = pair.ask(OK + b"\r\nhi", ends=True)
    assert b"".join(found) == b"hi"
    found.close()
    assert pair.connection.is_closed()


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 3\r\n\r\nhi",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ],
)
def test_an_answer_that_ends_too_early_is_none(pair, answer):
    found = pair.ask(answer, ends=True)
    with pytest.raises(httpcore.RemoteProtocolError, match="in the middle of the answer"):
        b"".join(found)


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
    ],
)
def test_what_is_no_sound_head_is_no_answer(pair, answer, says):
    with pytest.raises(httpcore.RemoteProtocolError, match=says):
        pair.ask(answer, ends=True)


@pytest.mark.parametrize(
    "behind",
    [OK + b"Content-Length: 2\r\n\r\nho", b"garbage", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"],
)
def test_what_comes_behind_an_answer_ends_its_connection_and_is_not_read(pair, behind):
    found = pair.ask(OK + b"Content-Length: 2\r\n\r\nhi" + behind)
    assert b"".join(found) == b"hi"
    assert found.has_more
    found.close()
    assert pair.connection.is_closed()


def test_an_answer_that_changes_the_protocol_ends_its_connection(pair):
    found = pair.ask(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes of x")
    assert (found.status, b"".join(found)) == (101, b"")
    found.close()
    assert pair.connection.is_closed()


def test_an_answer_that_is_not_read_to_its_end_ends_its_connection(pair):
    found = pair.ask(OK + b"Content-Length: 20\r\n\r\nhi")
    next(iter(found))
    found.close()
    assert pair.connection.is_closed()


@pytest.mark.parametrize(
    "start",
    [OK + b"X: ", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b""],
    ids=["a_line", "lines", "a_chunks_extension", "announcements"],
)
def test_a_head_without_an_end_is_given_up(pair, start):
    more = {OK: b"X: y\r\n", b"": b"HTTP/1.1 100 Continue\r\n\r\n"}.get(start, b"x")
    endless = start + more * (300_000 // len(more))
    with pytest.raises(httpcore.RemoteProtocolError, match="too long a head"):
        b"".join(pair.ask(endless))


def test_a_read_that_brings_none_of_the_body_yields_an_empty_piece(pair):
    found = pair.ask(OK + b"Content-Length: 2\r\n\r\n")
    pieces = iter(found)
    assert next(pieces) == b""
    pair.far.sendall(b"hi")
    assert list(pieces) == [b"hi"]


def test_a_connection_by_which_the_other_side_has_said_something_has_expired(pair):
    found = pair.ask(OK + b"Content-Length: 0\r\n\r\n")
    b"".join(found)
    found.close()
    assert not pair.connection.has_expired()
    pair.far.sendall(b"x")
    assert pair.connection.has_expired()


def test_a_connection_is_opened_by_its_first_request_alone(pair):
    assert (pair.connection.is_idle(), pair.connection.has_expired()) == (False, False)
    for _ in range(2):
        found = pair.ask(OK + b"Content-Length: 0\r\n\r\n")
        assert b"".join(found) == b""
        found.close()
        assert pair.connection.is_idle()
    pair.connection.close()
    assert (pair.connection.is_idle(), pair.connection.has_expired()) == (False, True)


@pytest.mark.parametrize("header", [(b"A", b"b\r\nC: d"), (b"A\nB", b"c"), (b"A", b"b\r")])
def test_a_head_with_the_end_of_a_line_in_it_is_not_sent(header):
    with pytest.raises(httpcore.LocalProtocolError):
        head("POST", b"/", [header])


class Endless:
    """A stream by which there is always more of an answer, with hardly any body in it."""

    def __init__(self):
        self.reads = 0

    def read_now(self, _max_bytes):
        self.reads += 1
        if self.reads == 1:
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        return b"1;" + b"x" * 60_000 + b"\r\nA\r\n"


def test_what_comes_without_an_end_is_left_to_who_reads_with_a_limit_of_time():
    stream = Endless()
    assert Incoming(stream, 1.0, lambda _answer: None).read_what_is_there()
    assert stream.reads < 1000
