"""Checks the parameters of searchassets (interface section 4.1) and encodes the calls of both search operations.

The module does no I/O: it turns a SearchRequest or a list of ids into a `Call`. `query` builds the entries for
`searchfor`, and this module exports them, too. `client` sends the calls.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlencode

from assetsync.errors import UsageError
from assetsync.model import SearchRequest
from assetsync.service.query import (
    all_of,
    checked_id,
    custom_field,
    field,
    ids_query,
    labels,
    like_pattern,
    narrowed,
    term,
    wildcard,
)

__all__ = [
    "all_of",
    "custom_field",
    "field",
    "form_of",
    "ids_query",
    "labels",
    "like_pattern",
    "narrowed",
    "term",
    "wildcard",
]

_CHOICES = {
    "show": ("all", "img", "vid", "doc", "aud"),
    "doctype": ("", "pdf", "xls", "doc", "other"),
    "sortby": ("name", "sizedesc", "sizeasc", "dateadd", "datechanged"),
    "available": ("1", "0"),
    "datecreateparam": (">", "<", "=>", "=<", "between"),
    "datechangeparam": (">", "<", "=>", "=<", "between"),
}
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)|(\d{4})(\d\d)(\d\d)", re.ASCII)
_COMPACT_DAY = re.compile(r"\d{8}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
# The service accepts a comma-separated list of folders, too (observed, with dbdirect).
_FOLDERS = re.compile(r"[A-Za-z0-9_-]{1,64}(?:,[A-Za-z0-9_-]{1,64})*")
_MOST_ROWS = 2**31 - 1  # the largest number that a database accepts
_TEXTS = (
    "folderid",
    "show",
    "doctype",
    "datecreate",
    "datechange",
    "datecreaterange",
    "datechangerange",
    "sortby",
    "available",
    "datecreateparam",
    "datecreatestart",
    "datecreatestop",
    "datechangeparam",
    "datechangestart",
    "datechangestop",
)


def form_of(request: SearchRequest) -> list[tuple[str, str]]:
    """Return the form fields of a search, without method and key; raises UsageError that names the wrong parameter."""
    if not request.searchfor.strip():
        raise _wrong("searchfor", "is empty", "give a search entry")
    fields = [("searchfor", request.searchfor)]
    for name in _TEXTS:
        value = getattr(request, name)
        if value is not None:
            _check_text(name, value)
            fields.append((name, value))
    _check_together(request)
    for name, number, least, hint in (
        ("startrow", request.startrow, 1, "rows count from 1"),
        ("maxrows", request.maxrows, 0, "give how many rows, or 0 for all (observed)"),
    ):
        if number is not None:
            if not least <= number <= _MOST_ROWS:
                raise _wrong(name, f"is {number}", hint)
            fields.append((name, str(number)))
    if request.showrenditions is not None:
        fields.append(("showrenditions", "true" if request.showrenditions else "false"))
    if request.dbdirect:
        fields.append(("dbdirect", "true"))
    return fields


def _check_text(name: str, value: str) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            choices = ", ".join(choice or "(empty)" for choice in _CHOICES[name])
            raise _wrong(name, f"is {value[:40]!r}", f"use one of {choices}")
    elif name == "folderid":
        if not _FOLDERS.fullmatch(value):
            raise _wrong(name, f"is {value[:80]!r}", "a folder id has 1 to 64 letters, digits, _ and -")
    elif name in ("datecreate", "datechange"):
        _day(name, value)
    elif name.endswith("range"):
        _check_range(name, value)
    else:
        _moment(name, value)


def _check_together(request: SearchRequest) -> None:
    """Raise UsageError if parameters exclude each other or one lacks another."""
    if request.doctype and request.show != "doc":
        raise _wrong("doctype", "is given without show=doc", "it filters documents only")
    if request.dbdirect:
        for name, value in (("show", request.show), ("doctype", request.doctype)):
            if value is not None:
                raise _wrong(name, "is given with dbdirect=true", "leave one of them out")
    for stem in ("datecreate", "datechange"):
        given = {
            end: value for end in ("param", "start", "stop") if (value := getattr(request, stem + end)) is not None
        }
        if given and not request.dbdirect:
            raise _wrong(stem + next(iter(given)), "is given without dbdirect=true", "it works with the database only")
        if given:
            _check_comparison(stem, given)


def _check_comparison(stem: str, given: Mapping[str, str]) -> None:
    operator = given.get("param")
    if operator is None:
        raise _wrong(f"{stem}param", "is missing", "say how to compare the date")
    if "start" not in given:
        raise _wrong(f"{stem}start", "is missing", f"{stem}param compares with it")
    if operator == "between" and "stop" not in given:
        raise _wrong(f"{stem}stop", "is missing", "between needs both ends")
    if operator != "between" and "stop" in given:
        raise _wrong(f"{stem}stop", f"is given with {stem}param {operator}", "it is used with between only")
    if "stop" in given and given["stop"] < given["start"]:
        raise _wrong(f"{stem}stop", f"lies before {stem}start", "give the earlier one as start")


def _check_range(name: str, value: str) -> None:
    days = value.split(" TO ")
    if len(days) != 2 or not all(_COMPACT_DAY.fullmatch(day) for day in days):  # noqa: PLR2004 - a range has two ends
        raise _wrong(name, f"is {value[:40]!r}", "write it as yyyymmdd TO yyyymmdd")
    if _day(name, days[1]) < _day(name, days[0]):
        raise _wrong(name, "ends before it begins", "give the earlier day first")


def _day(name: str, value: str) -> datetime:
    match = _DAY.fullmatch(value)
    if match is None:
        raise _wrong(name, f"is {value[:40]!r}", "write it as yyyy-mm-dd or yyyymmdd")
    return _parsed(name, value, "%Y-%m-%d" if "-" in value else "%Y%m%d")


def _moment(name: str, value: str) -> datetime:
    if not _MOMENT.fullmatch(value):
        raise _wrong(name, f"is {value[:40]!r}", "write it as yyyy-mm-dd hh:mm:ss")
    return _parsed(name, value, "%Y-%m-%d %H:%M:%S")


def _parsed(name: str, value: str, form: str) -> datetime:
    try:
        # The service's times have no zone (observed). UTC serves only to check the calendar.
        return datetime.strptime(value, form).replace(tzinfo=UTC)
    except ValueError as exc:
        raise _wrong(name, f"is {value[:40]!r}", "there is no such day or time") from exc


def _wrong(name: str, problem: str, hint: str) -> UsageError:
    return UsageError(f"{name} {problem}", hint=hint)


Wire = Literal["row", "column", "jsonp", "wddx"]
"""The output formats of section 4.1."""

SEARCH_PATH = "/global/api2/search.cfc"

EVERYTHING = "all"
"""The word for every asset in a call of searchIndex, which is therefore not a valid id."""

# The live service needs the names with two underscores; the interface documents the first two names without them.
_SWITCHES: dict[Wire, tuple[tuple[str, str], ...]] = {
    "row": (),
    "column": (("BDQUERYFORMAT", "column"), ("__BDQUERYFORMAT", "column")),
    "jsonp": (("BDRETURNFORMAT", "jsonp"), ("__BDRETURNFORMAT", "jsonp"), ("callback", "cb")),
    "wddx": (("__BDRETURNFORMAT", "wddx"),),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of searchassets or searchIndex without the key; `query` is for the address, `fields` is for the form."""

    query: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]

    def address(self, base_url: str) -> str:
        """Return the whole address below the service's base address."""
        return f"{base_url.rstrip('/')}{SEARCH_PATH}?{urlencode(self.query)}"

    def form(self, api_key: str) -> list[tuple[str, str]]:
        """Return the form fields with the key, which is never part of `address`."""
        return [*self.fields, ("api_key", api_key)]


def search_call(request: SearchRequest, wire: Wire = "row") -> Call:
    """Return the call of one search; raises UsageError that names the wrong parameter."""
    return Call((("method", "searchassets"), *_SWITCHES[wire]), tuple(form_of(request)))


def index_call(assetids: Sequence[str]) -> Call:
    """Return the call that requests indexing of these ids, or of everything with the single word `all`.

    Raises UsageError for an empty list and for an invalid id, such as `all` among other ids.
    """
    if not assetids:
        raise UsageError("no ids to index", hint="give at least one asset id")
    everything = [assetid.lower() for assetid in assetids] == [EVERYTHING]
    ids = EVERYTHING if everything else ",".join(checked_id(assetid) for assetid in assetids)
    return Call((("method", "searchIndex"),), (("assetid", ids),))
