"""Read stored assets back, and confirm those that equal the sent file and can be found.

The verifier looks a batch of ids up in the index first: one call confirms a hundred files. While the index may be
behind the uploads, it asks nothing else. Then it looks up the other ids in the database, which shows whether they are
stored at all. The comparison is left to `core.read_back`, the request for indexing to `sync.readback.indexer`, and the
share of the time to `sync.readback.budget`.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from assetsync.core.doubt_grace import Grace
from assetsync.core.names import is_shown_as, may_be, printable
from assetsync.core.read_back import (
    LOOK_AGAIN,
    NEVER_PROCESSED,
    SAME_METADATA,
    UNSEEN_PATIENCE,
    Expected,
    ReadBackWaits,
    Reading,
    Unprocessed,
    compare,
    gathered,
    next_look,
)
from assetsync.core.states import Event
from assetsync.errors import ServiceError, ServiceRefused
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import Change, KnownAsset
from assetsync.ledger.rows import GOES_ON, MISSING, FileRow
from assetsync.model import Asset, State, Wanted
from assetsync.service.search import like_pattern
from assetsync.sync.context import Context
from assetsync.sync.lookup_gates import HealthCheck, LookupGates
from assetsync.sync.observer import InTurn, names_of, of_ids
from assetsync.sync.readback.auditor import ask_for_audit
from assetsync.sync.readback.missing import different
from assetsync.sync.readback.sent_metadata import SentMetadata
from assetsync.text import moment

log = structlog.get_logger(__name__)

BATCH = 100
"""Number of assets that one call reads back."""

_OVERDUE = 60.0
"""Seconds after which an asset that is due no longer waits for others to be read back with it."""

_SAMPLES = 10
"""Number of control samples that each step looks up too."""

_NOT_YET = "the service does not show it yet"
_NOT_FINDABLE = "stored, and not findable through the index yet"
_BY_NAME_AT_MOST = 5
_BY_LISTING_AT_MOST = 5000

_EVERYWHERE = 60.0
"""Seconds of a step after which no further look-up in all folders begins: a step records nothing before its end."""
_EVERYWHERE_NEXT = "its folder does not show it; it is looked up in all folders next"


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a step: how many assets were looked at and confirmed, and whether an audit was requested."""

    looked: int
    confirmed: int
    wants_audit: bool = False


