"""The endpoints of the sandbox besides the interface: faults, folders, the request log, all stored assets, the page.

A live service has none of them. All addresses are below `/_sandbox`, except the page at `/`. `store` and `faults` hold
the data. The page is plain HTML without scripts, light or dark like the reader's system.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from assetsync.errors import UsageError
from assetsync.sandbox.faults import FaultBoard, Operation, fault_rule
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store, StoredAsset

_PICTURES: Final = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp", "bmp": "bmp"}
# Browsers show uploaded files only as pictures and never run them, whatever they hold.
_SHUT: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
_PAGE_POLICY: Final = {"Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"}


_PAGE_SIZE: Final = 100
_STYLE: Final = """
:root { color-scheme: light dark; --line: #d5d9de; --dim: #5c6670; --bad: #a3240f; --good: #1c6b36; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a4149; --dim: #a0abb6; --bad: #ff8f78; --good: #7fd59b; --back: #15181c; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
  background: var(--back); }
h1 { font-size: 1.4rem; margin: 0; }
p { color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .5rem .6rem; text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.name { overflow-wrap: anywhere; min-width: 12rem; }
code { font-size: .85em; overflow-wrap: anywhere; color: var(--dim); }
img { display: block; width: 64px; height: 48px; object-fit: cover; border-radius: 3px; background: var(--line); }
dl { margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: 0 .6rem; font-size: .85em; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
.bad { color: var(--bad); } .good { color: var(--good); }
"""
_HEAD: Final = (
    '<thead><tr><th scope="col">Picture</th><th scope="col">Name</th><th scope="col">Folder</th>'
    '<th scope="col">Size</th><th scope="col">MD5</th><th scope="col">Metadata</th>'
    '<th scope="col">State</th></tr></thead>'
)


class Control:
    """The endpoints for the person or the test that runs the sandbox."""

    def __init__(self, settings: SandboxSettings, store: Store, board: FaultBoard) -> None:
        self._settings = settings
        self._store = store
        self._board = board

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
        given = await _json_object(request)
        rules = given.get("faults")
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise UsageError("The faults are missing", hint='send {"faults": [{"kind": "status", "times": 1}]}')
        seed = given.get("seed")
        self._board.replace([fault_rule(rule) for rule in rules], seed if isinstance(seed, int) else None)
        return JSONResponse({"faults": self._board.listing()})

    async def folders(self, _: Request) -> Response:
        """List the folders."""
        return JSONResponse([{"id": key, "name": name} for key, name in self._store.folders().items()])

    async def create_folder(self, request: Request) -> Response:
        """Create the folder in `{"name": …, "id": …}`; without `id` it gets a new identifier."""
        given = await _json_object(request)
        name, identifier = given.get("name"), given.get("id")
        if not isinstance(name, str) or not name or not isinstance(identifier, str | None):
            raise UsageError("The folder has no name", hint='send {"name": "photos"}, and an "id" where you want one')
        return JSONResponse({"id": self._store.create_folder(name, identifier), "name": name}, 201)

    async def assets(self, _: Request) -> Response:
        """List all stored assets, also those that no search shows."""
        return JSONResponse([asdict(asset) for asset in self._store.assets()])

    async def alter_asset(self, request: Request) -> Response:
        """Move and rename the asset in `{"id": …, "folder": ID, "name": …}`, or delete it with `"delete": true`.

        This simulates what people do in a DAM. With `"version": TEXT` the asset has a new version with this content.
        With `"process": true` the service processes the asset now.
        """
        given = await _json_object(request)
        assetid, folder, name = given.get("id"), given.get("folder"), given.get("name")
        if not (isinstance(assetid, str) and isinstance(folder, str | None) and isinstance(name, str | None)):
            raise UsageError(
                "The asset has no id", hint='send {"id": …} with "folder", "name", "process" or "delete": true'
            )
        if folder is not None and folder not in self._store.folders():
            raise UsageError(f"There is no folder {folder}", hint="GET /_sandbox/folders lists them")
        if given.get("delete") is True:
            found = self._store.delete(assetid)
        elif isinstance(version := given.get("version"), str):
            found = self._store.replace(assetid, version.encode())
        elif given.get("process") is True:
            found = self._store.process(assetid)
        else:
            found = self._store.alter(assetid, folder=folder, name=name or None)
        return JSONResponse({"id": assetid}) if found else JSONResponse({"error": "There is no such asset"}, 404)

    async def log(self, _: Request) -> Response:
        """Return the number of requests for each operation."""
        return JSONResponse({name: self._board.requests[name] for name in Operation})

    async def file(self, request: Request) -> Response:
        """Return the bytes of an asset."""
        asset = self._store.asset(request.path_params["assetid"])
        if asset is None:
            return Response(b"", 404)
        picture = _PICTURES.get(asset.extension)
        place = None if picture else asset.filename
        media_type = f"image/{picture}" if picture else "application/octet-stream"
        return FileResponse(self._store.content(asset.id), headers=_SHUT, media_type=media_type, filename=place)

    async def page(self, request: Request) -> Response:
        """Show the stored assets, newest first."""
        start = request.query_params.get("start", "0")
        offset = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 0  # noqa: PLR2004
        assets = self._store.assets(newest_first=True, limit=_PAGE_SIZE + 1, offset=offset)
        requests = ", ".join(f"{self._board.requests[name]} {name}" for name in Operation)
        faults = ", ".join(str(fault["kind"]) for fault in self._board.listing()) or "none"
        summary = f"Dialect {self._settings.dialect} · requests: {requests} · faults: {faults}"
        return HTMLResponse(_page(assets, offset, summary), headers=_PAGE_POLICY)


class ForeignPageError(UsageError):
    """A browser posts for the page of another site, without asking."""


async def refusal(_: Request, error: Exception) -> Response:
    """Return the answer to a request that raised UsageError."""
    return JSONResponse({"error": str(error)}, 403 if isinstance(error, ForeignPageError) else 400)


async def _json_object(request: Request) -> Mapping[str, object]:
    """Return the JSON object of a request; raise UsageError."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise ForeignPageError("This comes from the page of another site", hint="send it from a program")
    try:
        given = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UsageError("This is not JSON", hint=str(exc)) from exc
    if not isinstance(given, dict):
        raise UsageError("This is no JSON object", hint="send one in curly brackets")
    return given


def _page(assets: Sequence[StoredAsset], offset: int, summary: str) -> str:
    """Return the page; `assets` holds one more than a page if there is a next one. Escape every text from outside."""
    rows = "".join(_row(asset) for asset in assets[:_PAGE_SIZE])
    table = f'<div class="wide"><table>{_HEAD}<tbody>{rows}</tbody></table></div>'
    newer = f'<a href="?start={max(offset - _PAGE_SIZE, 0)}">Newer</a> ' if offset else ""
    older = f'<a href="?start={offset + _PAGE_SIZE}">Older</a>' if len(assets) > _PAGE_SIZE else ""
    turning = f"<p>{newer}{older}</p>" if newer or older else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>assetsync sandbox</title><style>{_STYLE}</style></head><body>"
        f"<h1>assetsync sandbox</h1><p>{escape(summary)}</p>"
        f"{table if rows else '<p>Nothing is stored.</p>'}{turning}</body></html>\n"
    )


def _row(asset: StoredAsset) -> str:
    place = f"/_sandbox/file/{escape(asset.id)}"
    picture = f'<img src="{place}" alt="" loading="lazy">' if asset.extension in _PICTURES else ""
    metadata = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in asset.metadata.items())
    stored = datetime.fromtimestamp(asset.stored_at, UTC)
    state = ", ".join(filter(None, [
        '<strong class="bad">damaged</strong>' if asset.damaged else "",
        '<span class="good">processed</span>' if asset.processed else "not processed yet",
        '<span class="good">indexed</span>' if asset.indexed else "not indexed",
        "" if asset.visible else '<span class="bad">invisible</span>',
    ]))  # fmt: skip
    return (
        f"<tr><td>{picture}</td>"
        f'<td class="name"><a href="{place}">{escape(asset.filename)}</a><br><code>{escape(asset.id)}</code></td>'
        f"<td>{escape(asset.folder_name)}<br><code>{escape(asset.folder_id)}</code></td>"
        f'<td class="number">{asset.size:,}</td><td><code>{escape(asset.md5)}</code></td>'
        f"<td><dl>{metadata}</dl></td>"
        f"<td>{state}<br><code>{stored:%Y-%m-%d %H:%M:%S} UTC</code></td></tr>\n"
    )
