"""Post files (interface section 4.3): by httpx from any thread, or over connections of an event loop.

`Sending` determines how much has left, `core.outcome` what an answer means.
"""

import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlencode
from weakref import WeakSet

import httpx

from assetsync.core.outcome import (
    ANSWER_LIMIT,
    REFUSED_KEY,
    Reply,
    read_giving_up,
    read_silence,
    read_upload_answer,
    read_upload_probe,
)
from assetsync.errors import AssetsyncError, FileChanged, KeyRefused, OutOfResources, UsageError
from assetsync.model import AddressProbe, Answer, Body, Fault, Outcome, Sent, SentExtent, UploadRequest
from assetsync.service.errors import TRANSPORT_ERRORS, unreachable
from assetsync.service.multipart import Framed, Sending, frame
from assetsync.service.redaction import Redaction
from assetsync.service.transport import HEADERS, ServiceSettings, Transport, address, retry_after_seconds
from assetsync.service.upload_connection import Line, Target, has_marked_end, header_text, request_head

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PROBE_PATIENCE = 15.0
"""Seconds for each part of the answer to a probe: what takes longer proves nothing."""


class Uploads:
    """The uploads of a client; safe to share between threads. No failure of the network or the service raises."""

    def __init__(self, settings: ServiceSettings, transport: Transport, redaction: Redaction) -> None:
        """Open no connection yet; raises ConfigError for an address to which nothing can be sent."""
        self._key = settings.api_key.get_secret_value()
        self._credential = settings.credential
        self._read_timeout = settings.read_timeout
        self._transport = transport
        self.redaction = redaction
        self._key_help = settings.key_help
        self.by_proxy = settings.proxy is not None
        self.url = url = address("service.upload_url", settings.upload_url)
        self.headers = {"Host": url.netloc.decode("ascii"), **HEADERS}
        self._target = Target(
            url.raw_host.decode("ascii"),
            url.port or _DEFAULT_PORTS[url.scheme],
            transport.tls if url.scheme == "https" else None,
            settings.connect_timeout,
            settings.read_timeout,
        )
        self._lock = threading.Lock()
        self._lines: WeakSet[Line] = WeakSet()
        self._closed = False

    def post(self, request: UploadRequest, body: Body) -> Sent:
        """Post a file of any size."""
        upload = self.begin(request, body)
        if isinstance(upload, Sent):
            return upload
        try:
            upload.sending.prepare()
            response = self._transport.handle_request(
                httpx.Request(
                    "POST",
                    self.url.copy_with(raw_path=upload.target),
                    headers=upload.headers,
                    content=upload.sending,
                    extensions=self._transport.waits(),
                )
            )
            with closing(response):
                content = _read_answer(response.iter_raw(), self._read_timeout)
        except (*TRANSPORT_ERRORS, AssetsyncError) as exc:
            return upload.failed(exc)
        finally:
            # Not left to the garbage collector: at the end of the process it would wait for a thread that runs no more.
            upload.sending.close()
        return upload.answered(response.status_code, response.headers.raw, content)

    def probe(self, url: httpx.URL) -> AddressProbe:
        """Post a form without a file, and without a folder to store it in, to an address.

        It follows no redirect. The key is in the body with either credential, so that no log of addresses holds it.
        """
        form = urlencode({"fa": "c.apiupload", self._credential: self._key}).encode("ascii")
        headers = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
        request = httpx.Request(
            "POST", url, headers=headers, content=form, extensions=self._transport.waits(_PROBE_PATIENCE)
        )
        try:
            with closing(self._transport.handle_request(request)) as response:
                content = _read_answer(response.iter_raw(), _PROBE_PATIENCE)
        except TRANSPORT_ERRORS:
            return AddressProbe()
        # The detail quotes the content type.
        content_type = self.redaction.text(header_text(response.headers.raw, b"content-type"))
        probe = read_upload_probe(Reply(response.status_code, content_type, content))
        return replace(probe, detail=self.key_detail) if probe.key_refused else probe

    @property
    def key_detail(self) -> str:
        """The sentence about a refused key, with what helps."""
        return str(KeyRefused(REFUSED_KEY, hint=self._key_help))

    def connection(self) -> "HttpConnection":
        """Return a connection for one coroutine of the running event loop."""
        line = Line(self._target)
        with self._lock:
            self._lines.add(line)
            if self._closed:
                line.shut()
        return HttpConnection(self, line)

    def close(self) -> None:
        """Let the uploads of event loops end as unanswered, from any thread; the transport does so for all others."""
        with self._lock:
            self._closed = True
            lines = list(self._lines)
        for line in lines:
            line.shut()

    def begin(self, request: UploadRequest, body: Body) -> "Upload | Sent":
        """Return an upload that can be sent, or the result of one that no form can carry."""
        try:
            framed = frame(request, self._key, body.size, credential=self._credential)
        except UsageError as exc:
            unsent = Outcome(Answer.UNSENT, reason="bad_form", detail=str(exc), fault=Fault.FILE)
            return Sent(unsent, SentExtent.NOTHING, body.bytes_sent, body.md5)
        return Upload(self, request, framed, body)


