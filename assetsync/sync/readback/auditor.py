"""The audit: each mapped folder of the service against the ledger, both ways.

What the ledger calls verified and the folder does not show is missing, once its id is found nowhere else; what the
folder shows and no row owns is doubled, suspected or unknown. Only a folder that was listed to its end is judged, and
when more than a hundredth of it is missing, a person is asked first.
"""

from dataclasses import asdict

import structlog

from assetsync.core.states import Event
from assetsync.core.verdict import Expected, Reading, compare
from assetsync.ledger.assets import Change
from assetsync.ledger.audits import begin
from assetsync.ledger.repair import GOES_ON
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, SearchRequest, State
from assetsync.service.paging import every
from assetsync.sync.context import Context
from assetsync.sync.readback.archive_members import Members
from assetsync.sync.readback.missing import AuditCounts, Missing, different

log = structlog.get_logger(__name__)

_BATCH = 500


class Auditor:
    """Audits folders; used by one thread at a time."""

    def __init__(self, context: Context, members: Members, missing: Missing) -> None:
        """Make the auditor of a site."""
        self._ledger = context.ledger
        self._service = context.service
        self._clock = context.clock
        self._members = members
        self._missing = missing

    def audit(self, folder: str) -> AuditCounts:
        """Audit one folder of the service; raises ServiceError, and then nothing is concluded from what is missing."""
        underway = begin(self._clock)
        began = underway.at
        result = AuditCounts(folder)
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
        self._missing.decide(result, underway)
        self._ledger.audits.done(folder, began, asdict(result))
        log.info("audited", **asdict(result))
        return result

    def _compare(self, folder: str, assets: list[Asset], began: float, result: AuditCounts) -> None:
        if not assets:
            return
        result.assets += len(assets)
        now = self._clock.now()
        rows = self._ledger.audits.live([asset.id for asset in assets])
        changes: list[Change] = []
        met = []
        strangers = []
        for asset in assets:
            row = rows.get(asset.id)
            if row is None:
                strangers.append(asset)
                continue
            met.append(row.id)
            reading, difference = compare(Expected(row.asset_folder or folder, row.size, row.md5), asset)
            is_known = row.state in (State.VERIFIED, State.BLOCKED) or (
                row.state is State.STORED and _is_proven(row, asset)
            )
            if reading is Reading.MOVED and is_known:
                changes.append((row, None, {"asset_folder": folder, "drift": "unread"}))
            if reading is Reading.DIFFERENT and row.state in (State.STORED, State.VERIFIED):
                result.different += 1
                changes.append((row, Event.DIFFERENT, different(row, difference)))
            else:
                if _is_mended(row, reading, asset):
                    changes.append((row, Event.RETRIED, GOES_ON | {"due_at": now}))
                if reading in (Reading.EQUAL, Reading.MOVED):
                    result.count(at_home=folder in (row.destfolderid, row.agreed_folder))
        self._ledger.audits.met(met, began)
        self._ledger.assets.apply_all(changes, now)
        self._explain(folder, strangers, began, result)

    def _explain(self, folder: str, assets: list[Asset], began: float, result: AuditCounts) -> None:
        """Take note of what nobody owns; what is history or explained already stays so."""
        history = self._ledger.audits.history([asset.id for asset in assets]) if assets else set()
        self._ledger.audits.met_history(history, began)
        self._ledger.drifts.met(folder, [asset for asset in assets if asset.id in history])
        strangers = [asset for asset in assets if asset.id not in history and asset.processed]
        doubts = self._ledger.doubts
        doubts.sight(strangers, doubts.newest_attempt(), self._clock.now())
        # What a person had replaced is listed for removal, and is no copy that nobody wanted.
        replaced = self._ledger.audits.replaced([asset.id for asset in strangers])
        equal = self._ledger.audits.equal_content(folder, strangers)
        found: list[tuple[str, str, FileRow | None]] = []
        result.history += len(history) + len(replaced)
        for asset in strangers:
            if asset.id in replaced:
                continue
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


def _is_proven(row: FileRow, asset: Asset) -> bool:
    """Whether the digest says that an asset is the file: of what was never read back nothing else does."""
    return row.md5 is not None and asset.md5 == row.md5


def _is_mended(row: FileRow, reading: Reading, asset: Asset) -> bool:
    """Whether what was blocked by an audit, or when it was read back, is met as it should be: put back by somebody."""
    is_whole = reading is Reading.EQUAL or (reading is Reading.MOVED and row.verified_at is not None)
    is_blocked = row.state is State.BLOCKED and row.reason in ("missing", "different", "unseen")
    return is_blocked and is_whole and (row.verified_at is not None or _is_proven(row, asset))


def _is_rendition(asset: Asset) -> bool:
    """Whether it is a smaller copy that the service made of a picture; some releases show these whatever is asked."""
    return str(asset.columns.get("file_type") or "original").lower() != "original"
