"""Remember files that may still be being written, until two looks agree.

They are kept in memory, with a limit. The next scan finds the files beyond it, and the daemon then does not delay that
scan for long. Scans and watched paths share one instance; what a look means is left to `core.settled`.
"""

import threading
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from assetsync.model import FileStat


@dataclass(slots=True)
class _Look:
    stat: FileStat
    at: float


class Settling:
    """Paths that have not settled. All times are steady seconds."""

    def __init__(self, *, most: int = 20_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        # By rest in seconds: one key or a few. Each dict is in the order of its last looks, so its first is due first.
        self._looks: dict[float, dict[bytes, _Look]] = {}
        self.overflowed = False

    def __len__(self) -> int:
        return sum(map(len, list(self._looks.values())))

    def see(self, path: bytes, stat: FileStat, now: float, rest: float) -> bool:
        """Count a look at an unsettled file; return True if it agrees with a look at least `rest` seconds ago."""
        with self._lock:
            looks = self._looks.setdefault(rest, {})
            earlier = looks.get(path)
            if earlier is not None and earlier.stat == stat:
                return now - earlier.at >= rest
            if earlier is None and len(self) >= self._most:
                self.overflowed = True
                return False
            looks.pop(path, None)
            looks[path] = _Look(stat, now)
            return False

    def forget(self, path: bytes) -> None:
        """Drop a path that is gone or unchanged."""
        with self._lock:
            for looks in self._looks.values():
                looks.pop(path, None)

    def queued(self, path: bytes, stat: FileStat) -> None:
        """Drop a path that the ledger has as it was seen; keep it if a later look saw something else."""
        with self._lock:
            for looks in self._looks.values():
                look = looks.get(path)
                if look is not None and look.stat == stat:
                    del looks[path]

    def due(self, now: float, most: int | None = None) -> list[bytes]:
        """Return the paths whose second look is due: at most `most`, those due longest."""
        due: list[tuple[float, bytes]] = []
        with self._lock:
            for rest, looks in self._looks.items():
                for path, look in islice(looks.items(), most):
                    if now - look.at < rest:
                        break
                    due.append((look.at + rest, path))
        # The sort is stable: paths of the same rest stay in order.
        return [path for _, path in sorted(due, key=itemgetter(0))[:most]]

    def next_due(self) -> float | None:
        """Return the steady time of the next second look, None without one."""
        with self._lock:
            firsts = [(next(iter(looks.values())).at + rest) for rest, looks in self._looks.items() if looks]
        return min(firsts, default=None)
