"""Upload due files until a stop: an event loop with `upload.workers` workers.

The event loop prepares small files while that is quick, and preferably while a thread commits: a thread that prepares
files waits for the interpreter's lock at each system call. Else a thread prepares them, or, while files are read
slowly, each worker prepares its own in a thread.

What happens to one file is in `worker`, which file comes next in `queue`, where it is prepared in `preparation_place`.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from assetsync.errors import OutOfResources
from assetsync.ledger.rows import FileRow
from assetsync.sync.upload.folder_listing import ListingNeeded
from assetsync.sync.upload.gather import Ready
from assetsync.sync.upload.preparation_place import PreparationPlace
from assetsync.sync.upload.queue import Step
from assetsync.sync.upload.threads import Blocking, InPlace, Threads
from assetsync.sync.upload.worker import UploadContext, Worker

_QUICK = 256 * 1024
"""Bytes up to which a file is prepared ahead of the workers."""

_FRESH = 1.0
"""Seconds for which a prepared file may be sent without another look at it."""

_AHEAD = 16
"""Files that are kept ready; as many as there are workers, if these are more or descriptors are short."""

_YIELD = 0.0005
"""Seconds after which another thread that computes lets the event loop run; Python's default is ten times as long."""

_BATCH_SECONDS = 0.05
_LOOK_AGAIN = 0.25

_WITH_FEWER = 60.0
"""Seconds after which a run with fewer workers than configured ends, so that the next one may use more."""


class _Item(NamedTuple):
    """A taken file for a worker; `ready` is None if the worker prepares it.

    `at` is when it was prepared (steady seconds), `changes` how often the queue had changed before it was taken.
    """

    row: FileRow
    ready: Ready | None
    at: float
    changes: int


