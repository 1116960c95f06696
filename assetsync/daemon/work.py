"""Provide the daemon's kinds of work as steps that loops and jobs call.

The steps drive the parts of a `Site`. The threads are left to `daemon`, the handling of errors to `loops`, reading from
the service to `readback`.
"""

import contextlib
import threading
from collections.abc import Callable

import structlog

from assetsync.app import Site
from assetsync.daemon.loops import Bell
from assetsync.daemon.readback import ReadBack
from assetsync.daemon.watching import Watching
from assetsync.errors import LedgerError, OutOfResources, RootElsewhere, RootMissing, ServiceElsewhere, ServiceError
from assetsync.sync.intake.watch_queue import Looker, WatchQueue
from assetsync.sync.requests.take import take_requests
from assetsync.sync.upload.queue import Step

log = structlog.get_logger(__name__)

_IDLE = 5.0
_PAUSED = 0.5
_TEND = 1.0
_HELD_UP = 0.25
_POLL = 60.0
_CANARY_PATIENCE = 10.0


class Work:
    """The steps of one site."""

    def __init__(self, site: Site, *, idle: float = _IDLE, reload: Callable[[], None] = lambda: None) -> None:
        """Make the steps; none waits longer than about `idle` seconds for work. `reload` starts the site anew."""
        self._site = site
        self._idle = min(idle, _IDLE)
        self._clock = site.context.clock
        self._ledger = site.context.ledger
        self._bell = Bell()
        self._scan_bell = Bell()
        self._scan_wanted = threading.Event()
        self._unread = threading.Event()
        """Set while there may be sent files that changed since, or whose sidecars changed."""
        self.read_back = ReadBack(site, idle=self._idle, found=self._unread.set)
        self._watch_queue = WatchQueue()
        self._looker = Looker(site.context, site.plan, site.single_looks, self._watch_queue, site.sidecars.cache)
        patience = min(_CANARY_PATIENCE, 2 * self._idle)
        self.watching = Watching(site, self._watch_queue, want_scan=self.want_scan, reload=reload, patience=patience)
        self._next_scan = self._clock.steady()
        self._next_awaited = 0.0
        self._root_missing = False

    def steps(self) -> dict[str, Callable[[], float]]:
        """Return the steps by the name of the loop that repeats each; a step returns the seconds to pause."""
        return {
            "upload": self.send,
            "look": self.look,
            "scan": self.scan,
            "tend": self.tend,
            "recover": self.recover,
            "read-back": self.read_back.step,
        }

    def begin(self) -> None:
        """Clean up after the last process, start the watcher and request the first scan.

        Watching starts before that scan, so that no change is missed between the two.
        """
        # Retry without limit to record a result while the ledger cannot be written: it is kept nowhere else.
        self._site.uploads.results.patience = float("inf")
        self._site.begin()
        with contextlib.suppress(RootElsewhere):
            self._site.root_identity.check()
            self._site.brakes.check_mappings()
        self.watching.start()
        self._scan_wanted.set()

    def end(self) -> None:
        """Stop the watcher."""
        self.watching.stop()

    def wake(self) -> None:
        """End the wait of every step."""
        self._bell.ring()
        self._scan_bell.ring()
        self.read_back.wake()
        self._watch_queue.wake()

    def send(self) -> float:
        """Send files as long as some are due, or wait for a due file; return the seconds to pause."""
        heard = self._bell.heard()
        brakes = self._site.brakes

        def go_on() -> bool:
            return not self._clock.wait(0) and not brakes.pulled()

        is_shut = brakes.pulled() or not self._site.service_identity.is_known
        step = Step.PAUSED if is_shut else self._site.uploader.run(go_on)
        if step is Step.IDLE:
            due = self._ledger.queue.next_due()
            wait = self._idle
            if due is not None:
                wait = due - self._clock.now()
                # A due file that the queue did not return waits for something else, such as a held folder, maybe for
                # hours.
                wait = min(self._idle, max(0.05, wait) if wait > 0 else _HELD_UP)
            self._bell.wait(heard, wait)
        return _PAUSED if step is Step.PAUSED else 0.0

    def look(self) -> float:
        """Look at paths of the watch queue and at settling files; return the seconds to pause."""
        if self._site.root_identity.elsewhere:
            # After the operator accepts this tree, a scan covers all of it.
            return self._idle
        try:
            queued = self._looker.step(0.0 if self._unread.is_set() else self._idle)
        except (LedgerError, OutOfResources):
            # The paths taken from the watch queue are kept nowhere else.
            self.want_scan("looks were lost while the ledger or the tree could not be used")
            raise
        self._site.runtime_state.looked()
        self._site.brakes.check_hour(self._site.single_looks.new_versions)
        if queued:
            self._site.upload_queue.clear()
            self._bell.ring()
        self._read_drift()
        if self._watch_queue.overflowed():
            self.want_scan("the queue of changes overflowed")
        if self._site.settling.overflowed:
            # Only a scan finds the files beyond the limit. An immediate scan would find no more room for them.
            soon = self._clock.steady() + max(_POLL, self._site.config.watch.settle)
            self._next_scan = min(self._next_scan, soon)
        return 0.0

    def scan(self) -> float:
        """Scan the tree if a scan was requested or is due; else wait. Return 0, the pause before the next step.

        Once a minute, what the last scan missed is looked for; if it is back, a scan begins at once. Blocked files that
        can be read again are retried then, too.
        """
        heard = self._scan_bell.heard()
        if self._clock.steady() >= self._next_awaited:
            self._next_awaited = self._clock.steady() + _POLL
            self._site.retry_opened()
            if (found := self._site.rescan.awaited.found()) is not None:
                self.want_scan(found)
        if not self._scan_wanted.is_set() and self._clock.steady() < self._next_scan:
            if not self._read_again():
                self._scan_bell.wait(heard, min(self._idle, max(0.0, self._next_scan - self._clock.steady())))
            return 0.0
        self._scan_wanted.clear()
        self._next_scan = self._clock.steady() + (_POLL if self.watching.polling else float("inf"))
        try:
            self._scan()
        except (LedgerError, OutOfResources):
            self._scan_wanted.set()
            raise
        return 0.0

    def _read_again(self) -> int:
        """Read some files that only look changed; return their number."""
        read, wants_scan = self._site.rescan.read_again()
        if read:
            self._site.upload_queue.clear()
            self._bell.ring()
        if wants_scan:
            self.want_scan("files that look like others were read")
        return read

    def recover(self) -> float:
        """Check the service's health during a pause, or try a held folder; return the pause.

        Apart from all other look-ups: some of them may hang with the service for as long as `service.read_timeout`.
        """
        site = self._site
        if site.gates.closed is None:
            site.folder_listing.try_held()
        elif site.gates.check_due() and site.gates.check():
            self._bell.ring()
        return _TEND

    def tend(self) -> float:
        """Resolve doubts, carry out requests, tend the watcher; return the pause."""
        site = self._site
        if site.count_pauses() or site.try_what_waited():
            self._bell.ring()
        if site.gates.lookups_answered:
            # Doubts are resolved even while uploads fail, if look-ups get answers.
            try:
                if not site.service_identity.is_known:
                    site.service_identity.make_sure()
                    self.read_back.look_for_audits()
                    self._bell.ring()
                site.upload_address_check.step(tries_key=True)
                site.resolver.step()
            except ServiceElsewhere as error:
                log.debug("waits for a person", detail=str(error))
            except ServiceError as error:
                site.gates.lookup_failed(error)
        if take_requests(site.context):
            site.size_limit.reload()
            site.upload_queue.clear()
            self._bell.ring()
            self.read_back.look_for_audits()
            self._unread.set()
            # Only a scan finds files that the operator released, or corrected before the request.
            self.want_scan("a person has decided something")
        self.watching.tend()
        # Return in time for the next look-up: a gap between look-ups would restart the grace.
        due = self._ledger.doubts.next_look()
        return _TEND if due is None else min(_TEND, max(0.05, due - self._clock.now()))

    def want_scan(self, why: str = "it is time") -> None:
        """Request a scan; several requests cause one scan. `why` is logged."""
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
            self._next_scan = self._clock.steady() + _POLL
            self._root_missing = True
            self._site.root_identity.missing(str(error))
            return
        if self._root_missing:
            self._root_missing = False
            log.warning("the root is there again")
        self._bell.ring()
        self._unread.set()
        if self._ledger.queue.counts(self._clock.now())[0] == self._ledger.reports.count_waiting_for_sidecar()[0]:
            self._site.brakes.queue_is_empty()
        log.info(
            "scanned",
            files=result.scanned,
            queued=result.to_send,
            unsettled=result.unsettled,
            unreadable=result.report.unreadable_count,
            seconds=round(self._clock.steady() - started, 2),
        )
        self._watch_queue.wake()
        self.watching.check_coverage(result.report.folders)
        if self.watching.polling:
            self._next_scan = self._clock.steady() + _POLL

    def _read_drift(self) -> None:
        """Read the drift of some files in question.

        Only some, so that files saved meanwhile are looked at between two steps.
        """
        if self._looker.take_saw_sidecar():
            self._unread.set()
        if not self._unread.is_set():
            return
        # Clear before the step: a scan may set the event again during it.
        self._unread.clear()
        more = True
        try:
            more = self._site.drift.step() > 0
        finally:
            if more:
                self._unread.set()
