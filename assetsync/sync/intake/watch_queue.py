"""Queue the paths that the watcher reported, and look at them.

The queue is in memory, holds each path once, and has a limit. Beyond it paths are dropped and a scan is requested
instead. A report is never trusted: the look decides. Watching is left to `tree.watch`.
"""

import threading

from assetsync.core.mapping import Plan
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import Intake
from assetsync.sync.intake.sidecars import SidecarCache, look_at_sidecar

_MOST = 100_000
_AT_A_TIME = 500


class WatchQueue:
    """The queue. The watcher's threads fill it, and the thread that looks empties it."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._condition = threading.Condition()
        self._paths: dict[bytes, None] = {}
        self._overflowed = False

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: bytes) -> None:
        """Queue a path for a look; never block for long."""
        with self._condition:
            if len(self._paths) >= self._most:
                self._overflowed = True
                return
            self._paths[path] = None
            self._condition.notify()

    def wake(self) -> None:
        """Make a waiting `take` return."""
        with self._condition:
            self._condition.notify_all()

    def take(self, patience: float) -> list[bytes]:
        """Return the oldest paths, at most `_AT_A_TIME`; wait up to `patience` seconds for the first."""
        with self._condition:
            if not self._paths and patience > 0:
                self._condition.wait(patience)
            taken = list(self._paths)[:_AT_A_TIME]
            for path in taken:
                del self._paths[path]
            return taken

    def overflowed(self) -> bool:
        """Return whether paths were dropped since the last call."""
        with self._condition:
            was, self._overflowed = self._overflowed, False
            return was


class Looker:
    """Looks at watched paths and at those that are settling; used by one thread."""

    def __init__(
        self, context: Context, plan: Plan, intake: Intake, watch_queue: WatchQueue, cache: SidecarCache
    ) -> None:
        self._context = context
        self._plan = plan
        self._intake = intake
        self._cache = cache
        self._watch_queue = watch_queue
        self._sidecar_seen = False

    def step(self, patience: float) -> int:
        """Look at watched and due paths, waiting up to `patience` seconds; return how many files may be due now."""
        due = self._intake.settling.next_due()
        if due is not None:
            patience = min(patience, max(0.0, due - self._context.clock.steady()))
        queued = 0
        taken = self._watch_queue.take(patience)
        for path in filter(self._plan.is_sidecar, taken):
            self._sidecar_seen = True
            queued += look_at_sidecar(self._context, self._cache, path)
        files = [path for path in taken if not self._plan.is_sidecar(path)]
        return queued + self._intake.look(*files) + self._intake.look_again(_AT_A_TIME)

    def take_saw_sidecar(self) -> bool:
        """Return whether a sidecar was looked at since the last call."""
        was, self._sidecar_seen = self._sidecar_seen, False
        return was
