"""Queue the paths that the watcher reported, and look at them.

The queue is in memory, holds each path once, and has a limit. Beyond it paths are dropped and a scan is requested
instead. A report is never trusted: the look decides. Watching is left to `tree.watch`.
"""

import threading

from assetsync.core.mapping import Plan
from assetsync.core.metadata import is_xmp_name
from assetsync.errors import RootMissing
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import Intake
from assetsync.sync.intake.sidecars import SidecarCache, look_at_sidecar

_MOST = 100_000
_AT_A_TIME = 500
_SECOND_LOOK = 1.0
"""Seconds after which an XMP file that is gone is looked at again."""
_MOST_GONE = 10_000


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
        # XMP files that were gone at the last look, with the time of their second look (steady seconds).
        self._gone: dict[bytes, float] = {}

    def step(self, patience: float) -> int:
        """Look at watched and due paths, waiting up to `patience` seconds; return how many files may be due now."""
        due = self._intake.settling.next_due()
        if due is not None:
            patience = min(patience, max(0.0, due - self._context.clock.steady()))
        queued = 0
        patience = min(patience, _SECOND_LOOK) if self._gone else patience
        taken = self._watch_queue.take(patience)
        for path in self._put_off_gone([path for path in taken if self._plan.is_sidecar(path)]):
            self._sidecar_seen = True
            queued += look_at_sidecar(self._context, self._cache, path)
        files = [path for path in taken if not self._plan.is_sidecar(path)]
        return queued + self._intake.look(*files) + self._intake.look_again(_AT_A_TIME)

    def _put_off_gone(self, sidecars: list[bytes]) -> list[bytes]:
        """Return the sidecars to look at now: those of second looks too, and no XMP file that has just gone.

        Some programs move an XMP file away for a moment to write it.
        """
        steady, tree = self._context.clock.steady(), self._context.tree
        due = [path for path, at in self._gone.items() if at <= steady]
        for path in due:
            del self._gone[path]
        try:
            just_gone = [path for path in sidecars if is_xmp_name(path) and tree.is_absent(path)]
        except RootMissing:
            just_gone = []
        for path in just_gone[: _MOST_GONE - len(self._gone)]:
            self._gone.setdefault(path, steady + _SECOND_LOOK)
        return [*due, *(path for path in sidecars if path not in self._gone)]

    def take_saw_sidecar(self) -> bool:
        """Return whether a sidecar was looked at since the last call."""
        was, self._sidecar_seen = self._sidecar_seen, False
        return was
