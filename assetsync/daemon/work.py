"""The daemon's kinds of work, each as a step that a loop or a job calls.

The steps drive the parts of a `Site`; which thread calls which, and what becomes of errors, is `daemon`'s and `loops`'.
"""

import contextlib
import threading

import structlog

from assetsync.app import Site
from assetsync.daemon.bell import Bell
from assetsync.daemon.readback import Reading
from assetsync.daemon.watching import Watching
from assetsync.errors import LedgerError, RootElsewhere, RootMissing, ServiceElsewhere, ServiceError
from assetsync.sync.health_check import describe
from assetsync.sync.intake.watch_queue import Looker, WatchQueue
from assetsync.sync.requests import take_requests
from assetsync.sync.upload.uploader import Step

log = structlog.get_logger(__name__)

_IDLE = 5.0
_PAUSED = 0.5
_TEND = 1.0
_SEND = 60.0
_HELD_UP = 0.25
_POLL = 60.0
_CANARY_PATIENCE = 10.0


class Work:
    """The steps of one site."""

    def __init__(self, site: Site, *, idle: float = _IDLE) -> None:
        """Make the steps; none waits much longer than `idle` seconds for work."""
        self._site = site
        self._idle = min(idle, _IDLE)
        self._clock = site.context.clock
        self._ledger = site.context.ledger
        self._bell = Bell()
        self._scan_bell = Bell()
        self._scan_wanted = threading.Event()
        self._unread = threading.Event()
        """Set while there may be files of which something changed since they were sent."""
        self.reading = Reading(site, idle=self._idle, trouble=self._trouble, found=self._unread.set)
        self._hints = WatchQueue()
        self._looker = Looker(site.context, site.plan, site.looking, self._hints, site.sidecars)
        patience = min(_CANARY_PATIENCE, 2 * self._idle)
        self.watching = Watching(site, self._hints, want_scan=self.want_scan, patience=patience)
        self._next_scan = self._clock.steady()
        self._root_missing = False

    def begin(self) -> None:
        """Settle what a crash left, and begin to watch, before the first scan: nothing falls between them."""
        # A result that cannot be written down now is kept until it can: nobody else knows of it.
        self._site.sender.results.patience = float("inf")
        self._site.begin()
        with contextlib.suppress(RootElsewhere):
            self._site.place.check()
            self._site.rescan.heed_mappings()
        self.watching.start()
        self._scan_wanted.set()

    def end(self) -> None:
        """End watching."""
        self.watching.stop()

    def wake(self) -> None:
        """Let every waiting step return."""
        self._bell.ring()
        self._scan_bell.ring()
        self.reading.wake()
        self._hints.wake()

    def send(self) -> float:
        """Send files for a while, or wait for one."""
        heard = self._bell.heard()
        until = self._clock.steady() + _SEND
        brakes = self._site.brakes

        def go_on() -> bool:
            return self._clock.steady() < until and not self._clock.wait(0) and not brakes.pulled()

        is_shut = brakes.pulled() or not self._site.service_identity.is_known
        step = Step.PAUSED if is_shut else self._site.sender.run(go_on)
        if step is Step.IDLE:
            self._bell.wait(heard, self._until_due())
        return _PAUSED if step is Step.PAUSED else 0.0

    def look(self) -> float:
        """Look at what was hinted at and what is settling."""
        if self._site.place.elsewhere:
            # Once a person has agreed to this tree, a scan meets all of it.
            return self._idle
        try:
            queued = self._looker.step(0.0 if self._unread.is_set() else self._idle)
        except LedgerError:
            # What was taken for a look is not kept anywhere else.
            self.want_scan("looks were lost while the ledger could not be used")
            raise
        self._site.runtime_state.looked()
        self._site.brakes.check_hour(self._site.looking.new_versions)
        if queued:
            self._site.upload_queue.clear()
            self._bell.ring()
        self._read_drift()
        if self._hints.overflowed():
            self.want_scan("more happened at once than is kept in memory")
        if self._site.settling.overflowed:
            # Only a scan meets the rest; at once, it would find no more room than there was.
            soon = self._clock.steady() + max(_POLL, self._site.config.watch.settle)
            self._next_scan = min(self._next_scan, soon)
        return 0.0

    def scan(self) -> float:
        """Scan the tree when it is wanted."""
        heard = self._scan_bell.heard()
        if not self._scan_wanted.is_set() and self._clock.steady() < self._next_scan:
            self._scan_bell.wait(heard, min(self._idle, max(0.0, self._next_scan - self._clock.steady())))
            return 0.0
        self._scan_wanted.clear()
        self._next_scan = self._clock.steady() + (_POLL if self.watching.polling else float("inf"))
        try:
            self._scan()
        except LedgerError:
            self._scan_wanted.set()
            raise
        return 0.0

    def tend(self) -> float:
        """Do the small things: probe, resolve doubts, carry out requests, see after the watcher."""
        site = self._site
        if site.circuit_breaker.pause is not None:
            since = site.circuit_breaker.pause.since
            if site.circuit_breaker.probe_due() and site.probe():
                log.warning("the service answers again", after=round(self._clock.steady() - since, 1))
                self._bell.ring()
        if site.try_what_waited():
            self._bell.ring()
        if site.circuit_breaker.looks_answered:
            # Also while uploads fail: what is in doubt need not wait for them.
            try:
                if not site.service_identity.is_known:
                    site.service_identity.make_sure()
                    self.reading.look_for_audits()
                    self._bell.ring()
                site.resolver.step()
            except ServiceElsewhere as error:
                log.debug("waits for a person", detail=str(error))
            except ServiceError as error:
                self._trouble(error)
        if take_requests(site.context):
            site.upload_queue.clear()
            self._bell.ring()
            self.reading.look_for_audits()
            self._unread.set()
            # What was released, or put right before it was asked for, is seen by a scan alone.
            self.want_scan("a person has decided something")
        self.watching.tend()
        # In time for the next look-up: a gap between them would begin the grace anew.
        due = self._ledger.doubts.next_look()
        return _TEND if due is None else min(_TEND, max(0.05, due - self._clock.now()))

    def want_scan(self, why: str = "it is time") -> None:
        """Ask for a scan; many asks are one scan."""
        if not self._scan_wanted.is_set():
            log.info("scan wanted", why=why)
        self._scan_wanted.set()
        self._scan_bell.ring()

    def _scan(self) -> None:
        started = self._clock.steady()
        self._site.try_again(only_due=True)
        try:
            result = self._site.rescan.run()
        except RootElsewhere:
            self._next_scan = self._clock.steady() + _POLL
            return
        except RootMissing as error:
            self._root_missing = True
            self._site.place.missing(str(error))
            return
        if self._root_missing:
            self._root_missing = False
            log.warning("the root is there again")
        self._bell.ring()
        self._unread.set()
        if self._ledger.queue.counts(self._clock.now())[0] == 0:
            self._site.brakes.queue_is_empty()
        log.info(
            "scanned",
            files=result.scanned,
            queued=result.to_send,
            unsettled=result.unsettled,
            unreadable=result.report.unreadable_count,
            seconds=round(self._clock.steady() - started, 2),
        )
        self._hints.wake()
        self.watching.check_coverage(result.report.folders)
        if self.watching.polling:
            self._next_scan = self._clock.steady() + _POLL

    def _read_drift(self) -> None:
        """See to some of the files beside which something was said: what is saved meanwhile is looked at in between."""
        if self._looker.saw_a_sidecar():
            self._unread.set()
        if not self._unread.is_set():
            return
        # In this order: what a scan finds in between is not forgotten.
        self._unread.clear()
        more = True
        try:
            more = self._site.drift.step() > 0
        finally:
            if more:
                self._unread.set()

    def _until_due(self) -> float:
        due = self._ledger.queue.next_due()
        if due is None:
            return self._idle
        wait = due - self._clock.now()
        # What is due and was not given waits for something else, a held folder say, and may do so for hours.
        return min(self._idle, max(0.05, wait) if wait > 0 else _HELD_UP)

    def _trouble(self, error: ServiceError) -> None:
        reason, retry_after = describe(error)
        if self._site.circuit_breaker.trouble(reason, str(error), retry_after, looking=True):
            log.warning("paused", reason=reason, detail=str(error))
