"""Schedules in which searches of the service fail now and then, in the quiet time as well."""

from dataclasses import replace

from .sim_lies import HONEST
from .sim_schedule import Schedule, schedule_of

FAILING = {
    "one_in_ten": {"failing": 0.1},
    "one_in_three": {"failing": 0.33},
    "more_than_half": {"failing": 0.6},
    "each_third": {"failing_each": 3},
}
"""How searches fail: a share of them at random, or one in so many, in step with the rounds of look-ups."""


def failing_schedule(seed: int, kind: str) -> Schedule:
    """Return what a seed stands for where searches fail; look-ups are quick, so that a bound in time says something."""
    schedule = schedule_of(seed)
    # Several pages in a row, read several times, are hardly ever answered where most searches fail.
    lies = HONEST if kind == "more_than_half" else schedule.variant.lies
    failing = replace(schedule.variant, look_takes=0.0, lies=lies, **FAILING[kind])  # type: ignore[arg-type]
    return Schedule(failing, schedule.actions)
