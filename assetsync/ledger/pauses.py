"""The pauses by a person, as one fact of the ledger. How long each lasts is left to `core.pauses`."""

import json
from collections.abc import Collection, Iterable

from assetsync.core.pauses import SITE, OperatorPause
from assetsync.ledger.file.database import Database, below
from assetsync.ledger.file.facts import set_fact
from assetsync.model import Clock

_PAUSES = "operator_pauses"
"""The fact that lists the pauses; each path is the hex of its bytes."""
_COUNT_EVERY = 60.0
"""Seconds between two records of what pauses have left."""


class Pauses:
    """The ledger's part for pauses; only the process that holds the ledger writes, in one thread."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._known: tuple[OperatorPause, ...] | None = None

    def recorded(self) -> tuple[OperatorPause, ...]:
        """Return the pauses as they were last counted; some may be over."""
        if self._known is not None and self._store.holds_lock:
            return self._known
        record = json.loads(self._store.fact(_PAUSES) or "[]")
        self._known = tuple(OperatorPause(**each | {"path": bytes.fromhex(each["path"])}) for each in record)
        return self._known

    def in_force(self, clock: Clock) -> tuple[OperatorPause, ...]:
        """Return the pauses that are not over."""
        # Asked for each file that is sent.
        return _left(self._counted(clock), clock.now()) if self.recorded() else ()

    def shown(self, now: float) -> tuple[OperatorPause, ...]:
        """Return the pauses that are not over, for a reader who has only the wall clock."""
        return _left(self.recorded(), now)

    def count(self, clock: Clock) -> list[OperatorPause]:
        """Record what each pause has left, if that is due; forget and return those that are over."""
        before, counted = self.recorded(), self._counted(clock)
        left = _left(counted, clock.now())
        pairs = zip(before, counted, strict=True)
        is_due = any(old.boot != new.boot or new.steady - old.steady >= _COUNT_EVERY for old, new in pairs)
        if left != counted or is_due:
            self._write(left)
        return [pause for pause in counted if pause not in left]

    def _counted(self, clock: Clock) -> tuple[OperatorPause, ...]:
        now, steady, boot = clock.now(), clock.steady(), clock.boot()
        return tuple(pause.counted(now, steady, boot) for pause in self.recorded())

    def begin(self, pause: OperatorPause) -> None:
        """Record a pause in place of the pause of the same path."""
        self._write([*(each for each in self.recorded() if each.path != pause.path), pause])

    def end(self, paths: Collection[bytes]) -> None:
        """Forget the pauses of these paths."""
        self._write(pause for pause in self.recorded() if pause.path not in paths)

    def _write(self, pauses: Iterable[OperatorPause]) -> None:
        known = tuple(pauses)
        value = json.dumps([pause._asdict() | {"path": pause.path.hex()} for pause in known])
        self._store.write(lambda conn: set_fact(conn, _PAUSES, value))
        self._known = known


def _left(pauses: tuple[OperatorPause, ...], now: float) -> tuple[OperatorPause, ...]:
    return tuple(pause for pause in pauses if not pause.is_over(now))


def outside(paths: Collection[bytes]) -> str:
    """Return the SQL that leaves out the files at these paths and below them, "" for no path."""
    return f" AND NOT {paused(paths)}" if paths else ""


def paused(paths: Collection[bytes]) -> str:
    """Return an SQL condition for the files at these paths and below them."""
    if SITE in paths:
        return "1"
    ranges = ((path, *below(path)) for path in paths)
    found = (f"path = x'{at.hex()}' OR path >= x'{low.hex()}' AND path < x'{high.hex()}'" for at, low, high in ranges)
    return f"({' OR '.join(found) or '0'})"
