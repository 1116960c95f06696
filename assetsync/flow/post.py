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
from assetsync.flow.crew import LEAD, Begun, Crew
from assetsync.flow.edges import Edges
from assetsync.flow.feed import Feed
from assetsync.flow.gate import Gate
from assetsync.flow.pace import Throttle
from assetsync.flow.prepare import Preparer, Ready
from assetsync.flow.record import Recorder, Told
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Body, Left, Outcome, Sent
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
        edges: Edges,
        preparer: Preparer,
        recorder: Recorder,
        gate: Gate,
        feed: Feed,
        *,
        crew: Crew,
        throttle: Throttle | None,
    ) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._tally = edges.tally
        self._tick = edges.tick
        self._preparer = preparer
        self._gate = gate
        self._feed = feed
        self._crew = crew
        self._recorder = recorder
        self._throttle = throttle
        self.may_send: Callable[[], bool] = lambda: True
        self.last_answer: float | None = None

    def send_out(self, told: list[Told], go_on: Callable[[], bool], *, is_slow: bool = False) -> None:
        """Send small files one after the other, as long as no other worker leads; some are ended at once.

        Where one does not leave in a moment, for want of a connection say, it is asked before each whether to `go_on`.
        """
        while self._crew.lead() and (begun := self._crew.next_unsent()) is not None:
            since = self._clock.steady()
            try:
                if self._gate.pause is not None or (is_slow and not (go_on() and self.may_send())):
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

    def end_some(self, told: list[Told], seconds: float) -> bool:
        """End those whose answers come within so many seconds, and give whether there were any."""
        with TURN.left() if seconds else _AS_IT_IS:
            ready = self._crew.collect(seconds)
        self.end_each(ready, told)
        return bool(ready)

    def end_all(self, told: list[Told]) -> None:
        """End what is under way, unless another worker does; what was not sent yet is taken back."""
        while self._crew.has_begun and self._crew.lead():
            self._tick()
            self.send_out(told, lambda: False, is_slow=True)
            self.end_some(told, LOOK)
            self._recorder.settle(told)

    def end_each(self, begun: Iterable[Begun], told: list[Told]) -> None:
        """Send each that was not, and wait for its answer."""
        waiting = deque(begun)
        try:
            while waiting:
                self._end(waiting.popleft(), told)
        finally:
            # Where one meets trouble, the others are whoever's comes by.
            self._crew.hand_in(waiting)

    def _end(self, begun: Begun, told: list[Told]) -> None:
        """Take an upload to its end, and add it to `told` where it was accepted."""
        row = begun.ready.row
        accepted = None
        try:
            first = self._clock.steady() if begun.underway is None else begun.first
            with begun.ready.file:
                sent = self._upload(begun.ready) if begun.underway is None else begun.underway.end()
            self._tally.handled()
            self.last_answer = self._clock.steady()
            sent = sent._replace(took=self.last_answer - first)
            if sent.outcome.answer is Answer.ACCEPTED:
                accepted = self._recorder.accepted(begun.attempt, begun.ready, sent)
                told.append(accepted)
            else:
                self._recorder.keep(begun.attempt, begun.ready, sent)
        finally:
            if accepted is None:
                self.leave(row)
            else:
                # Its place and the file are given back once the outcome is on the disk.
                self._gate.leave()

    def leave(self, row: FileRow) -> None:
        """Say of a file that was taken that it is not under way."""
        self._gate.leave()
        self._crew.give_back()
        self._feed.release(row)

    def give_up(self, readies: Iterable[Ready]) -> None:
        """Let files be that were made ready."""
        for ready in readies:
            ready.file.close()
            self.leave(ready.row)

    def _upload(self, ready: Ready) -> Sent:
        body: Body = ready.body
        if self._throttle is not None:
            body = TappedBody(body, self._throttle.pace, piece=self._throttle.piece)
        self._mark_told_anew(ready)
        with self._tally.sending(body) if body.size > SMALL else _AS_IT_IS:
            return self._service.upload(ready.request, body)

    def _take_back(self, begun: Begun) -> None:
        """Let a file wait again of which an intent is on the disk and nothing has left."""
        attempt, ready, row, now = begun.attempt, begun.ready, begun.ready.row, self._clock.now()
        unsent = Sent(_NOT_SENT, Left.NOTHING, ready.body.handed, ready.body.md5)
        try:
            self._recorder.insist(row, lambda: self._ledger.outcomes.unsent(attempt, row.id, unsent, now, row.due_at))
        except RowUnfit as error:
            # The row was taken away from outside, and there is nothing to send any more.
            log.warning("not sent", path=printable(row.path), attempt=attempt, detail=str(error))
        self.give_up([ready])

    def _mark_told_anew(self, ready: Ready) -> None:
        if self._preparer.is_told_anew(ready):
            # The change may have been recorded before there was an upload to tell of it.
            self._recorder.insist(ready.row, partial(self._ledger.drifts.mark_unread, ready.row.id))
