"""Audit a mapped folder of the service against the ledger, both ways.

A verified asset that the folder does not show is missing if it is found nowhere else either. An asset that the folder
shows and no row owns is doubled, suspected or unknown. Only a complete listing is judged. If such an asset may be an
upload in doubt, its next look-up is due at once.

The search for assets that the listing does not show is left to `sync.readback.missing`, which also pulls the brake if
too many are missing.
"""

import json
from collections.abc import Collection
from dataclasses import asdict
from itertools import islice

import structlog

from assetsync.core.read_back import NEVER_PROCESSED, Expected, Reading, compare
from assetsync.core.states import Event
from assetsync.ledger.audits import begin
from assetsync.ledger.doubts import CompetingAttempt
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.read_back import Change
from assetsync.ledger.rows import GOES_ON, FileRow
from assetsync.model import Asset, Clock, State
from assetsync.sync.context import Context
from assetsync.sync.doubts.candidates import may_be_file
from assetsync.sync.readback.archive_members import Members
from assetsync.sync.readback.missing import AuditCounts, MissingAssets, different
from assetsync.sync.readback.sent_metadata import SentMetadata

log = structlog.get_logger(__name__)

_BATCH = 500


class Auditor:
    """Auditor of the folders of a site; used by one thread at a time."""

    def __init__(self, context: Context, members: Members, missing: MissingAssets, sent_metadata: SentMetadata) -> None:
        self._ledger = context.ledger
        self._observer = context.observer
        self._clock = context.clock
        self._members = members
        self._missing = missing
        self._sent_metadata = sent_metadata

    def audit(self, folder: str) -> AuditCounts:
        """Audit one folder of the service, and return the counts.

        Raise ServiceError if a search fails or does not show everything; then the audit reports no asset as missing.
        """
        audit = begin(self._clock)
        result = AuditCounts(folder)
        self._members.begin()
        uploads = self._ledger.doubts.left_in(folder, audit.at)
        assets = self._observer.part_of_folder(folder, None).all()
        while batch := list(islice(assets, _BATCH)):
            self._ledger.audits.met([asset.id for asset in batch], audit.at)
            self._explain(self._compare(batch, result), uploads, result)
        self._missing.decide(result, audit)
        self._ledger.audits.done(folder, audit.at, asdict(result))
        log.info("audited", **asdict(result))
        return result

    def _compare(self, assets: list[Asset], result: AuditCounts) -> list[Asset]:
        """Compare assets with their rows; return those that no live row owns."""
        result.assets += len(assets)
        folder, now = result.folder, self._clock.now()
        rows = self._ledger.audits.live([asset.id for asset in assets])
        changes: list[Change] = []
        strangers = []
        # Usually the metadata was compared when the file was read back.
        self._sent_metadata.expect([*rows.values()])
        for asset in self._sent_metadata.look(assets):
            row = rows.get(asset.id)
            if row is None:
                strangers.append(asset)
                continue
            reading, difference = compare(Expected(row.asset_folder or folder, row.size, row.md5), asset)
            is_known = row.state in (State.VERIFIED, State.BLOCKED)
            if reading is Reading.MOVED and (is_known or (row.state is State.STORED and _is_proven(row, asset))):
                changes.append(Change(row, None, {"asset_folder": folder, "drift": "unread"}))
            if reading is Reading.DIFFERENT and row.state in (State.STORED, State.VERIFIED):
                result.different += 1
                changes.append(Change(row, Event.DIFFERENT, different(row, reading, difference)))
            else:
                is_stuck = reading is Reading.NOT_YET and row.state is State.BLOCKED
                result.never_processed += is_stuck and row.reason == NEVER_PROCESSED
                if _is_mended(row, reading, asset):
                    changes.append(Change(row, Event.RETRIED, GOES_ON | {"due_at": now}))
                if reading in (Reading.EQUAL, Reading.MOVED):
                    is_fine = folder in (row.destfolderid, row.agreed_folder)
                    result.fine += is_fine
                    result.elsewhere += not is_fine
        self._ledger.read_back.apply_all(changes, now)
        self._sent_metadata.record()
        return strangers

    def _explain(self, assets: list[Asset], uploads: list[CompetingAttempt], result: AuditCounts) -> None:
        """Record assets that no row owns; assets of old versions and explained assets keep their explanation."""
        if not assets:
            return
        folder, doubts, now = result.folder, self._ledger.doubts, self._clock.now()
        ids = [asset.id for asset in assets]
        history, replaced = self._ledger.audits.history(ids), self._ledger.assets.explained(ids, "replaced")
        self._ledger.metadata_drift.met(folder, [asset for asset in assets if asset.id in history])
        # An asset that an operator had replaced may be one that the service never processes.
        strangers = [a for a in assets if a.id not in history and (a.processed or a.id in replaced)]
        self._ledger.assets.record(strangers, doubts.newest_attempt(), now)
        # The audit decides no doubt; the next look-up may be a quarter of an hour away.
        seen = {by.attempt_id for by in uploads if any(may_be_file(by, asset) for asset in strangers)}
        if due := doubts.look_now(seen, now):
            log.info("seen by the audit, looked up now", destfolderid=folder, doubts=due)
        equal = self._ledger.audits.equal_content(folder, strangers)
        found: list[tuple[str, str, FileRow | None]] = []
        result.history += len(history) + len(replaced)
        for asset in strangers:
            if asset.id in replaced:
                # It is already listed for removal: it is not a doubled one.
                continue
            if asset.id in equal:
                result.doubled += 1
                found.append((asset.id, "doubled", equal[asset.id]))
                continue
            # A smaller asset under the name of an attempt that ended in doubt may be a cut that appeared late.
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
    """Return whether the MD5 proves that an asset is the file; a file that was never read back has no other proof."""
    return row.md5 is not None and asset.md5 == row.md5


