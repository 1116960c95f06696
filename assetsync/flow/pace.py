"""How many files may leave at once, how fast and at what times: `workers`, `rate` and `window` of `upload`."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from assetsync.model import Clock

_BURST_SECONDS = 1.0
_LANE_PATIENCE = 1.0
_LANE_LOOK = 0.1


class Lanes:
    """So many POSTs at once: `count` of them, however many threads prepare files meanwhile."""

    def __init__(self, count: int) -> None:
        """Begin with all of them free."""
        self.threads = count + max(1, count // 4)
        """How many threads keep the lanes busy: a few prepare the next file while the others wait for answers."""
        self._free = threading.BoundedSemaphore(count)

    def enter_free(self) -> bool:
        """Take a lane if one is free; whoever has one must `leave`."""
        return self._free.acquire(blocking=False)

    def enter(self, may_wait: Callable[[], bool]) -> bool:
        """Take a lane, or give up after a second, or once `may_wait` says no, which is asked again and again."""
        for _ in range(round(_LANE_PATIENCE / _LANE_LOOK)):
            if not may_wait():
                return False
            if self._free.acquire(timeout=_LANE_LOOK):
                if may_wait():
                    return True
                self._free.release()
                return False
        return False

    def leave(self) -> None:
        """Give the lane back."""
        self._free.release()


class Throttle:
    """Spreads bytes over time for all workers together; `rate` in bytes a second."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = clock.steady()

    def pace(self, size: int) -> None:
        """Wait until `size` more bytes may leave; a stop of the program ends the wait."""
        with self._lock:
            now = self._clock.steady()
            # What was not used for a while is not saved up beyond a second's worth.
            start = max(self._free_at, now - _BURST_SECONDS)
            self._free_at = start + size / self._rate
            wait = start - now
        if wait > 0:
            self._clock.wait(wait)


@dataclass(frozen=True, slots=True)
class Pace:
    """What the configuration says of sending; above `max_doubts` uploads in doubt nothing more is sent."""

    lanes: Lanes
    max_doubts: int
    throttle: Throttle | None = None
    may_send: Callable[[], bool] = lambda: True
