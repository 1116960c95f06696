"""The application: route requests to the operations, read their parameters, and apply faults and the rules for all.

The addresses are those of a live installation: base address `/razuna`, upload `/razuna/raz1/dam/index.cfm`. Storing is
left to `upload` and `store`, searching to `search`, the text of the answers to `answers`.
"""

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assetsync.errors import UsageError
from assetsync.sandbox import answers
from assetsync.sandbox.answers import Lost, cut, html_answer, json_answer, json_stream, upload_answer
from assetsync.sandbox.connection import body_of
from assetsync.sandbox.control import Control, refusal
from assetsync.sandbox.faults import Active, FaultBoard, FaultKind, Operation
from assetsync.sandbox.search import search
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store, new_id
from assetsync.sandbox.upload import (
    LOGIN_NOT_VALID,
    Uploads,
    boundary_of,
    is_archive,
    is_plain,
    key_is_valid,
    read_form,
)

_UPLOAD: Final = "/razuna/raz1/dam/index.cfm"
_SEARCH: Final = "/razuna/global/api2/search.cfc"
_LOGIN: Final = "/razuna/login.cfm"
_BLANKS: Final = re.compile(" {2,}")
_LONGEST_HEAD: Final = 8192
_LONGEST_FORM: Final = 16 * 1024 * 1024
_LONGEST_AT_ONCE: Final = 256 * 1024  # a longer file is stored in a thread
# Suffixes of host names that no one can own on the web: no owner can point such a name to this machine.
_PRIVATE: Final = ("localhost", "local", "internal", "test", "home.arpa")
_REQUIRED: Final = {"searchassets": ("api_key", "searchfor"), "searchindex": ("api_key",)}
# The parameters of an upload that the interface takes from the URL (section 4.3).
_IN_URL: Final = ("fa", "destfolderid", "zip_extract", "sessiontoken")


