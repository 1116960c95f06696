"""Limit the share of the time that reading back takes while files can be sent.

Reading back runs in the interpreter that sends the files: each second of it delays them. Look-ups of doubts and health
checks are not limited. Whether files can be sent is left to the callers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REST = 9.0
"""Seconds of pause for each second of a step, so that reading back takes a tenth of the time."""

_LONGEST = 300.0
"""Most seconds of a pause, so that a long import is confirmed as it goes."""


class Budget:
    """The time that reading back may take; used by one thread at a time."""

    def __init__(self, steady: Callable[[], float]) -> None:
        """Begin with no time taken; `steady` returns seconds of the steady clock."""
        self._steady = steady
        self._free_at = steady()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Measure the block, which is a step of reading back; a pause follows it."""
        began = self._steady()
        try:
            yield
        finally:
            ended = self._steady()
            # Two steps in a row are followed by the pauses of both.
            self._free_at = min(max(self._free_at, ended) + _REST * (ended - began), ended + _LONGEST)

    def rest(self) -> float:
        """Return the seconds until the next step may begin while files can be sent; 0 for now."""
        return max(0.0, self._free_at - self._steady())
