"""Record the results of uploads, in the ledger and at the gates.

What an answer means is decided by `core.outcome`, what it closes by `core.gate`, which file is sent next by `queue`.
"""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from assetsync.core.backoff import delay
from assetsync.core.names import printable
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.errors import LedgerDamaged, LedgerError, RowUnfit
from assetsync.ledger.file.group_commit import Pending
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Fault, Outcome, Sent, SentExtent, State
from assetsync.sync.context import Context
from assetsync.sync.gates import Gates
from assetsync.sync.upload.gather import Ready
from assetsync.sync.upload.kinds import Kinds
from assetsync.sync.upload.limits import SizeLimit
from assetsync.sync.upload.queue import Selection

log = structlog.get_logger(__name__)

FOLDER_HOLD = 600.0
"""Seconds until one file tries again whether a folder exists by now."""

_LEDGER_PAUSE = 2.0
_BAD_FORM = "bad_form"
_NOT_SENT = Outcome(Answer.UNSENT, reason="unsent", detail="sending was stopped before any of it had been sent")


class Result(NamedTuple):
    """The end of an upload that is to be recorded."""

    attempt: int
    ready: Ready
    sent: Sent

    @property
    def row(self) -> FileRow:
        """The version that was sent."""
        return self.ready.row

    @property
    def is_accepted(self) -> bool:
        """Whether the service accepted the upload: only then its record may share the commit of the next intent."""
        return self.sent.outcome.answer is Answer.ACCEPTED


