"""Count what keeps a site from being in sync, by the same rule for a run, a dry run and the status commands.

The counts are read by others: `standing` and `reconcile.report`.
"""

from typing import NamedTuple

from assetsync.ledger.reports import Counts
from assetsync.ledger.runs import Unsettled
from assetsync.model import State


class OutOfSync(NamedTuple):
    """Counts of files, brakes and folders that keep a site from being in sync.

    `pending` files need no operator: they are queued, in flight, stored but not verified yet, or not settled yet.
    `coming` files were found by a dry run and are not in the ledger. `complete` means that the scan found all mapped
    folders and read everything. `undecided` counts folders of the service whose last audit missed so many assets that
    it pulled a brake and concluded nothing; the next audit concludes it.
    """

    pending: int
    in_doubt: int
    blocked: int
    braked: int
    complete: bool
    coming: int = 0
    undecided: int = 0

    @property
    def in_sync(self) -> bool:
        """Whether the scan was complete and every count is 0: all files are verified, and nothing needs an operator."""
        files = self.pending + self.coming + self.in_doubt + self.blocked
        return self.complete and not (files or self.braked or self.undecided)


def what_is_out_of_sync(
    counts: Counts, unsettled: Unsettled, *, braked: int, complete: bool, coming: int = 0, undecided: int = 0
) -> OutOfSync:
    """Return the counts; `complete` is the last scan's, and False while more files are settling than can be counted."""
    return OutOfSync(
        pending=counts.of(State.QUEUED, State.SENDING, State.STORED) + unsettled.count,
        # Includes doubts about versions that the tree no longer has.
        in_doubt=counts.of(State.IN_DOUBT) + counts.unresolved_history,
        blocked=counts.of(State.BLOCKED),
        braked=braked,
        complete=complete and not unsettled.overflowed,
        coming=coming,
        undecided=undecided,
    )
