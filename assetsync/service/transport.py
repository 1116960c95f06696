"""How requests reach the service: settings, TLS, and a transport for httpx over the connections of `network`.

The configuration reads the settings from file, environment or credential.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpcore
import httpx
from pydantic import SecretStr

from assetsync import __version__
from assetsync.config.values import web_address
from assetsync.errors import ConfigError, Unusable
from assetsync.service.multipart import Credential
from assetsync.service.network import Backend, Stream

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"assetsync/{__version__}"}
"""Headers of every request."""

_KEEP_SECONDS = 2.0
"""Seconds for which a connection is kept: a service may close it just when it is used again, which is a doubt."""

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
    alive: Callable[[], None] = lambda: None
    """Called before each part of a request or an answer is waited for."""


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


class Transport(httpx.BaseTransport):
    """Connections for requests of any thread; no environment, no redirects, no cookies, and nothing is sent again.

    A service may give any answer before it has read the request's body. It would then read the rest of the body as a
    further request, and the client would read the answer to that as the answer to its next request. So a connection is
    closed after its answer, unless `keep` was called.
    """

    def __init__(self, settings: ServiceSettings, context: ssl.SSLContext | None = None) -> None:
        """Open no connection yet; `context` replaces that of the settings. Raise ConfigError for unusable settings."""
        urls = (settings.base_url, settings.upload_url, settings.proxy or "")
        if context is None and not settings.ca_file and not any(url.startswith("https:") for url in urls):
            # No address uses TLS: this context is never used, is fast to create and trusts no authority.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = context or tls_context(settings.ca_file)
        context.set_alpn_protocols(["http/1.1"])
        self._backend = Backend(settings.read_timeout, settings.alive)
        self.tls = context
        self._timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout).as_dict()
        shared: dict[str, Any] = {
            "ssl_context": context,
            "network_backend": self._backend,
            "max_connections": None,
            "keepalive_expiry": _KEEP_SECONDS,
        }
        self._pool: httpcore.ConnectionPool
        if settings.proxy is None:
            self._pool = httpcore.ConnectionPool(**shared)
            return
        proxy = httpx.Proxy(address("service.proxy", settings.proxy))
        proxy_context = context if proxy.url.scheme == "https" else None
        self._pool = httpcore.HTTPProxy(
            _url(proxy.url), proxy_auth=proxy.raw_auth, proxy_ssl_context=proxy_context, **shared
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; raises httpx's errors."""
        self._backend.alive()
        with _errors_of_httpx():
            answer = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    _url(request.url),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Parts(answer), extensions=answer.extensions, request=request
        )

    def keep(self, response: httpx.Response) -> None:
        """Keep the connection of an answer for another request, if it is certain where the answer ended.

        Its `stream` was read to the end and is not closed.
        """
        stream = response.extensions.get("network_stream")
        # With a length and with chunks it is not certain where the answer ended.
        has_two_ends = "content-length" in response.headers and "transfer-encoding" in response.headers
        if isinstance(stream, Stream):
            stream.keeps = not (has_two_ends or stream.holds_surplus)

    def waits(self, patience: float | None = None) -> dict[str, Any]:
        """Return what a request carries: the time-outs of its waits, each at most `patience` seconds."""
        most = float("inf") if patience is None else patience
        return {"timeout": {wait: min(most, cast("float", seconds)) for wait, seconds in self._timeout.items()}}

    def close_kept(self) -> None:
        """Close the connections that were kept; no request may be in flight."""
        self._pool.close()

    def close(self) -> None:
        """Close every connection; open requests of other threads end as unanswered, and new requests fail."""
        self._backend.shut()
        for connection in self._pool.connections:
            if connection.is_idle():
                connection.close()


class _Parts(httpx.SyncByteStream):
    """The body of an answer; each piece has its own time limit."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._body = cast("httpx.SyncByteStream", answer.stream)
        self._stream: httpcore.NetworkStream = answer.extensions["network_stream"]

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx():
            self._expect_part()
            for piece in self._body:
                yield piece
                # The time that the reader took for the piece does not count.
                self._expect_part()

    def _expect_part(self) -> None:
        if isinstance(self._stream, Stream):
            self._stream.expect_part()

    def close(self) -> None:
        if not (isinstance(self._stream, Stream) and self._stream.keeps):
            self._stream.close()
        self._body.close()


def _url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    """Translate the errors of httpcore, whose names are the same."""
    try:
        yield
    except _ERRORS as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)
