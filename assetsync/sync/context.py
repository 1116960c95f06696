"""The parts that every step of `sync` receives, and the totals of a run for its report and its progress bar.

Building the parts is left to `app` and to the fault simulation, showing the totals to `reconcile` and `cli`.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from assetsync.core.names import LONGEST_NAME, sent_names
from assetsync.ledger.ledger import Ledger
from assetsync.model import Body, Clock, Meter, Service
from assetsync.sync.observer import Observer
from assetsync.tree.safe_open import Tree


class Counted(NamedTuple):
    """Totals: files and bytes uploaded, files that got an asset without an upload, files that left the queue."""

    uploaded: int = 0
    bytes_uploaded: int = 0
    adopted: int = 0
    handled: int = 0


class ProgressCounts:
    """The totals of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uploaded = self._bytes_uploaded = self._adopted = self._handled = 0
        self._in_flight: dict[int, Body] = {}
        self._hashed = 0

    @contextmanager
    def sending(self, file_id: int, body: Body) -> Iterator[None]:
        """Include the sent bytes of a large body while it is sent. The body counts them, so no chunk costs more."""
        with self._lock:
            self._in_flight[file_id] = body
        try:
            yield
        finally:
            with self._lock:
                del self._in_flight[file_id]

    def sent(self) -> dict[int, int]:
        """Return the sent bytes of the large files in flight, by the ids of their versions."""
        with self._lock:
            return {file_id: body.bytes_sent for file_id, body in self._in_flight.items()}

    def hashed(self, size: int) -> None:
        """Count `size` bytes of a large file that were read to compare it before it is sent."""
        with self._lock:
            self._hashed += size

    def uploaded(self, size: int) -> None:
        """Count an upload of `size` bytes that is known to be stored."""
        with self._lock:
            self._uploaded += 1
            self._bytes_uploaded += size

    def adopted(self) -> None:
        """Count a file that got its asset without an upload."""
        with self._lock:
            self._adopted += 1

    def handled(self) -> None:
        """Count a file that left the queue, whatever the result."""
        with self._lock:
            self._handled += 1

    def shown(self) -> tuple[float, int, int]:
        """Return for a progress bar: files handled plus the sent parts of those in flight, bytes sent, bytes hashed."""
        with self._lock:
            sizes = [(body.bytes_sent, body.size) for body in self._in_flight.values()]
            handled, uploaded, hashed = self._handled, self._bytes_uploaded, self._hashed
        part = sum(sent / size for sent, size in sizes if size)
        return handled + part, uploaded + sum(sent for sent, _size in sizes), hashed

    def read(self) -> Counted:
        """Return the totals so far."""
        with self._lock:
            return Counted(self._uploaded, self._bytes_uploaded, self._adopted, self._handled)


class NullMeter:
    """A meter that counts nothing (`model.Meter`)."""

    def attempted(self, *_args: object, **_more: object) -> None:
        """Do nothing, like every method."""

    doubted = decided = findable = ran = attempted


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Signs of life to a watchdog.

    `tick` is called during long work on the disk; it returns True if the work must stop. `thread` surrounds the work of
    a thread that exists for this work alone, so that a hang is noticed there, too.
    """

    tick: Callable[[], bool] = lambda: False
    thread: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True, slots=True)
class Context:
    """The ledger, service, tree, clock, randomness (for boundaries and retries) and counters of a site.

    `longest_name`: the number of characters to which names are cut · `observer`: the searches of the service.
    """

    ledger: Ledger
    service: Service
    tree: Tree
    clock: Clock
    chance: random.Random = field(default_factory=random.SystemRandom)
    progress: ProgressCounts = field(default_factory=ProgressCounts)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    meter: Meter = field(default_factory=NullMeter)
    longest_name: int = LONGEST_NAME
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "observer", Observer(self.service, self.ledger, self.clock.now))

    def names_of_path(self, path: bytes) -> tuple[str, ...]:
        """Return the names under which a release may have sent the file at a path, the present one first."""
        return sent_names(path.rpartition(b"/")[2], self.longest_name)

    def must_stop(self) -> bool:
        """Give a sign of life during long work on the disk, and return whether the work must stop."""
        return self.heartbeat.tick() or self.clock.wait(0)

    def token(self) -> str:
        """Return a boundary that no file holds by accident; unquoted, for a quoted one hangs the service (observed)."""
        return f"assetsync{self.chance.getrandbits(128):032x}"
