"""The rows of the ledger as values, and the only way to change a row's state.

`core.states` decides which state follows an event. Which event happened is left to the callers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assetsync.core.states import WANTED_AFTER, Event, Facts, transition
from assetsync.errors import LedgerDamaged, RowUnfit
from assetsync.ledger.file.database import Database
from assetsync.ledger.file.handle import Handle, Row
from assetsync.ledger.file.integrity import BY_HAND
from assetsync.model import FileStat, State, Wanted


class FileRow(NamedTuple):
    """One version of one path; the schema describes each column."""

    id: int
    path: bytes
    destfolderid: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    md5: str | None
    state: State
    wanted: Wanted
    reason: str | None
    detail: str | None
    folded_name: str
    assetid: str | None
    id_from: str | None
    asset_folder: str | None
    filetype: str | None
    meta_digest: str | None
    drift: str | None
    failures: int
    attempts: int
    absences: int
    send_again: int
    due_at: float
    queued_at: float
    uploaded_at: float | None
    verified_at: float | None
    rested_at: float | None
    drift_digest: str | None
    agreed_folder: str | None
    differs: str | None
    without_sidecar: int

    @classmethod
    def unsaved(cls, path: bytes, stat: FileStat, destfolderid: str, now: float) -> "FileRow":
        """Return a version as it would be queued at `now` (seconds since the epoch); the ledger does not have it."""
        empty: dict[str, Any] = dict.fromkeys(cls._fields)
        zero = ("id", "failures", "attempts", "absences", "send_again", "without_sidecar")
        counts = dict.fromkeys(zero, 0)
        queued = {"state": State.QUEUED, "wanted": Wanted.YES, "due_at": now, "queued_at": now, "folded_name": ""}
        return cls(**(empty | counts | queued | stat._asdict()))._replace(path=path, destfolderid=destfolderid)

    @property
    def is_without_metadata(self) -> bool:
        """Whether a person lets the version be sent without metadata."""
        return self.without_sidecar == WITHOUT_METADATA

    @property
    def waits_for_sidecar(self) -> bool:
        """Whether the version waits for its own sidecar; the same condition as `WAITS_FOR_SIDECAR` in SQL."""
        return self.state is State.QUEUED and self.wanted is Wanted.YES and self.reason == NO_SIDECAR

    @property
    def metadata_differs(self) -> bool:
        """Whether the metadata that was read last differs from the metadata that was sent."""
        return self.drift_digest not in (None, self.meta_digest)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the asset was moved in the service and nobody has agreed to its new folder."""
        return self.asset_folder not in (None, "", self.destfolderid, self.agreed_folder)

    @property
    def not_as_sent(self) -> str | None:
        """How the metadata in the service differs from what was sent; None if nothing was sent."""
        return None if self.uploaded_at is None else self.differs

    @property
    def is_theirs(self) -> bool:
        """Whether the asset holds content that somebody else put there; the same condition as `THEIRS` in SQL."""
        return self.reason == "different" and (self.verified_at is not None or self.id_from == "adopted")

    @property
    def stat(self) -> FileStat:
        """The properties of the file on disk that identify this version."""
        return FileStat(self.size, self.mtime_ns, self.ctime_ns, self.inode)


class AttemptRow(NamedTuple):
    """What the program reads of a POST that was begun; the schema describes each column."""

    id: int
    file_id: int
    destfolderid: str
    sent_name: str
    boundary: str
    size: int
    md5: str | None
    started_at: float
    ended_at: float | None
    left_part: str | None
    bytes_sent: int | None
    bytes_sent_md5: str | None
    is_duplicate: int
    why: str | None
    name_released: int
    closed_at: float | None
    result: str | None
    look_at: float
    looks: int
    took: float | None
    answered: int
    looked: str | None
    metadata: str


FILE_COLUMNS = ", ".join(FileRow._fields)
ATTEMPT_COLUMNS = ", ".join(AttemptRow._fields)
THEIRS = "COALESCE({0}.reason = 'different' AND ({0}.verified_at IS NOT NULL OR {0}.id_from = 'adopted'), 0)"
"""SQL condition: an asset that was once a version's file now holds a DAM user's own work, found by an audit or when it
was read back."""

WHOSE_ASSET = "(assetid {0} AND state NOT IN ('superseded', 'gone') OR assetid {0} AND state IN ('superseded', 'gone'))"
"""SQL condition for the rows of an asset, live or at rest; each of the two kinds has an index."""

_STATE, _WANTED = FileRow._fields.index("state"), FileRow._fields.index("wanted")

