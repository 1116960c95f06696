"""The three operations over HTTP: the only module that knows httpx.

It sends and maps what the transport raises, and decides nothing: what an upload's answer means is `core.outcome`'s,
what search and index answers hold is read by `recordset` and `indexing`. No environment, no redirects, no cookies:
requests go to the transport directly, which also keeps addresses out of httpx's own log lines.
"""

import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast
from urllib.parse import quote, quote_plus, urlencode

import httpx

from assetsync import __version__
from assetsync.core.outcome import ANSWER_LIMIT, Reply, read_giving_up, read_silence, read_upload_answer
from assetsync.errors import AssetsyncError, BadAnswer, FileChanged, ServiceError, ServiceUnreachable, UsageError
from assetsync.model import Answer, Body, Fault, Left, Outcome, SearchRequest, Sent, UploadRequest
from assetsync.service.call import SEARCH_PATH, Call, Wire, index_call, search_call
from assetsync.service.indexing import read_index_answer
from assetsync.service.multipart import Sending, frame
from assetsync.service.recordset import RecordStream
from assetsync.service.refusal import refusal
from assetsync.service.settings import RawAnswer, ServiceSettings, checked_url, retry_after_seconds, tls_context

__all__ = ["HttpService", "RawAnswer", "ServiceSettings", "Wire"]

RAW_LIMIT = 64 * 1024 * 1024
"""Bytes of an answer that is handed on unread."""

_FORM = "application/x-www-form-urlencoded"
_SPARE_CONNECTIONS = 4  # for the scheduled look-ups beside the uploads
# The live service closes after each answer; where a proxy keeps connections, an old one may be closed just as it is
# used, and that costs a doubt.
_KEEPALIVE_SECONDS = 2.0
# UnicodeError: a host name that cannot be encoded passes through httpx as it is.
_TRANSPORT_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError)
_HTTP_ERROR = 400
_HTTP_REDIRECT = 300


