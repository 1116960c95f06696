"""How fast and at what times of the day files may leave: `upload.rate` and `upload.window`."""

import threading
from collections.abc import Iterator

from assetsync.model import Body, Clock

_BURST_SECONDS = 1.0


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


class PacedBody:
    """A body whose chunks leave at the throttle's pace (`model.Body`)."""

    def __init__(self, body: Body, throttle: Throttle) -> None:
        self._body = body
        self._throttle = throttle

    @property
    def size(self) -> int:
        """Bytes that will be handed over if nothing goes wrong."""
        return self._body.size

    @property
    def handed(self) -> int:
        """Bytes handed over so far."""
        return self._body.handed

    @property
    def md5(self) -> str:
        """MD5 of the bytes handed over so far."""
        return self._body.md5

    def chunks(self) -> Iterator[bytes]:
        """Yield what the body yields, each chunk when its time has come."""
        for chunk in self._body.chunks():
            self._throttle.pace(len(chunk))
            yield chunk
