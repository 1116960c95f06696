"""Schedules with XMP files, also of pairs of files of one stem, that come, change, go and are spoilt.

What must hold in the end is judged by `sim_sidecars`: the levels of the metadata are put together by `sim_tree`.
"""

import random
from collections.abc import Iterable
from dataclasses import replace

from .sim_schedule import Action, Schedule, interspersed, schedule_of
from .sim_tree import CONTENTS, PATHS

_SHARE = 0.4
_PERSONS = 0.02
_KINDS = (0, 0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7)
_ENDINGS = (".txt", ".doc")


def xmp_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed, with changes of XMP files and of pairs between its actions."""
    rng = random.Random(f"xmp {seed}")
    variant, general = schedule_of(seed)
    touched = sorted({action.values[1] for action in general if action.name == "file"}) or list(PATHS)
    return Schedule(variant, tuple(interspersed(general, rng, _SHARE, lambda: _change(rng, touched))))


def required_schedule(seed: int) -> Schedule:
    """Return such a schedule in which two of three mappings require sidecars, and persons send some files without."""
    rng = random.Random(f"required {seed}")
    variant, described = xmp_schedule(seed)
    actions = interspersed(described, rng, _PERSONS, lambda: [Action("without_sidecar", (rng.choice(PATHS),))])
    return Schedule(replace(variant, requires_sidecars=True), tuple(actions))


def _change(rng: random.Random, touched: list[str]) -> Iterable[Action]:
    path = rng.choice(touched)
    stem = path.rpartition(".")[0]
    draw = rng.random()
    if draw < 0.2:
        # The other file of the pair.
        yield Action("file", ("write", stem + _ENDINGS[1], rng.randrange(len(CONTENTS))))
    elif draw < 0.35:
        yield Action("file", ("sidecar", path, rng.choice((0, 3, 4, 4))))
    else:
        yield Action("file", ("xmp", path if draw < 0.6 else stem, rng.choice(_KINDS)))
    if rng.random() < 0.5:
        yield Action("hint")
