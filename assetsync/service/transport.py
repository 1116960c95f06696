"""How requests reach the service: settings, TLS, and a transport for httpx that another thread can close.

Names are looked up in daemon threads, because nothing ends a look-up: a resolver that hangs delays no time-out and no
stop. The transport limits the wait for each part of an answer. httpx's own time-outs begin anew with each byte: an
answer that drips would never end. No connection is used twice, because a service may close a connection that it has
kept just when it is used again, which would cost a doubt. The configuration reads the settings from file, environment
or credential.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, cast
from weakref import WeakSet

import httpcore
import httpx
from pydantic import SecretStr

from assetsync import __version__
from assetsync.config.values import web_address
from assetsync.errors import ConfigError, Unusable
from assetsync.service.multipart import Credential

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"assetsync/{__version__}"}
"""Headers of every request."""

_LOOK_AGAIN = 0.25
"""Seconds after which a wait for a look-up notices that the client was closed."""

_LONGEST_RETRY_AFTER = 3600.0
"""Longest wait in seconds: one request an hour is no burden, and a proxy may ask for a day where it means minutes."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of the client; timeouts in seconds. `key_help` is what helps if the service refuses the key.

    `read_timeout` limits each silence of the service, and the total time of a short answer. `spelling` has the
    ids of the mapped folders as the configuration writes them, by their small letters.
    """

    base_url: str
    upload_url: str
    api_key: SecretStr
    credential: Credential = "api_key"
    ca_file: str | None = None
    proxy: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 300.0
    spelling: Mapping[str, str] = field(default_factory=dict)
    key_help: str = ""


def address(key: str, url: str) -> httpx.URL:
    """Return an address of the configuration as httpx reads it; `key` is its place there.

    Raise ConfigError, which does not quote the address, because it may contain a key.
    """
    try:
        return httpx.URL(web_address(url))
    except (Unusable, httpx.InvalidURL):
        raise ConfigError([f"{key} is not an address: write http:// or https://, a host and a path"]) from None


def tls_context(ca_file: str | None, *, and_system: bool = False) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of `ca_file` alone, or those of the system: without it, or too.

    Raise ConfigError for an unusable file.
    """
    try:
        context = ssl.create_default_context(cafile=None if and_system else ca_file)
        if and_system and ca_file is not None:
            context.load_verify_locations(cafile=ca_file)
    except (OSError, ValueError) as exc:
        problem = f"service.ca_file: {ca_file} cannot be used as a file of certificates ({exc}): name a PEM file"
        raise ConfigError([problem]) from exc
    return context


def retry_after_seconds(header: str) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most an hour; None without a valid header."""
    header = header.strip()
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return min(float(header[:10]), _LONGEST_RETRY_AFTER)
    try:
        seconds = parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)


class Transport(httpx.HTTPTransport):
    """Connections for requests of any thread; no environment, no redirects, no cookies."""

    def __init__(self, settings: ServiceSettings, context: ssl.SSLContext | None = None) -> None:
        """Open no connection yet; `context` replaces that of the settings. Raise ConfigError for unusable settings."""
        urls = (settings.base_url, settings.upload_url, settings.proxy or "")
        if context is None and not settings.ca_file and not any(url.startswith("https:") for url in urls):
            # No address uses TLS: this context is never used, is fast to create and trusts no authority.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = context or tls_context(settings.ca_file)
        context.set_alpn_protocols(["http/1.1"])
        self._backend = _Backend(settings.read_timeout)
        self.tls = context
        self._timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout).as_dict()
        shared: dict[str, Any] = {
            "ssl_context": context,
            "network_backend": self._backend,
            "max_keepalive_connections": 0,
            "max_connections": None,
        }
        if settings.proxy is None:
            self._pool = httpcore.ConnectionPool(**shared)
            return
        proxy = httpx.Proxy(address("service.proxy", settings.proxy))
        url = httpcore.URL(
            scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=proxy.url.raw_path
        )
        proxy_context = context if proxy.url.scheme == "https" else None
        self._pool = httpcore.HTTPProxy(url, proxy_auth=proxy.raw_auth, proxy_ssl_context=proxy_context, **shared)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; raises httpx's errors."""
        response = super().handle_request(request)
        stream = response.extensions["network_stream"]
        if isinstance(stream, _Stream):
            response.stream = _Parts(cast("httpx.SyncByteStream", response.stream), stream)
        return response

    def waits(self, patience: float | None = None) -> dict[str, Any]:
        """Return what a request carries: the time-outs of its waits, each at most `patience` seconds."""
        most = float("inf") if patience is None else patience
        return {"timeout": {wait: min(most, cast("float", seconds)) for wait, seconds in self._timeout.items()}}

    def close(self) -> None:
        """Close every connection; open requests of other threads end as unanswered, and new requests fail."""
        self._backend.shut()


