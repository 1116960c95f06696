"""Match files that a scan misses with new paths, because a renamed file has not vanished.

The new paths are kept in memory, with a limit; beyond it the ledger shows which files have a new path.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assetsync.ledger.versions import Versions

_MOST_ARRIVED = 100_000
"""New paths that are kept in memory."""


class Looks(NamedTuple):
    """The facts of a file that a rename keeps. A move from another disk keeps all but the inode."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(slots=True)
class Missing:
    """A current version whose file the scan did not find; without `had_asset` nothing of it is in the service."""

    id: int
    path: bytes
    mapping: int | None
    looks: Looks
    had_asset: bool = True


class Matched(NamedTuple):
    """The new paths by missing path. With `is_partial` a missing file without one may have been renamed as well."""

    renamed: Mapping[bytes, bytes]
    is_partial: bool = False


def pair(
    missing: Sequence[Missing], arrived: Mapping[bytes, Looks], is_new: Callable[[bytes], bool]
) -> dict[bytes, bytes]:
    """Return the new path of each missing file that has one; each new path belongs to one missing file.

    Paths with the same inode come first. Then size and time are enough, if `is_new` returns True for the path.
    """
    renamed: dict[bytes, bytes] = {}
    used: set[bytes] = set()
    if not missing:
        # The usual case, with a hundred thousand new paths in a first scan.
        return renamed
    for facts in (3, 2):
        free: defaultdict[tuple[int, ...], list[bytes]] = defaultdict(list)
        for path, looks in arrived.items():
            if path not in used:
                free[looks[:facts]].append(path)
        for one in missing:
            same = free.get(one.looks[:facts], []) if one.path not in renamed else []
            while same and one.path not in renamed:
                path = same.pop()
                if facts == len(Looks._fields) or is_new(path):
                    renamed[one.path] = path
                    used.add(path)
    return renamed


class Renames:
    """The new paths since the last decision on missing files.

    The watcher finds the new paths of moved files before a scan misses the old ones.
    """

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._arrived: dict[bytes, Looks] = {}
        # A file that has not settled arrives again with each scan. These have been the new path of a missing file.
        self._used: dict[bytes, Looks] = {}
        # An earlier process may have found the new paths of files that no scan has missed yet.
        self._is_partial = True
        # An older row at a new path was moved there when the upload was spared: its file is not missing.
        self._newest = versions.newest()
        self._scan_began: tuple[Sequence[bytes], int] = ((), self._newest)

    def note(self, arrived: Mapping[bytes, Looks]) -> None:
        """Keep new paths until missing files are decided, as far as there is room."""
        if has_room(self._arrived):
            self._arrived |= arrived

    def scan_begins(self) -> None:
        """Note the start of a scan: paths that arrive later are kept for the next scan as well."""
        self._scan_began = list(self._arrived), self._versions.newest()

    def match(self, missing: Sequence[Missing], arrived: dict[bytes, Looks], *, all_queued: bool) -> Matched:
        """Match missing files with the paths that `arrived` in the scan, and add the kept ones to these.

        `all_queued`: the ledger has a row for each new path.
        """
        arrived |= self._arrived
        paths = {one.path for one in missing}
        unused = {path: looks for path, looks in arrived.items() if path not in paths and looks != self._used.get(path)}
        renamed = pair(missing, unused, self._is_new)
        is_full = not has_room(arrived)
        if is_full or self._is_partial:
            renamed |= self._renamed_in_ledger([one for one in missing if one.path not in renamed])
        return Matched(renamed, is_partial=is_full and not all_queued)

    def decided(self, matched: Matched, arrived: Mapping[bytes, Looks]) -> None:
        """Note that missing files were decided: paths that arrived before the scan count no more."""
        taken = set(matched.renamed.values())
        self._used = {p: looks for p, looks in arrived.items() if p in taken or self._used.get(p) == looks}
        before, self._newest = self._scan_began
        for path in before:
            self._arrived.pop(path, None)
        self._is_partial = matched.is_partial

    def _is_new(self, path: bytes) -> bool:
        row = self._versions.current_of(path)
        return row is None or row.id > self._newest

    def _renamed_in_ledger(self, missing: Iterable[Missing]) -> dict[bytes, bytes]:
        """Return the new path of each missing file whose inode, size and time a newer row at another path has."""
        left = {one.looks: one for one in missing}
        renamed: dict[bytes, bytes] = {}
        if left:
            for row in self._versions.current():
                one = left.get(Looks(row.size, row.mtime_ns, row.inode))
                if one is not None and row.id > one.id:
                    renamed[one.path] = row.path
        return renamed


def has_room(arrived: Mapping[bytes, object]) -> bool:
    """Return whether another new path may be kept."""
    return len(arrived) < _MOST_ARRIVED
