"""The ledger's file: open it, lock it, migrate it, and write to it.

Writers submit small pieces of work; `group_commit` commits them. The SQL of each piece, and its meaning, is left to the
other modules of this package.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import sqlite3
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from assetsync.errors import LedgerBusy, LedgerDamaged, LedgerError, LedgerMissing, LedgerUnwritable
from assetsync.ledger.file import integrity
from assetsync.ledger.file.facts import expect_owner, fact, set_fact
from assetsync.ledger.file.group_commit import Commits, Pending
from assetsync.ledger.file.handle import Handle, Row
from assetsync.ledger.file.invalidation import Invalidation
from assetsync.ledger.file.ledger_files import (
    OF_THE_DISK,
    Epoch,
    Guard,
    denied,
    exists,
    expect_file,
    open_or_make,
    real,
)
from assetsync.ledger.file.readers import Readers

T = TypeVar("T")

_NO_LEDGER = ("not a database", "already exists", "no such table", "no such column")
_FLOCK = "hhqqi4x"
_LOCK_TRIES = 10
_LOCK_PAUSE = 0.02
_FIRST_PAGE, _PAGE = 100, 2000
_MOST_MOVED = 10_000


class Database:
    """An open ledger. Any thread may read and write: threads share one writing and a few reading connections."""

    def __init__(self, path: Path, *, read_only: bool, guard: Guard | None = None) -> None:
        """Open the writing connection, unless `read_only`; the process that holds the lock passes its `guard`."""
        self.path = path
        self._guard = guard
        self.held = contextlib.ExitStack()
        """What `close` releases after the last connection."""
        self._readers = Readers(lambda: _connect(path, read_only=True, alone=read_only))
        self.found_damage = False
        """Whether SQLite has reported damage of the file since it was opened."""
        self.invalidation = Invalidation()
        self.moved: deque[int] = deque(maxlen=_MOST_MOVED)
        """The ids of the rows that got another path last, for whoever keeps an index of paths."""
        self._writer: Handle | None = None if read_only else _connect(path, read_only=False)
        self._commits: Commits | None = None
        if self._writer is not None:
            try:
                if guard is not None:
                    self.invalidation.install(self._writer)
                    guard.hold(has_log=str(self._writer.execute("PRAGMA journal_mode").fetchone()[0]) == "wal")
                    self._readers.open_all()
            except BaseException as error:
                self._readers.close()
                self._writer.close()
                if isinstance(error, sqlite3.Error):
                    raise self.translate(error) from error
                raise
            check = guard.expect_in_place if guard is not None else lambda: None
            self._commits = Commits(self._writer, self.translate, last=self.invalidation.settle, check=check)

    @property
    def holds_lock(self) -> bool:
        """Whether this process holds the lock, so that it is the process that sends for the ledger."""
        return self._guard is not None

    def write(self, work: Callable[[Handle], T]) -> T:
        """Run `work` in a transaction and return once the transaction is on the disk (synchronous=FULL).

        Work of other threads may share the commit. If one piece fails, only that piece is undone; the others may then
        run a second time, so `work` must change nothing but the ledger. Raises whatever `work` raises, or LedgerError
        if the commit failed; in both cases nothing of `work` is kept.
        """
        return self.submit(work).result()

    def change(self, sql: str, *values: Any) -> int:
        """Execute one statement in a transaction; return the number of rows changed. Raises as `write` does."""
        return self.write(lambda conn: conn.execute(sql, values).rowcount)

    def change_each(self, sql: str, rows: Collection[Sequence[Any]]) -> int:
        """Execute a statement with each row's values, in one transaction; return the number of rows changed."""
        return self.write(lambda conn: conn.execute_each(sql, rows)) if rows else 0

    def update_where(self, table: str, updates: dict[str, Any], where: str, *values: Any) -> int:
        """Change rows of a small table, as `Handle.update_where`, in a transaction. Raises as `write` does."""
        return self.write(lambda conn: conn.update_where(table, updates, where, values))

    def submit(self, work: Callable[[Handle], T]) -> Pending[T]:
        """Queue `work` for the next commit, of whichever thread; the returned Pending holds the result."""
        assert self._commits is not None, "a ledger that was opened for reading is not written"
        return self._commits.submit(work)

    def in_one_commit(self) -> AbstractContextManager[object]:
        """Let everything that is submitted inside the block share one transaction; nothing may wait in the block."""
        assert self._commits is not None, "a ledger that was opened for reading is not written"
        return self._commits.in_one_commit()

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Return all rows of a bounded query."""
        return self.read(lambda conn: conn.execute(sql, values).fetchall())

    def rows_where(self, table: str, where: str | None = None, *values: Any, **options: Any) -> list[dict[str, Any]]:
        """Return the rows of a small table for which a condition holds; `options` are those of `Table.rows_where`."""
        return self.read(lambda conn: list(conn.table(table).rows_where(where, values, **options)))

    def read(self, query: Callable[[Handle], T]) -> T:
        """Return what `query` makes of a reading connection (`Readers.lend`)."""
        try:
            return self._readers.lend(query)
        except sqlite3.Error as error:
            raise self.translate(error) from error

    def column(self, sql: str, *values: Any) -> list[Any]:
        """Return the first column of all rows of a bounded query."""
        return [row[0] for row in self.rows(sql, *values)]

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of a query's first row; None without a row."""
        return next(iter(self.column(sql, *values)), None)

    def fact(self, name: str) -> str | None:
        """Return one fact of the whole ledger (`ledger.file.facts`); None if it was never written."""
        return self.read(lambda conn: fact(conn, name))

    def pages(self, sql: str, key: str, start: tuple[Any, ...], *values: Any) -> Iterator[Row]:
        """Yield any number of rows by keyset: `sql` ends in `… > (?, …) ORDER BY … LIMIT ?` over the columns of `key`.

        No cursor stays open between pages, so that SQLite can checkpoint and reuse the write-ahead log while a long
        list is read. The first page is small, because some callers read only a few rows.
        """
        columns, size = key.split(", "), _FIRST_PAGE
        while True:
            page = self.rows(sql, *values, *start, size)
            yield from page
            if len(page) < size:
                return
            start, size = tuple(page[-1][column] for column in columns), min(4 * size, _PAGE)

    def translate(self, error: sqlite3.Error) -> LedgerError:
        """Return the LedgerError for an error of SQLite, with SQLite's text in it."""
        self.found_damage = self.found_damage or integrity.is_damage(error)
        return _translated(self.path, error, held=self.holds_lock)

    def close(self) -> None:
        """Close all connections and release the lock."""
        self._readers.close()
        if self._writer is not None:
            if self._guard is not None:
                self._guard.release()
            self._writer.close()
            self._writer = None
        self._guard = None
        self.held.close()


