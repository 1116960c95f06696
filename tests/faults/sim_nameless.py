"""Schedules of a service that gives no MD5, and names that do not tell whose an asset is.

Names come back with `?` for what is not in ISO-8859-1, or a workflow renames each upload. Most files are of one size.
Answers are lost, uploads are stored late or not at all, and where names come back the ledger is lost now and then.
"""

import random
from dataclasses import replace

from .sim_lies import lies_of
from .sim_schedule import Action, Schedule, variant_of
from .sim_values import LATEST

_ALIKE = ("a/日.txt", "a/月.txt")
_RENAMED = ("a/x.txt", "a/y.txt", "c/x.txt")
_OF_ONE_SIZE = ((0, 1), (4, 5), (0, 1, 4))
_LATE = (0.0, 1.0, 5.0, 12.0, LATEST)
_KINDS = (
    "lost_before",
    "lost_before",
    "lost_after",
    "lost_after",
    "gateway_after",
    "page_before",
    "half_answer",
    "accept",
)


def nameless_schedule(seed: int) -> Schedule:
    """Give what a seed stands for."""
    rng = random.Random(f"nameless {seed}")
    renames = rng.random() < 0.5
    variant = replace(
        variant_of(rng),
        settle=0,
        sidecar_wait=0,
        one_shot=False,
        persons=False,
        gives_md5=False,
        reads_latin=False,
        renames=renames,
        refuses_copies=False,
        processing=rng.choice((0.0, 0.0, 0.5, 4.0, 40.0)),
        lies=lies_of(seed),
    )
    paths, contents = _RENAMED if renames else _ALIKE, rng.choice(_OF_ONE_SIZE)
    actions = [Action("file", ("write", path, rng.choice(contents))) for path in paths]
    if rng.random() < 0.5:
        # Else the first upload of all may be one whose answer is lost.
        actions.insert(0, Action("file", ("write", "b/y.txt", 6)))
        actions += [Action("scan", (1_000_000,)), Action("send", (1000,)), Action("live", (70,))]
    actions.append(Action("scan", (1_000_000,)))
    for _ in range(rng.choice((3, 5, 8))):
        for _ in range(rng.choice((1, 2))):
            actions.append(Action("plan", (rng.choice(_KINDS), rng.choice((1, 20, 50)), rng.choice(_LATE), False)))
        actions.append(Action("send", (rng.choice((0, 1, 2, 5, 1000)),)))
        for _ in range(rng.choice((1, 2, 4))):
            actions += _meanwhile(rng, paths, contents, loses_ledger=not renames)
    return Schedule(variant, tuple(actions))


def _meanwhile(
    rng: random.Random, paths: tuple[str, ...], contents: tuple[int, ...], *, loses_ledger: bool
) -> list[Action]:
    kinds = ("live", "send", "go", "crash", "edit", "read_back", "settle_doubt", "lose_ledger")
    match rng.choices(kinds, (45, 15, 15, 5, 15, 5, 3, 3 * loses_ledger))[0]:
        case "live":
            return [Action("live", (rng.choice((1, 3, 6, 16, 30)),))]
        case "go":
            return [Action("go", (rng.randrange(4), rng.choice((1, 3, 1000))))]
        case "crash":
            return [Action("crash", (rng.randrange(8), rng.random() < 0.3))]
        case "edit":
            return [Action("file", ("write", rng.choice(paths), rng.choice(contents))), Action("hint")]
        case "settle_doubt":
            return [Action("settle_doubt", (rng.choice(paths),))]
        case "lose_ledger":
            return [Action("lose_ledger"), Action("scan", (1_000_000,))]
        case other:
            return [Action(other, (1000,))]
