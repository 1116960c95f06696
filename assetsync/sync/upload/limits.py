"""Limit uploads: their rate, how many may be in doubt, and a circuit breaker while the service does not answer.

Uploads that may have been stored must not pile up. Too many doubts in all stop every upload. Too many doubts in a
folder stop the uploads into it: first of the files that have waited, and at a higher limit of all files. The limits are
left to `core.doubt.MostDoubts`.

One failure opens the circuit breaker for all workers, so that an outage costs one health check at a time and not one
failure per file. A health check is a look-up, never an upload. After an answered health check the breaker is half open:
it lets one POST through, and closes when that POST is answered. If the service answers look-ups but no POST, or nothing
at all, the pauses between health checks grow. Making the health check, and giving up, is left to the caller.

The `upload.window` is left to `config.values.Window`.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from assetsync.core.backoff import delay
from assetsync.core.doubt import MostDoubts
from assetsync.ledger.doubts import Doubts
from assetsync.model import Clock

_BURST_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_PIECE_SECONDS = 0.25
_LEAST_PIECE = 1024


class Choice(NamedTuple):
    """The rows to take from: the oldest due, or the `newest` never tried; without the folders in `apart_from`."""

    apart_from: Collection[str] = ()
    newest: bool = False


class RateLimiter:
    """Rate limit shared by all workers; `rate` is in bytes per second.

    A wait calls `tick` every second: the call is a sign of life, and the wait ends if it returns True.
    """

    def __init__(self, rate: float, clock: Clock, tick: Callable[[], bool] = lambda: False) -> None:
        self._rate = rate
        self._clock = clock
        self._tick = tick
        self._lock = threading.Lock()
        self._free_at = clock.steady()
        self.piece = max(_LEAST_PIECE, int(rate * _PIECE_SECONDS))
        """Maximum bytes per write, so that pauses stay short: a service drops a client that is silent for a minute."""

    def pace(self, size: int) -> None:
        """Wait until `size` more bytes may leave, or until the program stops."""
        with self._lock:
            now = self._clock.steady()
            # Unused time accumulates to at most one second's worth of bytes.
            start = max(self._free_at, now - _BURST_SECONDS)
            self._free_at = start + size / self._rate
            wait = start - now
        until = now + wait
        while (left := until - self._clock.steady()) > 0:
            if self._clock.wait(min(left, _SLICE_SECONDS)) or self._tick():
                return


_COUNT_EVERY = 32


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a count: `crowded` folders receive no more files, those `crowded_for_waiting` only new files."""

    is_full: bool = False
    crowded: Collection[str] = ()
    crowded_for_waiting: Collection[str] = ()


class DoubtLimit:
    """Doubt limit shared by all workers; counts again after a number of files, and after each new doubt."""

    def __init__(self, doubts: Doubts, most: MostDoubts) -> None:
        self._doubts = doubts
        self._most = most
        self._found = _Found()
        # Number of files that may be taken before the next count.
        self._uncounted = 0

    def is_full(self) -> bool:
        """Return whether too many uploads are in doubt to send more before some are decided."""
        return self._doubts.count() > self._most.in_all

    def takes_one(self) -> bool:
        """Return whether one more file may be sent, by a count that may be up to 32 files old."""
        self._uncounted -= 1
        if self._uncounted >= 0:
            return True
        found = self._found = self._count()
        self._uncounted = 0 if found.is_full or found.crowded_for_waiting else _COUNT_EVERY
        return not found.is_full

    def doubted(self) -> None:
        """Record a new doubt, so that the next file causes a new count."""
        self._uncounted = 0

    def oldest_and_newest(self, apart_from: Collection[str], *, anew: bool = False) -> tuple[Choice, Choice]:
        """Return which of the oldest due files, and which of the newest, may be sent.

        Folders in `apart_from` are left out. With `anew` the doubts are counted again; otherwise the last count
        decides.
        """
        found = self._count() if anew else self._found
        oldest = Choice((*apart_from, *found.crowded_for_waiting))
        return oldest, Choice((*apart_from, *found.crowded), newest=True)

    def _count(self) -> _Found:
        most, crowded = self._most, self._doubts.crowded
        return _Found(self.is_full(), crowded(most.in_one_folder), crowded(most.waiting_in_one_folder))


