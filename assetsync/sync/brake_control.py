"""Pull brakes, apply a person's release of a brake, and lift brakes whose reason is gone.

Which change is too large is left to `sync.brakes` and to the other callers.
"""

from collections.abc import Collection

import structlog

from assetsync.core.brakes import released_by
from assetsync.core.names import printable
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Brake
from assetsync.model import Clock, Mapping

log = structlog.get_logger(__name__)

_ALLOWED_FOR = 7 * 24 * 3600.0


def subject_of(mapping: Mapping) -> str:
    """Return the subject of a brake for a mapping: its path and its destination."""
    return f"{printable(mapping.path) or '.'} → {mapping.destfolderid}"


class BrakeControl:
    """Pulls and lifts the brakes of a ledger."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def allowed(self, kind: str, subject: str, amount: int) -> bool:
        """Return whether, within a week, a person released such a brake on the subject for this amount or more."""
        allowed = self._ledger.resumed_amount(kind, subject, self._clock.now() - _ALLOWED_FOR)
        return allowed is not None and amount <= allowed

    def withdraw(self, kind: str, subject: str) -> None:
        """Revoke a person's release of such a brake on the subject."""
        since = self._clock.now() - _ALLOWED_FOR
        if self._ledger.resumed_amount(kind, subject, since):
            self._ledger.withdraw(kind, subject, since)

    def withdraw_others(self, kind: str, subjects: Collection[str]) -> None:
        """Revoke a person's releases of this kind on all subjects but these."""
        self._ledger.withdraw_others(kind, subjects)

    def pull(self, kind: str, subject: str, detail: str, amount: int) -> None:
        """Stop uploads until a person has looked; a brake that is already pulled is left unchanged."""
        if self._ledger.pull_brake(kind, subject, detail, amount, self._clock.now()):
            fix = f"look; {released_by(kind)}: `assetsync resume`"
            log.error("brake pulled", kind=kind, subject=subject, detail=detail, fix=fix)

    def lift(self, brake: Brake, why: str) -> None:
        """Release a brake whose reason is gone; this does not count as a person's release."""
        self._ledger.lift_brake(brake.id, self._clock.now())
        log.warning("brake released", why=why, detail=brake.detail)
