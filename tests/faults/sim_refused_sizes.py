"""Schedules in which a proxy before the service refuses uploads above a size by 413, and passes nothing on.

Such a file ends blocked and is not sent again and again: no larger one is sent after it, until a day has passed or a
person retries it. Once the limit is raised, all are sent without a person.
"""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.model import State

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, schedule_of

if TYPE_CHECKING:
    from .simulation import Simulation

_DAY = 86_400.0
_LIMITS = (6, 10, 99, 120)
"""Between the sizes of the contents."""
_SHARE = 0.15


def refused_sizes_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed behind a proxy with a limit, with days that pass."""
    rng = random.Random(f"refused sizes {seed}")
    variant, general = schedule_of(seed)
    variant = replace(variant, limit=rng.choice(_LIMITS), limit_is_raised=True, persons=False)
    actions: list[Action] = []
    for action in general:
        actions.append(action)
        if rng.random() < _SHARE:
            actions.append(Action("live", (rng.choice((1, 4)),)))
        if rng.random() < _SHARE / 3:
            # An upload of a day would be waited for much longer.
            actions += [Action("go", (0, 1_000))] * 4 + [Action("wait", (_DAY,)), Action("live", (4,))]
    return Schedule(variant, tuple(actions))


def is_refused(row) -> bool:
    """Whether a row is blocked because a proxy refuses its size."""
    return row.state is State.BLOCKED and row.reason == TOO_LARGE_FOR_PROXY


def raise_limit(simulation: "Simulation") -> None:
    """Let the blocked files be tried once the limit is raised: by a day that passes, or by a person."""
    if simulation.variant.limit_is_raised:
        simulation.clock.advance(_DAY)
    else:
        simulation.person("retry", {"reason": TOO_LARGE_FOR_PROXY})


def judge_refused_sizes(simulation: "Simulation") -> None:
    """I15: no upload of a refused size follows another of this size or less, but for one a day, or after a death.

    A person who has files tried again permits one more of each size.
    """
    variant, clock = simulation.variant, simulation.clock
    if not variant.limit_is_raised or clock.jumped or clock.set_back:
        return
    refused = simulation.service.refused
    again = sum(size >= min(refused[:number]) for number, size in enumerate(refused) if number)
    most = simulation.deaths + int(clock.true // _DAY) + simulation.retried * len({*refused})
    if again > most:
        raise Violation(f"I15: {again} uploads of refused sizes are sent again, {most} at most: {refused}")
