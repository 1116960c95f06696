"""Schedules in which files have long names, and metadata with a custom field that the service does not have.

The service never processes what is sent with such a field, or under a name of more than 200 characters. In the middle
of each schedule the release that cut names to 240 characters is replaced.
"""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from assetsync.core.names import LONGEST_NAME
from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.ledger.rows import NEW_FIELD
from assetsync.model import State

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, schedule_of
from .sim_tree import LACKING, PLAIN
from .sim_values import Post

if TYPE_CHECKING:
    from .simulation import Simulation

_PATIENCE = 900
_SHARE = 0.35
_KINDS = (0, 4, 4, 13, 13, 13, 14)
_LONG = tuple(f"{folder}/{'n' * 230}{number}.txt" for folder, number in (("a", 1), ("a", 2), ("c", 1)))
"""Paths whose names are equal once they are cut."""

_MOST_STUCK = 3
"""Assets with the field that stay unprocessed while another file tries: two, and one whose file was away meanwhile."""


def fields_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed, with long names, custom fields, and an upgrade in its middle."""
    rng = random.Random(f"fields {seed}")
    variant, general = schedule_of(seed)
    # Only the MD5 tells two files apart whose names are cut alike.
    variant = replace(
        variant, lacks=LACKING, unprocessed_after=_PATIENCE, gives_md5=True, refuses_copies=False, persons=False
    )
    actions: list[Action] = []
    for number, action in enumerate(general):
        actions.append(action)
        if number == len(general) // 2:
            actions.append(Action("upgrade"))
        if rng.random() < _SHARE:
            path = rng.choice(_LONG if rng.random() < 0.3 else PLAIN)
            actions.append(Action("file", ("write", path, rng.randrange(7))))
            actions.append(Action("file", ("sidecar", path, rng.choice(_KINDS))))
        if rng.random() < _SHARE / 3:
            actions += [Action("live", (rng.choice((1, 12, 25)),)), Action("wait", (600.0,))]
    return Schedule(variant, tuple(actions))


def is_new_field(simulation: "Simulation", row) -> bool:
    """Return whether a row waits, as it should, because of a field that the service does not have."""
    if not simulation.variant.lacks or row.reason != NEW_FIELD or row.state is not State.QUEUED:
        return False
    return LACKING in (simulation.files.said_of(row.path.decode()) or {})


def expect_few_tries(simulation: "Simulation", post: Post) -> None:
    """I17: few files are sent with a field that the service lacks, and none under a longer name than it keeps."""
    if not simulation.variant.lacks:
        return
    if simulation.is_upgraded and len(post.name) > LONGEST_NAME:
        raise Violation(f"I17: {len(post.name)} characters are sent as a name")
    if LACKING not in post.said:
        return
    stuck = {asset.id for asset in simulation.service.stuck() if LACKING in asset.said}
    rows = simulation.site.context.ledger.reports.files()
    known = [
        row
        for row in rows
        if row.assetid in stuck
        and (row.state is State.STORED or (row.state is State.BLOCKED and row.reason == NEVER_PROCESSED))
    ]
    if len(known) > _MOST_STUCK:
        raise Violation(f"I17: {post.name} is sent with a field with which {len(known)} others are not processed")
