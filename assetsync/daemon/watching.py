"""Keeps the watcher going, and knows how far it can be trusted.

Watching is `tree.watch`'s, scanning what a watcher cannot see is `work`'s: it is asked for through `want_scan`.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from assetsync.app import Site
from assetsync.status.live import Trust
from assetsync.sync.intake.watch_queue import WatchQueue
from assetsync.tree.filesystem import is_network_filesystem, network_mounts
from assetsync.tree.watch import OVERFLOWED, Watcher, coverage, mended_by, outermost

log = structlog.get_logger(__name__)

_CANARY_EVERY = 60.0
_ONE_OVERFLOW = 1.0


class Watching:
    """The watcher of one site; `tend` and `check_coverage` are for one thread each."""

    def __init__(self, site: Site, hints: WatchQueue, *, want_scan: Callable[[str], None], patience: float) -> None:
        """Nothing is watched before `start`; `patience` is how many seconds the watcher's canary may take."""
        self._site = site
        self._clock = site.context.clock
        self._hints = hints
        self._want_scan = want_scan
        self._patience = patience
        self._always_polls = not self._can_watch()
        self._is_of_use = not self._always_polls and site.config.watch.mode != "off"
        self._watcher: Watcher | None = None
        self._refused = False
        """Whether the kernel gave no watcher when it was last asked for one."""
        self._short = False
        """Whether the kernel watched fewer folders than the last scan met."""
        self._next_canary = 0.0
        self._silent = 0
        """How often in a row the canary was not heard."""
        self._lock = threading.Lock()
        self._overflowed_at = float("-inf")
        self._trust = Trust(self.mode)

    @property
    def polling(self) -> bool:
        """Whether the tree is scanned every minute, because the kernel does not tell of all that happens in it."""
        return self._always_polls or self._refused or self._short

    @property
    def mode(self) -> str:
        """How new files are noticed: inotify, polling or off."""
        return "inotify" if self._watcher is not None else "polling" if self.polling else "off"

    @property
    def trust(self) -> Trust:
        """How far the watcher can be trusted, as of the last scan and the last canary."""
        return replace(self._trust, mode=self.mode, polling=self.polling)

    def start(self) -> None:
        """Begin to watch where that is of use; where the kernel gives no watcher, the tree is scanned every minute."""
        if self._is_of_use:
            self._begin()

    def stop(self) -> None:
        """End watching."""
        if self._watcher is not None:
            self._watcher.stop()

    def tend(self) -> None:
        """Watch folders that came, and from time to time prove that the watcher still answers."""
        if not self._is_of_use:
            return
        if self._watcher is not None:
            for folder in self._watcher.tend():
                self._want_scan(f"{folder.decode('utf-8', 'backslashreplace')} came or went")
        if self._clock.steady() < self._next_canary:
            return
        self._next_canary = self._clock.steady() + _CANARY_EVERY
        if self._watcher is None:
            self._begin()
        elif self._watcher.sings(self._patience):
            self._silent = 0
            self._note(canary_at=self._clock.now())
        elif not self._clock.wait(0):
            self._make_anew(self._watcher)

    def check_coverage(self, folders: int) -> None:
        """After a scan that met so many folders: poll while the kernel watches fewer, and say how to change that."""
        if self._watcher is None:
            self._note(folders=folders)
            return
        found = coverage()
        above = sum(1 for folder in outermost(self._site.plan.folders()) for _ in folder.split(b"/")) + 1
        short = found.watched < folders - above
        if short and not self._short:
            log.warning(
                "not all folders can be watched, the tree is scanned every minute instead",
                watched=found.watched,
                folders=folders,
                fix=f"sysctl fs.inotify.max_user_watches={max(2 * folders, 2 * found.limit)}, then restart",
            )
        self._short = short
        self._note(watched=found.watched, folders=folders, limit=found.limit)

    def _note(self, **found: Any) -> None:
        """Keep what was found; the watcher's threads and two loops note."""
        with self._lock:
            self._trust = replace(self._trust, **found)

    def _lost(self, why: str) -> None:
        if why == OVERFLOWED:
            with self._lock:
                now = self._clock.steady()
                # watchdog says it in two lines.
                if now - self._overflowed_at > _ONE_OVERFLOW:
                    self._trust = replace(self._trust, overflows=self._trust.overflows + 1)
                self._overflowed_at = now
        self._want_scan(why)

    def _make_anew(self, watcher: Watcher) -> None:
        """Replace the watcher that did not answer, ever less often while that is of no help; a scan sees all anyway."""
        self._silent += 1
        if self._silent.bit_count() == 1:
            log.error("the watcher does not answer and is made anew", times=self._silent)
            watcher.stop()
            self._begin()
            self._note(made_anew=self._trust.made_anew + 1)
        self._want_scan("the watcher does not answer")

    def _begin(self) -> None:
        """Make a watcher and begin to watch; where the kernel refuses, say so once and poll until it gives one."""
        try:
            watcher = self._make()
            watcher.start()
        except OSError as error:
            self._watcher = None
            self._next_canary = self._clock.steady() + _CANARY_EVERY
            if not self._refused:
                # Who asked for inotify did not ask for this.
                say = log.error if self._site.config.watch.mode == "inotify" else log.warning
                say(
                    "nothing can be watched, the tree is scanned every minute instead",
                    why=error.strerror,
                    fix=mended_by(error),
                )
            self._refused = True
            return
        self._watcher = watcher
        if self._refused:
            self._refused = False
            log.warning("the tree can be watched again")
            # It tells what happened meanwhile, and whether all is watched now.
            self._want_scan("the tree can be watched again")

    def _make(self) -> Watcher:
        config = self._site.config
        return Watcher(
            bytes(config.root),
            outermost(self._site.plan.folders()),
            bytes(config.ledger) + b".canary",
            hint=self._hints.add,
            lost=self._lost,
            steady=self._clock.steady,
        )

    def _can_watch(self) -> bool:
        root, mode = bytes(self._site.config.root), self._site.config.watch.mode
        if mode == "auto":
            return not is_network_filesystem(root) and not network_mounts(root)
        return mode != "polling"
