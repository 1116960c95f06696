"""Ask the service whether stored files are findable, as they were sent, and still there.

Each step does one kind of work, if it was requested. `sync.readback.auditor` knows which audits are due. The
gates handle trouble with the service; a single folder that does not answer is audited later.
"""

import threading
from collections.abc import Callable
from contextlib import nullcontext

import structlog

from assetsync.app import Site
from assetsync.daemon.loops import Bell
from assetsync.errors import KeyRefused, ServiceError
from assetsync.sync.lookup_gates import LookupGates
from assetsync.sync.readback.verifier import BATCH

log = structlog.get_logger(__name__)

_AGAIN = 60.0


class ReadBack:
    """The reading steps of one site."""

    def __init__(self, site: Site, *, idle: float, found: Callable[[], None] = lambda: None) -> None:
        """Make the steps; none waits longer than `idle` seconds for work.

        `found` is called after each completed audit and after each round of reading back.
        """
        self._site = site
        self._idle = idle
        self._found = found
        self._clock = site.context.clock
        self._ledger = site.context.ledger
        self._bell = Bell()
        self._verify_wanted = threading.Event()
        self._answer_wanted = threading.Event()
        """Set until reading back, or a search in its place, has shown that the service answers and accepts the key."""
        self._index_wanted = threading.Event()
        self._audit_wanted = threading.Event()
        self._nightly_wanted = threading.Event()
        self._audit_left = True
        self._audit_again = 0.0
        self._audit_began: float | None = None
        self._lookup_gates = LookupGates(site.health_check)
        # Folder -> when (steady seconds) to retry it after the service did not answer for it.
        self._put_off: dict[str, float] = {}

    def want_verify(self) -> None:
        """Request reading back; several requests count once."""
        self._verify_wanted.set()
        self._answer_wanted.set()
        self._bell.ring()

    def want_index(self) -> None:
        """Request indexing; several requests count once."""
        self._index_wanted.set()
        self._bell.ring()

    def want_audit(self) -> None:
        """Request an audit of each mapped folder of the service; several requests count once."""
        self._audit_wanted.set()
        self._bell.ring()

    def want_nightly_audit(self) -> None:
        """Request the audits of a night; several requests count once."""
        self._nightly_wanted.set()
        self._bell.ring()

    def look_for_audits(self) -> None:
        """Look at once for pending audits in the ledger, which an operator may have requested."""
        self._audit_left = True
        self._audit_again = 0.0
        self._put_off.clear()
        self._bell.ring()

    def last(self, job: str) -> float | None:
        """Return when a job was last done, in seconds since the epoch; None if never.

        For an audit, return when it was last requested, or the time from which the first audit is counted.
        """
        if job == "audit":
            return self._site.pending_audits.asked_at()
        if job == "nightly_audit":
            return self._site.pending_audits.nightly_at()
        run = self._ledger.runs.last().get(job)
        return None if run is None else run.at

    def wake(self) -> None:
        """End the wait of a step."""
        self._bell.ring()

    def step(self) -> float:
        """Index, read back or audit what is due, or wait for it; return 0, the pause before the next step."""
        heard = self._bell.heard()
        # If indexing is requested shortly before the interval ends, wait for that end, not for the next request.
        rest = self._site.indexer.rest() if self._index_wanted.is_set() else 0.0
        budgeted = self._site.budget.rest() if self._site.can_send() else 0.0
        try:
            if self._index_wanted.is_set() and max(rest, budgeted) <= 0:
                self._index_wanted.clear()
                # Verify first: assets that are findable already need no indexing.
                self._verify()
                self._index()
            elif self._verify_wanted.is_set() and budgeted <= 0:
                self._verify()
            elif not self._audit(rests=budgeted > 0):
                self._bell.wait(heard, min(self._idle, budgeted or rest or self._idle))
        except ServiceError as error:
            self._site.gates.lookup_failed(error)
        return 0.0

    def _verify(self) -> None:
        """Read back what is due; while files can be sent, one batch, and the rest after the pause of the budget."""
        self._verify_wanted.clear()
        began, looked = self._clock.steady(), 0
        while self._may_ask():
            can_send = self._site.can_send()
            with self._site.budget.step():
                done = self._site.verifier.step(BATCH if can_send else 1)
            looked += done.looked
            if looked:
                self._answer_wanted.clear()
            if done.wants_audit:
                self.look_for_audits()
            if not done.looked:
                self._site.ran("verify", began, idle=not looked)
                self._found()
                self._expect_answer()
                return
            if can_send:
                self._verify_wanted.set()
                return

    def _expect_answer(self) -> None:
        """Search a mapped folder if nothing was read back since it was requested. Raise ServiceError."""
        if self._answer_wanted.is_set():
            self._answer_wanted.clear()
            try:
                self._site.health_check.ask()
            except ServiceError as error:
                # A single folder may be slow.
                if isinstance(error, KeyRefused) or not self._site.health_check.is_answered(()):
                    raise

    def _index(self) -> None:
        began, sent = self._clock.steady(), 0
        with self._site.budget.step():
            while self._may_ask():
                count = self._site.indexer.step()
                sent += count
                if not count:
                    self._site.ran("index", began, idle=not sent)
                    return

    def _take_audits(self) -> None:
        """Record the requested audits in the ledger."""
        pending = self._site.pending_audits
        for wanted, ask in ((self._audit_wanted, pending.ask), (self._nightly_wanted, pending.ask_nightly)):
            if wanted.is_set():
                ask()
                wanted.clear()
                self._audit_left = True
                self._audit_again = 0.0

    def _audit(self, *, rests: bool) -> bool:
        """Audit one folder that is due; return False if none is. While the budget `rests`, those of a night wait."""
        self._take_audits()
        if not self._audit_left or self._clock.steady() < self._audit_again or not self._may_ask():
            return False
        left = self._site.pending_audits.folders()
        is_nightly = not left
        left = left or self._site.pending_audits.nightly()
        if not left:
            self._audit_left = False
            if self._audit_began is not None:
                self._site.ran("audit", self._audit_began)
                self._audit_began = None
            return False
        if self._audit_began is None:
            self._audit_began = self._clock.steady()
        folder = min(left, key=lambda folder: self._put_off.get(folder, 0.0))
        self._audit_again = self._put_off.get(folder, 0.0)
        if self._clock.steady() < self._audit_again or (is_nightly and rests):
            return False
        # If the audit raises an error, it is retried, but not at once.
        self._audit_again = self._clock.steady() + _AGAIN
        began = self._clock.steady()
        try:
            with self._site.budget.step() if is_nightly else nullcontext():
                self._site.auditor.audit(folder)
        except ServiceError as error:
            wait = max(_AGAIN, self._lookup_gates.put_off(folder, error, self._clock.steady() - began))
            self._put_off[folder] = self._clock.steady() + wait
            log.warning(
                "folder cannot be audited", destfolderid=folder, detail=str(error), next=f"again in {wait:.0f} s"
            )
        else:
            self._lookup_gates.answered(folder)
            self._put_off.pop(folder, None)
            self._found()
        self._audit_again = 0.0
        return True

    def _may_ask(self) -> bool:
        # Stored assets are read back even while uploads fail, if look-ups get answers.
        gates = self._site.gates
        is_answered = gates.closed is None or gates.lookups_answered
        return is_answered and self._site.service_identity.is_known and not self._clock.wait(0)
