"""Keep the gates of a site: what holds uploads back for a reason outside of their files, and what opens it again.

All threads share them. The rules are those of `core.gate`. Here outcomes, pauses by a person, the upload window and the
counted doubts meet. A file's own reasons are left to `sync.upload.decide`, a brake to `sync.brakes`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace

import structlog

from assetsync.config.models import SiteConfig
from assetsync.core.doubt_grace import grace_of_whole
from assetsync.core.gate import (
    REST,
    Closed,
    Concerns,
    DoubtLimits,
    FolderGate,
    Met,
    ServiceGate,
    Trouble,
    accepted_within,
    concerns,
)
from assetsync.core.pauses import SITE
from assetsync.errors import LedgerError, OutOfResources, ServiceElsewhere, ServiceError
from assetsync.ledger.doubts import Doubts
from assetsync.ledger.queue import Choice
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Clock, Sent
from assetsync.sync.context import Context
from assetsync.sync.lookup_gates import HealthCheck, trouble_of

log = structlog.get_logger(__name__)

_READ_AGAIN = 30.0
_COUNT_AGAIN = 0.1
_SHORTAGE = 5.0
"""Seconds without an upload after the process lacked something: the uploads under way free theirs."""

_RESUMES = "tried again at least every minute, and sending resumes by itself"


class DoubtCount:
    """The limits of doubts, counted from the ledger before a file and after each new doubt.

    Accepted uploads of any process are read every half minute. What this process adds until then is counted here.
    """

    def __init__(self, config: SiteConfig, doubts: Doubts, clock: Clock) -> None:
        """Start with the uploads of earlier processes."""
        self._doubts = doubts
        self._clock = clock
        self._folders = {folder.destfolderid for folder in config.folders}
        self._workers = config.upload.workers
        self._times = config.upload.doubt_grace, config.service.read_timeout
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self.limits = DoubtLimits(0)
        self._counted_at = float("-inf")
        self._read: Counter[str] = Counter()
        self._read_as = (0.0, float("-inf"))
        self._added: Counter[str] = Counter()

    def anew(self) -> DoubtLimits:
        """Count the doubts and the accepted uploads; return the limits, which are used from now on."""
        with self._lock:
            self._counted_at = float("-inf")
            found = self._doubts.by_folder()
            graces = [self._needed(each.took, answered=each.answered) for each in found.values()]
            window = accepted_within(max(graces, default=0.0))
            accepted, began = self.accepted_within(window), self._clock.now() - window
            counts = {folder: each.doubts for folder, each in found.items()}
            failing = {folder for folder, each in found.items() if each.newest_at > began}
            self.limits = DoubtLimits.of(counts, accepted, self._folders, failing=failing, workers=self._workers)
            self._counted_at = self._clock.steady()
            return self.limits

    def recent(self) -> DoubtLimits:
        """Return the limits; while no folder is held, by a count of the last tenth of a second: it takes 50 us."""
        is_old = self._clock.steady() - self._counted_at >= _COUNT_AGAIN
        return self.anew() if is_old or self.limits.held_for_waiting else self.limits

    def add_accepted(self, destfolderid: str) -> None:
        """Count an upload that was accepted now; does not block."""
        with self._adding:
            if not self._read[destfolderid] + self._added[destfolderid]:
                self._counted_at = float("-inf")
            self._added[destfolderid] += 1

    def accepted_within(self, seconds: float) -> Counter[str]:
        """Return the number of accepted uploads of each folder, to about half a minute."""
        steady = self._clock.steady()
        if self._read_as[0] != seconds or steady - self._read_as[1] >= _READ_AGAIN:
            with self._adding:
                self._added.clear()
            self._read = self._doubts.accepted_since(self._clock.now() - seconds)
            self._read_as = seconds, steady
        with self._adding:
            return self._read + self._added

    def decided_at(self) -> float | None:
        """Return when the first open doubt can be decided, in seconds since the epoch.

        Return None if there is none, or if it is overdue: it waits for answered look-ups.
        """
        ends = [ended_at + self._needed(took, answered=answered) for ended_at, took, answered in self._doubts.ended()]
        first = min(ends, default=0.0)
        return first if first > self._clock.now() else None

    def _needed(self, took: float, *, answered: bool) -> float:
        """Return the grace in seconds of an upload in doubt that was not looked up yet."""
        grace, read_timeout = self._times
        return grace_of_whole(grace, read_timeout, took, 0.0, answered=answered)


class Gates:
    """The gates of one site."""

    def __init__(
        self, config: SiteConfig, context: Context, health_check: HealthCheck,
        closed: Callable[[Collection[str]], Collection[str]],
    ) -> None:  # fmt: skip
        """Start with all of them open; `closed` returns the folders that are being listed, given those with uploads."""
        self._window = config.upload.window
        self._clock = context.clock
        self._chance = context.chance.random
        self._pauses = context.ledger.pauses
        self._health_check = health_check
        self._closed = closed
        self._lock = threading.Lock()
        self._service = ServiceGate()
        # What the process lacked last, over or not.
        self._process: Closed | None = None
        self.shortages = 0
        """How often the process lacked descriptors, memory or threads."""
        self._folders: dict[str, FolderGate] = {}
        # The folders whose uploads got no valid answer since one was accepted: others go first.
        self._lost_in: frozenset[str] = frozenset()
        self.doubts = DoubtCount(config, context.ledger.doubts, context.clock)

    # Readers

    @property
    def closed(self) -> Closed | None:
        """Why nothing is sent by the process's fault or the service's, None if something may be."""
        return self._lacking(0.0) or self._service.closed

    @property
    def ongoing(self) -> Closed | None:
        """The closure that is not known to be over (`ServiceGate.ongoing`)."""
        return next(iter(self.closures()[1]), None)

    def closures(self) -> tuple[list[Closed], list[Closed]]:
        """Return the last closure of each gate, over or not, and those that are not known to be over."""
        with self._lock:
            last = self._service.last, self._process
            ongoing = self._service.ongoing(self._clock.steady()), self._lacking(REST)
        return [each for each in last if each], [each for each in ongoing if each]

    @property
    def lookups_answered(self) -> bool:
        """Whether look-ups are answered, so that doubts can be resolved although nothing is sent."""
        return self._service.lookups_answered

    @property
    def awaits_trial(self) -> bool:
        """Whether only an upload can show that the trouble is over."""
        return self._service.awaits_trial

    def may_send(self) -> bool:
        """Return whether the upload window is open, and no person has paused the site."""
        is_hour = self._window is None or self._window.at(self._clock.now()) != 0
        return is_hour and SITE not in self.paused()

    def paused(self) -> tuple[bytes, ...]:
        """Return the paths from which nothing is sent because a person has paused them."""
        return tuple(pause.path for pause in self._pauses.in_force(self._clock))

    def held(self) -> set[str]:
        """Return the folders that take no upload now, because of their doubts or their failures in a row."""
        return {*self.doubts.anew().held, *self._failing()}

    def is_full(self) -> bool:
        """Return whether so many uploads are in doubt that no folder takes any before some are decided."""
        return self.doubts.anew().is_full

    def passes(self, row: FileRow) -> bool:
        """Return whether the upload of a taken file may begin; by the last count of the doubts."""
        if self.closed is not None or not self.may_send() or row.destfolderid in self.doubts.limits.held:
            return False
        is_paused = any(pause.covers(row.path) for pause in self._pauses.in_force(self._clock))
        return not is_paused and row.destfolderid not in self._failing()

    def choices(self, busy: Collection[str] = (), *, anew: bool = False) -> Iterator[tuple[Choice, Choice]]:
        """Yield a choice among the oldest due files and one among the newest; first without folders that go last.

        Files of closed folders and paused paths are left out, and those of the `busy` folders that take one file at a
        time. With `anew` the doubts are counted again; otherwise the last count decides.
        """
        limits, pauses = self.doubts.anew() if anew else self.doubts.limits, self.paused()
        apart = (*self._closed(busy), *self._failing(), *limits.one_at_a_time.intersection(busy))
        for last in dict.fromkeys((self._lost_in, frozenset())):
            oldest = Choice((*apart, *last, *limits.held_for_waiting), pauses=pauses)
            yield oldest, Choice((*apart, *last, *limits.held), newest=True, pauses=pauses)

    def _lacking(self, rest: float) -> Closed | None:
        lack = self._process
        return lack if lack is not None and self._clock.steady() < lack.until + rest else None

    def _failing(self) -> list[str]:
        now = self._clock.steady()
        return [folder for folder, gate in [*self._folders.items()] if now < gate.until]

    # Outcomes

    def enter(self) -> bool:
        """Return whether one upload may pass; the caller must call `leave` after True."""
        with self._lock:
            entered = None if self._lacking(0.0) else self._service.entered(self._clock.steady())
            self._service = entered or self._service
            return entered is not None

    def leave(self) -> None:
        """Record that the work on a file has ended, with any result."""
        with self._lock:
            self._service = self._service.left()

    def answered(self) -> None:
        """Record an upload whose answer has the interface's form. It ends a lack whose time is over, too."""
        with self._lock:
            self._service = self._service.answered()
            if self._process is not None and not self._lacking(0.0):
                self._process = replace(self._process, until=float("-inf"))

    def accepted(self, destfolderid: str) -> None:
        """Record an accepted upload, which ends the failures of its folder; does not block."""
        with self._lock:
            self._lost_in = frozenset()
            self._folders.pop(destfolderid, None)
        self.doubts.add_accepted(destfolderid)

    def doubted(self) -> None:
        """Count after a new doubt; if the ledger cannot be read now, the next file that is taken is counted for."""
        with suppress(LedgerError):
            self.doubts.anew()

    def ended(self, destfolderid: str, sent: Sent) -> None:
        """Record how an upload ended that was not accepted. May block, to count the doubts."""
        outcome, concern = sent.outcome, concerns(sent)
        loses = outcome.answer is Answer.DOUBT
        fails_everywhere = False
        if concern is Concerns.OPENS:
            self.answered()
        elif concern is Concerns.FOLDER:
            fails_everywhere = self._failed_in(destfolderid)
        elif concern is Concerns.SERVICE and loses:
            with self._lock:
                self._lost_in |= {destfolderid}
        if loses or outcome.answer is Answer.DUPLICATE:
            self.doubted()
        if concern is Concerns.SERVICE or fails_everywhere:
            # After an answered failure only the folder waits as long as the service asked: the ledger holds it.
            wait = None if fails_everywhere else outcome.retry_after
            self.failed(Trouble(outcome.reason, outcome.detail, wait, loses_answers=loses))

    def _failed_in(self, destfolderid: str) -> bool:
        """Count an answered failure of a folder; return whether the service fails in several folders."""
        now = self._clock.steady()
        with self._lock:
            self._folders[destfolderid] = self._folders.get(destfolderid, FolderGate()).failed(now)
            self._service = self._service.failed_into(destfolderid)
            return self._service.fails_everywhere

    def lookup_failed(self, error: ServiceError) -> None:
        """Record a look-up that failed while no other folder was answered."""
        # A stop cuts look-ups.
        if not self._clock.wait(0):
            self.failed(trouble_of(error, Met.LOOKUP))

    def failed(self, trouble: Trouble) -> None:
        """Close the gate of the service or the process, and log it if the trouble is new."""
        if trouble.reason == OutOfResources.REASON:
            self.lacks(trouble.detail)
            return
        now = self._clock.steady()
        with self._lock:
            is_new = self._service.continued(now) is None
            self._service = self._service.failed(trouble, now, self._chance())
        if is_new and trouble.met_by is not Met.CHECK:
            log.warning("sending paused", reason=trouble.reason, detail=trouble.detail, next=_RESUMES)

    def lacks(self, error: OutOfResources | str) -> None:
        """Close the gate of the process for a while, because it lacks descriptors, memory or threads."""
        now = self._clock.steady()
        with self._lock:
            before = self._lacking(REST)
            self.shortages += 1
            since, failures = (now, 0) if before is None else (before.since, before.failures + (now >= before.until))
            self._process = Closed(OutOfResources.REASON, str(error), since, now + _SHORTAGE, failures)
        if before is None:
            log.warning("sending paused", reason=OutOfResources.REASON, detail=str(error), next=_RESUMES)

    def nothing_to_send(self) -> None:
        """Record that no file can be sent, so that an answered health check shows the end of the trouble."""
        with self._lock:
            self._service = self._service._replace(needs_trial=False)

    def check_due(self) -> bool:
        """Return whether a health check is due."""
        closed = self._service.closed
        return closed is not None and not self._lacking(0.0) and self._clock.steady() >= closed.until

    def check(self) -> bool:
        """Return whether the service answers a minimal request; while its gate is closed this ends or prolongs that."""
        try:
            # If it is another service, it answers all the same, and the wait is for an operator.
            with suppress(ServiceElsewhere):
                self._health_check.ask()
        except ServiceError as error:
            self.failed(trouble_of(error, Met.CHECK))
            return False
        self.checked()
        return True

    def checked(self) -> None:
        """Record an answered health check, so that one upload may pass."""
        with self._lock:
            self._service = self._service.checked(self._clock.steady())
