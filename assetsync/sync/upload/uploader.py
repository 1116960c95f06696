"""From the queue into the service: intent, POST, outcome.

`Sender.step` takes one file, and is the unit of work that the fault simulation interleaves; `Sender.run` takes many,
and several together where that pays (`crew`). What became of an upload is written down by `record`.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from assetsync.core.doubt import MostDoubts
from assetsync.errors import LedgerDamaged, LedgerError, ServiceError
from assetsync.ledger.group_commit import Pending
from assetsync.ledger.queue import NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.sync.context import Context
from assetsync.sync.health_check import describe
from assetsync.sync.upload.circuit_breaker import CircuitBreaker
from assetsync.sync.upload.doubt_limit import DoubtLimit
from assetsync.sync.upload.fairness import Fairness
from assetsync.sync.upload.folder_listing import Unlisted
from assetsync.sync.upload.in_flight import LEAD, Begun, Crew
from assetsync.sync.upload.post import LOOK, Poster
from assetsync.sync.upload.prepare import Preparer, Ready
from assetsync.sync.upload.queue import UploadQueue
from assetsync.sync.upload.rate_limiter import RateLimiter
from assetsync.sync.upload.results import PendingResult, ResultRecorder
from assetsync.tree.body import SMALL
from assetsync.turn import TURN

_QUICK = 256 * 1024
_STAND_BY = 0.25
_MOST_AHEAD = 3
_FRESH = 1.0
"""Seconds for which what was read of a file may be sent without another look at it."""
_GLANCE = 0.0


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
        context: Context,
        preparer: Preparer,
        circuit_breaker: CircuitBreaker,
        upload_queue: UploadQueue,
        crew: Crew,
        *,
        most_doubts: MostDoubts,
        rate_limiter: RateLimiter | None = None,
    ) -> None:
        self._ledger = context.ledger
        self._clock = context.clock
        self._preparer = preparer
        self._circuit_breaker = circuit_breaker
        self._upload_queue = upload_queue
        self._crew = crew
        self._room = DoubtLimit(context.ledger.doubts, most_doubts)
        self._order = Fairness(context.clock)
        self._rate_limiter = rate_limiter
        self._progress = context.progress
        self._tick = context.tick
        self.results = ResultRecorder(context, circuit_breaker, upload_queue, crew, room=self._room, order=self._order)
        self.poster = Poster(
            context, preparer, self.results, circuit_breaker, upload_queue, crew=crew, rate_limiter=rate_limiter
        )
        # Of the one that leads: what it has made ready, and when (steady seconds).
        self._ahead: deque[tuple[Ready, float]] = deque()

    def too_doubtful(self) -> bool:
        """Whether so many uploads are in doubt that no more are sent until some are decided."""
        return self._room.is_full()

    def is_idle(self) -> bool:
        """Whether no worker has a file and none is due that could be sent now."""
        return self._upload_queue.idle(*self._room.oldest_and_newest(self._preparer.being_listed, anew=True))

    def step(self) -> Step:
        """Take one due file as far as it goes now."""
        told: list[PendingResult] = []
        try:
            with TURN.taken():
                return self._take_one(told)
        finally:
            self.results.settle(told)

    def run(self, go_on: Callable[[], bool]) -> Step:
        """Take due files while `go_on` says so; gives what the last step did.

        What became of files goes into one commit with the intents of the next, which halves what is waited for on the
        disk. It is there when this returns, and nothing is under way that no other worker sees to.
        """
        told: list[PendingResult] = []
        try:
            while True:
                with TURN.taken():
                    is_apart = self._crew.is_apart and not self._crew.has_begun
                    step = self._take_one(told) if is_apart else self._lead(told, go_on)
                if step is Step.CROWDED:
                    self._crew.stand_by(_STAND_BY)
                if step is not Step.WORKED or not go_on():
                    self._end_all(told)
                    return step
        finally:
            self._put_down()
            self.results.settle(told)

    def _end_all(self, told: list[PendingResult]) -> None:
        """End what is under way, also what another worker has handed in meanwhile, in vain asking to lead."""
        self.poster.end_all(told)
        self._put_down()
        while self._crew.has_begun and self._crew.lead():
            self.poster.end_all(told)
            self._put_down()

    def _put_down(self) -> None:
        """Lead no more, with nothing in hand."""
        while self._crew.lead() and (ahead := self._next_ahead()) is not None:
            self._drop(ahead[0])
        self._crew.step_down()

    def _next_ahead(self) -> tuple[Ready, float] | None:
        # Who took too long to be the one that leads still may be at it, too.
        try:
            return self._ahead.popleft()
        except IndexError:
            return None

    def _lead(self, told: list[PendingResult], go_on: Callable[[], bool]) -> Step:
        """Take what is due, and end what can be ended; `told` is what became of files and waits for a commit."""
        if not self._crew.lead():
            return Step.CROWDED
        self._tick()
        if self._crew.has_unsent:
            # Of another worker, that does not come back. It may take its time here, too.
            self.results.settle(told)
            self.poster.send_out(told, go_on)
        nothing = self._take(self._crew.most, told, lambda begun: self._send_all(begun, told, go_on))
        if nothing is not None:
            # No other commit is to come so soon.
            self.results.settle(told)
            if nothing is Step.CROWDED:
                self._prepare_ahead()
        if self.poster.end_some(told, _GLANCE if nothing is None else LOOK) or self._crew.has_begun:
            return Step.WORKED
        return nothing or Step.WORKED

    def _take_one(self, told: list[PendingResult]) -> Step:
        return self._take(1, told, lambda begun: self.poster.end_each(begun, told)) or Step.WORKED

    def _take(self, most: int, told: list[PendingResult], send: Callable[[Sequence[Begun]], None]) -> Step | None:
        """Take files, and send them; gives what it means that there was nothing to take, None where there was."""
        began = self._clock.steady()
        reserved = self._crew.reserve(most, len(told))
        rows: list[FileRow] = []
        made: dict[int, Ready] = {}
        try:
            if most > 1:
                self._take_ahead(reserved, rows, made)
            nothing = self._choose(reserved, rows) if reserved else Step.CROWDED
            if told and rows and not (rows[0].size <= SMALL and rows[0].destfolderid == told[0].ready.row.destfolderid):
                # A long file may have to be hashed and another folder to be listed: that is no time to wait.
                self.results.settle(told)
        except BaseException:
            for row in rows:
                if row.id in made:
                    made[row.id].file.close()
                self.poster.leave(row)
            raise
        finally:
            self._crew.give_back(reserved - len(rows))
        if not rows:
            return nothing
        if not self._is_quick(rows[0]):
            self._crew.step_down()
            with TURN.left():
                self.poster.end_each(self._begin(self._prepare(rows, made), told), told)
            return None
        ready = self._prepare(rows, made)
        prepared = self._clock.steady()
        begun = self._begin(ready, told)
        leaving = self._clock.steady()
        send(begun)
        if most > 1:
            self._crew.took(self._clock.steady() - leaving + prepared - began, len(rows))
        return None

    def _send_all(self, begun: Sequence[Begun], told: list[PendingResult], go_on: Callable[[], bool]) -> None:
        self._crew.hand_in(begun)
        self.poster.send_out(told, go_on)

    def _choose(self, most: int, rows: list[FileRow]) -> Step:
        """Add the files to take next to `rows`: one, or several that go together; gives what it means that none is."""
        while len(rows) < most:
            if not self._circuit_breaker.enter():
                return Step.PAUSED
            row = None
            try:
                if not self._room.takes_one() or not self.poster.may_send():
                    return Step.PAUSED
                choices = self._order.of(*self._room.oldest_and_newest(self._preparer.being_listed))
                row = self._upload_queue.take(*choices, fits=lambda row: not rows or self._goes_with(row, rows[0]))
                if row is None:
                    return Step.IDLE
                rows.append(row)
            finally:
                if row is None:
                    self._circuit_breaker.leave()
            self._order.taken(row)
            if not self._is_quick(row):
                break
        return Step.WORKED

    def _goes_with(self, row: FileRow, first: FileRow) -> bool:
        return self._is_quick(row) and row.destfolderid == first.destfolderid

    def _is_quick(self, row: FileRow) -> bool:
        """Whether the file is read and handed over in a moment, so that others may wait that long."""
        return row.size <= _QUICK and self._rate_limiter is None

    def _prepare_ahead(self) -> None:
        """Make a small file ready that is to be sent next, while no more may be under way."""
        if len(self._ahead) >= _MOST_AHEAD or self._circuit_breaker.pause is not None or not self.poster.may_send():
            return
        choices = self._order.of(*self._room.oldest_and_newest(self._preparer.being_listed))
        row = self._upload_queue.take(*choices, fits=self._is_quick)
        if row is None:
            return
        self._order.taken(row)
        made = None
        try:
            made, _ = self._prepared(row)
        finally:
            if made is None:
                self._upload_queue.release(row)
            else:
                self._ahead.append((made, self._clock.steady()))

    def _take_ahead(self, most: int, rows: list[FileRow], made: dict[int, Ready]) -> None:
        """Add to `rows` files that were made ready ahead, and these to `made` by their rows; not what has waited."""
        while len(rows) < most and (ahead := self._next_ahead()) is not None:
            ready, since = ahead
            if rows and not self._goes_with(ready.row, rows[0]):
                self._ahead.appendleft(ahead)
                break
            may_go = self._clock.steady() - since < _FRESH and self.poster.may_send() and self._room.takes_one()
            if may_go and self._circuit_breaker.enter():
                rows.append(ready.row)
                made[ready.row.id] = ready
            else:
                self._drop(ready)

    def _drop(self, ready: Ready) -> None:
        """Let a file be made ready again that was so ahead."""
        ready.file.close()
        self._upload_queue.release(ready.row)

    def _prepared(self, row: FileRow) -> tuple[Ready | None, bool]:
        """Make a file ready to be sent, or deal with it otherwise; False where it and others cannot be now."""
        try:
            made = self._preparer.prepare(row)
        except ServiceError as error:
            reason, retry_after = describe(error)
            self.results.trouble(reason, str(error), retry_after, looking=True)
            return None, False
        except Unlisted:
            # With the files of its folder that were read ahead.
            self._upload_queue.clear()
            return None, False
        if made is None:
            self._progress.handled()
        return made, True

    def _prepare(self, rows: Sequence[FileRow], made: Mapping[int, Ready]) -> list[Ready]:
        """Make files ready to be sent, those that are to be; the others are dealt with."""
        ready: list[Ready] = []
        waiting = deque(rows)
        began = self._clock.steady()
        try:
            # Where they are read slowly, what is ready need not wait for the others.
            while waiting and not (ready and self._clock.steady() - began > LEAD):
                self._tick()
                each, goes_on = made.get(waiting[0].id), True
                if each is None:
                    each, goes_on = self._prepared(waiting[0])
                if not goes_on:
                    break
                row = waiting.popleft()
                if each is None:
                    self.poster.leave(row)
                else:
                    ready.append(each)
            if self._circuit_breaker.pause is not None:
                # Nothing of them is on the disk yet.
                self.poster.give_up(ready)
                ready = []
        except BaseException:
            self.poster.give_up(ready)
            raise
        finally:
            for row in waiting:
                if row.id in made:
                    made[row.id].file.close()
                self.poster.leave(row)
        return ready

    def _begin(self, readies: Sequence[Ready], told: list[PendingResult]) -> list[Begun]:
        """Write the intents of files in one commit with what became of those before; gives those that may leave."""
        if any(each.pending.has_failed for each in told):
            # It went along with another thread's commit: beside these intents it would be open on the disk still.
            try:
                self.results.settle(told)
            except BaseException:
                self.poster.give_up(readies)
                raise
        now = self._clock.now()
        pending = [self._ledger.queue.submit_begin(ready.intent, now) for ready in readies]
        may_have_held_told = bool(told)
        begun: list[Begun] = []
        failure: LedgerError | None = None
        for ready, each in zip(readies, pending, strict=True):
            try:
                begun.append(Begun(self._begun(ready, each, told, again=may_have_held_told), ready))
            except (NameBusy, Outdated):
                self.poster.give_up([ready])
            except LedgerError as error:
                failure = error
                self.poster.give_up([ready])
        try:
            self.results.settle(told)
        except LedgerError as error:
            failure = error
        if failure is not None:
            # The others' intents are on the disk: whoever leads next sends them, or takes them back.
            self._crew.hand_in(begun)
            raise failure
        return begun

    def _begun(self, ready: Ready, pending: Pending[int], told: list[PendingResult], *, again: bool) -> int:
        try:
            return pending.result()
        except LedgerDamaged:
            raise
        except LedgerError:
            if not again:
                raise
            # The commit was to hold what became of the files before, which is not given up so soon.
            self.results.settle(told)
            return self._ledger.queue.begin(ready.intent, self._clock.now())