class _Stream(httpx.SyncByteStream):
    """A request body for the transport."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._sending)


class HttpService:
    """The service of `model.Service` over HTTP/1.1; safe to share between threads."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Make the connection pool; opens no connection. Raises ConfigError for settings that cannot work."""
        self._key = settings.api_key.get_secret_value()
        self._credential = settings.credential
        self._upload_url = httpx.URL(checked_url("service.upload_url", settings.upload_url))
        search_url = checked_url("service.base_url", settings.base_url).rstrip("/") + SEARCH_PATH
        self._search_url = httpx.URL(search_url)
        self._longest_answer = settings.read_timeout
        context = tls_context(settings)
        proxy = None
        if settings.proxy:
            address = httpx.URL(checked_url("service.proxy", settings.proxy))
            proxy = httpx.Proxy(address, ssl_context=context if address.scheme == "https" else None)
        connections = settings.connections + _SPARE_CONNECTIONS
        self._transport = httpx.HTTPTransport(
            verify=context,
            trust_env=False,
            http2=False,
            limits=httpx.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            ),
            proxy=proxy,
        )
        timeout = httpx.Timeout(settings.read_timeout, connect=settings.connect_timeout)
        self._extensions = {"timeout": timeout.as_dict()}
        self._headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"assetsync/{__version__}"}

    def close(self) -> None:
        """Close every connection; requests that other threads have open end as unanswered."""
        self._transport.close()

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file (interface section 4.3); what left is told by the body, the verdict by `core.outcome`.

        Never raises for anything that the file, the network or the service does.
        """
        try:
            framed = frame(request, self._key, body.size, credential=self._credential)
        except UsageError as exc:
            unsent = Outcome(Answer.UNSENT, reason="bad_form", detail=str(exc), fault=Fault.FILE)
            return Sent(unsent, Left.NOTHING, body.handed, body.md5)
        sending = Sending(framed, body)
        url = self._upload_url
        if framed.query:
            joined = "&".join(part for part in (url.query.decode("ascii"), framed.query) if part)
            url = url.copy_with(query=joined.encode("ascii"))
        try:
            sending.prepare()
            reply = self._post(url, framed.content_type, framed.length, _Stream(sending))
            outcome = read_upload_answer(reply, sending.left, redirectto=request.options.redirectto)
        except _TRANSPORT_ERRORS as exc:
            outcome = read_silence(sending.left, _unreachable(exc, url).message)
        except AssetsyncError as exc:
            # From the Body alone: nothing that reads an upload's answer raises.
            outcome = read_giving_up(sending.left, str(exc), changed=isinstance(exc, FileChanged))
        return Sent(outcome, sending.left, body.handed, body.md5)

    @contextmanager
    def search(self, request: SearchRequest, wire: Wire = "row") -> Iterator[RecordStream]:
        """Open one search (interface section 4.1); its rows are read as a stream inside the block.

        Each output format gives the same records; those by columns and WDDX are read whole, within bounds. Raises
        UsageError for parameters that exclude each other, and what `model.Service.search` says.
        """
        with self._keyless(), self._call(search_call(request, wire)) as response:
            yield RecordStream(_type_of(response), _chunks(response))

    def search_raw(self, request: SearchRequest, wire: Wire) -> RawAnswer:
        """Give the answer to one search as it comes, in one of the output formats of section 4.1; at most RAW_LIMIT.

        Raises as `search` does, but does not look for an error in the answer.
        """
        with self._keyless(), self._call(search_call(request, wire)) as response:
            return RawAnswer(_type_of(response), self._whole(response, RAW_LIMIT))

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing (interface section 4.2) of these ids, or of all with the one id `all`; gives the message.

        Raises UsageError for what is no id or no list at all, and what `model.Service.index` says.
        """
        with self._keyless(), self._call(index_call(assetids)) as response:
            code, message = read_index_answer(_type_of(response), self._whole(response, ANSWER_LIMIT))
            if code != "0":
                raise refusal(code, message)
        return message

    def _post(self, url: httpx.URL, content_type: str, length: int, stream: _Stream) -> Reply:
        response = self._send(url, content_type, length, stream)
        try:
            body = self._bounded(response, ANSWER_LIMIT)
        finally:
            response.close()
        found = response.headers
        return Reply(
            response.status_code,
            _type_of(response),
            self._without_key(body.decode("latin-1")).encode("latin-1"),
            found.get("location"),
            retry_after_seconds(found.get("retry-after")),
        )

    @contextmanager
    def _call(self, call: Call) -> Iterator[httpx.Response]:
        """Post a form: the key stands in its body, method and switches in the address (both observed to work)."""
        url = self._search_url.copy_with(params=list(call.query))
        form = urlencode(call.form(self._key), errors="replace").encode("ascii")
        try:
            response = self._send(url, _FORM, len(form), httpx.ByteStream(form))
        except _TRANSPORT_ERRORS as exc:
            raise _unreachable(exc, url) from exc
        try:
            _check_status(response)
            yield response
        finally:
            response.close()

    def _send(self, url: httpx.URL, content_type: str, length: int, stream: httpx.SyncByteStream) -> httpx.Response:
        """Send one POST and read the head of its answer.

        Where a write fails, the transport still reads the answer that may have come early: an explicit refusal counts.
        """
        headers = {
            "Host": url.netloc.decode("ascii"),
            **self._headers,
            "Content-Type": content_type,
            "Content-Length": str(length),
        }
        request = httpx.Request("POST", url, headers=headers, stream=stream, extensions=self._extensions)
        return self._transport.handle_request(request)

    def _bounded(self, response: httpx.Response, limit: int) -> bytes:
        """Read an answer up to a little over the limit; one that trickles in for too long counts as none."""
        parts: list[bytes] = []
        length = 0
        began = time.monotonic()
        for chunk in response.iter_raw():
            parts.append(chunk)
            length += len(chunk)
            if length > limit:
                break
            if time.monotonic() - began > self._longest_answer:
                raise httpx.ReadTimeout("the answer took too long")
        return b"".join(parts)

    def _whole(self, response: httpx.Response, limit: int) -> bytes:
        try:
            body = self._bounded(response, limit)
        except _TRANSPORT_ERRORS as exc:
            raise _broken(exc, response) from exc
        if len(body) > limit:
            raise BadAnswer(f"the answer is longer than {limit} bytes")
        return body

    @contextmanager
    def _keyless(self) -> Iterator[None]:
        """Keep the key out of every error, even where the service quotes it."""
        try:
            yield
        except ServiceError as exc:
            exc.message = self._without_key(exc.message)
            exc.args = (exc.message,)
            raise

    def _without_key(self, text: str) -> str:
        for form in {self._key, quote(self._key), quote_plus(self._key)} if self._key else ():
            text = text.replace(form, "***")
        return text


