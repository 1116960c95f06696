"""The audits that are owed: asked for, and not made yet of each mapped folder.

Which are is a fact in the ledger: one that a restart, an outage or a full disk cut short is taken up again, by the
daemon or by the next run.
"""

from collections.abc import Collection

from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock

_ASKED = "audit_asked"
_FROM = "audit_from"
"""The fact that holds when the ledger's first start was, from which the first audit is counted."""


def ask_for_audit(ledger: Ledger, now: float) -> None:
    """Let each mapped folder be audited that was not since `now`, in seconds since the epoch."""
    ledger.set_fact(_ASKED, repr(now))


class PendingAudits:
    """What is owed of these folders of the service."""

    def __init__(self, ledger: Ledger, clock: Clock, folders: Collection[str]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._folders = sorted({*folders})

    def ask(self) -> None:
        """Let each folder be audited."""
        ask_for_audit(self._ledger, self._clock.now())

    def asked_at(self) -> float:
        """Give when audits were last asked for, or from when the first is counted, in seconds since the epoch."""
        facts = self._ledger.reports.fact
        since = facts(_ASKED) or facts(_FROM)
        if since is None:
            since = repr(self._clock.now())
            self._ledger.set_fact(_FROM, since)
        return float(since)

    def folders(self) -> list[str]:
        """Give the folders that are to be audited since it was last asked for."""
        said = self._ledger.reports.fact(_ASKED)
        if said is None:
            return []
        asked, now = float(said), self._clock.now()
        audited = {folder: self._ledger.audits.last_at(folder) for folder in self._folders}
        if asked > now:
            # Asked for by a clock that has since been set back: what was audited then, too, is done.
            if all(at is not None and at >= asked for at in audited.values()):
                return []
            # An audit that is made now would be made again, until the clock is there.
            asked = now
            ask_for_audit(self._ledger, asked)
        # Audited after now is by such a clock as well, and long ago.
        return [folder for folder, at in audited.items() if at is None or not asked <= at <= now]
