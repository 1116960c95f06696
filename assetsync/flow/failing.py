"""Folders whose look-ups fail while the service answers for others: how often in a row, and how long each waits."""

from collections import Counter
from collections.abc import Container

_FIRST = 5.0
_LONGEST = 300.0
_LATEST_LOOK = 850.0
"""Seconds: a look that is due later was set by a clock that has since been set back (`ledger.doubts`)."""


class Failing:
    """Kept in memory: after a restart each folder fails once more."""

    def __init__(self, grace: float) -> None:
        """Begin with none; `grace` is how many seconds the doubts of other folders need without a gap."""
        # Each failure may take as long as a time-out: a whole grace has to fit in between two.
        self._longest = min(_LATEST_LOOK, max(_LONGEST, 4 * grace))
        self._counts: Counter[str] = Counter()

    def __contains__(self, destfolderid: str) -> bool:
        """Whether the last look-up of a folder failed."""
        return destfolderid in self._counts

    def count(self, destfolderid: str) -> int:
        """Give how often in a row its look-ups have failed."""
        return self._counts[destfolderid]

    def failed(self, destfolderid: str, asked: float | None = None) -> float:
        """Count one more; gives the seconds to wait, longer each time and as long as was `asked` for."""
        self._counts[destfolderid] += 1
        return min(self._longest, max(_FIRST * 2.0 ** min(self._counts[destfolderid] - 1, 10), asked or 0.0))

    def answered(self, destfolderid: str) -> None:
        """Say that its look-ups are answered."""
        self._counts.pop(destfolderid, None)

    def keep(self, folders: Container[str]) -> None:
        """Forget all other folders."""
        self._counts = Counter({folder: count for folder, count in self._counts.items() if folder in folders})
