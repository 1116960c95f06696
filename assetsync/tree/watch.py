"""Watch the mapped folders and report hints; only the periodic scan decides which files exist.

A hint is a path to look at, nothing more. Events that the kernel drops and folders that cannot be watched are reported
through `lost`, so that the caller starts a scan. The module uses watchdog's inotify observer; no other module imports
watchdog.
"""

import contextlib
import errno
import logging
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import ObservedWatch
from watchdog.observers.inotify import InotifyObserver

from assetsync.core.metadata import is_sidecar_name

log = structlog.get_logger(__name__)

# Opens and reads are not watched, because our own hashing would cause events. Modifications are not watched, because a
# close follows them.
_EVENTS: list[type[FileSystemEvent]] = [
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    DirCreatedEvent,
    DirMovedEvent,
]
_LOGGERS = ("watchdog.observers.inotify_c", "watchdog.observers.inotify")
_OVERFLOW = "overflow"
OVERFLOWED = "the kernel's event queue overflowed (fs.inotify.max_queued_events)"
"""The reason passed to `lost` when the kernel's queue overflowed."""
_WATCHED_STILL = r"Callback with id '\d+' already exists for watch "
_CANARY = b"alive"
_TRY_AGAIN = 60.0
_FDINFO = Path("/proc/self/fdinfo")
_LIMITS = Path("/proc/sys/fs/inotify")
_LIMIT = _LIMITS / "max_user_watches"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of inotify watches of this process, and the kernel's limit."""

    watched: int
    limit: int


