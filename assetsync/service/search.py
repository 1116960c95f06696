"""Check the parameters of searchassets (interface section 4.1) and encode its calls.

The module does no I/O: it turns a SearchRequest into a `Call`, and builds the entries for `searchfor`: queries in the
index's syntax (section 4.1.1), and LIKE patterns for searches in the database. `client` sends the calls.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

from assetsync.core.outcome import is_sound_id
from assetsync.errors import UsageError
from assetsync.model import SearchRequest

_SPECIAL = re.compile(r'([+\-&|!(){}\[\]^"~*?:\\/])')
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# Characters that the upload's form rewrites in a name (quotes, slashes, control characters) may come back as any text.
_UNSURE = re.compile(r'[^\x20-\x7e]+|["\\/]')
_UNSAFE = re.compile(r"[^a-z0-9.%-]")


def ids_query(assetids: Sequence[str]) -> str:
    """Return the query for any of these ids: `id:A OR id:B` (observed); raises UsageError for an invalid id or none."""
    if not assetids:
        raise UsageError("a search for ids needs at least one id")
    return " OR ".join(f"id:{checked_id(assetid)}" for assetid in assetids)


def checked_id(assetid: str) -> str:
    """Return the id unchanged; raises UsageError if it is not a valid asset id."""
    if not is_sound_id(assetid):
        raise UsageError(f"{assetid[:80]!r} is not an asset id", hint="an id has 1 to 64 letters, digits and -")
    return assetid


def like_pattern(sent_name: str) -> str:
    """Return a LIKE pattern for `dbdirect` that matches the sent name in every form in which the service may store it.

    The pattern matches more on purpose. Small ASCII letters, digits, `.` and `-` match themselves. Quotes, slashes,
    backslashes, and runs of control and non-ASCII characters match any text (observed: characters outside ISO-8859-1
    come back as `?`). Every other character matches any single character, capitals too: releases up to 1.9.1 compare
    the pattern with names in small letters, on databases that distinguish the two. The pattern uses no escapes.
    """
    return _UNSAFE.sub("_", re.sub(r"%+", "%", _UNSURE.sub("%", sent_name.replace("%", "_"))))


def term(text: str) -> str:
    """Return a plain term with all syntax escaped; several words become several terms."""
    words = [_escaped(word) for word in _words(text)]
    return " ".join(f"\\{word}" if word in _OPERATORS else word for word in words)


def field(name: str, value: str) -> str:
    """Return a field query `<field>:<value>`; a value of several words is put in round brackets."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a field name", hint="use 1 to 64 letters, digits and _")
    escaped = term(value)
    return f"{name}:({escaped})" if " " in escaped else f"{name}:{escaped}"


def labels(*names: str) -> str:
    """Return the query for assets with all of these labels; a nested label contains a slash, blanks become `+`."""
    if not names:
        raise UsageError("a search for labels needs at least one label")
    # The slash of a nested label is not escaped: the interface writes it as part of the name.
    parts = ("+".join(_escaped(word).replace(r"\/", "/") for word in _words(name)) for name in names)
    return "labels:" + ",".join(f"({part})" for part in parts)


def custom_field(field_id: str, *values: str) -> str:
    """Return the query for a custom field with all of these values: `customfieldvalue:(+<id> +<value> …)`."""
    if not values:
        raise UsageError("a search for a custom field needs at least one value")
    parts = [checked_id(field_id), *(_one_word(value) for value in values)]
    return "customfieldvalue:(" + " ".join(f"+{part}" for part in parts) + ")"


def all_of(*queries: str) -> str:
    """Join queries with AND; raises UsageError for an empty query or none."""
    if not queries or not all(query.strip() for query in queries):
        raise UsageError("nothing to search for", hint="give at least one query, none of them empty")
    return " AND ".join(queries)


def narrowed(raw: str | None, *queries: str) -> str:
    """Join an entry in raw syntax, or None, with queries of this module by AND; raw syntax alone stays unchanged."""
    if raw is None or not queries:
        return all_of(*queries) if raw is None else raw
    # Brackets are needed because an OR in `raw` binds more loosely than the AND that follows.
    return all_of(f"({raw})" if re.search(r"\s", raw.strip()) else raw.strip(), *queries)


def _words(text: str) -> list[str]:
    words = text.split()
    if not words:
        raise UsageError("nothing to search for", hint="give at least one word")
    return words


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)


def _one_word(value: str) -> str:
    words = _words(value)
    # Several words are quoted as one value, so that the + before them applies to all of them.
    return _escaped(words[0]) if len(words) == 1 else '"' + re.sub(r'(["\\])', r"\\\1", " ".join(words)) + '"'


_CHOICES = {
    "show": ("all", "img", "vid", "doc", "aud"),
    "doctype": ("", "pdf", "xls", "doc", "other"),
    "sortby": ("name", "sizedesc", "sizeasc", "dateadd", "datechanged"),
    "available": ("1", "0"),
    "datecreateparam": (">", "<", "=>", "=<", "between"),
    "datechangeparam": (">", "<", "=>", "=<", "between"),
}
# The service accepts a comma-separated list of folders, too (observed, with dbdirect).
_FOLDERS = re.compile(r"[A-Za-z0-9_-]{1,64}(?:,[A-Za-z0-9_-]{1,64})*")
_OPTIONAL = [field.name for field in fields(SearchRequest) if field.name not in ("searchfor", "patience")]
_MOST_ROWS = 2**31 - 1  # the largest number that a database accepts
_LEAST = {
    "startrow": (1, "rows count from 1"),
    "maxrows": (0, "give how many rows, or 0 for all (observed)"),
}


