"""Upload one file: commit the intent, post the file, record the result.

A worker has at most one attempt open in the ledger: one transaction holds the result of its last upload and the intent
of the next. A lost answer becomes a doubt, which `sync.doubts` resolves; a worker never repeats a POST.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from assetsync.errors import LedgerDamaged, LedgerError, OutOfResources, ServiceError
from assetsync.ledger.file.group_commit import Pending
from assetsync.ledger.queue import NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.model import Body, Sent, State, UploadConnection
from assetsync.sync.context import Context
from assetsync.sync.folder_backoff import code_and_wait
from assetsync.sync.upload.folder_listing import ListingNeeded, Unlisted
from assetsync.sync.upload.gather import Ready
from assetsync.sync.upload.limits import RateLimiter
from assetsync.sync.upload.prepare import Preparer
from assetsync.sync.upload.queue import Selection
from assetsync.sync.upload.results import Result, ResultRecorder
from assetsync.sync.upload.threads import Blocking
from assetsync.tree.body import SMALL, TappedBody

_AT_ONCE = 0.025
"""Seconds within which an answer comes at once."""

_LONG_COMMIT = 0.05
"""Seconds after which a commit took so long that uploads may have been stopped since."""


@dataclass(slots=True)
class UploadContext:
    """What all workers of a site share.

    `last_answer` is when the last POST ended (steady seconds), `in_flight` the number of POSTs that have not ended.
    """

    context: Context
    preparer: Preparer
    selection: Selection
    results: ResultRecorder
    rate_limiter: RateLimiter | None = None
    last_answer: float | None = None
    in_flight: int = 0

    def prepare(self, row: FileRow) -> Ready | None:
        """Return a taken file ready to be sent; or give it back and return None. May block for long.

        Raise ListingNeeded, and keep the file taken, only if the preparer is `hurried`.
        """
        ready, is_kept = None, False
        try:
            ready = self.preparer.prepare(row)
            if ready is None:
                self.context.progress.handled()
        except ServiceError as error:
            if self.context.clock.wait(0):
                # The stop cut the look-up.
                return None
            reason, retry_after = code_and_wait(error)
            self.results.trouble(reason, str(error), retry_after, by_lookup=True)
        except OutOfResources as error:
            self.results.out_of_resources(error)
        except Unlisted:
            # Other files of the folder have to wait, too.
            self.selection.forget()
        except ListingNeeded:
            is_kept = True
            raise
        finally:
            if ready is None and not is_kept:
                self.selection.leave()
                self.selection.release(row)
        return ready

    def give_back(self, ready: Ready) -> None:
        """Let a prepared file be taken again."""
        ready.file.close()
        self.selection.give_back(ready.row)


class Worker:
    """A sender of one file after the other; used by one coroutine.

    Without a `connection` each file is posted by a thread. `go_on` returns False once no upload may begin any more.
    """

    def __init__(
        self,
        uploads: UploadContext,
        blocking: Blocking,
        connection: UploadConnection | None = None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._uploads = uploads
        self._results = uploads.results
        self._selection = uploads.selection
        self._ledger = uploads.context.ledger
        self._clock = uploads.context.clock
        self._blocking = blocking
        self._connection = connection
        self._go_on = go_on
        # The last upload, while its result is not on the disk.
        self._last: Result | None = None

    def may_begin(self, row: FileRow) -> bool:
        """Return whether the upload of a file may begin now."""
        return self._selection.is_open(row.destfolderid) and self._go_on()

    async def prepare(self, row: FileRow) -> Ready | None:
        """Return a taken file ready to be sent, which may take long; or give it back and return None."""
        if not self.may_begin(row):
            self._selection.give_back(row)
            return None
        await self.record_last()
        return await self._blocking.run(partial(self._uploads.prepare, row))

    async def upload(self, ready: Ready) -> None:
        """Upload a prepared file; the record of an accepted upload waits for the next call, or for `record_last`."""
        if not self.may_begin(ready.row):
            # It may have waited for its turn, or its preparation took long.
            self._uploads.give_back(ready)
            return
        try:
            self._last = await self._send(ready)
            if self._last is not None and self._last.is_accepted:
                self._results.note_answer()
            else:
                await self.record_last()
        finally:
            self._selection.leave()

    async def record_last(self) -> None:
        """Record the last upload, if that is not done yet; raises as `ResultRecorder.record` does."""
        pending = None
        if self._last is not None and self._last.is_accepted:
            pending = self._results.submit(self._last)
            await self._blocking.commit(others_follow=False)
        await self._record_last(pending)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    async def _record_last(self, committed: Pending[State] | None) -> None:
        """Record the last upload, then let its file be taken again; `committed` is its record, if it was submitted."""
        last, self._last = self._last, None
        if last is None:
            return
        try:
            state = None if committed is None else _state_of(committed)
            if state is None:
                await self._blocking.run(partial(self._results.record, last))
            else:
                self._results.recorded(last, state)
        finally:
            self._selection.release(last.row)

    async def _send(self, ready: Ready) -> Result | None:
        """Commit the intent and post the file; return None, and let the file be taken again, if it must not be sent."""
        result = None
        try:
            with ready.file:
                attempt = await self._begin(ready)
                if attempt is not None:
                    result = Result(attempt, ready, await self._post(ready))
        finally:
            if result is None:
                self._selection.release(ready.row)
        return result

    async def _begin(self, ready: Ready) -> int | None:
        """Commit the intent, and with it the last result; return the attempt, or None if the file must not be sent."""
        began = self._clock.steady()
        with self._ledger.store.in_one_commit():
            last = None if self._last is None else self._results.submit(self._last)
            intent = self._ledger.queue.submit_begin(ready.intent, self._clock.now())
        # Answers that come at once come together, and share a commit then.
        came_at_once = self._last is not None and self._last.sent.took < _AT_ONCE
        await self._blocking.commit(others_follow=came_at_once)
        if last is not None:
            await self._record_last(last)
        try:
            attempt = await self._result_of(intent, ready, again=last is not None)
        except (NameBusy, Outdated):
            return None
        if self._clock.steady() - began < _LONG_COMMIT or self.may_begin(ready.row):
            return attempt
        # Nothing has left yet.
        await self._blocking.run(partial(self._results.take_back, attempt, ready))
        return None

    async def _result_of(self, intent: Pending[int], ready: Ready, *, again: bool) -> int:
        try:
            return intent.result()
        except LedgerDamaged:
            raise
        except LedgerError:
            if not again:
                raise
        # The commit had failed, and `_record_last` has waited until the ledger could be written again.
        return await self._blocking.run(partial(self._ledger.queue.begin, ready.intent, self._clock.now()))

    async def _post(self, ready: Ready) -> Sent:
        uploads = self._uploads
        if ready.row.is_without_metadata or uploads.preparer.sidecars_changed(ready):
            # A sidecar changed after the metadata was read. If the ledger recorded the change before it had this
            # attempt, nothing marked the file as to be read again. Or the metadata of the tree is not sent, which is
            # drift.
            mark_unread = partial(self._ledger.metadata_drift.mark_unread, ready.row.id)
            await self._blocking.run(partial(self._results.write_with_retry, ready.row, mark_unread))
        began = self._clock.steady()
        uploads.in_flight += 1
        try:
            if self._connection is None or ready.body.size > SMALL or uploads.rate_limiter is not None:
                sent = await self._blocking.run(partial(self._post_blocking, ready))
            else:
                sent = await self._connection.post(ready.request, ready.body)
        finally:
            uploads.in_flight -= 1
        uploads.context.progress.handled()
        uploads.last_answer = self._clock.steady()
        return sent._replace(took=uploads.last_answer - began)

    def _post_blocking(self, ready: Ready) -> Sent:
        context, rate_limiter = self._uploads.context, self._uploads.rate_limiter
        body: Body = ready.body
        if rate_limiter is not None:
            body = TappedBody(body, rate_limiter.pace, piece=rate_limiter.piece)
        with context.progress.sending(ready.row.id, body) if body.size > SMALL else nullcontext():
            return context.service.upload(ready.request, body)


def _state_of(committed: Pending[State]) -> State | None:
    """Return the state of a row by the commit of its record, or None if that commit failed. Raise LedgerDamaged."""
    try:
        return committed.result()
    except LedgerDamaged:
        raise
    except LedgerError:
        return None
