"""Watches the mapped folders and hands on hints; the periodic scan remains the truth.

A hint is a path to look at, nothing more. What the kernel drops, and folders that could not be watched, are told to
whoever scans. Watching is watchdog's inotify observer; this is the only module that knows it.
"""

import contextlib
import errno
import logging
import os
import threading
import time
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
from watchdog.observers.api import EventEmitter, ObservedWatch
from watchdog.observers.inotify import InotifyObserver

from assetsync.core.metadata import is_sidecar_name

log = structlog.get_logger(__name__)

# Opens and reads are left out: our own hashing would make events. Modifications are, because a close follows.
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
OVERFLOWED = "more happened at once than the kernel keeps (fs.inotify.max_queued_events)"
"""What `lost` is told when the kernel's queue overflowed."""
_WATCHED_STILL = r"Callback with id '\d+' already exists for watch "
_CANARY = b"alive"
_TRY_AGAIN = 60.0
_FDINFO = Path("/proc/self/fdinfo")
_LIMITS = Path("/proc/sys/fs/inotify")
_LIMIT = _LIMITS / "max_user_watches"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many folders the kernel watches for this process, and how many it may."""

    watched: int
    limit: int


class Watcher:
    """Watches `folders` (paths below `root`, none inside another) and calls `hint` and `lost` from its own threads.

    `hint` gets a path relative to the root; `lost` gets a reason and means that events are missing: only a scan can
    tell what happened. `canary` is a folder outside the tree whose events prove that the watcher still works. A folder
    that cannot be watched is told to `lost` once, and tried again each minute of `steady`. Making one raises OSError
    when the kernel has no inotify instance left.
    """

    def __init__(
        self,
        root: bytes,
        folders: Sequence[bytes],
        canary: bytes,
        *,
        hint: Callable[[bytes], None],
        lost: Callable[[str], None],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = [os.path.join(root, folder) if folder else root for folder in folders]
        self._canary = canary
        self._lost = lost
        self._steady = steady
        self._observer = InotifyObserver()
        self._watches: dict[bytes, tuple[ObservedWatch, tuple[int, int]]] = {}
        self._refused: dict[bytes, float] = {}
        """When each folder that could not be watched is tried again."""
        self._sang = threading.Event()
        self._handler = _Handler(root, hint)
        self._ears = _Ears(lost)

    def start(self) -> None:
        """Begin to watch what is there; raises OSError, and has ended, when not even the canary can be watched."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._ears)
        # A folder that was moved out of the tree and back has its watch still, which is as good as another.
        warnings.filterwarnings("ignore", _WATCHED_STILL, RuntimeWarning)
        # Where its folder cannot be made, `sings` says so.
        with contextlib.suppress(OSError):
            os.makedirs(self._canary, mode=0o700, exist_ok=True)
        self._observer.start()
        try:
            self._hear_canary()
        except OSError:
            self.stop()
            raise
        self.tend()

    def stop(self) -> None:
        """End watching; returns when no more hints come."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._ears)
        self._observer.stop()
        self._observer.join()

    def tend(self) -> list[bytes]:
        """Watch folders that came, or came again; gives those, and those that went: a scan must tell what is there."""
        changed = []
        for folder in self._folders:
            identity = _identity(folder)
            watched = self._watches.get(folder)
            alive = watched is not None and self._is_alive(watched[0])
            if watched is not None and (identity != watched[1] or not alive):
                self._unwatch(folder)
                watched = None
                if identity is None:
                    # Unmounted, or renamed: of that no event need come.
                    changed.append(folder)
            if watched is None and identity is not None and self._watch(folder, identity):
                changed.append(folder)
        return changed

    def sings(self, patience: float) -> bool:
        """Make an event outside the tree and tell whether it came through within `patience` seconds."""
        self._sang.clear()
        try:
            # First what is there: a folder that is made again may have the identity of the one that was removed.
            self._hear_canary()
            os.makedirs(self._canary, mode=0o700, exist_ok=True)
            self._hear_canary()
            fd = os.open(os.path.join(self._canary, _CANARY), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.close(fd)
        except OSError as error:
            log.debug("the canary cannot sing", folder=os.fsdecode(self._canary), why=str(error))
            return False
        return self._observer.is_alive() and self._sang.wait(patience)

    def _hear_canary(self) -> None:
        """Watch the canary's folder, if it is there and is not watched."""
        folder, identity = self._canary, _identity(self._canary)
        watched = self._watches.get(folder)
        if watched is not None and (identity != watched[1] or not self._is_alive(watched[0])):
            self._unwatch(folder)
            watched = None
        if watched is None and identity is not None:
            watch = self._observer.schedule(_Singing(self._sang), folder, event_filter=[FileClosedEvent])  # type: ignore[arg-type]
            self._watches[folder] = (watch, identity)

    def _watch(self, folder: bytes, identity: tuple[int, int]) -> bool:
        if self._steady() < self._refused.get(folder, float("-inf")):
            return False
        try:
            watch = self._observer.schedule(self._handler, folder, recursive=True, event_filter=_EVENTS)  # type: ignore[arg-type]
        except OSError as error:
            if folder not in self._refused:
                self._lost(f"{os.fsdecode(folder)} cannot be watched: {error.strerror}")
            self._refused[folder] = self._steady() + _TRY_AGAIN
            return False
        self._refused.pop(folder, None)
        self._watches[folder] = (watch, identity)
        return True

    def _unwatch(self, folder: bytes) -> None:
        watch, _ = self._watches.pop(folder)
        try:
            self._observer.unschedule(watch)
        except (KeyError, OSError) as error:
            log.debug("was not watched any more", folder=os.fsdecode(folder), why=str(error))

    def _is_alive(self, watch: ObservedWatch) -> bool:
        return any(_watches(emitter, watch) for emitter in self._observer.emitters.copy())


