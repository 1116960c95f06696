"""The parts that every step of `sync` receives; building them is left to `app` and to the fault simulation."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock, Meter, Sent, Service
from assetsync.sync.progress import ProgressCounts
from assetsync.tree.safe_open import Tree


class NullMeter:
    """A meter that counts nothing (`model.Meter`)."""

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """See `Meter`."""

    def doubted(self, count: int = 1) -> None:
        """See `Meter`."""

    def decided(self, how: str) -> None:
        """See `Meter`."""

    def findable(self, seconds: float) -> None:
        """See `Meter`."""

    def ran(self, job: str, seconds: float) -> None:
        """See `Meter`."""


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
    """The ledger, service, tree, clock, randomness (for boundaries and retries) and counters of a site."""

    ledger: Ledger
    service: Service
    tree: Tree
    clock: Clock
    chance: random.Random = field(default_factory=random.SystemRandom)
    progress: ProgressCounts = field(default_factory=ProgressCounts)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    meter: Meter = field(default_factory=NullMeter)

    def token(self) -> str:
        """Return a boundary that no file holds by accident; unquoted, for a quoted one hangs the service (observed)."""
        return f"assetsync{self.chance.getrandbits(128):032x}"
