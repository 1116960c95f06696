"""Check whether the ledger's file is undamaged and of this release; migrate an older ledger.

The file is checked once a day, and after an unclean stop. A damaged file and its log are renamed (set aside), so that
nothing is sent based on them. The next `reconcile` or `run` then creates a new ledger, which lists every folder before
it sends. Opening the file is left to `database`, the migrations to `schema`.
"""

import sqlite3
import time
from itertools import chain, count
from pathlib import Path

import sqlite_utils

from assetsync.errors import LedgerDamaged, LedgerError, LedgerNewer
from assetsync.ledger.file import schema
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.file.ledger_files import APPLICATION_ID, Epoch, header

CLEAN_STOP = "clean_stop"
"""The fact that exists only while nobody holds the ledger, and only if its last holder stopped cleanly."""

DAMAGE_SEEN = "damage_seen"
"""The fact by which a holder that met damage makes the next start read every row, not only check the structure."""

FOUND_WHOLE = "found_whole"
"""The fact that holds the time of the last full check, in seconds since 1970."""

REBUILD = "`assetsync reconcile --adopt` makes a new one from the tree and the service, and sends nothing twice"

IS_SET_ASIDE = f"the next `assetsync reconcile` sets it aside, then {REBUILD}"
"""Hint for a damaged ledger that a start sets aside."""

BY_HAND = f"stop what sends for it and move it elsewhere, with its -wal and -shm; then {REBUILD}"
"""Hint for a damaged ledger that no start sets aside."""

MIGRATIONS = frozenset(each.name for each in schema.migrations.pending(sqlite_utils.Database(memory=True)))
"""The names of all migrations: those that an empty database needs."""

_AT_APPLICATION_ID = 68
"""Offset of the application id in the header of an SQLite file."""

THOROUGH_AT_MOST = 256 * 1024 * 1024
"""File size in bytes up to which the check also compares indexes with tables: 1.7 s for 160 MB, where the rest takes
0.3 s."""

_EVERY = 24 * 3600.0


def expect_whole(conn: Handle, changed: str, now: float) -> bool:
    """Check the whole file, unless its last holder stopped cleanly and the last check is less than a day old.

    A disk can damage a file that nobody writes to, and a row that is not found is a file that is sent again. Returns
    whether the file was checked, so that the caller sets FOUND_WHOLE; an empty file counts as checked.

    `changed` is the time at which the epoch file was last changed; the mark of a clean stop is valid only for that
    time. The mark is outdated in a copy that was put back, which SQLite would combine with a newer log left beside it.

    Raises sqlite3.DatabaseError for damage, which `is_damage` recognizes, and any sqlite3.Error for other trouble.
    """
    tables = conn.table_names()
    if "facts" not in tables:
        return True
    facts = conn.table("facts")
    # A check's time in the future was set by a clock that has been set back since: its age is unknown.
    recent = "name = ? AND CAST(value AS REAL) BETWEEN ? AND ?"
    is_recent = facts.count_where(recent, (FOUND_WHOLE, now - _EVERY, now)) > 0
    if is_recent and facts.count_where("name = ? AND value = ?", (CLEAN_STOP, changed)):
        return False
    size = _number(conn, "PRAGMA page_count") * _number(conn, "PRAGMA page_size")
    met = facts.count_where("name = ?", (DAMAGE_SEEN,)) > 0
    check = "integrity_check" if met or size <= THOROUGH_AT_MOST else "quick_check"
    verdict = str(conn.execute(f"PRAGMA {check}(1)").fetchone()[0])
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"malformed: {' '.join(verdict.removeprefix('*** in database main ***').split())}")
    for table in tables if met else ():
        # SQLite's own checks do not detect invalid text, but reading a row does.
        for _ in conn.table(table).rows:
            pass
    return True


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite found the content of the file damaged, as opposed to its path, its lock or its disk."""
    texts = ("malformed", "corrupt", "Could not decode")
    return code_of(error) == sqlite3.SQLITE_CORRUPT or any(word in str(error) for word in texts)


def is_no_database(error: BaseException | None) -> bool:
    """Return whether the file has no SQLite header."""
    return code_of(error) == sqlite3.SQLITE_NOTADB


def no_ledger(path: Path, error: sqlite3.Error) -> LedgerDamaged:
    """Return the error for a file at a ledger's path that cannot be read as a ledger."""
    hint = None
    if was_ledger(path):
        # SQLite treats an empty file as a new database.
        hint = IS_SET_ASIDE if is_no_database(error) else REBUILD if path.stat().st_size == 0 else None
    try:
        is_ours = header(path, _AT_APPLICATION_ID + 4)[_AT_APPLICATION_ID:] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        is_ours = False
    if hint is None and not is_ours:
        return LedgerDamaged(f"{path} is no ledger ({error})", hint="is the path right?")
    return LedgerDamaged(f"the ledger {path} is damaged ({error})", hint=hint or BY_HAND)


