"""Write the answers of the service: record sets, messages and upload results, and answers that are cut or lost.

Their wire formats are JSON by rows or columns, JSONP, WDDX and XML, in the charset of the dialect and with the headers
of the service. The text of a record set comes in pieces, so that memory need not hold an answer with a whole folder.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Final, cast
from urllib.parse import quote
from xml.sax.saxutils import escape

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from assetsync.sandbox.connection import close
from assetsync.sandbox.search import Value
from assetsync.sandbox.store import new_id
from assetsync.sandbox.upload import LOGIN_NOT_VALID, Result

_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]{0,99}", re.ASCII)

Rows = Iterable[Sequence[Value]]


def _spoken(moment: object) -> str:
    assert isinstance(moment, datetime), "nothing else is in a row that JSON does not know"
    return f"{moment:%B, %d %Y %H:%M:%S}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_spoken)


def by_rows(columns: Sequence[str], rows: Rows, *, documented: bool) -> Iterator[str]:
    """Yield the row-based record set with the keys `COLUMNS` and `DATA`, in lower case if documented."""
    names, data = ("columns", "data") if documented else ("COLUMNS", "DATA")
    yield f'{{"{names}":{_json(list(columns))},"{data}":['
    between = ""
    for row in rows:
        yield between + _json(row)
        between = ","
    yield "]}"


def by_columns(columns: Sequence[str], rows: Rows, *, documented: bool) -> Iterator[str]:
    """Yield the column-based record set; this needs all rows at once."""
    table = list(rows)
    data = {column: [row[position] for row in table] for position, column in enumerate(columns)}
    names = ("rowcount", "columns", "data") if documented else ("ROWCOUNT", "COLUMNS", "DATA")
    yield _json(dict(zip(names, (len(table), columns, data), strict=True)))


def jsonp(callback: str, pieces: Iterable[str]) -> Iterator[str]:
    """Wrap an answer in a call of the function `callback`; an invalid name leaves the answer unchanged."""
    if not _CALLBACK.fullmatch(callback):
        return iter(pieces)
    return chain((f"{callback}(",), pieces, (")",))


def wddx(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Yield the record set as WDDX, field by field; this needs all rows at once."""
    table = list(rows)
    yield "<wddxPacket version='1.0'><header></header><data>"
    yield f"<recordset rowCount='{len(table)}' fieldNames='{','.join(columns)}'>"
    for position, column in enumerate(columns):
        yield f"<field name='{column}'>{''.join(_wddx_value(row[position]) for row in table)}</field>"
    yield "</recordset></data></wddxPacket>"


def _wddx_value(value: Value) -> str:
    match value:
        case None:
            return "<string></string>"
        case int():
            return f"<number>{value}</number>"
        case datetime() as at:
            # Time and zone have no leading zeros (observed).
            return f"<dateTime>{at:%Y-%m-%d}T{at.hour}:{at.minute}:{at.second}+0:0</dateTime>"
    # WDDX writes a character that XML does not allow as an element.
    text = _NOT_IN_XML.sub(lambda found: f"<char code='{ord(found[0]):02x}'/>", escape(value))
    return f"<string>{text}</string>"


def record_set(columns: Sequence[str], rows: Rows, given: Mapping[str, str], *, documented: bool) -> Iterator[str]:
    """Return the pieces of a record set in the format of the output switches (interface section 4.1).

    The names of the switches begin with two underscores if observed, and only that of WDDX if documented.
    """
    mark = "" if documented else "__"
    form = given.get(f"{mark}bdreturnformat", "").lower()
    if given.get("__bdreturnformat", "").lower() == "wddx":
        return wddx(columns, rows)
    write = by_columns if given.get(f"{mark}bdqueryformat", "").lower() == "column" else by_rows
    pieces = write(columns, rows, documented=documented)
    return jsonp(given.get("callback", ""), pieces) if form == "jsonp" else pieces


def message_set(message: str, *, documented: bool) -> str:
    """Return the record set of a refused search; its code is text if observed (`search-wrong-key`)."""
    code: Value = 1 if documented else "1"
    return "".join(by_rows(("responsecode", "message"), [(code, message)], documented=documented))


def index_result(code: int, message: str, *, documented: bool) -> str:
    """Return the answer of searchIndex; the documented sample is not strict JSON (interface section 4.2)."""
    if documented:
        return f"{{responsecode:{code},message:'{message}'}}"
    return _json({"responsecode": code, "message": message})


def runtime_error(message: str, errorcode: str) -> str:
    """Return an error of the runtime, with its blank lines (`search-no-searchfor`, `search-bad-method`)."""
    return f"\n\n\n{_json({'message': message, 'errorcode': errorcode, 'detail': ''})}\n"


INVALID_REQUEST: Final = runtime_error("an invalid request was attempted", "")

SEARCH_SERVER_DOWN: Final = (
    "\n\n\n\n\n\n\n\n\n\n\n<h2>A connection error to the search server occured</h2>\n"
    "<p>Please report the below error to your Administrator.</p>\n\n"
)

NO_METHOD: Final = "\n\r\n<p></p><html><title>OpenBD:CFML RunTime Error</title><body></body></html>\n"

SEARCH_DATABASE_DOWN: Final = (
    "\n\n\n\n\n" + "\t    \n" * 10 + "\t\t    \n" * 4 + "\t\t    "
    '{"message":"General SQL Error","errorcode":"errorCode.sqlError","detail":"When connecting to the Database this '
    'error was reported: failed to verify remote server/socket @ 127.0.0.1:13306"}\n\t    \n\t'
)  # fmt: skip

