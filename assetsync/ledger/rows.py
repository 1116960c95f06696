"""The rows of the ledger as values, and the one way in which a row changes its state."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from assetsync.core.states import WANTED_AFTER, Event, Facts, transition
from assetsync.errors import LedgerDamaged, RowUnfit
from assetsync.ledger.damage import BY_HAND
from assetsync.model import FileStat, State, Wanted


class FileRow(NamedTuple):
    """One version of one path; see the schema for each column."""

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
    crashes: int
    send_again: int
    due_at: float
    queued_at: float
    uploaded_at: float | None
    seen_at: float | None
    findable_at: float | None
    index_asked_at: float | None
    verified_at: float | None
    rested_at: float | None
    audited_at: float | None
    unseen_boot: str | None
    unseen_first: float | None
    unseen_last: float | None
    said_digest: str | None
    agreed_folder: str | None

    @property
    def says_otherwise(self) -> bool:
        """Whether its metadata, as it was read last, is not what was sent."""
        return self.said_digest not in (None, self.meta_digest)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its asset was moved in the service, and nobody has agreed to where it is."""
        return self.asset_folder not in (None, "", self.destfolderid, self.agreed_folder)

    @property
    def is_theirs(self) -> bool:
        """Whether its asset holds something else that somebody has put there: as `THEIRS` says it in SQL."""
        return self.reason == "different" and (self.verified_at is not None or self.id_from == "adopted")

    @property
    def stat(self) -> FileStat:
        """The facts of the file on disk that make this version."""
        return FileStat(self.size, self.mtime_ns, self.ctime_ns, self.inode)


class AttemptRow(NamedTuple):
    """One POST that was begun; see the schema for each column."""

    id: int
    file_id: int
    destfolderid: str
    sent_name: str
    folded_name: str
    boundary: str
    size: int
    mtime_ns: int
    inode: int
    md5: str | None
    meta_digest: str | None
    start_no: int
    started_at: float
    ended_at: float | None
    left_part: str | None
    handed: int | None
    handed_md5: str | None
    accepted_id: str | None
    is_duplicate: int
    why: str | None
    answer: str | None
    parked: int
    closed_at: float | None
    result: str | None
    grace_boot: str | None
    grace_first: float | None
    grace_last: float | None
    look_at: float
    looks: int
    grace_slow: float | None
    took: float | None
    look_boot: str | None
    look_first: float | None


FILE_COLUMNS = ", ".join(FileRow._fields)
ATTEMPT_COLUMNS = ", ".join(AttemptRow._fields)
THEIRS = "COALESCE({0}.reason = 'different' AND ({0}.verified_at IS NOT NULL OR {0}.id_from = 'adopted'), 0)"
"""Whether an asset that was a version's file once holds a DAM user's own work, found by an audit or on reading it."""

WHOSE_ASSET = "(assetid {0} AND state NOT IN ('superseded', 'gone') OR assetid {0} AND state IN ('superseded', 'gone'))"
"""The condition of SQL for the rows of an asset, live or at rest: those have an index each."""

NOT_INDEXED: dict[str, Any] = {"findable_at": None, "index_asked_at": None}
"""What is written of a version that returns from rest: the index may have dropped its asset meanwhile."""

_STATE, _WANTED = FileRow._fields.index("state"), FileRow._fields.index("wanted")

_ALWAYS_READ = dict.fromkeys(("id", "state", "wanted", "assetid", "rested_at"))
_OPEN = "EXISTS (SELECT 1 FROM attempts WHERE file_id = files.id AND closed_at IS NULL) AS open"


def file_row(row: sqlite3.Row) -> FileRow:
    """Make the value of a `SELECT FILE_COLUMNS`; raises LedgerDamaged for a word that nobody has written."""
    values = [*row]
    try:
        values[_STATE] = State(values[_STATE])
        values[_WANTED] = Wanted(values[_WANTED])
    except ValueError as error:
        raise LedgerDamaged(f"the ledger is damaged: row {values[0]} of `files` says {error}", hint=BY_HAND) from error
    return FileRow._make(values)


def attempt_row(row: sqlite3.Row) -> AttemptRow:
    """Make the value of a `SELECT ATTEMPT_COLUMNS`."""
    return AttemptRow._make(row)


def row_missing(file_id: int) -> RowUnfit:
    """Say that a row is not there: it was merged into another, or taken away from outside."""
    return RowUnfit(f"row {file_id} of the ledger is not there any more")


def read_file(conn: sqlite3.Connection, file_id: int) -> FileRow:
    """Read one row that must exist."""
    row = conn.execute(f"SELECT {FILE_COLUMNS} FROM files WHERE id = ?", (file_id,)).fetchone()
    if row is None:
        raise row_missing(file_id)
    return file_row(row)


