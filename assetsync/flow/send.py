"""From the queue into the service: intent, POST, outcome.

`Sender.step` takes one file, and is the unit of work that the fault simulation interleaves; `Sender.run` takes many,
and several together where that pays (`crew`). What became of an upload is written down by `record`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from functools import partial

import structlog

from assetsync.core.doubt import MostDoubts
from assetsync.errors import LedgerDamaged, LedgerError, ServiceError
from assetsync.flow.contact import Unlisted
from assetsync.flow.crew import OVERDUE, Begun, Crew
from assetsync.flow.edges import Edges
from assetsync.flow.feed import Feed
from assetsync.flow.gate import Gate
from assetsync.flow.order import Order
from assetsync.flow.pace import Throttle
from assetsync.flow.prepare import Preparer, Ready
from assetsync.flow.record import Recorder, Told
from assetsync.flow.room import Room
from assetsync.flow.trouble import describe
from assetsync.ledger.commits import Pending
from assetsync.ledger.queue import NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.model import Answer, Body, Sent
from assetsync.tree.body import SMALL, TappedBody
from assetsync.turn import TURN

log = structlog.get_logger(__name__)

_QUICK = 256 * 1024
_AS_IT_IS = nullcontext()


class Step(StrEnum):
    """What a step did: sent or settled files, found nothing due, was not let through the gate, or found no room.

    There is no room where the other workers have all under way that may be.
    """

    WORKED = "worked"
    IDLE = "idle"
    PAUSED = "paused"
    CROWDED = "crowded"


class Sender:
    """Sends what is due; any number of threads may call `step`."""

    def __init__(
        self,
        edges: Edges,
        preparer: Preparer,
        gate: Gate,
        feed: Feed,
        crew: Crew,
        *,
        most_doubts: MostDoubts,
        throttle: Throttle | None = None,
    ) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._preparer = preparer
        self._gate = gate
        self._feed = feed
        self._crew = crew
        self._room = Room(edges.ledger.doubts, most_doubts)
        self._order = Order(edges.clock)
        self._throttle = throttle
        self._tally = edges.tally
        self.recorder = Recorder(edges, gate, feed, self._room, self._order)
        self.may_send: Callable[[], bool] = lambda: True
        self.last_answer: float | None = None

    def too_doubtful(self) -> bool:
        """Whether so many uploads are in doubt that no more are sent until some are decided."""
        return self._room.is_full()

    def is_idle(self) -> bool:
        """Whether no worker has a file and none is due that could be sent now."""
        return self._feed.idle(*self._room.oldest_and_newest(self._preparer.being_listed, anew=True))

    def step(self) -> Step:
        """Take one due file as far as it goes now."""
        return self._worked(lambda: False, self._crew.reserve_one)

    def run(self, go_on: Callable[[], bool]) -> Step:
        """Take due files one after the other while `go_on` says so; gives what the last step did.

        What became of files goes into one commit with the intents of the next, which halves what is waited for on the
        disk. It is there when this returns.
        """
        return self._worked(go_on, self._crew.reserve)

    def _worked(self, go_on: Callable[[], bool], reserve: Callable[[], int]) -> Step:
        told: list[Told] = []
        try:
            while True:
                with TURN.taken():
                    step = self._take(reserve, told)
                if step is not Step.WORKED or not go_on():
                    return step
        finally:
            self.recorder.settle(told)

    def _take(self, reserve: Callable[[], int], told: list[Told]) -> Step:
        """Take files; `told` is what became of those before, and waits for a commit, then what became of these."""
        late = self._crew.overdue()
        if late is not None:
            self._end(late, told)
            return Step.WORKED
        reserved = reserve()
        if not reserved:
            return Step.CROWDED
        rows: list[FileRow] = []
        try:
            nothing = self._choose(reserved, rows)
            if told and rows and not (rows[0].size <= SMALL and rows[0].destfolderid == told[0].ready.row.destfolderid):
                # A long file may have to be hashed and another folder to be listed: that is no time to wait.
                self.recorder.settle(told)
        except BaseException:
            for row in rows:
                self._leave(row)
            raise
        finally:
            self._crew.give_back(reserved - len(rows))
        if not rows:
            return nothing
        if len(rows) > 1:
            self._crew.lead()
        with _AS_IT_IS if self._is_quick(rows[0]) else TURN.left():
            begun = self._begin(self._prepare(rows), told)
            if len(begun) == 1:
                self._end(begun[0], told, is_first=True)
            else:
                self._send_together(begun, told)
        return Step.WORKED

    def _send_together(self, begun: Sequence[Begun], told: list[Told]) -> None:
        """Send small files one after the other, and then read the answers."""
        waiting = deque(begun)
        since = now = self._clock.steady()
        while waiting and now - since <= OVERDUE:
            since = now
            self._crew.hand_in([self._start(waiting.popleft(), since)])
            now = self._clock.steady()
        # Where one does not leave in a moment, a connection that does not come about say, each is for itself.
        self._crew.hand_in(waiting)
        is_first = True
        while (sent := self._crew.next()) is not None:
            self._end(sent, told, is_first=is_first)
            is_first = False

    def _choose(self, most: int, rows: list[FileRow]) -> Step:
        """Add the files to take next to `rows`: one, or several that go together; gives what it means that none is."""
        while len(rows) < most:
            if not self._gate.enter():
                return Step.PAUSED
            row = None
            try:
                if not self._room.takes_one() or not self.may_send():
                    return Step.PAUSED
                choices = self._order.of(*self._room.oldest_and_newest(self._preparer.being_listed))
                row = self._feed.take(*choices, fits=lambda row: not rows or self._goes_with(row, rows[0]))
                if row is None:
                    return Step.IDLE
                rows.append(row)
            finally:
                if row is None:
                    self._gate.leave()
            self._order.taken(row)
            if not self._is_quick(row):
                break
        return Step.WORKED

    def _goes_with(self, row: FileRow, first: FileRow) -> bool:
        return self._is_quick(row) and row.destfolderid == first.destfolderid

    def _is_quick(self, row: FileRow) -> bool:
        """Whether the file is read and handed over in a moment, so that others may wait that long."""
        return row.size <= _QUICK and self._throttle is None

    def _prepare(self, rows: Sequence[FileRow]) -> list[Ready]:
        """Make files ready to be sent, those that are to be; the others are dealt with."""
        ready: list[Ready] = []
        waiting = deque(rows)
        try:
            while waiting:
                row = waiting[0]
                try:
                    made = self._preparer.prepare(row)
                except ServiceError as error:
                    reason, retry_after = describe(error)
                    self.recorder.trouble(reason, str(error), retry_after, looking=True)
                    break
                except Unlisted:
                    # With the files of its folder that were read ahead.
                    self._feed.clear()
                    break
                waiting.popleft()
                if made is None:
                    self._tally.handled()
                    self._leave(row)
                else:
                    ready.append(made)
        except BaseException:
            self._give_up(ready)
            raise
        finally:
            for row in waiting:
                self._leave(row)
        return ready

    def _begin(self, readies: Sequence[Ready], told: list[Told]) -> list[Begun]:
        """Write the intents of files in one commit with what became of those before; gives those that may leave."""
        now = self._clock.now()
        pending = [self._ledger.queue.submit_begin(ready.intent, now) for ready in readies]
        may_have_held_told = bool(told)
        begun: list[Begun] = []
        failure: LedgerError | None = None
        for ready, each in zip(readies, pending, strict=True):
            try:
                begun.append(Begun(self._begun(ready, each, told, again=may_have_held_told), ready))
            except (NameBusy, Outdated):
                self._give_up([ready])
            except LedgerError as error:
                failure = error
                self._give_up([ready])
        if failure is not None:
            # The others' intents are on the disk: whoever comes by sends them.
            self._crew.hand_in(begun)
            raise failure
        try:
            self.recorder.settle(told)
            for ready in (each.ready for each in begun):
                if self._preparer.is_told_anew(ready):
                    # The change may have been recorded before there was an upload to tell of it.
                    self.recorder.insist(ready.row, partial(self._ledger.drifts.mark_unread, ready.row.id))
        except BaseException:
            self._crew.hand_in(begun)
            raise
        return begun

    def _begun(self, ready: Ready, pending: Pending[int], told: list[Told], *, again: bool) -> int:
        try:
            return pending.result()
        except LedgerDamaged:
            raise
        except LedgerError:
            if not again:
                raise
            # The commit was to hold what became of the files before, which is not given up so soon.
            self.recorder.settle(told)
            return self._ledger.queue.begin(ready.intent, self._clock.now())

    def _leave(self, row: FileRow) -> None:
        """Say of a file that was taken that it is not under way."""
        self._gate.leave()
        self._crew.give_back()
        self._feed.release(row)

    def _give_up(self, readies: Iterable[Ready]) -> None:
        for ready in readies:
            ready.file.close()
            self._leave(ready.row)

    def _start(self, begun: Begun, now: float) -> Begun:
        """Send one of several small files, whose answer is read once all of them have left."""
        return replace(begun, since=now, answer=self._service.start(begun.ready.request, begun.ready.body))

    def _end(self, begun: Begun, told: list[Told], *, is_first: bool = False) -> None:
        """Take an upload to its end, and add it to `told` where it was accepted; `is_first` of those sent together."""
        row = begun.ready.row
        accepted = None
        try:
            with begun.ready.file:
                sent = self._upload(begun.ready) if begun.answer is None else begun.answer()
            self._tally.handled()
            self.last_answer = self._clock.steady()
            if is_first and sent.waited is not None and row.size <= _QUICK:
                self._crew.waited(sent.waited)
            if sent.outcome.answer is Answer.ACCEPTED:
                accepted = self.recorder.accepted(begun.attempt, begun.ready, sent)
                told.append(accepted)
            else:
                self.recorder.keep(begun.attempt, begun.ready, sent)
        finally:
            self._gate.leave()
            self._crew.give_back()
            if accepted is None:
                self._feed.release(row)

    def _upload(self, ready: Ready) -> Sent:
        body: Body = ready.body
        if self._throttle is not None:
            body = TappedBody(body, self._throttle.pace, piece=self._throttle.piece)
        with self._tally.sending(body) if body.size > SMALL else _AS_IT_IS:
            return self._service.upload(ready.request, body)