class Service:
    """The HTTP endpoints of the three operations.

    The order is the same for all: read the request, wait, apply faults before the work, do it, apply faults after it.
    """

    def __init__(self, settings: SandboxSettings, store: Store, board: FaultBoard) -> None:
        self._settings = settings
        self._store = store
        self._board = board
        self._uploads = Uploads(store, settings)

    async def _disturbed(self, active: Active, work: Callable[[], Awaitable[Response]]) -> Response:
        """Do the work of a request that was read, unless a fault precedes it; return the answer or a faulty one."""
        for kind in (FaultKind.HANG, FaultKind.LATENCY):
            if kind in active:
                await asyncio.sleep(active[kind].seconds)
        if self._settings.latency:
            await asyncio.sleep(self._settings.latency)
        if FaultKind.TOO_MANY in active:
            return Response(b"", 429, {"Retry-After": str(round(active[FaultKind.TOO_MANY].seconds))})
        if instead := _instead(active, stored=False):
            return instead
        answer = await work()
        if FaultKind.ANSWER_LOST in active:
            return Lost()
        if instead := _instead(active, stored=True):
            return instead
        return await cut(answer) if FaultKind.ANSWER_CUT in active else answer

    async def upload(self, request: Request) -> Response:
        """Answer an upload (interface section 4.3): spool its body, then parse it.

        Parameters may also be in the URL. A form that cannot hold a file is no upload: it is not counted, and only
        faults that are on for all uploads hit it.
        """
        has_file_part = boundary_of(request.headers.get("content-type", "")) is not None
        active = self._board.take(Operation.UPLOAD) if has_file_part else self._board.constant(Operation.UPLOAD)
        in_url = dict(parse_qsl(request.url.query, keep_blank_values=True))
        content_type = request.headers.get("content-type", "")
        spool = self._store.incoming / new_id()
        limit = self._settings.proxy_limit
        if limit is not None and int(request.headers.get("content-length", "0")) > limit:
            return html_answer(answers.TOO_LARGE_FOR_PROXY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

        async def work() -> Response:
            if FaultKind.DATABASE_DOWN in active:
                return html_answer(answers.UPLOAD_DATABASE_DOWN)
            if not self._settings.documented and not is_plain(content_type):
                return html_answer(answers.WOULD_HANG)
            form = read_form(spool, content_type)
            given = self._parameters(in_url, form.fields)
            if len(form.content) > _LONGEST_AT_ONCE or is_archive(form.sent_name or ""):
                result = await asyncio.to_thread(self._uploads.accept, given, form, length, active)
            else:
                result = self._uploads.accept(given, form, length, active)
            if result is None:
                return html_answer(answers.LOGIN_PAGE)
            referer = request.headers.get("referer", "")
            return upload_answer(result, given, referer, documented=self._settings.documented)

        try:
            length = await self._spool(request, spool)
            if self._board.names_folders:
                given = in_url | read_form(spool, content_type).fields
                active = {**active, **self._board.take_for(given.get("destfolderid", ""))}
            return await self._disturbed(active, work)
        finally:
            spool.unlink(missing_ok=True)

    def _parameters(self, in_url: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of an upload; if documented, each only from its place (interface sections 4.3 and 5).

        Metadata is written only with `metadata`.
        """
        if not self._settings.documented:
            return {**in_url, **fields}
        writes = fields.get("metadata") == "1"
        return {name: in_url[name] for name in _IN_URL if name in in_url} | {
            name: value
            for name, value in fields.items()
            if name != "sessiontoken" and (writes or not name.startswith("meta_"))
        }

    async def _spool(self, request: Request, spool: Path) -> int:
        """Write the body to a file; return the larger of the announced and the received number of bytes.

        A body that announces more than the limit is refused, and not written (interface section 5).
        """
        announced = int(request.headers.get("content-length", "0"))
        limit = self._settings.max_content_length
        came = 0
        with spool.open("wb") as stream:
            async for data in body_of(request):
                came += len(data)
                if not limit or announced <= limit:
                    stream.write(data)
        return max(came, announced)

    async def stray(self, request: Request) -> Response:
        """Answer at an address that is not of the interface."""
        async for _ in body_of(request):
            pass
        if self._settings.strays == "missing":
            return PlainTextResponse("Not Found", 404)
        if self._settings.strays == "html" or request.url.path == _LOGIN:
            return html_answer(answers.LOGIN_PAGE)
        return Response(b"", 302, {"Location": _LOGIN})

    async def search_or_index(self, request: Request) -> Response:
        """Answer searchassets or searchIndex (interface sections 4.1 and 4.2), as GET or with a form body."""
        given = {name.lower(): value for name, value in parse_qsl(request.url.query, keep_blank_values=True)}
        if request.method == "POST":
            body = bytearray()
            async for data in body_of(request):
                body += data[: _LONGEST_FORM - len(body)]
            form = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
            given |= {name.lower(): value for name, value in form}
        method = given.get("method", "").lower()
        active = self._board.take(Operation.INDEX if method == "searchindex" else Operation.SEARCH)

        async def work() -> Response:
            return self._called(method, given, active, f"{request.url.scheme}://{request.url.netloc}")

        return await self._disturbed(active, work)

    def _called(self, method: str, given: Mapping[str, str], active: Active, origin: str) -> Response:
        if not method:
            return self._json(answers.NO_METHOD, 500)
        if method not in _REQUIRED:
            return self._json(answers.INVALID_REQUEST)
        # A live installation takes a call without ids (observed).
        needs_ids = method == "searchindex" and self._settings.documented
        required = (*_REQUIRED[method], *["assetid"] * needs_ids)
        missing = next((name for name in required if name not in given), None)
        if missing:
            text = f"Value not provided for required argument {missing.upper()} of function {given['method']}()"
            return self._json(answers.runtime_error(text, "errorCode.runtimeError"))
        return self._index(given, active) if method == "searchindex" else self._search(given, active, origin)

    def _index(self, given: Mapping[str, str], active: Active) -> Response:
        documented = self._settings.documented
        if FaultKind.DATABASE_DOWN not in active:
            if not key_is_valid(given, self._settings, active):
                return self._json(answers.index_result(1, LOGIN_NOT_VALID, documented=documented))
            wipes = FaultKind.INDEX_WIPES in active or self._settings.index_mode == "wipes"
            if wipes or self._settings.index_mode == "adds":
                ids = [each.strip().upper() for each in given.get("assetid", "").split(",")]
                self._store.index(None if ids == ["ALL"] else ids, wipe=wipes)
        # Success proves nothing: unknown ids get it, and it comes even while the database is down (observed).
        return self._json(answers.index_result(0, "Indexing successfully triggered", documented=documented))

    def _search(self, given: Mapping[str, str], active: Active, origin: str) -> Response:
        documented = self._settings.documented
        if FaultKind.DATABASE_DOWN in active:
            return self._json(answers.SEARCH_DATABASE_DOWN)
        if not key_is_valid(given, self._settings, active):
            return self._json(answers.message_set(LOGIN_NOT_VALID, documented=documented))
        if FaultKind.SEARCH_DOWN in active and given.get("dbdirect", "").lower() != "true":
            return self._json(answers.SEARCH_SERVER_DOWN)
        if self._settings.rights is not None and "folderid" not in given:
            return self._json(answers.runtime_error("Data not supported", "errorCode.expressionError"))
        columns, rows = search(self._store, given, origin=origin, settings=self._settings, active=active)
        pieces = answers.record_set(columns, rows, given, documented=documented)
        if self._settings.folds_blanks:
            pieces = (_BLANKS.sub(" ", piece) for piece in pieces)
        return json_stream(pieces, documented=documented and not self._settings.latin1)

    def _json(self, text: str, status: int = 200) -> Response:
        return json_answer(text, documented=self._settings.documented, status=status)


def _instead(active: Active, *, stored: bool) -> Response | None:
    status = active.get(FaultKind.STATUS)
    if status is not None and status.stored is stored:
        return html_answer(answers.HTML_INSTEAD, status.status)
    html = active.get(FaultKind.HTML)
    return html_answer(answers.HTML_INSTEAD) if html is not None and html.stored is stored else None


class Gate:
    """The rules for every request: a longest head, and connections that close after each answer (observed).

    If the sandbox listens on loopback, public host names are refused: otherwise a web page could read what is stored.
    """

    def __init__(self, app: ASGIApp, settings: SandboxSettings) -> None:
        self._app = app
        self._keep_alive = settings.keep_alive
        try:
            self._on_loopback = ipaddress.ip_address(settings.host).is_loopback
        except ValueError:
            self._on_loopback = settings.host.lower() == "localhost"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a head that is too long with 400 and no body (`index-url-too-long`); else pass the request on.

        Refuse a public host name on loopback with 403.
        """
        answer = self._app
        if _head_length(scope) > _LONGEST_HEAD:
            answer = Response(b"", 400)
        elif self._on_loopback and _may_be_led_here(Headers(scope=scope).get("host", "")):
            answer = PlainTextResponse("This host name is not the sandbox's: use its address, or localhost.\n", 403)

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not self._keep_alive:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await answer(scope, receive, closing)


def _may_be_led_here(host: str) -> bool:
    """Return whether the `Host` header is a name whose owner may point it to this machine (DNS rebinding)."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        # Brackets around text that is not an address: not a name of the sandbox either.
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." in name and not name.endswith(tuple(f".{end}" for end in _PRIVATE))
    return False


def _head_length(scope: Scope) -> int:
    """Return the number of bytes of the request line and the headers as they came."""
    target = len(scope["raw_path"]) + len(scope["query_string"]) + bool(scope["query_string"])
    line = len(scope["method"]) + target + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"]) + len("\r\n")


def make_app(settings: SandboxSettings, store: Store, board: FaultBoard) -> ASGIApp:
    """Build the application."""
    service = Service(settings, store, board)
    control = Control(settings, store, board)
    routes = [
        Route(_UPLOAD, service.upload, methods=["POST", "GET"]),
        Route(_SEARCH, service.search_or_index, methods=["GET", "POST"]),
        Route("/razuna", service.stray, methods=["GET", "POST"]),
        Route("/razuna/{rest:path}", service.stray, methods=["GET", "POST"]),
        *control.routes(),
    ]
    return Gate(Starlette(routes=routes, exception_handlers={UsageError: refusal}), settings)
