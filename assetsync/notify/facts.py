"""The trouble of a site as it stands, read from the ledger and the gate. What is told of it is `core.notices`'s."""

from collections.abc import Callable, Collection, Iterator

from assetsync.core.names import printable
from assetsync.core.notices import KEPT, Kind, Trouble
from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock
from assetsync.sync.upload.circuit_breaker import Pause

OUTAGE = 15 * 60.0
"""Seconds that a pause must last to be told."""

_OUT = "outage"


class Facts:
    """Reads what stands; `pause` gives the gate's, and `waiting` why something waits for the ledger's disk."""

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
        # Since when (steady seconds) each folder could not be listed.
        self._unlisted: dict[str, float] = {}

    def look(self, told: Collection[str]) -> list[Trouble]:
        """Give what stands of each kind that can be known now; `told` are the keys of blocked files already told.

        Raises LedgerDamaged.
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
            # A process that was started anew counts from its own start: what was told before is not over by that.
            return Trouble(Kind.OUTAGE, lingering={_OUT})
        return Trouble(Kind.OUTAGE, {_OUT: printable(pause.detail)}, 1, since=self._clock.now() - lasted)

    def _not_listed(self, lingering: Collection[str]) -> Trouble:
        """Tell of folders into which nothing could be sent for long, though the service answers for others.

        `lingering` is what else may have been told of before and is not over.
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
        # Of one that held files the brake is told.
        braked = {brake.subject for brake in self._reports.brakes() if brake.kind == "emptied"}
        missing = [name for name in scan.missing if name not in braked]
        items = {f"missing {name}": f"the mapped folder {name} is not there" for name in missing}
        # The reason is no part of what was told.
        items |= {f"unreadable {blind.rpartition(' (')[0]}": blind for blind in scan.blind}
        return Trouble(Kind.TREE, items, len(missing) + scan.unread)


def _pairs(detail: str | None) -> Iterator[tuple[str, str]]:
    if detail is not None:
        yield "index", printable(detail)
