"""List a folder of the service before the first upload into it.

The ledger keeps the listing, so that a folder that was filled by hand, or from a lost ledger, is taken over without
copies. The comparison of each file with the listing is left to `sync.upload.dedupe`, the wait for an unprocessed asset
of its name to `sync.upload.decide`.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice

import structlog

from assetsync.core.names import may_be, printable, sent_name
from assetsync.errors import ServiceError, ServiceUnreachable
from assetsync.ledger.folders import UNLISTED, Hold
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import every
from assetsync.sync.context import Context
from assetsync.sync.folder_backoff import FolderBackoff, HealthCheck
from assetsync.sync.lookups import CheckedListing
from assetsync.sync.upload.facts import Listing
from assetsync.text import moment

log = structlog.get_logger(__name__)

_BATCH = 1000
_LIST_AGAIN = 60.0
_MOST_KEPT = 100_000
_QUICK = 15.0
_TRY_AGAIN = 10.0
_TRIED = f"its listing is tried every {_TRY_AGAIN:.0f} s, and its files are sent once it is answered"
_SLOW = 30.0
"""Seconds after which a listing that holds up uploads is reported."""


class Unlisted(Exception):
    """The folder is being listed, or its listing failed and it is `held`: its files wait; this is not an error."""

    def __init__(self, *, held: bool) -> None:
        super().__init__()
        self.held = held


class ListingNeeded(Exception):
    """A file needs a listing, and the thread may not wait for one: not an error, another thread prepares the file."""


@dataclass(slots=True)
class _Listed:
    """A listing: its start on the steady clock (`at`), and the ids of unprocessed assets by casefolded name.

    `missed`: assets that neither the last audit nor so far this listing showed, with the time when they were last met.
    """

    at: float
    missed: dict[str, float | None]
    unprocessed: dict[str, str] = field(default_factory=dict)

    def like(self, name: str) -> str | None:
        """Return the id of an unprocessed asset that may have been sent under a name; any id if there are too many."""
        if len(self.unprocessed) >= _MOST_KEPT:
            return next(iter(self.unprocessed.values()))
        found = self.unprocessed.get(name.casefold())
        if found is not None or (name.isascii() and "  " not in name):
            return found
        # The service returns other characters in place of those outside ASCII, and one blank for several (observed).
        return next((assetid for shown, assetid in self.unprocessed.items() if may_be(name, shown)), None)


class FolderListing:
    """Lister of each folder, by the first worker that needs it; meanwhile the others send into other folders."""

    def __init__(self, context: Context, health_check: HealthCheck, make_sure: Callable[[], None]) -> None:
        """Start with no folder listed; `make_sure` raises if the identity of the service is not confirmed."""
        self._make_sure = make_sure
        self._folder_backoff = FolderBackoff(health_check)
        self._checked_listing = CheckedListing(context)
        self._ledger = context.ledger
        self._service = context.service
        self._clock = context.clock
        self._lock = threading.Lock()
        # Per folder: the number of requests for a listing when it was last listed, or was found to need no listing.
        self._known: dict[str, int] = {}
        self._listed: dict[str, _Listed] = {}
        # Per folder: the start of the audit after which it was listed again.
        self._after: dict[str, float | None] = {}
        self._first: set[str] = set()
        self._again: set[str] = set()
        # Per folder whose required listing is running: its start, in steady seconds.
        self._began: dict[str, float] = {}
        # Those of them that are reported as held.
        self._slow: set[str] = set()
        # Per held folder: when `try_held` tried it last, in steady seconds.
        self._tried: dict[str, float] = {}
        self._hurried: int | None = None

    @property
    def being_listed(self) -> Collection[str]:
        """The folders whose required listing is running, so that no file can be sent into them.

        A listing that hangs holds no folder that `try_held` has listed since.
        """
        with self._lock:
            running = tuple(self._first)
        return [folder for folder in running if not self.is_listed(folder)]

    def is_listed(self, destfolderid: str) -> bool:
        """Return whether `ensure` has nothing to ask of the service."""
        return self._known.get(destfolderid) == self._ledger.folder_listings.asks(destfolderid)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Let no listing begin in the calling thread inside the block: a file that needs one raises ListingNeeded."""
        self._hurried = threading.get_ident()
        try:
            yield
        finally:
            self._hurried = None

    def _expect_time(self) -> None:
        if self._hurried == threading.get_ident():
            raise ListingNeeded

    def ensure(self, destfolderid: str) -> None:
        """List the folder if it needs a listing; raises ServiceError, and Unlisted while it is not listed."""
        self._make_sure()
        listings = self._ledger.folder_listings
        asks = listings.asks(destfolderid)
        if self._known.get(destfolderid) == asks:
            return
        self._expect_time()
        if listings.needed(destfolderid) or listings.left_unprocessed(destfolderid):
            with self._alone(destfolderid, self._first), self._reported_if_slow(destfolderid):
                if not self.is_listed(destfolderid):
                    asks = self._list(destfolderid)
        if destfolderid in self._ledger.reports.unlisted():
            self._ledger.queue.release_unlisted(destfolderid)
        self._known[destfolderid] = asks

    def list_after_audit(self, destfolderid: str) -> bool:
        """List a folder again after its newest audit, unless that was done before; return whether it was done now.

        An asset that the audit did not meet may still be there: an audit shows only processed assets, and a clock may
        have been set back since. Raises the errors of `ensure`.
        """
        audited = self._ledger.audits.last_at(destfolderid)
        if self._after.get(destfolderid) == audited:
            return False
        self._expect_time()
        self._ledger.folder_listings.again(destfolderid)
        self.ensure(destfolderid)
        self._after[destfolderid] = audited
        return True

    def shows_of(self, row: FileRow) -> Listing:
        """Return what the listing shows of a file; nothing for a file that may have been sent before.

        If an unprocessed asset has its name and the listing is older than a minute, list the folder again. Raise the
        errors of `ensure`.
        """
        listed = self._listed.get(row.destfolderid)
        # Compare no names if the folder holds no unprocessed asset, which is the usual case.
        if listed is None or not listed.unprocessed or row.send_again:
            return Listing()
        if row.attempts and self._ledger.queue.may_have_left(row.id):
            return Listing()
        try:
            assetid = self._unprocessed(row.destfolderid, sent_name(row.path.rpartition(b"/")[2]))
        except Unlisted as why:
            if why.held:
                raise
            return Listing(is_running=True)
        return Listing(assetid, None if assetid is None else self._ledger.folder_listings.sighted_since(assetid))

    def _unprocessed(self, destfolderid: str, name: str) -> str | None:
        """Return the id of an unprocessed asset that may be the file to be sent as `name`.

        If there is one and the listing is older than a minute, list the folder again.
        """
        listed = self._listed[destfolderid]
        if listed.like(name) is None:
            return None
        if self._clock.steady() - listed.at >= _LIST_AGAIN:
            self._expect_time()
            with self._alone(destfolderid, self._again):
                if self._clock.steady() - self._listed[destfolderid].at >= _LIST_AGAIN:
                    self._list(destfolderid)
        return self._listed[destfolderid].like(name)

    def try_held(self) -> None:
        """List one folder that is held because it could not be listed: the folder that was tried longest ago.

        The hold ends soon after the service lists the folder again, however long `ensure` waits before its next try. A
        listing that takes longer than `_QUICK` seconds is given up here; then only `ensure`, which waits for any
        listing, ends the hold.
        """
        # A folder whose listing only takes long is left out: a second listing would slow the service further.
        held = [folder for folder in self._ledger.reports.unlisted() if folder not in self._slow]
        self._tried = {folder: self._tried.get(folder, 0.0) for folder in held}
        if not held:
            return
        folder, tried_at = min(self._tried.items(), key=lambda item: item[1])
        now = self._clock.steady()
        if now - tried_at < _TRY_AGAIN:
            return
        self._tried[folder] = now
        try:
            self._make_sure()
            self._known[folder] = self._list(folder, within=_QUICK)
        except ServiceError as error:
            log.debug("still cannot be listed", destfolderid=folder, detail=str(error))
            # The next try waits for as long as this one took, too: a large listing loads the service.
            ended = self._clock.steady()
            self._tried[folder] = ended + min(_QUICK, ended - now)
            return
        self._folder_backoff.answered(folder)
        self._ledger.queue.release_unlisted(folder)
        log.info("can be listed again", destfolderid=folder)

    def report_slow(self) -> None:
        """Report a folder as held while its required listing has been running for more than half a minute."""
        steady, now = self._clock.steady(), self._clock.now()
        with self._lock:
            late = {folder: steady - began for folder, began in self._began.items() if steady - began > _SLOW}
            for folder in late.keys() - self._slow - self._ledger.reports.holds(now).keys() if late else ():
                since = moment(now - late[folder])
                detail = f"it is listed before anything is sent there, and its listing has been running since {since}"
                self._ledger.queue.hold_folder(folder, Hold(UNLISTED, detail, now, now))
                self._slow.add(folder)
                log.warning(
                    "folder held back", destfolderid=folder, detail=detail, next="it is released when the listing ends"
                )

    @contextmanager
    def _reported_if_slow(self, destfolderid: str) -> Iterator[None]:
        """Let `report_slow` report the listing while it runs; its end ends the report."""
        with self._lock:
            self._began[destfolderid] = self._clock.steady()
        try:
            yield
        finally:
            with self._lock:
                del self._began[destfolderid]
                was_reported = destfolderid in self._slow
                self._slow.discard(destfolderid)
            if was_reported:
                self._ledger.queue.release_unlisted(destfolderid)
                log.info("listing ended", destfolderid=destfolderid)

    @contextmanager
    def _alone(self, destfolderid: str, listing: set[str]) -> Iterator[None]:
        with self._lock:
            if destfolderid in listing:
                raise Unlisted(held=False)
            listing.add(destfolderid)
        began = self._clock.steady()
        try:
            yield
            if destfolderid in self._folder_backoff:
                self._ledger.queue.release_unlisted(destfolderid)
                self._folder_backoff.answered(destfolderid)
        except ServiceError as error:
            listed = self._listed.get(destfolderid)
            if listed is not None and listed.at > began:
                # `try_held` has listed it since.
                raise Unlisted(held=False) from error
            # Raises the error if the service answers for no other folder either.
            wait = self._folder_backoff.put_off(destfolderid, error, self._clock.steady() - began)
            detail = f"it is listed before anything is sent there, and that fails: {error}"
            now = self._clock.now()
            self._ledger.queue.hold_folder(destfolderid, Hold(UNLISTED, detail, now, now + wait))
            log.warning("folder held back", destfolderid=destfolderid, detail=detail, next=_TRIED)
            raise Unlisted(held=True) from error
        finally:
            with self._lock:
                listing.discard(destfolderid)

    def _list(self, destfolderid: str, *, within: float | None = None) -> int:
        """List the folder, and record the assets that no row owns and the assets that were moved there.

        Return the number of requests for a listing at its start. Raise ServiceError, also if it takes longer than
        `within` seconds.
        """
        listings = self._ledger.folder_listings
        asks = listings.asks(destfolderid)
        listed = _Listed(self._clock.steady(), listings.missed(destfolderid, _MOST_KEPT))
        # Some releases show unprocessed assets only on request (interface section 4.1).
        unprocessed = SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True, available="0", patience=within)
        listing = self._checked_listing.listing(destfolderid, patience=within)
        shown = self._in_time(chain(listing, every(self._service.search, unprocessed)), within)
        assets = (asset for asset in shown if asset.folder_id == destfolderid)
        while batch := list(islice(assets, _BATCH)):
            self._remember(destfolderid, batch, listed)
        listings.not_there(listed.missed)
        self._listed[destfolderid] = listed
        if listings.asks(destfolderid) == asks:
            # Otherwise another listing was requested during this one.
            listings.made(destfolderid)
        return asks

    def _in_time(self, assets: Iterator[Asset], within: float | None) -> Iterator[Asset]:
        began = self._clock.steady()
        for asset in assets:
            if within is not None and self._clock.steady() - began > within:
                raise ServiceUnreachable(f"the listing of the folder has not ended after {within:.0f} s")
            yield asset

    def _remember(self, destfolderid: str, batch: list[Asset], listed: _Listed) -> None:
        doubts, sightings = self._ledger.doubts, self._ledger.sightings
        for path in self._ledger.metadata_drift.met(destfolderid, batch):
            log.info("moved in the service", path=printable(path), destfolderid=destfolderid)
        owned = doubts.owned([asset.id for asset in batch])
        strangers = [asset for asset in batch if asset.id not in owned]
        sightings.record(strangers, doubts.newest_attempt(), self._clock.now())
        # An asset of an earlier version is no other file's, also if the service never processes it.
        earlier = sightings.history([asset.id for asset in strangers if not asset.processed])
        for asset in strangers:
            listed.missed.pop(asset.id, None)
            if not asset.processed and asset.id not in earlier and len(listed.unprocessed) < _MOST_KEPT:
                listed.unprocessed[asset.filename.casefold()] = asset.id
