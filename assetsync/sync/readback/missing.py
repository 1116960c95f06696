"""Look up the assets that an audit did not meet in their folder before they are reported as missing.

People move assets, the index lags or is being rebuilt, and some releases hide unprocessed assets. An asset that the
service merely does not show must not be sent a second time. The listing of the folder is left to
`sync.readback.auditor`.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import structlog

from assetsync.core.names import printable
from assetsync.core.read_back import Expected, Reading, compare, new_version
from assetsync.core.states import Event
from assetsync.errors import ServiceRefused
from assetsync.ledger.audits import RunningAudit, Unmet
from assetsync.ledger.read_back import Change
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, Wanted
from assetsync.sync.brakes import BrakeControl
from assetsync.sync.context import Context
from assetsync.sync.observer import names_of


@dataclass(slots=True)
class AuditCounts:
    """The counts of an audit: of the listing of the folder, and of the search for unmet assets.

    An asset that equals the sent file is `fine` at its destination or in an agreed folder, else it is `elsewhere`.
    """

    folder: str
    assets: int = 0
    fine: int = 0
    different: int = 0
    missing: int = 0
    elsewhere: int = 0
    doubled: int = 0
    suspected: int = 0
    unknown: int = 0
    never_processed: int = 0
    history: int = 0
    """Assets of versions that were replaced or deleted, or that an operator had sent again."""
    braked: bool = False


log = structlog.get_logger(__name__)

_KIND = "missing"
_FEW = 10
_SHARE = 0.01
_IDS = 100
_BATCH = 500
_BY_NAME_AT_MOST = 200
"""Above this number, list the whole service once: that is one long answer instead of one answer per name."""


class MissingAssets:
    """Search for unmet assets; used by one thread at a time. `mapped` are the folders that are audited themselves."""

    def __init__(self, context: Context, *, resend: bool, mapped: Collection[str]) -> None:
        self._context = context
        self._brake_control = BrakeControl(context.ledger, context.clock)
        self._resend = resend
        self._mapped = mapped

    def decide(self, result: AuditCounts, audit: RunningAudit) -> None:
        """Find the assets that the audit of a folder has not met, or report them as missing; raises ServiceError.

        If more than 10 assets and more than 1 % are missing, pull the brake and report none. Do so as well if none of
        our assets is left in the folder and the service shows none of the oldest either.
        """
        audits = self._context.ledger.audits
        case = _Case(self._context, audit, result, resend=self._resend)
        here, away = Unmet(result.folder), Unmet(result.folder, away_from=self._mapped)
        missing, moved = case.count(here), case.count(away)
        if missing:
            case.meet_unprocessed()
            missing = case.count(here)
        known = audits.verified(here, audit) + audits.verified(away, audit) if missing or moved else 0
        most = max(_FEW, known * _SHARE)
        if missing > most and not self._allow_or_brake(missing, known, result):
            return
        lost = (case.look(here) if missing else 0) + (case.look(away) if moved else 0)
        if lost > most and not self._allow_or_brake(lost, known, result):
            return
        if 0 < lost <= most:
            rows = (*audits.unmet(here, audit, _IDS), *audits.unmet(away, audit, _IDS))
            if not self._believe_or_brake(lost, {row.assetid for row in rows}, result):
                return
        for unmet in (here, away):
            case.give_up(unmet)
        # Withdraw the operator's release of the brake: it was meant for this audit and not for the next one.
        self._brake_control.withdraw(_KIND, result.folder)

    def _believe_or_brake(self, lost: int, ids: Collection[str | None], result: AuditCounts) -> bool:
        """Return whether a small number of missing assets is plausible.

        A key that lost a permission, or a database that is being restored, makes every folder look empty. Raises
        BadAnswer if the service shows none of the control samples either.
        """
        if result.fine or result.elsewhere or result.different:
            return True
        observer = self._context.observer
        samples = self._context.ledger.control_samples.of_all(min(lost, _IDS) + _FEW)
        others = [one for one in samples if one.assetid not in ids]
        observer.expect_one(others[-_FEW:], f"folder {result.folder}", hint="may the key's user see the folders?")
        # The newest assets alone may have been sent after the service was emptied.
        oldest = others[: len(others) // 2][:_FEW]
        is_plausible = observer.folder_of_one(oldest) is not None if oldest else bool(others) or not self._resend
        # Without a control sample, pull the brake before anything is sent again.
        return is_plausible or self._allow_or_brake(lost, lost, result)

    def _allow_or_brake(self, missing: int, known: int, result: AuditCounts) -> bool:
        if self._brake_control.allowed(_KIND, result.folder, missing):
            return True
        detail = (
            f"{missing:,} of {known:,} assets are missing in folder {result.folder} of the service, or where they were"
            " moved from it: was it emptied, or is this another installation?"
        )
        self._brake_control.pull(_KIND, result.folder, detail, missing)
        result.braked = True
        return False


class _Case:
    """The unmet assets of one audit of a folder, and the places where they are found."""

    def __init__(self, context: Context, audit: RunningAudit, result: AuditCounts, *, resend: bool) -> None:
        self._ledger = context.ledger
        self._observer = context.observer
        self._clock = context.clock
        self._longest_name = context.longest_name
        self._audit = audit
        self._result = result
        self._resend = resend

    def count(self, unmet: Unmet) -> int:
        """Count the assets that are still unmet; each count may read all files of the ledger."""
        return self._ledger.audits.count(unmet, self._audit)

    def meet_unprocessed(self) -> None:
        """Search for unprocessed assets, which some releases show only on request (interface section 4.1)."""
        met = (asset.id for asset in self._observer.part_of_folder(self._result.folder, "0").all())
        while batch := list(islice(met, _BATCH)):
            self._ledger.audits.met(batch, self._audit.at)

    def look(self, unmet: Unmet) -> int:
        """Look up unmet assets in all folders, record those found, and return how many are still unmet."""
        after = 0
        while rows := self._ledger.audits.unmet(unmet, self._audit, _IDS, after=after):
            after = rows[-1].id
            # If the index may not be searched, the database decides alone.
            with suppress(ServiceRefused):
                found = self._observer.ids([row.assetid for row in rows if row.assetid is not None])
                self._note([(row, found[row.assetid]) for row in rows if row.assetid in found])
        # Search the database as well, because the index may lag or be in the middle of a rebuild.
        left = self._ledger.audits.unmet(unmet, self._audit, _BY_NAME_AT_MOST + 1)
        if len(left) > _BY_NAME_AT_MOST or (left and self._resend):
            # List everything: a search by name misses a renamed asset, and the file would be sent twice.
            self._meet(self._observer.everything(), unmet)
        elif left:
            names = set[str]().union(*(names_of(self._ledger, row, self._longest_name) for row in left))
            self._meet(self._observer.named(names), unmet)
        return self.count(unmet)

    def give_up(self, unmet: Unmet) -> None:
        """Report the assets that are still unmet as missing."""
        while rows := self._ledger.audits.unmet(unmet, self._audit, _IDS):
            now = self._clock.now()
            self._ledger.read_back.apply_all([self._gone(row, now) for row in rows], now)

    def _meet(self, assets: Iterator[Asset], unmet: Unmet) -> None:
        while batch := {asset.id: asset for asset in islice(assets, _BATCH)}:
            rows = self._ledger.audits.unmet_of(unmet, list(batch), self._audit)
            self._note([(row, batch[row.assetid or ""]) for row in rows])

    def _note(self, found: Sequence[tuple[FileRow, Asset]]) -> None:
        """Record where moved assets lie now, and which assets no longer equal their file."""
        changes: list[Change] = []
        for row, asset in found:
            reading, difference = compare(Expected(row.asset_folder or self._result.folder, row.size, row.md5), asset)
            was_moved = asset.folder_id not in (row.asset_folder, "")
            columns = {"asset_folder": asset.folder_id, "drift": "unread"} if was_moved else {}
            if reading is not Reading.DIFFERENT:
                self._result.elsewhere += asset.folder_id not in (row.destfolderid, row.agreed_folder, "")
                changes.append(Change(row, None, columns))
                continue
            self._result.different += 1
            changes.append(Change(row, Event.DIFFERENT, columns | different(row, reading, difference)))
        self._ledger.audits.met([asset.id for _, asset in found], self._audit.at)
        self._ledger.read_back.apply_all(changes, self._clock.now())

    def _gone(self, row: FileRow, now: float) -> Change:
        self._result.missing += 1
        detail = f"the asset {row.assetid} is not in the service any more"
        # The queue does not send a file that is not of the tree.
        is_resent = self._resend and row.wanted is not Wanted.OUTSIDE
        after = "it is sent again" if is_resent else "it is blocked until a person decides"
        log.error("missing in the service", path=printable(row.path), assetid=row.assetid, next=after)
        if is_resent:
            return Change(row, Event.REPLENISHED, _AGAIN | {"detail": detail, "due_at": now})
        if row.wanted is Wanted.OUTSIDE:
            detail += ": `assetsync upload --send-again` uploads the file again"
        return Change(row, Event.MISSING, {"reason": "missing", "detail": detail})


def different(row: FileRow, reading: Reading, difference: str) -> dict[str, Any]:
    """Return the columns for a file whose asset is not the file, or is in another folder, and log an error."""
    if reading is Reading.DIFFERENT and row.verified_at is not None:
        detail = new_version(row.assetid, difference)
    else:
        then = "`assetsync retry PATH`, with --send-again for a new upload"
        if reading is Reading.MOVED:
            then = "move it there, or let it lie, and `assetsync retry PATH`"
        detail = f"the asset {row.assetid} is not this file: {difference}; look at it in the service, then {then}"
    log.error("blocked", path=printable(row.path), assetid=row.assetid, detail=detail)
    return {"reason": "different", "detail": detail}


_AGAIN = dict.fromkeys(("assetid", "agreed_folder", "verified_at", "uploaded_at")) | {"reason": "missing"}
