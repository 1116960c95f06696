"""Detect with one digest that nothing directly in a folder has changed since an earlier scan.

The digest covers names and facts of all regular files directly in the folder, ignored files included. A folder gets no
digest if it has a followed link to a file, a file whose stat failed, or too many names for memory. The consumer stores
the digests and decides whether a stored digest is still valid.
"""

import marshal
import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Protocol

from assetsync.model import CachedFolder

AT_ONCE = 500
"""Names of a folder that are looked at between two calls of the scan's `stop`."""
# The facts by which versions are compared, and the type of the file. The mode includes the permissions; a change of
# permissions changes the ctime anyway.
_facts = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_NameAndFacts = tuple[bytes, tuple[int, int, int, int, int]]


class KnownFolders(Protocol):
    """The consumer's cache of folders between scans, with callbacks for the progress of a scan.

    The scan calls it between the files that it yields, always in byte order.
    """

    def recall(self, folder: bytes) -> CachedFolder | None:
        """Return the cached state of the folder if it is still valid."""

    def reached(self, until: bytes | None, folder: bytes, unchanged: CachedFolder | None) -> None:
        """Record that all files from the previous `until` up to this `until` (excluded) were yielded; None: to the end.

        All of these paths are in `folder`. With `unchanged`, the folder is as cached and its own files were not
        yielded.
        """

    def ended(self, found: CachedFolder | None) -> None:
        """Record that a folder whose files were yielded has ended; `found` is its state, None if it has no digest."""


class FolderDigest:
    """The digest of a folder, computed while the scan stats the files in their order."""

    __slots__ = ("_hash", "_seen", "files", "ignored", "sidecars")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._seen: list[_NameAndFacts] = []
        self.files = self.sidecars = self.ignored = 0

    def add(self, name: bytes, status: os.stat_result) -> None:
        """Add the next name and its facts."""
        self._seen.append((name, _facts(status)))
        if len(self._seen) == AT_ONCE:
            self._hash_seen()

    def state_of(self, folder: bytes) -> CachedFolder:
        """Return the state of the folder, which was read to its end."""
        self._hash_seen()
        return CachedFolder(folder, self._hash.digest(), self.files, self.sidecars, self.ignored)

    def _hash_seen(self) -> None:
        if self._seen:
            self._hash.update(_packed(self._seen))
            self._seen = []


def is_unchanged(fd: int, names: Sequence[bytes], known: CachedFolder, stop: Callable[[], bool]) -> bool:
    """Return whether these names in the folder open at `fd` have the known digest.

    False if a stat fails, or if `stop`, which is called between pieces of the names, returns True.
    """
    hashed = blake2b(digest_size=16)
    try:
        for start in range(0, len(names), AT_ONCE):
            if start and stop():
                return False
            piece = names[start : start + AT_ONCE]
            hashed.update(_packed([(name, _facts(os.stat(name, dir_fd=fd, follow_symlinks=False))) for name in piece]))
    except OSError:
        return False
    return hashed.digest() == known.digest


def _packed(seen: list[_NameAndFacts]) -> bytes:
    # Format 2 packs equal values to equal bytes. Another release of Python may pack them in another way: then every
    # folder looks changed once.
    return marshal.dumps(seen, 2)