def open_database(path: Path, *, create: bool) -> Database:
    """Take the lock and open the ledger for sending, migrated to this release.

    Raise LedgerBusy (another process sends for the ledger), LedgerMissing (unless `create`), LedgerNewer, and
    LedgerDamaged. A damaged ledger is set aside before LedgerDamaged is raised; a file that is no ledger stays where it
    is.
    """
    path = real(path)
    if not create:
        _expect_ledger(path)
    # Each step below closes its connection before it raises.
    with contextlib.ExitStack() as held:
        held.callback(os.close, _take_lock(path))
        expect_file(path)
        try:
            guard = held.enter_context(contextlib.closing(Guard(path)))
        except OSError as error:
            raise _unopened(path, error) from error
        try:
            _migrate(path)
        except LedgerDamaged as error:
            found = error.__cause__
            # A file without SQLite's header was a ledger only if an epoch file lies beside it; otherwise leave it
            # alone.
            if integrity.is_damage(found) or (integrity.is_no_database(found) and integrity.was_ledger(path)):
                raise integrity.set_aside(path, str(found)) from error
            raise
        store = Database(path, read_only=False, guard=guard)
        store.held = held.pop_all()
        return store


def open_beside(path: Path, *, site: str | None = None, writable: bool = False) -> Database:
    """Open a ledger that another process may be using, to read it or (writable) to leave requests; creates nothing.

    Raise LedgerMissing, LedgerNewer, LedgerDamaged, and LedgerOfAnother if `site` is named and another site owns it.
    """
    path = real(path)
    _expect_ledger(path)
    store = Database(path, read_only=not writable)

    def check(conn: Handle) -> None:
        integrity.expect_current(path, conn, is_held=holder_of(path).sends)
        if site is not None:
            expect_owner(conn, path, site)

    try:
        store.read(check)
    except BaseException:
        store.close()
        raise
    return store