def _type_of(response: httpx.Response) -> str:
    return cast("str", response.headers.get("content-type", ""))


def _check_status(response: httpx.Response) -> None:
    """Raise BadAnswer for a status that no sound answer has; the others say nothing (observed)."""
    status = response.status_code
    if status >= _HTTP_ERROR:
        raise BadAnswer(
            f"the answer was HTTP status {status}",
            hint="see whether service.base_url is the service's, and its log",
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )
    if status >= _HTTP_REDIRECT:
        raise BadAnswer(
            f"the answer was a redirect (HTTP status {status})", hint="write the final address as service.base_url"
        )


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    """Yield an answer's bytes as they come, the transport's errors turned into ours."""
    try:
        yield from response.iter_raw()
    except _TRANSPORT_ERRORS as exc:
        raise _broken(exc, response) from exc


def _broken(exc: Exception, response: httpx.Response) -> ServiceError:
    """Make the error for an answer that began and did not end."""
    if isinstance(exc, httpx.TimeoutException):
        return ServiceUnreachable(
            f"the service stopped in the middle of its answer (HTTP status {response.status_code})"
        )
    return BadAnswer("the connection ended in the middle of the answer", hint="it is asked again later")


def _unreachable(exc: Exception, url: httpx.URL) -> ServiceUnreachable:
    """Make the error for a request without an answer; it names host and port, and nothing else of the address."""
    where = url.netloc.decode("ascii").rpartition("@")[2]
    causes = _causes(exc)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ServiceUnreachable(
            f"the TLS certificate of {where} is not trusted", hint="name its authority's file as service.ca_file"
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ServiceUnreachable(f"no TLS connection with {where} came about", hint="check scheme and port")
    if isinstance(exc, UnicodeError) or any(isinstance(cause, socket.gaierror) for cause in causes):
        return ServiceUnreachable(f"the name of {where} could not be resolved", hint="check the address and the DNS")
    if isinstance(exc, httpx.PoolTimeout):
        return ServiceUnreachable(f"every connection to {where} stayed in use")
    if isinstance(exc, httpx.ConnectTimeout):
        return ServiceUnreachable(f"{where} did not accept a connection in time")
    if isinstance(exc, httpx.TimeoutException):
        return ServiceUnreachable(f"{where} did not answer in time")
    if isinstance(exc, httpx.ProxyError):
        return ServiceUnreachable(f"the proxy gave no connection to {where}", hint="check service.proxy")
    if isinstance(exc, httpx.ConnectError):
        return ServiceUnreachable(f"{where} could not be connected to", hint="check that the service runs")
    if isinstance(exc, httpx.RemoteProtocolError):
        return ServiceUnreachable(f"{where} closed the connection without a sound HTTP answer")
    return ServiceUnreachable(f"the connection to {where} broke")


def _causes(exc: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    step: BaseException | None = exc
    while step is not None and step not in causes:
        causes.append(step)
        step = step.__cause__ or step.__context__
    return causes
