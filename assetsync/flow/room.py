"""What may be sent beside the uploads in doubt: of too many everything waits, or one folder, or large files that fail.

Uploads that may have been stored must not pile up. How many may be in doubt is said by `core.doubt.MostDoubts`, from
which size on uploads fail by `ceiling`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from assetsync.core.doubt import MostDoubts
from assetsync.flow.ceiling import Ceiling
from assetsync.flow.feed import Choice
from assetsync.ledger.doubts import Doubts

_COUNT_EVERY = 32


@dataclass(frozen=True, slots=True)
class _Found:
    """What one count has shown; large files are those that fail while smaller ones get through."""

    is_full: bool = False
    has_room_for_large: bool = True
    crowded: Collection[str] = ()
    crowded_for_large: Collection[str] = ()


class Room:
    """Shared by all workers; the ledger is asked again after some files, and after each new doubt."""

    def __init__(self, doubts: Doubts, ceiling: Ceiling, most: MostDoubts) -> None:
        """Begin with room for all."""
        self._doubts = doubts
        self._ceiling = ceiling
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
        often = found.is_full or found.crowded or self._ceiling.least is not None
        self._uncounted = 0 if often else _COUNT_EVERY
        return not found.is_full

    def doubted(self) -> None:
        """Hear of one more doubt."""
        self._uncounted = 0

    def choices(self, apart_from: Collection[str], *, anew: bool = False) -> Sequence[Choice]:
        """Give what may go, that first which goes first: by the last count, or `anew`; nothing into `apart_from`."""
        found = self._count() if anew else self._found
        apart_from = (*apart_from, *found.crowded)
        return self._ceiling.choices(apart_from, found.crowded_for_large, may_doubt=found.has_room_for_large)

    def _count(self) -> _Found:
        most, count = self._most, self._doubts.count()
        crowded_for_large = () if self._ceiling.least is None else self._doubts.crowded(most.large_in_one_folder)
        return _Found(
            count > most.in_all, count < most.large_in_all, self._doubts.crowded(most.in_one_folder), crowded_for_large
        )
