"""Watch the mapped folders and report hints; only the periodic scan decides which files exist.

A hint is a path to look at, nothing more. Events that the kernel drops and folders that cannot be watched are reported
through `lost`, so that the caller starts a scan. Observer, event types and dispatch are watchdog's; no other module
imports watchdog. The emitter is not: watchdog's own loses folders that take each other's names, or ends by a KeyError.
"""

import contextlib
import errno
import os
import queue
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import structlog
from watchdog.events import FileDeletedEvent, FileModifiedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, EventEmitter, EventQueue
from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyEvent, InotifyFD, Mask, WatchDescriptor

from assetsync.core.metadata import is_sidecar_name, is_xmp_name

log = structlog.get_logger(__name__)

# Opens and reads are not watched, because our own hashing would cause events. Modifications are not watched, because a
# close follows them.
_EVENTS = Mask(
    InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_DONT_FOLLOW
)
OVERFLOWED = "the kernel's event queue overflowed (fs.inotify.max_queued_events)"
"""The reason passed to `lost` when the kernel's queue overflowed."""
_WATCHED_STILL = r"Callback with id '\d+' already exists for watch "
_MOST_EVENTS = 4_000
"""How many events wait for the handler; those behind them remain in the kernel's queue."""
_GATHER = 0.005
"""Seconds between two reads: events that are read together wake the other threads once."""
_CANARY = b"alive"
_TRY_AGAIN = 60.0
_AT_A_TIME = 1_000
"""How many watches are removed at once: the kernel queues an event for each, and its queue has a limit."""
_UNREADABLE = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG),
        *(errno.ENOTCONN, errno.EHOSTDOWN, errno.ENXIO, errno.ENODEV),
    }
)
"""Errors of a folder that a scan cannot read either."""
_NO_FOLDER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_MOST_CLOSED = 5_000
_TRIED_AT_ONCE = 100
"""How many closed folders are tried again at once: each is tried within a minute if `tend` is called every second."""
_FDINFO = Path("/proc/self/fdinfo")
_LIMITS = Path("/proc/sys/fs/inotify")
_LIMIT = _LIMITS / "max_user_watches"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of inotify watches of this process, and the kernel's limit."""

    watched: int
    limit: int


@dataclass(frozen=True, slots=True)
class Unwatched:
    """A folder that cannot be watched, although a scan may read it; `number` is the error's, and `why` its text."""

    folder: bytes
    number: int
    why: str

    def __str__(self) -> str:
        return f"{os.fsdecode(self.folder)} cannot be watched: {self.why}"


