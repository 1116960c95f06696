"""How fast and at what times of the day files may leave: `upload.rate` and `upload.window`."""

import threading
from collections.abc import Callable

from assetsync.model import Clock

_BURST_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_PIECE_SECONDS = 0.25
_LEAST_PIECE = 1024


class RateLimiter:
    """Spreads bytes over time for all workers together; `rate` in bytes a second.

    `tick` is called each second of a wait: a sign of life, and True when the wait is to end.
    """

    def __init__(self, rate: float, clock: Clock, tick: Callable[[], bool] = lambda: False) -> None:
        self._rate = rate
        self._clock = clock
        self._tick = tick
        self._lock = threading.Lock()
        self._free_at = clock.steady()
        self.piece = max(_LEAST_PIECE, int(rate * _PIECE_SECONDS))
        """The most bytes that leave at once: a service gives up on whoever is silent for a minute."""

    def pace(self, size: int) -> None:
        """Wait until `size` more bytes may leave; a stop of the program ends the wait."""
        with self._lock:
            now = self._clock.steady()
            # What was not used for a while is not saved up beyond a second's worth.
            start = max(self._free_at, now - _BURST_SECONDS)
            self._free_at = start + size / self._rate
            wait = start - now
        until = now + wait
        while (left := until - self._clock.steady()) > 0:
            if self._clock.wait(min(left, _SLICE_SECONDS)) or self._tick():
                return
