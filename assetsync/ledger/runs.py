"""What regular work did: results of runs, what the last scan found, why the last run stopped, and uploads per hour.

Each result is a fact of the ledger, as one JSON object. Conclusions are left to `status.site_status`.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from assetsync.ledger.file.database import Database
from assetsync.ledger.file.facts import set_fact
from assetsync.ledger.file.handle import Handle
from assetsync.text import printable

JOBS = ("rescan", "index", "verify", "audit")

SECONDS = 3600

AUDITED = "audited "
"""Prefix of the facts that hold the result of each folder's newest audit; the folder follows."""

_UNSETTLED = "unsettled"

_VANISHED = "vanished"
"""The fact that lists the scans of the last week that found files gone, the newest last."""

DAY = 24 * 3600.0
_WEEK = 7 * DAY
_MOST_VANISHED = 50
_NAMED = 5
_LARGE = 10


class LastScan(NamedTuple):
    """When the whole tree was last scanned, whether it was completely readable, and the paths that were not.

    `missing` names the mapped folders that were not there. `stray` counts sidecars without a matching file, up to
    1,000; `first_stray` is the path of one of them. `first_unreadable` names a path that must be made readable, and
    why; `also_unreadable` does the same for some others. `moved` counts the paths in `unreadable` that were moved while
    the scan ran.
    """

    at: float
    complete: bool
    unreadable: int
    missing: tuple[str, ...] = ()
    stray: int = 0
    first_stray: str = ""
    first_unreadable: str = ""
    also_unreadable: tuple[str, ...] = ()
    moved: int = 0

    @property
    def blind(self) -> tuple[str, ...]:
        """Paths that must be made readable, and why."""
        return (self.first_unreadable, *self.also_unreadable) if self.first_unreadable else ()

    @property
    def unread(self) -> int:
        """Number of paths that must be made readable."""
        return self.unreadable - self.moved if self.first_unreadable else 0


class Run(NamedTuple):
    """When a kind of regular work last ended, and its duration in seconds if it is known.

    `idle`: nothing was due, so that the service was not asked.
    """

    at: float
    seconds: float | None
    idle: bool = False


class Pause(NamedTuple):
    """Why and since when a process sends nothing, in which start of the ledger, and when it gave up, if it did.

    `uploads`: if answers to uploads are lost, the number of uploads that were known to be stored when it began.
    """

    start: int
    since: float
    reason: str
    detail: str
    ended: float | None = None
    uploads: int | None = None


DAEMON, PASS = "run", "reconcile"
"""The commands that mirror a site, as `LastHolder` names them."""


class LastHolder(NamedTuple):
    """The command that mirrored the site last, and its last sign of life.

    `timer` is None unless a timer of systemd started it; then the longest pause of the timer's calendar in seconds, 0.0
    if it is unknown.
    """

    command: str
    at: float
    timer: float | None = None


class Refusal(NamedTuple):
    """When a process, in this start of the ledger, rejected a new configuration and kept the old one, and why."""

    start: int
    at: float
    mistake: str


class PageAddress(NamedTuple):
    """Where the status page of a process listens, in which start of the ledger.

    `trouble` is why it cannot listen there, "" if it does. `port` is 0 if no free port was found.
    """

    start: int
    host: str
    port: int
    trouble: str = ""


class LogUnread(NamedTuple):
    """Since when the log of a process is not read, in which start of the ledger, how many lines it dropped, and why."""

    start: int
    since: float
    dropped: int
    detail: str


class UploadAddress(NamedTuple):
    """The address for uploads: the number of uploads stored in all before its first use, and what a probe showed.

    `account` is the service's account at the probe, "" before it, and `tried_at` its time. `detail` is why the address
    is wrong, "" if it is right or unknown.
    """

    address: str
    uploads: int
    account: str = ""
    detail: str = ""
    tried_at: float = 0.0


class ProxyLimit(NamedTuple):
    """The largest accepted size and the smallest that a proxy refused, in bytes; `refused` is None after an acceptance.

    `tried_at` is when a blocked file was tried last, in seconds since the epoch; `trial` is its size until its answer.
    """

    accepted: int
    refused: int | None
    tried_at: float
    trial: int | None = None