class Watcher:
    """Watches `folders` (paths below `root`, none inside another) and calls `hint` and `lost`, also from its threads.

    `hint` receives a path relative to the root. `lost` receives a reason and means that events are missing, so that a
    scan is needed. `canary` is a folder outside the tree whose events prove that the watcher still works. A folder that
    cannot be watched is reported to `lost` once and retried every minute: `now` is a steady time.
    The constructor raises OSError if the kernel has no inotify instance left.
    """

    def __init__(
        self,
        root: bytes,
        folders: Sequence[bytes],
        canary: bytes,
        *,
        hint: Callable[[bytes], None],
        lost: Callable[[str], None],
    ) -> None:
        self._folders = [os.path.join(root, folder) if folder else root for folder in folders]
        self._canary = canary
        self._lost = lost
        self._observer = InotifyObserver()
        self._watches: dict[bytes, tuple[ObservedWatch, tuple[int, int]]] = {}
        self._refused: dict[bytes, float] = {}
        """The steady time at which each folder that could not be watched is retried."""
        self._canary_seen = threading.Event()
        self._handler = _Handler(root, hint)
        self._overflow_handler = _OverflowHandler(lost)

    def start(self, now: float) -> None:
        """Begin to watch the folders that exist; stop again and raise OSError if not even the canary can be watched."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._overflow_handler)
        # A folder that was moved out of the tree and back still has its old watch, which works as well as a new watch.
        warnings.filterwarnings("ignore", _WATCHED_STILL, RuntimeWarning)
        # If the folder cannot be created, `is_alive` returns False later.
        with contextlib.suppress(OSError):
            os.makedirs(self._canary, mode=0o700, exist_ok=True)
        self._observer.start()
        try:
            self._watch_canary()
        except OSError:
            self.stop()
            raise
        self.tend(now)

    def stop(self) -> None:
        """Stop watching; no hint follows after this returns."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._overflow_handler)
        self._observer.stop()
        self._observer.join()

    def tend(self, now: float) -> list[bytes]:
        """Watch folders that appeared or were replaced; return these and the folders that vanished, to be scanned."""
        changed = []
        for folder in self._folders:
            was_watched, identity = folder in self._watches, _identity(folder)
            if self._check_watch(folder, identity):
                continue
            if identity is None:
                # It may have been unmounted or renamed, for which the kernel may send no event.
                changed += [folder] * was_watched
            elif self._watch(folder, identity, now):
                changed.append(folder)
        return changed

    def is_alive(self, patience: float) -> bool:
        """Cause an event in the canary folder and return whether it arrived within `patience` seconds."""
        self._canary_seen.clear()
        try:
            # Called before the folder is created, too: a new folder may get the identity of the removed folder.
            self._watch_canary()
            os.makedirs(self._canary, mode=0o700, exist_ok=True)
            self._watch_canary()
            fd = os.open(os.path.join(self._canary, _CANARY), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.close(fd)
        except OSError as error:
            log.debug("the canary file cannot be written", folder=os.fsdecode(self._canary), why=str(error))
            return False
        return self._observer.is_alive() and self._canary_seen.wait(patience)

    def _watch_canary(self) -> None:
        """Watch the canary folder if it exists and is not watched; raises OSError."""
        folder, identity = self._canary, _identity(self._canary)
        if not self._check_watch(folder, identity) and identity is not None:
            watch = self._observer.schedule(_CanaryHandler(self._canary_seen), folder, event_filter=[FileClosedEvent])  # type: ignore[arg-type]
            self._watches[folder] = (watch, identity)

    def _check_watch(self, folder: bytes, identity: tuple[int, int] | None) -> bool:
        """Return whether the folder with this identity is watched; end a watch that has died or is of another."""
        watch, watched = self._watches.get(folder, (None, None))
        if watch is None:
            return False
        emitters = self._observer.emitters.copy()
        if identity == watched and any(emitter.watch == watch and emitter.is_alive() for emitter in emitters):
            return True
        del self._watches[folder]
        try:
            self._observer.unschedule(watch)
        except (KeyError, OSError) as error:
            log.debug("was not watched any more", folder=os.fsdecode(folder), why=str(error))
        return False

    def _watch(self, folder: bytes, identity: tuple[int, int], now: float) -> bool:
        if now < self._refused.get(folder, float("-inf")):
            return False
        try:
            watch = self._observer.schedule(self._handler, folder, recursive=True, event_filter=_EVENTS)  # type: ignore[arg-type]
        except OSError as error:
            if folder not in self._refused:
                self._lost(f"{os.fsdecode(folder)} cannot be watched: {error.strerror}")
            self._refused[folder] = now + _TRY_AGAIN
            return False
        self._refused.pop(folder, None)
        self._watches[folder] = (watch, identity)
        return True


def coverage() -> Coverage:
    """Count the inotify watches of this process as the kernel lists them, not as watchdog counts them.

    Raise OSError.
    """
    watched = 0
    for entry in _FDINFO.iterdir():
        try:
            watched += sum(line.startswith("inotify ") for line in entry.read_text("ascii").splitlines())
        except FileNotFoundError:
            # The descriptor that reads this folder is closed by now.
            continue
    return Coverage(watched, int(_LIMIT.read_text("ascii")))


def sysctl_fix(error: OSError) -> str:
    """Return the sysctl line that raises the exhausted limit if a `Watcher` cannot be constructed or started."""
    name = "max_user_watches" if error.errno == errno.ENOSPC else "max_user_instances"
    return f"sysctl fs.inotify.{name}={2 * int((_LIMITS / name).read_text('ascii'))}"


def outermost(folders: Sequence[bytes]) -> list[bytes]:
    """Return the folders that are not inside another of them; b"" is the root and contains all."""
    return [f for f in folders if not any(o != f and (not o or f.startswith(o + b"/")) for o in folders)]


def _identity(folder: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


class _Handler(FileSystemEventHandler):
    """Turns events into hints; never blocks."""

    def __init__(self, root: bytes, hint: Callable[[bytes], None]) -> None:
        self._prefix = len(root.rstrip(b"/")) + 1
        self._hint = hint

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Report the path of a new or changed file; events of folders are skipped, because their files have their own.

        A vanished file is not reported, because a scan detects it. A vanished sidecar is reported, because its file may
        wait for nothing else.
        """
        if event.is_directory:
            return
        here = os.fsencode(event.src_path)[self._prefix :]
        there = os.fsencode(event.dest_path)[self._prefix :] if event.dest_path else None
        if there is not None:
            self._hint(there)
        is_left = there is not None or isinstance(event, FileDeletedEvent)
        if not is_left or is_sidecar_name(here.rpartition(b"/")[2]):
            self._hint(here)


class _CanaryHandler(FileSystemEventHandler):
    """Receives the events of the canary folder."""

    def __init__(self, sang: threading.Event) -> None:
        self._canary_seen = sang

    def on_closed(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - watchdog's signature
        """Record that an event arrived."""
        self._canary_seen.set()


class _OverflowHandler(logging.Handler):
    """Detects a queue overflow in the kernel, which dropped events and which watchdog only logs."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = lost

    def emit(self, record: logging.LogRecord) -> None:
        """Report an overflow to `lost`."""
        if _OVERFLOW in str(record.msg):
            self._tell(OVERFLOWED)