class Watcher(FileSystemEventHandler):
    """Watches `folders` (paths below `root`, none inside another) and calls `hint` and `lost`, also from its thread.

    `hint` receives a path relative to the root. `lost` receives a reason and means that events are missing, so that a
    scan is needed. `canary` is a folder outside the tree whose events prove that the watcher still works. A folder that
    cannot be watched is reported to `lost` once and retried every minute: `now` is a steady time. For folders below
    them, `lost` is called when the first of them cannot be watched, and when all of them can be watched again. With
    `follow_links`, a link among the folders is watched where it leads, except into another of them. `tick` is called
    for each folder that is added: on a slow disk, many of them take minutes.
    The constructor raises OSError if the kernel has no inotify instance left.
    """

    def __init__(
        self,
        root: bytes,
        folders: Sequence[bytes],
        canary: bytes,
        *,
        follow_links: bool = False,
        hint: Callable[[bytes], None],
        lost: Callable[[str], None],
        tick: Callable[[], object] = lambda: None,
    ) -> None:
        # A path that ends with a slash is watched where its last link leads; the root's always does.
        end = b"/" if follow_links else b""
        self._folders = [os.path.join(root, folder) + (end if folder else b"") for folder in folders]
        self._follow_links = follow_links
        self._prefix = len(os.path.join(root, b""))
        self._canary = canary
        self._hint = hint
        self._lost = lost
        self._observer = _Observer(_TreeEmitter, lost=lost, tick=tick)
        self._observer.schedule(self, os.fsdecode(root), recursive=True)
        [self._emitter] = cast("set[_TreeEmitter]", self._observer.emitters)
        self._watched: dict[bytes, tuple[WatchDescriptor, tuple[int, int]]] = {}
        """The watch and the identity of each mapped folder that is watched, and of the canary's."""
        self._refused: dict[bytes, tuple[float, Unwatched]] = {}
        """The steady time at which each mapped folder that could not be watched is retried, and why it could not."""
        self._canary_seen = threading.Event()

    def start(self, now: float) -> None:
        """Begin to watch the folders that exist; stop again and raise OSError if not even the canary can be watched."""
        # If the folder cannot be created, `is_alive` returns False later.
        with contextlib.suppress(OSError):
            os.makedirs(self._canary, mode=0o700, exist_ok=True)
        # Watching a folder that is watched already returns its watch, which watchdog warns about.
        warnings.filterwarnings("ignore", _WATCHED_STILL, RuntimeWarning)
        self._observer.start()
        try:
            self._watch_canary()
        except OSError:
            self.stop()
            raise
        self.tend(now)

    def stop(self) -> None:
        """Stop watching; no hint follows after this returns."""
        self._observer.stop()
        self._observer.join()

    @property
    def is_running(self) -> bool:
        """Whether events are still read and dispatched: an unexpected error ends the thread that does it."""
        return self._observer.is_alive() and self._emitter.is_alive()

    @property
    def unwatched(self) -> Unwatched | None:
        """One of the folders that are not watched; None if all are watched that a scan can read."""
        mapped = (found for _, found in list(self._refused.values()) if found.number not in _UNREADABLE)
        return next(mapped, self._emitter.unwatched)

    def tend(self, now: float) -> list[bytes]:
        """Watch folders that appeared or were replaced; return these and the folders that vanished, to be scanned.

        Folders below them that can be read by now are watched, too, and their files reported.
        """
        changed = []
        for folder in self._folders:
            was_watched, identity = folder in self._watched, _identity(folder)
            if self._check_watch(folder, identity):
                continue
            if identity is None:
                # It may have been unmounted or renamed, for which the kernel may send no event.
                self._refused.pop(folder, None)
                changed += [folder] * was_watched
            elif self._watch(folder, identity, now):
                changed.append(folder)
        self._emitter.tend(now)
        return changed

    def walk(self) -> None:
        """Watch folders of which no event came: those of a disk that was mounted below a watched folder."""
        self._emitter.walk()

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
        return self.is_running and self._canary_seen.wait(patience)

    def _watch_canary(self) -> None:
        """Watch the canary folder if it exists and is not watched; raises OSError."""
        folder, identity = self._canary, _identity(self._canary)
        if not self._check_watch(folder, identity) and identity is not None:
            self._watched[folder] = (self._emitter.add(folder), identity)

    def _check_watch(self, folder: bytes, identity: tuple[int, int] | None) -> bool:
        """Return whether the folder with this identity is watched; forget a watch that ended or is of another."""
        watch, watched = self._watched.get(folder, (None, None))
        if watch is None:
            return False
        if identity == watched and self._emitter.is_of(watch, folder):
            return True
        del self._watched[folder]
        self._emitter.forget(folder)
        return False

    def _watch(self, folder: bytes, identity: tuple[int, int], now: float) -> bool:
        if folder in self._refused and now < self._refused[folder][0]:
            return False
        try:
            if self._follow_links and self._leads_to_another(folder):
                # It would take the only watch of the other, whose files gave no hints under their paths.
                raise OSError(errno.ELOOP, "it is a link to what another mapped folder contains")  # noqa: TRY301
            watch = self._emitter.add(folder)
        except OSError as error:
            unwatched = _unwatched(folder, error)
            if folder not in self._refused:
                self._lost(str(unwatched))
            self._refused[folder] = (now + _TRY_AGAIN, unwatched)
            return False
        self._refused.pop(folder, None)
        self._watched[folder] = (watch, identity)
        return True

    def _leads_to_another(self, folder: bytes) -> bool:
        """Return whether a folder is a link, or below one, that leads into another mapped folder or above it."""
        real, root = os.path.realpath(folder), os.path.realpath(folder[: self._prefix])
        if real == os.path.normpath(os.path.join(root, folder[self._prefix :])):
            return False
        others = (os.path.realpath(other) for other in self._folders if other != folder)
        return any(os.path.commonpath([real, other]) in {real, other} for other in others)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Report a file that may be new or changed, or a sidecar that left: called by watchdog for each event.

        A vanished file is not reported, because a scan detects it. A vanished sidecar is reported, because its file may
        wait for nothing else.
        """
        path = os.fsencode(event.src_path)
        if os.path.dirname(path) == self._canary:
            self._canary_seen.set()
        elif not isinstance(event, FileDeletedEvent) or is_sidecar_name(path) or is_xmp_name(path):
            self._hint(path[self._prefix :])


class _Observer(BaseObserver):
    """watchdog's observer with a limit of its queue; if an error ends it, its emitter ends, too."""

    @cached_property
    def event_queue(self) -> EventQueue:
        return EventQueue(_MOST_EVENTS)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.unschedule_all()