@dataclass(frozen=True, slots=True)
class Pause:
    """Why nothing is sent, and since when (steady seconds); `failed_checks` counts the failed tries since then."""

    reason: str
    detail: str
    since: float
    next_check: float
    failed_checks: int = 0


class CircuitBreaker:
    """Circuit breaker shared by all workers; every time is on the steady clock."""

    def __init__(self, steady: Callable[[], float], chance: Callable[[], float], *, longest: float = 60.0) -> None:
        self._steady = steady
        self._chance = chance
        self._longest = longest
        self._lock = threading.Lock()
        self._pause: Pause | None = None
        self._half_open = False
        self._inside = 0
        self._since: float | None = None
        self._failed = 0
        self._answered = 0.0
        self._entered = 0.0
        self._ended: Pause | None = None
        self.lookups_answered = True
        """Whether look-ups are answered, so that doubts can be resolved although nothing is sent."""

    @property
    def pause(self) -> Pause | None:
        """The current pause, or None."""
        return self._pause

    @property
    def ongoing(self) -> Pause | None:
        """The pause that is not known to be over: also while the trial POST after a health check is in flight."""
        # A POST that began long after the health check is no trial: a failure of it is a new trouble.
        on_trial = self._half_open and self._inside and not self._is_past(self._entered)
        return self._pause or (self._ended if on_trial else None)

    def enter(self) -> bool:
        """Return whether one file may be sent; the caller must call `leave` after True."""
        with self._lock:
            if self._pause is not None or (self._half_open and self._inside):
                return False
            self._inside += 1
            self._entered = self._steady()
            return True

    def leave(self) -> None:
        """Record that the work on a file has ended, with any result."""
        with self._lock:
            self._inside -= 1

    def trouble(
        self,
        reason: str,
        detail: str,
        retry_after: float | None = None,
        *,
        by_check: bool = False,
        by_lookup: bool = False,
    ) -> bool:
        """Open the breaker; return True if the trouble is new, so that its beginning is reported once.

        Failed health checks (`by_check`) and failed trial POSTs make the next pause longer. The POSTs that were in
        flight when the trouble began do not. `by_lookup`: the failure was a look-up without an answer.
        """
        with self._lock:
            self.lookups_answered = not (by_check or by_lookup)
            now = self._steady()
            was_open = self._pause is None
            # While a POST hangs, nothing is answered: count answered time only up to its start.
            quiet_until = self._entered if self._inside else now
            if was_open and self._is_past(quiet_until):
                # The service answered for so long that this is a new trouble.
                self._since, self._failed = None, 0
            began = self._since is None
            self._since = now if self._since is None else self._since
            self._failed += by_check or (was_open and not began)
            wait = delay(self._failed, self._chance(), longest=self._longest) if self._failed else 0.0
            due = now + max(wait, retry_after or 0.0)
            if self._pause is not None and not by_check:
                due = max(self._pause.next_check, now + (retry_after or 0.0))
            self._pause = Pause(reason, detail, self._since, due, self._failed)
            self._half_open = True
            return began

    def _is_past(self, until: float) -> bool:
        """Return whether the last pause ended so long before `until` that its trouble is over."""
        return until - self._answered > 2 * self._longest

    def check_due(self) -> bool:
        """Return whether a health check is due."""
        pause = self._pause
        return pause is not None and self._steady() >= pause.next_check

    def health_check_answered(self) -> Pause | None:
        """Record an answered health check, so that one POST may pass; return the pause that ended."""
        with self._lock:
            ended, self._pause = self._pause, None
            self._ended = ended or self._ended
            self.lookups_answered = True
            self._answered = self._steady()
            return ended

    def post_answered(self) -> None:
        """Record that a POST was answered in the interface's form: close the breaker, unless it has opened again."""
        if self._half_open:
            with self._lock:
                self._half_open = self._pause is not None
                if self._pause is None:
                    self._since, self._failed = None, 0
