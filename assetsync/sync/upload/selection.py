"""Choose which due file is uploaded next, and hold it until its upload has ended.

The oldest and the newest files take turns. If files wait for long (a first import, a tree that is hashed again, a
folder whose uploads fail), a file that was saved just now would wait behind all of them. So the newest file that was
never tried follows each file that has waited, and each file whose upload was lost.
"""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum

from assetsync.ledger.rows import FileRow
from assetsync.model import Clock
from assetsync.sync.upload.circuit_breaker import CircuitBreaker
from assetsync.sync.upload.doubt_limit import DoubtLimit
from assetsync.sync.upload.queue import Choice, UploadQueue

_HAS_WAITED = 20.0


class Step(StrEnum):
    """What a step did: it took a file, found none due, or was not allowed to take one."""

    WORKED = "worked"
    IDLE = "idle"
    PAUSED = "paused"


class Selection:
    """Choice of the next file; shared by all threads."""

    def __init__(
        self,
        clock: Clock,
        upload_queue: UploadQueue,
        circuit_breaker: CircuitBreaker,
        doubt_limit: DoubtLimit,
        being_listed: Callable[[], Collection[str]],
    ) -> None:
        """Start with the oldest file; `being_listed` returns the folders that receive no files now."""
        self._clock = clock
        self._queue = upload_queue
        self._circuit_breaker = circuit_breaker
        self._doubt_limit = doubt_limit
        self._being_listed = being_listed
        # Not locked: no harm is done if two threads take the newest file in a row.
        self._newest_is_next = False
        self.may_send: Callable[[], bool] = lambda: True
        """Return whether the upload window is open."""

    @property
    def is_open(self) -> bool:
        """Whether an upload may start: the window is open, and the circuit breaker is not."""
        return self._circuit_breaker.pause is None and self.may_send()

    @property
    def changes(self) -> int:
        """How often files were added or folders held since the start: what was taken before may be held by now."""
        return self._queue.changes

    def take(self) -> FileRow | Step:
        """Return a due file that no other thread has; IDLE if none is due, PAUSED if none may be taken now.

        A file that was taken is given back with `leave`, and then with `release`.
        """
        if not self._circuit_breaker.enter():
            return Step.PAUSED
        row = None
        try:
            if not self._doubt_limit.takes_one() or not self.may_send():
                return Step.PAUSED
            row = self._queue.take(*self._choices())
            if row is None:
                return Step.IDLE
        finally:
            if row is None:
                self._circuit_breaker.leave()
        waited = self._clock.now() - row.queued_at
        # A time in the future comes from a clock that has since been set back.
        has_waited = row.attempts > 0 or not 0 <= waited < _HAS_WAITED
        self._newest_is_next = has_waited and not self._newest_is_next
        return row

    def _choices(self) -> Sequence[Choice]:
        oldest, newest = self._doubt_limit.oldest_and_newest(self._being_listed())
        return (newest, oldest) if self._newest_is_next else (oldest, newest)

    def leave(self) -> None:
        """Record that the service no longer works on the file."""
        self._circuit_breaker.leave()

    def release(self, row: FileRow) -> None:
        """Let the file be taken again; its result is in the ledger, or there is none."""
        self._queue.release(row)

    def give_back(self, row: FileRow) -> None:
        """Let a file be taken again of which nothing was sent."""
        self.leave()
        self.release(row)
        # Its turn was not used, nor that of a lost upload before it.
        self._newest_is_next = True

    def forget(self) -> None:
        """Read the queue from the ledger again, after rows were changed or a folder was held."""
        self._queue.clear()

    def doubted(self) -> None:
        """Record that an upload is in doubt, so that the doubts are counted again before the next file."""
        self._doubt_limit.doubted()

    def lost(self) -> None:
        """Record that an upload was lost, so that the next file is another kind of file."""
        self._newest_is_next = True
        self._doubt_limit.doubted()

    def too_doubtful(self) -> bool:
        """Return whether too many uploads are in doubt to send more before some are decided."""
        return self._doubt_limit.is_full()

    def is_idle(self) -> bool:
        """Return whether no file is taken and no file is due that may be taken now."""
        return self._queue.idle(*self._doubt_limit.oldest_and_newest(self._being_listed(), anew=True))
