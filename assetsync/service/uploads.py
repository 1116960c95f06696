"""Post files (interface section 4.3).

`Sending` determines how much has left, `core.outcome` what an answer means.
"""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import cast
from urllib.parse import urlencode

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

_LENGTHS = ("content-length", "transfer-encoding")
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
        self.url = address("service.upload_url", settings.upload_url)

    def post(self, request: UploadRequest, body: Body) -> Sent:
        """Post a file of any size."""
        try:
            framed = frame(request, self._key, body.size, credential=self._credential)
        except UsageError as exc:
            unsent = Outcome(Answer.UNSENT, reason="bad_form", detail=str(exc), fault=Fault.FILE)
            return Sent(unsent, SentExtent.NOTHING, body.bytes_sent, body.md5)
        sending = Sending(framed, body)
        try:
            sending.prepare()
            with closing(self._transport.handle_request(self._request(framed, sending))) as response:
                # Not by `iter_raw`, which closes the response at its end.
                content = _read_answer(cast("httpx.SyncByteStream", response.stream), self._read_timeout)
                outcome = self._outcome(request, body, response, content, sending.left)
                if outcome.answer is Answer.ACCEPTED:
                    self._transport.keep(response)
        except (*TRANSPORT_ERRORS, AssetsyncError) as exc:
            outcome = self._failure(exc, sending.left)
        finally:
            # Not left to the garbage collector: at the end of the process it would wait for a thread that runs no more.
            sending.close()
        if outcome.fault is Fault.KEY:
            outcome = outcome._replace(detail=self.key_detail)
        return Sent(self.redaction.outcome(outcome, sending.left), sending.left, body.bytes_sent, body.md5)

    def _request(self, framed: Framed, sending: Sending) -> httpx.Request:
        url = self.url
        if framed.query:
            target = url.raw_path + (b"&" if url.query else b"?") + framed.query.encode("ascii")
            url = url.copy_with(raw_path=target)
        headers = {**HEADERS, "Content-Type": framed.content_type, "Content-Length": str(framed.length)}
        return httpx.Request("POST", url, headers=headers, content=sending, extensions=self._transport.waits())

    def _outcome(
        self, request: UploadRequest, body: Body, response: httpx.Response, content: bytes, left: SentExtent
    ) -> Outcome:
        """Return what an answer means."""
        headers = response.headers
        reply = Reply(
            response.status_code,
            headers.get("content-type", ""),
            self.redaction.body(content),
            headers.get("location", ""),
            retry_after_seconds(headers.get("retry-after", "")),
            # Without a marked end the answer ends with its connection. A marked end that is missing raises.
            is_delimited=len(content) <= ANSWER_LIMIT and not headers.keys().isdisjoint(_LENGTHS),
        )
        return read_upload_answer(reply, left, redirectto=request.options.redirectto, size=body.size)

    def _failure(self, exc: Exception, left: SentExtent) -> Outcome:
        """Return what an upload without an answer means."""
        if isinstance(exc, AssetsyncError):
            # Only the Body raises these: reading an upload's answer raises no AssetsyncError.
            return read_giving_up(left, str(exc), changed=isinstance(exc, FileChanged))
        outcome = read_silence(left, unreachable(exc, self.url, proxy=self.by_proxy).message)
        lack = OutOfResources.of(exc)
        if lack is not None and outcome.answer is Answer.UNSENT:
            outcome = outcome._replace(reason=lack.REASON, detail=str(lack))
        return outcome

    def probe(self, url: httpx.URL, transport: Transport) -> AddressProbe:
        """Post a form without a file, and without a folder to store it in, to an address, over another transport.

        It follows no redirect. The key is in the body with either credential, so that no log of addresses holds it.
        """
        form = urlencode({"fa": "c.apiupload", self._credential: self._key}).encode("ascii")
        headers = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
        request = httpx.Request("POST", url, headers=headers, content=form, extensions=transport.waits(_PROBE_PATIENCE))
        try:
            with closing(transport.handle_request(request)) as response:
                content = _read_answer(response.iter_raw(), _PROBE_PATIENCE)
        except TRANSPORT_ERRORS:
            return AddressProbe()
        # The detail quotes the content type.
        content_type = self.redaction.text(response.headers.get("content-type", ""))
        probe = read_upload_probe(Reply(response.status_code, content_type, content))
        return replace(probe, detail=self.key_detail) if probe.key_refused else probe

    @property
    def key_detail(self) -> str:
        """The sentence about a refused key, with what helps."""
        return str(KeyRefused(REFUSED_KEY, hint=self._key_help))


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
