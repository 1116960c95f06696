"""Runs a schedule from its first action to its judgement, and makes a failing one as small as it can be."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .sim_actions import Actions
from .sim_checks import Violation
from .sim_end import judge, quiet
from .sim_schedule import Action, Schedule, schedule_of
from .sim_unsteady import unsteady_tree
from .simulation import Simulation, heard, simulated_bodies, simulated_listings

_MEMORY = Path("/dev/shm")


def in_memory() -> str | None:
    """Give a folder that lies in memory, None where there is none."""
    return str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None


def run(schedule: Schedule) -> list[str]:
    """Run a schedule and give its trace; raises Violation, with the trace as a note."""
    with (
        tempfile.TemporaryDirectory(prefix="assetsync-sim-", dir=in_memory()) as folder,
        simulated_bodies(),
        simulated_listings(),
        unsteady_tree(schedule.variant.unsteady, repr(schedule.variant)) as unsteady,
    ):
        simulation = Simulation(Path(folder) / "site", schedule.variant)
        try:
            with heard(simulation):
                actions = Actions(simulation)
                for action in schedule.actions:
                    actions.do(action)
                unsteady.mend()
                quiet(simulation)
                judge(simulation)
        except Violation as error:
            error.trace = simulation.trace  # type: ignore[attr-defined]
            raise
        finally:
            simulation.close()
        return simulation.trace


def failure(schedule: Schedule) -> Violation | None:
    """Run a schedule and give what it violates, if anything."""
    try:
        run(schedule)
    except Violation as error:
        return error
    return None


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Leave out as many actions as can go without the failure going too."""
    actions: Sequence[Action] = schedule.actions
    size = len(actions) // 2
    while size:
        at = 0
        while at < len(actions):
            fewer = (*actions[:at], *actions[at + size :])
            if fails(Schedule(schedule.variant, fewer)):
                actions = fewer
            else:
                at += size
        size //= 2
    return Schedule(schedule.variant, tuple(actions))


def explain(seed: int, *, length: int = 70) -> str:
    """Give the smallest schedule in which a seed still fails, and its trace; for the message of a failing test."""
    return explained(seed, schedule_of(seed, length=length))


def explained(seed: int, schedule: Schedule) -> str:
    """Give the smallest part of a seed's schedule that still fails, and its trace."""
    first = failure(schedule)
    if first is None:
        return f"seed {seed} does not fail again"
    word = str(first)[:2]
    least = shrink(schedule, lambda tried: str(failure(tried) or "")[:2] == word)
    last = failure(least)
    lines = [
        f"seed {seed}: {last}",
        f"{least.variant}",
        f"{least.variant.lies}",
        *(f"    {action}" for action in least.actions),
    ]
    return "\n".join([*lines, "trace:", *getattr(last, "trace", [])])
