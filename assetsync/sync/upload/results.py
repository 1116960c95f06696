"""What became of uploads, written down; trouble that is not the file's own shuts the gate or holds the folder.

What an answer means was decided in `core.outcome`, and what is sent when is `send`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from assetsync.core.backoff import delay
from assetsync.core.names import printable
from assetsync.errors import LedgerDamaged, LedgerError, RowUnfit
from assetsync.ledger.group_commit import Pending
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Fault, Sent, SentExtent, State
from assetsync.sync.context import Context
from assetsync.sync.upload.circuit_breaker import CircuitBreaker
from assetsync.sync.upload.doubt_limit import DoubtLimit
from assetsync.sync.upload.fairness import Fairness
from assetsync.sync.upload.in_flight import Crew
from assetsync.sync.upload.prepare import Ready
from assetsync.sync.upload.queue import UploadQueue

log = structlog.get_logger(__name__)

FOLDER_HOLD = 600.0
"""Seconds until one file tries again whether a folder exists by now."""

_LEDGER_PAUSE = 2.0
_BAD_FORM = "bad_form"


@dataclass(frozen=True, slots=True)
class PendingResult:
    """An accepted upload whose outcome was handed to the ledger and is on its way to the disk."""

    attempt: int
    ready: Ready
    sent: Sent
    pending: Pending[State]


class ResultRecorder:
    """Shared by all workers."""

    def __init__(
        self,
        context: Context,
        circuit_breaker: CircuitBreaker,
        upload_queue: UploadQueue,
        crew: Crew,
        *,
        room: DoubtLimit,
        order: Fairness,
    ) -> None:
        self._ledger = context.ledger
        self._clock = context.clock
        self._circuit_breaker = circuit_breaker
        self._upload_queue = upload_queue
        self._crew = crew
        self._room = room
        self._order = order
        self._progress = context.progress
        self._meter = context.meter
        self._chance = context.chance.random
        self.patience = 30.0
        """Seconds for which a ledger that cannot be written is waited for, whatever is to be written meanwhile."""
        self._in_trouble_since: float | None = None

    def accepted(self, attempt: int, ready: Ready, sent: Sent) -> PendingResult:
        """Let what became of an accepted upload go along with the next commit; it is to be settled."""
        self._circuit_breaker.worked()
        submit = self._ledger.outcomes.submit_accepted
        return PendingResult(attempt, ready, sent, submit(attempt, ready.row.id, sent, self._clock.now()))

    def settle(self, told: list[PendingResult]) -> None:
        """See to it that what became of files is on the disk; takes them out of the list."""
        while told:
            self._settled(told.pop(0))

    def _settled(self, told: PendingResult) -> None:
        try:
            try:
                state = told.pending.result()
            except LedgerDamaged:
                raise
            except LedgerError:
                self.keep(told.attempt, told.ready, told.sent)
            else:
                self._accepted(told.attempt, told.ready.row, told.sent, state)
                self._meter.attempted(told.sent, again=told.ready.row.attempts > 0)
        finally:
            self._crew.give_back()
            self._upload_queue.release(told.ready.row)

    def keep(self, attempt: int, ready: Ready, sent: Sent) -> None:
        """Write down what became of an upload, whatever it is."""
        try:
            self.insist(ready.row, lambda: self._record(attempt, ready, sent))
        except RowUnfit as error:
            # The row was taken away from outside: no time mends that, and other files need not suffer for it.
            bound = log.bind(path=printable(ready.row.path), attempt=attempt, assetid=sent.outcome.assetid)
            bound.warning("what became of it fits no row", answer=sent.outcome.answer, detail=str(error))
        self._meter.attempted(sent, again=ready.row.attempts > 0)

    def insist(self, row: FileRow, write: Callable[[], None]) -> None:
        """Write something down of an upload, and try again for `patience` seconds while the ledger cannot be written.

        What is given up is found as an attempt without an end by the next start, and looked up. What fits no row any
        more is given up at once.
        """
        while True:
            try:
                write()
            except LedgerDamaged:
                raise
            except RowUnfit:
                # The ledger has answered.
                self._in_trouble_since = None
                raise
            except LedgerError as error:
                log.warning("the result waits for the ledger", path=printable(row.path), detail=str(error))
                now = self._clock.steady()
                since = self._in_trouble_since = now if self._in_trouble_since is None else self._in_trouble_since
                if now - since >= self.patience or self._clock.wait(_LEDGER_PAUSE):
                    raise
            else:
                self._in_trouble_since = None
                return

    def _record(self, attempt: int, ready: Ready, sent: Sent) -> None:
        outcome = sent.outcome
        row = ready.row
        now = self._clock.now()
        outcomes = self._ledger.outcomes
        bound = log.bind(path=printable(row.path), attempt=attempt)
        match outcome.answer:
            case Answer.ACCEPTED:
                self._accepted(attempt, row, sent, outcomes.accepted(attempt, row.id, sent, now))
            case Answer.DUPLICATE:
                outcomes.lost(attempt, row.id, sent, now, duplicate=True)
                self._room.doubted()
                self._meter.doubted()
                self._circuit_breaker.worked()
                bound.info("the service has this content already", detail=outcome.detail)
            case Answer.REFUSED if outcome.fault is Fault.KEY:
                outcomes.unsent(attempt, row.id, sent, now, now)
                self.trouble(outcome.reason, outcome.detail, None)
            case Answer.REFUSED if outcome.fault is Fault.FOLDER:
                outcomes.refused(attempt, row.id, sent, now, hold_until=now + FOLDER_HOLD)
                self._upload_queue.clear()
                self._circuit_breaker.worked()
                bound.error("folder held back", destfolderid=row.destfolderid, detail=outcome.detail)
            case Answer.REFUSED:
                outcomes.refused(attempt, row.id, sent, now)
                self._circuit_breaker.worked()
                bound.warning("refused", reason=outcome.reason, detail=outcome.detail)
            case Answer.UNSENT:
                self._unsent(attempt, row, sent, now)
            case Answer.DOUBT:
                outcomes.lost(attempt, row.id, sent, now)
                self._order.lost()
                self._room.doubted()
                self._meter.doubted()
                bound.warning("in doubt", reason=outcome.reason, detail=outcome.detail, left=sent.left)
                if outcome.fault is not Fault.FILE or sent.left is SentExtent.ALL:
                    self.trouble(outcome.reason, outcome.detail, outcome.retry_after)

    def _accepted(self, attempt: int, row: FileRow, sent: Sent, state: State) -> None:
        assetid = sent.outcome.assetid
        if state is State.IN_DOUBT:
            self._room.doubted()
            self._meter.doubted()
            log.warning("in doubt", path=printable(row.path), attempt=attempt, reason="id_taken", assetid=assetid)
        else:
            self._progress.uploaded(row.size)
            log.info("uploaded", path=printable(row.path), attempt=attempt, assetid=assetid, size=row.size)

    def _unsent(self, attempt: int, row: FileRow, sent: Sent, now: float) -> None:
        outcome, outcomes = sent.outcome, self._ledger.outcomes
        if outcome.fault is not Fault.FILE:
            outcomes.unsent(attempt, row.id, sent, now, now)
            self.trouble(outcome.reason, outcome.detail, outcome.retry_after)
        elif outcome.reason == _BAD_FORM:
            # Nothing that time mends: the name, or what is said of the file, fits no form.
            outcomes.refused(attempt, row.id, sent, now)
            log.warning("blocked", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)
        else:
            due = now + delay(row.failures + 1, self._chance(), first=2.0)
            outcomes.unsent(attempt, row.id, sent, now, due, counts=True)
            log.info("not sent", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)

    def trouble(self, reason: str, detail: str, retry_after: float | None, *, looking: bool = False) -> None:
        """Shut the gate, and say so where it was open; `looking`: it was a look-up that was not answered."""
        if self._circuit_breaker.trouble(reason, detail, retry_after, looking=looking):
            log.warning("sending paused", reason=reason, detail=detail)
