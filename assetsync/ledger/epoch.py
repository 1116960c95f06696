"""The number of the latest start, kept beside the ledger to detect a ledger that was put back from a copy.

A copy made while a process held the ledger lacks the mark of a clean stop. A copy made between two processes has a
lower number than this file or, if this file was put back too, does not have the file's new change time. Judging a
ledger by these signs is left to `ledger`; this module reads and writes the number.

A disk that is rolled back as a whole (a snapshot of a volume or of a virtual machine) takes the file beside the ledger
with it. So the number is also kept outside that disk, in the folder for runtime files.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from assetsync.clock import boot_id
from assetsync.errors import LedgerError, LedgerUnwritable
from assetsync.ledger.place import give

SUFFIX = ".epoch"
"""Suffix of the epoch file, after the name of the ledger."""

_DIGITS = 15
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk that is full or failing."""

RUNTIME = Path("/run/assetsync")
"""The RuntimeDirectory of the units in `systemd/`; commands started by hand find it without them.

For other ledgers root creates a folder beside it, named with the id of the ledger's owner.
"""

_FIX = "see what stands there and remove it: every folder is then listed once"


class Epoch:
    """The epoch file, `<ledger>.epoch`."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._path = ledger.with_name(ledger.name + SUFFIX)

    def read(self) -> int | None:
        """Return the number; None if there is no file. Raises LedgerError if the file holds no number."""
        try:
            # A link placed here must not lead elsewhere, and a pipe must not block the start.
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
        """Return the change time of the file in ns, "" without a file: no program that restores files can set it."""
        try:
            return str(self._path.stat(follow_symlinks=False).st_ctime_ns)
        except OSError:
            # The file was removed, which the next start also detects.
            return ""

    def write(self, start_no: int) -> None:
        """Write the number to the disk; raise LedgerError."""
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            # A leftover file, or one that somebody placed here, is neither written to nor followed.
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


class OutsideEpoch:
    """The same number outside the ledger's disk, in a folder that is emptied when the machine boots.

    The number counts only in the boot in which it was written: a copy that outlives a boot may have been rolled back
    together with the ledger.
    """

    def __init__(self, ledger: Path, environ: Mapping[str, str]) -> None:
        """Choose the folder: $RUNTIME_DIRECTORY, else the owner's in /run, else `assetsync` in $XDG_RUNTIME_DIR.

        The owner's folder is /run/assetsync if the ledger's owner owns it, else /run/assetsync-UID. A folder on the
        ledger's own file system is used only if $RUNTIME_DIRECTORY names it. There may be no folder.
        """
        self._ledger = ledger
        self._boot = boot_id()
        self._path: Path | None = None
        folder = _runtime_folder(ledger, environ)
        if folder is not None:
            place = hashlib.sha256(os.fsencode(ledger)).hexdigest()[:16]
            self._path = folder / f"{ledger.name}-{place}{SUFFIX}"

    def read(self) -> int | None:
        """Return the number; None if there is none, or none of this boot."""
        if self._path is None:
            return None
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                boot, _, digits = os.read(fd, len(self._boot) + _DIGITS + 2).decode("ascii", "replace").partition(" ")
            finally:
                os.close(fd)
        except OSError:
            return None
        return int(digits) if boot == self._boot and digits.isdecimal() and len(digits) <= _DIGITS else None

    def write(self, start_no: int) -> bool:
        """Write the number; return whether it was written."""
        if self._path is None:
            return False
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            _make_folder(self._path.parent, self._ledger)
            temporary.unlink(missing_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                give(fd, self._ledger.stat())
                os.write(fd, f"{self._boot} {start_no}".encode("ascii"))
            finally:
                os.close(fd)
            temporary.replace(self._path)
        except OSError:
            # An older number left here would confirm a ledger that was rolled back to it.
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        return True


def _runtime_folder(ledger: Path, environ: Mapping[str, str]) -> Path | None:
    named = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if named:
        return Path(named)
    users = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    try:
        owner = (ledger if ledger.exists() else ledger.parent).stat().st_uid
        # An owner who cannot write to the folder would leave an old number there, which root's next start would read.
        owned = RUNTIME if _is_owned(RUNTIME, owner) else RUNTIME.with_name(f"{RUNTIME.name}-{owner}")
        # Only root can create it.
        found = owned if owned.is_dir() or os.geteuid() == 0 else users / "assetsync"
        within = found if found.is_dir() else found.parent
        return found if within.stat().st_dev != ledger.parent.stat().st_dev else None
    except OSError:
        return None


def _is_owned(folder: Path, owner: int) -> bool:
    try:
        return folder.stat(follow_symlinks=False).st_uid == owner
    except FileNotFoundError:
        return False


def _make_folder(folder: Path, ledger: Path) -> None:
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give(fd, ledger.stat())
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