def is_held(path: Path) -> bool:
    """Return whether a process holds the ledger's lock; create nothing. Raise LedgerError if it cannot be read."""
    fd = _lock_to_read(path)
    if fd is None:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise _unlockable(path, error) from error
    finally:
        os.close(fd)
    return False


class Holder(NamedTuple):
    """Whether a process sends for the ledger; `unseen` is the reason why `sends` is a guess, None if it is known."""

    sends: bool
    unseen: str | None = None


def holder_of(ledger: Path) -> Holder:
    """Return whether a process sends for the ledger at this real path; raise nothing."""
    try:
        return Holder(is_held(ledger))
    except LedgerError as error:
        # A process that writes to the ledger keeps a `-wal` file beside it, and removes it at a clean exit.
        return Holder(os.path.lexists(f"{ledger}-wal"), str(error))


def hold_by_hand(path: Path, boundary: str) -> int:
    """Lock the byte that shows other processes that this process sends the attempt; return its descriptor.

    The lock is one byte of the ledger's lock file; its offset is derived from the attempt's boundary. The lock belongs
    to the open file, not to the process, and ends with the process, however the process ends. Raise LedgerError.
    """
    fd = _lock_to_write(real(path))
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _byte_of(boundary))
    except OSError as error:
        os.close(fd)
        raise _unlockable(path, error) from error
    return fd


def is_sent_by_hand(path: Path, boundary: str) -> bool:
    """Return whether a process that sends the attempt by hand still runs.

    Raise LedgerError if the lock is unreadable.
    """
    fd = _lock_to_read(path)
    if fd is None:
        return False
    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _byte_of(boundary))
    except OSError as error:
        raise _unlockable(path, error) from error
    finally:
        os.close(fd)
    kind: int = struct.unpack(_FLOCK, found)[0]
    return kind != fcntl.F_UNLCK


def _byte_of(boundary: str) -> bytes:
    """Return the `struct flock` of fcntl(2) for the byte that represents an attempt."""
    place = int.from_bytes(hashlib.sha256(boundary.encode()).digest()[:7], "big")
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)


ANY_OF = "IN (SELECT value FROM json_each(?))"
"""SQL condition; takes the values as a JSON list, so that the statement is the same for any number of them."""

AFTER_ALL = b"\xff" * 5000
"""Sorts after every path: the kernel limits a path to 4,096 bytes."""


def below(folder: bytes) -> tuple[bytes, bytes]:
    """Return the range of the paths below a folder (b"": of all): from the first value to before the second."""
    # "0" follows "/" in byte order.
    return (folder + b"/", folder + b"0") if folder else (b"", AFTER_ALL)


def _expect_ledger(path: Path) -> None:
    """Raise LedgerMissing, with the commands that create a ledger, if there is none."""
    if not exists(path):
        raise LedgerMissing(
            f"there is no ledger at {path}",
            hint="`assetsync reconcile` or `assetsync run` creates it; check that --config is right",
        )


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock_to_read(path: Path) -> int | None:
    """Open the lock file; return None if there is none. Raise LedgerError."""
    try:
        return os.open(_lock_path(real(path)), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"the lock of the ledger {path} cannot be read ({error.strerror})", hint="run as the user that owns it"
        ) from error


def _lock_to_write(path: Path) -> int:
    """Open the lock file, and create it if there is none. Raise LedgerError."""
    try:
        return open_or_make(_lock_path(path), path)
    except OSError as error:
        raise _without_lock(path, error) from error


def _without_lock(path: Path, error: OSError) -> LedgerError:
    lock, why = _lock_path(path), error.strerror
    if error.errno == errno.EROFS:
        hint = "its file system is read-only: see `dmesg` for the cause, then mount it for writing"
        return LedgerError(f"the ledger {path} cannot be used ({why})", hint=hint)
    if (foreign := denied(path, error)) is not None:
        return foreign
    if os.path.lexists(lock):
        hint = f"it must be a file of the user that assetsync runs as: check {lock}"
        return LedgerError(f"the lock of the ledger {path} cannot be taken ({why})", hint=hint)
    if error.errno in OF_THE_DISK:
        return LedgerUnwritable(f"the ledger {path} cannot be used ({why})", hint="check its disk")
    hint = "create the folder, or run as the user that owns it"
    return LedgerError(f"the folder of the ledger {path} cannot be written ({why})", hint=hint)


