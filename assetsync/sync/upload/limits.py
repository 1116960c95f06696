"""Limit uploads: their rate, their size, and how many may be in doubt.

Uploads that may have been stored must not pile up. The limits are left to `core.doubt_limits`; here the doubts and the
accepted uploads are counted. An upload that is answered and fails slows down its folder.

Pausing all uploads is left to `circuit_breaker`, the hours to `config.timetable`, pauses by a person to `core.pauses`.
"""

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress

from assetsync.config.models import SiteConfig
from assetsync.config.timetable import Timetable
from assetsync.core.backoff import delay
from assetsync.core.doubt_grace import grace_of_whole
from assetsync.core.doubt_limits import DoubtLimits, accepted_within
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.errors import LedgerError
from assetsync.ledger.doubts import Doubts
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.queue import Choice
from assetsync.ledger.runs import DAY, ProxyLimit
from assetsync.model import Clock

_BURST_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_PIECE_SECONDS = 0.25
_LEAST_PIECE = 1024
_FILES_A_COUNT = 32
_COUNT_AGAIN = 0.25
_SLOT = 30.0
_FAILED_BY_CHANCE = 3
_LONGEST_PAUSE = 30.0


class RateLimiter:
    """Rate limit shared by all workers; a change of the hour reaches the uploads under way.

    A wait calls `tick` every second: the call is a sign of life, and the wait ends if it returns True.
    """

    def __init__(self, rates: Timetable, clock: Clock, tick: Callable[[], bool] = lambda: False) -> None:
        self._rates = rates
        self._clock = clock
        self._tick = tick
        self._lock = threading.Lock()
        self._free_at = clock.steady()

    def piece(self) -> int:
        """Return the maximum bytes per write now.

        Pauses stay short by it: a service drops a client that is silent for a minute.
        """
        rate = self._rates.at(self._clock.now())
        return sys.maxsize if rate is None else max(_LEAST_PIECE, int(rate * _PIECE_SECONDS))

    def pace(self, size: int) -> None:
        """Wait until `size` more bytes may leave, or until the program stops."""
        rate = self._rates.at(self._clock.now())
        with self._lock:
            now = self._clock.steady()
            # Unused time accumulates to at most one second's worth of bytes.
            start = now if rate is None else max(self._free_at, now - _BURST_SECONDS)
            self._free_at = start if rate is None else start + size / rate
            wait = start - now
        until = now + wait
        while (left := until - self._clock.steady()) > 0:
            if self._clock.wait(min(left, _SLICE_SECONDS)) or self._tick():
                return


class SizeLimit:
    """The sizes that a proxy before the service refuses by 413; shared by all threads.

    A file of the smallest refused size or more is blocked, and a file larger than the largest accepted one goes alone.
    Once a day the smallest blocked file is tried. If a refused size is accepted, or a person retries such a file, all
    of them are retried.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        """Start with what an earlier process has recorded."""
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self.reload()

    def reload(self) -> None:
        """Read the record again, after a person's request."""
        self._limit = self._ledger.runs.recorded(ProxyLimit)

    @property
    def certain(self) -> int | None:
        """The largest size in bytes of which an upload passed; None if no proxy has refused any upload."""
        limit = self._limit
        return None if limit is None else limit.accepted

    def refused(self, size: int) -> int | None:
        """Return the smallest refused size if a file of this size is no smaller, else None."""
        limit = self._limit
        if limit is None or limit.refused is None or size < limit.refused or size == limit.trial:
            return None
        return limit.refused

    def note_refused(self, size: int) -> None:
        """Record that a proxy refused an upload of this size in bytes. The first one reads all attempts."""
        with self._lock:
            known = self._limit
            if known is None:
                known = ProxyLimit(self._ledger.queue.largest_accepted(size), size, self._clock.now())
            smallest = min(size, size if known.refused is None else known.refused)
            self._note(known._replace(accepted=min(known.accepted, size - 1), refused=smallest, trial=None))

    def note_accepted(self, size: int) -> None:
        """Record an accepted upload of this size in bytes. Does not block."""
        with self._lock:
            known = self._limit
            if known is not None and size > known.accepted:
                is_passed = known.refused is not None and size >= known.refused
                self._note(known._replace(accepted=size, refused=None if is_passed else known.refused))

    def retry_blocked(self) -> bool:
        """Retry the smallest blocked file once a day, or all if no size is refused; return whether any was."""
        limit, now, queue = self._limit, self._clock.now(), self._ledger.queue
        if limit is None:
            return False
        if limit.refused is None:
            return queue.retry_blocked(TOO_LARGE_FOR_PROXY, now) > 0
        if 0 <= now - limit.tried_at < DAY:
            return False
        with self._lock:
            size = queue.retry_smallest(TOO_LARGE_FOR_PROXY, now)
            self._note(limit._replace(tried_at=now, trial=size))
        return size is not None

    def _note(self, limit: ProxyLimit) -> None:
        self._limit = limit
        self._ledger.runs.submit(ProxyLimit, limit)