def _is_mended(row: FileRow, reading: Reading, asset: Asset) -> bool:
    """Return whether the asset of a file that an audit or a read-back blocked is whole: put back, or processed late."""
    is_whole = reading is Reading.EQUAL or (reading is Reading.MOVED and row.verified_at is not None)
    is_blocked = row.state is State.BLOCKED and row.reason in ("missing", "different", "unseen", NEVER_PROCESSED)
    return is_blocked and is_whole and (row.verified_at is not None or _is_proven(row, asset))


_ASKED = "audit_asked"
_NIGHTLY = "audit_nightly"
"""Key of the latest nightly request: when it was made, in seconds since the epoch, and the folders."""
_NIGHTS = 7
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

    def ask_nightly(self) -> None:
        """Request an audit of a seventh of the folders, rounded up: those that were audited longest ago."""
        audited = {folder: self._ledger.audits.last_at(folder) or 0.0 for folder in self._folders}
        oldest = sorted(self._folders, key=lambda folder: audited[folder])[: -(-len(self._folders) // _NIGHTS)]
        self._ledger.set_fact(_NIGHTLY, json.dumps({"at": self._clock.now(), "folders": oldest}))

    def nightly_at(self) -> float | None:
        """Return the time of the last nightly request in epoch seconds; None if there was none."""
        return self._nightly()[0]

    def nightly(self) -> list[str]:
        """Return the folders of the last nightly request without an audit since."""
        at, folders = self._nightly()
        audited = {folder: self._ledger.audits.last_at(folder) for folder in folders if folder in self._folders}
        # A request in the future comes from a clock that was set back since: the next night makes another.
        is_due = at is not None and at <= self._clock.now()
        return [folder for folder, last in audited.items() if is_due and (last is None or last < (at or 0.0))]

    def _nightly(self) -> tuple[float | None, list[str]]:
        record = json.loads(self._ledger.reports.fact(_NIGHTLY) or "{}")
        return record.get("at"), record.get("folders", [])

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
        asked_at = self._ledger.reports.fact(_ASKED)
        if asked_at is None:
            return []
        asked, now = float(asked_at), self._clock.now()
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
