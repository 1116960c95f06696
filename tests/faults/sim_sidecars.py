"""What is said of the files: schedules in which sidecars come, change, go and are spoilt, of files and of folders, and
what must hold of them in the end.

What the service was told of an asset is read off the request that made it. What the tree says is put together here, by
the rule of the interface's users: the folder's sidecar first, the file's own over it, key by key.
"""

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from assetsync.model import State

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, interspersed, schedule_of
from .sim_tree import FOLDERS, PATHS, held_of

if TYPE_CHECKING:
    from .simulation import Simulation

_KINDS = (0, 0, 1, 2, 3, 3, 4, 4, 5, 6, 7)
_SHARE = 0.3


def sidecar_schedule(seed: int, *, kinds: Sequence[int] = _KINDS) -> Schedule:
    """Give the general schedule of a seed, with changes of sidecars, of these kinds, between its actions."""
    rng = random.Random(f"told {seed}")
    variant, general = schedule_of(seed)
    touched = sorted({action.values[1] for action in general if action.name == "file"}) or list(PATHS)
    return Schedule(variant, tuple(interspersed(general, rng, _SHARE, lambda: _change(rng, touched, kinds))))


def _change(rng: random.Random, touched: list[str], kinds: Sequence[int]) -> Iterable[Action]:
    path = rng.choice(touched) if rng.random() < 0.7 else f"{rng.choice(sorted(FOLDERS))}/_folder"
    yield Action("file", ("sidecar", path, rng.choice(kinds)))
    if rng.random() < 0.5:
        yield Action("hint")


def judge_sidecars(simulation: "Simulation") -> None:
    """I9: what the service was told of a file is what the tree says of it, or else, and only then, that is listed."""
    for row in simulation.site.context.ledger.reports.files():
        path = row.path.decode()
        asset = simulation.service.assets.get(row.assetid or "")
        if row.state is not State.VERIFIED or row.wanted != "yes" or asset is None or asset.post is None:
            continue
        attempts = simulation.site.context.ledger.doubts.attempts(row.id, 100)
        made_by = next((attempt for attempt in attempts if attempt.boundary == asset.post), None)
        if row.uploaded_at is None or made_by is None or made_by.result in ("sent_again", "absent"):
            # It was there before, or is of another file or of an upload that a person ended: nobody knows what it was
            # told on this one's behalf. Nor where its upload is held not to have arrived: of two of equal content in
            # doubt, whose names the service gives back alike, the other had its asset.
            continue
        said = simulation.files.said_of(path)
        drifts = "metadata" in (row.drift or "")
        differs = said is None or held_of(said) != asset.said
        # A change of what is left out is drift, too: the service may hold it one day.
        is_listed = drifts or not differs if simulation.variant.refuses else drifts == differs
        if not is_listed:
            raise Violation(
                f"I9: of {path} the tree says {said}, {asset.id} was told {asset.said}, and the drift is {row.drift!r}"
            )
