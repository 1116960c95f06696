"""Schedules in which a person uploads files of the tree by `assetsync upload`, beside the program or between starts.

The command is a process of its own: it opens and hashes the file, has its intent committed, posts, and leaves its
outcome. It may be killed between any two of these, and the program may die or start again meanwhile.
"""

import os
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from assetsync.core import metadata
from assetsync.core.names import sent_name
from assetsync.errors import ServiceError, UsageError
from assetsync.ledger.file.database import hold_by_hand
from assetsync.ledger.queue import Intent
from assetsync.model import Sent, UploadRequest
from assetsync.sync.requests.upload import EndUpload
from assetsync.sync.upload import by_hand
from assetsync.tree.body import FileBody, digest
from assetsync.tree.safe_open import OpenFile

from .sim_schedule import Action, Schedule, interspersed, schedule_of
from .sim_tree import FOLDERS, PATHS

if TYPE_CHECKING:
    from .simulation import Simulation

_SHARE = 0.25
_STEPS = (("hand_begin",), ("hand_begin", "hand_post"), ("hand_post",), ("hand_post", "hand_end"), ("hand_end",))


def by_hand_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with steps of uploads by hand between its actions."""
    rng = random.Random(f"by hand {seed}")
    variant, general = schedule_of(seed)
    touched = sorted({action.values[1] for action in general if action.name == "file"}) or list(PATHS)
    return Schedule(variant, tuple(interspersed(general, rng, _SHARE, lambda: _steps(rng, touched))))


def _steps(rng: random.Random, touched: list[str]) -> Iterable[Action]:
    if rng.random() < 0.1:
        yield Action("hand_kill")
        return
    for name in rng.choice(_STEPS):
        yield Action(name, (rng.choice(touched),) if name == "hand_begin" else ())


class Hand:
    """The one command that may run; each step is False where it makes no sense."""

    def __init__(self, simulation: "Simulation") -> None:
        self._sim = simulation
        self._count = 0
        self._lock = -1
        self._file: OpenFile | None = None
        self._request: UploadRequest | None = None
        self._sent: Sent | None = None

    @property
    def runs(self) -> bool:
        return self._file is not None

    def begin(self, path: str) -> bool:
        sim = self._sim
        if self.runs or not sim.files.held.get(path):
            return False
        self._count += 1
        self._file = file = sim.site.context.tree.open(path.encode())
        folder, name = FOLDERS[path[0]], sent_name(path.encode().rpartition(b"/")[2])
        self._request = request = UploadRequest(folder, name, f"byhand{self._count:032x}")
        self._lock = hold_by_hand(sim.config.ledger, request.boundary)
        told = metadata.digest(request.meta, request.options, request.language)
        md5 = digest(file, file.stat)
        intent = Intent(0, folder, name, request.boundary, file.stat, md5, told, by_hand=True)
        answers: list[str] = []
        sim.guarded(lambda: answers.append(self._begun(by_hand.ByHand(path.encode(), intent))), "upload by hand")
        sim.note(f"BY HAND {path}: {answers}")
        if answers != [by_hand.MAY_SEND]:
            # Also where no answer came: then the intent may be there.
            self.kill()
        return True

    def _begun(self, hand: by_hand.ByHand) -> str:
        sim = self._sim
        try:
            return by_hand.begin(sim.site.context.ledger, sim.client, hand, sim.clock.now()).what
        except (UsageError, ServiceError) as error:
            return str(error)

    def post(self) -> bool:
        if self._file is None or self._request is None or self._sent is not None:
            return False
        # What dies at a mark is the program, and this is another process.
        kept, self._sim.crash_in = self._sim.crash_in, -1
        self._sent = self._sim.client.upload(self._request, FileBody(self._file, self._file.stat))
        self._sim.crash_in = kept
        self._sim.note(f"BY HAND posted: {self._sent.outcome.answer} {self._sent.outcome.assetid}")
        return True

    def end(self) -> bool:
        if self._request is None or self._sent is None:
            return False
        sim, sent = self._sim, self._sent
        ended = EndUpload(self._request.boundary, sent.outcome, sent.left, sent.bytes_sent, sent.md5, sent.took)
        said = ended.argument()
        sim.guarded(lambda: sim.site.context.ledger.add_request("uploaded", said, sim.clock.now()), "outcome by hand")
        self.kill()
        return True

    def kill(self) -> bool:
        """End the process, whatever it was at."""
        if self._file is None:
            return False
        self._file.close()
        os.close(self._lock)
        self._file = self._request = self._sent = None
        return True
