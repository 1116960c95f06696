"""Read the current trouble of a site from the ledger and the circuit breaker.

Which messages follow from it is left to `core.notices`, sending them to `news`.
"""

from collections.abc import Callable, Collection, Iterator

from assetsync.core.names import printable
from assetsync.core.notices import KEPT, Kind, Trouble
from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock
from assetsync.sync.upload.circuit_breaker import Pause

OUTAGE = 15 * 60.0
"""Seconds that a pause must last before a message is sent."""

_OUT = "outage"


class Facts:
    """The reader of the current trouble.

    `pause` returns the pause of the circuit breaker; `waiting` returns why a loop waits for the ledger's disk. Both
    return None if there is nothing. `outage` is the seconds that a pause must last.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        pause: Callable[[], Pause | None],
        waiting: Callable[[], str | None],
        outage: float = OUTAGE,
    ) -> None:
        self._reports = ledger.reports
        self._runs = ledger.runs
        self._clock = clock
        self._pause = pause
        self._waiting = waiting
        self._outage = outage
        # Folder -> since when (steady seconds) it cannot be listed.
        self._unlisted: dict[str, float] = {}

    def look(self, told: Collection[str]) -> list[Trouble]:
        """Return the current trouble of each kind that can be read now. Raises LedgerDamaged.

        `told` holds the keys of the blocked files that were already reported.
        """
        waiting = self._waiting()
        out = self._out()
        outages = [out] if out.items else []
        found = [Trouble(Kind.ENDED)]
        try:
            found += [self._blocked(told), self._braked(), self._stopped(), self._unread()]
            outages = outages or [self._not_listed(out.lingering)]
        except LedgerDamaged:
            raise
        except LedgerError as error:
            waiting = waiting or str(error)
        items = {} if waiting is None else {"ledger": printable(waiting)}
        return [*outages, *found, Trouble(Kind.LEDGER, items, len(items))]

    def _out(self) -> Trouble:
        pause = self._pause()
        lasted = 0.0 if pause is None else self._clock.steady() - pause.since
        if pause is None:
            return Trouble(Kind.OUTAGE)
        if lasted < self._outage:
            # After a restart the pause counts from the new start, which does not end an outage already reported.
            return Trouble(Kind.OUTAGE, lingering={_OUT})
        return Trouble(Kind.OUTAGE, {_OUT: printable(pause.detail)}, 1, since=self._clock.now() - lasted)

    def _not_listed(self, lingering: Collection[str]) -> Trouble:
        """Return the outage of folders that could not be listed for long, while the service answers for others.

        `lingering` holds other keys that may have been reported and are not over.
        """
        now, unlisted = self._clock.steady(), self._reports.unlisted()
        self._unlisted = {folder: self._unlisted.get(folder, now) for folder in unlisted}
        long = {folder: since for folder, since in self._unlisted.items() if now - since >= self._outage}
        items = {folder: f"into folder {printable(folder)}: {printable(unlisted[folder])}" for folder in long}
        since = self._clock.now() - (now - min(long.values())) if long else None
        return Trouble(Kind.OUTAGE, items, len(items), since=since, lingering={*lingering, *unlisted})

    def _blocked(self, told: Collection[str]) -> Trouble:
        rows = self._reports.blocked(KEPT)
        items = {f"{row.id}:{row.reason}": f"{printable(row.path)} ({row.reason})" for row in rows}
        count = len(rows) if len(rows) < KEPT else self._reports.count_blocked()
        away = set(told) - items.keys()
        trying = self._reports.trying({int(key.partition(":")[0]) for key in away}) if away else set()
        return Trouble(
            Kind.BLOCKED, items, count, lingering={key for key in away if int(key.partition(":")[0]) in trying}
        )

    def _braked(self) -> Trouble:
        brakes = self._reports.brakes()
        return Trouble(Kind.BRAKE, {str(b.id): printable(b.detail) for b in brakes[:KEPT]}, len(brakes))

    def _stopped(self) -> Trouble:
        detail = self._reports.fact(INDEX_STOPPED)
        items = dict(_pairs(detail))
        return Trouble(Kind.INDEX_STOPPED, items, len(items))

    def _unread(self) -> Trouble:
        scan = self._runs.last_scan()
        if scan is None:
            return Trouble(Kind.TREE)
        # A missing folder that held files is reported by its brake.
        braked = {brake.subject for brake in self._reports.brakes() if brake.kind == "emptied"}
        missing = [name for name in scan.missing if name not in braked]
        items = {f"missing {name}": f"the mapped folder {name} is not there" for name in missing}
        # The key omits the reason in brackets, so that another reason causes no new message.
        items |= {f"unreadable {blind.rpartition(' (')[0]}": blind for blind in scan.blind}
        return Trouble(Kind.TREE, items, len(missing) + scan.unread)


def _pairs(detail: str | None) -> Iterator[tuple[str, str]]:
    if detail is not None:
        yield "index", printable(detail)
