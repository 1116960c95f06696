"""Upload due files until a stop, with `upload.workers` threads.

What happens to one file is in `worker`, which file comes next in `queue`.
"""

import threading
from collections.abc import Callable

from assetsync.errors import OutOfResources
from assetsync.ledger.rows import FileRow
from assetsync.sync.upload.queue import Step
from assetsync.sync.upload.worker import UploadContext, Worker

_LOOK_AGAIN = 0.25
"""Seconds after which a thread without a file looks for one again."""

_WITH_FEWER = 60.0
"""Seconds after which a run with fewer workers than configured ends, so that the next one may use more."""


class Uploader:
    """The uploads of a site: `run` uses all workers, `step` uploads one file in the calling thread."""

    def __init__(self, uploads: UploadContext, *, workers: int) -> None:
        self.uploads = uploads
        self.workers = workers
        """Workers of the next run: half as many after each run that lacked descriptors, memory or threads, then twice
        as many after each other run, up to the configured number."""
        self._configured = workers
        self.in_place = False
        """Whether `run` is one worker in the calling thread, so that a simulation can repeat it."""
        self._clock = uploads.context.clock

    def step(self) -> Step:
        """Upload one due file; any number of threads may call it."""
        row = self.uploads.selection.take()
        if isinstance(row, Step):
            return row
        worker = Worker(self.uploads)
        if (ready := worker.prepare(row)) is not None:
            worker.send(ready)
        worker.record_last()
        return Step.WORKED

    def run(self, go_on: Callable[[], bool]) -> Step:
        """Upload due files while `go_on` returns True; return IDLE or PAUSED once none can be taken, WORKED for a stop.

        Uploads in flight end first, and their results are on the disk; a caller that cannot wait cuts them by closing
        the service. Raise LedgerError if the ledger cannot be used.
        """
        until = float("inf") if self.workers == self._configured else self._clock.steady() + _WITH_FEWER
        gates = self.uploads.gates
        shortages = gates.shortages
        run = _Run(self.uploads, 1 if self.in_place else self.workers, lambda: self._clock.steady() < until and go_on())
        step = run.in_place() if self.in_place else run.in_threads()
        if gates.shortages > shortages:
            self.workers = max(1, self.workers // 2)
        elif step is not Step.PAUSED:
            self.workers = min(self._configured, 2 * self.workers)
        return step


class _Run:
    """One call of `Uploader.run`."""

    def __init__(self, uploads: UploadContext, workers: int, go_on: Callable[[], bool]) -> None:
        self._uploads = uploads
        self._workers = workers
        self._go_on = go_on
        self._heartbeat = uploads.context.heartbeat
        self._changed = threading.Condition()
        # The threads that found no file, and what they found instead.
        self._idle: dict[int, Step] = {}
        self._step: Step | None = None
        self._failure: BaseException | None = None

    def in_place(self) -> Step:
        """Upload in the calling thread."""
        self._work()
        return self._end()

    def in_threads(self) -> Step:
        """Upload in threads, as soon as there is a file for the first; they end with the process, even if they hang."""
        if not self._may_go_on():
            return self._end()
        first = self._uploads.selection.take()
        if isinstance(first, Step):
            return first
        threads: list[threading.Thread] = []
        try:
            for number in range(self._workers):
                row = None if threads else first
                thread = threading.Thread(target=self._work, args=(row,), name=f"upload-{number + 1}", daemon=True)
                thread.start()
                threads.append(thread)
        except RuntimeError as error:
            lack = OutOfResources.of(error)
            if not threads:
                self._uploads.selection.give_back(first)
            if lack is None:
                raise
            with self._changed:
                self._workers = len(threads)
            self._uploads.gates.lacks(lack)
        for thread in threads:
            while thread.is_alive():
                self._heartbeat.tick()
                thread.join(_LOOK_AGAIN)
        self._uploads.context.service.close_kept()
        return self._end()

    def _end(self) -> Step:
        if self._failure is not None:
            raise self._failure
        return self._step or Step.WORKED

    def _work(self, row: FileRow | None = None) -> None:
        worker = Worker(self._uploads, self._may_go_on)
        try:
            try:
                self._send_all(worker, row)
            except Exception as error:  # noqa: BLE001 - raised by `_end`, once the results are recorded
                self._failure = self._failure or error
            worker.record_last()
        except BaseException as error:  # noqa: BLE001 - raised by `_end`, once the other uploads in flight have ended
            self._failure = self._failure or error

    def _send_all(self, worker: Worker, row: FileRow | None) -> None:
        while (row := row or self._next(worker)) is not None:
            with self._heartbeat.thread():
                if (ready := worker.prepare(row)) is not None:
                    # Its folder may have been listed for it, so that others of the folder can be taken.
                    self._wake()
                    worker.send(ready)
            row = ready = None
            self._wake()

    def _wake(self) -> None:
        """Let a waiting worker look for a file; if it finds one, it wakes the next."""
        with self._changed:
            self._changed.notify()

    def _next(self, worker: Worker) -> FileRow | None:
        """Return the next file, or None once no worker finds one; the last result is recorded before a wait."""
        me = threading.get_ident()
        while self._may_go_on():
            row = self._uploads.selection.take()
            if not isinstance(row, Step):
                return row
            if worker.is_unrecorded:
                worker.record_last()
                # Other files may have waited for the one that it sent.
                continue
            with self._changed:
                self._idle[me] = row
                if len(self._idle) < self._workers:
                    self._changed.wait(_LOOK_AGAIN)
                if len(self._idle) >= self._workers:
                    self._step = self._step or max(self._idle.values(), key=(Step.IDLE, Step.PAUSED).index)
                    self._changed.notify_all()
                    return None
                del self._idle[me]
        return None

    def _may_go_on(self) -> bool:
        """Return whether an upload may begin; an error ends the run, after the results of others are recorded."""
        if self._failure is not None:
            return False
        try:
            return self._go_on()
        except Exception as error:  # noqa: BLE001 - raised by `_end`, once the uploads in flight have ended
            self._failure = error
            return False