class HeldUp(NamedTuple):
    """Uploads in doubt keep a process from sending queued files, in which start of the ledger and since when.

    `folders` are the destination folders whose queued files wait; with `everything` no queued file can be sent. The
    first doubt can be decided at `decided_at`; None if look-ups have to be answered first.
    """

    start: int
    since: float
    folders: tuple[str, ...]
    everything: bool
    decided_at: float | None = None


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Number of files seen that may still be being written; `overflowed`: there were more files than are tracked."""

    count: int = 0
    overflowed: bool = False


@dataclass(frozen=True, slots=True)
class Vanished:
    """A scan that found `count` of `known` files gone, renamed files apart.

    `folders` counts them for the folders with the most of them, `names` holds the first paths, as they are printed.
    """

    at: float
    count: int
    known: int
    folders: dict[str, int]
    names: tuple[str, ...]

    @property
    def is_large(self) -> bool:
        """Whether a person should look: at least 10 files and 1 % of all."""
        return self.count >= _LARGE and self.count * 100 >= self.known

    def __str__(self) -> str:
        """Return the counts in words, such as `600 of 990 files: 500 from photos, 100 from docs`."""
        named = [f"{count:,} from {folder}" for folder, count in self.folders.items()]
        rest = self.count - sum(self.folders.values())
        return f"{self.count:,} of {self.known:,} files: {', '.join(named)}{f', {rest:,} from others' if rest else ''}"


_FACTS: dict[type, str] = {
    LastScan: "last_scan",
    Pause: "paused",
    LastHolder: "last_holder",
    Refusal: "config_refused",
    PageAddress: "page",
    LogUnread: "log_unread",
    UploadAddress: "upload_address",
    ProxyLimit: "proxy_limit",
    HeldUp: "held_by_doubts",
}
"""The fact that holds each record, as a JSON object of its fields."""

S = TypeVar("S", Pause, Refusal, PageAddress, LogUnread, HeldUp)
T = TypeVar("T", LastScan, Pause, LastHolder, Refusal, PageAddress, LogUnread, UploadAddress, ProxyLimit, HeldUp)


class Runs:
    """Records and reads the results of runs."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def scanned(self, scan: LastScan, seconds: float) -> None:
        """Record the result of a scan."""
        start = self._store.fact("start")
        self._write(_of("rescan"), {**scan._asdict(), "seconds": round(seconds, 3), "start": start})

    def note_vanished(self, at: float, paths: Sequence[bytes], known: int) -> Vanished:
        """Record that a scan found these of the `known` files gone; kept for a week."""
        folders = Counter(printable(path.rpartition(b"/")[0]) or "." for path in paths)
        names = tuple(map(printable, sorted(paths)[:_NAMED]))
        vanished = Vanished(at, len(paths), known, dict(folders.most_common(_NAMED)), names)
        value = json.dumps([asdict(each) for each in (*self.vanished(at), vanished)][-_MOST_VANISHED:])
        self._store.write(lambda conn: set_fact(conn, _VANISHED, value))
        return vanished

    def vanished(self, now: float) -> tuple[Vanished, ...]:
        """Return the scans of the last week that found files gone, the newest last."""
        record = json.loads(self._store.fact(_VANISHED) or "[]")
        found = (Vanished(**each | {"names": tuple(each["names"])}) for each in record)
        return tuple(each for each in found if each.at > now - _WEEK)

    def ended(self, job: str, at: float, seconds: float, *, idle: bool = False) -> None:
        """Record that other regular work ended; `idle`: nothing was due."""
        self._write(_of(job), {"at": at, "seconds": round(seconds, 3), "idle": idle})

    def last_scan(self) -> LastScan | None:
        """Return the result of the last scan."""
        return self.recorded(LastScan)

    def has_scanned(self) -> bool:
        """Return whether the latest process has scanned the tree."""
        record = self._read(_of("rescan"))
        return record is not None and record.get("start") == self._store.fact("start")

    def not_scanned(self, unreadable: str = "") -> None:
        """Mark the last scan as incomplete: since then the tree, or this `unreadable` path, could not be read."""
        record = self._read(_of("rescan"))
        if record is None:
            return
        named = {} if record.get("first_unreadable") or not unreadable else {"first_unreadable": unreadable}
        # `unreadable` includes paths that had only moved, and this path is not one of them.
        counted = {"unreadable": max(1 + int(record.get("moved", 0)), int(record["unreadable"]))} if unreadable else {}
        if (now := record | {"complete": False} | named | counted) != record:
            self._write(_of("rescan"), now)

    def last(self) -> dict[str, Run]:
        """Return the last Run of each kind of work that has ever ended."""
        runs = {}
        for job in JOBS:
            record = self._read(_of(job))
            if record is not None:
                runs[job] = Run(float(record["at"]), record.get("seconds"), record.get("idle", False))
        return runs

    def record(self, kind: type[T], value: T | None) -> None:
        """Record a value in place of the last one of its kind; None: what it reports is over."""
        self._write(_FACTS[kind], None if value is None else value._asdict())

    def submit(self, kind: type[T], value: T) -> None:
        """Queue a value for the next commit."""
        self._store.submit(lambda conn: set_fact(conn, _FACTS[kind], json.dumps(value._asdict())))

    def recorded(self, kind: type[T]) -> T | None:
        """Return the last value of a kind, of whichever process; None if there is none or it is over."""
        record = self._read(_FACTS[kind])
        if record is None:
            return None
        # A record of an older release lacks fields, and one of a newer release may have more.
        values: dict[str, Any] = {
            name: tuple(record[name]) if isinstance(record[name], list) else record[name]
            for name in kind._fields
            if name in record
        }
        return kind(**values)

    def at_hand(self, kind: type[S]) -> S | None:
        """Return the last value of a kind if the latest process recorded it; that of an earlier process is over."""
        value = self.recorded(kind)
        return value if value is not None and str(value.start) == self._store.fact("start") else None

    def note_unsettled(self, unsettled: Unsettled) -> None:
        """Record how many files are not settled yet."""
        self._write(_UNSETTLED, asdict(unsettled))

    def unsettled(self) -> Unsettled:
        """Return how many files were not settled when it was last recorded."""
        record = self._read(_UNSETTLED)
        return Unsettled() if record is None else Unsettled(int(record["count"]), bool(record["overflowed"]))

    def undecided_audits(self) -> list[str]:
        """Return the folders whose newest audit was inconclusive: it missed so many assets that it pulled a brake."""
        where = "name BETWEEN ? AND ? AND json_extract(value, '$.braked')"
        rows = self._store.rows_where("facts", where, AUDITED, AUDITED + "\U0010ffff", order_by="name")
        return [row["name"].removeprefix(AUDITED) for row in rows]

    def _write(self, name: str, record: dict[str, Any] | None) -> None:
        value = None if record is None else json.dumps(record)
        self._store.write(lambda conn: set_fact(conn, name, value))

    def _read(self, name: str) -> dict[str, Any] | None:
        value = self._store.fact(name)
        return None if value is None else json.loads(value)


