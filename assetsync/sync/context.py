"""What every step acts with; the fault simulation passes its own."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock, Meter, Sent, Service
from assetsync.sync.progress import ProgressCounts
from assetsync.tree.safe_open import Tree


class NullMeter:
    """Takes everything and counts nothing (`model.Meter`)."""

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
class Context:
    """The ledger, the service, the tree, the time, chance (for boundaries and retries), and where to count.

    `tick` is called in long work on the disk: it is a sign of life, and True when the work is to be given up.
    """

    ledger: Ledger
    service: Service
    tree: Tree
    clock: Clock
    chance: random.Random = field(default_factory=random.SystemRandom)
    progress: ProgressCounts = field(default_factory=ProgressCounts)
    tick: Callable[[], bool] = lambda: False
    meter: Meter = field(default_factory=NullMeter)

    def token(self) -> str:
        """Make a boundary that no file holds by accident; a plain token (observed: a quoted one hangs the service)."""
        return f"assetsync{self.chance.getrandbits(128):032x}"
