"""Schedules in which people delete, move and rename in the service what we have uploaded there, between all else.

What they delete may be sent once more, and is either sent or told; what they move or rename is neither.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from assetsync.model import State

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, schedule_of
from .sim_tree import FOLDERS

if TYPE_CHECKING:
    from .simulation import Simulation

_VERBS = ("delete", "delete", "move", "move", "rename", "bring back")
_SHARE = 0.12


def curated_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with the work of people in the service between its actions."""
    rng = random.Random(f"curated {seed}")
    variant, general = schedule_of(seed)
    # By its name alone an asset that was renamed could not be told.
    variant = replace(variant, curated=True, resends=rng.random() < 0.5, gives_md5=True, refuses_copies=False)
    if variant.lies.folder_id:
        # Without folder ids nobody could tell where an asset was moved to.
        variant = replace(variant, lies=replace(variant.lies, folder_id="case"))
    actions: list[Action] = []
    for action in general:
        # To an audit on a clock that was set back all is younger than itself, until it has caught up.
        actions.append(action if action.name != "jump" else Action("jump", (abs(action.values[0]),)))
        if rng.random() < _SHARE:
            actions += _work(rng)
    return Schedule(variant, tuple(actions))


def _work(rng: random.Random) -> Iterable[Action]:
    yield Action("curate", (rng.choice(_VERBS), rng.randrange(8), rng.choice(("F1", "F2", "F9"))))
    if rng.random() < 0.4:
        yield Action("audit", (rng.choice((1, 3, 1_000)),))


def judge_curated(simulation: "Simulation") -> None:
    """I10: what lies in another folder than it was sent to is told; so is what is gone, or it is sent again."""
    for row in simulation.site.context.ledger.reports.files():
        asset = simulation.service.assets.get(row.assetid or "")
        if row.state is not State.VERIFIED or row.wanted != "yes" or asset is None:
            continue
        told, elsewhere = "another folder" in (row.drift or ""), asset.folder != FOLDERS[row.path.decode()[0]]
        if elsewhere and not told and simulation.variant.lies.folder_id in ("empty", "missing"):
            # The service shows it in a search of all folders alone, and names no folder.
            continue
        if told != elsewhere:
            raise Violation(f"I10: {row.path!r} is {asset.id} in {asset.folder}, and the drift is {row.drift!r}")
