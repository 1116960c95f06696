"""Sends the three operations over HTTP and reads their answers.

It decides nothing: `core.outcome` interprets an upload's answer, `records` reads search answers, and `index` reads
index answers. Requests use no environment variables, redirects or cookies. They go directly to the transport, which
also keeps addresses out of httpx's own log lines. Besides this module, `connection`, `errors` and `webhook` use httpx.
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
"""Largest raw answer in bytes; a longer answer raises BadAnswer."""

STREAM_LIMIT = 2 * 1024**3
"""Largest streamed answer in bytes: about three million rows of the observed size."""

_SLOWEST = 1024  # bytes a second: the lowest average rate of a stream, beyond the first read_timeout seconds of waiting

_FORM = "application/x-www-form-urlencoded"
_HTTP_ERROR = 400
_NOT_BY_POST = (400, 404, 405, 501)
_HTTP_REDIRECT = 300


class Underway:
    """An upload that was sent (`model.Underway`); `exchange` is None if `end` need not wait for an answer."""

    def __init__(self, end: Callable[[], Sent], exchange: Exchange | None = None) -> None:
        self.end = end
        """Wait for the answer and return the result; to be called once."""
        self._exchange = exchange

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable when a part of the answer arrives; None without one."""
        return None if self._exchange is None else self._exchange.fileno()

    def is_ready(self) -> bool:
        """Return whether `end` returns without waiting; reads the part of the answer that has arrived."""
        return self._exchange is None or self._exchange.is_ready()


class HttpService:
    """An implementation of `model.Service` over HTTP/1.1; safe to share between threads."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Prepare the client without opening a connection; raises ConfigError for settings that cannot work."""
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
        """Close every connection; open requests of other threads end as unanswered, and new requests fail."""
        self._transport.close()

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file (interface section 4.3) and return the result.

        `Sending` determines how much has left, `core.outcome` the outcome. Never raises for anything that the file, the
        network or the service does.
        """
        return self.start(request, body).end()

    def start(self, request: UploadRequest, body: Body) -> Underway:
        """Send one file as `upload` does, and leave the answer to `Underway.end`.

        Through a proxy nothing is sent before `Underway.end` is called.
        """
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
                # Only the Body raises these: reading an upload's answer raises no AssetsyncError.
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

        Every output format yields the same records. The `column` and `wddx` formats are read whole, with a limit.
        Raises UsageError for invalid parameters, and the errors of `model.Service.search`.
        """
        call = search_call(request, wire)
        with self._either(lambda verb: self._open_search(call, verb)) as stream:
            yield stream

    def search_raw(self, request: SearchRequest, wire: Wire) -> RawAnswer:
        """Return the unparsed answer to one search in an output format of section 4.1, at most RAW_LIMIT bytes.

        The key is redacted in it. Raises the errors of `search`, but does not look for an error in the answer.
        """
        with self._keyless(), self._call(search_call(request, wire), self._verb) as response:
            return RawAnswer(_type_of(response), self._redaction.body(self._whole(response, RAW_LIMIT)))

    def index(self, assetids: Sequence[str]) -> str:
        """Request indexing (interface section 4.2) of these ids, or of everything with the single id `all`.

        Return the service's message. Raises UsageError for an empty list or an invalid id, and the errors of
        `model.Service.index`.
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
        """Call by POST; retry by GET if POST is not understood and no call has succeeded yet.

        The interface does not document the verb (section 4.1). POST keeps the key out of addresses and has room for any
        number of ids. A service that reads only the address refuses a POST, because it finds no key or no search entry.
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
                    # GET failed, too, so the answer to the first request is the one that matters.
                    raise refused from None
                self._verb = "GET"
            self._verb_known = True
            yield answer

    def _reply(self, answer: HttpAnswer) -> Reply:
        """Read an upload's answer, up to a little over ANSWER_LIMIT bytes, with the key redacted in the body."""
        return Reply(
            answer.status,
            answer.header(b"content-type") or "",
            self._redaction.body(self._bounded(answer, ANSWER_LIMIT)),
            answer.header(b"location"),
            retry_after_seconds(answer.header(b"retry-after")),
        )

    @contextmanager
    def _call(self, call: Call, verb: Verb) -> Iterator[httpx.Response]:
        """Post a form with the key in its body, method and switches in the address; by GET all are in the address.

        Raises ServiceUnreachable without an answer, BadAnswer for a redirect or a status of 400 or more.
        """
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
        """Send one request and read the head of its answer; raises httpx's errors."""
        headers = {
            "Host": url.netloc.decode("ascii"),
            **self._headers,
            **({} if verb == "GET" else {"Content-Type": content_type, "Content-Length": str(length)}),
        }
        request = httpx.Request(verb, url, headers=headers, stream=stream, extensions=self._transport.extensions)
        return self._transport.handle_request(request)

    def _bounded(self, chunks: Iterable[bytes], limit: int) -> bytes:
        """Read an answer up to a little over `limit` bytes.

        Raises httpx.ReadTimeout if the answer takes longer than `read_timeout` in all, as if no answer had come.
        """
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
        """Redact the key in every error, because the service may quote it."""
        try:
            yield
        except ServiceError as exc:
            exc.message = self._redaction.text(exc.message)
            exc.args = (exc.message,)
            raise


def _type_of(response: httpx.Response) -> str:
    return cast("str", response.headers.get("content-type", ""))


def _check_status(response: httpx.Response) -> None:
    """Raise BadAnswer for a redirect or a status of 400 or more; other statuses mean nothing (observed)."""
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
    """Yield an answer's bytes as they arrive, and translate the transport's errors.

    Raises BadAnswer for an answer longer than STREAM_LIMIT, and ServiceUnreachable for an answer that arrives too
    slowly. Only seconds spent waiting for the answer count, not the consumer's time between chunks.
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
