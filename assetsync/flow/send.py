"""One file at a time from the queue into the service: intent, POST, outcome.

`Sender.step` is the unit of work that the fault simulation interleaves, and `Sender.run` is many of them. What an
answer means was decided in `core.outcome`; here it is written down, and trouble that is not the file's own shuts the
gate or holds the folder.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum

import structlog

from assetsync.core.backoff import delay
from assetsync.core.doubt import MostDoubts
from assetsync.core.names import printable
from assetsync.errors import LedgerDamaged, LedgerError, RowUnfit, ServiceError
from assetsync.flow.contact import Unlisted
from assetsync.flow.edges import Edges
from assetsync.flow.feed import Feed
from assetsync.flow.gate import Gate
from assetsync.flow.order import Order
from assetsync.flow.pace import Throttle
from assetsync.flow.prepare import Preparer, Ready
from assetsync.flow.room import Room
from assetsync.flow.trouble import describe
from assetsync.ledger.commits import Pending
from assetsync.ledger.queue import NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Body, Fault, Left, Sent, State
from assetsync.tree.body import SMALL, TappedBody
from assetsync.turn import TURN

log = structlog.get_logger(__name__)

FOLDER_HOLD = 600.0
"""Seconds until one file tries again whether a folder exists by now."""

_LEDGER_PAUSE = 2.0
_QUICK = 256 * 1024
_BAD_FORM = "bad_form"
_AS_IT_IS = nullcontext()


class Step(StrEnum):
    """What a step did: sent or settled a file, found nothing due, or was not let through the gate."""

    WORKED = "worked"
    IDLE = "idle"
    PAUSED = "paused"


@dataclass(slots=True)
class _Told:
    """An accepted upload whose outcome was handed to the ledger and is on its way to the disk."""

    attempt: int
    ready: Ready
    sent: Sent
    pending: Pending[State]
    settled: bool = False


class Sender:
    """Sends what is due; any number of threads may call `step`."""

    def __init__(
        self,
        edges: Edges,
        preparer: Preparer,
        gate: Gate,
        feed: Feed,
        *,
        most_doubts: MostDoubts,
        throttle: Throttle | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._preparer = preparer
        self._gate = gate
        self._feed = feed
        self._room = Room(edges.ledger.doubts, most_doubts)
        self._order = Order(edges.clock)
        self._throttle = throttle
        self.may_send = may_send
        self._tally = edges.tally
        self._meter = edges.meter
        self._chance = edges.chance.random
        self.last_answer: float | None = None
        self.patience = 30.0

    def too_doubtful(self) -> bool:
        """Whether so many uploads are in doubt that no more are sent until some are decided."""
        return self._room.is_full()

    def is_idle(self) -> bool:
        """Whether no worker has a file and none is due that could be sent now."""
        return self._feed.idle(*self._room.oldest_and_newest(self._preparer.being_listed, anew=True))

    def step(self) -> Step:
        """Take one due file as far as it goes now."""
        return self.run(lambda: False)

    def run(self, go_on: Callable[[], bool]) -> Step:
        """Take due files one after the other while `go_on` says so; gives what the last step did.

        What became of a file goes into one commit with the intent of the next, which halves what is waited for on the
        disk. It is there when this returns.
        """
        told: _Told | None = None
        try:
            while True:
                with TURN.taken():
                    step, told = self._take(told)
                if step is not Step.WORKED or not go_on():
                    return step
        finally:
            self._settle(told)

    def _take(self, told: "_Told | None") -> tuple[Step, "_Told | None"]:
        """Take one file; `told` is what became of the one before, and is handed back while it waits for a commit."""
        if not self._gate.enter():
            return Step.PAUSED, told
        try:
            if not self._room.takes_one() or not self.may_send():
                return Step.PAUSED, told
            choices = self._room.oldest_and_newest(self._preparer.being_listed)
            row = self._feed.take(*self._order.of(*choices))
            if row is None:
                return Step.IDLE, told
            self._order.taken(row)
            released = False
            try:
                if told is not None and not (row.size <= SMALL and row.destfolderid == told.ready.row.destfolderid):
                    # A long file may have to be hashed and another folder to be listed: that is no time to wait.
                    self._settle(told)
                    told = None
                with _AS_IT_IS if self._is_quick(row) else TURN.left():
                    told = self._handle(row, told)
                released = told is not None and told.ready.row is row
            finally:
                if not released:
                    self._feed.release(row)
        finally:
            self._gate.leave()
        return Step.WORKED, told

    def _is_quick(self, row: FileRow) -> bool:
        """Whether the file is read and handed over in a moment, so that others may wait that long."""
        return row.size <= _QUICK and self._throttle is None

    def _handle(self, row: FileRow, told: "_Told | None") -> "_Told | None":
        try:
            ready = self._preparer.prepare(row)
        except ServiceError as error:
            reason, retry_after = describe(error)
            self._trouble(reason, str(error), retry_after, looking=True)
            return told
        except Unlisted:
            # With the files of its folder that were read ahead.
            self._feed.clear()
            return told
        if ready is None:
            self._tally.handled()
            return told
        with ready.file:
            try:
                attempt = self._begin(ready, told)
            except (NameBusy, Outdated):
                return told
            self._settle(told)
            if self._preparer.is_told_anew(ready):
                # The change may have been recorded before there was an upload to tell of it.
                self._insist(row, lambda: self._ledger.drifts.mark_unread(row.id))
            body: Body = ready.body
            if self._throttle is not None:
                body = TappedBody(body, self._throttle.pace, piece=self._throttle.piece)
            with self._tally.sending(body) if body.size > SMALL else _AS_IT_IS:
                sent = self._service.upload(ready.request, body)
        self._tally.handled()
        self.last_answer = self._clock.steady()
        if sent.outcome.answer is Answer.ACCEPTED:
            self._gate.worked()
            return _Told(
                attempt, ready, sent, self._ledger.outcomes.submit_accepted(attempt, row.id, sent, self._clock.now())
            )
        self._keep(attempt, ready, sent)
        return None

    def _begin(self, ready: Ready, told: "_Told | None") -> int:
        try:
            return self._ledger.queue.begin(ready.intent, self._clock.now())
        except LedgerError:
            if told is None:
                raise
            # The commit was to hold what became of the file before, which is not given up so soon.
            self._settle(told)
            return self._ledger.queue.begin(ready.intent, self._clock.now())

    def _settle(self, told: "_Told | None") -> None:
        """See to it that what became of a file is on the disk."""
        if told is None or told.settled:
            return
        told.settled = True
        try:
            try:
                state = told.pending.result()
            except LedgerDamaged:
                raise
            except LedgerError:
                self._keep(told.attempt, told.ready, told.sent)
            else:
                self._accepted(told.attempt, told.ready.row, told.sent, state)
                self._meter.attempted(told.sent, again=told.ready.row.attempts > 0)
        finally:
            self._feed.release(told.ready.row)

    def _keep(self, attempt: int, ready: Ready, sent: Sent) -> None:
        try:
            self._insist(ready.row, lambda: self._record(attempt, ready, sent))
        except RowUnfit as error:
            # The row was taken away from outside: no time mends that, and other files need not suffer for it.
            bound = log.bind(path=printable(ready.row.path), attempt=attempt, assetid=sent.outcome.assetid)
            bound.warning("what became of it fits no row", answer=sent.outcome.answer, detail=str(error))
        self._meter.attempted(sent, again=ready.row.attempts > 0)

    def _insist(self, row: FileRow, write: Callable[[], None]) -> None:
        """Write something down of an upload, and try again for `patience` seconds while the ledger cannot be written.

        What is given up is found as an attempt without an end by the next start, and looked up. What fits no row any
        more is given up at once.
        """
        since = self._clock.steady()
        while True:
            try:
                write()
            except (LedgerDamaged, RowUnfit):
                raise
            except LedgerError as error:
                log.warning("the result waits for the ledger", path=printable(row.path), detail=str(error))
                if self._clock.steady() - since >= self.patience or self._clock.wait(_LEDGER_PAUSE):
                    raise
            else:
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
                self._gate.worked()
                bound.info("the service has this content already", detail=outcome.detail)
            case Answer.REFUSED if outcome.fault is Fault.KEY:
                outcomes.unsent(attempt, row.id, sent, now, now)
                self._trouble(outcome.reason, outcome.detail, None)
            case Answer.REFUSED if outcome.fault is Fault.FOLDER:
                outcomes.refused(attempt, row.id, sent, now, hold_until=now + FOLDER_HOLD)
                self._feed.clear()
                self._gate.worked()
                bound.error("folder held back", destfolderid=row.destfolderid, detail=outcome.detail)
            case Answer.REFUSED:
                outcomes.refused(attempt, row.id, sent, now)
                self._gate.worked()
                bound.warning("refused", reason=outcome.reason, detail=outcome.detail)
            case Answer.UNSENT:
                self._unsent(attempt, row, sent, now)
            case Answer.DOUBT:
                outcomes.lost(attempt, row.id, sent, now)
                self._order.lost()
                self._room.doubted()
                self._meter.doubted()
                bound.warning("in doubt", reason=outcome.reason, detail=outcome.detail, left=sent.left)
                if outcome.fault is not Fault.FILE or sent.left is Left.ALL:
                    self._trouble(outcome.reason, outcome.detail, outcome.retry_after)

    def _accepted(self, attempt: int, row: FileRow, sent: Sent, state: State) -> None:
        assetid = sent.outcome.assetid
        if state is State.IN_DOUBT:
            self._room.doubted()
            self._meter.doubted()
            log.warning("in doubt", path=printable(row.path), attempt=attempt, reason="id_taken", assetid=assetid)
        else:
            self._tally.uploaded(row.size)
            log.info("uploaded", path=printable(row.path), attempt=attempt, assetid=assetid, size=row.size)

    def _unsent(self, attempt: int, row: FileRow, sent: Sent, now: float) -> None:
        outcome, outcomes = sent.outcome, self._ledger.outcomes
        if outcome.fault is not Fault.FILE:
            outcomes.unsent(attempt, row.id, sent, now, now)
            self._trouble(outcome.reason, outcome.detail, outcome.retry_after)
        elif outcome.reason == _BAD_FORM:
            # Nothing that time mends: the name, or what is said of the file, fits no form.
            outcomes.refused(attempt, row.id, sent, now)
            log.warning("blocked", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)
        else:
            due = now + delay(row.failures + 1, self._chance(), first=2.0)
            outcomes.unsent(attempt, row.id, sent, now, due, counts=True)
            log.info("not sent", path=printable(row.path), reason=outcome.reason, detail=outcome.detail)

    def _trouble(self, reason: str, detail: str, retry_after: float | None, *, looking: bool = False) -> None:
        if self._gate.trouble(reason, detail, retry_after, looking=looking):
            log.warning("sending paused", reason=reason, detail=detail)
