"""The three operations over HTTP: with `connection` and `failures` beside it, all that knows httpx.

It sends, and decides nothing: what an upload's answer means is `core.outcome`'s,
what search and index answers hold is read by `recordset` and `indexing`. No environment, no redirects, no cookies:
requests go to the transport directly, which also keeps addresses out of httpx's own log lines.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Literal, TypeVar, cast
from urllib.parse import urlencode

import httpx

from assetsync import __version__
from assetsync.core.outcome import ANSWER_LIMIT, Reply, read_giving_up, read_silence, read_upload_answer
from assetsync.errors import (
    AssetsyncError,
    BadAnswer,
    FileChanged,
    KeyRefused,
    ServiceError,
    ServiceRefused,
    ServiceUnreachable,
    UsageError,
)
from assetsync.model import Answer, Body, Fault, Outcome, SearchRequest, Sent, SentExtent, UploadRequest
from assetsync.service.connection import Answer as HttpAnswer
from assetsync.service.connection import Exchange, Transport, address_of
from assetsync.service.errors import TRANSPORT_ERRORS, broken, refusal, unreachable
from assetsync.service.index import read_index_answer
from assetsync.service.multipart import Sending, frame
from assetsync.service.records import RecordStream
from assetsync.service.redaction import Redaction
from assetsync.service.search import SEARCH_PATH, Call, Wire, index_call, search_call
from assetsync.service.settings import RawAnswer, ServiceSettings, checked_url, retry_after_seconds

__all__ = ["HttpService", "RawAnswer", "ServiceSettings", "Wire"]

Verb = Literal["GET", "POST"]
T = TypeVar("T")

RAW_LIMIT = 64 * 1024 * 1024
"""Bytes of an answer that is handed on unread."""

STREAM_LIMIT = 2 * 1024**3
"""Bytes of an answer that is read as a stream: three million rows as they were seen."""

_SLOWEST = 1024  # bytes a second that a stream must have brought on average, once it has taken read_timeout

_FORM = "application/x-www-form-urlencoded"
_HTTP_ERROR = 400
_NOT_BY_POST = (400, 404, 405, 501)
_HTTP_REDIRECT = 300


class Underway:
    """An upload that was sent (`model.Underway`): `end` gives what became of it, by an exchange where there is one."""

    def __init__(self, end: Callable[[], Sent], exchange: Exchange | None = None) -> None:
        self.end = end
        """Wait for the answer; to be called once."""
        self._exchange = exchange

    def fileno(self) -> int | None:
        """Give the descriptor that can be read when something of the answer has come."""
        return None if self._exchange is None else self._exchange.fileno()

    def is_ready(self) -> bool:
        """Whether there is nothing to wait for; reads what has come of the answer."""
        return self._exchange is None or self._exchange.is_ready()


class HttpService:
    """The service of `model.Service` over HTTP/1.1; safe to share between threads."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Open no connection yet. Raises ConfigError for settings that cannot work."""
        self._key = settings.api_key.get_secret_value()
        self._redaction = Redaction(self._key)
        self._credential = settings.credential
        self._verb: Verb = "POST"
        self._verb_known = False
        self._by_proxy = settings.proxy is not None
        self._upload_url = httpx.URL(checked_url("service.upload_url", settings.upload_url))
        search_url = checked_url("service.base_url", settings.base_url).rstrip("/") + SEARCH_PATH
        self._search_url = httpx.URL(search_url)
        self._longest_answer = settings.read_timeout
        self._transport = Transport(settings)
        self._headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"assetsync/{__version__}"}
        self._upload_address = address_of(self._upload_url)
        headers = {"Host": self._upload_url.netloc.decode("ascii"), **self._headers}
        self._upload_headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]

    def close(self) -> None:
        """Close every connection; requests that other threads have open end as unanswered, and no more are made."""
        self._transport.close()

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file (interface section 4.3); what left is told by the body, the verdict by `core.outcome`.

        Never raises for anything that the file, the network or the service does.
        """
        return self.start(request, body).end()

    def start(self, request: UploadRequest, body: Body) -> Underway:
        """Send one file as `upload` does, but for the answer. By a proxy nothing leaves before that is waited for."""
        try:
            framed = frame(request, self._key, body.size, credential=self._credential)
        except UsageError as exc:
            unsent = Outcome(Answer.UNSENT, reason="bad_form", detail=str(exc), fault=Fault.FILE)
            sent = Sent(unsent, SentExtent.NOTHING, body.handed, body.md5)
            return Underway(lambda: sent)
        sending = Sending(framed, body)
        url, address = self._upload_url, self._upload_address
        if framed.query:
            joined = "&".join(part for part in (url.query.decode("ascii"), framed.query) if part)
            address = address_of(url.copy_with(query=joined.encode("ascii")))

        def told(outcome: Outcome) -> Sent:
            return Sent(self._redaction.outcome(outcome, sending.left), sending.left, body.handed, body.md5)

        def failed(exc: Exception) -> Sent:
            if isinstance(exc, AssetsyncError):
                # From the Body alone: nothing that reads an upload's answer raises.
                return told(read_giving_up(sending.left, str(exc), changed=isinstance(exc, FileChanged)))
            return told(read_silence(sending.left, unreachable(exc, url, proxy=self._by_proxy).message))

        def finish() -> Sent:
            try:
                with closing(exchange()) as answer:
                    reply = self._reply(answer)
                    outcome = read_upload_answer(reply, sending.left, redirectto=request.options.redirectto)
                    if outcome.answer is Answer.ACCEPTED:
                        answer.keep()
            except (*TRANSPORT_ERRORS, AssetsyncError) as exc:
                return failed(exc)
            return told(outcome)

        said = [(b"Content-Type", framed.content_type.encode("ascii")), (b"Content-Length", b"%d" % framed.length)]
        try:
            sending.prepare()
            exchange = self._transport.begin("POST", address, self._upload_headers + said, sending)
        except (*TRANSPORT_ERRORS, AssetsyncError) as exc:
            sent = failed(exc)
            return Underway(lambda: sent)
        return Underway(finish, exchange)

    @contextmanager
    def search(self, request: SearchRequest, wire: Wire = "row") -> Iterator[RecordStream]:
        """Open one search (interface section 4.1); its rows are read as a stream inside the block.

        Each output format gives the same records; those by columns and WDDX are read whole, within bounds. Raises
        UsageError for parameters that exclude each other, and what `model.Service.search` says.
        """
        call = search_call(request, wire)
        with self._either(lambda verb: self._open_search(call, verb)) as stream:
            yield stream

    def search_raw(self, request: SearchRequest, wire: Wire) -> RawAnswer:
        """Give the answer to one search as it comes, in one of the output formats of section 4.1; at most RAW_LIMIT.

        Raises as `search` does, but does not look for an error in the answer.
        """
        with self._keyless(), self._call(search_call(request, wire), self._verb) as response:
            return RawAnswer(_type_of(response), self._redaction.body(self._whole(response, RAW_LIMIT)))

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing (interface section 4.2) of these ids, or of all with the one id `all`; gives the message.

        Raises UsageError for what is no id or no list at all, and what `model.Service.index` says.
        """
        call = index_call(assetids)
        with self._either(lambda verb: self._ask_for_indexing(call, verb)) as message:
            return self._redaction.text(message)

    @contextmanager
    def _open_search(self, call: Call, verb: Verb) -> Iterator[RecordStream]:
        with self._keyless(), self._call(call, verb) as response:
            chunks = _chunks(response, self._longest_answer)
            stream = RecordStream(_type_of(response), chunks, self._redaction.forms)
            stream.begin()
            yield stream

    @contextmanager
    def _ask_for_indexing(self, call: Call, verb: Verb) -> Iterator[str]:
        with self._keyless(), self._call(call, verb) as response:
            code, message = read_index_answer(_type_of(response), self._whole(response, ANSWER_LIMIT))
            if code != "0":
                raise refusal(code, message)
        yield message

    @contextmanager
    def _either(self, opened: Callable[[Verb], AbstractContextManager[T]]) -> Iterator[T]:
        """Call by POST, and until one call was answered soundly, by GET where POST is not understood.

        The interface does not show the verb (section 4.1). By POST the key stays out of addresses and ids of any number
        fit; a service that reads only the address refuses such a call, for want of a key or of what to search for.
        """
        with ExitStack() as stack:
            try:
                answer = stack.enter_context(opened(self._verb))
            except (KeyRefused, ServiceRefused, BadAnswer) as refused:
                if self._verb_known or (isinstance(refused, BadAnswer) and refused.status not in _NOT_BY_POST):
                    raise
                try:
                    answer = stack.enter_context(opened("GET"))
                except ServiceError:
                    # Neither: what was said to the first is what is the matter.
                    raise refused from None
                self._verb = "GET"
            self._verb_known = True
            yield answer

    def _reply(self, answer: HttpAnswer) -> Reply:
        """Read an upload's answer to its end."""
        return Reply(
            answer.status,
            answer.header(b"content-type") or "",
            self._redaction.body(self._bounded(answer, ANSWER_LIMIT)),
            answer.header(b"location"),
            retry_after_seconds(answer.header(b"retry-after")),
        )

    @contextmanager
    def _call(self, call: Call, verb: Verb) -> Iterator[httpx.Response]:
        """Post a form: the key stands in its body, method and switches in the address; by GET all in the address."""
        query, form = list(call.query), urlencode(call.form(self._key), errors="replace").encode("ascii")
        if verb == "GET":
            query, form = query + call.form(self._key), b""
        url = self._search_url.copy_with(params=query)
        try:
            response = self._send(url, _FORM, len(form), httpx.ByteStream(form), verb=verb)
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, url, proxy=self._by_proxy) from exc
        try:
            _check_status(response)
            yield response
        finally:
            response.close()

    def _send(
        self, url: httpx.URL, content_type: str, length: int, stream: httpx.SyncByteStream, *, verb: Verb = "POST"
    ) -> httpx.Response:
        """Send one request and read the head of its answer."""
        headers = {
            "Host": url.netloc.decode("ascii"),
            **self._headers,
            **({} if verb == "GET" else {"Content-Type": content_type, "Content-Length": str(length)}),
        }
        request = httpx.Request(verb, url, headers=headers, stream=stream, extensions=self._transport.extensions)
        return self._transport.handle_request(request)

    def _bounded(self, chunks: Iterable[bytes], limit: int) -> bytes:
        """Read an answer up to a little over the limit; one that trickles in for too long counts as none."""
        parts: list[bytes] = []
        length = 0
        began = time.monotonic()
        for chunk in chunks:
            parts.append(chunk)
            length += len(chunk)
            if length > limit:
                break
            if time.monotonic() - began > self._longest_answer:
                raise httpx.ReadTimeout("the answer took too long")
        return b"".join(parts)

    def _whole(self, response: httpx.Response, limit: int) -> bytes:
        try:
            body = self._bounded(response.iter_raw(), limit)
        except TRANSPORT_ERRORS as exc:
            raise broken(exc, response) from exc
        if len(body) > limit:
            raise BadAnswer(f"the answer is longer than {limit} bytes")
        return body

    @contextmanager
    def _keyless(self) -> Iterator[None]:
        """Keep the key out of every error, even where the service quotes it."""
        try:
            yield
        except ServiceError as exc:
            exc.message = self._redaction.text(exc.message)
            exc.args = (exc.message,)
            raise


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
            status=status,
        )
    if status >= _HTTP_REDIRECT:
        raise BadAnswer(
            f"the answer was a redirect (HTTP status {status})", hint="write the final address as service.base_url"
        )


def _chunks(response: httpx.Response, patience: float) -> Iterator[bytes]:
    """Yield an answer's bytes as they come, the transport's errors turned into ours.

    An answer without an end is given up, and one that trickles in: what was waited for it counts, in seconds, not what
    was done with it meanwhile.
    """
    length = 0
    waited = 0.0
    chunks = response.iter_raw()
    while True:
        began = time.monotonic()
        try:
            chunk = next(chunks, None)
        except TRANSPORT_ERRORS as exc:
            raise broken(exc, response) from exc
        if chunk is None:
            return
        waited += time.monotonic() - began
        length += len(chunk)
        if waited > patience + length / _SLOWEST:
            raise ServiceUnreachable("the answer of the service comes too slowly to wait for its end")
        if length > STREAM_LIMIT:
            raise BadAnswer(f"the answer is longer than {STREAM_LIMIT} bytes")
        yield chunk
