"""Limit the rate of all uploads together (`upload.rate`). The `upload.window` is left to `config.units.Window`."""

import threading
from collections.abc import Callable

from assetsync.model import Clock

_BURST_SECONDS = 1.0
_SLICE_SECONDS = 1.0
_PIECE_SECONDS = 0.25
_LEAST_PIECE = 1024


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
