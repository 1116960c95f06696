"""Files that were seen while they may still have been written: kept in mind until two looks agree.

In memory, and so with a limit; what does not fit is found by the next scan, which the daemon then does not put off for
long. The scan and the hints share it.
"""

import threading
from dataclasses import dataclass
from itertools import islice, takewhile

from assetsync.core.decide import still_same
from assetsync.model import FileStat


@dataclass(slots=True)
class _Look:
    stat: FileStat
    at: float


class Settling:
    """Paths on their way to being settled; all times are steady seconds."""

    def __init__(self, settle: float, *, most: int = 20_000) -> None:
        self._settle = settle
        self._most = most
        self._lock = threading.Lock()
        # In the order of their last looks: what is due stands first.
        self._looks: dict[bytes, _Look] = {}
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._looks)

    def see(self, path: bytes, stat: FileStat, now: float) -> bool:
        """Count a look at an unsettled file; True when it agrees with one `settle` ago."""
        with self._lock:
            earlier = self._looks.get(path)
            if earlier is not None and still_same(earlier.stat, stat):
                return now - earlier.at >= self._settle
            if earlier is None and len(self._looks) >= self._most:
                self.overflowed = True
                return False
            self._looks.pop(path, None)
            self._looks[path] = _Look(stat, now)
            return False

    def see_anew(self, path: bytes, stat: FileStat, now: float) -> None:
        """Count a look that could not be written down as the first one."""
        with self._lock:
            self._looks.pop(path, None)
        self.see(path, stat, now)

    def forget(self, path: bytes) -> None:
        """Drop a path that is gone, or is as it is known."""
        with self._lock:
            self._looks.pop(path, None)

    def queued(self, path: bytes, stat: FileStat) -> None:
        """Drop a path that is in the ledger as it was seen; one that was seen otherwise since is kept."""
        with self._lock:
            look = self._looks.get(path)
            if look is not None and still_same(look.stat, stat):
                del self._looks[path]

    def due(self, now: float, most: int | None = None) -> list[bytes]:
        """Give the paths whose second look is due, of `most` those that are due longest."""
        with self._lock:
            oldest = islice(self._looks.items(), most)
            return [path for path, look in takewhile(lambda kept: now - kept[1].at >= self._settle, oldest)]

    def next_due(self) -> float | None:
        """Give the steady time of the next second look."""
        with self._lock:
            first = next(iter(self._looks.values()), None)
        return None if first is None else first.at + self._settle
