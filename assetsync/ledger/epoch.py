"""The number of the latest start, kept beside the ledger: by it a ledger that was put back from a copy is known.

A copy that was made while a process held the ledger lacks the mark of a clean stop; one that was made between two
processes is behind this number, or, where the number was put back with it, does not know the time of that change. Which
of these a ledger shows is `ledger`'s to say; here the number is read and written.
"""

import errno
import os
from pathlib import Path

from assetsync.errors import LedgerError, LedgerUnwritable
from assetsync.ledger.place import give

SUFFIX = ".epoch"
"""What stands behind the name of the ledger."""

_DIGITS = 15
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What the disk may answer that is full or fails."""

_FIX = "see what stands there and remove it: every folder is then listed once"


class Epoch:
    """The file `<ledger>.epoch`."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._path = ledger.with_name(ledger.name + SUFFIX)

    def read(self) -> int | None:
        """Give the number; None where there is no file. Raises LedgerError for what holds no number."""
        try:
            # Neither a link nor a pipe put there may lead elsewhere or hold the start up.
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                said = os.read(fd, _DIGITS + 2)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be read ({error.strerror})", hint=_FIX) from error
        digits = said.strip()
        if not digits.isdigit() or len(digits) > _DIGITS:
            raise LedgerError(f"{self._path} does not hold a number", hint=_FIX)
        return int(digits)

    def changed(self) -> str:
        """Give when the file was last changed, as the file system says: no program that restores files can set it."""
        try:
            return str(self._path.stat(follow_symlinks=False).st_ctime_ns)
        except OSError:
            # It was taken away, which the next start sees as well.
            return ""

    def write(self, start_no: int) -> None:
        """Put the number on the disk; raises LedgerError."""
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            # Whatever stands there was left behind, or put there: it is neither written to nor followed.
            temporary.unlink(missing_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                give(fd, self._ledger.stat())
                os.write(fd, str(start_no).encode("ascii"))
                os.fsync(fd)
            finally:
                os.close(fd)
            temporary.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            kind = LedgerUnwritable if error.errno in OF_THE_DISK else LedgerError
            raise kind(
                f"{self._path} cannot be written ({error.strerror})",
                hint="check the disk and the folder that it lies in",
            ) from error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