class AcceptedUploads:
    """The uploads that each folder accepted lately, by any process; shared by all threads."""

    def __init__(self, doubts: Doubts, clock: Clock) -> None:
        """Start with nothing read; the first `within` reads from the ledger what earlier processes sent."""
        self._doubts = doubts
        self._clock = clock
        self._lock = threading.Lock()
        # By slot of half a minute on the steady clock.
        self._slots: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._reaches = 0.0

    def add(self, destfolderid: str) -> None:
        """Count an upload that was accepted now; does not block."""
        with self._lock:
            self._slots[int(self._clock.steady() // _SLOT)][destfolderid] += 1

    def within(self, seconds: float) -> Counter[str]:
        """Return the number of accepted uploads of each folder, to about half a minute."""
        if seconds > self._reaches:
            read = self._read(seconds)
            with self._lock:
                self._slots, self._reaches = read, seconds
        steady = self._clock.steady()
        oldest, first = (int((steady - each) // _SLOT) for each in (self._reaches, seconds))
        with self._lock:
            for slot in [slot for slot in self._slots if slot < oldest]:
                del self._slots[slot]
            return sum((each for slot, each in self._slots.items() if slot >= first), Counter())

    def _read(self, seconds: float) -> defaultdict[int, Counter[str]]:
        now, steady = self._clock.now(), self._clock.steady()
        slots: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for folder, at in self._doubts.accepted_since(now - seconds):
            slots[int((steady - max(0.0, now - at)) // _SLOT)][folder] += 1
        return slots


class FailingFolders:
    """Pauses of folders whose uploads are answered and fail.

    After three failures in a row each further one makes the pause longer, up to 30 s. An accepted upload ends the pause
    and the row. Failures during a pause do not count: those uploads began before it.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        # By folder: the failures in a row, and the end of its pause in steady seconds.
        self._failed: dict[str, tuple[int, float]] = {}

    def failed(self, destfolderid: str) -> None:
        """Record a failed upload; one that was in flight when a pause began does not count."""
        count, until = self._failed.get(destfolderid, (0, 0.0))
        now = self._steady()
        if now < until:
            return
        count += 1
        # A few in a row are chance. The whole delay, not spread: no other client comes back at the same time.
        wait = delay(count - _FAILED_BY_CHANCE, 1.0, longest=_LONGEST_PAUSE) if count > _FAILED_BY_CHANCE else 0.0
        self._failed[destfolderid] = count, now + wait

    def accepted(self, destfolderid: str) -> None:
        """Record an accepted upload."""
        self._failed.pop(destfolderid, None)

    def paused(self) -> list[str]:
        """Return the folders that take no upload now."""
        now = self._steady()
        return [folder for folder, (_, until) in [*self._failed.items()] if now < until]


class DoubtLimit:
    """Which folders take uploads, with regard to those in doubt; shared by all threads.

    It counts after a number of files, after each new doubt, and regularly while a folder takes none.
    """

    def __init__(
        self, doubts: Doubts, clock: Clock, folders: Collection[str], *, workers: int, grace: float, read_timeout: float
    ) -> None:
        """Start with the uploads of earlier processes; `grace` and `read_timeout` are the configuration's seconds."""
        self._doubts = doubts
        self._clock = clock
        self._folders = folders
        self._workers = workers
        self._grace = grace
        self._read_timeout = read_timeout
        self._lock = threading.Lock()
        self._accepted = AcceptedUploads(doubts, clock)
        self._failing = FailingFolders(clock.steady)
        self._limits = DoubtLimits(0)
        # Number of files that may be taken before the next count, and when it is due at the latest.
        self._uncounted = 0
        self._count_at = float("inf")

    @classmethod
    def of(cls, config: SiteConfig, doubts: Doubts, clock: Clock) -> "DoubtLimit":
        """Return the limit of a site."""
        folders = {folder.destfolderid for folder in config.folders}
        grace, read_timeout = config.upload.doubt_grace, config.service.read_timeout
        return cls(doubts, clock, folders, workers=config.upload.workers, grace=grace, read_timeout=read_timeout)

    def count(self) -> DoubtLimits:
        """Count the doubts and the accepted uploads; return the limits, which the other methods use from now on."""
        with self._lock:
            found = self._doubts.by_folder()
            graces = [self._needed(each.took, answered=each.answered) for each in found.values()]
            window = accepted_within(max(graces, default=0.0))
            accepted, began = self._accepted.within(window), self._clock.now() - window
            counts = {folder: each.doubts for folder, each in found.items()}
            failing = {folder for folder, each in found.items() if each.newest_at > began}
            self._limits = DoubtLimits.of(counts, accepted, self._folders, failing=failing, workers=self._workers)
            self._uncounted = _FILES_A_COUNT
            self._count_at = self._clock.steady() + _COUNT_AGAIN if self._limits.held_for_waiting else float("inf")
            return self._limits

    def is_full(self) -> bool:
        """Return whether so many uploads are in doubt that no folder takes any before some are decided."""
        return self.count().is_full

    def held(self) -> set[str]:
        """Return the folders that take no upload now, because of their doubts or their failures in a row."""
        return {*self.count().held, *self._failing.paused()}

    def decided_at(self) -> float | None:
        """Return when the first open doubt can be decided, in seconds since the epoch.

        Return None if there is none, or if it is overdue: it waits for answered look-ups.
        """
        ends = [ended_at + self._needed(took, answered=answered) for ended_at, took, answered in self._doubts.ended()]
        first = min(ends, default=0.0)
        return first if first > self._clock.now() else None

    def takes_one(self) -> bool:
        """Return whether any folder takes one more file, by a count that may be up to 32 files old."""
        self._uncounted -= 1
        if self._uncounted < 0 or self._clock.steady() >= self._count_at:
            self.count()
        return not self._limits.is_full

    def takes(self, destfolderid: str) -> bool:
        """Return whether a folder takes a file, by the last count; does not block."""
        return destfolderid not in self._limits.held and destfolderid not in self._failing.paused()

    def doubted(self) -> None:
        """Count after a new doubt; if the ledger cannot be read now, count before the next file is taken."""
        self._uncounted = 0
        with suppress(LedgerError):
            self.count()

    def failed(self, destfolderid: str) -> None:
        """Record an upload that the service answered and that failed: its folder slows down."""
        self._failing.failed(destfolderid)

    def accepted(self, destfolderid: str) -> None:
        """Record an accepted upload; does not block."""
        self._accepted.add(destfolderid)
        self._failing.accepted(destfolderid)
        if destfolderid not in self._limits.accepting:
            self._uncounted = 0

    def oldest_and_newest(
        self,
        apart_from: Collection[str],
        busy: Collection[str] = (),
        pauses: tuple[bytes, ...] = (),
        *,
        anew: bool = False,
    ) -> tuple[Choice, Choice]:
        """Return which of the oldest due files, and which of the newest, may be sent.

        Folders in `apart_from`, paths in `pauses`, and those of the `busy` folders that take one file at a time are
        left out. With `anew` the doubts are counted again; otherwise the last count decides.
        """
        limits = self.count() if anew else self._limits
        apart = (*apart_from, *self._failing.paused(), *limits.one_at_a_time.intersection(busy))
        oldest = Choice((*apart, *limits.held_for_waiting), pauses=pauses)
        return oldest, Choice((*apart, *limits.held), newest=True, pauses=pauses)

    def _needed(self, took: float, *, answered: bool) -> float:
        """Return the grace in seconds of an upload in doubt that was not looked up yet."""
        return grace_of_whole(self._grace, self._read_timeout, took, 0.0, answered=answered)
