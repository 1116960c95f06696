"""Files that were seen while they may still have been written: kept in mind until two looks agree.

In memory, and so with a limit; what does not fit is found by the next scan, which the daemon then does not put off for
long. The scan and the hints share it.
"""

import threading
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from assetsync.core.settled import still_same
from assetsync.model import FileStat


@dataclass(slots=True)
class _Look:
    stat: FileStat
    at: float


class Settling:
    """Paths on their way to being settled; all times are steady seconds, `settle` is the rest where none is named."""

    def __init__(self, settle: float, *, most: int = 20_000) -> None:
        self._settle = settle
        self._most = most
        self._lock = threading.Lock()
        # By the seconds of their rest, one or a few; each in the order of the last looks: what is due stands first.
        self._looks: dict[float, dict[bytes, _Look]] = {}
        self.overflowed = False

    def __len__(self) -> int:
        return sum(map(len, list(self._looks.values())))

    def see(self, path: bytes, stat: FileStat, now: float, settle: float | None = None) -> bool:
        """Count a look at an unsettled file; True when it agrees with one `settle` seconds ago."""
        rest = self._settle if settle is None else settle
        with self._lock:
            looks = self._looks.setdefault(rest, {})
            earlier = looks.get(path)
            if earlier is not None and still_same(earlier.stat, stat):
                return now - earlier.at >= rest
            if earlier is None and len(self) >= self._most:
                self.overflowed = True
                return False
            looks.pop(path, None)
            looks[path] = _Look(stat, now)
            return False

    def see_anew(self, path: bytes, stat: FileStat, now: float, settle: float | None = None) -> None:
        """Count a look that could not be written down as the first one."""
        self.forget(path)
        self.see(path, stat, now, settle)

    def forget(self, path: bytes) -> None:
        """Drop a path that is gone, or is as it is known."""
        with self._lock:
            for looks in self._looks.values():
                looks.pop(path, None)

    def queued(self, path: bytes, stat: FileStat) -> None:
        """Drop a path that is in the ledger as it was seen; one that was seen otherwise since is kept."""
        with self._lock:
            for looks in self._looks.values():
                look = looks.get(path)
                if look is not None and still_same(look.stat, stat):
                    del looks[path]

    def due(self, now: float, most: int | None = None) -> list[bytes]:
        """Give the paths whose second look is due, of `most` those that are due longest."""
        due: list[tuple[float, bytes]] = []
        with self._lock:
            for rest, looks in self._looks.items():
                for path, look in islice(looks.items(), most):
                    if now - look.at < rest:
                        break
                    due.append((look.at + rest, path))
        # Stable: those of one rest stay in their order.
        return [path for _, path in sorted(due, key=itemgetter(0))[:most]]

    def next_due(self) -> float | None:
        """Give the steady time of the next second look."""
        with self._lock:
            firsts = [(next(iter(looks.values())).at + rest) for rest, looks in self._looks.items() if looks]
        return min(firsts, default=None)