_ALWAYS_READ = dict.fromkeys(("id", "state", "wanted", "assetid", "rested_at"))
_OPEN = "EXISTS (SELECT 1 FROM attempts WHERE file_id = files.id AND closed_at IS NULL) AS open"


def file_row(row: Row) -> FileRow:
    """Return the value of a `SELECT FILE_COLUMNS`; raise LedgerDamaged for an unknown state or `wanted`."""
    values = [*row]
    try:
        values[_STATE] = State(values[_STATE])
        values[_WANTED] = Wanted(values[_WANTED])
    except ValueError as error:
        raise LedgerDamaged(f"the ledger is damaged: row {values[0]} of `files` says {error}", hint=BY_HAND) from error
    return FileRow._make(values)


def files_where(store: Database, where: str, *values: Any) -> list[FileRow]:
    """Return the versions for which the condition `where` holds; it may end in an order and a limit."""
    return [file_row(row) for row in store.rows(f"SELECT {FILE_COLUMNS} FROM files WHERE {where}", *values)]


def row_missing(file_id: int) -> RowUnfit:
    """Return the error for a row that does not exist: it was merged into another, or removed by another program."""
    return RowUnfit(f"row {file_id} of the ledger is not there any more")


def read_file(conn: Handle, file_id: int) -> FileRow:
    """Return one row, which must exist."""
    row = conn.execute(f"SELECT {FILE_COLUMNS} FROM files WHERE id = ?", (file_id,)).fetchone()
    if row is None:
        raise row_missing(file_id)
    return file_row(row)


GOES_ON = {"reason": None, "detail": None, "failures": 0, "absences": 0}
"""Columns to write for a blocked file that continues, besides `due_at`."""

MISSING = "missing"
"""The reason of a file whose asset an audit no longer found; kept while the asset is looked up again."""

NO_SIDECAR = "no_sidecar"
"""The reason of a queued file that waits for its own sidecar, because its mapping requires one."""

NEW_FIELD = "new_field"
"""The reason of a queued file that waits because nothing was processed yet with one of its metadata fields."""

WITHOUT_METADATA = 2
"""The value of `without_sidecar` for a version that is sent without metadata."""

WAITS_FOR_SIDECAR = f"state = 'queued' AND wanted = 'yes' AND reason = '{NO_SIDECAR}'"
"""SQL condition for these files; the same words as in the index `files_no_sidecar`."""

TOUCHED = "touched"
"""The reason of a verified version whose file differs from it in ctime or inode alone, until the file is read again."""

DIFFERS = "differs"
"""The reason of such a version whose file has other content, until a scan counts it among the missing files."""

CHECKED_AGAIN = "state = 'verified' AND wanted = 'yes' AND reason IS NOT NULL"
"""SQL condition for both; the same words as in the index `files_checked_again`."""

SENT_WITH_XMP = (
    "(files.id > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'xmp_after_file')"
    " OR EXISTS (SELECT 1 FROM attempts a WHERE a.file_id = files.id"
    "   AND a.id > (SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'xmp_after_attempt')))"
)
"""SQL condition for versions that a release which reads XMP files queued or sent.

Only for a ledger that an older release filled: in others it is NULL.
"""

NEW_SPAN = "looked = json_remove(looked, '$.grace', '$.watched', '$.newest')"
"""SQL assignment of an attempt whose answered look-ups no longer count; the time of its first look-up is kept."""


def reopen(conn: Handle, attempt_id: int, now: float, *, why: str) -> None:
    """Reopen a decided attempt, so that its look-ups start from the beginning.

    The attempt holds its name again, unless another open attempt holds it. While it holds the name, no other file of
    that name is sent, whose asset could be taken for its own.
    """
    conn.execute(
        "UPDATE attempts SET closed_at = NULL, result = NULL, name_released = 1, why = ?, look_at = ?,"
        f" {NEW_SPAN} WHERE id = ?",
        (why, now, attempt_id),
    )
    hold_name(conn, attempt_id)


def close_attempts(conn: Handle, file_id: int, result: str, now: float) -> None:
    """Close the open attempts of a version with this result."""
    conn.execute(
        "UPDATE attempts SET closed_at = ?, result = ? WHERE file_id = ? AND closed_at IS NULL", (now, result, file_id)
    )


def hold_name(conn: Handle, attempt_id: int) -> None:
    """Let an open attempt hold its name again, unless another open attempt holds it."""
    conn.execute("UPDATE OR IGNORE attempts SET name_released = 0 WHERE id = ? AND closed_at IS NULL", (attempt_id,))