class _Parts(httpx.SyncByteStream):
    """The body of an answer; each piece has its own time limit."""

    def __init__(self, body: httpx.SyncByteStream, stream: "_Stream") -> None:
        self._body = body
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        self._stream.expect_part()
        for piece in self._body:
            yield piece
            # The time that the reader took for the piece does not count.
            self._stream.expect_part()

    def close(self) -> None:
        self._body.close()


class _Stream(httpcore.NetworkStream):
    """One connection.

    The head of an answer must have come `patience` seconds after it was first waited for, and each piece of its body
    `patience` seconds after `expect_part`. Announcements, sizes of chunks and trailers that drip in meanwhile do not
    count.
    """

    def __init__(self, under: httpcore.NetworkStream, patience: float, backend: "_Backend") -> None:
        self._under = under
        self._patience = patience
        self._backend = backend
        self._until: float | None = None
        self._shut = False
        backend.add(self)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._until = None
        self._under.write(buffer, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._until is None:
            self.expect_part()
        left = cast("float", self._until) - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("a part of the answer took too long")
        received = self._under.read(max_bytes, left if timeout is None else min(timeout, left))
        if not received and self._shut:
            # An answer without a length ends with its connection: this one was cut.
            raise httpcore.ReadError("the client was closed")
        return received

    def expect_part(self) -> None:
        self._until = time.monotonic() + self._patience

    def close(self) -> None:
        self._under.close()

    def shut(self) -> None:
        self._shut = True
        # Closing a socket does not wake the thread that reads from it, shutting it down does.
        with suppress(OSError):
            socket.socket.shutdown(self._under.get_extra_info("socket"), socket.SHUT_RDWR)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        secured = self._under.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(secured, self._patience, self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._under.get_extra_info(info)


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


def resolve(host: str, port: int) -> "Future[list[str]]":
    """Return the future addresses of a host; it raises OSError or UnicodeError, and may never end.

    Raise RuntimeError if no thread can be started.
    """
    if _is_address(host):
        found: Future[list[str]] = Future()
        found.set_result([host])
        return found
    return _LOOK_UPS.begin(host, port)


def _is_address(host: str) -> bool:
    """Return whether a host is an IP address, which is not looked up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return True
    return False


def unresolved() -> OSError:
    """Return the error for a look-up without an answer in time."""
    return socket.gaierror(socket.EAI_AGAIN, "the resolver did not answer in time")


class _Backend(httpcore.SyncBackend):
    """Connects over TCP, and knows the open connections."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        # A signal handler may call `shut` while its thread is in `add`.
        self._lock = threading.RLock()
        self._streams: WeakSet[_Stream] = WeakSet()
        self._closed = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _Stream:
        connect = partial(super().connect_tcp, local_address=local_address, socket_options=socket_options)
        *others, last = self._addresses(host, port, timeout)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return _Stream(connect(address, port, timeout), self._patience, self)
        return _Stream(connect(last, port, timeout), self._patience, self)

    def _addresses(self, host: str, port: int, timeout: float | None) -> list[str]:
        until = float("inf") if timeout is None else time.monotonic() + timeout
        try:
            found = resolve(host, port)
            while not found.done() and time.monotonic() < until and not self._closed:
                wait([found], max(0.0, min(_LOOK_AGAIN, until - time.monotonic())))
            if not found.done():
                raise unresolved()
            return found.result()
        except (OSError, RuntimeError) as error:
            # RuntimeError: no thread can be started.
            raise httpcore.ConnectError(str(error)) from error

    def add(self, stream: _Stream) -> None:
        """Register a connection; raises ConnectError after `shut`."""
        with self._lock:
            if not self._closed:
                self._streams.add(stream)
                return
        stream.close()
        raise httpcore.ConnectError("the client was closed")

    def shut(self) -> None:
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.shut()
