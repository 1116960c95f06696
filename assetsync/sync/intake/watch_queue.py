"""Paths that something happened at, on their way to a look: in memory, each once, with a limit.

Beyond the limit nothing is kept, and a scan is asked for instead. A hint is never believed: the look decides.
"""

import threading

from assetsync.sync.context import Context
from assetsync.sync.intake.file_metadata import Sidecars
from assetsync.sync.intake.intake import Intake
from assetsync.sync.intake.plan import Plan
from assetsync.sync.intake.sidecars import look_at_sidecar

_MOST = 100_000
_AT_A_TIME = 500


class WatchQueue:
    """Filled by the watcher's threads, emptied by the one that looks."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._condition = threading.Condition()
        self._paths: dict[bytes, None] = {}
        self._overflowed = False

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: bytes) -> None:
        """Keep a path for a look; never blocks for long."""
        with self._condition:
            if len(self._paths) >= self._most:
                self._overflowed = True
                return
            self._paths[path] = None
            self._condition.notify()

    def wake(self) -> None:
        """Let a waiting `take` return."""
        with self._condition:
            self._condition.notify_all()

    def take(self, patience: float, most: int = _AT_A_TIME) -> list[bytes]:
        """Give the oldest paths, waiting up to `patience` seconds for the first."""
        with self._condition:
            if not self._paths and patience > 0:
                self._condition.wait(patience)
            taken = list(self._paths)[:most] if len(self._paths) > most else list(self._paths)
            for path in taken:
                del self._paths[path]
            return taken

    def overflowed(self) -> bool:
        """Tell once whether hints were dropped since it was asked last."""
        with self._condition:
            was, self._overflowed = self._overflowed, False
            return was


class Looker:
    """Looks at hinted paths and at those that are settling; used by one thread."""

    def __init__(self, context: Context, plan: Plan, intake: Intake, hints: WatchQueue, sidecars: Sidecars) -> None:
        self._context = context
        self._clock = context.clock
        self._plan = plan
        self._intake = intake
        self._settling = intake.settling
        self._sidecars = sidecars
        self._hints = hints
        self._sidecar_seen = False

    def step(self, patience: float) -> int:
        """Take what is hinted and due, waiting up to `patience` seconds for it; gives how many files may be due now."""
        due = self._settling.next_due()
        if due is not None:
            patience = min(patience, max(0.0, due - self._clock.steady()))
        queued = 0
        files: list[bytes] = []
        for path in self._hints.take(patience):
            if self._plan.is_sidecar(path):
                self._sidecar_seen = True
                queued += look_at_sidecar(self._context, self._sidecars, path)
            else:
                files.append(path)
        return queued + self._intake.look(*files) + self._intake.look_again(_AT_A_TIME)

    def saw_a_sidecar(self) -> bool:
        """Tell once whether a sidecar was looked at since it was asked last."""
        was, self._sidecar_seen = self._sidecar_seen, False
        return was
