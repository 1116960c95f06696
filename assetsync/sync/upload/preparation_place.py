"""Choose where small files are prepared: in the event loop, in a thread, or by each worker in a thread of its own.

The choice rests on how long files took and on the kind of the file system. Preparing is left to `uploader`, which
also keeps the counts of the waiting files out of the event loop.
"""

from collections.abc import Callable

_LONG = 0.1
"""Seconds for a batch, from which on the event loop was kept for too long."""

_QUICKLY = 0.001
"""Seconds for a file, on average, up to which the event loop prepares files."""

_SLOW = 0.005
"""Seconds for a file, on average, from which on each worker prepares its own."""

_UNTIL_TRIED = 30.0
"""Seconds until the quicker way is tried again."""

_MANY = 50


class PreparationPlace:
    """The place where the next small file is prepared. `now` is the time in seconds on the steady clock."""

    def __init__(self, may_hang: Callable[[], bool]) -> None:
        """Start in the event loop; for `may_hang` see `Uploader`."""
        self._may_hang = may_hang
        self._ask_again_at = 0.0
        # Until these times the event loop prepares no files, and each worker prepares its own.
        self._in_thread_until = 0.0
        self._side_by_side_until = 0.0
        self._seconds_per_file = 0.0

    def is_event_loop(self, now: float) -> bool:
        """Return whether the event loop may wait for the file; now and then this asks whether reading may hang."""
        if now < self._in_thread_until:
            return False
        if now >= self._ask_again_at:
            self._ask_again_at = now + _UNTIL_TRIED
            try:
                self._in_thread_until = float("inf") if self._may_hang() else 0.0
            except OSError:
                self._in_thread_until = self._ask_again_at
        return now >= self._in_thread_until

    def is_each_worker(self, now: float) -> bool:
        """Return whether each worker prepares its own files."""
        return now < self._side_by_side_until

    def note_file(self, seconds: float, now: float) -> None:
        """Note how long a file took, in any place."""
        # An average over many files, because a disk may falter for a moment.
        self._seconds_per_file += (seconds - self._seconds_per_file) / _MANY
        if self._seconds_per_file > _SLOW:
            self._seconds_per_file = 0.0
            self._side_by_side_until = now + _UNTIL_TRIED
        elif self._seconds_per_file > _QUICKLY:
            self._leave_event_loop(now)

    def note_batch(self, seconds: float, now: float) -> None:
        """Note how long the event loop was kept: one file may take long, or a look for due files among many held."""
        if seconds > _LONG:
            self._leave_event_loop(now)

    def _leave_event_loop(self, now: float) -> None:
        self._in_thread_until = max(self._in_thread_until, now + _UNTIL_TRIED)