def _unlockable(path: Path, error: OSError) -> LedgerError:
    hint = "its file system must support locks: put the ledger on a local disk"
    return LedgerError(f"the lock of the ledger {path} cannot be used ({error.strerror})", hint=hint)


def _take_lock(path: Path) -> int:
    fd = _lock_to_write(path)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError as error:
            os.close(fd)
            raise _unlockable(path, error) from error
        else:
            return fd
        # `is_held` takes the lock for a moment; that must not prevent a start.
        time.sleep(_LOCK_PAUSE)
    os.close(fd)
    raise LedgerBusy(
        f"another assetsync process holds the ledger {path}", hint="stop that process first, or let it do the work"
    )


def _connect(path: Path, *, read_only: bool, alone: bool = False) -> Handle:
    """Open a connection. Inspect the file by path only: closing a descriptor of it would drop SQLite's locks."""
    expect_file(path)
    mode = os.R_OK if read_only else os.R_OK | os.W_OK
    if path.exists() and not os.access(path, mode, effective_ids=True):
        # SQLite would give no reason, or open the file read-only and fail at the first write.
        raise _unopened(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    uri = f"file:{quote(os.fsencode(path))}?mode={'ro' if read_only else 'rw'}"
    if alone and not path.with_name(path.name + "-wal").exists():
        # Without a writer there is no log to read, and reading must not leave a log behind.
        uri += "&immutable=1"
    conn: Handle | None = None
    try:
        conn = Handle(uri)
        if not read_only:
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
            # 16 MB: pages at the ends of the indexes are rewritten often, and a checkpoint copies each of them once.
            conn.execute("PRAGMA wal_autocheckpoint=4000")
        else:
            conn.execute("PRAGMA query_only=ON")
    except sqlite3.Error as error:
        if conn is not None:
            # Close now, not when the error is garbage-collected: the next attempt must be the only connection.
            conn.close()
        if "unable to open" in str(error) or "readonly" in str(error):
            raise _unopened(path, PermissionError(errno.EACCES, str(error))) from error
        raise _translated(path, error) from error
    return conn


def _unopened(path: Path, error: OSError) -> LedgerError:
    if (foreign := denied(path, error)) is not None:
        return foreign
    message = f"the ledger {path} cannot be opened ({error.strerror})"
    if error.errno in OF_THE_DISK:
        return LedgerUnwritable(message, hint="check its disk")
    hint = "run as the user that owns it, or give it and its folder to the user that assetsync runs as"
    return LedgerError(message, hint=hint)


def _translated(path: Path, error: sqlite3.Error, *, held: bool = False) -> LedgerError:
    text = str(error)
    if "no such table" in text and not held and is_held(path):
        return LedgerMissing(f"the ledger {path} is being created", hint="try again in a moment")
    if any(word in text for word in _NO_LEDGER):
        return integrity.no_ledger(path, error)
    if integrity.is_damage(error):
        # A reader cannot mark the ledger as damaged, so the next start would not look for this damage: only the holder
        # can leave the mark.
        hint = integrity.IS_SET_ASIDE if held else integrity.BY_HAND
        return LedgerDamaged(f"the ledger {path} is damaged ({text})", hint=hint)
    code = integrity.code_of(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        hint = "another program holds it, such as a backup or an open sqlite3"
        return LedgerUnwritable(f"the ledger {path} cannot be used ({text})", hint=hint)
    kind = LedgerUnwritable if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else LedgerError
    return kind(f"the ledger {path} cannot be used ({text})", hint="check its disk")


def _migrate(path: Path) -> None:
    try:
        with contextlib.closing(_connect(path, read_only=False)) as conn:
            now = time.time()
            looked = integrity.expect_whole(conn, Epoch(path).changed(), now)
            integrity.migrate(path, conn)
            if looked:
                set_fact(conn, integrity.FOUND_WHOLE, str(now))
    except sqlite3.Error as error:
        raise _translated(path, error, held=True) from error
