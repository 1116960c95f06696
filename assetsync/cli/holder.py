"""Find out whether a process sends for a ledger, also for users who may read the ledger but not its lock file.

Taking the lock is left to `ledger.database`.
"""

from pathlib import Path
from typing import NamedTuple

from assetsync.errors import LedgerError
from assetsync.ledger.database import is_held


class Holder(NamedTuple):
    """Whether a process sends for the ledger; `unseen` is the reason why `sends` is a guess, None if it is known."""

    sends: bool
    unseen: str | None = None


def holder_of(ledger: Path) -> Holder:
    """Return whether a process sends for the ledger at this real path; raise nothing."""
    try:
        return Holder(is_held(ledger))
    except LedgerError as error:
        # A process that writes to the ledger keeps a `-wal` file beside it, and removes it at a clean exit.
        return Holder(ledger.with_name(f"{ledger.name}-wal").exists(), str(error))