def reopen(conn: sqlite3.Connection, attempt_id: int, now: float, *, why: str, accepted_id: str | None) -> None:
    """Open a decided attempt again, to be looked for from the start.

    It holds its name again, so that no other file's asset is taken for its own; unless one of the name is on its way.
    """
    conn.execute(
        "UPDATE attempts SET closed_at = NULL, result = NULL, parked = 1, why = ?, accepted_id = ?, look_at = ?,"
        " grace_boot = NULL WHERE id = ?",
        (why, accepted_id, now, attempt_id),
    )
    hold_name(conn, attempt_id)


def close_attempts(conn: sqlite3.Connection, file_id: int, result: str, now: float) -> None:
    """Close what is open of a version, decided by this word."""
    conn.execute(
        "UPDATE attempts SET closed_at = ?, result = ? WHERE file_id = ? AND closed_at IS NULL", (now, result, file_id)
    )


def hold_name(conn: sqlite3.Connection, attempt_id: int) -> None:
    """Let an open attempt hold its name back for others again, if none of them is on its way."""
    conn.execute("UPDATE OR IGNORE attempts SET parked = 0 WHERE id = ? AND closed_at IS NULL", (attempt_id,))


def standing(
    conn: sqlite3.Connection, file_id: int, names: Iterable[str], also: str = _OPEN, **values: Any
) -> sqlite3.Row | None:
    """Read what `move` has to know of a row: its columns `names`, and `also` with its parameters; None without a row.

    `also` is more of the select list: by itself whether the row has an open attempt, as `open`.
    """
    row: sqlite3.Row | None = conn.execute(
        f"SELECT {', '.join({**_ALWAYS_READ, **dict.fromkeys(names)})}, {also} FROM files WHERE id = :id",
        {"id": file_id, **values},
    ).fetchone()
    return row


def move(
    conn: sqlite3.Connection, row: sqlite3.Row, event: Event, now: float, *, open_attempt: bool, **changes: Any
) -> State:
    """Let `event` happen to a row that was read by `standing` in this transaction; gives the state after it.

    `open_attempt`: whether one is open after the event. Raises IllegalTransition and changes nothing where the table of
    states does not allow it.
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
    # Every column that is named costs the indexes that hold it, changed or not. The state is always one.
    columns = {name: value for name, value in columns.items() if name == "state" or value != row[name]}
    assignments = ", ".join(f"{name} = ?" for name in columns)
    done = conn.execute(
        f"UPDATE files SET {assignments} WHERE id = ? AND state = ?",
        (*columns.values(), row["id"], before),
    )
    if done.rowcount != 1:
        raise RowUnfit(f"row {row['id']} of the ledger changed while it was written")
    return after


class Usual:
    """An event as nearly every row meets it, in one statement, which demands of the row what `move` would have read.

    A row that is otherwise is left as it is, and goes the way of all others: by `standing` and `move`.
    """

    def __init__(
        self, before: State, event: Event, facts: Facts, changes: Mapping[str, str], *, empty: Iterable[str], only: str
    ) -> None:
        """Ask the table of states where the event leads, once for all rows; raises IllegalTransition.

        `changes` are columns with what they become, `empty` are those that have to be NULL and stay so, and `only` is
        the rest of the condition; in SQL, where ?1 is the row's id.
        """
        self.after = transition(before, event, facts)
        """The state after it."""
        assignments = ", ".join(f"{name} = {value}" for name, value in {"state": f"'{self.after}'", **changes}.items())
        nothing = " AND ".join(f"{name} IS NULL" for name in ("rested_at", *empty))
        self._sql = (
            f"UPDATE files SET {assignments} WHERE id = ?1 AND state = '{before}' AND wanted = '{facts.wanted}'"
            f" AND {nothing} AND {only}"
        )

    def happens(self, conn: sqlite3.Connection, *values: Any) -> bool:
        """Let it happen to the row whose id is the first value; False, and nothing is changed, when that is another."""
        return conn.execute(self._sql, values).rowcount == 1


def apply(conn: sqlite3.Connection, file_id: int, event: Event, now: float, **changes: Any) -> State:
    """Let `event` happen to a row, with the columns it changes; gives the state after it.

    Attempts must have been opened or closed before, as the event says. Raises as `move` does, and LedgerError for
    a row that is not there.
    """
    row = standing(conn, file_id, changes)
    if row is None:
        raise row_missing(file_id)
    return move(conn, row, event, now, open_attempt=bool(row["open"]), **changes)
