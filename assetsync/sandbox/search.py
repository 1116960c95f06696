"""searchassets (interface section 4.1): from parameters to the rows of an answer, by the database or the index.

This module reads the store. Interpreting a search entry is left to `query`, writing the answer to `answers`.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Final, NamedTuple

from assetsync.sandbox.names import doctype_extensions
from assetsync.sandbox.query import Condition, QuerySyntaxError, condition, like, only_ids
from assetsync.sandbox.rows import Question, Value, rendition_values, row_values
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store

_KINDS: Final = ("img", "vid", "aud", "doc")
_ORDER: Final = {
    "name": "name_key, seq",
    "sizedesc": "size DESC, seq",
    "sizeasc": "size, seq",
    "dateadd": "stored_at DESC, seq DESC",
    "datechanged": "stored_at DESC, seq DESC",
}
_OPERATORS: Final = {">": ">", "<": "<", "=": "=", "=>": ">=", ">=": ">=", "=<": "<=", "<=": "<=", "between": "between"}
_NOTHING: Final = Condition("0", ())


class Found(NamedTuple):
    """The columns of an answer and its rows; the iterator reads them from the store."""

    columns: tuple[str, ...]
    rows: Iterator[list[Value]]


def search(store: Store, given: Mapping[str, str], *, origin: str, settings: SandboxSettings) -> Found:
    """Run one search; `given` maps lower-case parameter names to values, `origin` is scheme, host and port."""
    documented = settings.documented
    dbdirect = given.get("dbdirect", "").lower() in ("true", "1", "yes")
    now = store.now
    limits = [_visible(now), _folders(given.get("folderid", ""))]
    if documented:
        limits.append(_available(given.get("available", "1"), now))
    if dbdirect:
        limits.append(like(given["searchfor"]))
        limits.append(_moments(given, documented=documented))
    else:
        limits.append(Condition("indexed_at <= ? AND processed_at <= ?", (now, now)))
        limits.append(_entry(given["searchfor"]))
        limits.append(_days(given))
    shown = _shown(given, ignored=dbdirect and documented)
    limits.append(Condition(f"kind IN ({', '.join('?' * len(shown))})", shown))
    where = " AND ".join(f"({limit.sql})" for limit in limits)
    values = [value for limit in limits for value in limit.values]
    order = f"ORDER BY {_ORDER.get(given.get('sortby', 'name').lower(), _ORDER['name'])}"
    # With dbdirect and show=all the totals are 0, however many rows there are (observed).
    counted = documented or not dbdirect or len(shown) < len(_KINDS)
    counts = _counts(store, given, where, values, documented=documented) if counted else {}
    if settings.twice and not dbdirect:
        counts = {kind: 2 * count for kind, count in counts.items()}
    question = Question(
        calledwith=given["searchfor"],
        total=sum(counts.values()),
        counts={} if dbdirect else counts,
        origin=origin,
        now=now,
        documented=documented,
        md5=settings.md5,
    )
    if dbdirect:
        # dbdirect ignores startrow and maxrows (observed).
        assets = store.select(where, values, order)
    elif documented:
        assets = _page(store.select(where, values, order), given, settings)
    else:
        # maxrows applies to each kind: 25 may return 100 rows with show=all (observed).
        of_kinds = (store.select(f"{where} AND kind = ?", [*values, kind], order) for kind in shown)
        assets = chain.from_iterable(_page(of_kind, given, settings) for of_kind in of_kinds)
    renditions = settings.renditions and given.get("showrenditions", "true").lower() not in ("false", "0", "no")
    return Found(question.columns, _rows(assets, question, renditions=renditions))


def _rows(assets: Iterator[sqlite3.Row], question: Question, *, renditions: bool) -> Iterator[list[Value]]:
    for asset in assets:
        yield row_values(asset, question)
        if renditions and asset["kind"] == "img" and asset["processed_at"] <= question.now:
            yield rendition_values(asset, question)


def _counts(
    store: Store, given: Mapping[str, str], where: str, values: list[str | float], *, documented: bool
) -> dict[str, int]:
    counts = store.counts(where, values)
    if not documented and only_ids(given["searchfor"]):
        # A bare identifier is counted twice although it returns one row (`search-by-id`).
        return {kind: 2 * count for kind, count in counts.items()}
    return counts


def _visible(now: float) -> Condition:
    return Condition("visible_at <= ?", (now,))


def _folders(given: str) -> Condition:
    folders = tuple(part.strip() for part in given.split(",") if part.strip())
    if not folders:
        return Condition("1", ())
    return Condition(f"folder_id IN ({', '.join('?' * len(folders))})", folders)


def _available(given: str, now: float) -> Condition:
    return Condition("processed_at > ?" if given == "0" else "processed_at <= ?", (now,))


def _entry(searchfor: str) -> Condition:
    try:
        return condition(searchfor)
    except QuerySyntaxError:
        return _NOTHING


def _shown(given: Mapping[str, str], *, ignored: bool) -> tuple[str, ...]:
    show = given.get("show", "all").lower()
    if ignored or show in ("all", ""):
        return _KINDS
    return (show,)


def _page(assets: Iterator[sqlite3.Row], given: Mapping[str, str], settings: SandboxSettings) -> Iterator[sqlite3.Row]:
    """Yield the rows that startrow and maxrows select; maxrows 0 selects all (observed)."""
    if settings.twice:
        assets = (asset for asset in assets for _ in range(2))
    rows = _number(given.get("maxrows", ""), 25)
    before = max(_number(given.get("startrow", ""), 1), 1) - 1
    if settings.startrow == "page":
        before *= rows
    return islice(assets, before, before + rows if rows else None)


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) else default


def _day(text: str) -> datetime | None:
    found = re.fullmatch(r"(\d{4})-?(\d{2})-?(\d{2})", text.strip(), re.ASCII)
    if found is None:
        return None
    try:
        return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None


def _days(given: Mapping[str, str]) -> Condition:
    """Return the condition of the index's date parameters and of doctype; an invalid date matches nothing."""
    limits = []
    for name in ("datecreate", "datechange"):
        if given.get(name):
            limits.append(_between(_day(given[name]), _day(given[name])))
        if given.get(f"{name}range"):
            first, _, last = given[f"{name}range"].partition(" TO ")
            limits.append(_between(_day(first), _day(last)))
    doctype = given.get("doctype", "").lower()
    if doctype and given.get("show", "").lower() == "doc":
        extensions = doctype_extensions(doctype)
        which = "NOT IN" if doctype == "other" else "IN"
        limits.append(Condition(f"extension {which} ({', '.join('?' * len(extensions))})", extensions))
    if not limits:
        return Condition("1", ())
    return Condition(
        " AND ".join(each.sql for each in limits), tuple(value for each in limits for value in each.values)
    )


