"""Connect to the service, and limit, observe and cut each connection: the network backend of httpcore.

Names are looked up in daemon threads, because nothing ends a look-up: a resolver that hangs delays no time-out and no
stop. The time-outs of httpcore begin anew with each byte, so that an answer that drips would never end: here each part
of an answer has its time. An answer that begins while the request leaves ends the sending, and is read.
"""

import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, cast
from weakref import WeakSet

import httpcore

_LOOK_AGAIN = 0.25
"""Seconds after which a wait for a look-up notices that the client was closed."""

_SLICE = 16 * 1024
"""Bytes of a write: a socket that can be written to takes so many without a wait, and TLS puts them in one record."""

_READ = 64 * 1024
_MOMENT = 0.001
_MOST_FRAMING = 164 * 1024
"""Bytes in a row without a part of a body: the longest head that httpcore accepts, and a read."""

_ANNOUNCEMENTS = re.compile(rb"(?:HTTP/1\.1 1[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)*")
_ANNOUNCEMENT = b"HTTP/1.1 1"


class Stream(httpcore.NetworkStream):
    """One connection.

    The head of an answer must have come `patience` seconds after it was first waited for, and each piece of its body
    `patience` seconds after `expect_part`. Announcements, sizes of chunks and trailers that drip in meanwhile do not
    count.
    """

    def __init__(self, under: httpcore.NetworkStream, patience: float, backend: "Backend") -> None:
        """Take over a connected stream; raise ConnectError if the backend was shut meanwhile."""
        self._under = under
        self._patience = patience
        self._backend = backend
        self._socket: socket.socket = under.get_extra_info("socket")
        self._until = 0.0
        self._framing = 0
        # Whether the last request has left; the next bytes to be written begin another one.
        self._has_left = True
        self._head = self._early = self._held = b""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLOUT)
        self._shut = False
        self.keeps = False
        """Whether the connection stays open after the answer; each request sets it back."""
        backend.add(self)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes. Raise WriteError if an answer or the end of the connection arrives before they have left."""
        if self._shut:
            raise httpcore.WriteError("the client was closed")
        if self._has_left:
            # The head of another request leaves with the first piece of its body.
            self._has_left = self.keeps = False
            self._head = buffer
            return
        self._send(buffer, timeout)

    def _send(self, buffer: bytes, timeout: float | None) -> None:
        head, self._head = self._head, b""
        view = memoryview(buffer)
        while head or view:
            room = max(0, _SLICE - len(head))
            self._backend.alive()
            self._wait_for_room(timeout)
            self._under.write(head + view[:room], timeout)
            head, view = b"", view[room:]

    def _wait_for_room(self, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        happened = 0
        while not happened & select.POLLOUT:
            found = self._poll.poll(None if until is None else max(0.0, 1000 * (until - time.monotonic())))
            if not found:
                raise httpcore.WriteTimeout("a part of the request took too long")
            happened = found[0][1]
            if happened & ~select.POLLOUT:
                self._read_early()

    def _read_early(self) -> None:
        """Read what has arrived; raise WriteError unless it is the announcement of an answer."""
        try:
            data = self._under.read(_READ, _MOMENT)
        except httpcore.ReadTimeout:
            # The bytes belong to TLS itself.
            return
        except httpcore.ReadError as error:
            raise httpcore.WriteError(str(error)) from error
        self._early += data
        rest = self._early[cast("re.Match[bytes]", _ANNOUNCEMENTS.match(self._early)).end() :]
        if not data or not _ANNOUNCEMENT.startswith(rest[: len(_ANNOUNCEMENT)]):
            raise httpcore.WriteError("the connection ended or an answer came before the request had left")

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what arrives, b"" at the end. Raise ReadTimeout for a part of the answer that takes too long."""
        if not self._has_left:
            self._send(b"", timeout)
            self._has_left = True
            self.expect_part()
        if self._held:
            data, self._held = self._held, b""
            return data
        data, self._early = self._early, b""
        if not data:
            left = self._until - time.monotonic()
            if left <= 0:
                raise httpcore.ReadTimeout("a part of the answer took too long")
            self._backend.alive()
            data = self._under.read(max_bytes, left if timeout is None else min(timeout, left))
            # Acknowledge at once. Until then the other side may hold back unrequested bytes, which would be read as the
            # answer to the next request.
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        if not data and self._shut:
            # An answer without a length ends with its connection: this one was cut.
            raise httpcore.ReadError("the client was closed")
        self._framing += len(data)
        if self._framing > _MOST_FRAMING:
            raise httpcore.RemoteProtocolError("the answer has too long a head")
        if len(data) > 1:
            data, self._held = data[:-1], data[-1:]
        return data

    def expect_part(self) -> None:
        """Begin the time of the next part of an answer."""
        self._until = time.monotonic() + self._patience
        self._framing = 0

    @property
    def holds_surplus(self) -> bool:
        """Whether bytes arrived behind the answer that was read last.

        The last byte of each read is handed out only when it is asked for. The parser of httpcore asks for it if the
        answer ends there, or later; if it does not, the answer ended before.
        """
        return bool(self._held or self._early)

    def close(self) -> None:
        """Close the connection; may be repeated."""
        self.keeps = False
        self._under.close()

    def shut(self) -> None:
        """End the connection, from any thread: the request in flight ends as unanswered."""
        self._shut = True
        # Closing a socket does not wake the thread that reads from it, shutting it down does.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Stream":
        """Return the connection with TLS on top; raise ConnectError."""
        secured = self._under.start_tls(ssl_context, server_hostname, timeout)
        return Stream(secured, self._patience, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks about the connection: whether bytes wait before a request shows that it is over."""
        if info == "is_readable" and self._holds_bytes():
            return True
        return self._under.get_extra_info(info)

    def _holds_bytes(self) -> bool:
        """Return whether bytes wait that TLS has decrypted: the socket does not show them."""
        ends = {self._socket, self._under.get_extra_info("ssl_object")}
        return any(isinstance(end, ssl.SSLSocket | ssl.SSLObject) and end.pending() for end in ends)


class _LookUps:
    """The look-ups of host names that go on, at most one of each name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: dict[tuple[str, int], Future[list[str]]] = {}

    def begin(self, host: str, port: int) -> "Future[list[str]]":
        with self._lock:
            found = self._going.get((host, port))
            if found is None:
                found = Future()
                # It cannot be cancelled: others may wait for it, too.
                found.set_running_or_notify_cancel()
                thread = threading.Thread(target=self._run, args=(host, port, found), name="resolver", daemon=True)
                thread.start()
                self._going[host, port] = found
        return found

    def _run(self, host: str, port: int, found: "Future[list[str]]") -> None:
        try:
            addresses = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except Exception as error:  # noqa: BLE001 - raised for those who wait
            self._end(host, port)
            found.set_exception(error)
        else:
            self._end(host, port)
            found.set_result([*dict.fromkeys(addresses)])

    def _end(self, host: str, port: int) -> None:
        with self._lock:
            self._going.pop((host, port), None)


_LOOK_UPS = _LookUps()


def _resolve(host: str, port: int) -> "Future[list[str]]":
    """Return the future addresses of a host; it raises OSError or UnicodeError, and may never end.

    Raise RuntimeError if no thread can be started.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            found: Future[list[str]] = Future()
            found.set_result([host])
            return found
    return _LOOK_UPS.begin(host, port)


class Backend(httpcore.SyncBackend):
    """Connects over TCP, and knows the open connections; `patience` as in `Stream`, `alive` as in the settings."""

    def __init__(self, patience: float, alive: Callable[[], None] = lambda: None) -> None:
        self._patience = patience
        self.alive = alive
        # A signal handler may call `shut` while its thread is in `add`.
        self._lock = threading.RLock()
        self._streams: WeakSet[Stream] = WeakSet()
        self._closed = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> Stream:
        """Connect to the first address of a host that accepts it; raise ConnectError or ConnectTimeout."""
        connect = partial(super().connect_tcp, local_address=local_address, socket_options=socket_options)
        *others, last = self._addresses(host, port, timeout)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return Stream(connect(address, port, timeout), self._patience, self)
        return Stream(connect(last, port, timeout), self._patience, self)

    def _addresses(self, host: str, port: int, timeout: float | None) -> list[str]:
        until = float("inf") if timeout is None else time.monotonic() + timeout
        try:
            found = _resolve(host, port)
            while not found.done() and time.monotonic() < until and not self._closed:
                wait([found], max(0.0, min(_LOOK_AGAIN, until - time.monotonic())))
            if not found.done():
                raise socket.gaierror(socket.EAI_AGAIN, "the resolver did not answer in time")
            return found.result()
        except (OSError, RuntimeError) as error:
            # RuntimeError: no thread can be started.
            raise httpcore.ConnectError(str(error)) from error

    def add(self, stream: Stream) -> None:
        """Register a connection; raise ConnectError after `shut`."""
        with self._lock:
            if not self._closed:
                self._streams.add(stream)
                return
        stream.close()
        raise httpcore.ConnectError("the client was closed")

    def shut(self) -> None:
        """End every connection, from any thread, and let every later one fail."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.shut()
