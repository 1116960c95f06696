"""What there is room for beside the uploads in doubt: of too many everything waits, of many one folder, or its oldest.

Uploads that may have been stored must not pile up. How many may be in doubt is said by `core.doubt.MostDoubts`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from assetsync.core.doubt import MostDoubts
from assetsync.ledger.doubts import Doubts
from assetsync.sync.upload.queue import Choice

_COUNT_EVERY = 32


@dataclass(frozen=True, slots=True)
class _Found:
    """What one count has shown: the folders into which no more is sent, and those for which only what is new is."""

    is_full: bool = False
    crowded: Collection[str] = ()
    crowded_for_waiting: Collection[str] = ()


class DoubtLimit:
    """Shared by all workers; the ledger is asked again after some files, and after each new doubt."""

    def __init__(self, doubts: Doubts, most: MostDoubts) -> None:
        """Begin with room for all."""
        self._doubts = doubts
        self._most = most
        self._found = _Found()
        # How many more files may be taken before the doubts are counted again.
        self._uncounted = 0

    def is_full(self) -> bool:
        """Whether so many uploads are in doubt that no more are sent until some are decided."""
        return self._doubts.count() > self._most.in_all

    def takes_one(self) -> bool:
        """Whether there is room for one more, by a count that is not always new."""
        self._uncounted -= 1
        if self._uncounted >= 0:
            return True
        found = self._found = self._count()
        self._uncounted = 0 if found.is_full or found.crowded_for_waiting else _COUNT_EVERY
        return not found.is_full

    def doubted(self) -> None:
        """Hear of one more doubt."""
        self._uncounted = 0

    def oldest_and_newest(self, apart_from: Collection[str], *, anew: bool = False) -> tuple[Choice, Choice]:
        """Give what may go of the oldest due, and of the newest: by the last count, or `anew`; nothing `apart_from`."""
        found = self._count() if anew else self._found
        oldest = Choice((*apart_from, *found.crowded_for_waiting))
        return oldest, Choice((*apart_from, *found.crowded), newest=True)

    def _count(self) -> _Found:
        most, crowded = self._most, self._doubts.crowded
        return _Found(self.is_full(), crowded(most.in_one_folder), crowded(most.waiting_in_one_folder))
