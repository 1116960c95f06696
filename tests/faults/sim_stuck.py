"""Schedules in which the service accepts uploads that it never processes, or processes hours later.

Such a file must come to rest blocked as never_processed, whatever happens to it in the tree, and must be verified if
the service finishes late. It is sent again by a person alone: the checks of each step count the whole copies.
"""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.model import State

from .sim_schedule import Action, Schedule, schedule_of

if TYPE_CHECKING:
    from .simulation import Simulation

_PATIENCE = 900
"""Seconds that the service may leave an upload unprocessed."""
_SHARE = 0.2


def stuck_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed over a service that leaves some uploads unprocessed."""
    rng = random.Random(f"stuck {seed}")
    variant, general = schedule_of(seed)
    # A person who has a file sent again asks for a copy: without an MD5, nothing would tell the two apart.
    # An asset of a replaced version that was not shown when it was processed stays with the person who is asked.
    lies = replace(variant.lies, hides="")
    variant = replace(variant, unprocessed_after=_PATIENCE, refuses_copies=False, persons=variant.gives_md5, lies=lies)
    touched = sorted({action.values[1] for action in general if action.name == "file"})
    actions: list[Action] = []
    for action in general:
        actions.append(action)
        if touched and rng.random() < _SHARE:
            actions += _stuck(rng, rng.choice(touched))
        if rng.random() < _SHARE / 2:
            actions += _later(rng)
        if variant.persons and touched and rng.random() < _SHARE / 3:
            actions.append(Action("send_again", (rng.choice(touched),)))
    return Schedule(variant, tuple(actions))


def _stuck(rng: random.Random, path: str) -> list[Action]:
    """Let the service leave the next version of a file unprocessed, if nothing else is sent before it."""
    return [
        Action("file", ("write", path, rng.randrange(7))),
        Action("scan", (1_000_000,)),
        Action("plan", ("never_processed", 0, 0.0, False)),
        Action("send", (1_000,)),
    ]


def _later(rng: random.Random) -> list[Action]:
    """Let time pass in which assets stay unprocessed, and let the service finish one now and then.

    First let all that is on its way come to its end: an upload of a quarter of an hour is waited for much longer.
    """
    passed = [Action("go", (0, 1_000))] * 4
    passed += [
        action for _ in range(rng.choice((1, 4, 12))) for action in (Action("wait", (90.0,)), Action("live", (1,)))
    ]
    if rng.random() < 0.3:
        passed.append(Action("finish", (rng.randrange(8),)))
    if rng.random() < 0.3:
        passed.append(Action("audit", (1_000,)))
    return passed


def finish_unknown(simulation: "Simulation") -> None:
    """Process the assets whose answers were lost on the way to the ledger: a doubt waits for them for a day."""
    rows = simulation.site.context.ledger.store.rows("SELECT assetid FROM files WHERE assetid IS NOT NULL")
    known = {row[0] for row in rows}
    known |= {
        row[0] for row in simulation.site.context.ledger.store.rows("SELECT assetid FROM unowned WHERE why <> ''")
    }
    for number, asset in reversed([*enumerate(simulation.service.unfinished())]):
        if asset.id not in known:
            simulation.service.finish(number)


def is_stuck(simulation: "Simulation", row) -> bool:
    """Whether the service has accepted the row's asset and does not process it."""
    return row.assetid in {asset.id for asset in simulation.service.stuck()}


def was_finished(simulation: "Simulation", row) -> bool:
    """Whether a row is blocked for an asset that the service has processed since: each hour it is looked at."""
    is_there = row.assetid in simulation.service.assets and not is_stuck(simulation, row)
    return row.state is State.BLOCKED and row.reason == NEVER_PROCESSED and is_there
