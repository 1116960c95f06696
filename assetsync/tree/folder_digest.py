"""Tells from one digest that nothing directly in a folder has changed since an earlier scan.

The digest is over the names and facts of everything in the folder that is no folder itself. What was true of the folder
then, and whether it may still be relied on, is the consumer's to know; links and folders too large for memory are none
of this.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from assetsync.model import Quiet
from assetsync.tree.batch_stat import PIECE, Facts, Looks, columns


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
        if len(self._names) == PIECE:
            self._take()

    def quiet(self, folder: bytes) -> Quiet:
        """Give it for a folder that was seen to its end."""
        self._take()
        return Quiet(folder, self._hash.digest(), self.files, self.sidecars, self.ignored)

    def _take(self) -> None:
        if self._names:
            self._hash.update(_listed(self._names))
            self._hash.update(columns(self._facts))
            self._names, self._facts = [], []


def is_same(fd: int, names: Sequence[bytes], known: Quiet, looks: Looks) -> bool:
    """Tell whether these names in the folder open at `fd` give the known digest; False when one cannot be looked at."""
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
    # No name is empty or holds a NUL: two of them are the end, and tell how long the columns are.
    return b"\0".join(names) + b"\0\0"