def current_row(
    conn: Handle, file_id: int, names: Iterable[str], also: str = _OPEN, values: Sequence[Any] = ()
) -> Row | None:
    """Return the columns `names` of a row as `move` needs them, and those of `also`; None without a row.

    `also` extends the select list; by default it adds `open`: whether the row has an open attempt. In it ?1 is the
    row's id, and `values` follow as ?2 and so on.
    """
    row: Row | None = conn.execute(
        f"SELECT {', '.join({**_ALWAYS_READ, **dict.fromkeys(names)})}, {also} FROM files WHERE id = ?1",
        (file_id, *values),
    ).fetchone()
    return row


def move(conn: Handle, row: Row, event: Event, now: float, *, open_attempt: bool, **changes: Any) -> State:
    """Apply `event` to a row that `current_row` read in this transaction; return the state after it.

    `open_attempt`: whether an attempt is open after the event. What is known of an asset that the row gives up is
    emptied. Raise IllegalTransition and change nothing, if the table of states does not allow the event.
    """
    before = State(row["state"])
    wanted = WANTED_AFTER.get(event, Wanted(row["wanted"]))
    facts = Facts(
        wanted=wanted,
        has_id=changes.get("assetid", row["assetid"]) is not None,
        open_attempt=open_attempt,
    )
    after = transition(before, event, facts)
    resting = after in (State.SUPERSEDED, State.GONE)
    columns = {"state": after, "wanted": wanted, "rested_at": (row["rested_at"] or now) if resting else None} | changes
    # SQLite updates the indexes of every column named here, changed or not. The state is always named.
    columns = {name: value for name, value in columns.items() if name == "state" or value != row[name]}
    if row["assetid"] not in (None, changes.get("assetid", row["assetid"])):
        # They are about the asset that the row had.
        columns |= dict.fromkeys(("differs",) if changes["assetid"] else ("differs", "id_from", "asset_folder"))
        # Whether that asset exists is unknown: a look-up that shows it again shows it for the first time.
        conn.execute("DELETE FROM assets WHERE assetid = ? AND why = 'owned'", (row["assetid"],))
    assignments = ", ".join(f"{name} = ?" for name in columns)
    done = conn.execute(
        f"UPDATE files SET {assignments} WHERE id = ? AND state = ?",
        (*columns.values(), row["id"], before),
    )
    if done.rowcount != 1:
        raise RowUnfit(f"row {row['id']} of the ledger changed while it was written")
    return after


class Usual:
    """The common case of an event as one statement, whose condition covers what `move` would have read.

    If the condition does not hold, the row stays as it is; the caller then uses `current_row` and `move`.
    """

    def __init__(self, before: State, event: Event, facts: Facts, changes: Mapping[str, str], only: str) -> None:
        """Look up the state after the event once, for all rows; raise IllegalTransition.

        `changes` maps columns to their new values and `only` is the condition, both in SQL in which ?1 is the row's id.
        The condition lists as NULL each column that the event would empty, except `rested_at`.
        """
        self.after = transition(before, event, facts)
        """The state after the event."""
        assignments = ", ".join(f"{name} = {value}" for name, value in {"state": f"'{self.after}'", **changes}.items())
        self._sql = (
            f"UPDATE files SET {assignments} WHERE id = ?1 AND state = '{before}' AND wanted = '{facts.wanted}'"
            f" AND rested_at IS NULL AND {only}"
        )

    def try_apply(self, conn: Handle, *values: Any) -> bool:
        """Apply the event to the row whose id is the first value; return False, changing nothing, if it is unusual."""
        return conn.execute(self._sql, values).rowcount == 1


def apply(conn: Handle, file_id: int, event: Event, now: float, **changes: Any) -> State:
    """Apply `event` to a row, with the columns it changes; return the state after it.

    The caller must have opened or closed attempts first, as the event requires. Raises as `move` does, and LedgerError
    if the row does not exist.
    """
    row = current_row(conn, file_id, changes)
    if row is None:
        raise row_missing(file_id)
    return move(conn, row, event, now, open_attempt=bool(row["open"]), **changes)


def retry_where(conn: Handle, where: str, values: Sequence[Any], now: float) -> int:
    """Retry the blocked versions for which the condition `where` holds; return their number."""
    rows = conn.execute(f"SELECT id FROM files WHERE state = 'blocked' AND {where}", values).fetchall()
    for row in rows:
        apply(conn, row["id"], Event.RETRIED, now, reason=None, detail=None, due_at=now)
    return len(rows)
