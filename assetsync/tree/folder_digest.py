"""Detect with one digest that nothing directly in a folder has changed since an earlier scan.

The digest covers names and facts of all regular files directly in the folder, ignored files included. A folder gets no
digest if it has a followed link to a file, a file whose stat failed, or too many names for memory. The consumer stores
the digests and decides whether a stored digest is still valid.

The facts of many names are read at once: statx(2) writes a record whose fields have the same offsets on every machine,
and they go from the kernel into the digest as columns of these records, without a Python object for each. That takes a
quarter less time than `os.stat`, which serves as the fallback without statx and produces the same bytes. Stored digests
are always computed from `os.stat`, so a misread record can make a folder look changed, but never unchanged.
"""

import ctypes
import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from itertools import repeat
from operator import attrgetter
from typing import Literal, Protocol

from assetsync.model import CachedFolder

# The facts by which versions are compared, and the file type. st_mode includes the permissions; a change of permissions
# changes the ctime anyway.
look_facts = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
Facts = tuple[int, int, int, int, int]

PIECE = 500
"""Names per batch."""

_RECORD = 256
# Type and offset of the fields in `struct statx` (linux/stat.h): mode, size, mtime, ctime, inode; a time has two parts.
_FIELDS: Sequence[tuple[Literal["H", "I", "Q", "q"], int]] = (
    ("H", 28),
    ("q", 40),
    ("q", 112),
    ("I", 120),
    ("q", 96),
    ("I", 104),
    ("Q", 32),
)
# The flags and fields of fstatat(2): AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT; STATX_BASIC_STATS.
_FLAGS, _MASK = 0x100 | 0x800, 0x7FF
_SECOND = 10**9


class Looks:
    """A buffer for the records of one batch; one thread at a time may use it."""

    def __init__(self) -> None:
        # `argtypes` is not set, because its checks cost as much as the call itself. The call releases Python's lock.
        self._statx = getattr(ctypes.CDLL(None), "statx", None)
        room = ctypes.create_string_buffer(_RECORD * PIECE)
        # Created once and passed unchanged: ctypes would wrap a pointer of another kind again for each call.
        self._places = [ctypes.byref(room, _RECORD * n) for n in range(PIECE)]
        views = [(memoryview(room).cast("B").cast(kind), at) for kind, at in _FIELDS]
        self._columns = [(view, at // view.itemsize, _RECORD // view.itemsize) for view, at in views]

    def at(self, fd: int, names: Sequence[bytes]) -> bytes:
        """Return the facts of up to PIECE names in the folder open at `fd`, as bytes in columns.

        Links are not followed. Raise OSError if a stat fails, ValueError for too many names.
        """
        if len(names) > PIECE:
            raise ValueError(f"there is room for {PIECE} names, not for {len(names)}")
        asked = self._statx
        if asked is None or any(map(asked, repeat(fd), names, repeat(_FLAGS), repeat(_MASK), self._places)):
            # Also used if the kernel or a system call filter rejects statx. For a name that is gone, os.stat raises.
            return columns([look_facts(os.stat(name, dir_fd=fd, follow_symlinks=False)) for name in names])
        count = len(names)
        return b"".join([view[at : count * step : step].tobytes() for view, at, step in self._columns])


def columns(facts: Sequence[Facts]) -> bytes:
    """Return the same bytes from facts that `os.stat` returned."""
    modes, sizes, mtimes, ctimes, inodes = zip(*facts, strict=True)
    # Sizes are signed: a file server may report a size that os.stat returns as a negative number.
    parts = [array("H", modes), array("q", sizes)]
    for times in (mtimes, ctimes):
        parts += [array("q", [time // _SECOND for time in times]), array("I", [time % _SECOND for time in times])]
    return b"".join([*parts, array("Q", inodes)])


class Notes(Protocol):
    """The consumer's cache of folders between scans, with callbacks for the progress of a scan.

    The scan calls it between the files that it yields, always in byte order.
    """

    def recall(self, folder: bytes) -> CachedFolder | None:
        """Return the cached state of the folder if it is still valid."""

    def reached(self, until: bytes | None, folder: bytes, quiet: CachedFolder | None) -> None:
        """Record that all files from the previous `until` up to this `until` (excluded) were yielded; None: to the end.

        All of these paths are in `folder`. With `quiet`, the folder is unchanged and its own files were not yielded.
        """

    def ended(self, found: CachedFolder | None) -> None:
        """Record that a folder whose files were yielded has ended; `found` is its state, None if it has no digest."""


class Signature:
    """The digest of a folder, computed while the scan stats the files in their order."""

    __slots__ = ("_facts", "_hash", "_names", "files", "ignored", "sidecars")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._names: list[bytes] = []
        self._facts: list[Facts] = []
        self.files = self.sidecars = self.ignored = 0

    def add(self, name: bytes, facts: Facts) -> None:
        """Add the next name and its facts."""
        self._names.append(name)
        self._facts.append(facts)
        if len(self._names) == PIECE:
            self._take()

    def quiet(self, folder: bytes) -> CachedFolder:
        """Return the state of a folder that was read to its end."""
        self._take()
        return CachedFolder(folder, self._hash.digest(), self.files, self.sidecars, self.ignored)

    def _take(self) -> None:
        if self._names:
            self._hash.update(_listed(self._names))
            self._hash.update(columns(self._facts))
            self._names, self._facts = [], []


def is_same(fd: int, names: Sequence[bytes], known: CachedFolder, looks: Looks) -> bool:
    """Return whether these names in the folder open at `fd` have the known digest; False if a stat fails."""
    hashed = blake2b(digest_size=16)
    try:
        for start in range(0, len(names), PIECE):
            piece = names[start : start + PIECE]
            hashed.update(_listed(piece))
            hashed.update(looks.at(fd, piece))
    except OSError:
        return False
    return hashed.digest() == known.digest


def _listed(names: Sequence[bytes]) -> bytes:
    # No name is empty or contains NUL, so two NULs mark the end of the names and fix the length of the columns.
    return b"\0".join(names) + b"\0\0"
