"""Schedules in which the ledger is lost, put back from a copy made some time ago, or rolled back with its disk.

What was sent since is found in the service, and nothing is sent twice. Nobody puts a ledger back while an upload may
still come to light: the copy's ledger knows nothing of it, and no look-up can tell.
"""

import random
from dataclasses import replace

from .sim_lies import HONEST
from .sim_schedule import Action, Schedule, schedule_of
from .sim_tree import CONTENTS, FOLDERS, PATHS
from .sim_values import Lies

_SHARE = 0.05
_ASKED_AGAIN = 0.15
_PUTS_BACK = {"back_up": "put_back", "take_snapshot": "roll_back"}


def restored_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with copies of the ledger made and put back between its actions."""
    return _between("restored", seed, "back_up", ("back_up", "put_back", "put_back", "lose_ledger"))


def rolled_back_schedule(seed: int) -> Schedule:
    """Give the general schedule of a seed, with the ledger's whole disk kept and rolled back between its actions."""
    return _between("rolled back", seed, "take_snapshot", ("take_snapshot", "roll_back", "roll_back"))


def _between(kind: str, seed: int, first: str, names: tuple[str, ...]) -> Schedule:
    rng = random.Random(f"{kind} {seed}")
    variant, general = schedule_of(seed)
    # Without digests, and where copies are refused, what an unknown upload left is a person's matter.
    variant = replace(variant, gives_md5=True, refuses_copies=False, persons=False)
    actions: list[Action] = [Action(first)]
    blinding = random.Random(f"blinding of {seed}")
    for action in general:
        actions.append(action)
        if rng.random() < _SHARE:
            actions.append(Action(rng.choice(names)))
            if variant.lies.blinds and actions[-1].name != first:
                actions += _blinded(blinding, actions[-1].name)
    if random.Random(f"asked again in {seed}").random() < _ASKED_AGAIN:
        actions += _asked_again(blinding, first)
    if variant.lies != HONEST:
        actions += _forgotten(blinding, variant.lies, first, names)
    return Schedule(variant, tuple(actions))


def _forgotten(rng: random.Random, lies: Lies, keeps: str, names: tuple[str, ...]) -> list[Action]:
    """Let the ledger forget uploads of many files, so that what a listing leaves out shows."""
    restores = rng.choice([name for name in names if name != keeps])
    paths = [path for path in PATHS if FOLDERS[path[0]] == "F1"]
    contents = rng.sample([number for number, content in enumerate(CONTENTS) if content], len(paths))
    return [
        Action("retry"),
        Action("live", (25,)),
        Action(keeps),
        *(Action("file", ("write", path, content)) for path, content in zip(paths, contents, strict=True)),
        Action("scan", (1_000_000,)),
        Action("live", (25,)),
        Action("wait", (60.0,)),
        Action(restores),
        *(_blinded(rng, restores) if lies.blinds else ()),
        Action("scan", (1_000_000,)),
        Action("live", (25,)),
    ]


def _asked_again(rng: random.Random, keeps: str) -> list[Action]:
    """Let a person have a file sent again, and keep the ledger at any point of that: what it then holds is done."""
    path = rng.choice([path for path in PATHS if path.isascii()])
    return [
        Action("retry"),
        Action("file", ("write", path, rng.choice((0, 1, 2, 4, 5, 6)))),
        Action("scan", (1_000_000,)),
        Action("live", (25,)),
        *([Action(keeps)] if rng.random() < 0.2 else []),
        Action("send_again", (path,)),
        *([Action("send", (rng.choice((1, 2, 3, 4, 5, 1_000)),))] if rng.random() < 0.7 else []),
        Action(keeps),
        Action("go", (0, 1_000)),
        Action("live", (rng.choice((3, 25)),)),
        Action(_PUTS_BACK[keeps]),
        Action("scan", (1_000_000,)),
        Action("live", (25,)),
    ]


def _blinded(rng: random.Random, restored: str) -> list[Action]:
    """Let a folder that a new ledger does not know show nothing while files are sent, else another folder's rows."""
    folder, shows = rng.choice(sorted(set(FOLDERS.values()))), "nothing" if restored == "lose_ledger" else "others"
    return [
        Action("blind", (folder, shows)),
        Action("scan", (1_000_000,)),
        Action("live", (rng.choice((1, 12, 25)),)),
        Action("blind", (folder, "")),
    ]
