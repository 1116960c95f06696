"""What has an intent on the disk is sent, ended when its answer has come, or taken back.

Which files these are, and in whose turn, is `send`'s; what became of them is written down by `record`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import structlog

from assetsync.core.names import printable
from assetsync.errors import RowUnfit
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Body, Outcome, Sent, SentExtent
from assetsync.sync.context import Context
from assetsync.sync.upload.circuit_breaker import CircuitBreaker
from assetsync.sync.upload.in_flight import LEAD, Begun, Crew
from assetsync.sync.upload.prepare import Preparer, Ready
from assetsync.sync.upload.queue import UploadQueue
from assetsync.sync.upload.rate_limiter import RateLimiter
from assetsync.sync.upload.results import PendingResult, ResultRecorder
from assetsync.tree.body import SMALL, TappedBody
from assetsync.turn import TURN

log = structlog.get_logger(__name__)

LOOK = 0.01
"""Seconds to wait for answers, before it is looked again whether there is something else to do."""

_AS_IT_IS = nullcontext()
_NOT_SENT = Outcome(Answer.UNSENT, reason="unsent", detail="one before it met trouble; nothing of it had been sent")


class Poster:
    """Shared by all workers."""

    def __init__(
        self,
        context: Context,
        preparer: Preparer,
        results: ResultRecorder,
        circuit_breaker: CircuitBreaker,
        upload_queue: UploadQueue,
        *,
        crew: Crew,
        rate_limiter: RateLimiter | None,
    ) -> None:
        self._ledger = context.ledger
        self._service = context.service
        self._clock = context.clock
        self._progress = context.progress
        self._tick = context.tick
        self._preparer = preparer
        self._circuit_breaker = circuit_breaker
        self._upload_queue = upload_queue
        self._crew = crew
        self._results = results
        self._rate_limiter = rate_limiter
        self.may_send: Callable[[], bool] = lambda: True
        self.last_answer: float | None = None

    def send_out(self, told: list[PendingResult], go_on: Callable[[], bool], *, is_slow: bool = False) -> None:
        """Send small files one after the other, as long as no other worker leads; some are ended at once.

        Where one does not leave in a moment, for want of a connection say, it is asked before each whether to `go_on`.
        """
        while self._crew.lead() and (begun := self._crew.next_unsent()) is not None:
            since = self._clock.steady()
            try:
                if self._circuit_breaker.pause is not None or (is_slow and not (go_on() and self.may_send())):
                    self._take_back(begun)
                    continue
                self._mark_told_anew(begun.ready)
            except BaseException:
                self._crew.hand_in([begun])
                raise
            first = self._clock.steady()
            underway = self._service.start(begun.ready.request, begun.ready.body)
            now = self._clock.steady()
            is_slow = is_slow or now - since >= LEAD
            begun = replace(begun, underway=underway, since=now, first=first)
            if self._crew.has_sent(underway):
                self._crew.hand_in([begun])
            else:
                self._end(begun, told)

    def end_some(self, told: list[PendingResult], seconds: float) -> bool:
        """End those whose answers come within so many seconds, and give whether there were any."""
        with TURN.left() if seconds else _AS_IT_IS:
            ready = self._crew.collect(seconds)
        self.end_each(ready, told)
        return bool(ready)

    def end_all(self, told: list[PendingResult]) -> None:
        """End what is under way, unless another worker does; what was not sent yet is taken back."""
        while self._crew.has_begun and self._crew.lead():
            self._tick()
            self.send_out(told, lambda: False, is_slow=True)
            self.end_some(told, LOOK)
            self._results.settle(told)

    def end_each(self, begun: Iterable[Begun], told: list[PendingResult]) -> None:
        """Send each that was not, and wait for its answer."""
        waiting = deque(begun)
        try:
            while waiting:
                self._end(waiting.popleft(), told)
        finally:
            # Where one meets trouble, the others are whoever's comes by.
            self._crew.hand_in(waiting)

    def _end(self, begun: Begun, told: list[PendingResult]) -> None:
        """Take an upload to its end, and add it to `told` where it was accepted."""
        row = begun.ready.row
        accepted = None
        try:
            first = self._clock.steady() if begun.underway is None else begun.first
            with begun.ready.file:
                sent = self._upload(begun.ready) if begun.underway is None else begun.underway.end()
            self._progress.handled()
            self.last_answer = self._clock.steady()
            sent = sent._replace(took=self.last_answer - first)
            if sent.outcome.answer is Answer.ACCEPTED:
                accepted = self._results.accepted(begun.attempt, begun.ready, sent)
                told.append(accepted)
            else:
                self._results.keep(begun.attempt, begun.ready, sent)
        finally:
            if accepted is None:
                self.leave(row)
            else:
                # Its place and the file are given back once the outcome is on the disk.
                self._circuit_breaker.leave()

    def leave(self, row: FileRow) -> None:
        """Say of a file that was taken that it is not under way."""
        self._circuit_breaker.leave()
        self._crew.give_back()
        self._upload_queue.release(row)

    def give_up(self, readies: Iterable[Ready]) -> None:
        """Let files be that were made ready."""
        for ready in readies:
            ready.file.close()
            self.leave(ready.row)

    def _upload(self, ready: Ready) -> Sent:
        body: Body = ready.body
        if self._rate_limiter is not None:
            body = TappedBody(body, self._rate_limiter.pace, piece=self._rate_limiter.piece)
        self._mark_told_anew(ready)
        with self._progress.sending(body) if body.size > SMALL else _AS_IT_IS:
            return self._service.upload(ready.request, body)

    def _take_back(self, begun: Begun) -> None:
        """Let a file wait again of which an intent is on the disk and nothing has left."""
        attempt, ready, row, now = begun.attempt, begun.ready, begun.ready.row, self._clock.now()
        unsent = Sent(_NOT_SENT, SentExtent.NOTHING, ready.body.handed, ready.body.md5)
        try:
            self._results.insist(row, lambda: self._ledger.outcomes.unsent(attempt, row.id, unsent, now, row.due_at))
        except RowUnfit as error:
            # The row was taken away from outside, and there is nothing to send any more.
            log.warning("not sent", path=printable(row.path), attempt=attempt, detail=str(error))
        self.give_up([ready])

    def _mark_told_anew(self, ready: Ready) -> None:
        if self._preparer.is_told_anew(ready):
            # The change may have been recorded before there was an upload to tell of it.
            self._results.insist(ready.row, partial(self._ledger.drifts.mark_unread, ready.row.id))
