"""Folders whose look-ups fail: how often in a row, how long each waits, and whether it is their trouble alone."""

from collections import Counter
from collections.abc import Container

from assetsync.core.backoff import WELL_WITHIN, delay
from assetsync.errors import ServiceError
from assetsync.flow.probe import Probe
from assetsync.flow.trouble import describe

_FIRST = 5.0
_LONGEST = 300.0
_MOST = 3000.0
_SHARE = 5


class Failing:
    """Kept in memory: after a restart each folder fails once more."""

    def __init__(self, prober: Probe, *, grace: float = 0.0) -> None:
        """Begin with none; `grace` is how many seconds the doubts of other folders need without a gap."""
        self._prober = prober
        # Each failure may take as long as a time-out: a whole grace has to fit in between two.
        self._longest = min(WELL_WITHIN, max(_LONGEST, 4 * grace))
        self._counts: Counter[str] = Counter()

    def __contains__(self, destfolderid: object) -> bool:
        """Whether the last look-up of a folder failed."""
        return destfolderid in self._counts

    def count(self, destfolderid: str) -> int:
        """Give how often in a row its look-ups have failed."""
        return self._counts[destfolderid]

    def are_alone(self) -> bool:
        """Whether the service answers for another folder, so that what failed is the trouble of these alone."""
        return self._prober.is_answered(self)

    def put_off(self, destfolderid: str, error: ServiceError, took: float) -> float:
        """Count one more and give the seconds to wait; raises the error where the service answers for no other."""
        wait = self.failed(destfolderid, error, took)
        if not self.are_alone():
            raise error
        return wait

    def failed(self, destfolderid: str, error: ServiceError, took: float = 0.0) -> float:
        """Count one more; gives the seconds to wait, longer each time and as long as the service asks for.

        Where it `took` long to fail, that part of the time is left to others: what times out must not keep a thread.
        """
        asked = describe(error)[1]
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
