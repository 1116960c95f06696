"""The ledger's file: opening, locking, migrating, and the one way to write to it.

Writers hand in small pieces of work, which `commits` puts on the disk. What is written, and what it means, is left to
the modules beside this one.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from assetsync.errors import LedgerBusy, LedgerDamaged, LedgerError, LedgerMissing, LedgerUnwritable
from assetsync.ledger import damage, release
from assetsync.ledger.epoch import OF_THE_DISK, Epoch
from assetsync.ledger.folder_cache import Stirred
from assetsync.ledger.group_commit import Commits, Pending
from assetsync.ledger.place import Guard, expect_file, make, real

T = TypeVar("T")

_BUSY_SECONDS = 10.0
_DISK_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_HELD_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_LEDGER = ("not a database", "already exists", "no such table", "no such column")
_OWNER = "run as the user that owns it, or give it and its folder to the user that assetsync runs as"
_FLOCK = "hhqqi4x"
_LOCK_TRIES = 10
_LOCK_PAUSE = 0.02


class Database:
    """An open ledger. `write` is for any thread; `reader` gives each thread a connection of its own."""

    def __init__(self, path: Path, *, read_only: bool, lock_fd: int | None = None, guard: Guard | None = None) -> None:
        """Open the writing connection, unless `read_only`; the holder's `lock_fd` and `guard` are closed with it."""
        self.path = path
        self.read_only = read_only
        self._lock_fd = lock_fd
        self._guard = guard
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self.found_damage = False
        """Whether SQLite has found the file damaged since it was opened."""
        self.stirred = Stirred()
        self._writer: sqlite3.Connection | None = None if read_only else _connect(path, read_only=False)
        self._commits: Commits | None = None
        if self._writer is not None:
            try:
                if lock_fd is not None:
                    self.stirred.install(self._writer)
                if guard is not None:
                    guard.hold(has_log=_journal_mode(self._writer) == "wal")
            except sqlite3.Error as error:
                self._writer.close()
                raise self.translate(error) from error
            except BaseException:
                self._writer.close()
                raise
            check = guard.expect_in_place if guard is not None else _nothing
            self._commits = Commits(self._writer, self.translate, last=self.stirred.settle, check=check)

    @property
    def commits(self) -> int:
        """How many transactions were written since it was opened."""
        return 0 if self._commits is None else self._commits.count

    @property
    def holds_lock(self) -> bool:
        """Whether this process is the one that sends for the ledger."""
        return self._lock_fd is not None

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction and return after it is on the disk (synchronous=FULL).

        Work of other threads may share the commit, and when one piece fails, only that one is undone: the others may be
        run a second time for it, so `work` changes nothing but the ledger. Raises what `work` raises, or LedgerError
        when the commit failed, and then nothing is kept.
        """
        return self.submit(work).result()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Pending[T]:
        """Let `work` go along with the next commit, whoever makes it; the one that is handed back tells its result."""
        assert self._commits is not None, "a ledger that was opened for reading is not written"
        return self._commits.submit(work)

    def reader(self) -> sqlite3.Connection:
        """Give the calling thread's own read connection; no statement may be left unfinished on it."""
        conn: sqlite3.Connection | None = getattr(self._local, "conn", None)
        if conn is None:
            conn = self._local.conn = _connect(self.path, read_only=True, alone=self._writer is None)
            with self._readers_lock:
                self._readers.append(conn)
        return conn

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Read all rows of a bounded query."""
        try:
            return self.reader().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self.translate(error) from error

    def pages(
        self, sql: str, key: str, start: tuple[Any, ...], *values: Any, size: int = 1000
    ) -> Iterator[sqlite3.Row]:
        """Read any number of rows by keyset: `sql` ends in `… > (?, …) ORDER BY … LIMIT ?` over the columns of `key`.

        No cursor stays open between pages, so that the write-ahead log can be taken back while a long list is read.
        """
        columns = key.split(",")
        while True:
            page = self.rows(sql, *values, *start, size)
            yield from page
            if len(page) < size:
                return
            start = tuple(page[-1][column.strip()] for column in columns)

    def translate(self, error: sqlite3.Error) -> LedgerError:
        """Turn an error of SQLite into one of ours, keeping its words."""
        self.found_damage = self.found_damage or damage.is_damage(error)
        return _translated(self.path, error, held=self.holds_lock)

    def close(self) -> None:
        """Close all connections and give the lock back."""
        with self._readers_lock:
            readers, self._readers = self._readers, []
        for conn in readers:
            conn.close()
        if self._writer is not None:
            if self._guard is not None:
                self._guard.release()
            self._writer.close()
            self._writer = None
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def open_database(path: Path, *, create: bool) -> Database:
    """Take the lock and open the ledger for sending, migrated to this release.

    Raises LedgerBusy (another process sends for it), LedgerMissing (unless `create`), LedgerNewer, and LedgerDamaged:
    for a ledger that was damaged after it was set aside, for what is no ledger while it lies where it was.
    """
    path = real(path)
    if not create and not path.exists():
        raise missing(path)
    lock_fd = _take_lock(path)
    guard: Guard | None = None
    try:
        guard = _open_guard(path)
        try:
            _migrate(path)
        except LedgerDamaged as error:
            found = error.__cause__
            # What does not begin as a database was a ledger if its number lies beside it: else it is left alone.
            if damage.is_damage(found) or (damage.is_no_database(found) and damage.was_ledger(path)):
                raise damage.set_aside(path, str(found)) from error
            raise
        return Database(path, read_only=False, lock_fd=lock_fd, guard=guard)
    except BaseException:
        # Every connection that was opened on the way is closed already.
        if guard is not None:
            guard.close()
        os.close(lock_fd)
        raise


def open_beside(path: Path, *, writable: bool = False) -> Database:
    """Open a ledger that another process may be using, for reading or for leaving requests; creates nothing.

    Raises LedgerMissing, LedgerNewer and LedgerDamaged.
    """
    path = real(path)
    if not path.exists():
        raise missing(path)
    store = Database(path, read_only=not writable)
    try:
        _check_release(store)
    except BaseException:
        store.close()
        raise
    return store


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of the ledger; creates nothing. Raises LedgerError when it cannot be told."""
    try:
        fd = os.open(_lock_path(real(path)), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerError(
            f"the lock of the ledger {path} cannot be read ({error.strerror})", hint="run as the user that owns it"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def hold_by_hand(path: Path, boundary: str) -> int:
    """Take the lock by which others see that this process sends the attempt; gives the descriptor that holds it.

    The lock is a byte of the ledger's lock file, of a place that follows from the attempt's boundary. It belongs to the
    open file and not to the process, and ends with the process however that ends. Raises LedgerError.
    """
    path = real(path)
    try:
        fd = make(_lock_path(path), path)
        if fd is None:
            fd = os.open(_lock_path(path), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _byte_of(boundary))
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise LedgerError(
            f"the lock of the ledger {path} cannot be used ({error.strerror})", hint="run as the user that owns it"
        ) from error
    return fd


def is_sent_by_hand(path: Path, boundary: str) -> bool:
    """Whether a process that sends the attempt by hand still runs; raises LedgerError when it cannot be told."""
    try:
        fd = os.open(_lock_path(real(path)), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerError(
            f"the lock of the ledger {path} cannot be read ({error.strerror})", hint="run as the user that owns it"
        ) from error
    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _byte_of(boundary))
    finally:
        os.close(fd)
    kind: int = struct.unpack(_FLOCK, found)[0]
    return kind != fcntl.F_UNLCK


def _byte_of(boundary: str) -> bytes:
    """Give the `struct flock` of fcntl(2) for the byte that stands for an attempt."""
    place = int.from_bytes(hashlib.sha256(boundary.encode()).digest()[:7], "big")
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)


def missing(path: Path) -> LedgerMissing:
    """Say that there is no ledger, and what makes one."""
    return LedgerMissing(
        f"there is no ledger at {path}",
        hint="`assetsync reconcile` or `assetsync run` makes it; is this the right --config?",
    )


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _take_lock(path: Path) -> int:
    try:
        fd = make(_lock_path(path), path)
        if fd is None:
            fd = os.open(_lock_path(path), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise LedgerError(
                f"the ledger {path} cannot be used ({error.strerror})",
                hint="its file system takes no writes: see `dmesg` for why, and mount it for writing",
            ) from error
        if _lock_path(path).exists() or _lock_path(path).is_symlink():
            raise LedgerError(
                f"the lock of the ledger {path} cannot be taken ({error.strerror})",
                hint=f"it should be a file of the user that assetsync runs as: see what stands at {_lock_path(path)}",
            ) from error
        if error.errno in OF_THE_DISK:
            raise LedgerUnwritable(
                f"the ledger {path} cannot be used ({error.strerror})", hint="check the disk it lies on"
            ) from error
        raise LedgerError(
            f"the folder of the ledger {path} cannot be written ({error.strerror})",
            hint="make the folder, or run as the user that owns it",
        ) from error
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        # `is_held` takes the lock for a moment, which is no reason not to start.
        time.sleep(_LOCK_PAUSE)
    os.close(fd)
    raise LedgerBusy(
        f"another assetsync process sends for the ledger {path}", hint="stop it first, or let it do the work"
    )


def _open_guard(path: Path) -> Guard:
    expect_file(path)
    try:
        return Guard(path)
    except OSError as error:
        raise _unopened(path, error) from error


def _connect(path: Path, *, read_only: bool, alone: bool = False) -> sqlite3.Connection:
    """Open a connection. A file is only looked at by its path: closing a descriptor of it would drop SQLite's locks."""
    expect_file(path)
    if not read_only and path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        # SQLite would open it for reading, and fail at the first write.
        raise _unopened(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    uri = f"file:{quote(os.fsencode(path))}?mode={'ro' if read_only else 'rw'}"
    if alone and not path.with_name(path.name + "-wal").exists():
        # Without a writer there is no log to honour, and reading must not leave one behind.
        uri += "&immutable=1"
    conn: sqlite3.Connection | None = None
    try:
        conn = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        conn.row_factory = sqlite3.Row
        if not read_only:
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
            # 16 MB: the pages at the ends of the indexes are written again and again, and moved once.
            conn.execute("PRAGMA wal_autocheckpoint=4000")
        else:
            conn.execute("PRAGMA query_only=ON")
    except sqlite3.Error as error:
        if conn is not None:
            # At once, and not when the error is forgotten: the next try must be the first connection there is.
            conn.close()
        if "unable to open" in str(error) or "readonly" in str(error):
            raise LedgerError(f"the ledger {path} cannot be opened ({error})", hint=_OWNER) from error
        raise _translated(path, error) from error
    return conn


def _unopened(path: Path, error: OSError) -> LedgerError:
    of_the_disk = error.errno in OF_THE_DISK
    kind = LedgerUnwritable if of_the_disk else LedgerError
    hint = "check the disk it lies on" if of_the_disk else _OWNER
    return kind(f"the ledger {path} cannot be opened ({error.strerror})", hint=hint)


def _journal_mode(conn: sqlite3.Connection) -> str:
    return str(conn.execute("PRAGMA journal_mode").fetchone()[0])


def _nothing() -> None:
    """Check nothing."""


def _translated(path: Path, error: sqlite3.Error, *, held: bool = False) -> LedgerError:
    text = str(error)
    if "no such table" in text and not held and is_held(path):
        return LedgerMissing(f"the ledger {path} is being made", hint="try again in a moment")
    if any(word in text for word in _NO_LEDGER):
        return damage.no_ledger(path, error)
    if damage.is_damage(error):
        # Of what a reader met the next start learns nothing: only who holds it can leave a mark.
        hint = damage.IS_SET_ASIDE if held else damage.BY_HAND
        return LedgerDamaged(f"the ledger {path} is damaged ({text})", hint=hint)
    # The lower byte is the kind of error (SQLite's result codes).
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _HELD_CODES:
        hint = "another program holds it, such as a backup or an open sqlite3"
        return LedgerUnwritable(f"the ledger {path} cannot be used ({text})", hint=hint)
    kind = LedgerUnwritable if code in _DISK_CODES else LedgerError
    return kind(f"the ledger {path} cannot be used ({text})", hint="check the disk it lies on")


def _migrate(path: Path) -> None:
    try:
        with contextlib.closing(_connect(path, read_only=False)) as conn:
            now = time.time()
            looked = damage.expect_whole(conn, Epoch(path).changed(), now)
            release.migrate(path, conn)
            if looked:
                damage.note_whole(conn, now)
    except sqlite3.Error as error:
        raise _translated(path, error, held=True) from error


def _check_release(store: Database) -> None:
    try:
        release.expect_current(store.path, store.reader())
    except sqlite3.Error as error:
        raise _translated(store.path, error) from error
