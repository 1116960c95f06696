"""Write record sets, messages and upload results in their wire formats: JSON by rows or columns, JSONP, WDDX, XML.

Pure: takes values and returns text. The text of a record set comes in pieces, so that memory need not hold an answer
with a whole folder. Encoding it in the charset of the dialect is left to `answers`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple, Self
from xml.sax.saxutils import escape

from assetsync.sandbox.rows import Value

_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]{0,99}", re.ASCII)

Rows = Iterable[Sequence[Value]]


def _spoken(moment: object) -> str:
    assert isinstance(moment, datetime), "nothing else is in a row that JSON does not know"
    return f"{_MONTHS[moment.month - 1]}, {moment:%d %Y %H:%M:%S}"


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
    keys = ("ROWCOUNT", "COLUMNS", "DATA")
    values: tuple[object, ...] = (len(table), list(columns), data)
    named = ((key.lower() if documented else key, value) for key, value in zip(keys, values, strict=True))
    yield _json(dict(named))


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


class Output(NamedTuple):
    """The output switches of a search (interface section 4.1)."""

    columns: bool
    wddx: bool
    callback: str

    @classmethod
    def asked(cls, given: Mapping[str, str], *, documented: bool) -> Self:
        """Read the switches; their names begin with two underscores if observed, with any number if documented."""
        if documented:
            given = {name.lstrip("_"): value for name, value in given.items()}
        mark = "" if documented else "__"
        form = given.get(f"{mark}bdreturnformat", "").lower()
        return cls(
            columns=given.get(f"{mark}bdqueryformat", "").lower() == "column",
            wddx=form == "wddx",
            callback=given.get("callback", "") if form == "jsonp" else "",
        )


def record_set(columns: Sequence[str], rows: Rows, output: Output, *, documented: bool) -> Iterator[str]:
    """Return the pieces of a record set in the requested format."""
    if output.wddx:
        return wddx(columns, rows)
    write = by_columns if output.columns else by_rows
    pieces = write(columns, rows, documented=documented)
    return jsonp(output.callback, pieces) if output.callback else pieces


def message_set(message: str, *, documented: bool) -> str:
    """Return the record set of a refused search; its code is text if observed (`search-wrong-key`)."""
    code: Value = 1 if documented else "1"
    return "".join(by_rows(("responsecode", "message"), [(code, message)], documented=documented))


def index_result(code: int, message: str, *, documented: bool) -> str:
    """Return the answer of searchIndex; the documented sample is not strict JSON (interface section 4.2)."""
    if documented:
        return f"{{responsecode:{code},message:'{message}'}}"
    return _json({"responsecode": code, "message": message})


def runtime_error(message: str) -> str:
    """Return the error for a missing argument of an operation, with its blank lines (`search-no-searchfor`)."""
    return f"\n\n\n{_json({'message': message, 'errorcode': 'errorCode.runtimeError', 'detail': ''})}\n"


def invalid_request() -> str:
    """Return the error for an unknown method (`search-bad-method`)."""
    return f"\n\n\n{_json({'message': 'an invalid request was attempted', 'errorcode': '', 'detail': ''})}\n"


def upload_result(elements: Mapping[str, str], *, documented: bool) -> str:
    """Return the XML for an upload (interface section 4.3); the values of `elements` are escaped already.

    If documented, the element of the result code is named `Response`, like the element around it.
    """
    named = (("Response" if documented and name == "responsecode" else name, text) for name, text in elements.items())
    body = "".join(f"<{name}>{text}</{name}>\n" for name, text in named)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n{body}</Response>\n\n\n\n'


def cdata(text: str) -> str:
    """Return text as a CDATA section."""
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


SEARCH_SERVER_DOWN: Final = (
    "\n\n\n\n\n\n\n\n\n\n\n<h2>A connection error to the search server occured</h2>\n"
    "<p>Please report the below error to your Administrator.</p>\n\n"
)

NO_METHOD: Final = "\n\r\n<p></p><html><title>OpenBD:CFML RunTime Error</title><body></body></html>\n"

_INDENTED: Final = "\t    \n" * 10 + "\t\t    \n" * 4
SEARCH_DATABASE_DOWN: Final = (
    "\n\n\n\n\n"
    + _INDENTED
    + "\t\t    "
    + _json(
        {
            "message": "General SQL Error",
            "errorcode": "errorCode.sqlError",
            "detail": "When connecting to the Database this error was reported: "
            "failed to verify remote server/socket @ 127.0.0.1:13306",
        }
    )
    + "\n\t    \n\t"
)

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
