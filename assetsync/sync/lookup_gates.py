"""Handle failed look-ups: which are repeated at once, how long a folder waits, and whether others are answered.

A health check is a minimal search. What holds uploads back is left to `sync.gates`, and conclusions from look-ups to
the callers.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice

import structlog

from assetsync.core.gate import Met, Pace, Trouble
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


def probe(service: Searches, destfolderid: str, patience: float = _PROBE_PATIENCE) -> None:
    """Search a folder for a name that no asset has (interface section 4.1). Raise ServiceError if that fails."""
    request = SearchRequest(searchfor=_NOBODY, folderid=destfolderid, dbdirect=True, patience=patience)
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


_REASONS: Sequence[tuple[type[ServiceError], str]] = (
    (KeyRefusalCached, "key_cached"),
    (KeyRefused, KEY_REFUSED),
    (ServiceElsewhere, "elsewhere"),
    (ServiceUnreachable, "unreachable"),
    (BadAnswer, "bad_answer"),
    (ServiceError, "refused"),
)
"""The stable words for failures of look-ups; the first that fits."""


def trouble_of(error: ServiceError, met_by: Met = Met.UPLOAD) -> Trouble:
    """Return the trouble that a failure shows."""
    reason = next(word for kind, word in _REASONS if isinstance(error, kind))
    if reason == "unreachable" and OutOfResources.of(error) is not None:
        reason = OutOfResources.REASON
    return Trouble(reason, str(error), error.retry_after if isinstance(error, BadAnswer) else None, met_by)


_REPEATS = 2
_HEAD = 100
_FEW = 4
_QUICK = 10.0
"""Seconds. A look-up that takes longer to fail is not repeated at once."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a failed look-up, and whether the next try may well be answered."""

    error: ServiceError
    is_passing: bool


class LookupGates:
    """The gates of folders for look-ups of one kind. They are kept in memory: after a restart each fails once more."""

    def __init__(self, health_check: HealthCheck, *, grace: float = 0.0) -> None:
        """Begin with all open; `grace` is the seconds that the doubts of other folders need without a gap."""
        self._health_check = health_check
        self._pace = Pace.of_lookups(grace)
        # How many look-ups in a row failed, and how many rounds in a row were answered only in part.
        self._failed: Counter[str] = Counter()
        self._partly: Counter[str] = Counter()

    def __contains__(self, destfolderid: object) -> bool:
        """Return whether the last look-up of a folder failed."""
        return destfolderid in self._failed

    def failed_last(self, destfolderid: str) -> bool:
        """Return whether the last look-up of a folder failed, wholly or in part."""
        return destfolderid in self._failed or destfolderid in self._partly

    def count(self, destfolderid: str) -> int:
        """Return how many look-ups of a folder in a row have failed."""
        return self._failed[destfolderid]

    def keeps_failing(self, destfolderid: str) -> bool:
        """Return whether a folder has failed so often that its retries are far apart."""
        return self._failed[destfolderid] > self._pace.few

    def others_are_answered(self) -> bool:
        """Return whether the service answers for another folder, so that only the failing folders have trouble."""
        return self._health_check.is_answered(self._failed)

    def put_off(self, destfolderid: str, error: ServiceError, took: float) -> float:
        """Count a failure and return the seconds to wait; raise `error` if the service answers for no other folder."""
        wait = self.failed(destfolderid, failure_of(error, took), took)
        if not self.others_are_answered():
            raise error
        return wait

    def failed(self, destfolderid: str, failure: Failure, took: float = 0.0) -> float:
        """Count a failure; return the seconds to wait: longer each time, and what the service asks for, up to an hour.

        The first few failures in a row wait only briefly if they are passing.
        """
        before = self._failed[destfolderid]
        self._failed[destfolderid] = 1 + (before if failure.is_passing else max(self._pace.few, before))
        asked = trouble_of(failure.error).retry_after or 0.0
        return self._pace.wait(self._failed[destfolderid], asked=asked, took=took)

    def partly(self, destfolderid: str) -> float:
        """Count that only some of a folder's look-ups were answered; return the seconds to wait."""
        self._failed.pop(destfolderid, None)
        self._partly[destfolderid] += 1
        return self._pace.partly().wait(self._partly[destfolderid])

    def answered(self, destfolderid: str) -> None:
        """Record that the look-ups of a folder are answered."""
        self._failed.pop(destfolderid, None)
        self._partly.pop(destfolderid, None)

    def keep(self, folders: Container[str]) -> None:
        """Forget all folders but these."""
        for each in (self._failed, self._partly):
            for folder in [folder for folder in each if folder not in folders]:
                del each[folder]


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
        repeats = _REPEATS if self._failed.get(folder, 0) < _FEW else 0
        while True:
            began = self._steady()
            with ExitStack() as stack:
                try:
                    assets = stack.enter_context(self._service.search(request))
                    head = list(islice(assets, _HEAD))
                except ServiceError as error:
                    took = self._steady() - began
                    is_late = request.patience is not None and took >= request.patience
                    if not repeats or is_late or not failure_of(error, took).is_passing:
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
    is_passing = took <= _QUICK and not isinstance(error, KeyRefused) and trouble_of(error).retry_after is None
    return Failure(error, is_passing)
