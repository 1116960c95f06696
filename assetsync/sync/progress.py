"""Count the work of a run, for its report and its progress bar; showing them is left to `reconcile` and `cli`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from assetsync.model import Body


class Counted(NamedTuple):
    """Totals: files and bytes uploaded, files that got an asset without an upload, files that left the queue."""

    uploaded: int = 0
    bytes_uploaded: int = 0
    adopted: int = 0
    handled: int = 0


class ProgressCounts:
    """The totals of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = Counted()
        self._underway: list[Body] = []
        self._hashed = 0

    @contextmanager
    def sending(self, body: Body) -> Iterator[None]:
        """Include the sent bytes of a large body while it is sent. The body counts them, so no chunk costs more."""
        with self._lock:
            self._underway.append(body)
        try:
            yield
        finally:
            with self._lock:
                self._underway.remove(body)

    def hashed(self, size: int) -> None:
        """Count `size` bytes of a large file that were read to compare it before it is sent."""
        with self._lock:
            self._hashed += size

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
        """Count a file that left the queue, whatever the result."""
        with self._lock:
            c = self._counted
            self._counted = Counted(c.uploaded, c.bytes_uploaded, c.adopted, c.handled + 1)

    def shown(self) -> tuple[float, int, int]:
        """Return for a progress bar: files handled plus the sent parts of those in flight, bytes sent, bytes hashed."""
        with self._lock:
            c, handed = self._counted, [(body.handed, body.size) for body in self._underway]
            hashed = self._hashed
        part = sum(sent / size for sent, size in handed if size)
        return c.handled + part, c.bytes_uploaded + sum(sent for sent, _size in handed), hashed

    def read(self) -> Counted:
        """Return the totals so far."""
        return self._counted
