"""Lease due rows of the ledger's queue to workers, in turn; whether a due file is sent or waits is left to `decide`.

Files are taken in turn from two ends. One is the oldest file. The other is the newest file of the folder with the
fewest waiting files (`ledger.queue_folders`), so that a file that was saved just now does not wait behind a first
import or a folder whose uploads fail. After an upload whose answer is lost, the next file is of the second kind.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from enum import StrEnum
from operator import attrgetter

from assetsync.ledger.ledger import Ledger
from assetsync.ledger.queue import Choice
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock, Mapping
from assetsync.sync.gates import Gates

LONG = 64 * 1024 * 1024
"""Bytes from which on a file keeps a worker for long: it is read whole, and perhaps twice."""

_BATCH = 64
_SPARING = 20
_COUNTED = 4096
_COUNT_SECONDS = 30.0
_COUNT_SOON = 10.0

_FOLDED_NAME = attrgetter("folded_name")


class UploadQueue:
    """Leases each due row to one worker; the ledger is asked in batches."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        mappings: Collection[Mapping] = (),
        *,
        most_long: int | None = None,
        certain_size: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Start with nothing read; at most `most_long` workers get a long file at the same time.

        Of the files above `certain_size` in bytes one worker gets one.
        """
        self._ledger = ledger
        self._clock = clock
        self._mappings = mappings
        self._most_long = most_long
        self._certain_size = certain_size
        self._lock = threading.RLock()
        self._oldest: deque[FileRow] = deque()  # read ahead
        self._newest: deque[FileRow] = deque()  # read ahead
        self._leased: dict[int, int] = {}  # row id -> size
        self._leased_as_newest: set[int] = set()
        self._names: set[tuple[str, str]] = set()
        # No query for the oldest by the same choice before this time. After a slow query without a result the pause is
        # longer.
        self._empty_until = 0.0
        self._empty_choice: Choice | None = None
        # The ids of the next newest, those of the folder with the fewest first; when the folders are counted again: in
        # any case, if files were added, and if none is left. A slow count is repeated less often.
        self._fewest: deque[int] = deque()
        self._count_at = self._count_added_at = 0.0
        # By choice, because one that leaves out a folder says nothing of another.
        self._count_empty_at: dict[Choice, float] = {}

    def take(self, *choices: Choice) -> FileRow | None:
        """Return a row that is not leased, and whose name is not leased for its folder.

        The row is one of the first choice; of the next choice only if there is none.
        """
        with self._lock:
            for choice in choices:
                row = self._newest_of_fewest(choice) if choice.newest else self._oldest_of_all(choice)
                if row is not None:
                    return row
            return None

    def release(self, row: FileRow, *, is_unsent: bool = False) -> None:
        """Let a row be leased again, if it is still due; a row that `is_unsent` keeps its turn."""
        with self._lock:
            self._leased.pop(row.id, None)
            if is_unsent and row.id in self._leased_as_newest:
                self._put_back()
                self._fewest.appendleft(row.id)
            elif is_unsent:
                self._oldest.clear()
            self._leased_as_newest.discard(row.id)
            self._names.discard((row.destfolderid, row.folded_name))
            # What was read before may be out of date for rows of the same name.
            if row.folded_name in map(_FOLDED_NAME, self._oldest):
                self._oldest = deque(w for w in self._oldest if w.folded_name != row.folded_name)
            if row.folded_name in map(_FOLDED_NAME, self._newest):
                self._put_back()

    def is_leased(self, file_id: int) -> bool:
        """Return whether a worker has the row."""
        with self._lock:
            return file_id in self._leased

    @property
    def has_leased(self) -> bool:
        """Whether a worker has a row."""
        return bool(self._leased)

    def busy_folders(self) -> set[str]:
        """Return the destination folders of the leased rows."""
        with self._lock:
            return {destfolderid for destfolderid, _ in self._names}

    def clear(self) -> None:
        """Forget what was read ahead, after the queue was changed from outside."""
        with self._lock:
            self._oldest.clear()
            self._put_back()
            self._empty_until = 0.0
            self._count_at = min(self._count_at, self._count_added_at)

    def idle(self, *choices: Choice) -> bool:
        """Return whether no worker has a row and none of the choices is due."""
        # Not under the lock, for which the workers would wait. A row that is taken meanwhile is due or is leased.
        is_due = any(self._due(1, choice, None, ()) for choice in choices)
        return not is_due and not self.has_leased

    def _oldest_of_all(self, choice: Choice) -> FileRow | None:
        row, began = self._lease_next(self._oldest, choice), self._clock.steady()
        if row is not None or (began < self._empty_until and choice == self._empty_choice):
            return row
        self._oldest.extend(self._due(_BATCH, choice, self._size_limit(), self._leased))
        row = self._lease_next(self._oldest, choice)
        if row is None:
            ended = self._clock.steady()
            self._empty_until, self._empty_choice = ended + _SPARING * (ended - began), choice
        return row

    def _newest_of_fewest(self, choice: Choice) -> FileRow | None:
        self._count_again(choice)
        while (row := self._lease_next(self._newest, choice)) is None and self._fewest:
            ids = [self._fewest.popleft() for _ in range(min(_BATCH, len(self._fewest)))]
            due = {row.id: row for row in self._due(_BATCH, choice, self._size_limit(), self._leased, ids)}
            self._newest.extend(due[id_] for id_ in ids if id_ in due)
        return row

    def _put_back(self) -> None:
        """Read the newest again before they are sent."""
        self._fewest.extendleft(row.id for row in reversed(self._newest))
        self._newest.clear()

    def _count_again(self, choice: Choice) -> None:
        """Count the waiting files of each folder, if that is due."""
        began = self._clock.steady()
        is_empty = not self._newest and not self._fewest
        if began < self._count_at and not (is_empty and began >= self._count_empty_at.get(choice, 0.0)):
            return
        self._fewest = deque(self._ledger.queue_folders.fewest(self._clock.now(), _COUNTED, self._mappings, choice))
        self._newest.clear()
        ended = self._clock.steady()
        pause = _SPARING * (ended - began)
        self._count_added_at = ended + min(pause / 2, _COUNT_SOON)
        later = {each: at for each, at in self._count_empty_at.items() if at > ended}
        self._count_empty_at = later | {choice: ended + pause}
        self._count_at = ended + max(pause, _COUNT_SECONDS)

    def _due(
        self,
        limit: int,
        choice: Choice,
        below: int | None,
        leased: Collection[int],
        among: Collection[int] | None = None,
    ) -> list[FileRow]:
        now = self._clock.now()
        return self._ledger.queue.due(now, limit, leased, choice, below=below, among=among)

    def _size_limit(self) -> int | None:
        """Return the size that the next file must stay below; None: any size.

        While as many long files are sent as may be, the remaining worker takes only smaller files. While a file is sent
        that a proxy may refuse for its size, the others take only files that it passes on.
        """
        sizes, certain = self._leased.values(), self._certain_size()
        limits = [certain + 1] if certain is not None and max(sizes, default=0) > certain else []
        if self._most_long is not None and sum(size >= LONG for size in sizes) >= self._most_long:
            limits.append(LONG)
        return min(limits, default=None)

    def _lease_next(self, rows: deque[FileRow], choice: Choice) -> FileRow | None:
        """Lease the first free row of those that were read ahead."""
        while rows:
            row = rows.popleft()
            if self._lease(row, choice):
                return row
        return None

    def _lease(self, row: FileRow, choice: Choice) -> bool:
        """Lease a row, unless it is not free."""
        below = self._size_limit()
        is_taken = row.id in self._leased or (row.destfolderid, row.folded_name) in self._names
        if is_taken or row.destfolderid in choice.apart_from or (below is not None and row.size >= below):
            return False
        self._leased[row.id] = row.size
        if choice.newest:
            self._leased_as_newest.add(row.id)
        self._names.add((row.destfolderid, row.folded_name))
        return True


class Step(StrEnum):
    """What a step did: it took a file, found none due, or was not allowed to take one."""

    WORKED = "worked"
    IDLE = "idle"
    PAUSED = "paused"


class Selection:
    """Choice of the next file among those that the gates let pass; shared by all threads."""

    def __init__(self, upload_queue: UploadQueue, gates: Gates, *, has_waiting: Callable[[], bool]) -> None:
        """Start with the oldest file; `has_waiting` returns whether files wait that are due within a moment."""
        self._has_waiting = has_waiting
        self._queue = upload_queue
        self._gates = gates
        # Not locked: no harm is done if two threads take the newest file in a row.
        self._newest_is_next = False

    def take(self) -> FileRow | Step:
        """Return a due file that no other thread has; IDLE if none is due, PAUSED if none may be taken now.

        The caller ends its work with `Gates.leave`, then `release`; or calls `give_back` if nothing was sent.
        """
        if not self._gates.enter():
            return Step.PAUSED
        row = None
        try:
            if self._gates.doubts.recent().is_full or not self._gates.may_send():
                return Step.PAUSED
            for oldest, newest in self._gates.choices(self._queue.busy_folders()):
                row = self._queue.take(*((newest, oldest) if self._newest_is_next else (oldest, newest)))
                if row is not None:
                    break
            if row is None:
                return Step.IDLE
        finally:
            if row is None:
                self._gates.leave()
        self._newest_is_next = not self._newest_is_next
        return row

    def release(self, row: FileRow) -> None:
        """Let the file be taken again; its result is in the ledger, or there is none."""
        self._queue.release(row)

    def give_back(self, row: FileRow) -> None:
        """Let a file be taken again of which nothing was sent."""
        self._gates.leave()
        self._queue.release(row, is_unsent=True)
        # Its turn was not used, nor that of a lost upload before it.
        self.newest_is_next()

    def newest_is_next(self) -> None:
        """Take one of the newest files next."""
        self._newest_is_next = True

    def forget(self) -> None:
        """Read the queue from the ledger again, after rows were changed or a folder was held."""
        self._queue.clear()

    def is_idle(self) -> bool:
        """Return whether no file is taken and none is due that may be taken now, or will be within a moment."""
        if self._queue.has_leased:
            # The usual case while files are sent: neither the doubts nor the due files are read.
            return False
        *_, choices = self._gates.choices(anew=True)
        return not self._has_waiting() and self._queue.idle(*choices)
