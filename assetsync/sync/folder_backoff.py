"""Look-ups that fail: which are repeated at once, how long folders wait, and whether it is their trouble alone."""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice

from assetsync.core.backoff import WELL_WITHIN, delay
from assetsync.errors import KeyRefused, ServiceError
from assetsync.model import Asset, SearchRequest, Service
from assetsync.sync.health_check import HealthCheck, describe

_REPEATS = 2
_HEAD = 100
_QUICK = 10.0
"""Seconds within which a failure is quick. A look-up that takes longer to fail is not repeated at once."""
_SOON = 1.0
_SOON_PART = 16
_SOON_PARTLY = 8
_SOON_TIMES = 4
"""Failures in a row after which a folder keeps failing. Before that it is asked again soon."""
_FIRST = 5.0
_LONGEST = 300.0
_MOST = 3000.0
_SHARE = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a look-up that failed, and whether the next try may well be answered."""

    error: ServiceError
    is_passing: bool


class FolderBackoff:
    """Kept in memory: after a restart each folder fails once more."""

    def __init__(self, health_check: HealthCheck, *, grace: float = 0.0) -> None:
        """Begin with none; `grace` is how many seconds the doubts of other folders need without a gap."""
        self._health_check = health_check
        # Each failure may take as long as a time-out: a whole grace has to fit in between two.
        self._longest = min(WELL_WITHIN, max(_LONGEST, 4 * grace))
        self._soon = max(0.25, grace / _SOON_PART) if grace else _SOON
        self._counts: Counter[str] = Counter()
        # How often in a row only some of a folder's look-ups were answered.
        self._partly: Counter[str] = Counter()

    def __contains__(self, destfolderid: object) -> bool:
        """Whether the last look-up of a folder failed."""
        return destfolderid in self._counts

    def count(self, destfolderid: str) -> int:
        """Give how often in a row its look-ups have failed."""
        return self._counts[destfolderid]

    def keeps_on(self, destfolderid: str) -> bool:
        """Return whether a folder has failed so often, or for so long, that it is no longer asked again soon."""
        return self._counts[destfolderid] > _SOON_TIMES

    def are_alone(self) -> bool:
        """Whether the service answers for another folder, so that what failed is the trouble of these alone."""
        return self._health_check.is_answered(self)

    def put_off(self, destfolderid: str, error: ServiceError, took: float) -> float:
        """Count one more and give the seconds to wait; raises the error where the service answers for no other."""
        wait = self.failed(destfolderid, error, took, is_passing=failure_of(error, took).is_passing)
        if not self.are_alone():
            raise error
        return wait

    def failed(self, destfolderid: str, error: ServiceError, took: float = 0.0, *, is_passing: bool = False) -> float:
        """Count one more; gives the seconds to wait, longer each time and as long as the service asks for.

        The first few failures in a row that are passing wait shortly. Where it `took` long to fail, that part of the
        time is left to others: what times out must not keep a thread.
        """
        asked = describe(error)[1]
        before = self._counts[destfolderid] if is_passing else max(_SOON_TIMES, self._counts[destfolderid])
        self._counts[destfolderid] = before + 1
        if before < _SOON_TIMES:
            return self._soon
        # The whole delay: nobody else comes back with it.
        wait = delay(before + 1 - _SOON_TIMES, 1.0, first=_FIRST, longest=self._longest)
        return max(min(self._longest, max(wait, asked or 0.0)), min(_MOST, _SHARE * took))

    def partly(self, destfolderid: str) -> float:
        """Count that some of a folder's look-ups were answered and some not; return the seconds to wait.

        The first few times that is a small part of the grace, so that its gaps stay short.
        """
        self._counts.pop(destfolderid, None)
        self._partly[destfolderid] += 1
        return delay(self._partly[destfolderid] - _SOON_PARTLY, 1.0, first=self._soon, longest=self._longest)

    def answered(self, destfolderid: str) -> None:
        """Say that its look-ups are answered."""
        self._counts.pop(destfolderid, None)
        self._partly.pop(destfolderid, None)

    def keep(self, folders: Container[str]) -> None:
        """Forget all other folders."""
        self._counts = Counter({folder: count for folder, count in self._counts.items() if folder in folders})
        self._partly = Counter({folder: count for folder, count in self._partly.items() if folder in folders})


class Repeating:
    """Opens searches and repeats those that fail now and then; shared by all threads.

    A search is repeated at once, up to twice. A folder of which a few searches in a row have failed for all that gets
    one call a time until one is answered, so that an outage is not answered with a storm.
    """

    def __init__(self, service: Service, steady: Callable[[], float]) -> None:
        """Begin with no search failed; `steady` returns seconds of the steady clock."""
        self._service = service
        self._steady = steady
        # For the folders (None for all) of which the last search failed: how many in a row.
        self._failed: dict[str | None, int] = {}

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open a search as `model.Service.search` does; raise the ServiceError of the last try.

        An answer is part of the try up to its hundredth row: a longer one that breaks off later is not repeated here.
        """
        folder = request.folderid
        repeats = _REPEATS if self._failed.get(folder, 0) < _SOON_TIMES else 0
        while True:
            began = self._steady()
            with ExitStack() as stack:
                try:
                    assets = stack.enter_context(self._service.search(request))
                    head = list(islice(assets, _HEAD))
                except ServiceError as error:
                    if not repeats or not failure_of(error, self._steady() - began).is_passing:
                        self._failed[folder] = self._failed.get(folder, 0) + 1
                        raise
                    repeats -= 1
                    continue
                self._failed.pop(folder, None)
                yield chain(head, assets)
                return


def failure_of(error: ServiceError, took: float) -> Failure:
    """Return the failure of a look-up that took so many seconds to fail.

    The next try may be answered unless it took long, or the service refuses the key or asks to be left alone.
    """
    is_passing = took <= _QUICK and not isinstance(error, KeyRefused) and describe(error)[1] is None
    return Failure(error, is_passing)
