"""Send the three operations over HTTP and read their answers.

It decides nothing: `uploads` posts files, `records` reads search answers, and `index` reads index answers. Requests use
no environment variables, redirects or cookies. They go directly to the transport, which also keeps addresses out of
httpx's own log lines.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from typing import Literal, TypeVar
from urllib.parse import urlencode

import httpx

from assetsync.errors import BadAnswer, KeyRefused, ServiceError, ServiceRefused, ServiceUnreachable
from assetsync.model import AddressProbe, Body, SearchRequest, Sent, UploadRequest
from assetsync.service.errors import TRANSPORT_ERRORS, broken, unreachable
from assetsync.service.index import INDEX_LIMIT, index_call, read_index_answer
from assetsync.service.records import FolderIds, RecordStream
from assetsync.service.redaction import Redaction
from assetsync.service.search import SEARCH_PATH, Call, Wire, search_call
from assetsync.service.transport import HEADERS, ServiceSettings, Transport, address, retry_after_seconds
from assetsync.service.uploads import Uploads

__all__ = ["HttpService", "ServiceSettings", "Wire"]

Verb = Literal["GET", "POST"]
T = TypeVar("T")

RAW_LIMIT = 64 * 1024 * 1024
"""Largest raw answer in bytes; a longer answer raises BadAnswer."""

STREAM_LIMIT = 2 * 1024**3
"""Largest streamed answer in bytes: about three million rows of the observed size."""

_SLOWEST = 1024  # bytes a second: the lowest average rate of a stream, beyond the first read_timeout seconds of waiting

ROUNDS = 100_000
"""Rounds of PBKDF2 for `account`: 30 to 60 ms."""

_NOT_BY_POST = (400, 404, 405, 501)


class HttpService:
    """An implementation of `model.Service` over HTTP/1.1; safe to share between threads."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Prepare the client without opening a connection; raises ConfigError for settings that cannot work."""
        self._key = settings.api_key.get_secret_value()
        self._redaction = Redaction(self._key)
        self._key_help = settings.key_help
        self._verb: Verb = "POST"
        self._verb_known = False
        self._search_url = address("service.base_url", settings.base_url.rstrip("/") + SEARCH_PATH)
        self._patience = settings.read_timeout
        self._spelling = settings.spelling
        # Whether a search returns rows of the requested folder alone; None until a row names no folder.
        self._keeps_to_folder: bool | None = None
        self._transport = Transport(settings)
        # Uploads have connections of their own, so that searches can be ended without them.
        self._for_uploads = Transport(settings, self._transport.tls)
        self._uploads = Uploads(settings, self._for_uploads, self._redaction)

    @cached_property
    def account(self) -> str:
        """A digest of address and key for the ledger; slow to make, so that a short key cannot be guessed from it."""
        place = f"assetsync {self._search_url}".encode()
        return hashlib.pbkdf2_hmac("sha256", self._key.encode(), place, ROUNDS, dklen=8).hex()

    def close(self) -> None:
        """Close every connection; open requests of other threads end as unanswered, and new requests fail."""
        self.end_searches()
        self._for_uploads.close()

    def end_searches(self) -> None:
        """Close every connection but those of uploads; open searches and calls of the index end as unanswered."""
        self._transport.close()

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file (interface section 4.3) and return the result.

        Never raises for anything that the file, the network or the service does.
        """
        return self._uploads.post(request, body)

    def close_kept(self) -> None:
        """Close the connections that wait for a further upload; no upload may be in flight."""
        self._for_uploads.close_kept()

    def probe_uploads(self, url: str | None = None) -> AddressProbe:
        """Post a form without a file to the address for uploads, or to another one.

        Never raises for anything that the network or the service does.
        """
        return self._uploads.probe(self._uploads.url if url is None else httpx.URL(url), self._transport)

    @contextmanager
    def search(self, request: SearchRequest, wire: Wire = "row") -> Iterator[RecordStream]:
        """Open one search (interface section 4.1); its rows are read as a stream inside the block.

        Every output format yields the same records. The `column` and `wddx` formats are read whole, with a limit.
        Folder ids are spelled as in the request, else as in the settings. Raise UsageError for invalid parameters, and
        the errors of `model.Service.search`.
        """
        call, folder_ids = search_call(request, wire), self._folder_ids(request)
        with ExitStack() as stack:
            yield self._either(lambda verb: stack.enter_context(self._open_search(call, verb, folder_ids)))

    def search_raw(self, request: SearchRequest, wire: Wire, callback: str = "cb") -> bytes:
        """Return the unparsed answer to one search in an output format of section 4.1, at most RAW_LIMIT bytes.

        The key is redacted in it. Raises the errors of `search`, but does not look for an error in the answer.
        """
        with self._call(search_call(request, wire, callback), self._verb) as response:
            return self._redaction.body(b"".join(_chunks(response, self._patience, RAW_LIMIT)))

    def index(self, assetids: Sequence[str]) -> str:
        """Request indexing (interface section 4.2) of these ids, or of everything with the single id `all`.

        Return the service's message. Raise UsageError for an empty list or an invalid id, and the errors of
        `model.Service.index`.
        """
        call = index_call(assetids)
        return self._redaction.text(self._either(lambda verb: self._ask_for_indexing(call, verb)))

    def _folder_ids(self, request: SearchRequest) -> FolderIds:
        asked = request.folderid.split(",") if request.folderid else []
        spelling = {**self._spelling, **{folder.lower(): folder for folder in asked}}
        if len(asked) != 1:
            return FolderIds(spelling)
        return FolderIds(spelling, lambda: asked[0] if self._has_kept_to_folder() else "")

    def _has_kept_to_folder(self) -> bool:
        """Return whether a search in one folder returns no row of another: rows that name no folder are of that one.

        The service is searched once for a folder that does not exist. Raise ServiceError.
        """
        if self._keeps_to_folder is None:
            nowhere = SearchRequest(searchfor="%", folderid=secrets.token_hex(16).upper(), dbdirect=True, maxrows=1)
            call = search_call(nowhere)
            with ExitStack() as stack:
                # The search that shows which verb is understood may be the one that asks.
                assets = self._either(lambda verb: stack.enter_context(self._open_search(call, verb, FolderIds())))
                # To its end: the rows of an answer that is cut show nothing.
                self._keeps_to_folder = not sum(1 for _ in assets)
        return self._keeps_to_folder

    @contextmanager
    def _open_search(self, call: Call, verb: Verb, folder_ids: FolderIds) -> Iterator[RecordStream]:
        patience = self._patience if call.patience is None else min(call.patience, self._patience)
        with self._call(call, verb) as response:
            chunks = _chunks(response, patience, STREAM_LIMIT)
            stream = RecordStream(response.headers.get("content-type", ""), chunks, self._redaction.forms, folder_ids)
            stream.begin()
            yield stream

    def _ask_for_indexing(self, call: Call, verb: Verb) -> str:
        with self._call(call, verb) as response:
            body = b"".join(_chunks(response, self._patience, INDEX_LIMIT))
            return read_index_answer(response.headers.get("content-type", ""), body)

    def _either(self, ask: Callable[[Verb], T]) -> T:
        """Call by POST; retry by GET if POST is not understood and no call has succeeded yet.

        The interface does not document the verb (section 4.1). POST keeps the key out of addresses and has room for any
        number of ids. A service that reads only the address refuses a POST, because it finds no key or no search entry.
        """
        try:
            answer = ask(self._verb)
        except (KeyRefused, ServiceRefused, BadAnswer) as refused:
            if self._verb_known or (isinstance(refused, BadAnswer) and refused.status not in _NOT_BY_POST):
                raise
            try:
                answer = ask("GET")
            except ServiceError:
                # GET failed, too, so the answer to the first request is the one that matters.
                raise refused from None
            self._verb = "GET"
        self._verb_known = True
        return answer

    @contextmanager
    def _call(self, call: Call, verb: Verb) -> Iterator[httpx.Response]:
        """Send a call; the answer is read inside the block.

        Raise ServiceUnreachable without an answer, BadAnswer for a redirect or a status of 400 or more. The key is
        redacted in every error, also of the block, because the service may quote it.
        """
        try:
            with closing(self._send(call, verb)) as response:
                _check_status(response)
                yield response
        except ServiceError as exc:
            exc.message = self._redaction.text(exc.message)
            exc.args = (exc.message,)
            if isinstance(exc, KeyRefused):
                exc.hint = self._key_help
            raise

    def _send(self, call: Call, verb: Verb) -> httpx.Response:
        """Post a form with the key in its body, method and switches in the address; by GET all are in the address."""
        query, headers, form = list(call.query), HEADERS, None
        if verb == "GET":
            query += call.form(self._key)
        else:
            form = urlencode(call.form(self._key), errors="replace").encode("ascii")
            headers = HEADERS | {"Content-Type": "application/x-www-form-urlencoded"}
        url = self._search_url.copy_with(params=query)
        try:
            return self._transport.handle_request(
                httpx.Request(verb, url, headers=headers, content=form, extensions=self._transport.waits(call.patience))
            )
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, url, proxy=self._uploads.by_proxy) from exc


def _check_status(response: httpx.Response) -> None:
    # Other statuses mean nothing (observed).
    status = response.status_code
    if status >= httpx.codes.BAD_REQUEST:
        raise BadAnswer(
            f"the answer was HTTP status {status}",
            hint="see whether service.base_url is the service's, and its log",
            retry_after=retry_after_seconds(response.headers.get("retry-after", "")),
            status=status,
        )
    if status >= httpx.codes.MULTIPLE_CHOICES:
        raise BadAnswer(
            f"the answer was a redirect (HTTP status {status})", hint="write the final address as service.base_url"
        )


def _chunks(response: httpx.Response, patience: float, limit: int) -> Iterator[bytes]:
    """Yield an answer's bytes as they arrive, and translate the transport's errors.

    Raise BadAnswer for an answer longer than `limit` bytes, and ServiceUnreachable for an answer that arrives too
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
        if length > limit:
            raise BadAnswer(f"the answer is longer than {limit} bytes")
        yield chunk
