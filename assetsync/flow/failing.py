"""Folders whose look-ups fail: how often in a row, and how long each waits."""

from collections import Counter
from collections.abc import Container

from assetsync.core.backoff import delay
from assetsync.ledger.queue import LONGEST_BACKOFF

_FIRST = 5.0
_LONGEST = 300.0
_MOST = 3000.0
_SHARE = 5
_LATEST_LOOK = LONGEST_BACKOFF - 50
"""Seconds, well below what is taken for the work of a clock that has since been set back."""


class Failing:
    """Kept in memory: after a restart each folder fails once more."""

    def __init__(self, grace: float) -> None:
        """Begin with none; `grace` is how many seconds the doubts of other folders need without a gap."""
        # Each failure may take as long as a time-out: a whole grace has to fit in between two.
        self._longest = min(_LATEST_LOOK, max(_LONGEST, 4 * grace))
        self._counts: Counter[str] = Counter()

    def __contains__(self, destfolderid: object) -> bool:
        """Whether the last look-up of a folder failed."""
        return destfolderid in self._counts

    def count(self, destfolderid: str) -> int:
        """Give how often in a row its look-ups have failed."""
        return self._counts[destfolderid]

    def failed(self, destfolderid: str, asked: float | None = None, took: float = 0.0) -> float:
        """Count one more; gives the seconds to wait, longer each time and as long as was `asked` for.

        Where it `took` long to fail, that part of the time is left to others: what times out must not keep a thread.
        """
        self._counts[destfolderid] += 1
        # The whole delay: nobody else comes back with it.
        wait = delay(self._counts[destfolderid], 1.0, first=_FIRST, longest=self._longest)
        return max(min(self._longest, max(wait, asked or 0.0)), min(_MOST, _SHARE * took))

    def answered(self, destfolderid: str) -> None:
        """Say that its look-ups are answered."""
        self._counts.pop(destfolderid, None)

    def keep(self, folders: Container[str]) -> None:
        """Forget all other folders."""
        self._counts = Counter({folder: count for folder, count in self._counts.items() if folder in folders})
