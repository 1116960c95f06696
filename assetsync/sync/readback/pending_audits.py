"""Keep track of audits that were requested and are still to be made.

The ledger stores the request. If a restart, an outage or a full disk cuts an audit short, the daemon or the next run
makes it again. The audit itself is left to `sync.readback.auditor`.
"""

from collections.abc import Collection

from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock

_ASKED = "audit_asked"
_FROM = "audit_from"
"""Key of the time, in seconds since the epoch, from which the wait for the first audit counts."""


def ask_for_audit(ledger: Ledger, now: float) -> None:
    """Request an audit of every mapped folder without an audit since `now`, in seconds since the epoch."""
    ledger.set_fact(_ASKED, repr(now))


class PendingAudits:
    """Audits still to be made of the given folders of the service."""

    def __init__(self, ledger: Ledger, clock: Clock, folders: Collection[str]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._folders = sorted({*folders})

    def ask(self) -> None:
        """Request an audit of each folder."""
        ask_for_audit(self._ledger, self._clock.now())

    def asked_at(self) -> float:
        """Return the time of the last request, or the time from which the first audit counts, in epoch seconds."""
        facts = self._ledger.reports.fact
        since = facts(_ASKED) or facts(_FROM)
        if since is None:
            since = repr(self._clock.now())
            self._ledger.set_fact(_FROM, since)
        return float(since)

    def folders(self) -> list[str]:
        """Return the folders without an audit since the last request; none if there was no request."""
        said = self._ledger.reports.fact(_ASKED)
        if said is None:
            return []
        asked, now = float(said), self._clock.now()
        audited = {folder: self._ledger.audits.last_at(folder) for folder in self._folders}
        if asked > now:
            # The clock was set back after the request: audits that were made by the old clock still count.
            if all(at is not None and at >= asked for at in audited.values()):
                return []
            # Move the request to now: otherwise each audit would be made again until the clock reaches the old time.
            asked = now
            ask_for_audit(self._ledger, asked)
        # An audit in the future comes from a clock that has since been set back, and was long ago.
        return [folder for folder, at in audited.items() if at is None or not asked <= at <= now]
