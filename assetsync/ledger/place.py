"""A ledger's location: what kind of file is allowed there, its real path, its free space and its owner.

Connections are left to `database`. This module is the only other place that opens the database file: closing any
descriptor of a file drops every POSIX lock that the process holds on it, including SQLite's
(https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
"""

import contextlib
import fcntl
import os
import stat
import struct
from pathlib import Path

from assetsync.errors import LedgerDetached, LedgerError
from assetsync.text import amount

_LEAST_ROOM = 1024 * 1024
"""Bytes; with less free space the next commits may fail."""

_SHARED_RANGE = (0x40000000 + 2, 510)
"""First byte and length of the range that a connection in WAL mode keeps locked for reading (SQLite's file format)."""

_headers: dict[tuple[int, int], int] = {}
"""The descriptors opened by `header`, by device and inode."""


def real(path: Path) -> Path:
    """Return the real path of a ledger that is named through links: under two names it is one ledger with one lock."""
    return Path(os.path.realpath(path))


def expect_file(path: Path) -> None:
    """Raise LedgerError for anything but a regular file, because opening it may block, and for a file with two names.

    Two names would mean two locks. A path without a file is accepted.
    """
    try:
        status = path.lstat()
    except OSError:
        # The file is created later, or opening it reports the error.
        return
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"the ledger {path} is no file", hint="name a file, or one that is not there yet")
    if status.st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has {status.st_nlink} names (hard links)",
            hint="SQLite keeps its log by name, so that two names lose data: remove the others",
        )


def make(path: Path, ledger: Path) -> int | None:
    """Create and open a file of a ledger, for its owner only; return None if the path exists. Raises OSError."""
    owner = ledger.stat() if ledger.exists() else ledger.parent.stat()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    give(fd, owner)
    return fd


def give(fd: int, owner: os.stat_result) -> None:
    """Change the owner of a file that root created to the ledger's owner, or to its folder's if there is no ledger yet.

    A command that a person ran as root must not lock out the daemon's user.
    """
    if os.geteuid() == 0:
        # Root in a container may not be permitted to, or may have no id for that owner: the file then stays root's.
        with contextlib.suppress(OSError):
            os.fchown(fd, owner.st_uid, owner.st_gid)


def without_room(path: Path) -> str | None:
    """Return a sentence if the ledger's disk is full; None if there is space, or if that is unknown."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if not disk.f_blocks or disk.f_flag & os.ST_RDONLY:
        # The file system counts no blocks, or is mounted read-only.
        return None
    # Space reserved for root is not available to others.
    free = disk.f_bavail * disk.f_frsize
    return f"the disk of {path.parent} has {amount(free)} left" if free < _LEAST_ROOM else None


def header(path: Path, length: int) -> bytes:
    """Return the first bytes of a database that SQLite cannot read. Raises OSError.

    The descriptor stays open until the process ends, one for each file: closing it would drop SQLite's locks.
    """
    status = path.stat(follow_symlinks=False)
    fd = _headers.get((status.st_dev, status.st_ino))
    if fd is None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        _headers[status.st_dev, status.st_ino] = fd
    return os.pread(fd, length, 0)


class Guard:
    """The holder's own descriptor of the database, open from before the first connection until after the last one.

    It holds its own read lock (F_OFD_SETLK), which the process cannot lose by closing another descriptor: no other
    program can take the database for unused, checkpoint it and delete its write-ahead log.
    """

    def __init__(self, path: Path) -> None:
        """Open the database; create it for its owner only if it is absent. Raises OSError."""
        # Create it with its final owner and mode: SQLite copies those of the main file to its side files.
        fd = make(path, path)
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC) if fd is None else fd
        try:
            status = os.fstat(self._fd)
            if status.st_size == 0:
                # Somebody who wanted to read the file before it existed may have left an empty file that everyone can
                # read.
                os.fchmod(self._fd, 0o600)
        except OSError:
            self.close()
            raise
        self._path = path
        self._files: list[tuple[str, tuple[int, int]]] = [(str(path), (status.st_dev, status.st_ino))]
        self._detached: LedgerDetached | None = None

    def hold(self, *, has_log: bool) -> None:
        """Take the lock and remember which files the writing connection has open. Raises LedgerDetached.

        `has_log`: the connection is in WAL mode, so it has opened the log.
        """
        with contextlib.suppress(OSError):
            # On a file system without such locks, only SQLite's own locks apply.
            self._lock(fcntl.F_RDLCK)
        if has_log:
            log = f"{self._path}-wal"
            self._files.append((log, _identity(log) or (0, 0)))
        self.expect_in_place()

    def expect_in_place(self) -> None:
        """Raise LedgerDetached if the database or its log is no longer the file at its path: commits would be lost."""
        if self._detached is None:
            for file, identity in self._files:
                if _identity(file) != identity:
                    self._detached = LedgerDetached(
                        f"{file} was deleted or replaced while this process had it open",
                        hint="find the program that did it; the next start lists every folder before it sends",
                    )
        if self._detached is not None:
            raise self._detached

    def release(self) -> None:
        """Release the lock before the writing connection closes, which checkpoints the log and deletes it.

        The lock is kept if the files were replaced: the connection would then overwrite or delete files that are not
        its own.
        """
        with contextlib.suppress(LedgerDetached, OSError):
            self.expect_in_place()
            self._lock(fcntl.F_UNLCK)

    def close(self) -> None:
        """Close the descriptor; no connection of this process to the database may be open any more."""
        os.close(self._fd)

    def _lock(self, kind: int) -> None:
        # struct flock: type, whence, start, length, process (0 for a lock of this kind).
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi0q", kind, os.SEEK_SET, *_SHARED_RANGE, 0))


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
