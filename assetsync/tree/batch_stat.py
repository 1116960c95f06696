"""The facts of many names of one folder at once, as bytes, field by field, for the digest of `quiet`.

statx(2) writes a record in which each field has its place on every machine: the facts go from the kernel into the
digest as columns of such records, and no object is made of any of them. That takes a quarter less time than `os.stat`,
which gives the very same bytes where there is no statx. A digest is remembered only of what `os.stat` said, so a record
that is misread can make a folder look changed, and never unchanged. What the digest is good for is for `quiet`.
"""

import ctypes
import os
from array import array
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Literal

# All that the comparison of a version looks at, and what kind of thing it is. The permissions come with it: a change of
# them is one of the ctime anyway.
look_facts = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
Facts = tuple[int, int, int, int, int]

PIECE = 500
"""Names that are looked at together."""

_RECORD = 256
# Where the fields stand in `struct statx` (linux/stat.h), by their type: mode, size, mtime, ctime, inode.
_FIELDS: Sequence[tuple[Literal["H", "I", "Q", "q"], int]] = (
    ("H", 28),
    ("q", 40),
    ("q", 112),
    ("I", 120),
    ("q", 96),
    ("I", 104),
    ("Q", 32),
)
# What fstatat(2) asks for, in its way: AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT; STATX_BASIC_STATS.
_FLAGS, _MASK = 0x100 | 0x800, 0x7FF
_SECOND = 10**9


class Looks:
    """Room for the answers of a piece; for one thread at a time."""

    def __init__(self) -> None:
        # Without `argtypes`, whose checks cost as much again as the call. Other threads run on during a look.
        self._statx = getattr(ctypes.CDLL(None), "statx", None)
        room = ctypes.create_string_buffer(_RECORD * PIECE)
        # Made once, and taken as they are: a pointer of another kind is wrapped again for each call.
        self._places = [ctypes.byref(room, _RECORD * n) for n in range(PIECE)]
        views = [(memoryview(room).cast("B").cast(kind), at) for kind, at in _FIELDS]
        self._columns = [(view, at // view.itemsize, _RECORD // view.itemsize) for view, at in views]

    def at(self, fd: int, names: Sequence[bytes]) -> bytes:
        """Look at up to PIECE names in the folder open at `fd`, following no link; raises OSError and ValueError."""
        if len(names) > PIECE:
            raise ValueError(f"there is room for {PIECE} names, not for {len(names)}")
        asked = self._statx
        if asked is None or any(map(asked, repeat(fd), names, repeat(_FLAGS), repeat(_MASK), self._places)):
            # Also for a kernel or a filter that knows no statx; of a name that is gone, this tells it.
            return columns([look_facts(os.stat(name, dir_fd=fd, follow_symlinks=False)) for name in names])
        count = len(names)
        return b"".join([view[at : count * step : step].tobytes() for view, at, step in self._columns])


def columns(facts: Sequence[Facts]) -> bytes:
    """Give the same of what `os.stat` told."""
    modes, sizes, mtimes, ctimes, inodes = zip(*facts, strict=True)
    # A size with a sign: a server may tell one that os.stat takes for a negative number.
    parts = [array("H", modes), array("q", sizes)]
    for times in (mtimes, ctimes):
        parts += [array("q", [time // _SECOND for time in times]), array("I", [time % _SECOND for time in times])]
    return b"".join([*parts, array("Q", inodes)])
