"""Schedules in which the ledger is lost, put back from a copy made some time ago, or rolled back with its disk.

What was sent since is found in the service, and nothing is sent twice. Nobody puts a ledger back while an upload may
still come to light: the copy's ledger knows nothing of it, and no look-up can tell.
"""

import random
from dataclasses import replace

from .sim_schedule import Action, Schedule, schedule_of

_SHARE = 0.05


def restored_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with copies of the ledger made and put back between its actions."""
    return _between("restored", seed, "back_up", ("back_up", "put_back", "put_back", "lose_ledger"))


def rolled_back_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with the ledger's whole disk kept and rolled back between its actions."""
    schedule = _between("rolled back", seed, "take_snapshot", ("take_snapshot", "roll_back", "roll_back"))
    # A person's order to send again is rolled back too, and then carried out once more: it is an order.
    return schedule._replace(actions=tuple(action for action in schedule.actions if action.name != "send_again"))


def _between(kind: str, seed: int, first: str, names: tuple[str, ...]) -> Schedule:
    rng = random.Random(f"{kind} {seed}")
    variant, general = schedule_of(seed)
    # Without digests, and where copies are refused, what an unknown upload left is a person's matter.
    variant = replace(variant, gives_md5=True, refuses_copies=False, persons=False)
    actions: list[Action] = [Action(first)]
    for action in general:
        actions.append(action)
        if rng.random() < _SHARE:
            actions.append(Action(rng.choice(names)))
    return Schedule(variant, tuple(actions))
