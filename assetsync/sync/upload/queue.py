"""Lease due rows to workers; the queue itself is the ledger's."""

import threading
from collections import deque
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import NamedTuple

from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock

LONG = 64 * 1024 * 1024
"""Bytes from which on a file keeps a worker for long: it is read whole, and perhaps twice."""

_BATCH = 64
_SPARING = 20
_FOLDED_NAME = attrgetter("folded_name")


class Choice(NamedTuple):
    """What may be given: the oldest due, or the `newest` of those never tried; not for the folders in `apart_from`."""

    apart_from: Collection[str] = ()
    newest: bool = False


class UploadQueue:
    """Leases each due row to one worker; the ledger is asked in batches."""

    def __init__(self, ledger: Ledger, clock: Clock, *, most_long: int | None = None) -> None:
        """Start with nothing read; at most `most_long` workers get a long file at the same time."""
        self._ledger = ledger
        self._clock = clock
        self._most_long = most_long
        self._one_asks = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: deque[FileRow] = deque()  # the oldest, read ahead
        self._leased: dict[int, int] = {}  # the sizes, by the row
        self._names: set[tuple[str, str]] = set()
        self.changes = 0
        """How often the queue was changed from outside: what was leased before may be held by now."""
        # By whether it is the newest: where asking is dear (a long queue behind a held folder), it is done less often.
        self._empty_until = {False: 0.0, True: 0.0}

    def take(self, *choices: Choice) -> FileRow | None:
        """Return a row that no other worker has, and no worker has one of the same name for the same folder.

        The row is one of the first choice; of the next choice only if there is none.
        """
        with self._one_asks:
            for choice in choices:
                row = self._choose(choice)
                if row is not None:
                    return row
            return None

    def release(self, row: FileRow) -> None:
        """Let a row be leased again, if it is still due."""
        with self._lock:
            self._leased.pop(row.id, None)
            self._names.discard((row.destfolderid, row.folded_name))
            # What was read before may be out of date for rows of the same name.
            if row.folded_name in map(_FOLDED_NAME, self._waiting):
                self._waiting = deque(w for w in self._waiting if w.folded_name != row.folded_name)

    def clear(self) -> None:
        """Forget what was read ahead, after the queue was changed from outside."""
        with self._lock:
            self._waiting.clear()
            self._empty_until = {False: 0.0, True: 0.0}
            self.changes += 1

    def idle(self, *choices: Choice) -> bool:
        """Return whether no worker has a row and none of the choices is due."""
        # Not under the lock, for which the event loop would wait. A row that is taken meanwhile is due or is leased.
        is_due = any(self._due(1, choice, None, ()) for choice in choices)
        return not is_due and not self._leased

    def _choose(self, choice: Choice) -> FileRow | None:
        while True:
            with self._lock:
                row, below, changes = self._lease_next([], choice), self._longest(), self.changes
                began = self._clock.steady()
                if row is not None or began < self._empty_until[choice.newest]:
                    return row
                leased = dict(self._leased)
            # Without the lock: the event loop of the uploads releases rows meanwhile.
            due = self._due(1 if choice.newest else _BATCH, choice, below, leased)
            with self._lock:
                if self.changes != changes:
                    continue
                row = self._lease_next(due, choice)
                if row is None:
                    ended = self._clock.steady()
                    self._empty_until[choice.newest] = ended + _SPARING * (ended - began)
                return row

    def _due(self, limit: int, choice: Choice, below: int | None, leased: Collection[int]) -> list[FileRow]:
        now = self._clock.now()
        return self._ledger.queue.due(now, limit, leased, choice.apart_from, below=below, newest=choice.newest)

    def _longest(self) -> int | None:
        """Return the size from which on no file is taken: however many long ones wait, one worker is left to others."""
        long = [size for size in self._leased.values() if size >= LONG]
        return LONG if self._most_long is not None and len(long) >= self._most_long else None

    def _lease_next(self, due: Iterable[FileRow], choice: Choice) -> FileRow | None:
        """Lease the first free row of those that were read ahead or are `due`; the newest are not read ahead."""
        rows = deque(due) if choice.newest else self._waiting
        if not choice.newest:
            rows.extend(due)
        below = self._longest()
        while rows:
            row = rows.popleft()
            is_free = (row.destfolderid, row.folded_name) not in self._names and row.id not in self._leased
            if is_free and row.destfolderid not in choice.apart_from and (below is None or row.size < below):
                self._leased[row.id] = row.size
                self._names.add((row.destfolderid, row.folded_name))
                return row
        return None
