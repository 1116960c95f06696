"""Where a ledger lies: what may stand there, what it is called, and whether there is room. Opening it is `store`'s."""

import contextlib
import os
import stat
from pathlib import Path

from assetsync.amounts import amount
from assetsync.errors import LedgerError

_LEAST_ROOM = 1024 * 1024
"""Bytes: with less, the next commits may find no room."""


def real(path: Path) -> Path:
    """Give the place of a ledger that is named through links: by two names it is still one, with one lock."""
    return Path(os.path.realpath(path))


def expect_file(path: Path) -> None:
    """Refuse what is no regular file, of which opening alone may block, and one with two names, hence two locks.

    Nothing at all may stand there. Raises LedgerError.
    """
    try:
        status = path.lstat()
    except OSError:
        # It is made, or opening it says what is wrong.
        return
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"the ledger {path} is no file", hint="name a file, or one that is not there yet")
    if status.st_nlink > 1:
        raise LedgerError(
            f"the ledger {path} has {status.st_nlink} names (hard links)",
            hint="SQLite keeps its log by name, so that two names lose data: remove the others",
        )


def make(path: Path, ledger: Path) -> int | None:
    """Make a file of a ledger for its owner alone, and open it; None where something stands there. Raises OSError."""
    owner = ledger.stat() if ledger.exists() else ledger.parent.stat()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    give(fd, owner)
    return fd


def give(fd: int, owner: os.stat_result) -> None:
    """Give what root makes to the ledger's owner, before there is one to its folder's.

    A command that a person ran as root must not keep the daemon's user out.
    """
    if os.geteuid() == 0:
        # Root in a container may not be allowed to, or has no number for that owner: then it is no worse than it was.
        with contextlib.suppress(OSError):
            os.fchown(fd, owner.st_uid, owner.st_gid)


def without_room(path: Path) -> str | None:
    """Say that the disk of a ledger is full; None where there is room, or where that cannot be told."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if not disk.f_blocks or disk.f_flag & os.ST_RDONLY:
        # It counts none, or is only looked at from here.
        return None
    # What is kept for root is no room for others.
    free = disk.f_bavail * disk.f_frsize
    return f"the disk of {path.parent} has {amount(free)} left" if free < _LEAST_ROOM else None
