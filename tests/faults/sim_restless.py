"""Schedules in which one long file is written anew during each of its uploads, between all else.

Each upload that a change cuts off leaves a damaged asset for ever. Whatever happens beside it and wherever the program
dies, there are few of them: three, one more with each hour, and one with each death that came before the cut was
written down.
"""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, schedule_of
from .sim_values import Post

if TYPE_CHECKING:
    from .simulation import Simulation

PATH = "c/recording.mov"
_CONTENT = b"recorded " * 8
_MOST_CUTS = 3
_HOUR = 3600.0
_SHARE = 0.3


class Recording:
    """The file and whoever writes it; `cuts` are the true times at which an upload of it was given up."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._versions = 0
        self.goes_on = False
        self.cuts: list[float] = []

    def write(self) -> None:
        """Write the file anew, longer than what is read whole before it is sent."""
        self._versions += 1
        self._simulation.files.write(PATH, _CONTENT + b"." * self._versions)
        self._simulation.watch_queue.add(PATH.encode())

    def arrived(self, post: Post) -> None:
        """Write the file while it is sent."""
        if self.goes_on and post.name == PATH[2:]:
            self.write()

    def given_up(self, post: Post) -> None:
        """Count an upload that the program gave up."""
        if post.name == PATH[2:]:
            self.cuts.append(self._simulation.clock.true)


def restless_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed, with a recording beside it that does not rest."""
    rng = random.Random(f"restless {seed}")
    variant, general = schedule_of(seed)
    variant = replace(variant, limit=0, refuses_copies=False, settle=rng.choice((0, 1, 5)))
    actions: list[Action] = [Action("record")]
    for action in general:
        # To a clock that is set forward an hour has passed.
        actions.append(action if action.name != "jump" else Action("wait", (30.0,)))
        if rng.random() < _SHARE:
            actions.append(Action("live", (rng.choice((3, 12, 25)),)))
        if rng.random() < _SHARE / 4:
            actions.append(Action("record"))
    return Schedule(variant, tuple(actions))


def judge_restless(simulation: "Simulation") -> None:
    """I11: few uploads of a file were cut off by its changes."""
    cuts = simulation.recording.cuts
    most = _MOST_CUTS + simulation.deaths + (int(cuts[-1] // _HOUR) if cuts else 0)
    if len(cuts) > most:
        raise Violation(f"I11: {len(cuts)} uploads of {PATH} were cut off by its changes, {most} are the most")
