"""HTTP answers in the charset and with the headers of the service, and those that break off or never come."""

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
    """No answer: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Close without a byte."""
        await drop(scope, receive)


class Cut(Response):
    """An answer that ends in its middle, its length promised in full."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and half of the body, then close."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await close(scope, receive)


async def cut(answer: Response) -> Response:
    """Turn an answer into one that ends in its middle."""
    body = bytes(answer.body) if not isinstance(answer, StreamingResponse) else await _whole(answer)
    return Cut(body, answer.status_code, {"Content-Type": answer.headers.get("content-type", "text/plain")})


async def _whole(answer: StreamingResponse) -> bytes:
    pieces = [piece async for piece in answer.body_iterator]
    return b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces)


def json_answer(text: str, *, documented: bool, status: int = 200) -> Response:
    """Answer a search or index call: ISO-8859-1 with `?` for what does not fit (observed), UTF-8 where documented."""
    charset = "UTF-8" if documented else "ISO-8859-1"
    # Given as a header: as media type, Starlette would write a charset of its own behind it.
    headers = {"Content-Type": f"application/json;charset={charset}"}
    return Response(text.encode(charset, "replace"), status, headers)


def json_stream(pieces: Iterable[str], *, documented: bool, latin1: bool = False) -> Response:
    """Answer with a record set; a long one goes out piece by piece, so that a whole folder is never held at once.

    With `latin1` it is ISO-8859-1 also where documented.
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
        # Other requests are answered in between.
        await asyncio.sleep(0)


def html_answer(text: str) -> Response:
    """Answer with a page where an answer of the interface was due (observed, with 200)."""
    return Response(text.encode("iso-8859-1", "replace"), headers={"Content-Type": "text/html;charset=ISO-8859-1"})


def upload_answer(result: Result, *, referer: str, redirectto: str, parameters: str, documented: bool) -> Response:
    """Answer an upload: XML, or a redirect where one was asked for (interface section 4.3).

    The redirect comes for success and for a wrong key; other refusals come as XML all the same (observed).
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
    # The service escapes the texts of its runtime and no others (`upload-no-destfolderid`, `upload-no-filedata`).
    quotes = {"'": "&apos;"} if "Error at line" in result.message else {}
    return escape(result.message, quotes)


def _redirect(result: Result, redirectto: str, parameters: str, *, documented: bool) -> Response:
    """Append the answer to the address; observed, a session stands before its query, and the kind after the asset."""
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
