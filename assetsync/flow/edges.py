"""What every step of the flow is handed to act with; a simulation hands in its own."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from assetsync.flow.tally import Tally
from assetsync.flow.unmetered import Unmetered
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock, Meter, Service
from assetsync.tree.opening import Tree


@dataclass(frozen=True, slots=True)
class Edges:
    """The ledger, the service, the tree, the time, chance (for boundaries and retries), and where to count.

    `tick` is called in long work on the disk: it is a sign of life, and True when the work is to be given up.
    """

    ledger: Ledger
    service: Service
    tree: Tree
    clock: Clock
    chance: random.Random = field(default_factory=random.SystemRandom)
    tally: Tally = field(default_factory=Tally)
    tick: Callable[[], bool] = lambda: False
    meter: Meter = field(default_factory=Unmetered)

    def token(self) -> str:
        """Make a boundary that no file holds by accident; a plain token (observed: a quoted one hangs the service)."""
        return f"assetsync{self.chance.getrandbits(128):032x}"
