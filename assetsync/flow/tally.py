"""Counts what a run has done, for its report and its progress bar."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """So much was uploaded, taken over without an upload, and looked at for sending."""

    uploaded: int = 0
    bytes_uploaded: int = 0
    adopted: int = 0
    handled: int = 0


class Tally:
    """Adds up over all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = Counted()

    def uploaded(self, size: int) -> None:
        """Count an upload of `size` bytes that is known to be stored."""
        with self._lock:
            c = self._counted
            self._counted = Counted(c.uploaded + 1, c.bytes_uploaded + size, c.adopted, c.handled)

    def adopted(self) -> None:
        """Count a file that got its asset without an upload."""
        with self._lock:
            c = self._counted
            self._counted = Counted(c.uploaded, c.bytes_uploaded, c.adopted + 1, c.handled)

    def handled(self) -> None:
        """Count a file that came out of the queue, whatever became of it."""
        with self._lock:
            c = self._counted
            self._counted = Counted(c.uploaded, c.bytes_uploaded, c.adopted, c.handled + 1)

    def read(self) -> Counted:
        """Give the sums so far."""
        return self._counted
