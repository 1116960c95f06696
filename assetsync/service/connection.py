"""Connections to the service: a transport for httpx that sends a request in few writes and waits for no head for ever.

It has the sockets and the time limits, and raises httpx's errors; what they mean for a person is for `failures`, what
is sent and read for `client`. Under it is httpcore, the engine of httpx's own transport, which gives no way to a
connection's writes.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, cast
from weakref import WeakSet

import httpcore
import httpx

from assetsync.service.kept import Kept
from assetsync.service.settings import ServiceSettings, checked_url, tls_context
from assetsync.turn import TURN

# The live service closes after each answer; where a proxy keeps connections, an old one may be closed just as it is
# used, and that costs a doubt.
_KEEPALIVE_SECONDS = 2.0
_HEAD_LIMIT = 64 * 1024
_ROOM = 32 * 1024
_STAYING = nullcontext()


class Stream(httpcore.NetworkStream):
    """One connection, over the stream that does the work; used by one request at a time.

    The head of a request waits for the first piece of its body and leaves with it in one write. The head of an answer
    must have come `patience` seconds after it was first waited for, however many bytes drip in meanwhile; `head_came`
    ends that.
    """

    def __init__(self, under: httpcore.NetworkStream, patience: float, born: Callable[["Stream"], None]) -> None:
        self._under = under
        self._patience = patience
        self._born = born
        self._held = b""
        self._sending = False
        self._head_until: float | None = None
        self._shut = False
        born(self)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it, or keep the head of a request for the write that follows."""
        if not self._sending:
            self._sending = True
            self._head_until = None
            if len(buffer) < _HEAD_LIMIT:
                self._held = buffer
                return
        if self._held:
            buffer, self._held = self._held + buffer, b""
        if buffer:
            # What is small fits into the kernel's buffer, and there is nothing to wait for.
            with _STAYING if len(buffer) <= _ROOM else TURN.left():
                self._under.write(buffer, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Receive some bytes; none at the end that the other side has made.

        Raises httpcore.ReadTimeout also for a head that takes too long in all, and ReadError at the end that `shut` has
        made.
        """
        if self._sending:
            self._sending = False
            self._head_until = time.monotonic() + self._patience
            if self._held:
                held, self._held = self._held, b""
                self._under.write(held, timeout)
        if self._head_until is not None:
            left = self._head_until - time.monotonic()
            if left <= 0:
                raise httpcore.ReadTimeout("the head of the answer took too long")
            timeout = left if timeout is None else min(timeout, left)
        with TURN.left():
            received = self._under.read(max_bytes, timeout)
        if not received and self._shut:
            # An answer without a length ends with its connection: this one was cut.
            raise httpcore.ReadError("the client was closed")
        return received

    def head_came(self) -> None:
        """Say that what comes now is the answer's body, which may take its time."""
        self._head_until = None

    def close(self) -> None:
        """Close the connection."""
        self._under.close()

    def shut(self) -> None:
        """End the connection from another thread; what has come of an answer is not taken for the whole of it."""
        self._shut = True
        # Closing a socket does not wake the thread that reads from it, shutting it down does.
        with suppress(OSError):
            socket.socket.shutdown(self._under.get_extra_info("socket"), socket.SHUT_RDWR)

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> "Stream":
        """Go on under TLS."""
        with TURN.left():
            secured = self._under.start_tls(ssl_context, server_hostname, timeout)
        return Stream(secured, self._patience, self._born)

    def get_extra_info(self, info: str) -> Any:
        """Tell what the stream under it knows."""
        return self._under.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Connects over TCP, and keeps each connection in mind as long as it lives."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._streams: WeakSet[Stream] = WeakSet()
        self._closed = False

    def connect_tcp(self, *args: Any, **kwargs: Any) -> Stream:
        """Open one connection."""
        with TURN.left():
            connected = super().connect_tcp(*args, **kwargs)
        return Stream(connected, self._patience, self._born)

    def shut(self) -> None:
        """End all connections, and each at once that is just being made."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.shut()

    def _born(self, stream: Stream) -> None:
        with self._lock:
            if not self._closed:
                self._streams.add(stream)
                return
        stream.close()
        raise httpcore.ConnectError("the client was closed")


class Transport(httpx.BaseTransport):
    """Connections as httpx takes them; no environment, no redirects, no cookies. Safe to share."""

    def __init__(self, settings: ServiceSettings, context: ssl.SSLContext | None = None) -> None:
        """Open no connection yet; `context` stands for the one of the settings. Raises ConfigError for bad settings."""
        self._backend = _Backend(settings.read_timeout)
        self._kept = Kept(_maker(settings, self._backend, context or tls_context(settings)))
        # Of TLS in TLS it cannot be told whether more has come than the answer.
        self._is_nested = (settings.proxy or "").lower().startswith("https:")
        timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout)
        self.extensions: dict[str, Any] = {"timeout": timeout.as_dict()}
        """What each request carries: the limits of its waits in seconds."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; raises httpx's errors.

        Where a write fails, the answer that may have come early is still read: an explicit refusal counts.
        """
        url = request.url
        address = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = httpcore.Request(
            request.method,
            address,
            headers=request.headers.raw,
            content=cast("httpx.SyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _AS_HTTPX:
            connection = self._kept.take(address.origin)
            try:
                found = connection.handle_request(sent)
            except BaseException:
                connection.close()
                raise
        under = found.extensions.get("network_stream")
        # Another one stands there when an answer claims to have changed the protocol.
        if isinstance(under, Stream):
            under.head_came()
        kept = None if self._is_nested and url.scheme == "https" else self._kept
        return httpx.Response(found.status, headers=found.headers, stream=_Answer(found, connection, kept))

    def close(self) -> None:
        """Close every connection; requests that other threads have open end as unanswered, and no more are made."""
        self._kept.close()
        self._backend.shut()


class _Answer(httpx.SyncByteStream):
    """The body of an answer on its way in, with the connection that it comes by."""

    def __init__(self, found: httpcore.Response, connection: httpcore.ConnectionInterface, kept: Kept | None) -> None:
        self._found = found
        self._connection = connection
        self._kept = kept
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        with _AS_HTTPX:
            yield from cast("Iterable[bytes]", self._found.stream)

    def close(self) -> None:
        if self._closed:
            # It may be another request's by now.
            return
        self._closed = True
        has_more = _has_more(self._found.stream)
        self._found.close()
        if has_more or self._kept is None:
            self._connection.close()
        else:
            self._kept.give_back(self._connection)


def _has_more(pieces: object) -> bool:
    """Whether bytes came behind the end of an answer, or it cannot be told.

    The engine would read them as the answer to the next request, and one file would get the id of another.
    """
    # The engine shows only by its own parts what is left in its parser.
    for part in ("_connection", "_h11_state", "trailing_data"):
        pieces = getattr(pieces, part, None)
    return not isinstance(pieces, tuple) or bool(pieces[0])


def _maker(
    settings: ServiceSettings, backend: _Backend, context: ssl.SSLContext
) -> Callable[[httpcore.Origin], httpcore.ConnectionInterface]:
    """Give what makes a connection to an origin, by the proxy where there is one."""
    shared: dict[str, Any] = {
        "ssl_context": context,
        "keepalive_expiry": _KEEPALIVE_SECONDS,
        "network_backend": backend,
    }
    if not settings.proxy:
        return lambda origin: httpcore.HTTPConnection(origin, **shared)
    proxy = httpx.Proxy(httpx.URL(checked_url("service.proxy", settings.proxy)))
    url = proxy.url
    return httpcore.HTTPProxy(
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        proxy_auth=proxy.raw_auth,
        proxy_ssl_context=context if url.scheme == "https" else None,
        **shared,
    ).create_connection


_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.ReadTimeout, httpx.ReadTimeout),
    (httpcore.WriteTimeout, httpx.WriteTimeout),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.ReadError, httpx.ReadError),
    (httpcore.WriteError, httpx.WriteError),
    (httpcore.ProxyError, httpx.ProxyError),
    (httpcore.LocalProtocolError, httpx.LocalProtocolError),
    (httpcore.RemoteProtocolError, httpx.RemoteProtocolError),
    # Raised by no part of httpcore today: its own families.
    (httpcore.TimeoutException, httpx.TimeoutException),
    (httpcore.NetworkError, httpx.NetworkError),
    (httpcore.ProtocolError, httpx.ProtocolError),
)


class _AsHttpx:
    """Turns the engine's errors into httpx's of the same name; keeps nothing, and so there is one for all."""

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, raised: BaseException | None, _traceback: object) -> None:
        known = next((ours for theirs, ours in _ERRORS if isinstance(raised, theirs)), None) if raised else None
        if known is not None:
            raise known(str(raised)) from raised


_AS_HTTPX = _AsHttpx()
