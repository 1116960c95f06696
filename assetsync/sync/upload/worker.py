"""Upload one file: commit the intent, post the file, record the result.

A worker has at most one attempt open in the ledger: one transaction holds the result of its last upload and the intent
of the next, if that is ready at once. A lost answer becomes a doubt, which `sync.doubts` resolves; a worker never
repeats a POST.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from assetsync.errors import LedgerDamaged, LedgerError, OutOfResources, ServiceError
from assetsync.ledger.file.group_commit import Pending
from assetsync.ledger.queue import NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.model import Body, Sent, State
from assetsync.sync.context import Context
from assetsync.sync.gates import Gates
from assetsync.sync.upload.folder_listing import Unlisted
from assetsync.sync.upload.gather import Ready
from assetsync.sync.upload.limits import RateLimiter
from assetsync.sync.upload.prepare import Preparer
from assetsync.sync.upload.queue import Selection
from assetsync.sync.upload.results import Result, ResultRecorder
from assetsync.tree.body import SMALL, TappedBody

_LONG_COMMIT = 0.05
"""Seconds after which a commit took so long that uploads may have been stopped since."""


@dataclass(slots=True)
class UploadContext:
    """What all workers of a site share.

    `last_answer` is when the last POST ended (steady seconds), `in_flight` the number of POSTs that have not ended.
    """

    context: Context
    gates: Gates
    preparer: Preparer
    selection: Selection
    results: ResultRecorder
    rate_limiter: RateLimiter | None = None
    last_answer: float | None = None
    in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def posting(self) -> Iterator[None]:
        """Count a POST as in flight inside the block."""
        with self.lock:
            self.in_flight += 1
        try:
            yield
        finally:
            with self.lock:
                self.in_flight -= 1
        self.last_answer = self.context.clock.steady()


class Worker:
    """A sender of one file after the other; used by one thread. `go_on` returns False once no upload may begin."""

    def __init__(self, uploads: UploadContext, go_on: Callable[[], bool] = lambda: True) -> None:
        self._uploads = uploads
        self._results = uploads.results
        self._selection = uploads.selection
        self._gates = uploads.gates
        self._context = uploads.context
        self._ledger = uploads.context.ledger
        self._clock = uploads.context.clock
        self._go_on = go_on
        # The last upload, if it was accepted and is not recorded yet.
        self._last: Result | None = None

    def prepare(self, row: FileRow) -> Ready | None:
        """Return a taken file ready for `send`, which may take long; or let it be taken again and return None."""
        if not self._may_begin(row):
            self._selection.give_back(row)
            return None
        ready = None
        try:
            ready = self._uploads.preparer.prepare(row, self.record_last)
            if ready is None:
                self._context.progress.handled()
        except ServiceError as error:
            self._gates.lookup_failed(error)
        except OutOfResources as error:
            self._gates.lacks(error)
        except Unlisted:
            # Other files of the folder have to wait, too.
            self._selection.forget()
        finally:
            if ready is None:
                self._gates.leave()
                self._selection.release(row)
        return ready

    def send(self, ready: Ready) -> None:
        """Upload a prepared file. The next call, or `record_last`, records an accepted upload.

        Raise as `ResultRecorder.record` does.
        """
        if not self._may_begin(ready.row):
            # Its preparation took long.
            ready.file.close()
            self._selection.give_back(ready.row)
            return
        try:
            result = self._send(ready)
            if result is not None and result.is_accepted:
                self._results.note_answer(result)
                self._last = result
            elif result is not None:
                self._record(result)
        finally:
            self._gates.leave()

    @property
    def is_unrecorded(self) -> bool:
        """Whether `record_last` has something to record."""
        return self._last is not None

    def record_last(self) -> None:
        """Record the last upload, if that is not done yet; raises as `ResultRecorder.record` does."""
        if self._last is not None:
            self._recorded(self._results.submit(self._last))

    def _may_begin(self, row: FileRow) -> bool:
        return self._gates.passes(row) and self._go_on()

    def _send(self, ready: Ready) -> Result | None:
        """Commit the intent and post the file; return None, and let the file be taken again, if it must not be sent."""
        result = None
        try:
            with ready.file:
                attempt = self._begin(ready)
                if attempt is not None:
                    result = Result(attempt, ready, self._post(ready))
        finally:
            if result is None:
                self._selection.release(ready.row)
        return result

    def _begin(self, ready: Ready) -> int | None:
        """Commit the intent, and with it the last result; return the attempt, or None if the file must not be sent."""
        began = self._clock.steady()
        last = None
        with self._ledger.store.in_one_commit():
            if self._last is not None:
                last = self._results.submit(self._last)
            intent = self._ledger.queue.submit_begin(ready.intent, self._clock.now())
        if last is not None:
            self._recorded(last)
        try:
            attempt = self._result_of(intent, ready, again=last is not None)
        except (NameBusy, Outdated):
            return None
        if self._clock.steady() - began < _LONG_COMMIT or self._may_begin(ready.row):
            return attempt
        # Nothing has left yet.
        self._results.take_back(attempt, ready)
        return None

    def _result_of(self, intent: Pending[int], ready: Ready, *, again: bool) -> int:
        try:
            return intent.result()
        except LedgerDamaged:
            raise
        except LedgerError:
            if not again:
                raise
        # The commit had failed, and `_recorded` has waited until the ledger could be written again.
        return self._ledger.queue.begin(ready.intent, self._clock.now())

    def _recorded(self, submitted: Pending[State]) -> None:
        """Wait for the record of the last upload; if its commit fails, record the upload as any other."""
        last, self._last = self._last, None
        assert last is not None, "a record was submitted"
        try:
            state = submitted.result()
        except LedgerDamaged:
            self._selection.release(last.row)
            raise
        except LedgerError:
            self._record(last)
        else:
            self._results.recorded(last, state)
            self._selection.release(last.row)

    def _record(self, result: Result) -> None:
        try:
            self._results.record(result)
        finally:
            self._selection.release(result.row)

    def _post(self, ready: Ready) -> Sent:
        uploads, row = self._uploads, ready.row
        if row.is_without_metadata or uploads.preparer.sidecars_changed(ready):
            # A sidecar changed after the metadata was read. If the ledger recorded the change before it had this
            # attempt, nothing marked the file as to be read again. Or the metadata of the tree is not sent, which is
            # drift.
            self._results.write_with_retry(row, lambda: self._ledger.metadata_drift.mark_unread(row.id))
        body: Body = ready.body
        if (limiter := uploads.rate_limiter) is not None:
            body = TappedBody(body, limiter.pace, piece=limiter.piece)
        began = self._clock.steady()
        with uploads.posting(), self._context.progress.sending(row.id, body) if body.size > SMALL else nullcontext():
            sent = self._context.service.upload(ready.request, body)
        self._context.progress.handled()
        return sent._replace(took=self._clock.steady() - began)