class Uploader:
    """The uploads of a site: `run` uses all workers, `step` uploads one file in the calling thread."""

    def __init__(self, uploads: UploadContext, *, workers: int, may_hang: Callable[[], bool] = lambda: False) -> None:
        """`may_hang` returns whether a part of the tree is on a network file system, where reading may take for ever.

        It may raise OSError. It is called now and then, because a file system may be mounted below the root later.
        """
        self.uploads = uploads
        self.workers = workers
        """Workers of the next run: half as many after each run that lacked descriptors, memory or threads, then twice
        as many after each other run, up to the configured number."""
        self._configured = workers
        self.in_place = False
        """Whether `run` uses no threads and no connections of the event loop, so that a simulation can repeat it."""
        self._clock = uploads.context.clock
        self._place = PreparationPlace(may_hang)

    def step(self) -> Step:
        """Upload one due file; any number of threads may call it."""
        row = self.uploads.selection.take()
        if isinstance(row, Step):
            return row

        async def upload(row: FileRow) -> None:
            worker = Worker(self.uploads, InPlace(self.uploads.context.ledger.store.commit))
            if (ready := await worker.prepare(row)) is not None:
                await worker.upload(ready)
            await worker.record_last()

        _run_in_place(upload(row))
        return Step.WORKED

    def run(self, go_on: Callable[[], bool]) -> Step:
        """Upload due files while `go_on` returns True; return IDLE or PAUSED once none can be taken, WORKED for a stop.

        Uploads in flight end first, and their results are on the disk; a caller that cannot wait cuts them by closing
        the service. Raise LedgerError if the ledger cannot be used.
        """
        until = float("inf") if self.workers == self._configured else self._clock.steady() + _WITH_FEWER

        async def main() -> Step:
            return await _Run(self, lambda: self._clock.steady() < until and go_on()).main()

        sys.setswitchinterval(_YIELD)
        results = self.uploads.results
        shortages = results.shortages
        try:
            step = asyncio.run(main())
        except (OSError, RuntimeError) as error:
            # The event loop itself needs descriptors and threads.
            lack = OutOfResources.of(error)
            if lack is None:
                raise
            results.out_of_resources(lack)
            step = Step.PAUSED
        if results.shortages > shortages:
            self.workers = max(1, self.workers // 2)
        elif step is not Step.PAUSED:
            self.workers = min(self._configured, 2 * self.workers)
        return step

    @property
    def ahead(self) -> int:
        """How many files are kept ready, each with its descriptor."""
        return max(self.workers, _AHEAD) if self.workers == self._configured else self.workers

    def may_prepare_in_loop(self) -> bool:
        """Return whether the event loop may wait for the next file of `prepare_some`."""
        is_quick = self._place.is_event_loop(self._clock.steady())
        # A simulated count takes no time, so that another is always due.
        return is_quick and (self.in_place or not self.uploads.selection.counts_next)

    def prepare_in_loop(self, count: int, go_on: Callable[[], bool]) -> tuple[list[_Item], Step]:
        """Do what `prepare_some` does, in the event loop."""
        began = self._clock.steady()
        with self.uploads.preparer.hurried():
            found = self.prepare_some(count, go_on)
        ended = self._clock.steady()
        self._place.note_batch(ended - began, ended)
        return found

    def prepare_some(self, count: int, go_on: Callable[[], bool] = lambda: True) -> tuple[list[_Item], Step]:
        """Take up to `count` files while `go_on` returns True, and prepare the small ones.

        Return WORKED if there may be more.
        """
        items: list[_Item] = []
        began = now = self._clock.steady()
        try:
            # The count of the waiting files, or the slow disk, may come in the middle.
            while len(items) < count and now - began < _BATCH_SECONDS and go_on():
                changes = self.uploads.selection.changes
                row = self.uploads.selection.take()
                if isinstance(row, Step):
                    return items, row
                if not self._is_prepared_ahead(row, now):
                    items.append(_Item(row, None, now, changes))
                    continue
                try:
                    ready = self.uploads.prepare(row)
                except ListingNeeded:
                    # A worker may wait for the listing.
                    items.append(_Item(row, None, now, changes))
                    continue
                took, now = self._clock.steady() - now, self._clock.steady()
                self._place.note_file(took, now)
                if ready is not None:
                    items.append(_Item(row, ready, now, changes))
        except BaseException:
            for item in items:
                self.give_back(item)
            raise
        return items, Step.WORKED

    def give_back(self, item: _Item) -> None:
        """Let a file be taken again."""
        if item.ready is not None:
            self.uploads.give_back(item.ready)
        else:
            self.uploads.selection.give_back(item.row)

    def _is_prepared_ahead(self, row: FileRow, now: float) -> bool:
        """Return whether the file is prepared here and not by its worker: others wait for it."""
        is_small = row.size <= _QUICK and self.uploads.rate_limiter is None
        return is_small and not self._place.is_each_worker(now) and self.uploads.preparer.is_listed(row.destfolderid)


class _Run:
    """One call of `Uploader.run`, in its event loop."""

    def __init__(self, uploader: Uploader, go_on: Callable[[], bool]) -> None:
        self._uploader = uploader
        self._uploads = uploader.uploads
        self._go_on = go_on
        context = uploader.uploads.context
        self._clock = context.clock
        self._tick = context.heartbeat.tick
        self._items: deque[_Item] = deque()
        self._idle: deque[asyncio.Future[_Item | None]] = deque()
        self._look = asyncio.Event()
        store = context.ledger.store
        self._blocking: Blocking = (
            InPlace(store.commit)
            if uploader.in_place
            else Threads(
                store.write_queued,
                context.heartbeat.thread,
                lambda: uploader.workers - len(self._idle),
                commit_began=self._look.set,
                out_of_resources=uploader.uploads.results.out_of_resources,
            )
        )
        # Whether a worker has taken a file since files were prepared: while all are busy, none is prepared again.
        self._has_taken = True
        self._ends = False
        self._step = Step.WORKED
        self._failure: Exception | None = None

    async def main(self) -> Step:
        """Upload until no file can be taken or the run is stopped."""
        life = asyncio.create_task(self._tick_regularly())
        try:
            await asyncio.gather(self._feed(), *(self._work() for _ in range(self._uploader.workers)))
        finally:
            life.cancel()
            self._blocking.close()
        if self._failure is not None:
            raise self._failure
        return self._step

    async def _feed(self) -> None:
        """Feed the workers, and end them."""
        try:
            self._step = await self._feed_until_idle()
        except Exception as error:  # noqa: BLE001 - raised by `main`, once the uploads in flight have ended
            self._failure = self._failure or error
        self._ends = True
        while self._items:
            self._uploader.give_back(self._items.popleft())
        while self._idle:
            self._idle.popleft().set_result(None)

    async def _feed_until_idle(self) -> Step:
        """Keep files ready for the workers, until no file can be taken or none may begin."""
        workers = self._uploader.workers
        ahead = self._uploader.ahead
        while self._may_go_on():
            missing = len(self._idle) + ahead - len(self._items)
            are_few = bool(self._idle) or (self._has_taken and 2 * missing >= ahead)
            if are_few or (self._has_taken and missing > 0 and self._has_time()):
                self._has_taken = False
                all_idle = len(self._idle) == workers
                go_on = self._uploader.may_prepare_in_loop if are_few else self._has_time
                if are_few and not go_on():
                    items, step = await self._blocking.run(partial(self._uploader.prepare_some, missing))
                else:
                    items, step = self._uploader.prepare_in_loop(missing, go_on)
                for item in items:
                    self._hand_out(item)
                if items or step is Step.WORKED:
                    self._has_taken = self._has_taken or not items
                    # Many files may need no upload: let the workers read their answers.
                    await asyncio.sleep(0)
                    continue
                # An upload that ends while files are looked for may let others be taken.
                if all_idle:
                    return step
            await self._look.wait()
            self._look.clear()
            # While all workers are busy with large files, no small file stays open.
            while self._items and self._clock.steady() - self._items[0].at >= _FRESH:
                self._uploader.give_back(self._items.popleft())
        return Step.WORKED

    def _has_time(self) -> bool:
        """Return whether the event loop may prepare the next file while a thread commits."""
        return self._blocking.is_committing and self._uploader.may_prepare_in_loop()

    def _hand_out(self, item: _Item) -> None:
        if self._idle:
            self._idle.popleft().set_result(item)
        else:
            self._items.append(item)

    async def _work(self) -> None:
        connection = None if self._uploader.in_place else self._uploads.context.service.connection()
        worker = Worker(self._uploads, self._blocking, connection, self._may_go_on)
        try:
            while (item := await self._next(worker)) is not None:
                is_fresh = self._clock.steady() - item.at < _FRESH
                if not is_fresh or item.changes != self._uploads.selection.changes:
                    self._uploader.give_back(item)
                    continue
                ready = item.ready
                if ready is None:
                    ready = await worker.prepare(item.row)
                    # Its folder may have been listed for it, so that the next files of the folder can be taken.
                    self._look.set()
                if ready is not None:
                    await worker.upload(ready)
        except Exception as error:  # noqa: BLE001 - raised by `main`, once the other uploads in flight have ended
            self._failure = self._failure or error
        finally:
            self._look.set()
            worker.close()

    async def _next(self, worker: Worker) -> _Item | None:
        """Return the next file for a worker, or None at the end; record the worker's last result before waiting."""
        if not self._items:
            await worker.record_last()
        self._look.set()
        if self._items:
            self._has_taken = True
            return self._items.popleft()
        if self._ends:
            return None
        free: asyncio.Future[_Item | None] = asyncio.get_running_loop().create_future()
        self._idle.append(free)
        return await free

    def _may_go_on(self) -> bool:
        """Return whether an upload may begin; an error ends the run, after the results of others are recorded."""
        if self._failure is not None:
            return False
        try:
            return self._go_on()
        except Exception as error:  # noqa: BLE001 - raised by `main`, once the uploads in flight have ended
            self._failure = error
            return False

    async def _tick_regularly(self) -> None:
        """Show life, and let `_feed_until_idle` look for new files and for a stop."""
        # Nothing comes from outside while a simulation runs in place, and a timer would make two runs differ.
        while not self._uploader.in_place:
            self._tick()
            self._look.set()
            await asyncio.sleep(_LOOK_AGAIN)


def _run_in_place(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine that waits for nothing but blocking work in place."""
    with suppress(StopIteration):
        while True:
            coroutine.send(None)