def _between(first: datetime | None, last: datetime | None) -> Condition:
    if first is None or last is None:
        return _NOTHING
    end = last + timedelta(days=1)
    return Condition("stored_at >= ? AND stored_at < ?", (first.timestamp(), end.timestamp()))


def _moments(given: Mapping[str, str], *, documented: bool) -> Condition:
    """Return the condition of dbdirect's date parameters; they narrow only pictures, not other kinds (observed)."""
    limits = []
    for name in ("datecreate", "datechange"):
        operator = _OPERATORS.get(given.get(f"{name}param", "").lower())
        start = _moment(given.get(f"{name}start", ""))
        if operator is None or start is None:
            continue
        if operator == "between":
            stop = _moment(given.get(f"{name}stop", "")) or start
            limits.append(Condition("stored_at BETWEEN ? AND ?", (start, stop)))
        else:
            limits.append(Condition(f"CAST(stored_at AS INTEGER) {operator} CAST(? AS INTEGER)", (start,)))
    if not limits:
        return Condition("1", ())
    narrowed = " AND ".join(each.sql for each in limits)
    values = tuple(value for each in limits for value in each.values)
    return Condition(narrowed if documented else f"kind <> 'img' OR ({narrowed})", values)


def _moment(text: str) -> float | None:
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
