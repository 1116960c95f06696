"""The endpoints of the sandbox besides the interface: faults, folders, the request log, all stored assets, the page.

A live service has none of them. All addresses are below `/_sandbox`, except the page at `/`. `store` and `faults` hold
the data, `page` writes the HTML.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from assetsync.errors import UsageError
from assetsync.sandbox.browsers import is_foreign
from assetsync.sandbox.faults import FaultBoard, fault_rule
from assetsync.sandbox.page import PAGE_SIZE, PageView, page
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store

_PICTURES: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
}
# Browsers show uploaded files only as pictures and never run them, whatever they hold.
_SHUT: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
_PAGE_POLICY: Final = {"Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"}


class Control:
    """The endpoints for the person or the test that runs the sandbox."""

    def __init__(self, settings: SandboxSettings, store: Store, board: FaultBoard, log: Counter[str]) -> None:
        self._settings = settings
        self._store = store
        self._board = board
        self._log = log

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/", self.page),
            Route("/_sandbox/faults", self.faults),
            Route("/_sandbox/faults", self.set_faults, methods=["POST"]),
            Route("/_sandbox/folders", self.folders),
            Route("/_sandbox/folders", self.create_folder, methods=["POST"]),
            Route("/_sandbox/assets", self.assets),
            Route("/_sandbox/assets", self.alter_asset, methods=["POST"]),
            Route("/_sandbox/log", self.log),
            Route("/_sandbox/file/{assetid}", self.file),
        ]

    async def faults(self, _: Request) -> Response:
        """List the faults that are switched on."""
        return JSONResponse({"faults": self._board.listing()})

    async def set_faults(self, request: Request) -> Response:
        """Switch on exactly the faults in `{"faults": [{"kind": …}], "seed": …}`; an empty list switches all off."""

        def switch(given: Mapping[str, object]) -> Response:
            rules = given.get("faults")
            if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
                raise UsageError("The faults are missing", hint='send {"faults": [{"kind": "status", "times": 1}]}')
            seed = given.get("seed")
            self._board.replace([fault_rule(rule) for rule in rules], seed if isinstance(seed, int) else None)
            return JSONResponse({"faults": self._board.listing()})

        return await _with_json(request, switch)

    async def folders(self, _: Request) -> Response:
        """List the folders."""
        return JSONResponse([{"id": key, "name": name} for key, name in self._store.folders().items()])

    async def create_folder(self, request: Request) -> Response:
        """Create the folder in `{"name": …, "id": …}`; without `id` it gets a new identifier."""

        def create(given: Mapping[str, object]) -> Response:
            name, identifier = given.get("name"), given.get("id")
            if not isinstance(name, str) or not name or not isinstance(identifier, str | None):
                raise UsageError(
                    "The folder has no name", hint='send {"name": "photos"}, and an "id" where you want one'
                )
            return JSONResponse({"id": self._store.create_folder(name, identifier), "name": name}, 201)

        return await _with_json(request, create)

    async def assets(self, _: Request) -> Response:
        """List all stored assets, also those that no search shows."""
        return JSONResponse([asdict(asset) for asset in self._store.assets()])

    async def alter_asset(self, request: Request) -> Response:
        """Move and rename the asset in `{"id": …, "folder": ID, "name": …}`, or delete it with `"delete": true`.

        This simulates what people do in a DAM.
        """

        def alter(given: Mapping[str, object]) -> Response:
            assetid, folder, name = given.get("id"), given.get("folder"), given.get("name")
            if not (isinstance(assetid, str) and isinstance(folder, str | None) and isinstance(name, str | None)):
                raise UsageError("The asset has no id", hint='send {"id": …} with "folder", "name" or "delete": true')
            if folder is not None and folder not in self._store.folders():
                raise UsageError(f"There is no folder {folder}", hint="GET /_sandbox/folders lists them")
            if given.get("delete") is True:
                found = self._store.delete(assetid)
            else:
                found = self._store.alter(assetid, folder=folder, name=name or None)
            return JSONResponse({"id": assetid}) if found else JSONResponse({"error": "There is no such asset"}, 404)

        return await _with_json(request, alter)

    async def log(self, _: Request) -> Response:
        """Return the number of requests for each operation."""
        return JSONResponse({name: self._log[name] for name in ("upload", "search", "index")})

    async def file(self, request: Request) -> Response:
        """Return the bytes of an asset."""
        asset = self._store.asset(request.path_params["assetid"])
        if asset is None:
            return Response(b"", 404)
        picture = _PICTURES.get(asset.extension)
        place = None if picture else asset.filename
        media_type = picture or "application/octet-stream"
        return FileResponse(self._store.content(asset.id), headers=_SHUT, media_type=media_type, filename=place)

    async def page(self, request: Request) -> Response:
        """Show the stored assets, newest first."""
        start = request.query_params.get("start", "0")
        offset = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 0  # noqa: PLR2004
        assets = self._store.assets(newest_first=True, limit=PAGE_SIZE + 1, offset=offset)
        view = PageView(tuple(assets), offset, dict(self._log), self._board.listing(), self._settings.dialect)
        return HTMLResponse(page(view), headers=_PAGE_POLICY)


async def _with_json(request: Request, act: Callable[[Mapping[str, object]], Response]) -> Response:
    """Call `act` with the JSON object of a request; answer a mistake in it with 400 and one sentence.

    Refuse requests from pages of other sites with 403: a browser posts for them without asking.
    """
    if is_foreign(request.headers.get("origin"), request.headers.get("host", "")):
        return JSONResponse({"error": "This comes from the page of another site: send it from a program"}, 403)
    try:
        given = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as exc:
        return JSONResponse({"error": f"This is not JSON: {exc}"}, 400)
    if not isinstance(given, dict):
        return JSONResponse({"error": "This is no JSON object: send one in curly brackets"}, 400)
    try:
        return act(given)
    except UsageError as exc:
        return JSONResponse({"error": str(exc)}, 400)