def form_of(request: SearchRequest) -> list[tuple[str, str]]:
    """Return the form fields of a search, without method and key; raises UsageError that names the wrong parameter."""
    if not request.searchfor.strip():
        raise _wrong("searchfor", "is empty", "give a search entry")
    form = [("searchfor", request.searchfor)]
    for name in _OPTIONAL:
        value = getattr(request, name)
        if value is None or (name == "dbdirect" and not value):
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int):
            least, hint = _LEAST[name]
            if not least <= value <= _MOST_ROWS:
                raise _wrong(name, f"is {value}", hint)
        else:
            _check_text(name, value)
        form.append((name, str(value)))
    _check_together(request)
    return form


def _check_text(name: str, value: str) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            choices = ", ".join(choice or "(empty)" for choice in _CHOICES[name])
            raise _wrong(name, f"is {value[:40]!r}", f"use one of {choices}")
    elif name == "folderid":
        # An empty one in the database shows all folders that the key's user may see (observed).
        if value and not _FOLDERS.fullmatch(value):
            raise _wrong(name, f"is {value[:80]!r}", "a folder id has 1 to 64 letters, digits, _ and -")
    elif name in ("datecreate", "datechange"):
        _check_date(name, value, "yyyy-mm-dd or yyyymmdd", "%Y-%m-%d", "%Y%m%d")
    elif name.endswith("range"):
        start, _to, stop = value.partition(" TO ")
        for day in (start, stop):
            _check_date(name, day, "yyyymmdd TO yyyymmdd", "%Y%m%d")
        if stop < start:
            raise _wrong(name, "ends before it begins", "give the earlier day first")
    else:
        _check_date(name, value, "yyyy-mm-dd hh:mm:ss", "%Y-%m-%d %H:%M:%S")


def _check_together(request: SearchRequest) -> None:
    """Raise UsageError if parameters exclude each other or one lacks another."""
    if request.doctype and request.show != "doc":
        raise _wrong("doctype", "is given without --show doc", "it filters documents only")
    if request.dbdirect:
        for name, value in (("show", request.show), ("doctype", request.doctype)):
            if value is not None:
                raise _wrong(name, "is given with --dbdirect", "leave one of them out")
    for stem in ("datecreate", "datechange"):
        given = {
            end: value for end in ("param", "start", "stop") if (value := getattr(request, stem + end)) is not None
        }
        if given and not request.dbdirect:
            raise _wrong(stem + next(iter(given)), "is given without --dbdirect", "it works with the database only")
        if given:
            _check_comparison(stem, given)


def _check_comparison(stem: str, given: Mapping[str, str]) -> None:
    operator = given.get("param")
    if operator is None:
        raise _wrong(f"{stem}param", "is missing", "say how to compare the date")
    if "start" not in given:
        raise _wrong(f"{stem}start", "is missing", f"--{stem}param compares with it")
    if operator == "between" and "stop" not in given:
        raise _wrong(f"{stem}stop", "is missing", "between needs both ends")
    if operator != "between" and "stop" in given:
        raise _wrong(f"{stem}stop", f"is given with --{stem}param {operator}", "it is used with between only")
    if "stop" in given and given["stop"] < given["start"]:
        raise _wrong(f"{stem}stop", f"lies before --{stem}start", "give the earlier one as start")


def _check_date(name: str, value: str, written: str, *forms: str) -> None:
    for form in forms:
        with suppress(ValueError):
            # `strptime` also reads numbers without their leading zeros. Times of the service have no zone (observed).
            if datetime.strptime(value, form).strftime(form) == value:  # noqa: DTZ007
                return
    raise _wrong(name, f"is {value[:40]!r}", f"write an existing date as {written}")


def _wrong(name: str, problem: str, hint: str) -> UsageError:
    """Return the error about a parameter; it has the name of its option, because only operators give wrong ones."""
    return UsageError(f"{'TERM' if name == 'searchfor' else f'--{name}'} {problem}", hint=hint)


Wire = Literal["row", "column", "jsonp", "wddx"]
"""The output formats of section 4.1."""

_CALLBACK = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.]{0,63}")

SEARCH_PATH = "/global/api2/search.cfc"

# The live service needs the names with two underscores; the interface documents the first two names without them.
_SWITCHES: dict[Wire, tuple[tuple[str, str], ...]] = {
    "row": (),
    "column": (("BDQUERYFORMAT", "column"), ("__BDQUERYFORMAT", "column")),
    "jsonp": (("BDRETURNFORMAT", "jsonp"), ("__BDRETURNFORMAT", "jsonp")),
    "wddx": (("__BDRETURNFORMAT", "wddx"),),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of searchassets or searchIndex without the key; `query` is for the address, `fields` is for the form.

    `patience`: as in `SearchRequest`.
    """

    query: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]
    patience: float | None = None

    def address(self, base_url: str) -> str:
        """Return the whole address below the service's base address."""
        return f"{base_url.rstrip('/')}{SEARCH_PATH}?{urlencode(self.query)}"

    def form(self, api_key: str) -> list[tuple[str, str]]:
        """Return the form fields with the key, which is never part of `address`."""
        return [*self.fields, ("api_key", api_key)]


def search_call(request: SearchRequest, wire: Wire = "row", callback: str = "cb") -> Call:
    """Return the call of one search; `callback` is the function of JSONP. Raise UsageError for a wrong parameter."""
    if not _CALLBACK.fullmatch(callback):
        raise _wrong("callback", f"is {callback[:40]!r}", "it is the name of a function of JavaScript")
    function = (("callback", callback),) if wire == "jsonp" else ()
    query = (("method", "searchassets"), *_SWITCHES[wire], *function)
    return Call(query, tuple(form_of(request)), request.patience)
