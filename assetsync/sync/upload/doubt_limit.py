"""Limit the number of uploads in doubt, because uploads that may have been stored must not pile up.

Too many doubts in all stop every upload. Too many doubts in a folder stop the uploads into it: first of the files that
have waited, and at a higher limit of all files. The limits are left to `core.doubt.MostDoubts`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from assetsync.core.doubt import MostDoubts
from assetsync.ledger.doubts import Doubts
from assetsync.sync.upload.queue import Choice

_COUNT_EVERY = 32


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a count: `crowded` folders receive no more files, those `crowded_for_waiting` only new files."""

    is_full: bool = False
    crowded: Collection[str] = ()
    crowded_for_waiting: Collection[str] = ()


class DoubtLimit:
    """Doubt limit shared by all workers; counts again after a number of files, and after each new doubt."""

    def __init__(self, doubts: Doubts, most: MostDoubts) -> None:
        """Start without a count."""
        self._doubts = doubts
        self._most = most
        self._found = _Found()
        # Number of files that may be taken before the next count.
        self._uncounted = 0

    def is_full(self) -> bool:
        """Return whether too many uploads are in doubt to send more before some are decided."""
        return self._doubts.count() > self._most.in_all

    def takes_one(self) -> bool:
        """Return whether one more file may be sent, by a count that may be up to 32 files old."""
        self._uncounted -= 1
        if self._uncounted >= 0:
            return True
        found = self._found = self._count()
        self._uncounted = 0 if found.is_full or found.crowded_for_waiting else _COUNT_EVERY
        return not found.is_full

    def doubted(self) -> None:
        """Record a new doubt, so that the next file causes a new count."""
        self._uncounted = 0

    def oldest_and_newest(self, apart_from: Collection[str], *, anew: bool = False) -> tuple[Choice, Choice]:
        """Return which of the oldest due files, and which of the newest, may be sent.

        Folders in `apart_from` are left out. With `anew` the doubts are counted again; otherwise the last count
        decides.
        """
        found = self._count() if anew else self._found
        oldest = Choice((*apart_from, *found.crowded_for_waiting))
        return oldest, Choice((*apart_from, *found.crowded), newest=True)

    def _count(self) -> _Found:
        most, crowded = self._most, self._doubts.crowded
        return _Found(self.is_full(), crowded(most.in_one_folder), crowded(most.waiting_in_one_folder))
