"""How a brake is pulled, what a person's release of it allows, and how one is lifted that has lost its reason."""

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
    """Name what a brake for a mapping is about: where it is and where it points."""
    return f"{printable(mapping.path) or '.'} → {mapping.destfolderid}"


class BrakeControl:
    """Pulls and lifts; which change is too large is for `sync.brakes` to say, and for whoever else holds one."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def allowed(self, kind: str, subject: str, amount: int) -> bool:
        """Whether a person has released, within a week, a brake of this kind on the subject, of so much or more."""
        allowed = self._ledger.resumed_amount(kind, subject, self._clock.now() - _ALLOWED_FOR)
        return allowed is not None and amount <= allowed

    def withdraw(self, kind: str, subject: str) -> None:
        """Let a person's word count no longer."""
        since = self._clock.now() - _ALLOWED_FOR
        if self._ledger.resumed_amount(kind, subject, since):
            self._ledger.withdraw(kind, subject, since)

    def withdraw_others(self, kind: str, subjects: Collection[str]) -> None:
        """Let a person's word on any other subject of this kind than these count no longer."""
        self._ledger.withdraw_others(kind, subjects)

    def pull(self, kind: str, subject: str, detail: str, amount: int) -> None:
        """Stop the sending until a person has looked; one that is pulled already stays as it is."""
        if self._ledger.pull_brake(kind, subject, detail, amount, self._clock.now()):
            fix = f"look; {released_by(kind)}: `assetsync resume`"
            log.error("brake pulled", kind=kind, subject=subject, detail=detail, fix=fix)

    def lift(self, brake: Brake, why: str) -> None:
        """Release a brake whose reason is gone: nobody has agreed to anything by that."""
        self._ledger.lift_brake(brake.id, self._clock.now())
        log.warning("brake released", why=why, detail=brake.detail)
