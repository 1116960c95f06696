"""Connections to the service: a transport for httpx that sends a request in few writes and waits for no head for ever.

It raises httpx's errors; what they mean for a person is for `failures`, what is sent and read for `client`, and the
sockets for `stream`. By a proxy requests go through httpcore, the engine of httpx's own transport.
"""

import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import httpcore
import httpx

from assetsync.service.direct import LENGTHS, Direct, Incoming, head
from assetsync.service.kept import Kept
from assetsync.service.settings import ServiceSettings, checked_url, tls_context
from assetsync.service.stream import Backend, Stream

# The live service closes after each answer; where a proxy keeps connections, an old one may be closed just as it is
# used, and that costs a doubt.
_KEEPALIVE_SECONDS = 2.0

Address = httpcore.URL
"""An address as the connections take it."""


class Transport(httpx.BaseTransport):
    """Connections as httpx takes them; no environment, no redirects, no cookies. Safe to share."""

    def __init__(self, settings: ServiceSettings, context: ssl.SSLContext | None = None) -> None:
        """Open no connection yet; `context` stands for the one of the settings. Raises ConfigError for bad settings."""
        self._backend = Backend(settings.read_timeout)
        self._kept = Kept(_maker(settings, self._backend, context or tls_context(settings)))
        self._by_proxy = bool(settings.proxy)
        # Of TLS in TLS it cannot be told whether more has come than the answer.
        self._is_nested = (settings.proxy or "").lower().startswith("https:")
        timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout)
        self.extensions: dict[str, Any] = {"timeout": timeout.as_dict()}
        """What each request carries: the limits of its waits in seconds."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; raises as `exchange` does."""
        content = cast("httpx.SyncByteStream", request.stream)
        answer = self.exchange(request.method, address_of(request.url), request.headers.raw, content)
        return httpx.Response(answer.status, headers=answer.headers, stream=answer)

    def exchange(
        self, verb: str, address: Address, headers: Sequence[tuple[bytes, bytes]], content: Iterable[bytes]
    ) -> "Answer":
        """Send a request and read the head of its answer; raises httpx's errors.

        Where a write fails, the answer that may have come early is still read: an explicit refusal counts.
        """
        return self.begin(verb, address, headers, content)()

    def begin(
        self, verb: str, address: Address, headers: Sequence[tuple[bytes, bytes]], content: Iterable[bytes]
    ) -> "Exchange":
        """Send a request, whose answer is read later; raises httpx's errors."""
        kept = None if self._is_nested and address.scheme == b"https" else self._kept
        if self._by_proxy:
            sent = httpcore.Request(verb, address, headers=headers, content=content, extensions=self.extensions)
            return Exchange(lambda: self._by_engine(sent, kept), None)
        with _AS_HTTPX:
            connection = self._kept.take(address.origin)
        assert isinstance(connection, Direct), "without a proxy all of them are"
        with _AS_HTTPX, _closing_in_trouble(connection):
            connection.send(head(verb, address.target, headers), content)
        return Exchange(lambda: self._received(connection, kept), connection)

    def _received(self, connection: Direct, kept: Kept | None) -> "Answer":
        with _AS_HTTPX, _closing_in_trouble(connection):
            incoming = connection.receive()
        return Answer(incoming, incoming, incoming.under, connection, kept)

    def _by_engine(self, sent: httpcore.Request, kept: Kept | None) -> "Answer":
        with _AS_HTTPX:
            connection = self._kept.take(sent.url.origin)
        with _AS_HTTPX, _closing_in_trouble(connection):
            found = connection.handle_request(sent)
        body = cast("Iterable[bytes]", found.stream)
        return Answer(found, body, found.extensions.get("network_stream"), connection, kept)

    def close(self) -> None:
        """Close every connection; requests that other threads have open end as unanswered, and no more are made."""
        self._kept.close()
        self._backend.shut()


class Exchange:
    """A request that has left; called once, it reads the head of its answer, and raises httpx's errors.

    By a proxy nothing has left before that, and nothing is known of the answer.
    """

    def __init__(self, receive: Callable[[], "Answer"], connection: Direct | None) -> None:
        self._receive = receive
        self._connection = connection

    def __call__(self) -> "Answer":
        """Wait for the head of the answer."""
        return self._receive()

    def fileno(self) -> int | None:
        """Give the descriptor that can be read when something of the answer has come; None where there is none."""
        return None if self._connection is None else self._connection.fileno()

    def is_ready(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self._connection is not None and self._connection.is_ready()


class _closing_in_trouble:  # noqa: N801 - reads as what it does; a class, because there are many
    """Closes a connection by which something went wrong."""

    def __init__(self, connection: httpcore.ConnectionInterface) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, *_raised: object) -> None:
        if kind is not None:
            self._connection.close()


