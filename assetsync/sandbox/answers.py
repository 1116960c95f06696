"""HTTP answers with the charset and the headers of the service, and answers that are cut or lost.

The text of the answers is left to `forms`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain, islice
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from assetsync.sandbox.connection import close, drop
from assetsync.sandbox.forms import cdata, upload_result
from assetsync.sandbox.store import new_id
from assetsync.sandbox.upload import Kind, Result

_PIECES_AT_ONCE: Final = 100

HTML_INSTEAD: Final = "<!DOCTYPE html>\n<html><head><title>Maintenance</title></head><body>Back soon.</body></html>\n"


class Lost(Response):
    """A lost answer: the connection closes without one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Close the connection without a byte."""
        await drop(scope, receive)


class Cut(Response):
    """An answer that ends in the middle, although its headers announce the full length."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and half of the body, then close."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await close(scope, receive)


async def cut(answer: Response) -> Response:
    """Return an answer that ends in the middle of the given one."""
    body = bytes(answer.body) if not isinstance(answer, StreamingResponse) else await _whole(answer)
    return Cut(body, answer.status_code, {"Content-Type": answer.headers.get("content-type", "text/plain")})


async def _whole(answer: StreamingResponse) -> bytes:
    pieces = [piece async for piece in answer.body_iterator]
    return b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces)


def json_answer(text: str, *, documented: bool, status: int = 200) -> Response:
    """Return the answer to a search or index call: ISO-8859-1 with `?` for other characters (observed).

    If documented, it is UTF-8.
    """
    charset = "UTF-8" if documented else "ISO-8859-1"
    # As a header, not as the media type: Starlette would append a charset of its own to that.
    headers = {"Content-Type": f"application/json;charset={charset}"}
    return Response(text.encode(charset, "replace"), status, headers)


def json_stream(pieces: Iterable[str], *, documented: bool, latin1: bool = False) -> Response:
    """Return the answer with a record set; a long one is streamed, so that memory never holds a whole folder.

    With `latin1` it is ISO-8859-1 also if documented.
    """
    documented = documented and not latin1
    pieces = iter(pieces)
    first = list(islice(pieces, _PIECES_AT_ONCE))
    if len(first) < _PIECES_AT_ONCE:
        return json_answer("".join(first), documented=documented)
    charset = "UTF-8" if documented else "ISO-8859-1"
    headers = {"Content-Type": f"application/json;charset={charset}"}
    return StreamingResponse(_encoded(chain(first, pieces), charset), headers=headers)


async def _encoded(pieces: Iterator[str], charset: str) -> AsyncIterator[bytes]:
    while batch := "".join(islice(pieces, _PIECES_AT_ONCE)):
        yield batch.encode(charset, "replace")
        # Let other requests run in between.
        await asyncio.sleep(0)


def html_answer(text: str) -> Response:
    """Return an HTML page with status 200 in place of an answer of the interface (observed)."""
    return Response(text.encode("iso-8859-1", "replace"), headers={"Content-Type": "text/html;charset=ISO-8859-1"})


def upload_answer(result: Result, *, referer: str, redirectto: str, parameters: str, documented: bool) -> Response:
    """Return the answer to an upload: XML, or a redirect if requested (interface section 4.3).

    Success and a wrong key are redirected; other refusals are XML even if a redirect was requested (observed).
    """
    if redirectto and result.kind in (Kind.ACCEPTED, Kind.NO_SESSION):
        return _redirect(result, redirectto, parameters, documented=documented)
    elements = {"responsecode": str(result.code), "message": _message(result)}
    if result.kind is Kind.DUPLICATE:
        elements["assetid"] = escape(result.assetid)
    if result.kind is Kind.ACCEPTED:
        elements["assetid"] = result.assetid
        elements["filetype"] = result.filetype
        elements["comingfrom"] = cdata(referer)
        elements["renamefilebody"] = cdata(result.renamed)
    text = upload_result(elements, documented=documented)
    return Response(text.encode(), headers={"Content-Type": "application/xml;charset=UTF-8"})


def _message(result: Result) -> str:
    # The service escapes quotes only in the messages of its runtime (`upload-no-destfolderid`, `upload-no-filedata`).
    quotes = {"'": "&apos;"} if "Error at line" in result.message else {}
    return escape(result.message, quotes)


def _redirect(result: Result, redirectto: str, parameters: str, *, documented: bool) -> Response:
    """Return a redirect with the answer in its query.

    Observed: `;jsessionid=` precedes the query of the address, and `filetype` follows `assetid`.
    """
    if result.kind is Kind.ACCEPTED:
        query = f"responsecode=0&message=success&assetid={result.assetid}"
        query += "" if documented else f"&filetype={result.filetype}"
        query += f"&{parameters}" if parameters else ""
    else:
        query = "responsecode=1&message=nosession"
    path, question, own = redirectto.partition("?")
    if documented:
        location = f"{redirectto}{'&' if question else '?'}{query}"
    else:
        location = f"{path};jsessionid={new_id()}{question}{own}?{query}"
    return Response(b"", 302, {"Location": quote(location, safe="%/:=&?~#+!$,;'@()*[]")})