class Verifier:
    """Verifier of stored assets that are due; used by one thread at a time."""

    def __init__(
        self,
        context: Context,
        health_check: HealthCheck,
        *,
        waits: ReadBackWaits,
        needs_index: Callable[[], bool],
        misnames: Callable[[bytes, str], bool],
        sent_metadata: SentMetadata,
    ) -> None:
        self._lookup_gates = LookupGates(health_check)
        # Folders whose last look-up failed: when they may be looked up again (steady seconds), and the error.
        self._put_off: dict[str, tuple[float, str]] = {}
        self._context = context
        self._ledger = context.ledger
        self._observer = context.observer
        self._clock = context.clock
        self._meter = context.meter
        self._longest = waits.longest
        self._index_lag = waits.index_lag
        # The least pause of this step: all its assets wait for its newest, so that one search serves them again.
        self._least_pause = 0.0
        self._unprocessed_after = waits.unprocessed_after
        self._needs_index = needs_index
        self._misnames = misnames
        # What was known of the assets of this step's rows before it, by asset id.
        self._shown: dict[str, Shown] = {}
        self._sent_metadata = sent_metadata
        # Whether uploads into a folder keep their names, as recorded by this process.
        self._names: dict[str, bool] = {}
        # By folder: rows that its last listing showed equal, and that the index was not asked for yet. The value is the
        # time of the next look (epoch seconds) if the index does not show them. At most the rows of one listing.
        self._listed: dict[str, dict[int, float]] = {}
        self._everywhere = InTurn(context.clock.steady, _EVERYWHERE)
        # Whether an audit was requested since a control sample was last shown.
        self._has_asked = False

    def step(self, least: int = 1) -> Verified:
        """Read back up to a hundred due assets, and more if one of their folders has to be listed.

        Do nothing while fewer than `least` assets are due, and none for a minute. A folder whose look-up fails delays
        only its own assets.
        Raise ServiceError if the service answers for no folder; then nothing was decided.
        """
        rows = self._ledger.read_back.to_verify(self._clock.now(), BATCH)
        rows += self._ledger.read_back.never_processed(self._clock.now(), BATCH - len(rows))
        if not rows or (len(rows) < least and 0 <= self._clock.now() - rows[0].due_at < _OVERDUE):
            return Verified(0, 0)
        self._shown = self._ledger.assets.shown(rows)
        needs_index = self._needs_index()
        ids = [row.assetid for row in rows if row.assetid is not None]
        # Of one folder: samples of all would be searched for among all files that are queued.
        known = self._ledger.control_samples.read_back_last
        samples = known(_folder_of(rows[0]), _SAMPLES) if needs_index else []
        to_compare = self._sent_metadata.expect(rows)
        searched = [*ids, *(sample.assetid for sample in samples)]
        found = self._in_index(searched) if needs_index else {}
        # The service may just now have refused every search through its index.
        needs_index = needs_index and self._needs_index()
        now = self._clock.now()
        listed = self._take_listed(rows)
        behind = {row.id for row in rows if needs_index and (row.id in listed or self._may_be_behind(row, now))}
        stored, added = self._in_database(rows, found, to_compare, behind)
        rows += added
        not_searched = {row.id for row in added}
        now = self._clock.now()
        waited = (_waited(row, now) for row in rows if row.assetid not in found)
        self._least_pause = next_look(min(waited, default=0.0), self._longest, self._index_lag * needs_index)
        changes: list[Change] = []
        unseen: list[Change] = []
        for row in rows:
            asset = found.get(row.assetid or "") or stored.get(row.assetid or "")
            if row.state is State.BLOCKED:
                changes.append(_of_blocked(row, asset, now))
            elif asset is not None:
                findable = None if row.id in not_searched else row.assetid in found
                changes.append(self._change(row, asset, now, findable=findable, needs_index=needs_index))
            elif row.id in behind:
                detail = _NOT_YET if self._shown_of(row).shown_at is None else _NOT_FINDABLE
                due_at = listed.get(row.id) or self._due(row, now, needs_index=True)
                changes.append(Change(row, None, {"due_at": due_at, "detail": detail}))
            elif _folder_of(row) in self._put_off:
                until, why = self._put_off[_folder_of(row)]
                # Wait no longer than `longest`, because the index may show the asset before its folder answers again.
                due_at = now + min(max(0.0, until - self._clock.steady()), self._longest)
                changes.append(Change(row, None, {"due_at": due_at, "detail": f"cannot be read back: {why}"}))
            else:
                change, is_over = self._not_shown(row, now, needs_index=needs_index)
                (unseen if is_over else changes).append(change)
        changes += self._judge_elsewhere(unseen, now, needs_index=needs_index)
        self._record(changes, now)
        self._sent_metadata.record()
        for row in rows:
            is_new = row.state is State.STORED and row.uploaded_at is not None
            if is_new and row.assetid in found and self._shown_of(row).findable_at is None:
                self._meter.findable(now - row.queued_at)
        wants_audit = needs_index and self._request_audit(samples, found)
        return Verified(len(rows), sum(each.event is Event.CONFIRMED for each in changes), wants_audit)

    def _in_index(self, ids: Sequence[str]) -> dict[str, Asset]:
        try:
            return self._observer.ids(ids, self._sent_metadata.look_in_index)
        except ServiceRefused:
            if self._needs_index():
                raise
            return {}

    def _may_be_behind(self, row: FileRow, now: float) -> bool:
        """Return whether the index may be behind an upload, so that it says nothing that it does not show the asset.

        It may for the usual lag. An asset that the database showed whole needs nothing but the index for ten minutes.
        """
        if row.reason == MISSING or row.state is State.BLOCKED:
            return False
        shown = self._shown_of(row)
        was_whole = shown.is_processed and shown.absent_boot is None
        return 0 <= _waited(row, now) < (UNSEEN_PATIENCE if was_whole else self._index_lag)

    def _shown_of(self, row: FileRow) -> Shown:
        """Return what was known of a row's asset before this step."""
        return self._shown.get(row.assetid or "", Shown())

    def _take_listed(self, rows: Sequence[FileRow]) -> dict[int, float]:
        """Return when to look again for those of the rows that the last listing of their folder showed.

        Forget them: they are looked up in the database again if the index does not show them by then.
        """
        taken = ((row.id, self._listed.get(_folder_of(row), {}).pop(row.id, None)) for row in rows)
        return {row_id: due_at for row_id, due_at in taken if due_at is not None}

    def _due(self, row: FileRow, now: float, *, needs_index: bool, most: float = float("inf")) -> float:
        """Return when to look for an asset again, in seconds since the epoch, at most `most` seconds from now."""
        waited = _waited(row, now)
        pause = self._least_pause
        if not 0 <= waited <= self._index_lag * needs_index:
            pause = max(pause, min(most, next_look(waited, self._longest, self._index_lag * needs_index)))
        return gathered(now + pause, pause)

    def _request_audit(self, samples: Sequence[KnownAsset], found: Container[str]) -> bool:
        """Request an audit if the index shows none of the control samples; return True once, until it shows one again.

        Another installation may answer at the address by now, or the index may be lost. The audit searches the
        database, and pulls the brake if too many assets are missing.
        """
        is_ours = not samples or any(sample.assetid in found for sample in samples)
        asks = not is_ours and not self._has_asked
        self._has_asked = not is_ours
        if asks:
            ask_for_audit(self._ledger, self._clock.now())
            log.warning(
                "none of the known assets is shown: an audit is due",
                searched=len(samples),
                next="each folder is audited now; if many assets are missing, a brake stops uploads",
            )
        return asks

    def _in_database(
        self, rows: Sequence[FileRow], indexed: Container[str], to_compare: Container[str], behind: Container[int]
    ) -> tuple[dict[str, Asset], list[FileRow]]:
        """Look up ids that are not `indexed` in their folders: by name if there are few, else by a listing.

        Rows that the index may be `behind` are left out. Assets whose metadata is `to_compare` are looked up, too. The
        cost of a listing depends on the size of the folder, so a listing decides all due assets of the folder. The
        second value holds the rows that were added for this reason.
        """
        found: dict[str, Asset] = {}
        added: list[FileRow] = []
        folders: dict[str, list[FileRow]] = {}
        taken = {row.id for row in rows}
        for row in rows:
            if row.assetid in to_compare if row.assetid in indexed else row.id not in behind:
                folders.setdefault(_folder_of(row), []).append(row)
        now = self._clock.steady()
        self._put_off = {folder: later for folder, later in self._put_off.items() if later[0] > now}
        for folder, those in folders.items():
            if folder in self._put_off:
                continue
            began = self._clock.steady()
            # The index shows all of them: nothing but their metadata is to be looked at.
            only_compares = all(row.assetid in indexed for row in those)
            try:
                more = self._in_folder(folder, those, taken, found)
                # The index may show the others, too: they come next.
                added += [] if only_compares else more
            except ServiceError as error:
                if only_compares:
                    log.debug("metadata is compared by the next audit", destfolderid=folder, detail=str(error))
                    continue
                wait = self._lookup_gates.put_off(folder, error, self._clock.steady() - began)
                self._put_off[folder] = self._clock.steady() + wait, str(error)
                log.warning(
                    "assets cannot be read back", destfolderid=folder, detail=str(error), next=f"again in {wait:.0f} s"
                )
        return found, added

    def _in_folder(
        self, folder: str, rows: Sequence[FileRow], taken: Container[int], found: dict[str, Asset]
    ) -> list[FileRow]:
        """Look up ids in a folder, and add the assets to `found`, also those shown before a look-up fails.

        Return the other due rows of the folder, apart from those `taken` by this step.
        """
        more: list[FileRow] = []
        ids = {row.assetid for row in rows if row.assetid is not None}
        # Several names may be searched for in one way.
        names = {like_pattern(name): name for row in rows for name in self._context.names_of_path(row.path)}
        # After a failed listing, searches by name may still be answered.
        few = len(names) <= _BY_NAME_AT_MOST or folder in self._lookup_gates
        for _, name in sorted(names.items())[:_BY_NAME_AT_MOST] if few else []:
            shown = self._observer.first_named_in(folder, name)
            found.update(of_ids(self._sent_metadata.look(shown), ids))
        if ids - set(found):
            # There are many names, or a workflow of the service may have renamed an asset: list the whole folder.
            due = self._ledger.read_back.to_verify(self._clock.now(), _BY_LISTING_AT_MOST, folder=folder)
            more = [row for row in due if row.id not in taken] if len(names) > _BY_NAME_AT_MOST else []
            ids |= {row.assetid for row in more if row.assetid is not None}
            self._shown |= self._ledger.assets.shown(more)
            self._sent_metadata.expect(more)
            listing = self._observer.folder(folder)
            found.update(of_ids(self._sent_metadata.look(listing.all()), ids - set(found)))
            self._lookup_gates.answered(folder)
            if more:
                self._listed[folder] = {}
        return more

    def _record(self, changes: Sequence[Change], now: float) -> None:
        """Record what this step found, in one commit."""
        self._ledger.read_back.apply_all(changes, now)
        # Bind once: binding costs more than a log line that is not written.
        bound = log.bind()
        for row, event, columns, _ in changes:
            if event is Event.CONFIRMED:
                bound.info("verified", path=printable(row.path), assetid=row.assetid)
            elif event is Event.UNSEEN:
                self._meter.doubted()
                bound.warning("in doubt", path=printable(row.path), assetid=row.assetid, detail=columns["detail"])

    def _change(self, row: FileRow, asset: Asset, now: float, *, findable: bool | None, needs_index: bool) -> Change:
        """Return what an asset that a search shows changes; `findable` is None if the index was not asked for it."""
        expected = Expected(_folder_of(row), row.size, row.md5)
        reading, difference = compare(expected, asset)
        columns: dict[str, Any] = {}
        before = self._shown_of(row)
        shown = before._replace(shown_at=before.shown_at or now, absent_boot=None, unprocessed_since=None)
        if findable:
            shown = shown._replace(findable_at=before.findable_at or now)
        if reading is Reading.MOVED:
            columns |= {"asset_folder": asset.folder_id, "drift": "unread"}
            if row.verified_at is not None or asset.folder_id == row.destfolderid:
                # Either it was verified in its folder and moved later, or it has arrived in its destination folder.
                reading = Reading.EQUAL
        if reading in (Reading.DIFFERENT, Reading.MOVED):
            return Change(row, Event.DIFFERENT, columns | different(row, reading, difference), shown)
        if reading is Reading.EQUAL and (findable or not needs_index):
            self._note_name(row, asset)
            columns |= {"verified_at": now, "reason": None, "detail": None} | self._kind_of(row, asset)
            columns |= self._sent_metadata.of_adopted(row)
            return Change(row, Event.CONFIRMED, columns, shown)
        if findable is None and reading is Reading.EQUAL:
            # It was listed with others. It stays due, so that the next step asks the index for it. If the index does
            # not show it, it waits as long as those others: one listing serves all of them again.
            self._listed.setdefault(_folder_of(row), {})[row.id] = self._due(row, now, needs_index=needs_index)
            return Change(row, None, columns, shown)
        columns["due_at"] = self._due(row, now, needs_index=needs_index)
        if reading is Reading.NOT_YET:
            return self._not_processed(Change(row, None, columns | {"detail": difference}, shown), now)
        return Change(row, None, columns | {"detail": _NOT_FINDABLE}, shown)

    def _not_processed(self, change: Change, now: float) -> Change:
        """Count an answered look-up that showed an asset unprocessed; block the file if this has lasted too long."""
        row, _, columns, shown = change
        before, patience = self._shown_of(row).unprocessed, self._unprocessed_after
        seen = Unprocessed.first(now) if before is None else before.again(now, patience)
        shown = (shown or Shown())._replace(
            unprocessed_since=seen.since, unprocessed_looks=seen.looks, unprocessed_last=seen.last
        )
        if not seen.is_never(now, patience):
            return Change(row, None, columns, shown)
        again = "assetsync upload" if row.wanted is Wanted.OUTSIDE else "assetsync retry"
        suspects = self._sent_metadata.suspects(row)
        detail = (
            f"the service has not processed the asset {row.assetid} since {moment(seen.since)}{suspects.sentence};"
            f" assetsync looks every hour whether it has; `{again} --send-again PATH` uploads the file again"
        )
        if suspects.in_metadata and row.wanted is not Wanted.OUTSIDE:
            detail += f"; {SAME_METADATA}: `assetsync retry --send-again --without-metadata PATH` sends it without"
        log.error("blocked", path=printable(row.path), assetid=row.assetid, detail=detail)
        columns |= {"reason": NEVER_PROCESSED, "detail": detail, "due_at": now + LOOK_AGAIN}
        return Change(row, Event.NEVER_PROCESSED, columns, shown)

    def _note_name(self, row: FileRow, asset: Asset) -> None:
        """Record for the folder whether uploads are read back under the names that were sent.

        In a folder that keeps names, an asset without MD5 is a candidate for a doubt only if its name may be the sent
        one.
        """
        folder = row.destfolderid
        # The name of an adopted or moved asset need not be that of an upload.
        if row.id_from != "answer" or asset.folder_id != folder or self._names.get(folder) is False:
            return
        if is_shown_as(self._context.names_of_path(row.path)[0], asset.filename):
            kept = True
        else:
            # The file may have been renamed since the upload.
            names = self._names_of(row)
            kept = any(is_shown_as(name, asset.filename) for name in names)
            if not kept and any(may_be(name, asset.filename) for name in names):
                # A name that is only similar proves nothing.
                return
        if self._names.get(folder) is not kept:
            self._ledger.folder_listings.named(folder, kept=kept)
            self._names[folder] = kept
            if not kept:
                after = "files of the folder are recognised by size and MD5"
                log.warning("the service renames uploads", destfolderid=folder, name=asset.filename, next=after)

    def _kind_of(self, row: FileRow, asset: Asset) -> dict[str, Any]:
        """Return the columns for the kind of an asset, with drift to read if the kind uses other metadata fields."""
        # A search shows the kind doc for an asset that the upload's answer calls other (observed).
        kind = row.filetype or asset.kind
        noted: dict[str, Any] = {} if row.filetype else {"filetype": kind}
        return noted | {"drift": "unread"} if kind and self._misnames(row.path, kind) else noted

    def _names_of(self, row: FileRow) -> set[str]:
        return names_of(self._ledger, row, self._context.longest_name)

    def _not_shown(self, row: FileRow, now: float, *, needs_index: bool) -> tuple[Change, bool]:
        """Count an answered look-up that did not show an id; return whether such look-ups have lasted ten minutes."""
        shown = self._shown_of(row)
        kept = Grace(shown.absent_boot or "", shown.absent_first or 0.0, shown.absent_last or 0.0)
        # Allow gaps of several scheduled pauses: nothing is sent again for this, so that a gap does no harm.
        gap = max(UNSEEN_PATIENCE / 2, 3 * self._longest)
        steady = self._clock.steady()
        grace = kept.answered(steady, steady, self._clock.boot(), gap)
        columns = {
            "due_at": self._due(row, now, needs_index=needs_index, most=UNSEEN_PATIENCE / 4),
            "detail": "missing, and looked for again" if row.reason == MISSING else _NOT_YET,
        }
        shown = shown._replace(absent_boot=grace.boot, absent_first=grace.first, absent_last=grace.last)
        return Change(row, None, columns, shown), grace.over(UNSEEN_PATIENCE)

    def _judge_elsewhere(self, unseen: Sequence[Change], now: float, *, needs_index: bool) -> Iterator[Change]:
        """Look up assets in all folders and judge them there; doubt a file if no folder shows its asset.

        After a failure the rows that are left wait together. After `_EVERYWHERE` seconds they are due at once: the
        look-up of their folder is counted, so that their ten minutes have no gap.
        """
        judged: dict[int, Change] = {}

        def look(row: FileRow) -> None:
            shown = self._observer.named(self._names_of(row))
            asset = next((asset for asset in shown if asset.id == row.assetid), None)
            if asset is not None:
                judged[row.id] = self._change(row, asset, now, findable=False, needs_index=needs_index)
                return
            was = f"the service gave the id {row.assetid} but"
            if row.id_from == "adopted":
                was = f"the asset {row.assetid} was found in the service, which"
            detail = f"{was} has not shown it for {UNSEEN_PATIENCE / 60:.0f} minutes"
            judged[row.id] = Change(row, Event.UNSEEN, {"detail": detail})

        self._everywhere.begin()
        failed = self._everywhere.each({each.row.id: each.row for each in unseen}, look)
        if failed is not None:
            log.warning(
                "an asset cannot be looked up in all folders",
                path=printable(failed[0].path),
                detail=str(failed[1]),
                next=f"again in {self._longest:.0f} s, together with the others",
            )
            detail = f"it cannot be looked up in all folders: {failed[1]}"
            later = {"due_at": self._clock.now() + self._longest, "detail": detail}
        for each in unseen:
            left = each._replace(columns={"due_at": now, "detail": _EVERYWHERE_NEXT})
            yield judged.get(each.row.id) or (left if failed is None else Change(each.row, None, later))


def _waited(row: FileRow, now: float) -> float:
    """Return the seconds since the upload, or since the file was queued if its asset was adopted."""
    return now - (row.uploaded_at or row.queued_at)


def _of_blocked(row: FileRow, asset: Asset | None, now: float) -> Change:
    """Return the change of a file blocked as never processed; an asset processed late is read back like any other."""
    if asset is None or not asset.processed:
        return Change(row, None, {"due_at": now + LOOK_AGAIN})
    return Change(row, Event.RETRIED, GOES_ON | {"due_at": now})


def _folder_of(row: FileRow) -> str:
    return row.asset_folder or row.destfolderid
