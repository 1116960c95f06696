"""Whether a process sends for a ledger, told to whoever may look at the ledger and perhaps not at its lock.

Taking the lock is `ledger.database`'s.
"""

from pathlib import Path
from typing import NamedTuple

from assetsync.errors import LedgerError
from assetsync.ledger.database import is_held


class Holder(NamedTuple):
    """Whether a process sends for it; `unseen` says why that is a guess, None where it is known."""

    sends: bool
    unseen: str | None = None


def holder_of(ledger: Path) -> Holder:
    """Look whether a process sends for the ledger at this real path; raises nothing."""
    try:
        return Holder(is_held(ledger))
    except LedgerError as error:
        # Whoever writes to it keeps a log beside it, and takes it away at a proper end.
        return Holder(ledger.with_name(f"{ledger.name}-wal").exists(), str(error))
