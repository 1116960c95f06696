"""Handle failed look-ups: which are repeated at once, how long a folder waits, and whether others are answered.

A health check is a minimal search. Pausing uploads is left to `sync.upload.circuit_breaker`, and conclusions from
look-ups to the callers.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice

import structlog

from assetsync.core.backoff import WELL_WITHIN, delay
from assetsync.errors import (
    BadAnswer,
    KeyRefusalCached,
    KeyRefused,
    OutOfResources,
    ServiceElsewhere,
    ServiceError,
    ServiceUnreachable,
)
from assetsync.model import Asset, Searches, SearchRequest, Service
from assetsync.service.search import ids_query

log = structlog.get_logger(__name__)


# No asset has this name: the database is searched, and the answer is short.
_NOBODY = "assetsync-probe"

_PROBE_PATIENCE = 15.0
"""Seconds for the answer to a minimal search: one that hangs with the service must not delay the next."""

_PROBE_ROWS = 100


def probe(service: Service, destfolderid: str) -> None:
    """Search a folder for a name that no asset has (interface section 4.1). Raise ServiceError if that fails."""
    request = SearchRequest(searchfor=_NOBODY, folderid=destfolderid, dbdirect=True, patience=_PROBE_PATIENCE)
    with service.search(request) as assets:
        # A service that shows something nevertheless, perhaps without end, has answered.
        for _asset in islice(assets, _PROBE_ROWS):
            pass


def probe_everywhere(service: Searches, *, dbdirect: bool) -> None:
    """Search all folders, in the database or the index, for what no asset has. Raise ServiceError if that fails."""
    wanted = _NOBODY if dbdirect else ids_query([_NOBODY])
    with service.search(SearchRequest(searchfor=wanted, dbdirect=dbdirect, patience=_PROBE_PATIENCE)) as assets:
        for _asset in islice(assets, _PROBE_ROWS):
            pass


class HealthCheck:
    """The health checks of one site. They search the same folder while it is answered, and the next after a failure."""

    def __init__(self, service: Service, folders: Sequence[str]) -> None:
        """Begin with the first of the mapped folders."""
        self._service = service
        self._folders = list(folders)

    def ask(self, apart_from: Container[str] = ()) -> None:
        """Search one folder, if possible none of those in `apart_from`. Raise ServiceError."""
        folder = next((folder for folder in self._folders if folder not in apart_from), self._folders[0])
        try:
            probe(self._service, folder)
        except ServiceError:
            # A folder that is never answered must not hide that the service answers.
            self._folders = [*(other for other in self._folders if other != folder), folder]
            raise

    def is_answered(self, failing: Container[str]) -> bool:
        """Return whether the service answers at all, so that only the `failing` folders have trouble."""
        try:
            self.ask(failing)
        except ServiceError as error:
            log.debug("no answer to a probe", detail=str(error))
            return False
        return True


KEY_REFUSED = "key_refused"
"""The code of a refused key: only a person ends it."""


def code_and_wait(error: ServiceError) -> tuple[str, float | None]:
    """Return the stable code of a failure, and the seconds that the service asked the client to wait, if it did."""
    if isinstance(error, KeyRefused):
        return "key_cached" if isinstance(error, KeyRefusalCached) else KEY_REFUSED, None
    if isinstance(error, ServiceElsewhere):
        return "elsewhere", None
    if isinstance(error, ServiceUnreachable):
        return "unreachable" if OutOfResources.of(error) is None else OutOfResources.REASON, None
    if isinstance(error, BadAnswer):
        return "bad_answer", error.retry_after
    return "refused", None


_REPEATS = 2
_HEAD = 100
_QUICK = 10.0
"""Seconds. A look-up that takes longer to fail is not repeated at once."""
_SOON = 1.0
_SOON_PART = 16
_SOON_PARTLY = 8
_SOON_TIMES = 4
"""Failures in a row that are retried soon. After more the waits of the folder grow."""
_FIRST = 5.0
_LONGEST = 300.0
_MOST = 3000.0
_SHARE = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a failed look-up, and whether the next try may well be answered."""

    error: ServiceError
    is_passing: bool


