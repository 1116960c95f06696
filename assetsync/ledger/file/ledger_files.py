"""The ledger's files: what kind of file is allowed, its owner and its lock, and the number of the latest start.

The number lies beside the ledger (the epoch file), so that a ledger put back from a copy is detected. A copy made while
a process held the ledger lacks the mark of a clean stop. A copy made between two processes has a lower number than the
epoch file or, if that file was put back too, does not have the file's new change time. A disk that is rolled back as a
whole (a snapshot of a volume or of a virtual machine) takes the epoch file with it. So the number is also kept outside
that disk, in the folder for runtime files. Judging a ledger by these signs is left to `ledger`.

Connections are left to `database`. This module is the only other place that opens the database file: closing any
descriptor of a file drops every POSIX lock that the process holds on it, including SQLite's
(https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
from pathlib import Path

from assetsync.clock import boot_id
from assetsync.errors import LedgerDenied, LedgerDetached, LedgerError, LedgerUnwritable
from assetsync.text import amount, user_name

APPLICATION_ID = 0x41535359
"""`ASSY` in the header of every ledger: distinguishes a ledger from the files of other programs."""

_LEAST_ROOM = 1024 * 1024
"""Bytes; with less free space the next commits may fail."""

_SHARED_RANGE = (0x40000000 + 2, 510)
"""First byte and length of the range that a connection in WAL mode keeps locked for reading (SQLite's file format)."""

_headers: dict[tuple[int, int], int] = {}
"""The descriptors opened by `header`, by device and inode."""


def real(path: Path) -> Path:
    """Return the real path of a ledger that is named through links: under two names it is one ledger with one lock."""
    return Path(os.path.realpath(path))


def exists(ledger: Path) -> bool:
    """Return whether there is a ledger; raise LedgerError if this user has no access to its folder."""
    try:
        # Not `exists`, which from Python 3.14 on returns False for a folder that this user may not enter.
        ledger.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise denied(ledger, error) or LedgerError(
            f"the ledger {ledger} cannot be reached ({error.strerror})", hint="run as the user that owns it"
        ) from error
    return True


def denied(ledger: Path, error: OSError) -> LedgerDenied | None:
    """Return the error that names the ledger's owner if the cause is that this user is another one, else None."""
    if error.errno not in (errno.EACCES, errno.EPERM):
        return None
    try:
        owner = ledger.stat().st_uid
    except OSError:
        try:
            owner = ledger.parent.stat().st_uid
        except OSError:
            return None
        if owner == 0:
            # The folder is closed or empty, and who is to own the ledger in it is unknown.
            return None
    if owner == os.geteuid():
        return None
    name = user_name(owner)
    message = f"the ledger {ledger} belongs to the user {name}, and this is {user_name(os.geteuid())}"
    return LedgerDenied(message, owner, hint=f"run it as {name}")


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


def open_or_make(path: Path, ledger: Path) -> int:
    """Open a file of a ledger; create it for its owner only if there is none. Raise OSError."""
    owner = ledger.stat() if ledger.exists() else ledger.parent.stat()
    # A link placed here must not lead elsewhere, and a pipe must not block the start.
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    set_owner(fd, owner)
    return fd


def set_owner(fd: int, owner: os.stat_result) -> None:
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
    """Return the first bytes of a database that SQLite cannot read. Raise OSError.

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
        """Open the database; create it for its owner only if it is absent. Raise OSError."""
        # With its final owner and mode: SQLite copies those of the main file to its side files.
        self._fd = open_or_make(path, path)
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
        """Take the lock and remember which files the writing connection has open. Raise LedgerDetached.

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
        """Return the number; None if there is no file. Raise LedgerError if the file holds no number."""
        try:
            digits = _read(self._path, _DIGITS + 2).strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be read ({error.strerror})", hint=_FIX) from error
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
        try:
            _replace(self._path, str(start_no), self._ledger)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
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

    def __init__(self, ledger: Path) -> None:
        """Choose the folder: $RUNTIME_DIRECTORY, else the owner's in /run, else `assetsync` in $XDG_RUNTIME_DIR.

        The owner's folder is /run/assetsync if the ledger's owner owns it, else /run/assetsync-UID. A folder on the
        ledger's own file system is used only if $RUNTIME_DIRECTORY names it. There may be no folder.
        """
        self._ledger = ledger
        self._boot = boot_id()
        self._path: Path | None = None
        folder = _runtime_folder(ledger)
        if folder is not None:
            place = hashlib.sha256(os.fsencode(ledger)).hexdigest()[:16]
            self._path = folder / f"{ledger.name}-{place}{SUFFIX}"

    def read(self) -> int | None:
        """Return the number; None if there is none, or none of this boot."""
        if self._path is None:
            return None
        try:
            content = _read(self._path, len(self._boot) + _DIGITS + 2)
        except OSError:
            return None
        boot, _, digits = content.decode("ascii", "replace").partition(" ")
        return int(digits) if boot == self._boot and digits.isdecimal() and len(digits) <= _DIGITS else None

    def write(self, start_no: int) -> bool:
        """Write the number; return whether it was written."""
        if self._path is None:
            return False
        try:
            with contextlib.suppress(FileExistsError):
                self._path.parent.mkdir(0o700)
                folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    set_owner(folder, self._ledger.stat())
                finally:
                    os.close(folder)
            _replace(self._path, f"{self._boot} {start_no}", self._ledger)
        except OSError:
            # An older number left here would confirm a ledger that was rolled back to it.
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        return True


def _runtime_folder(ledger: Path) -> Path | None:
    named = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if named:
        return Path(named)
    users = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    try:
        owner = (ledger if ledger.exists() else ledger.parent).stat().st_uid
        # An owner who cannot write to the folder would leave an old number there, which root's next start would read.
        is_owned = RUNTIME.exists() and RUNTIME.stat(follow_symlinks=False).st_uid == owner
        owned = RUNTIME if is_owned else RUNTIME.with_name(f"{RUNTIME.name}-{owner}")
        # Only root can create it.
        found = owned if owned.is_dir() or os.geteuid() == 0 else users / "assetsync"
        within = found if found.is_dir() else found.parent
        return found if within.stat().st_dev != ledger.parent.stat().st_dev else None
    except OSError:
        return None


def _read(path: Path, most: int) -> bytes:
    # A link placed here must not lead elsewhere, and a pipe must not block the start.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)


def _replace(path: Path, text: str, ledger: Path) -> None:
    """Write a file of a ledger to the disk in place of the one at `path`, if any."""
    temporary = path.with_name(path.name + ".new")
    # A leftover file, or one that somebody placed here, is neither written to nor followed.
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        set_owner(fd, ledger.stat())
        os.write(fd, text.encode("ascii"))
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
