"""Run once through all phases, with the same parts that the daemon runs.

The phases are scan, audit, upload and verify, with look-ups and indexing beside. A run ends when the site is in sync,
when nothing left depends on time, or when the wait is over. The result is left to `report`, printing and the exit code
to the command.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

import structlog

from assetsync.app import Site
from assetsync.core.pauses import SITE
from assetsync.errors import OutOfResources, RootElsewhere, RootMissing, ServiceElsewhere, ServiceError
from assetsync.ledger.reports import Counts
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.reconcile.report import Report, report_of
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.readback.verifier import BATCH
from assetsync.sync.requests.decisions import Adopt
from assetsync.sync.requests.take import take_requests
from assetsync.sync.upload.queue import Step

log = structlog.get_logger(__name__)

_TICK = 0.1
_KEY_PROBES = 2
_STOP_PATIENCE = 10.0


class Progress(Protocol):
    """The receiver of a run's progress."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase: scan, audit, upload or verify; `total` is in files, None if unknown."""

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Report how much of the phase is done; `done` is in files, and a large file in flight counts in part."""


class Reconciler:
    """A run over one site; `wait`, in seconds, counts from the last answered POST or the begin of an outage."""

    def __init__(self, site: Site, *, wait: float, adopt: bool, progress: Progress) -> None:
        self._site = site
        self._clock = site.context.clock
        self._ledger = site.context.ledger
        self._wait = wait
        self._adopt = adopt
        self._progress = progress
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._passes = 0
        self._braked = False
        self._sending = True
        self._idle_since: float | None = None
        # Whether the last look-ups were answered, and the total seconds of each job.
        self._read_back = False
        # Whether the last pass read files that only look changed, and the result of the last scan.
        self._reads = False
        self._result: ScanResult | None = None
        self._spent = {"index": 0.0, "verify": 0.0} if site.indexer.enabled else {"verify": 0.0}

    def run(self) -> Report:
        """Run all phases and return the result.

        Raise RootMissing for a new site without its root, LedgerError, and the error that ended a worker.
        """
        started = self._clock.steady()
        self._site.begin()
        take_requests(self._site.context)
        with contextlib.suppress(ServiceError):
            # Lifts the brake after the address was corrected. A ServiceError is met again in `_look_up`.
            self._site.service_identity.make_sure()
        # The best estimate is the number of files that the ledger knows.
        self._progress.phase("scan", self._ledger.versions.size() or None)
        self._result = self._scan()
        if self._adopt and not self._stopped():
            Adopt().carry_out(self._ledger, self._site.context.service, self._clock)
        # Audit before uploading: an audit that misses too much pulls a brake, which must stop these uploads.
        self._audit()
        with self._uploading():
            self._drive()
        # Report once more: after a stop, uploads in flight end later than the last report.
        self._report_progress()
        # Without a scan it is unknown whether the tree is the site's.
        while self._result is not None and self._site.drift.step() and not self._stopped():
            pass
        if self._failure is not None:
            raise self._failure
        return self._ended(self._result, self._clock.steady() - started)

    def _scan(self) -> ScanResult | None:
        try:
            return self._site.rescan.run(seen=self._progress.at)
        except RootElsewhere:
            return None
        except RootMissing as error:
            if self._ledger.versions.size() == 0:
                raise
            self._site.root_identity.missing(str(error))
            return None

    @contextlib.contextmanager
    def _uploading(self) -> Iterator[None]:
        thread = threading.Thread(target=self._upload, name="upload", daemon=True)
        self._braked = self._site.brakes.pulled()
        thread.start()
        try:
            yield
        finally:
            # Uploads in flight get `_STOP_PATIENCE` seconds to end.
            self._done.set()
            thread.join(_STOP_PATIENCE)
            if thread.is_alive():
                # Cut the uploads in flight and record the cut, so that the next start need not guess.
                self._site.context.service.close()
                thread.join(_STOP_PATIENCE)

    def _upload(self) -> None:
        try:
            while self._goes_on():
                is_shut = self._braked or not self._site.service_identity.is_known
                if is_shut or self._site.uploader.run(lambda: self._goes_on() and not self._braked) is not Step.WORKED:
                    self._done.wait(_TICK)
        except BaseException as error:  # noqa: BLE001 - passed to the main thread, which raises it
            self._failure = self._failure or error
            self._done.set()

    def _goes_on(self) -> bool:
        return not self._done.is_set() and not self._stopped()

    def _drive(self) -> None:
        """Resolve doubts, index and verify while files are uploaded, until the run is over."""
        total = self._ledger.queue.counts(self._clock.now())[0]
        self._progress.phase("upload", total)
        while self._goes_on():
            idle = self._site.uploads.selection.is_idle()
            self._report_progress()
            if self._sending and idle:
                self._begin_verify_phase()
            self._braked = self._site.brakes.pulled()
            self._site.runtime_state.note()
            try:
                self._pass(counts=not self._sending or self._braked or self._site.gates.is_full())
            except OutOfResources as error:
                self._site.gates.lacks(error)
            idle = self._site.uploads.selection.is_idle()
            if self._is_over(idle=idle):
                if self._sending and idle:
                    self._begin_verify_phase()
                return
            self._clock.wait(_TICK)

    def _audit(self) -> None:
        """Make the pending audits, folder by folder."""
        site = self._site
        if not site.service_identity.is_known:
            return
        began = self._clock.steady()
        folders = site.pending_audits.folders()
        if folders:
            self._progress.phase("audit")
        for folder in folders:
            if self._stopped():
                return
            try:
                site.auditor.audit(folder)
            except ServiceError as error:
                log.warning("folder cannot be audited", destfolderid=folder, detail=str(error), next="by the next run")
                if not site.health_check.is_answered({folder}):
                    site.gates.lookup_failed(error)
                    return
        if folders and not site.pending_audits.folders():
            site.ran("audit", began)

    def _begin_verify_phase(self) -> None:
        """Change from the upload phase to the verify phase."""
        self._sending = False
        counts, settling = self._counts(), len(self._site.settling)
        if counts.of(State.QUEUED) <= counts.held + counts.waiting_for_sidecar:
            # Files that wait for a doubt to be decided are part of the first import.
            self._site.brakes.queue_is_empty()
        if settling:
            log.info("not settled yet: sent once unchanged for watch.settle", files=settling)
        self._progress.phase("verify", counts.of(*State) - counts.of(State.BLOCKED) + settling)

    def _report_progress(self) -> None:
        done, *moved = self._site.context.progress.shown()
        self._progress.at(done if self._sending else self._counts().of(State.VERIFIED), *moved)

    def _pass(self, *, counts: bool) -> None:
        """Take each due step once; during a pause, only check the service's health and take the look-ups it answers."""
        site = self._site
        # These steps need only the tree, so they also run during a pause.
        site.intake.look_again()
        self._read_again()
        if site.gates.closed is not None:
            if site.gates.check_due():
                site.gates.check()
            if site.gates.lookups_answered:
                # Uploads fail but look-ups are answered, so resolve doubts and verify, even fewer than a batch.
                self._look_up(counts=True)
            return
        if take_requests(site.context):
            site.size_limit.reload()
            site.upload_queue.clear()
        site.count_pauses()
        site.try_what_waited()
        self._look_up(counts=counts)
        self._passes += counts

    def _read_again(self) -> None:
        """Read some files that only look changed; scan once more if a scan is to decide about them."""
        read, wants_scan = self._site.rescan.read_again()
        self._reads = read > 0
        if read:
            self._site.upload_queue.clear()
        if wants_scan and (again := self._scan()) is not None:
            again.vanished += 0 if self._result is None else self._result.vanished
            self._result = again

    def _look_up(self, *, counts: bool) -> None:
        site = self._site
        try:
            site.service_identity.make_sure()
            site.upload_address_check.step()
            site.resolver.step()
            if counts or site.budget.rest() <= 0:
                with site.budget.step():
                    self._index_and_verify(counts=counts)
            self._read_back = counts
        except ServiceElsewhere as error:
            self._read_back = False
            log.debug("waits for a person", detail=str(error))
        except ServiceError as error:
            self._read_back = False
            site.gates.lookup_failed(error)

    def _index_and_verify(self, *, counts: bool) -> None:
        """Request indexing, and read back what is due: all of it if the pass `counts`, else one batch."""
        site = self._site
        began = self._clock.steady()
        site.indexer.step()
        if "index" in self._spent:
            self._spent["index"] += self._clock.steady() - began
        began = self._clock.steady()
        # While files are sent, no call reads back less than it can.
        least = 1 if counts else BATCH
        while not self._stopped():
            done = site.verifier.step(least)
            if done.wants_audit:
                self._audit()
            if not done.confirmed or not counts:
                break
        self._spent["verify"] += self._clock.steady() - began

    def _is_over(self, *, idle: bool) -> bool:
        """Whether the site is in sync, nothing left depends on time, or the wait is over."""
        site = self._site
        if self._reads:
            return False
        pause = site.gates.closed
        if pause is not None and pause.reason == "key_refused" and pause.failures >= _KEY_PROBES:
            return True
        now, paused = self._clock.steady(), site.gates.paused()
        if SITE in paused and (pause is not None or self._passes > 0):
            # A person has paused the site, maybe for longer than any wait.
            return True
        if pause is None and not site.service_identity.is_known and self._braked:
            return True
        if pause is not None:
            return now - pause.since >= self._wait and (self._wait > 0 or pause.failures > 0)
        shut = self._braked or not site.gates.may_send()
        if not (idle or shut or site.gates.is_full()):
            return False
        counts = self._counts()
        waiting = (
            counts.of(State.STORED, State.IN_DOUBT, State.SENDING) + counts.unresolved_history + len(site.settling)
        )
        if not shut:
            held = counts.held + counts.waiting_for_sidecar + self._ledger.reports.count_paused(paused)
            waiting += max(0, counts.of(State.QUEUED) - held)
        if not waiting and (self._braked or not self._ledger.versions.has_unread()):
            return True
        if self._idle_since is None:
            # A run without a POST waits from when there was first nothing to send.
            self._idle_since = now
        since = max(site.uploads.last_answer or 0.0, self._idle_since)
        return now - since >= self._wait and self._passes > 0

    def _stopped(self) -> bool:
        return self._clock.wait(0)

    def _counts(self) -> Counts:
        return self._ledger.reports.counts(self._clock.now())

    def _ended(self, result: ScanResult | None, seconds: float) -> Report:
        """Record in the ledger how the run ended, and return its report."""
        site = self._site
        counts = self._counts()
        unsettled = Unsettled(len(site.settling), site.settling.overflowed)
        report = report_of(site, result, counts, site.context.progress.read(), unsettled=unsettled, seconds=seconds)
        now = self._clock.steady()
        for job, spent in self._spent.items() if self._read_back and not report.interrupted else ():
            site.ran(job, now - spent)
        site.runtime_state.end()
        return report
