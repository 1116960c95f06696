"""Schedules in which some files keep their own metadata, whatever is sent with them, as PDFs do.

Such a file ends verified, and what the service did not keep is listed as drift; of the others nothing is.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from assetsync.ledger.metadata_drift import drift_of
from assetsync.model import State

from .sim_checks import Violation
from .sim_schedule import Schedule
from .sim_sidecars import sidecar_schedule

if TYPE_CHECKING:
    from .simulation import Simulation

_LETTERS = "x"
_WORDS = "does not hold the metadata that was sent"


def own_schedule(seed: int) -> Schedule:
    """Return the schedule of a seed in which sidecars change, over a service in which some files keep their own."""
    variant, actions = sidecar_schedule(seed)
    # Under another name a file would not be known for one that keeps its own.
    return Schedule(replace(variant, keeps_own=_LETTERS, renames=False), actions)


def judge_own(simulation: "Simulation") -> None:
    """I14: what the service does not hold of what was sent is listed as drift of a verified file, and nothing else."""
    if not simulation.variant.keeps_own:
        return
    ledger = simulation.site.context.ledger
    for row in ledger.reports.files():
        asset = simulation.service.assets.get(row.assetid or "")
        if row.state is not State.VERIFIED or row.wanted != "yes" or asset is None or asset.post is None:
            continue
        attempts = ledger.doubts.attempts(row.id, 100)
        made_by = next((attempt for attempt in attempts if attempt.boundary == asset.post), None)
        if row.id_from != "answer" or made_by is None or made_by.ended_at != row.uploaded_at:
            # It was found by a look-up: nothing is known of what was sent with it.
            continue
        expected = simulation.service.keeps_own(asset) and bool(asset.said)
        listed = _WORDS in (drift_of(row) or "")
        if made_by.result == "accepted" and listed != expected:
            raise Violation(
                f"I14: {row.path!r} is {asset.id}, which was told {asset.said}; listed is {drift_of(row)!r}"
            )
