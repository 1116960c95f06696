"""Limit the rate of uploads and their size. Whether any may be sent is left to `sync.gates`."""

import sys
import threading
from collections.abc import Callable

from assetsync.config.timetable import Timetable
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.runs import DAY, ProxyLimit
from assetsync.model import Clock

_BURST_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_PIECE_SECONDS = 0.25
_LEAST_PIECE = 1024


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