def was_ledger(path: Path) -> bool:
    """Return whether an epoch file lies beside the file, so that the file was once a ledger."""
    try:
        return Epoch(path).read() is not None
    except LedgerError:
        return True


def set_aside(path: Path, found: str) -> LedgerDamaged:
    """Rename the file and its log, and return the error that reports it; the caller holds the lock.

    Raise LedgerError if the file cannot be renamed.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    ends = chain([""], (f"-{number}" for number in count(2)))
    names = (path.with_name(f"{path.name}.damaged-{stamp}{end}") for end in ends)
    aside = next(name for name in names if not name.exists())
    try:
        # The file first: SQLite discards a log that is left without its file, and never applies it to another file.
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            side_file = path.with_name(path.name + ending)
            if side_file.exists():
                side_file.rename(aside.with_name(aside.name + ending))
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} is damaged ({found}) and cannot be set aside ({error.strerror})",
            hint=BY_HAND,
        ) from error
    return LedgerDamaged(f"the ledger {path} was damaged ({found}) and is set aside as {aside}", hint=REBUILD)


def _number(conn: Handle, question: str) -> int:
    return int(conn.execute(question).fetchone()[0])


def code_of(error: BaseException | None) -> int:
    """Return the primary result code of an SQLite error, its low byte; 0 for any other."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def expect_current(path: Path, conn: Handle, *, is_held: bool) -> None:
    """Check that this release can read a ledger; raise LedgerNewer, LedgerError for an older one, or sqlite3.Error.

    `is_held`: a process sends for the ledger. It is of the older release, too, and must end before a start of this
    release can migrate the ledger.
    """
    if _applied(path, conn) != MIGRATIONS:
        by = ", whose daemon still runs" if is_held else ""
        verb = "restart" if is_held else "start"
        raise LedgerError(
            f"the ledger {path} was written by an older release{by}",
            hint=f"the next start brings it up to date: `systemctl {verb} assetsync@SITE`",
        )


def migrate(path: Path, conn: Handle) -> None:
    """Create or migrate the tables; raise LedgerNewer, LedgerDamaged for a file that is no ledger, or sqlite3.Error."""
    tables = conn.table_names()
    unlisted = bool(tables) and "_sqlite_migrations" not in tables
    application_id = _number(conn, "PRAGMA application_id")
    if unlisted and application_id == APPLICATION_ID:
        raise LedgerDamaged(f"the ledger {path} is damaged (its list of migrations is gone)", hint=BY_HAND)
    if unlisted or application_id not in (0, APPLICATION_ID):
        raise LedgerDamaged(f"{path} is no ledger but another SQLite file", hint="is the path right?")
    if tables and _applied(path, conn) == MIGRATIONS:
        return
    schema.migrations.apply(sqlite_utils.Database(conn.conn, recursive_triggers=False, execute_plugins=False))


def _applied(path: Path, conn: Handle) -> set[str]:
    """Return the migrations that were applied to a ledger; raise LedgerNewer for one that this release lacks."""
    applied = {each.name for each in schema.migrations.applied(conn)}
    if unknown := applied - MIGRATIONS:
        raise LedgerNewer(
            f"the ledger {path} was written by a newer release ({', '.join(sorted(unknown))})",
            hint="install that release",
        )
    return applied
