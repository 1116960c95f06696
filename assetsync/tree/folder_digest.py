"""Detects with one digest that nothing directly in a folder has changed since an earlier scan.

The digest covers names and facts of all regular files directly in the folder, ignored files included. A folder gets no
digest if it has a followed link to a file, a file whose stat failed, or too many names for memory. The consumer stores
the digests and decides whether a stored digest is still valid.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from assetsync.model import Quiet
from assetsync.tree.batch_stat import PIECE, Facts, Looks, columns


class Notes(Protocol):
    """The consumer's cache of folders between scans, with callbacks for the progress of a scan.

    The scan calls it between the files that it yields, always in byte order.
    """

    def recall(self, folder: bytes) -> Quiet | None:
        """Return the cached state of the folder if it is still valid."""

    def reached(self, until: bytes | None, folder: bytes, quiet: Quiet | None) -> None:
        """Record that all files from the previous `until` up to this `until` (excluded) were yielded; None: to the end.

        All of these paths are in `folder`. With `quiet`, the folder is unchanged and its own files were not yielded.
        """

    def ended(self, found: Quiet | None) -> None:
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

    def quiet(self, folder: bytes) -> Quiet:
        """Return the state of a folder that was read to its end."""
        self._take()
        return Quiet(folder, self._hash.digest(), self.files, self.sidecars, self.ignored)

    def _take(self) -> None:
        if self._names:
            self._hash.update(_listed(self._names))
            self._hash.update(columns(self._facts))
            self._names, self._facts = [], []


def is_same(fd: int, names: Sequence[bytes], known: Quiet, looks: Looks) -> bool:
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
