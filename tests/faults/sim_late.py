"""Schedules in which the service is behind: its look-ups show an old state, or it stores after its proxy gave up.

A replica answers look-ups in the database as things stood longer ago than the grace. A proxy answers 504 while the
service goes on, and an upload that took a minute is stored minutes later.
"""

import random
from dataclasses import replace

from .sim_schedule import Action, Schedule, schedule_of
from .sim_values import GRACE

_SHARE = 0.15


def lagging_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed over a service whose look-ups lag by more than the grace."""
    rng = random.Random(f"lagging {seed}")
    variant, general = schedule_of(seed)
    # What a person does in the service, and a copy that it refuses, is judged as if look-ups showed it at once.
    variant = replace(variant, lag=rng.choice((1.5, 2.5, 3.5)) * GRACE, persons=False, refuses_copies=False)
    # To an audit, what is read back through the index and not listed yet is missing.
    actions = tuple(action for action in general if action.name != "audit")
    return Schedule(variant, _without_days(actions))


def gateway_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed, with uploads for which a proxy answers 504 before they are stored."""
    rng = random.Random(f"gateway {seed}")
    variant, general = schedule_of(seed)
    variant = replace(variant, persons=False, refuses_copies=False)
    actions: list[Action] = []
    for action in general:
        actions.append(action)
        if rng.random() < _SHARE:
            takes = rng.choice((6, 20, 60))
            actions.append(Action("plan", ("gateway_timeout", takes, rng.choice((1.5, 3.0, 4.5)) * takes, True)))
            actions.append(Action("send", (1_000,)))
            actions.append(Action("live", (rng.choice((1, 12, 25)),)))
    return Schedule(variant, _without_days(tuple(actions)))


def _without_days(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Set the clock forward by an hour at most where the machine restarts: a day would be taken for a day that passed.

    Only the wall clock goes on from one boot to the next.
    """
    if not any(action.name == "crash" and action.values[1] for action in actions):
        return actions
    return tuple(Action("jump", (min(a.values[0], 3_600.0),)) if a.name == "jump" else a for a in actions)
