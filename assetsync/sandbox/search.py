"""searchassets (interface section 4.1): from parameters to the rows of an answer, by the database or the index.

The columns are those of interface section 2, and more as observed. Interpreting a search entry is left to `query`,
writing the answer to `answers`.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Final

from assetsync.sandbox.faults import Active, FaultKind
from assetsync.sandbox.query import NOTHING, Condition, QuerySyntaxError, all_of, condition, like, one_of, only_ids
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store, is_english

Value = str | int | datetime | None

OBSERVED_COLUMNS: Final = (
    "id", "filename", "folder_id", "folder_name", "extension", "video_image", "filename_org", "kind",
    "extension_thumb", "path_to_asset", "cloud_url", "cloud_url_org", "size", "size_num", "width", "height",
    "isalias", "description", "keywords", "dateadd", "datechange", "expiry_date_actual", "local_url_org",
    "local_url_thumb", "colid", "colorspace", "xdpi", "ydpi", "unit", "md5hash", "filename_forsort", "cnt",
    "date_create", "date_change", "file_type", "responsecode", "totalassetscount", "calledwith",
)  # fmt: skip

# The interface does not show the names of the two date columns; these are the observed ones.
DOCUMENTED_COLUMNS: Final = (
    "id", "filename", "folder_id", "extension", "video_image", "filename_org", "kind", "extension_thumb",
    "path_to_asset", "cloud_url", "cloud_url_org", "size", "width", "height", "description", "keywords", "rowtotal",
    "local_url_org", "local_url_thumb", "responsecode", "totalassetscount", "calledwith", "colid", "date_create",
    "date_change",
)  # fmt: skip

_NUMBERS: Final = ("width", "height")
_KINDS: Final = ("img", "vid", "aud", "doc")
_DOCTYPES: Final = {"pdf": ("pdf",), "xls": ("xls", "xlsx"), "doc": ("doc", "docx")}
_ORDER: Final = {
    "name": "name_key, seq",
    "sizedesc": "size DESC, seq",
    "sizeasc": "size, seq",
    "dateadd": "stored_at DESC, seq DESC",
    "datechanged": "stored_at DESC, seq DESC",
}
_OPERATORS: Final = {">": ">", "<": "<", "=": "=", "=>": ">=", ">=": ">=", "=<": "<=", "<=": "<=", "between": "between"}


@dataclass(frozen=True, slots=True)
class Question:
    """The values of a call that its rows need.

    `repeated` has the values of the columns that are the same in all rows, `counts` the totals by kind. `origin` is
    scheme, host and port of the service.
    """

    repeated: Mapping[str, Value]
    counts: Mapping[str, int]
    origin: str
    now: float
    settings: SandboxSettings


def search(
    store: Store, given: Mapping[str, str], *, origin: str, settings: SandboxSettings, active: Active
) -> tuple[tuple[str, ...], Iterator[list[Value]]]:
    """Run one search; return the columns of the answer and its rows, which are read from the store one by one.

    `given` maps lower-case parameter names to values, `origin` is scheme, host and port, `active` are the faults.
    """
    documented = settings.documented
    dbdirect = given.get("dbdirect", "").lower() in ("true", "1", "yes")
    now = store.now
    show = given.get("show", "all").lower()
    kinds = _KINDS if show in ("all", "") or (dbdirect and documented) else (show,)
    unprocessed = documented and given.get("available") == "0"
    limits = _by_database(given, documented=documented) if dbdirect else _by_index(given, now, all_states=unprocessed)
    where = all_of([Condition("visible_at <= ?", (now,)), one_of("kind", kinds), *limits])
    folders = tuple(part.strip() for part in given.get("folderid", "").split(",") if part.strip())
    if folders:
        where = all_of([where, _in_folders(store, folders, active)])
    elif "folderid" in given and not dbdirect and not documented:
        # In the index an empty list shows nothing, also to an administrator (observed).
        where = NOTHING
    if settings.rights is not None:
        visible = tuple(folder for folder, right in settings.rights.items() if right != "none")
        where = all_of([where, one_of("folder_id", visible)])
    if FaultKind.NO_RIGHT in active:
        where = NOTHING
    if documented:
        processed = "processed_at > ?" if unprocessed else "processed_at <= ?"
        where = all_of([where, Condition(processed, (now,))])
    order = f"ORDER BY {_order(given, active if dbdirect else {})}"
    # With dbdirect and show=all the totals are 0, however many rows there are (observed).
    counted = documented or not dbdirect or len(kinds) < len(_KINDS) or FaultKind.CAPPED in active
    counted = counted and not (dbdirect and FaultKind.CAPPED_UNSTATED in active)
    counts = store.counts(where) if counted else {}
    if not documented and only_ids(given["searchfor"]):
        # A bare identifier is counted twice although it returns one row (`search-by-id`).
        counts = {kind: 2 * count for kind, count in counts.items()}
    if settings.twice and not dbdirect:
        counts = {kind: 2 * count for kind, count in counts.items()}
    total = sum(counts.values())
    repeated: dict[str, Value] = {"totalassetscount": total, "rowtotal": total, "calledwith": given["searchfor"]}
    question = Question(repeated | {"responsecode": 0}, {} if dbdirect else counts, origin, now, settings)
    if dbdirect and not documented:
        # dbdirect ignores startrow and maxrows (observed).
        assets = _faulty(store.select(where, order), given, active)
    elif documented:
        # The habits of some releases concern the index alone.
        assets = _page(
            _capped(store.select(where, order), active) if dbdirect else store.select(where, order),
            given,
            SandboxSettings(dialect="documented") if dbdirect else settings,
        )
    else:
        # maxrows applies to each kind: 25 may return 100 rows with show=all (observed).
        of_kinds = (store.select(all_of([where, one_of("kind", (kind,))]), order) for kind in kinds)
        assets = chain.from_iterable(_page(of_kind, given, settings) for of_kind in of_kinds)
    renditions = settings.renditions and given.get("showrenditions", "true").lower() not in ("false", "0", "no")
    left_out = "folder_id" if FaultKind.FOLDER_MISSING in active else ""
    columns = tuple(c for c in (DOCUMENTED_COLUMNS if documented else OBSERVED_COLUMNS) if c != left_out)
    # Each documented column is a text or a number, which may be empty.
    empty = {column: 0 if column in _NUMBERS else "" for column in columns} if documented else {}
    shown = (_with_faults(values, active) for values in _rows(assets, question, renditions=renditions))
    return columns, (
        [empty.get(column) if (value := values.get(column)) is None else value for column in columns]
        for values in shown
    )


def _in_folders(store: Store, folders: tuple[str, ...], active: Active) -> Condition:
    """Return the condition that `folderid` sets, or the false one of a fault."""
    if FaultKind.FOLDER_CASE in active:
        folders = tuple(known for known in store.folders() if known.lower() in {each.lower() for each in folders})
    if FaultKind.UNKNOWN_FOLDER_LISTED in active and store.folders().keys().isdisjoint(folders):
        return Condition("1", ())
    return one_of("NOT folder_id" if FaultKind.OTHER_FOLDER in active else "folder_id", folders)


def _order(given: Mapping[str, str], active: Active) -> str:
    """Return the columns to sort by."""
    sortby = "name" if FaultKind.SORT_IGNORED in active else given.get("sortby", "name").lower()
    order = _ORDER.get(sortby, _ORDER["name"])
    # Without an order of arrival only the sort key is left, and a database returns equal ones as it likes.
    return f"{order.partition(', ')[0]}, RANDOM()" if FaultKind.UNORDERED in active else order


def _capped(assets: Iterator[sqlite3.Row], active: Active) -> Iterator[sqlite3.Row]:
    for kind in (FaultKind.CAPPED, FaultKind.CAPPED_UNSTATED):
        if kind in active:
            assets = islice(assets, active[kind].rows)
    return assets


def _faulty(assets: Iterator[sqlite3.Row], given: Mapping[str, str], active: Active) -> Iterator[sqlite3.Row]:
    """Yield the rows of a search in the database that its faults leave."""
    assets = _capped(assets, active)
    if FaultKind.PAGED not in active:
        return assets
    most = active[FaultKind.PAGED].rows
    before = max(_number(given.get("startrow", ""), 1), 1) - 1
    if before > 1 and FaultKind.SHIFTED in active:
        before += active[FaultKind.SHIFTED].rows
    return islice(assets, before, before + min(_number(given.get("maxrows", ""), most) or most, most))


def _with_faults(values: dict[str, Value], active: Active) -> dict[str, Value]:
    """Return the values of a row as its faults show them."""
    if FaultKind.FOLDER_EMPTY in active:
        return values | {"folder_id": ""}
    if FaultKind.FOLDER_CASE in active:
        return values | {"folder_id": str(values["folder_id"]).swapcase()}
    return values


def _rows(assets: Iterator[sqlite3.Row], question: Question, *, renditions: bool) -> Iterator[dict[str, Value]]:
    for asset in assets:
        yield row_values(asset, question)
        if renditions and asset["kind"] == "img" and asset["processed_at"] <= question.now:
            yield rendition_values(asset, question)


def _page(assets: Iterator[sqlite3.Row], given: Mapping[str, str], settings: SandboxSettings) -> Iterator[sqlite3.Row]:
    """Yield the rows that startrow and maxrows select; maxrows 0 selects all (observed), or none if documented."""
    if settings.twice:
        assets = (asset for asset in assets for _ in range(2))
    rows = _number(given.get("maxrows", ""), 25)
    before = max(_number(given.get("startrow", ""), 1), 1) - 1
    if settings.startrow == "page":
        before *= rows
    return islice(assets, before, before + rows if rows or settings.documented else None)


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


def _by_index(given: Mapping[str, str], now: float, *, all_states: bool) -> list[Condition]:
    """Return the conditions of a search through the index; a syntax error or an invalid date matches nothing.

    With `all_states`, also assets that are not processed yet, which an installation does not index (observed).
    """
    limits = [] if all_states else [Condition("indexed_at <= ? AND processed_at <= ?", (now, now))]
    try:
        limits.append(condition(given["searchfor"]))
    except QuerySyntaxError:
        limits.append(NOTHING)
    for name in ("datecreate", "datechange"):
        if given.get(name):
            limits.append(_between(_day(given[name]), _day(given[name])))
        if given.get(f"{name}range"):
            first, _, last = given[f"{name}range"].partition(" TO ")
            limits.append(_between(_day(first), _day(last)))
    doctype = given.get("doctype", "").lower()
    if doctype and given.get("show", "").lower() == "doc":
        if doctype == "other":
            limits.append(one_of("NOT extension", tuple(chain.from_iterable(_DOCTYPES.values()))))
        else:
            limits.append(one_of("extension", _DOCTYPES.get(doctype, ())))
    return limits


def _between(first: datetime | None, last: datetime | None) -> Condition:
    if first is None or last is None:
        return NOTHING
    end = last + timedelta(days=1)
    return Condition("stored_at >= ? AND stored_at < ?", (first.timestamp(), end.timestamp()))


def _by_database(given: Mapping[str, str], *, documented: bool) -> list[Condition]:
    """Return the conditions of dbdirect; its date parameters narrow only pictures, not other kinds (observed)."""
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
    dates = all_of(limits)
    if limits and not documented:
        dates = Condition(f"(kind <> 'img' OR {dates.sql})", dates.values)
    return [like(given["searchfor"]), dates]


def _moment(text: str) -> float | None:
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def row_values(asset: sqlite3.Row, question: Question) -> dict[str, Value]:
    """Return the values of one asset by column.

    Before an asset is processed, nearly all are null and the size is "0": this means "not yet" (observed).
    """
    processed = asset["processed_at"] <= question.now
    documented = question.settings.documented
    kind = asset["filetype"] if documented and processed else asset["kind"]
    stored = datetime.fromtimestamp(int(asset["stored_at"]), UTC)
    picture = asset["kind"] == "img"
    values: dict[str, Value] = {
        "id": asset["id"],
        "filename": asset["filename"],
        "folder_id": asset["folder_id"],
        "folder_name": asset["folder_name"],
        "video_image": "dummy",
        "kind": kind,
        "size": "0",
        "isalias": "0",
        "dateadd": stored,
        "date_create": stored,
        "filename_forsort": asset["filename"],
        "file_type": "original" if picture else "",
        **question.repeated,
        "cnt": str(question.counts.get(asset["kind"], 0)),
    }
    if not processed:
        return values
    place = f"{asset['folder_id']}/{asset['kind']}/{asset['id']}"
    # The service writes the double slash, too (observed).
    url = f"{question.origin}//razuna/assets/1/{place}"
    is_hidden = question.settings.one_language and not is_english(json.loads(asset["fields"]))
    unsaid = "" if (picture or asset["extension"] == "pdf") and not is_hidden else None
    resolution = "1" if picture else ""
    return values | {
        "extension": asset["extension"],
        "filename_org": asset["filename_org"],
        "extension_thumb": "jpg" if picture else asset["extension"],
        "path_to_asset": place,
        "size": str(asset["size"]),
        "size_num": asset["size"],
        "width": asset["width"],
        "height": asset["height"],
        "description": asset["description"] if asset["description"] is not None else unsaid,
        "keywords": asset["keywords"] if asset["keywords"] is not None else unsaid,
        "datechange": stored,
        "date_change": stored,
        "local_url_org": f"{url}/{asset['filename_org']}",
        "local_url_thumb": f"{url}/thumb_{asset['id']}.jpg" if picture else "0",
        "colorspace": "",
        "xdpi": resolution,
        "ydpi": resolution,
        "unit": "None" if picture else "",
        "md5hash": asset["md5"] if question.settings.md5 else None,
    }


def rendition_values(asset: sqlite3.Row, question: Question) -> dict[str, Value]:
    """Return the values of a picture's rendition: half as wide and high, with its own id, name and MD5."""
    name = f"{asset['filename'].rpartition('.')[0] or asset['filename']}_rendition.jpg"
    # Derived from the asset, so that every answer shows the same values.
    derived = hashlib.md5(f"rendition of {asset['id']}".encode(), usedforsecurity=False).hexdigest().upper()
    return row_values(asset, question) | {
        "id": derived[::-1],
        "filename": name,
        "filename_org": name,
        "filename_forsort": name,
        "extension": "jpg",
        "size": str(asset["size"] // 2),
        "size_num": asset["size"] // 2,
        "width": asset["width"] // 2,
        "height": asset["height"] // 2,
        "md5hash": derived if question.settings.md5 else None,
        "file_type": "rendition",
    }
