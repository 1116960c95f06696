"""Schedules in which the service fails for some uploads, under the default limits, and progress is demanded.

Each upload of so many, or each one into a folder, is answered by 500 and not stored, in the quiet time as well. The
others must go on at the rate of the service, and all must arrive soon.
"""

import random
from typing import TYPE_CHECKING

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, Variant
from .sim_tree import FOLDERS

if TYPE_CHECKING:
    from .simulation import Simulation

PARTIAL = ("each_fifth", "each_eighth", "a_folder")
"""Which uploads fail."""

_EACH = {"each_fifth": 5, "each_eighth": 8}
_TAKES = 0.1
"""Seconds that an upload takes: ten a second, because one is sent after the other here."""
_LEAST_SHARE = 0.7
"""Share of the files that must be stored when all had been sent without faults."""
_MOST_WAITS = 2
"""How many waits may follow each other for look-ups that show all: a file may fail again when no other is sent."""


def partial_schedule(seed: int, kind: str) -> Schedule:
    """Return what a seed stands for where some uploads fail."""
    rng = random.Random(f"partial {seed}")
    variant = Variant(
        upload_takes=_TAKES,
        refusing_each=_EACH.get(kind, 0),
        refusing=rng.choice(sorted(set(FOLDERS.values()))) if kind == "a_folder" else "",
        default_limits=True,
        gives_md5=rng.random() < 0.8,
        processing=rng.choice((0.0, 0.5, 4.0)),
        index_lag=rng.choice((0.0, 2.0)),
        # A look-up that takes time would delay the uploads here: all is done in one thread.
        look_takes=0.0,
    )
    count, at_once = rng.choice((80, 120)), rng.choice((20, 40))
    actions: list[Action] = []
    for first in range(0, count, at_once):
        actions += [Action("many", (first, at_once)), Action("scan", (1_000_000,))]
        actions.append(Action("live", (rng.choice((1, 2, 4)),)))
    if rng.random() < 0.3:
        actions.append(Action("crash", (0, rng.random() < 0.3)))
    return Schedule(variant, tuple(actions))


def arrives_within(simulation: "Simulation") -> float:
    """Return the seconds within which all files must have arrived, but for those into a folder that fails."""
    upload = simulation.config.upload
    # A process that begins may count the answered look-ups anew.
    return (_MOST_WAITS + simulation.deaths) * (upload.doubt_grace + upload.longest_lag)


def judge_partial(simulation: "Simulation") -> None:
    """I12: while some uploads fail, the others are stored at the rate of the service."""
    variant = simulation.variant
    if not variant.default_limits:
        return
    service = simulation.service
    posts = [post for post in service.posts if post.folder != variant.refusing]
    if not posts:
        return
    files = {(post.folder, post.name) for post in posts}
    stored = sorted(
        asset.made_at for asset in service.assets.values() if asset.post and asset.folder != variant.refusing
    )
    began = stored[0] - _TAKES
    # What the others are sent meanwhile takes its time here, too, and so do the pauses between two arrivals.
    by_then = began + len(simulation.files.held) * _TAKES * 1.5 + 15
    share = sum(at <= by_then for at in stored) / len(files)
    if share < _LEAST_SHARE:
        raise Violation(f"I12: {share:.0%} of {len(files)} files are stored within {by_then - began:.0f} s")