class ResultRecorder:
    """Recorder of all uploads; shared by all workers."""

    def __init__(
        self, context: Context, gates: Gates, selection: Selection, kinds: Kinds, size_limit: SizeLimit
    ) -> None:
        self._ledger = context.ledger
        self._clock = context.clock
        self._gates = gates
        self._selection = selection
        self._kinds = kinds
        self._size_limit = size_limit
        self._progress = context.progress
        self._meter = context.meter
        self._chance = context.chance.random
        self._tick = context.heartbeat.tick
        self.patience = 30.0
        """Seconds for which a ledger that cannot be written is tried again, over all results."""
        self._in_trouble_since: float | None = None

    def note_answer(self, result: Result) -> None:
        """Learn from an accepted upload what the next file needs; the ledger does not have the result yet."""
        self._gates.answered()
        kind, depends_on_kind = result.sent.outcome.filetype, result.ready.depends_on_kind
        if self._kinds.answered(result.row.path, kind, depends_on_kind=depends_on_kind):
            # Files that wait for the first of their ending can be taken.
            self._selection.forget()

    def submit(self, result: Result) -> Pending[State]:
        """Queue the record of an accepted upload for the next commit; `recorded` follows once it is on the disk."""
        submit = self._ledger.attempt_results.submit_accepted
        return submit(result.attempt, result.row.id, result.sent, self._clock.now())

    def recorded(self, result: Result, state: State) -> None:
        """Count and log an accepted upload whose record is on the disk."""
        self._report_accepted(result, state)
        self._meter.attempted(result.sent, again=result.row.attempts > 0)

    def record(self, result: Result) -> None:
        """Record the end of an upload, whatever it is; raises LedgerError as `write_with_retry` does."""
        try:
            self.write_with_retry(result.row, lambda: self._record(result))
        except RowUnfit as error:
            # The row was changed from outside. No retry helps, and other files must not wait for it.
            outcome = result.sent.outcome
            bound = log.bind(path=printable(result.row.path), attempt=result.attempt, assetid=outcome.assetid)
            bound.warning(
                "the result of an upload cannot be recorded, because its row was changed from outside",
                answer=outcome.answer,
                detail=str(error),
            )
        self._meter.attempted(result.sent, again=result.row.attempts > 0)

    def take_back(self, attempt: int, ready: Ready) -> None:
        """Close an attempt whose intent is on the disk and of which nothing was sent, so that the file waits again."""
        row, now = ready.row, self._clock.now()
        unsent = Sent(_NOT_SENT, SentExtent.NOTHING, ready.body.bytes_sent, ready.body.md5)
        try:
            results = self._ledger.attempt_results
            self.write_with_retry(
                row, lambda: results.unsent(attempt, row.id, unsent, now, row.due_at, taken_back=True)
            )
        except RowUnfit as error:
            # The row was changed from outside, and there is nothing to send any more.
            log.warning("not sent", path=printable(row.path), attempt=attempt, detail=str(error))

    def write_with_retry(self, row: FileRow, write: Callable[[], None]) -> None:
        """Write to the ledger; retry for `patience` seconds while the ledger cannot be written.

        After that raise LedgerError: the next start finds an attempt without an end and looks it up. Raise RowUnfit at
        once.
        """
        while True:
            self._tick()
            try:
                write()
            except LedgerDamaged:
                raise
            except RowUnfit:
                self._in_trouble_since = None  # the ledger has answered
                raise
            except LedgerError as error:
                log.warning(
                    "the result waits for the ledger",
                    path=printable(row.path),
                    detail=str(error),
                    next=f"tried again every {_LEDGER_PAUSE:.0f} s",
                )
                now = self._clock.steady()
                since = self._in_trouble_since = now if self._in_trouble_since is None else self._in_trouble_since
                if now - since >= self.patience or self._clock.wait(_LEDGER_PAUSE):
                    raise
            else:
                self._in_trouble_since = None
                return

    def _record(self, result: Result) -> None:
        attempt, row, sent = result.attempt, result.row, result.sent
        outcome = sent.outcome
        now = self._clock.now()
        outcomes = self._ledger.attempt_results
        bound = log.bind(path=printable(row.path), attempt=attempt)
        match outcome.answer:
            case Answer.ACCEPTED:
                self._report_accepted(result, outcomes.accepted(attempt, row.id, sent, now))
            case Answer.DUPLICATE:
                outcomes.lost(attempt, row.id, sent, now)
                self._meter.doubted()
                bound.info("the service has this content already", detail=outcome.detail)
            case Answer.REFUSED if outcome.fault is Fault.KEY:
                outcomes.unsent(attempt, row.id, sent, now, now)
            case Answer.REFUSED if outcome.fault is Fault.FOLDER:
                outcomes.refused(attempt, row.id, sent, now, hold_until=now + FOLDER_HOLD)
                self._selection.forget()
                after = f"one file tries it again in {FOLDER_HOLD / 60:.0f} minutes"
                bound.error("folder held back", destfolderid=row.destfolderid, detail=outcome.detail, next=after)
            case Answer.REFUSED:
                outcomes.refused(attempt, row.id, sent, now)
                bound.warning("refused", reason=outcome.reason, detail=outcome.detail)
            case Answer.UNSENT:
                self._unsent(result, now)
            case Answer.DOUBT:
                self._lost(result, now)
        if not result.is_accepted:
            self._gates.ended(row.destfolderid, sent)

    def _lost(self, result: Result, now: float) -> None:
        attempt, row, sent = result.attempt, result.row, result.sent
        outcome = sent.outcome
        if outcome.reason == TOO_LARGE_FOR_PROXY:
            self._size_limit.note_refused(row.size)
        else:
            self._selection.newest_is_next()
        self._ledger.attempt_results.lost(attempt, row.id, sent, now)
        if outcome.answered and outcome.retry_after:
            # Only the folder waits, which the ledger holds now.
            self._selection.forget()
        bound = log.bind(path=printable(row.path), attempt=attempt)
        bound.warning("in doubt", reason=outcome.reason, detail=outcome.detail, left=sent.left)
        self._meter.doubted()

    def _report_accepted(self, result: Result, state: State) -> None:
        """Count and log the upload; it is in doubt if another version has its asset id."""
        attempt, row, assetid = result.attempt, result.row, result.sent.outcome.assetid
        if state is State.IN_DOUBT:
            self._gates.doubted()
            self._meter.doubted()
            log.warning("in doubt", path=printable(row.path), attempt=attempt, reason="id_taken", assetid=assetid)
        else:
            self._progress.uploaded(row.size)
            self._gates.accepted(row.destfolderid)
            log.info("uploaded", path=printable(row.path), attempt=attempt, assetid=assetid, size=row.size)
            self._size_limit.note_accepted(row.size)

    def _unsent(self, result: Result, now: float) -> None:
        attempt, row, sent = result.attempt, result.row, result.sent
        outcome, outcomes = sent.outcome, self._ledger.attempt_results
        if outcome.fault is not Fault.FILE:
            outcomes.unsent(attempt, row.id, sent, now, now)
        elif outcome.reason == _BAD_FORM:
            # Time does not help: no form can carry the name or the metadata.
            outcomes.refused(attempt, row.id, sent, now)
            log.warning("blocked", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)
        else:
            due = now + delay(row.failures + 1, self._chance(), first=2.0)
            outcomes.unsent(attempt, row.id, sent, now, due, counts=True)
            log.info("not sent", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)