class Upload:
    """One upload: what is sent, and what its end means; `target` is that of the request's first line."""

    def __init__(self, uploads: Uploads, request: UploadRequest, framed: Framed, body: Body) -> None:
        self.sending = Sending(framed, body)
        self.target = uploads.url.raw_path
        if framed.query:
            self.target += (b"&" if uploads.url.query else b"?") + framed.query.encode("ascii")
        self.headers = {
            **uploads.headers,
            "Content-Type": framed.content_type,
            "Content-Length": str(framed.length),
        }
        self._uploads = uploads
        self._request = request
        self._body = body

    def answered(self, status: int, headers: list[tuple[bytes, bytes]], content: bytes) -> Sent:
        """Return what an answer means."""
        reply = Reply(
            status,
            header_text(headers, b"content-type"),
            self._uploads.redaction.body(content),
            header_text(headers, b"location"),
            retry_after_seconds(header_text(headers, b"retry-after")),
            # Both ways of reading raise if an answer with a marked end stops before it.
            is_delimited=len(content) <= ANSWER_LIMIT and has_marked_end(headers),
        )
        redirectto, size = self._request.options.redirectto, self._body.size
        return self._sent(read_upload_answer(reply, self.sending.left, redirectto=redirectto, size=size))

    def failed(self, exc: Exception) -> Sent:
        """Return what an upload without an answer means."""
        left = self.sending.left
        if isinstance(exc, AssetsyncError):
            # Only the Body raises these: reading an upload's answer raises no AssetsyncError.
            return self._sent(read_giving_up(left, str(exc), changed=isinstance(exc, FileChanged)))
        problem = unreachable(exc, self._uploads.url, proxy=self._uploads.by_proxy).message
        outcome, lack = read_silence(left, problem), OutOfResources.of(exc)
        if lack is not None and outcome.answer is Answer.UNSENT:
            outcome = outcome._replace(reason=lack.REASON, detail=str(lack))
        return self._sent(outcome)

    def _sent(self, outcome: Outcome) -> Sent:
        left = self.sending.left
        if outcome.fault is Fault.KEY:
            outcome = outcome._replace(detail=self._uploads.key_detail)
        return Sent(self._uploads.redaction.outcome(outcome, left), left, self._body.bytes_sent, self._body.md5)


class HttpConnection:
    """A `model.UploadConnection` straight to the service."""

    def __init__(self, uploads: Uploads, line: Line) -> None:
        self._uploads = uploads
        self._line = line

    async def post(self, request: UploadRequest, body: Body) -> Sent:
        """Post a file whose body is in memory; never raises for what the file, the network or the service does."""
        upload = self._uploads.begin(request, body)
        if isinstance(upload, Sent):
            return upload
        is_accepted = False
        try:
            upload.sending.prepare()
            head = request_head(upload.target, upload.headers)
            answer = await self._line.exchange(head, upload.sending)
            sent = upload.answered(answer.status, answer.headers, answer.body)
            is_accepted = sent.outcome.answer is Answer.ACCEPTED
        except (*TRANSPORT_ERRORS, AssetsyncError) as exc:
            sent = upload.failed(exc)
        finally:
            if is_accepted:
                self._line.keep()
            else:
                self._line.drop()
        return sent

    def close(self) -> None:
        """Close the connection that may be open."""
        self._line.drop()


def _read_answer(chunks: Iterable[bytes], seconds: float) -> bytes:
    """Read an answer up to a little over ANSWER_LIMIT bytes.

    Raises httpx.ReadTimeout if it takes longer than `seconds` in all, as if no answer had come.
    """
    answer = bytearray()
    began = time.monotonic()
    for chunk in chunks:
        answer += chunk
        if len(answer) > ANSWER_LIMIT:
            break
        if time.monotonic() - began > seconds:
            raise httpx.ReadTimeout("the answer took too long")
    return bytes(answer)