class FolderBackoff:
    """The failures and waits of folders. They are kept in memory: after a restart each folder fails once more."""

    def __init__(self, health_check: HealthCheck, *, grace: float = 0.0) -> None:
        """Begin without failures; `grace` is the seconds that the doubts of other folders need without a gap."""
        self._health_check = health_check
        # Each failure may take as long as a time-out: a whole grace has to fit between two failures.
        self._longest = min(WELL_WITHIN, max(_LONGEST, 4 * grace))
        self._soon = max(0.25, grace / _SOON_PART) if grace else _SOON
        self._counts: Counter[str] = Counter()
        # By folder: how often in a row only some of its look-ups were answered.
        self._partly: Counter[str] = Counter()

    def __contains__(self, destfolderid: object) -> bool:
        """Return whether the last look-up of a folder failed."""
        return destfolderid in self._counts

    def failed_last(self, destfolderid: str) -> bool:
        """Return whether the last look-up of a folder failed, wholly or in part."""
        return destfolderid in self._counts or destfolderid in self._partly

    def count(self, destfolderid: str) -> int:
        """Return how often in a row the look-ups of a folder have failed."""
        return self._counts[destfolderid]

    def keeps_failing(self, destfolderid: str) -> bool:
        """Return whether a folder has failed so often that its retries are far apart."""
        return self._counts[destfolderid] > _SOON_TIMES

    def others_are_answered(self) -> bool:
        """Return whether the service answers for another folder, so that only the failing folders have trouble."""
        return self._health_check.is_answered(self)

    def put_off(self, destfolderid: str, error: ServiceError, took: float) -> float:
        """Count a failure and return the seconds to wait; raise `error` if the service answers for no other folder."""
        wait = self.failed(destfolderid, error, took, is_passing=failure_of(error, took).is_passing)
        if not self.others_are_answered():
            raise error
        return wait

    def failed(self, destfolderid: str, error: ServiceError, took: float = 0.0, *, is_passing: bool = False) -> float:
        """Count a failure; return the seconds to wait: longer each time, and what the service asks for, up to an hour.

        The first few failures in a row wait only briefly if they are passing. After a failure that `took` long, the
        wait is a multiple of that time, so that folders that time out do not occupy a thread.
        """
        asked = code_and_wait(error)[1]
        before = self._counts[destfolderid] if is_passing else max(_SOON_TIMES, self._counts[destfolderid])
        self._counts[destfolderid] = before + 1
        if before < _SOON_TIMES:
            return self._soon
        # The whole delay, not spread: no other client comes back at the same time.
        wait = delay(before + 1 - _SOON_TIMES, 1.0, first=_FIRST, longest=self._longest)
        return max(min(self._longest, wait), asked or 0.0, min(_MOST, _SHARE * took))

    def partly(self, destfolderid: str) -> float:
        """Count that only some of a folder's look-ups were answered; return the seconds to wait.

        The first few times the wait is a small part of the grace, so that the gaps between look-ups stay short.
        """
        self._counts.pop(destfolderid, None)
        self._partly[destfolderid] += 1
        return delay(self._partly[destfolderid] - _SOON_PARTLY, 1.0, first=self._soon, longest=self._longest)

    def answered(self, destfolderid: str) -> None:
        """Record that the look-ups of a folder are answered."""
        self._counts.pop(destfolderid, None)
        self._partly.pop(destfolderid, None)

    def keep(self, folders: Container[str]) -> None:
        """Forget all folders but these."""
        self._counts = Counter({folder: count for folder, count in self._counts.items() if folder in folders})
        self._partly = Counter({folder: count for folder, count in self._partly.items() if folder in folders})


class Repeating:
    """Opens searches and repeats those that fail occasionally; shared by all threads.

    A search is repeated at once, up to twice. After a few searches of a folder in a row have failed nevertheless, each
    search is tried only once until one is answered, so that an outage does not multiply the requests.
    """

    def __init__(self, service: Searches, steady: Callable[[], float]) -> None:
        """Begin with no search failed; `steady` returns seconds of the steady clock."""
        self._service = service
        self._steady = steady
        # By folder (None: all folders): how many searches in a row failed. An answered search removes the folder.
        self._failed: dict[str | None, int] = {}

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open a search as `model.Service.search` does; raise the ServiceError of the last try.

        A try includes the first 100 rows of the answer; an answer that breaks off later is not repeated here.
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
    """Return the failure of a look-up that failed after `took` seconds.

    It is passing unless it took long, the service refused the key, or the service asked the client to wait.
    """
    is_passing = took <= _QUICK and not isinstance(error, KeyRefused) and code_and_wait(error)[1] is None
    return Failure(error, is_passing)