UPLOAD_DATABASE_DOWN: Final = (
    '<h3 style="color:red;">Oops, something really strange happened here. Please copy the error message below and send '
    "it to your administrator who will help resolve the problem. Thank you.</h3>\nError:<br>\nGeneral SQL Error"
)

LOGIN_PAGE: Final = (
    "<!DOCTYPE html>\n<html><head><title>Login</title></head><body><form method='post'>"
    "<input name='name'><input name='pass' type='password'></form></body></html>\n"
)

WOULD_HANG: Final = (
    "<!DOCTYPE html>\n<html><head><title>No answer</title></head><body>A live installation would never answer this: the"
    " boundary has to be a plain token, without quotes, at the end of the Content-Type.</body></html>\n"
)


_PIECES_AT_ONCE: Final = 100

TOO_LARGE_FOR_PROXY: Final = (
    "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    "<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
HTML_INSTEAD: Final = "<!DOCTYPE html>\n<html><head><title>Maintenance</title></head><body>Back soon.</body></html>\n"


class Lost(Response):
    """A lost answer: the connection closes without one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Close the connection without a byte."""
        await close(scope, receive)


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
    if isinstance(answer, StreamingResponse):
        body = b"".join([cast("bytes", piece) async for piece in answer.body_iterator])
    else:
        body = bytes(answer.body)
    return Cut(body, answer.status_code, {"Content-Type": answer.headers.get("content-type", "text/plain")})


def json_answer(text: str, *, documented: bool, status: int = 200) -> Response:
    """Return the answer to a search or index call: ISO-8859-1 with `?` for other characters (observed).

    If documented, it is UTF-8.
    """
    charset = "UTF-8" if documented else "ISO-8859-1"
    return Response(text.encode(charset, "replace"), status, _json_headers(charset))


def _json_headers(charset: str) -> dict[str, str]:
    # As a header, not as the media type: Starlette would append a charset of its own to that.
    return {"Content-Type": f"application/json;charset={charset}"}


def json_stream(pieces: Iterator[str], *, documented: bool) -> Response:
    """Return the answer with a record set; a long one is streamed, so that memory never holds a whole folder."""
    first = list(islice(pieces, _PIECES_AT_ONCE))
    if len(first) < _PIECES_AT_ONCE:
        return json_answer("".join(first), documented=documented)
    charset = "UTF-8" if documented else "ISO-8859-1"
    return StreamingResponse(_encoded(chain(first, pieces), charset), headers=_json_headers(charset))


async def _encoded(pieces: Iterator[str], charset: str) -> AsyncIterator[bytes]:
    while batch := "".join(islice(pieces, _PIECES_AT_ONCE)):
        yield batch.encode(charset, "replace")
        # Let other requests run in between.
        await asyncio.sleep(0)


def html_answer(text: str, status: int = 200) -> Response:
    """Return an HTML page in place of an answer of the interface (observed with status 200)."""
    headers = {"Content-Type": "text/html;charset=ISO-8859-1"}
    return Response(text.encode("iso-8859-1", "replace"), status, headers=headers)


def upload_answer(result: Result, given: Mapping[str, str], referer: str, *, documented: bool) -> Response:
    """Return the answer to an upload: XML, or a redirect if requested (interface section 4.3).

    Success and a wrong key are redirected; other refusals are XML even if a redirect was requested (observed). If
    documented, the element of the result code is named `Response`, like the element around it.
    """
    accepted = result.code == 0
    if given.get("redirectto") and (accepted or result.message == LOGIN_NOT_VALID):
        return _redirect(result, given, documented=documented)
    # The service escapes quotes only in the messages of its runtime (`upload-no-destfolderid`, `upload-no-filedata`).
    quotes = {"'": "&apos;"} if "Error at line" in result.message else {}
    code = "Response" if documented else "responsecode"
    elements = {code: str(result.code), "message": escape(result.message, quotes)}
    if result.assetid:
        elements["assetid"] = escape(result.assetid)
    if accepted:
        elements["filetype"] = result.filetype
        elements["comingfrom"] = _cdata(referer)
        elements["renamefilebody"] = _cdata(result.renamed)
    body = "".join(f"<{name}>{text}</{name}>\n" for name, text in elements.items())
    xml = f'<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n{body}</Response>\n\n\n\n'
    return Response(xml.encode(), headers={"Content-Type": "application/xml;charset=UTF-8"})


def _cdata(text: str) -> str:
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


def _redirect(result: Result, given: Mapping[str, str], *, documented: bool) -> Response:
    """Return a redirect with the answer in its query.

    Observed: `;jsessionid=` precedes the query of the address, and `filetype` follows `assetid`.
    """
    if result.code == 0:
        query = f"responsecode=0&message=success&assetid={result.assetid}"
        query += "" if documented else f"&filetype={result.filetype}"
        query += f"&{given['redirecttoparams']}" if given.get("redirecttoparams") else ""
    else:
        query = "responsecode=1&message=nosession"
    path, question, own = given["redirectto"].partition("?")
    if documented:
        location = f"{path}{question}{own}{'&' if question else '?'}{query}"
    else:
        location = f"{path};jsessionid={new_id()}{question}{own}?{query}"
    return Response(b"", 302, {"Location": quote(location, safe="%/:=&?~#+!$,;'@()*[]")})
