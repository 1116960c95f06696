"""What is due, handed to the workers one file each; the queue itself is the ledger's."""

import threading
from collections import deque
from collections.abc import Callable, Collection
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
    """Hands each due row to one worker; the ledger is asked in batches."""

    def __init__(self, ledger: Ledger, clock: Clock, *, most_long: int | None = None) -> None:
        """Begin with nothing read; `most_long` workers at most get a long file at a time."""
        self._ledger = ledger
        self._clock = clock
        self._most_long = most_long
        self._lock = threading.Lock()
        self._waiting: deque[FileRow] = deque()  # the oldest, read ahead
        self._leased: dict[int, int] = {}  # the sizes, by the row
        self._names: set[tuple[str, str]] = set()
        # By whether it is the newest: where asking is dear (a long queue behind a held folder), it is done less often.
        self._empty_until = {False: 0.0, True: 0.0}

    def take(self, *choices: Choice, fits: Callable[[FileRow], bool] = lambda _row: True) -> FileRow | None:
        """Give a row that no other worker has, nor another of the same name into the same folder.

        It is one of the first choice, and only where there is none, of the next. One that does not fit stays.
        """
        with self._lock:
            for choice in choices:
                row = self._choose(choice)
                if row is not None and not fits(row):
                    # It is its turn, though not now: nor is it another's.
                    self._put_back(row, choice)
                    return None
                if row is not None:
                    self._leased[row.id] = row.size
                    self._names.add((row.destfolderid, row.folded_name))
                    return row
            return None

    def release(self, row: FileRow) -> None:
        """Say that the row is dealt with, or to be asked for again."""
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

    def idle(self, *choices: Choice) -> bool:
        """Whether no worker has a row and none of the choices is due."""
        with self._lock:
            return not self._leased and not any(self._due(1, choice, None) for choice in choices)

    def _choose(self, choice: Choice) -> FileRow | None:
        # However many long ones wait, a worker is left to what is done with in a moment.
        below = None
        if self._most_long is not None:
            long = [size for size in self._leased.values() if size >= LONG]
            below = LONG if len(long) >= self._most_long else None
        # Of the newest none is read ahead: what comes meanwhile is newer.
        rows, most = (deque[FileRow](), 1) if choice.newest else (self._waiting, _BATCH)
        row = self._next(rows, choice, below)
        began = self._clock.steady()
        if row is None and began >= self._empty_until[choice.newest]:
            rows.extend(self._due(most, choice, below))
            row = self._next(rows, choice, below)
            if row is None:
                ended = self._clock.steady()
                self._empty_until[choice.newest] = ended + _SPARING * (ended - began)
        return row

    def _put_back(self, row: FileRow, choice: Choice) -> None:
        if not choice.newest:
            self._waiting.appendleft(row)

    def _due(self, limit: int, choice: Choice, below: int | None) -> list[FileRow]:
        now = self._clock.now()
        return self._ledger.queue.due(now, limit, self._leased, choice.apart_from, below=below, newest=choice.newest)

    def _next(self, rows: deque[FileRow], choice: Choice, below: int | None) -> FileRow | None:
        while rows:
            row = rows.popleft()
            is_free = (row.destfolderid, row.folded_name) not in self._names and row.id not in self._leased
            if is_free and row.destfolderid not in choice.apart_from and (below is None or row.size < below):
                return row
        return None
