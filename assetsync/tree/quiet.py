"""Tells from one digest that nothing directly in a folder has changed since an earlier scan.

The digest is over the names and facts of everything in the folder that is no folder itself. What was true of the folder
then, and whether it may still be relied on, is the consumer's to know; links and folders too large for memory are none
of this.
"""

import marshal
import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Protocol

from assetsync.model import Quiet

# All that the comparison of a version looks at, and what kind of thing it is. The permissions come with it: a change of
# them is one of the ctime anyway.
look_facts = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
Facts = tuple[int, int, int, int, int]

_PIECE = 1000
# Of format 2, because later ones write what was met before as a reference, and then equal values give other bytes.
_FORMAT = 2
_SLASH = ord("/")


class Notes(Protocol):
    """What a consumer keeps of folders from one scan to the next, and is told on the way.

    Called between the files that the scan yields, and always in byte order.
    """

    def recall(self, folder: bytes) -> Quiet | None:
        """Give what is known of the folder, if it can still be relied on."""

    def reached(self, until: bytes | None, folder: bytes, quiet: Quiet | None) -> None:
        """Hear that every file that sorts from the last such path to before this one was yielded; None: to the end.

        All of it lies in `folder`; where that is `quiet`, what is directly in it was not yielded, and is as it was.
        """

    def ended(self, found: Quiet | None) -> None:
        """Hear that a folder whose files were yielded is done with, and how to know it again where that can be."""


class Signature:
    """The digest of a folder, made while its files are looked at one by one in their order."""

    __slots__ = ("_facts", "_hash", "_names", "files", "ignored", "sidecars")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._names: list[bytes] = []
        self._facts: list[Facts] = []
        self.files = self.sidecars = self.ignored = 0

    def add(self, name: bytes, facts: Facts) -> None:
        """Take in the next name."""
        self._names.append(name)
        self._facts.append(facts)
        if len(self._names) == _PIECE:
            self._take()

    def quiet(self, folder: bytes) -> Quiet:
        """Give it for a folder that was seen to its end."""
        self._take()
        return Quiet(folder, self._hash.digest(), self.files, self.sidecars, self.ignored)

    def _take(self) -> None:
        if self._names:
            self._hash.update(marshal.dumps((self._names, self._facts), _FORMAT))
            self._names, self._facts = [], []


def is_same(fd: int, names: Sequence[bytes], known: Quiet) -> bool:
    """Tell whether these names in the folder open at `fd` give the known digest; False when one cannot be looked at."""
    hashed = blake2b(digest_size=16)
    look = os.stat
    try:
        for start in range(0, len(names), _PIECE):
            piece = list(names[start : start + _PIECE])
            facts = [look_facts(look(name, dir_fd=fd, follow_symlinks=False)) for name in piece]
            hashed.update(marshal.dumps((piece, facts), _FORMAT))
    except OSError:
        return False
    return hashed.digest() == known.digest


def split(names: Sequence[bytes]) -> tuple[list[bytes], Iterator[bytes]]:
    """Part the names of a listing into those of files and those of folders."""
    return [n for n in names if n[-1] != _SLASH], iter([n for n in names if n[-1] == _SLASH])
