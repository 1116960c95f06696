"""Schedules of two files whose names the service gives back alike, and whose contents begin alike.

Nothing but cuts and lost answers, stored at once or late, and the restarts, edits and look-ups between them: by the
general schedules such files meet each other in doubt once in thousands.
"""

import random
from dataclasses import replace

from .sim_lies import lies_of
from .sim_schedule import Action, Schedule, variant_of
from .sim_values import LATEST

_PATHS = ("a/日.txt", "a/月.txt")
# Of `sim_tree`'s contents those of which one begins as the other.
_BEGIN_ALIKE = ((0, 2), (2, 0), (4, 6))
_LATE = (0.0, 1.0, 5.0, 12.0, LATEST, LATEST)


def similar_schedule(seed: int) -> Schedule:
    """Give what a seed stands for."""
    rng = random.Random(f"alike {seed}")
    variant = replace(
        variant_of(rng),
        settle=0,
        sidecar_wait=0,
        one_shot=False,
        persons=False,
        gives_md5=True,
        refuses_copies=False,
        pages=False,
        processing=rng.choice((0.0, 0.0, 0.5, 4.0, 9.0)),
        lies=lies_of(seed),
    )
    contents = rng.choice(_BEGIN_ALIKE)
    actions = [Action("file", ("write", path, content)) for path, content in zip(_PATHS, contents, strict=True)]
    if rng.random() < 0.3:
        actions.append(Action("file", ("write", "b/y.txt", 0)))
    actions.append(Action("scan", (1_000_000,)))
    for _ in range(rng.choice((3, 5, 8))):
        for _ in range(rng.choice((1, 2))):
            kind = rng.choice(("cut", "cut", "lost_after", "lost_after", "lost_before"))
            actions.append(Action("plan", (kind, rng.choice((1, 2, 5)), rng.choice(_LATE), rng.random() < 0.5)))
        actions.append(Action("send", (rng.choice((0, 1, 2, 5, 1000)),)))
        actions += [action for _ in range(rng.choice((1, 2, 4))) for action in _meanwhile(rng, contents)]
    return Schedule(variant, tuple(actions))


def _meanwhile(rng: random.Random, contents: tuple[int, int]) -> list[Action]:
    match rng.choices(("live", "send", "go", "crash", "edit", "read_back"), (45, 15, 15, 5, 15, 5))[0]:
        case "live":
            return [Action("live", (rng.choice((1, 2, 3, 6, 12, 16)),))]
        case "go":
            return [Action("go", (rng.randrange(4), rng.choice((1, 3, 1000))))]
        case "crash":
            return [Action("crash", (rng.randrange(8), rng.random() < 0.3))]
        case "edit":
            return [Action("file", ("write", rng.choice(_PATHS), rng.choice(contents))), Action("hint")]
        case other:
            return [Action(other, (1000,))]
