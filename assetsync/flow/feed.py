"""What is due, handed to the workers one file each; the queue itself is the ledger's."""

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from assetsync.ledger.ledger import Ledger
from assetsync.ledger.queue import ANY_SIZE, Sizes
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock

_BATCH = 64
_SPARING = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be given: not for the folders of the service in `apart_from`, and of these sizes only.

    `alone`: to one worker at a time.
    """

    apart_from: Collection[str] = ()
    sizes: Sizes = ANY_SIZE
    alone: bool = False


class Feed:
    """Hands each due row to one worker; the ledger is asked in batches."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[FileRow] = deque()
        self._leased: dict[int, int] = {}  # the sizes, by the row
        self._names: set[tuple[str, str]] = set()
        self._empty_until = 0.0

    def take(self, *choices: Choice) -> FileRow | None:
        """Give a row that no other worker has, nor another of the same name into the same folder.

        It is one of the first choice, and only where there is none, of the next.
        """
        with self._lock:
            began = self._clock.steady()
            may_ask = began >= self._empty_until
            for choice in choices:
                row = self._choose(choice, may_ask=may_ask)
                if row is not None:
                    self._leased[row.id] = row.size
                    self._names.add((row.destfolderid, row.folded_name))
                    return row
            if may_ask:
                # Where asking is dear (a long queue behind a held folder), it is asked less often.
                ended = self._clock.steady()
                self._empty_until = ended + _SPARING * (ended - began)
            return None

    def release(self, row: FileRow) -> None:
        """Say that the row is dealt with, or to be asked for again."""
        with self._lock:
            self._leased.pop(row.id, None)
            self._names.discard((row.destfolderid, row.folded_name))
            # What was read before may be out of date for rows of the same name.
            if any(waiting.folded_name == row.folded_name for waiting in self._waiting):
                self._waiting = deque(w for w in self._waiting if w.folded_name != row.folded_name)

    def clear(self) -> None:
        """Forget what was read ahead, after the queue was changed from outside."""
        with self._lock:
            self._waiting.clear()
            self._empty_until = 0.0

    def idle(self, *choices: Choice) -> bool:
        """Whether no worker has a row and none of the choices is due."""
        with self._lock:
            return not self._leased and not any(self._due(1, choice) for choice in choices)

    def _choose(self, choice: Choice, *, may_ask: bool) -> FileRow | None:
        if choice.alone and any(size in choice.sizes for size in self._leased.values()):
            return None
        row = self._next(choice)
        if row is None and may_ask:
            self._waiting.extend(self._due(_BATCH, choice))
            row = self._next(choice)
        return row

    def _due(self, limit: int, choice: Choice) -> list[FileRow]:
        now = self._clock.now()
        return self._ledger.queue.due(now, limit, self._leased, choice.apart_from, choice.sizes)

    def _next(self, choice: Choice) -> FileRow | None:
        while self._waiting:
            row = self._waiting.popleft()
            is_free = (row.destfolderid, row.folded_name) not in self._names
            if is_free and row.destfolderid not in choice.apart_from and row.size in choice.sizes:
                return row
        return None
