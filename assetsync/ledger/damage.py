"""Whether the ledger's file is whole, asked once a day, and where its last holder did not end it in order.

A damaged file is set aside under another name, with its log: nothing is ever sent by what it says. Then nothing lies
at its place, and the next `reconcile` or `run` begins a ledger that lists every folder before it sends. Opening the
file is left to `store`.
"""

import sqlite3
import time
from pathlib import Path

from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.epoch import Epoch
from assetsync.ledger.ledger_metadata import set_fact
from assetsync.ledger.place import header

CLEAN_STOP = "clean_stop"
"""The fact that stands in the ledger while nobody holds it, and only if its last holder ended it in order."""

DAMAGE_SEEN = "damage_seen"
"""The fact by which a holder that met damage has the next one read every row, and not the structure alone."""

FOUND_WHOLE = "found_whole"
"""The fact that says when the file was last looked through, in seconds since 1970."""

APPLICATION_ID = 0x41535359
"""`ASSY` in the header of every ledger, so that it is taken for no other program's file, and no other for it."""

REBUILD = "`assetsync reconcile --adopt` makes a new one from the tree and the service, and sends nothing twice"

IS_SET_ASIDE = f"the next `assetsync reconcile` sets it aside, then {REBUILD}"
"""What becomes of a damaged ledger that a start sets aside."""

BY_HAND = f"stop what sends for it and move it elsewhere, with its -wal and -shm; then {REBUILD}"
"""What a person does with a damaged ledger that no start sets aside."""

_AT_APPLICATION_ID = 68
"""Where the header of a file of SQLite holds it."""

THOROUGH_AT_MOST = 256 * 1024 * 1024
"""Bytes up to which the indexes are compared with their tables too: 1.7 s for 160 MB, where the rest takes 0.3 s."""

_EVERY = 24 * 3600.0


def expect_whole(conn: sqlite3.Connection, changed: str, now: float) -> bool:
    """Look through the whole file, unless its last holder ended it in order and that was done within a day.

    A disk spoils a file that nobody writes to as well, and a row that is not found is a file that is sent once more.
    Gives whether it was looked through, which is for `note_whole`; one that has nothing in it yet needs no look.

    `changed` says when the number beside it was last changed: the mark of a clean stop holds at that time alone. It is
    an old one in a copy that was put back, which SQLite mixes with a log that was left beside it and is a later one's.

    Raises sqlite3.DatabaseError for damage, in which `is_damage` knows it, and any sqlite3.Error for other trouble.
    """
    if not _has_facts(conn):
        return True
    if _ended_in_order(conn, changed) and _was_found_whole(conn, now):
        return False
    size = _number(conn, "PRAGMA page_count") * _number(conn, "PRAGMA page_size")
    met = conn.execute("SELECT 1 FROM facts WHERE name = ?", (DAMAGE_SEEN,)).fetchone() is not None
    check = "integrity_check" if met or size <= THOROUGH_AT_MOST else "quick_check"
    said = str(conn.execute(f"PRAGMA {check}(1)").fetchone()[0])
    if said != "ok":
        raise sqlite3.DatabaseError(f"malformed: {' '.join(said.removeprefix('*** in database main ***').split())}")
    if met:
        _read_all(conn)
    return True


def note_whole(conn: sqlite3.Connection, now: float) -> None:
    """Write down that the file was looked through, once it is known to be a ledger of this release."""
    set_fact(conn, FOUND_WHOLE, str(now))


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite found the content of a file unsound, and not its place, its lock or its disk."""
    said = ("malformed", "corrupt", "Could not decode")
    return _code(error) == sqlite3.SQLITE_CORRUPT or any(word in str(error) for word in said)


def is_no_database(error: BaseException | None) -> bool:
    """Whether what lies there does not even begin as a file of SQLite."""
    return _code(error) == sqlite3.SQLITE_NOTADB


def is_foreign(conn: sqlite3.Connection) -> bool:
    """Whether the file says that it is another program's."""
    return _number(conn, "PRAGMA application_id") not in (0, APPLICATION_ID)


def is_ours(conn: sqlite3.Connection) -> bool:
    """Whether the file says that it is a ledger."""
    return _number(conn, "PRAGMA application_id") == APPLICATION_ID


def no_ledger(path: Path, error: sqlite3.Error) -> LedgerDamaged:
    """Say what stands at the place of a ledger and cannot be read as one."""
    hint = None
    if was_ledger(path):
        # One that was emptied begins as a new one does.
        hint = IS_SET_ASIDE if is_no_database(error) else REBUILD if path.stat().st_size == 0 else None
    if hint is None and not _bears_our_number(path):
        return LedgerDamaged(f"{path} is no ledger ({error})", hint="is the path right?")
    return LedgerDamaged(f"the ledger {path} is damaged ({error})", hint=hint or BY_HAND)


def was_ledger(path: Path) -> bool:
    """Whether the number of a start lies beside the file: what stands there now was a ledger."""
    try:
        return Epoch(path).read() is not None
    except LedgerError:
        return True


def set_aside(path: Path, found: str) -> LedgerDamaged:
    """Give the file and its log another name, and make the error that says so; the caller holds the lock.

    Raises LedgerError when it cannot be renamed.
    """
    aside = _free_name(path)
    try:
        # The file first: a log that is left without its file is thrown away by SQLite, and never taken for another's.
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            beside = path.with_name(path.name + ending)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + ending))
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} is damaged ({found}) and cannot be set aside ({error.strerror})",
            hint=BY_HAND,
        ) from error
    return LedgerDamaged(f"the ledger {path} was damaged ({found}) and is set aside as {aside}", hint=REBUILD)


def _bears_our_number(path: Path) -> bool:
    """Whether the header of the file says that it is a ledger, whatever else can be read of it."""
    try:
        return header(path, _AT_APPLICATION_ID + 4)[_AT_APPLICATION_ID:] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    return name


def _has_facts(conn: sqlite3.Connection) -> bool:
    return conn.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'facts'").fetchone() is not None


def _ended_in_order(conn: sqlite3.Connection, changed: str) -> bool:
    marked = "SELECT 1 FROM facts WHERE name = ? AND value = ?"
    return conn.execute(marked, (CLEAN_STOP, changed)).fetchone() is not None


def _was_found_whole(conn: sqlite3.Connection, now: float) -> bool:
    # A time to come is one of a clock that was set back since: nobody knows how long ago it was.
    within = "SELECT 1 FROM facts WHERE name = ? AND CAST(value AS REAL) BETWEEN ? AND ?"
    return conn.execute(within, (FOUND_WHOLE, now - _EVERY, now)).fetchone() is not None


def _read_all(conn: sqlite3.Connection) -> None:
    """Read every row of every table: SQLite's own checks pass over texts that are none."""
    for (table,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _ in conn.execute(f'SELECT * FROM "{table}"'):
            pass


def _number(conn: sqlite3.Connection, question: str) -> int:
    return int(conn.execute(question).fetchone()[0])


def _code(error: BaseException | None) -> int:
    """Give the primary result code of an error of SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
