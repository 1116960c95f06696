"""Schedules in which the ledger is lost, or put back from a copy that was made some time ago.

What was sent since is found in the service, and nothing is sent twice. Nobody puts a ledger back while an upload may
still come to light: the copy's ledger knows nothing of it, and no look-up can tell.
"""

import random
from dataclasses import replace

from .sim_schedule import Action, Schedule, schedule_of

_SHARE = 0.05


def restored_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with copies of the ledger made and put back between its actions."""
    rng = random.Random(f"restored {seed}")
    variant, general = schedule_of(seed)
    # Without digests, and where copies are refused, what an unknown upload left is a person's matter.
    variant = replace(variant, gives_md5=True, refuses_copies=False, persons=False)
    actions: list[Action] = [Action("back_up")]
    for action in general:
        actions.append(action)
        if rng.random() < _SHARE:
            actions.append(Action(rng.choice(("back_up", "put_back", "put_back", "lose_ledger"))))
    return Schedule(variant, tuple(actions))