class _TreeEmitter(EventEmitter):
    """Emits the events of files in folders and all folders below them, and records which watch is of which folder.

    `lost` receives a reason when events are missing; it must not block.

    An event is read later than it happened: at its path there may be another folder by now. So no event is followed to
    the letter. Whenever a folder came or left, the folder that is now at that path is watched, with all below it, and
    the kernel returns the same watch for the same folder whatever its path. After a folder's last move comes one more
    event, so the record ends right in whatever order folders took each other's places.
    """

    def __init__(self, *args: Any, lost: Callable[[str], None], tick: Callable[[], object], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lost = lost
        self._tick = tick
        self._inotify = InotifyFD()
        self._id = CallbackId(id(self))
        self._mutex = threading.RLock()
        self._steps = 0
        self._folders: dict[WatchDescriptor, bytes] = {}
        self._found: dict[bytes, type[FileSystemEvent]] = {}
        """The last event of each file of this read: a new file has two, and one is enough."""
        self._left: set[WatchDescriptor] = set()
        """The watches of folders that are not where they were; a folder that is found again keeps its watch."""
        self._tops: set[bytes] = set()
        self._closed: dict[bytes, None] = {}
        """Folders that could not be read; those tried last are at the end.

        A copy with its permissions opens a folder to others at its end. Events of permissions are not asked for: they
        come for each file, too, and a `chmod -R` would overflow the kernel's queue.
        """
        self._unwatched: Unwatched | None = None
        """The first folder since the last walk that was refused and is not among the closed; more may be."""
        self._next_walk = float("-inf")

    def queue_events(self, timeout: float) -> None:  # noqa: ARG002 -- the descriptor wakes this thread
        """Read events from the kernel and act on them: called by watchdog until the observer stops."""
        events = self._inotify.read_events()
        if not events and self.should_keep_running():
            raise OSError(errno.EBADF, "the inotify descriptor is closed")
        with self._lock():
            for event in events:
                self._inotify.handle_event(event)
        for path, kind in self._found.items():
            self.queue_event(kind(path))
        self._found.clear()
        self.stopped_event.wait(_GATHER)

    def queue_event(self, event: FileSystemEvent) -> None:
        """Queue an event; while the queue is full, wait, and leave further events to the kernel's queue."""
        while self.should_keep_running():
            with contextlib.suppress(queue.Full):
                return self._event_queue.put((event, self.watch), block=False)
            self.stopped_event.wait(_GATHER)
        return None

    def on_thread_stop(self) -> None:
        """Remove all watches and end the reading: called by watchdog."""
        self._inotify.close()

    def is_of(self, watch: WatchDescriptor, folder: bytes) -> bool:
        """Return whether the watch is of the folder at this path, as far as events were read."""
        with self._lock():
            return self._folders.get(watch) == folder

    @property
    def unwatched(self) -> Unwatched | None:
        # Under the lock: during a walk it is not known.
        with self._lock():
            return self._unwatched

    def add(self, folder: bytes) -> WatchDescriptor:
        """Watch a folder and all below it; raise OSError if the folder itself cannot be watched."""
        with self._lock():
            watch = self._add_one(folder)
            self._tops.add(folder)
            self._add_below(folder)
            return watch

    def walk(self) -> None:
        """Watch all folders below the added ones that are not watched."""
        with self._lock():
            for folder in self._tops:
                self._try(folder)
                self._add_below(folder)

    def forget(self, folder: bytes) -> None:
        """Report no more events of a folder and of those below it."""
        inside = os.path.join(folder, b"")
        with self._lock():
            self._tops.discard(folder)
            left = [watch for watch, path in self._folders.items() if path == folder or path.startswith(inside)]
            for watch in left:
                del self._folders[watch]
            self._left.update(left)

    def tend(self, now: float) -> None:
        """Watch folders that can be watched by now, and remove watches of folders that were not found again."""
        with self._lock():
            for folder in list(self._closed)[:_TRIED_AT_ONCE]:
                del self._closed[folder]
                self._try(folder)
                self._add_below(folder, report=True)
            self._try_unwatched(now)
            gone = list(self._left)[:_AT_A_TIME]
            self._left.difference_update(gone)
            self._inotify.remove_callbacks([(watch, self._id) for watch in gone])

    def _try_unwatched(self, now: float) -> None:
        """Once the folder that was refused can be watched, walk all folders again, at most once a minute.

        How many others were refused is not kept, because there may be as many as there are folders.
        """
        if self._unwatched is None or now < self._next_walk:
            return
        try:
            self._add_one(self._unwatched.folder)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                return
        self._next_walk = now + _TRY_AGAIN
        self._unwatched = None
        self.walk()
        if self._unwatched is None:
            self._lost("all folders can be watched again")

    def on_event(self, event: InotifyEvent) -> None:
        """Note the event of a file, or record where folders are now: called by watchdog for each event."""
        folder = self._folders.get(event.wd)
        if folder is None or not event.name:
            return
        path = os.path.join(folder, event.name)
        if event.is_directory:
            if event.is_moved_from:
                self.forget(path)
            if not event.is_delete:
                self._try(path)
                self._add_below(path, report=True)
        else:
            self._found[path] = FileDeletedEvent if event.is_delete or event.is_moved_from else FileModifiedEvent

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Forget a folder that was deleted or unmounted: called by watchdog."""
        with self._lock():
            self._folders.pop(wd, None)
            self._left.discard(wd)

    def on_queue_overflow(self) -> None:
        """Watch the folders whose events were dropped, and report the overflow: called by watchdog."""
        with self._lock():
            self._left.update(self._folders)
            self._folders.clear()
            self.walk()
        self._lost(OVERFLOWED)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock; while waiting for it, call `tick` every second in which the thread that holds it goes on.

        That thread may walk many folders. If it stands still, it hangs, and so does the one that waits.
        """
        seen = -1
        while not self._mutex.acquire(timeout=1.0):
            if self._steps != seen:
                seen = self._steps
                self._tick()
        try:
            yield
        finally:
            self._mutex.release()

    def _add_one(self, folder: bytes) -> WatchDescriptor:
        """Watch a folder and not those below it. Raise OSError."""
        self._steps += 1
        self._tick()
        watch = self._inotify.add_callback(folder, _EVENTS, self, self._id)
        if watch < 0:  # watchdog raises nothing for a folder that may not be read
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self._folders[watch] = folder
        self._left.discard(watch)
        return watch

    def _try(self, folder: bytes) -> None:
        """Watch a folder and not those below it, or note that it cannot be watched."""
        try:
            self._add_one(folder)
        except OSError as error:
            self._note(folder, error)

    def _note(self, folder: bytes, error: OSError) -> None:
        if error.errno in _NO_FOLDER or not self.should_keep_running():
            return
        if error.errno in _UNREADABLE and (folder in self._closed or len(self._closed) < _MOST_CLOSED):
            self._closed[folder] = None
        elif self._unwatched is None:
            self._unwatched = _unwatched(folder, error)
            self._lost(str(self._unwatched))

    def _add_below(self, folder: bytes, *, report: bool = False) -> None:
        """Watch the folders below a folder, and `report` their files; note folders that cannot be watched."""
        unseen = [folder]
        while unseen and self.should_keep_running():
            path = unseen.pop()
            try:
                entries = os.scandir(path)
            except OSError as error:
                self._note(path, error)
                continue
            # A listing that breaks off is reported by the scan; another try would only repeat the hints.
            with contextlib.suppress(OSError), entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        # Watched before it is listed, so that a file is either listed or has an event.
                        self._try(entry.path)
                        unseen.append(entry.path)
                    elif report:
                        self.queue_event(FileModifiedEvent(entry.path, is_synthetic=True))


def coverage() -> Coverage:
    """Count the inotify watches of this process as the kernel lists them, not as watchdog counts them.

    Raise OSError.
    """
    watched = 0
    for entry in _FDINFO.iterdir():
        # The descriptor that reads this folder is closed by now.
        with contextlib.suppress(FileNotFoundError):
            watched += sum(line.startswith("inotify ") for line in entry.read_text("ascii").splitlines())
    return Coverage(watched, int(_LIMIT.read_text("ascii")))


def sysctl_fix(error: OSError) -> str:
    """Return the sysctl line that raises the exhausted limit if a `Watcher` cannot be constructed or started."""
    name = "max_user_watches" if error.errno == errno.ENOSPC else "max_user_instances"
    return f"sysctl fs.inotify.{name}={2 * int((_LIMITS / name).read_text('ascii'))}"


def outermost(folders: Sequence[bytes]) -> list[bytes]:
    """Return the folders that are not inside another of them; b"" is the root and contains all."""
    return [f for f in folders if not any(o != f and (not o or f.startswith(o + b"/")) for o in folders)]


def _unwatched(folder: bytes, error: OSError) -> Unwatched:
    return Unwatched(folder, error.errno or 0, error.strerror or str(error))


def _identity(folder: bytes) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = os.stat(folder)
        return (status.st_dev, status.st_ino)
    return None