def coverage() -> Coverage:
    """Count the watches of this process as the kernel lists them, not as a library believes."""
    watched = 0
    for entry in _FDINFO.iterdir():
        try:
            watched += sum(line.startswith("inotify ") for line in entry.read_text("ascii").splitlines())
        except FileNotFoundError:
            # The descriptor by which the folder is being read.
            continue
    return Coverage(watched, int(_LIMIT.read_text("ascii")))


def mended_by(error: OSError) -> str:
    """Give the sysctl line that mends it when a `Watcher` cannot be made or started."""
    name = "max_user_watches" if error.errno == errno.ENOSPC else "max_user_instances"
    return f"sysctl fs.inotify.{name}={2 * int((_LIMITS / name).read_text('ascii'))}"


def outermost(folders: Sequence[bytes]) -> list[bytes]:
    """Give the folders that lie in no other one; b"" is the root and holds all."""
    return [f for f in folders if not any(o != f and (not o or f.startswith(o + b"/")) for o in folders)]


def _identity(folder: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _watches(emitter: EventEmitter, watch: ObservedWatch) -> bool:
    return emitter.watch == watch and emitter.is_alive()


class _Handler(FileSystemEventHandler):
    """Turns events into hints; never blocks."""

    def __init__(self, root: bytes, hint: Callable[[bytes], None]) -> None:
        self._prefix = len(root.rstrip(b"/")) + 1
        self._hint = hint

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Hand on the path at which something is new; folders announce their files one by one.

        That a file has gone is for a scan to say. A sidecar that has gone is news of the file beside it, which may
        have waited for nothing else.
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


class _Singing(FileSystemEventHandler):
    """Hears the canary."""

    def __init__(self, sang: threading.Event) -> None:
        self._sang = sang

    def on_closed(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - watchdog's signature
        """Note that an event came through."""
        self._sang.set()


class _Ears(logging.Handler):
    """Hears what watchdog only logs: that the kernel's queue overflowed and events were dropped."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = lost

    def emit(self, record: logging.LogRecord) -> None:
        """Pass an overflow on."""
        if _OVERFLOW in str(record.msg):
            self._tell(OVERFLOWED)