class Answer(httpx.SyncByteStream):
    """An answer of which the head has come; iterated it gives the body, and it is to be closed or kept."""

    def __init__(
        self,
        found: Incoming | httpcore.Response,
        body: Iterable[bytes],
        under: object,
        connection: httpcore.ConnectionInterface,
        kept: Kept | None,
    ) -> None:
        self.status = found.status
        self.headers = found.headers
        """Names as they came, with their values."""
        self._found = found
        self._body = body
        self._connection = connection
        self._kept = kept
        self._closed = False
        # Another one stands there when an answer claims to have changed the protocol.
        self._stream = under if isinstance(under, Stream) else None

    def header(self, name: bytes) -> str | None:
        """Give the value of the header `name`, which is written in small letters; None without one."""
        found = [_text(value) for known, value in self.headers if known.lower() == name]
        return ", ".join(found) if found else None

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body; raises httpx's errors, ReadTimeout also where bytes come that are no body."""
        with _AS_HTTPX:
            self._wait_for_more()
            for piece in self._body:
                yield piece
                if piece:
                    # The time that the reader took for the piece does not count.
                    self._wait_for_more()

    def _wait_for_more(self) -> None:
        if self._stream is not None:
            self._stream.part_came()

    def keep(self) -> None:
        """Close the answer, and let its connection carry another request where the answer ended exactly.

        Only for an accepted upload. The service may give any other answer before it has read the request's body: it
        then reads the rest of that body as a further request, and the client reads the answer to that as the answer to
        its next upload.
        """
        if self._closed:
            return
        self._closed = True
        # With a length and chunks it is not certain where the answer ended; only the engine reads such an answer.
        is_unclear = {name.lower() for name, _value in self.headers} >= LENGTHS
        has_more = is_unclear or _has_more(self._body)
        self._found.close()
        if has_more or self._kept is None:
            self._connection.close()
        else:
            self._kept.give_back(self._connection)

    def close(self) -> None:
        """Close the answer and its connection; after `keep` this does nothing."""
        if self._closed:
            # Another request may use the connection by now.
            return
        self._closed = True
        self._found.close()
        self._connection.close()


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def address_of(url: httpx.URL) -> Address:
    """Take an address apart once for any number of requests."""
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _has_more(pieces: object) -> bool:
    """Whether bytes came behind the end of an answer, or it cannot be told.

    They would be read as the answer to the next request, and one file would get the id of another.
    """
    if isinstance(pieces, Incoming):
        return pieces.has_more
    # The engine shows only by its own parts what is left in its parser.
    for part in ("_connection", "_h11_state", "trailing_data"):
        pieces = getattr(pieces, part, None)
    return not isinstance(pieces, tuple) or bool(pieces[0])


def _maker(
    settings: ServiceSettings, backend: Backend, context: ssl.SSLContext
) -> Callable[[httpcore.Origin], httpcore.ConnectionInterface]:
    """Give what makes a connection to an origin, by the proxy where there is one."""
    context.set_alpn_protocols(["http/1.1"])
    if not settings.proxy:
        patience = settings.read_timeout
        return lambda origin: Direct(
            origin, lambda: _opened(origin, backend, context, settings), patience, _KEEPALIVE_SECONDS
        )
    shared: dict[str, Any] = {
        "ssl_context": context,
        "keepalive_expiry": _KEEPALIVE_SECONDS,
        "network_backend": backend,
    }
    proxy = httpx.Proxy(httpx.URL(checked_url("service.proxy", settings.proxy)))
    url = proxy.url
    return httpcore.HTTPProxy(
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        proxy_auth=proxy.raw_auth,
        proxy_ssl_context=context if url.scheme == "https" else None,
        **shared,
    ).create_connection


def _opened(origin: httpcore.Origin, backend: Backend, context: ssl.SSLContext, settings: ServiceSettings) -> Stream:
    """Connect to an origin, by TLS where it says so."""
    host, patience = origin.host.decode("ascii"), settings.connect_timeout
    stream = backend.connect_tcp(host, origin.port, timeout=patience)
    return stream.start_tls(context, host, patience) if origin.scheme == b"https" else stream


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
