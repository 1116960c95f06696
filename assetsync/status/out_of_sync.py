"""What is left until a site is in sync: the one rule, for a run, a dry run, and whoever looks at the ledger."""

from typing import NamedTuple

from assetsync.ledger.reports import Counts
from assetsync.ledger.runs import Unsettled
from assetsync.model import State


class OutOfSync(NamedTuple):
    """Counts of files, and of brakes, that keep a site from being in sync.

    `pending` goes on by itself: queued, on its way, stored and not verified yet, or not at rest yet; `coming` is what a
    dry run found and the ledger does not know. `complete` says that all mapped folders were there and all was read.
    `undecided` counts folders of the service that were found to miss much, of which an audit is still to conclude it.
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
        """Whether a complete scan found nothing that is not verified, and nothing waits for a person."""
        files = self.pending + self.coming + self.in_doubt + self.blocked
        return self.complete and not (files or self.braked or self.undecided)


def what_is_out_of_sync(
    counts: Counts, unsettled: Unsettled, *, braked: int, complete: bool, coming: int = 0, undecided: int = 0
) -> OutOfSync:
    """Sum it up; `complete` is the last scan's, and does not hold while more files settle than could be counted."""
    return OutOfSync(
        pending=counts.of(State.QUEUED, State.SENDING, State.STORED) + unsettled.count,
        # Those of versions that the tree no longer has included.
        in_doubt=counts.of(State.IN_DOUBT) + counts.unresolved_history,
        blocked=counts.of(State.BLOCKED),
        braked=braked,
        complete=complete and not unsettled.overflowed,
        coming=coming,
        undecided=undecided,
    )
