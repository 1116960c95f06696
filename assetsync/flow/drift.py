"""Metadata drift: what a sidecar says now and the service, which cannot update an asset, does not.

Looks only at files beside which something changed since they were sent. It is reported, never acted on.
"""

from assetsync.errors import RootMissing, SidecarError
from assetsync.flow.edges import Edges
from assetsync.flow.plan import Plan
from assetsync.flow.told import Sidecars

_CHANGED = "its metadata changed after the upload: set it in the service by hand"


class Drift:
    """Compares what would be sent with what was."""

    def __init__(self, edges: Edges, plan: Plan, sidecars: Sidecars) -> None:
        self._ledger = edges.ledger
        self._tick = edges.tick
        self._plan = plan
        self._sidecars = sidecars

    def step(self) -> int:
        """Look at some of the files in question; gives how many.

        Without a root none can be looked at: all wait for the scan that finds it again.
        """
        as_of = self._sidecars.changes
        rows = self._ledger.intake.unread()
        found: list[tuple[str | None, int, bytes]] = []
        for row in rows:
            mapping = self._plan.covers(row.path)
            drift = None
            # What was adopted was not sent by us: nothing is known of its metadata.
            if mapping is not None and row.meta_digest is not None:
                try:
                    told = self._sidecars.told(row.path, self._plan.mappings.all[mapping])
                    drift = None if told.digest == row.meta_digest else _CHANGED
                except SidecarError as error:
                    drift = f"its metadata cannot be read any more: {error}"
                except RootMissing:
                    return 0
            found.append((drift, row.id, row.path))
            if self._tick():
                break
        if found:
            # What changed while it was read is recorded behind our back: then it is read once more.
            self._ledger.intake.read(found, still=lambda: self._sidecars.changes == as_of)
        return len(rows)
