"""Keep the watcher running, and record how far it can be trusted.

Watching itself is left to `tree.watch`. Scanning what the watcher cannot see is left to `work`, by `want_scan`.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from assetsync.app import Site
from assetsync.status.site_status import Trust
from assetsync.sync.intake.watch_queue import WatchQueue
from assetsync.tree.filesystem import mount_lines, mounts, network_mounts
from assetsync.tree.watch import OVERFLOWED, Watcher, coverage, outermost, sysctl_fix

log = structlog.get_logger(__name__)

_CANARY_EVERY = 60.0
_MOUNTS_EVERY = 5.0


class Watching:
    """The watcher of one site; `tend` and `check_coverage` are each called by one thread."""

    def __init__(
        self,
        site: Site,
        watch_queue: WatchQueue,
        *,
        want_scan: Callable[[str], None],
        reload: Callable[[], None],
        patience: float,
    ) -> None:
        """Prepare the watcher, which starts with `start`; `patience` is the time limit of its canary in seconds.

        `reload` starts the site anew, which decides again whether the tree is polled and how long a file must rest.
        """
        self._site = site
        self._clock = site.context.clock
        self._watch_queue = watch_queue
        self._want_scan = want_scan
        self._reload = reload
        self._patience = patience
        mode = site.config.watch.mode
        self._root = os.path.realpath(bytes(site.config.root))
        self._mounts = mount_lines(self._root)
        self._is_network = bool(network_mounts(self._root))
        self._reloads = False
        """Whether a reload was requested; with mistakes in the configuration none follows."""
        self._owes_scan = False
        """Whether a scan of what was mounted then is due, if this process goes on."""
        self._always_polls = mode == "polling" or (mode == "auto" and self._is_network)
        self._is_of_use = not self._always_polls and mode != "off"
        self._watcher: Watcher | None = None
        self._refused = False
        """Whether the kernel refused the last attempt to start a watcher."""
        self._short = False
        """Whether the last scan ended while a folder was not watched."""
        self._next_canary = self._next_mounts = 0.0
        self._silent = 0
        """The number of missing canary events in a row."""
        self._lock = threading.Lock()
        self._trust = Trust(self.mode)

    @property
    def polling(self) -> bool:
        """Whether the tree is scanned every minute, because the kernel does not report all changes in it."""
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
        """Start the watcher, unless the tree is polled or `watch.mode` is off; poll if the kernel refuses it."""
        if self._is_of_use:
            self._begin()

    def stop(self) -> None:
        """Stop the watcher."""
        if self._watcher is not None:
            self._watcher.stop()

    def tend(self) -> None:
        """Watch new folders, and every `_CANARY_EVERY` seconds check that the watcher still reports events.

        Look for new mounts every `_MOUNTS_EVERY` seconds.

        Request a scan for each mapped folder that appeared or vanished. Restart a watcher that does not answer, at once
        if its thread has ended, and retry a watcher that the kernel refused.
        """
        if self._clock.steady() >= self._next_mounts:
            self._next_mounts = self._clock.steady() + _MOUNTS_EVERY
            # EMFILE: the next look finds them.
            with contextlib.suppress(OSError):
                self._look_for_mounts()
        if not self._is_of_use:
            return
        if self._watcher is not None:
            for folder in self._watcher.tend(self._clock.steady()):
                self._want_scan(f"{folder.decode('utf-8', 'backslashreplace')} came or went")
        has_ended = self._watcher is not None and not self._watcher.is_running
        # A watcher that ends again right after its restart waits for the next canary.
        if self._clock.steady() < self._next_canary and not (has_ended and self._silent == 0):
            return
        self._next_canary = self._clock.steady() + _CANARY_EVERY
        if self._watcher is None:
            self._begin()
        elif self._watcher.is_alive(self._patience):
            self._silent = 0
            self._note(canary_at=self._clock.now())
        elif not self._clock.wait(0):
            # Replace a watcher that does not answer, and request a scan, which sees all changes anyway. The
            # replacement happens at failures 1, 2, 4, 8 and so on in a row: less and less often while it does not
            # help.
            self._silent += 1
            why = "the watcher does not answer" if self._watcher.is_running else "the watcher's thread has ended"
            if self._silent.bit_count() == 1:
                log.error("restarting the watcher", why=why, times=self._silent, next="a scan finds what it missed")
                self._watcher.stop()
                self._begin()
                self._note(made_anew=self._trust.made_anew + 1)
            self._want_scan(why)

    def _look_for_mounts(self) -> None:
        """Reload once a network file system is mounted; watch and scan local disks. Raise OSError.

        A network file system that leaves changes nothing: to poll and to wait longer is safe.
        """
        found = mount_lines(self._root)
        if found == self._mounts:
            return
        if not self._is_network and not self._reloads and network_mounts(self._root):
            # `_mounts` stays as it is: if this process goes on, because the reload is rejected, the next call scans.
            self._reloads = self._owes_scan = True
            self._always_polls = self._always_polls or self._site.config.watch.mode == "auto"
            log.warning("a network file system was mounted", next="the site is started anew, as by SIGHUP")
            self._reload()
            return
        new, self._mounts = mounts(b"\n".join(found - self._mounts)), found
        # An automounter mounts network file systems because of scans.
        if self._owes_scan or not all(mount.is_network for mount in new):
            if self._watcher is not None:
                self._watcher.walk()
            self._want_scan("a disk was mounted")
            self._owes_scan = False

    def check_coverage(self, folders: int) -> None:
        """Poll while a folder cannot be watched, and log the limit to raise.

        What was refused decides, not the number of watches: ignored folders have watches, too. `folders` is the number
        of folders that the scan found.
        """
        if self._watcher is None:
            self._note(folders=folders)
            return
        found, unwatched = coverage(), self._watcher.unwatched
        if unwatched is not None and not self._short:
            limit = f"sysctl fs.inotify.max_user_watches={max(2 * folders, 2 * found.limit)}"
            log.warning(
                "some folders cannot be watched; the tree is scanned every minute instead",
                folder=unwatched.folder.decode("utf-8", "backslashreplace"),
                why=unwatched.why,
                watched=found.watched,
                folders=folders,
                **({"fix": limit} if unwatched.number == errno.ENOSPC else {}),
            )
        elif unwatched is None and self._short:
            log.warning("all folders can be watched again")
        self._short = unwatched is not None
        self._note(watched=found.watched, folders=folders, limit=found.limit)

    def _note(self, **found: Any) -> None:
        """Update the trust values; the watcher's threads and two loops call this."""
        with self._lock:
            self._trust = replace(self._trust, **found)

    def _lost(self, why: str) -> None:
        if why == OVERFLOWED:
            with self._lock:
                self._trust = replace(self._trust, overflows=self._trust.overflows + 1)
        self._want_scan(why)

    def _begin(self) -> None:
        """Start a watcher; if the kernel refuses it, log that once and poll until a retry works."""
        config = self._site.config
        try:
            watcher = Watcher(
                bytes(config.root),
                outermost(self._site.plan.folders()),
                bytes(config.ledger) + b".canary",
                follow_links=config.watch.follow_symlinks,
                hint=self._watch_queue.add,
                lost=self._lost,
                tick=self._site.context.heartbeat.tick,
            )
            watcher.start(self._clock.steady())
        except OSError as error:
            self._watcher = None
            self._next_canary = self._clock.steady() + _CANARY_EVERY
            if not self._refused:
                # An error if the configuration asks for inotify, else a warning.
                say = log.error if config.watch.mode == "inotify" else log.warning
                say(
                    "no folder can be watched; the tree is scanned every minute instead",
                    why=error.strerror,
                    fix=sysctl_fix(error),
                )
            self._refused = True
            return
        self._watcher = watcher
        if self._refused:
            self._refused = False
            log.warning("the tree can be watched again")
            # The scan finds the changes since, and `check_coverage` after it whether all folders are watched now.
            self._want_scan("the tree can be watched again")
