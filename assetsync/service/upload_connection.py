"""Post small files over a connection of an event loop: one request, one answer.

A connection stays open only after an accepted upload whose answer ended exactly where it should. A service may give any
other answer before it has read the request's body. It would then read the rest of the body as a further request, and
the client would read the answer to that as the answer to its next upload.
"""

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from assetsync.core.outcome import ANSWER_LIMIT
from assetsync.service.transport import resolve, unresolved

P = TypeVar("P", bound=asyncio.Protocol)

_KEEP_SECONDS = 2.0
_MOST_FRAMING = 100 * 1024
"""Bytes in a row that are neither the end of a head nor a part of a body."""

_READ = 64 * 1024
_SWITCHING, _FIRST_FINAL = 101, 200
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(slots=True)
class HttpAnswer:
    """An answer: status, headers in the order in which they came, and the body, at most a little over ANSWER_LIMIT."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


def header_text(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the value of the header with this lower-case name, "" without it; repeated values are joined."""
    value = b", ".join([value for key, value in headers if key.lower() == name])
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def has_marked_end(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a length or chunks mark the end of an answer; any other answer ends with its connection."""
    return any(name.lower() in _LENGTHS for name, _value in headers)


def request_head(target: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the head of a POST; raises LocalProtocolError if a part contains the end of a line."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = b"POST %b HTTP/1.1\r\n%b\r\n\r\n" % (target, "\r\n".join(lines).encode("ascii"))
    if head.count(b"\n") != len(lines) + 2 or head.count(b"\r") != len(lines) + 2:
        raise httpx.LocalProtocolError("the head of the request cannot be sent")
    return head


@dataclass(frozen=True, slots=True)
class Target:
    """Where connections lead; `tls` is None for plain HTTP, the time-outs are in seconds."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    connect_timeout: float
    read_timeout: float


class Line:
    """The connections of one coroutine, of which at most one is open; used for one request at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: _Connection | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()

    async def exchange(self, head: bytes, body: Iterable[bytes]) -> HttpAnswer:
        """Send a request and return its answer; end with `keep` or `drop`.

        Raises httpx's transport errors, OSError, and what `body` raises; `body` must not block. If a write fails, an
        answer that has come before counts.
        """
        connection = self._connection = await self._open()
        return await connection.exchange(head, body)

    def keep(self) -> None:
        """Keep the connection for the next request, if another answer may follow the last one."""
        if self._connection is None or not self._connection.keep():
            self.drop()

    def drop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def shut(self) -> None:
        """End the request in flight as unanswered, and let every later one fail; may be called by any thread."""
        self._closed = True
        with suppress(RuntimeError):  # the loop may have ended
            self._loop.call_soon_threadsafe(self.drop)

    async def _open(self) -> "_Connection":
        if self._connection is not None and self._connection.may_be_used():
            return self._connection
        self.drop()
        target, found = self._target, None
        try:
            found = resolve(target.host, target.port)
            async with asyncio.timeout(target.connect_timeout):
                addresses = await asyncio.wrap_future(found)
                if target.tls is None:
                    _transport, connection = await self._reach(addresses, lambda: _Connection(target.read_timeout))
                else:
                    # Nothing that comes before TLS has begun is an answer.
                    wire, _protocol = await self._reach(addresses, asyncio.Protocol)
                    assert isinstance(wire, asyncio.Transport)
                    connection = _Connection(target.read_timeout, wire)
                    transport = await self._loop.start_tls(wire, connection, target.tls, server_hostname=target.host)
                    if transport is None:
                        raise ConnectionResetError("the connection was closed")
                    connection.connection_made(transport)
        except TimeoutError as error:
            cause = error if found is None or found.done() else unresolved()
            raise httpx.ConnectTimeout("no connection in time") from cause
        except (OSError, RuntimeError) as error:
            # RuntimeError: no thread can be started.
            raise httpx.ConnectError(str(error)) from error
        if self._closed:
            connection.abort()
            raise httpx.ConnectError("the client was closed")
        return connection

    async def _reach(self, addresses: Sequence[str], protocol: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        """Connect to the first address that accepts it. Raise OSError for the last one."""
        *others, last = addresses
        for address in others:
            with suppress(OSError):
                return await self._loop.create_connection(protocol, address, self._target.port)
        return await self._loop.create_connection(protocol, last, self._target.port)


class _Connection(asyncio.Protocol):
    """One connection. The event loop and the parser call the methods for what happens.

    `wire` is the transport under that of TLS.
    """

    def __init__(self, patience: float, wire: asyncio.Transport | None = None) -> None:
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._wire = wire
        self._failure: Exception | None = None
        self._requests = 0
        # Bytes that arrive before the first request begin its answer: the service may refuse every request.
        self._expect_answer()
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._kept_until = float("-inf")

    # What the owner calls.

    async def exchange(self, head: bytes, body: Iterable[bytes]) -> HttpAnswer:
        if self._requests:
            self._expect_answer()
        self._requests += 1
        try:
            if not self._is_over:
                await self._send(head, body)
            while not self._is_over:
                await self._event()
        finally:
            self._until = float("inf")
        if not self._is_whole:
            raise self._failure or httpx.ReadError("the connection was closed")
        self._answer.body = b"".join(self._body)
        return self._answer

    def keep(self) -> bool:
        """Return whether another request may follow; it may do so for a short while."""
        # With a length and with chunks it is not certain where the answer ended.
        is_clear = not {name.lower() for name, _value in self._answer.headers} >= _LENGTHS
        self._kept_until = self._loop.time() + _KEEP_SECONDS
        return is_clear and self._has_sent_all and self._may_be_followed and self._failure is None

    def may_be_used(self) -> bool:
        """Return whether the last answer is recent and nothing has arrived since."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self._may_be_followed:
            return False
        poll = select.poll()
        poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        return self._loop.time() < self._kept_until and not poll.poll(0)

    def abort(self) -> None:
        self._failure = self._failure or httpx.ReadError("the client was closed")
        self._may_be_followed = False
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    # Sending.

    def _expect_answer(self) -> None:
        self._answer, self._parser = HttpAnswer(), HttpResponseParser(self)
        # Other clients understand lines without a carriage return, and the padded sizes of older servers, too.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self._body: list[bytes] = []
        self._held = self._framing = 0
        self._has_sent_all = self._is_whole = self._may_be_followed = False

    async def _send(self, head: bytes, body: Iterable[bytes]) -> None:
        transport = self._transport
        assert transport is not None, "the loop returns a connection once it is open"
        for piece in body:
            if self._is_over:
                return
            transport.write(head + piece if head else piece)
            head = b""
            self._unsent = len(piece)
            self._wait_for(self._patience)
            self._note_unsent()
            # Only when the kernel has all of a piece may the next be asked for: the body counts what has left, and a
            # success counts only after all of it.
            if not await self._leaves():
                return
        self._has_sent_all = True
        self._wait_for(self._patience)

    async def _leaves(self) -> bool:
        """Wait until the kernel has all that was written; return False if the exchange ended before."""
        while self._unsent and not self._is_over:
            await self._event()
        return not self._unsent

    def _note_unsent(self) -> None:
        """Note how many bytes the kernel has not taken; those that TLS has encrypted count once more."""
        transport, wire = self._transport, self._wire
        if transport is None or wire is None or transport.is_closing() or wire.is_closing():
            # A transport that fails forgets what it held.
            return
        unsent = sum(each.get_write_buffer_size() for each in {transport, wire})
        if 0 < unsent < self._unsent:
            # Some bytes left: start the time limit again.
            self._until = self._loop.time() + self._patience
        self._unsent = unsent
        if not unsent:
            self._wake()

    @property
    def _is_over(self) -> bool:
        return self._is_whole or self._failure is not None

    async def _event(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Time.

    def _wait_for(self, seconds: float) -> None:
        self._until = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._on_time)

    def _on_time(self) -> None:
        self._note_unsent()
        self._timer = None
        if self._until == float("inf"):
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._on_time)
        else:
            kind = httpx.WriteTimeout if self._unsent else httpx.ReadTimeout
            self._fail(kind("a part of the request or of the answer took too long"))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._wire = self._wire or transport
        for each in {transport, self._wire}:
            each.set_write_buffer_limits(0)

    def pause_writing(self) -> None:
        # With a limit of zero TLS calls either method whenever the transport under it has got rid of something.
        self._note_unsent()

    resume_writing = pause_writing

    def data_received(self, data: bytes) -> None:
        assert self._wire is not None
        # Acknowledge at once. Until then the other side may hold back unrequested bytes, which would be
        # read as the answer to the next request.
        with suppress(OSError):
            self._wire.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self._take(data)

    def eof_received(self) -> None:
        if self._is_over:
            return
        if not self._answer.status:
            self._fail(httpx.RemoteProtocolError("the connection ended without an answer"))
        elif has_marked_end(self._answer.headers):
            self._fail(httpx.RemoteProtocolError("the connection ended in the middle of the answer"))
        else:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._is_over:
            # Bytes that arrived before the failure can still be read.
            self._read_rest()
        self._fail(httpx.ReadError(str(exc or "the connection was closed")))
        self._may_be_followed = False
        if self._timer is not None:
            self._timer.cancel()

    def _read_rest(self) -> None:
        if self._transport is None or self._transport is not self._wire:
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError):
            while not self._is_over and (data := os.read(descriptor, _READ)):
                self._take(data)

    # The answer.

    def _take(self, data: bytes) -> None:
        if self._is_whole:
            # These bytes answer no request.
            self._may_be_followed = False
            return
        known = len(self._body)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            # Also an answer that changes the protocol, and what comes behind one that ends its connection.
            if self._is_over:
                self._may_be_followed = False
            self._fail(httpx.RemoteProtocolError(str(error)))
            return
        self._framing = 0 if len(self._body) > known else self._framing + len(data)
        if self._framing > _MOST_FRAMING:
            self._fail(httpx.RemoteProtocolError("the answer has too long a head"))

    def _fail(self, failure: Exception) -> None:
        if not self._is_over:
            self._failure = failure
        self._wake()

    def _end(self) -> None:
        self._is_whole = True
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._is_whole:
            self._may_be_followed = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head these are trailers of a chunked body.
        if not self._answer.status:
            self._answer.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_whole:
            return
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL or status == _SWITCHING:
            self._answer.status = status
            # The whole body must arrive within the same time.
            self._wait_for(self._patience)
        elif has_marked_end(self._answer.headers):
            raise httpx.RemoteProtocolError("an interim answer has a body")
        else:
            self._answer.headers.clear()

    def on_body(self, piece: bytes) -> None:
        if self._is_whole:
            return
        self._body.append(piece)
        self._held += len(piece)
        if self._held > ANSWER_LIMIT:
            self._end()

    def on_message_complete(self) -> None:
        if self._answer.status and not self._is_whole:
            keeps = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"
            self._may_be_followed = keeps and self._answer.status != _SWITCHING
            self._end()