def _of(job: str) -> str:
    return "last_scan" if job == "rescan" else f"last_{job}"


class Hour(NamedTuple):
    """One hour that began at `start` (seconds since the epoch): number of uploaded files, and their bytes."""

    start: float
    uploads: int
    bytes: int


class HourlyStats:
    """Uploads per hour, counted in the commit that records each upload, so that a chart reads only 24 rows.

    An index over a million attempts would cost as much per upload as this row, and more when it is read.
    """

    def __init__(self, store: Database) -> None:
        self._store = store

    def total(self) -> int:
        """Return the number of uploads that are known to be stored."""
        return int(self._store.rows_where("hours", select="COALESCE(SUM(uploads), 0) AS total")[0]["total"])

    def last(self, count: int, now: float) -> list[Hour]:
        """Return the last `count` hours, the current hour last; an hour without uploads has zeros."""
        current = int(now // SECONDS)
        rows = self._store.rows_where("hours", "hour > ? AND hour <= ?", current - count, current)
        known = {row["hour"]: (row["uploads"], row["bytes"]) for row in rows}
        return [Hour(hour * SECONDS, *known.get(hour, (0, 0))) for hour in range(current - count + 1, current + 1)]


def count_upload(conn: Handle, size: int, now: float) -> None:
    """Count an upload that is known to be stored, in the transaction that records it."""
    conn.execute(
        "INSERT INTO hours (hour, uploads, bytes) VALUES (?, 1, ?)"
        " ON CONFLICT (hour) DO UPDATE SET uploads = uploads + 1, bytes = bytes + excluded.bytes",
        (int(now // SECONDS), size),
    )
