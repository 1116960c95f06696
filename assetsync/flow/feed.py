"""What is due, handed to the workers one file each; the queue itself is the ledger's."""

import threading
from collections import deque
from collections.abc import Collection

from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock

_BATCH = 64
_SPARING = 20


class Feed:
    """Hands each due row to one worker; the ledger is asked in batches."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[FileRow] = deque()
        self._leased: set[int] = set()
        self._names: set[tuple[str, str]] = set()
        self._empty_until = 0.0

    def take(self, apart_from: Collection[str]) -> FileRow | None:
        """Give a row that no other worker has, nor another of the same name into the same folder.

        Those for the folders of the service in `apart_from` have to wait.
        """
        with self._lock:
            row = self._next(apart_from)
            if row is None and self._clock.steady() >= self._empty_until:
                began = self._clock.steady()
                self._waiting.extend(self._ledger.queue.due(self._clock.now(), _BATCH, self._leased, apart_from))
                row = self._next(apart_from)
                if row is None:
                    # Where asking is dear (a long queue behind a held folder), it is asked less often.
                    ended = self._clock.steady()
                    self._empty_until = ended + _SPARING * (ended - began)
            if row is not None:
                self._leased.add(row.id)
                self._names.add((row.destfolderid, row.folded_name))
            return row

    def release(self, row: FileRow) -> None:
        """Say that the row is dealt with, or to be asked for again."""
        with self._lock:
            self._leased.discard(row.id)
            self._names.discard((row.destfolderid, row.folded_name))
            # What was read before may be out of date for rows of the same name.
            if any(waiting.folded_name == row.folded_name for waiting in self._waiting):
                self._waiting = deque(w for w in self._waiting if w.folded_name != row.folded_name)

    def clear(self) -> None:
        """Forget what was read ahead, after the queue was changed from outside."""
        with self._lock:
            self._waiting.clear()
            self._empty_until = 0.0

    def idle(self, apart_from: Collection[str]) -> bool:
        """Whether no worker has a row and none is due, those for the folders in `apart_from` left out."""
        with self._lock:
            return not self._leased and not self._ledger.queue.due(self._clock.now(), 1, (), apart_from)

    def _next(self, apart_from: Collection[str]) -> FileRow | None:
        while self._waiting:
            row = self._waiting.popleft()
            if (row.destfolderid, row.folded_name) not in self._names and row.destfolderid not in apart_from:
                return row
        return None
