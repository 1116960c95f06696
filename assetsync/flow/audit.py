"""The audit: each mapped folder of the service against the ledger, both ways.

What the ledger calls verified and the folder does not show is missing, once its id is found nowhere else; what the
folder shows and no row owns is doubled, suspected or unknown. Only a folder that was listed to its end is judged, and
when more than a hundredth of it is missing, a person is asked first.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from assetsync.core.names import printable
from assetsync.core.states import Event
from assetsync.core.verdict import Expected, Reading, compare
from assetsync.flow.edges import Edges
from assetsync.flow.members import Members
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, SearchRequest, State
from assetsync.service.paging import every
from assetsync.service.query import ids_query

log = structlog.get_logger(__name__)

AUDIT_ASKED = "audit_asked"
"""The fact that holds when the newest audit was asked for, in seconds since the epoch."""

_BATCH = 500
_FEW = 10
_SHARE = 0.01
_IDS = 100


@dataclass(slots=True)
class Audited:
    """What one folder's audit found, in numbers."""

    folder: str
    assets: int = 0
    fine: int = 0
    different: int = 0
    missing: int = 0
    elsewhere: int = 0
    doubled: int = 0
    suspected: int = 0
    unknown: int = 0
    braked: bool = False


class Auditor:
    """Audits folders; used by one thread at a time. `brake` pulls one: (subject, sentence, amount) → allowed."""

    def __init__(
        self, edges: Edges, members: Members, *, resend_missing: bool, brake: Callable[[str, str, int], bool]
    ) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._members = members
        self._resend_missing = resend_missing
        self._brake = brake

    def audit(self, folder: str) -> Audited:
        """Audit one folder of the service; raises ServiceError, and then nothing is concluded from what is missing."""
        began = self._clock.now()
        result = Audited(folder)
        self._members.begin()
        batch: list[Asset] = []
        request = SearchRequest(searchfor="%", folderid=folder, dbdirect=True, showrenditions=False)
        for asset in every(self._service.search, request):
            if asset.folder_id == folder and not _is_rendition(asset):
                batch.append(asset)
            if len(batch) >= _BATCH:
                self._compare(folder, batch, began, result)
                batch = []
        self._compare(folder, batch, began, result)
        self._missing(folder, began, result)
        self._ledger.audits.done(folder, began, asdict(result))
        log.info("audited", **asdict(result))
        return result

    def _compare(self, folder: str, assets: list[Asset], began: float, result: Audited) -> None:
        if not assets:
            return
        result.assets += len(assets)
        now = self._clock.now()
        rows = self._ledger.audits.live([asset.id for asset in assets])
        changes: list[tuple[FileRow, Event | None, dict[str, Any]]] = []
        met = []
        strangers = []
        for asset in assets:
            row = rows.get(asset.id)
            if row is None:
                strangers.append(asset)
                continue
            met.append(row.id)
            reading, difference = compare(Expected(row.asset_folder or folder, row.size, row.md5), asset)
            # Of what was never read back, the digest says that it is the file.
            is_proven = row.state is State.STORED and row.md5 is not None and asset.md5 == row.md5
            if reading is Reading.MOVED and (is_proven or row.state in (State.VERIFIED, State.BLOCKED)):
                changes.append((row, None, {"asset_folder": folder, "drift": "unread"}))
            if reading is Reading.DIFFERENT and row.state in (State.STORED, State.VERIFIED):
                result.different += 1
                detail = f"the asset {asset.id} is no longer this file: {difference}; look at it in the service"
                changes.append((row, Event.DIFFERENT, {"reason": "different", "detail": detail}))
                log.error("blocked", path=printable(row.path), assetid=asset.id, detail=detail)
            else:
                is_home = folder in (row.destfolderid, row.agreed_folder)
                result.fine += reading is Reading.EQUAL or (reading is Reading.MOVED and is_home)
                result.elsewhere += reading is Reading.MOVED and not is_home
        self._ledger.audits.met(met, began)
        self._ledger.assets.apply_all(changes, now)
        self._explain(folder, strangers, began, result)

    def _explain(self, folder: str, assets: list[Asset], began: float, result: Audited) -> None:
        """Take note of what nobody owns; what is history or explained already stays so."""
        history = self._ledger.audits.history([asset.id for asset in assets]) if assets else set()
        self._ledger.audits.met_history(history, began)
        self._ledger.drifts.met(folder, [asset for asset in assets if asset.id in history])
        strangers = [asset for asset in assets if asset.id not in history and asset.processed]
        doubts = self._ledger.doubts
        doubts.sight(strangers, doubts.newest_attempt(), self._clock.now())
        equal = self._ledger.audits.equal_content(folder, strangers)
        found: list[tuple[str, str, FileRow | None]] = []
        for asset in strangers:
            if asset.id in equal:
                result.doubled += 1
                found.append((asset.id, "doubled", equal[asset.id]))
                continue
            # An attempt that ended in doubt is looked at once more: a cut that the service noticed late.
            sent = self._ledger.audits.sent_as(folder, asset.filename)
            if sent is not None and asset.size is not None and asset.size < sent.size:
                result.suspected += 1
                found.append((asset.id, "suspected", sent))
            elif self._members.holds(folder, asset):
                found.append((asset.id, "", None))
            else:
                result.unknown += 1
                found.append((asset.id, "unknown", None))
        self._ledger.audits.explain(found)

    def _missing(self, folder: str, began: float, result: Audited) -> None:
        expected = self._ledger.audits.expected(folder, began)
        if not expected.missing:
            return
        if expected.missing > max(_FEW, expected.verified * _SHARE):
            detail = (
                f"{expected.missing:,} of {expected.verified:,} assets are missing in folder {folder} of the service:"
                " was it emptied, or is this another installation?"
            )
            if not self._brake(folder, detail, expected.missing):
                result.braked = True
                return
        while rows := self._ledger.audits.unmet(folder, began, _IDS):
            self._decide(rows, began, result)

    def _decide(self, rows: list[FileRow], began: float, result: Audited) -> None:
        """Look for missing assets by id in all folders; what is nowhere is missing."""
        ids = [row.assetid for row in rows if row.assetid is not None]
        with self._service.search(SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))) as assets:
            found = {asset.id: asset for asset in assets if asset.id in ids}
        changes: list[tuple[FileRow, Event | None, dict[str, Any]]] = []
        for row in rows:
            asset = found.get(row.assetid or "")
            if asset is not None:
                result.elsewhere += 1
                moved = {"audited_at": began, "asset_folder": asset.folder_id, "drift": "unread"}
                changes.append((row, None, moved))
                continue
            result.missing += 1
            detail = (
                f"the asset {row.assetid} is not in the service any more: `assetsync retry --send-again PATH` uploads"
                " the file anew, `assetsync retry PATH` looks for the asset again"
            )
            log.error("missing in the service", path=printable(row.path), assetid=row.assetid)
            if self._resend_missing:
                changes.append((row, Event.REPLENISHED, _AGAIN | {"detail": detail, "due_at": self._clock.now()}))
            else:
                columns = {"reason": "missing", "detail": detail, "audited_at": began}
                changes.append((row, Event.MISSING, columns))
        self._ledger.assets.apply_all(changes, self._clock.now())


def _is_rendition(asset: Asset) -> bool:
    """Whether it is a smaller copy that the service made of a picture; some releases show these whatever is asked."""
    return str(asset.columns.get("file_type") or "original").lower() != "original"


_AGAIN: dict[str, Any] = {
    "assetid": None, "id_from": None, "asset_folder": None, "agreed_folder": None,
    "verified_at": None, "seen_at": None, "findable_at": None,
    "index_asked_at": None, "uploaded_at": None, "reason": "missing",
}  # fmt: skip
