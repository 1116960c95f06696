"""Whose turn it is: the oldest file that is due, or the newest.

Where files wait for long (a first import, a tree whose permissions were changed and that is hashed anew, a folder of
files that the service, or a limit on the way, does not take), the one that somebody saves now would wait behind all of
them. So after each file that has waited, or whose upload was lost, it is the turn of the newest that was never tried.
"""

from collections.abc import Sequence

from assetsync.ledger.rows import FileRow
from assetsync.model import Clock
from assetsync.sync.upload.queue import Choice

_HAS_WAITED = 20.0


class Fairness:
    """Shared by all workers; that two of them take the newest at once does no harm."""

    def __init__(self, clock: Clock) -> None:
        """Begin with the oldest."""
        self._clock = clock
        self._is_newests_turn = False

    def of(self, oldest: Choice, newest: Choice) -> Sequence[Choice]:
        """Give the two, that first whose turn it is."""
        return (newest, oldest) if self._is_newests_turn else (oldest, newest)

    def taken(self, row: FileRow) -> None:
        """Hear which file is handled next."""
        waited = self._clock.now() - row.queued_at
        # Queued in the future: by a clock that has since been set back.
        has_waited = row.attempts > 0 or not 0 <= waited < _HAS_WAITED
        self._is_newests_turn = has_waited and not self._is_newests_turn

    def lost(self) -> None:
        """Hear that an upload was lost: what is tried next should be something else."""
        self._is_newests_turn = True
