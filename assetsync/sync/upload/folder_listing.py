"""List a folder of the service before the first upload into it.

The ledger keeps the listing, so that a folder that was filled by hand, or from a lost ledger, is taken over without
copies. A listing that may lack assets proves nothing: then each file is searched for by its name before it is sent. An
empty one is believed once a listing shows the first file that was sent. The comparison of each file with the listing is
left to `sync.upload.dedupe`, the wait for an unprocessed asset of its name to `sync.upload.decide`.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

import structlog

from assetsync.core.names import may_be, printable
from assetsync.errors import BadAnswer, ServiceError, ServiceUnreachable
from assetsync.ledger.folders import UNLISTED, Hold
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset
from assetsync.sync.context import Context
from assetsync.sync.lookup_gates import HealthCheck, LookupGates, probe
from assetsync.sync.observer import is_broad
from assetsync.sync.upload.facts import Listing
from assetsync.text import moment

log = structlog.get_logger(__name__)

_BATCH = 1000
_LIST_AGAIN = 60.0
_LIST_INCOMPLETE_AGAIN = 20
"""An incomplete listing is made again after so many times the seconds that it took, after a minute at least."""
_LIST_INCOMPLETE_LATEST = 600.0
_MOST_KEPT = 100_000
_QUICK = 15.0
_ROUND = 45.0
"""Seconds in which each of many held folders is asked for a short answer."""
_SLOWER = 3
"""How much slower such a folder may be than one that is not held."""
_TRY_AGAIN = 10.0
_TRIED = f"its listing is tried every {_TRY_AGAIN:.0f} s, and its files are sent once it is answered"
SAMPLES = 40
"""Below this number, and at least half of it, files are searched for by name that a long listing lacks."""
_BY_NAME = "each file is searched for by its name before it is sent"
_BY_NAME_NOT = (
    "a search for the name of this file proves nothing, because it finds too much, or no asset of the folder has shown"
    " yet that names are kept: raise the limit of the service's answers, or `assetsync retry --send-again PATH`"
)
_UNSEEN = (
    "it was sent, and its folder shows nothing so far: does the key's user see the folder? It waits until the folder"
    " shows an asset; `assetsync retry --send-again PATH`"
)
_AGAIN_GROWTH = 6.0
"""Factor by which a file waits longer for each further upload into a folder that shows nothing."""
_SLOW = 30.0
"""Seconds after which a listing that holds up uploads is reported."""
_RUNS = "it is listed before anything is sent there, and its listing has been running since "


class Unlisted(Exception):
    """The folder is being listed, or its listing failed and it is `held`: its files wait; this is not an error."""

    def __init__(self, *, held: bool) -> None:
        super().__init__()
        self.held = held


@dataclass(slots=True)
class _Listed:
    """A listing: its start on the steady clock (`at`), how long it `took`, and unprocessed ids by casefolded name.

    `missed`: assets that neither the last audit nor so far this listing showed, with the time when they were last met ·
    `incomplete`: why assets may be missing, None if these are all · `may_be_cut`: it is long and states no total, and
    no search has shown yet whether it is whole · `searched`: by version that was searched for by name, whether all
    was shown · `is_empty`: it showed nothing, and nothing shows yet whether that can be believed; `first` is
    the version that is sent to find out · `newest`: the number of the newest attempt at its start.
    """

    at: float
    newest: int
    missed: dict[str, float | None]
    incomplete: str | None = None
    may_be_cut: bool = False
    is_empty: bool = False
    first: int | None = None
    searched: dict[int, bool] = field(default_factory=dict)
    unprocessed: dict[str, str] = field(default_factory=dict)
    took: float = 0.0

    @property
    def again_at(self) -> float:
        """When it is made again if it is incomplete, on the steady clock."""
        return self.at + self.took + min(max(_LIST_AGAIN, _LIST_INCOMPLETE_AGAIN * self.took), _LIST_INCOMPLETE_LATEST)

    def like(self, names: Iterable[str]) -> str | None:
        """Return the id of an unprocessed asset that may have one of the names; any id if there are too many."""
        if len(self.unprocessed) >= _MOST_KEPT:
            return next(iter(self.unprocessed.values()))
        return next((found for name in names if (found := self._named(name)) is not None), None)

    def _named(self, name: str) -> str | None:
        found = self.unprocessed.get(name.casefold())
        if found is not None or (name.isascii() and "  " not in name):
            return found
        # The service returns other characters in place of those outside ASCII, and one blank for several (observed).
        return next((assetid for shown, assetid in self.unprocessed.items() if may_be(name, shown)), None)


class FolderListing:
    """Lister of each folder, by the first worker that needs it; meanwhile the others send into other folders."""

    def __init__(
        self,
        context: Context,
        health_check: HealthCheck,
        make_sure: Callable[[], None],
        is_leased: Callable[[int], bool],
        *,
        grace: float,
    ) -> None:
        """Start with no folder listed.

        `make_sure` raises if the identity of the service is not confirmed, `is_leased` returns whether a worker has a
        version; `grace` is that of a doubt in seconds.
        """
        self._make_sure = make_sure
        self._is_leased = is_leased
        self._grace = grace
        self._health_check = health_check
        self._lookup_gates = LookupGates(health_check)
        self._names_of = context.names_of_path
        self._ledger = context.ledger
        self._service = context.service
        self._observer = context.observer
        self._clock = context.clock
        self._lock = threading.Lock()
        # Per folder: the number of requests for a listing when it was last listed, or was found to need no listing.
        self._known: dict[str, int] = {}
        self._listed: dict[str, _Listed] = {}
        # Per folder: the start of the audit after which it was listed again.
        self._after: dict[str, float | None] = {}
        # The folders whose required listing is running, or another one, with its start in steady seconds.
        self._first: dict[str, float] = {}
        self._again: dict[str, float] = {}
        # Per held folder: when `try_held` tried it last, in steady seconds.
        self._tried: dict[str, float] = {}
        self._before_wait = threading.local()

    def closed(self, busy: Collection[str]) -> Collection[str]:
        """Return the folders that take no file now: those whose required listing is running.

        A listing that hangs holds no folder that `try_held` has listed since. Of the `busy` folders, which have files
        under way, those are added whose listing was empty: they take one file at a time.
        """
        with self._lock:
            running = tuple(self._first)
        empty = [folder for folder in busy if folder in self._listed and self._listed[folder].is_empty]
        return [*(folder for folder in running if not self.is_listed(folder)), *empty]

    def is_listed(self, destfolderid: str) -> bool:
        """Return whether `ensure` has nothing to ask of the service."""
        return self._known.get(destfolderid) == self._ledger.folder_listings.asks(destfolderid)

    @contextmanager
    def announcing(self, before_wait: Callable[[], None]) -> Iterator[None]:
        """Call `before_wait` in this thread before the service is asked inside the block, which may take long."""
        self._before_wait.call = before_wait
        try:
            yield
        finally:
            del self._before_wait.call

    def ensure(self, destfolderid: str) -> None:
        """List the folder if it needs a listing; raises ServiceError, and Unlisted while it is not listed."""
        self._make_sure()
        listings = self._ledger.folder_listings
        asks = listings.asks(destfolderid)
        if self._known.get(destfolderid) == asks:
            return
        if listings.needed(destfolderid) or listings.left_unprocessed(destfolderid):
            with self._alone(destfolderid, self._first):
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
        self._ledger.folder_listings.again(destfolderid)
        self.ensure(destfolderid)
        self._after[destfolderid] = audited
        return True

    def shows_of(self, row: FileRow) -> Listing:
        """Return what the listing shows of a file; of unprocessed assets nothing for a file that may have been sent.

        If an unprocessed asset has its name and the listing is older than a minute, list the folder again. Raise the
        errors of `ensure`, and Unlisted while another worker sends the first file into an empty folder.
        """
        listed = self._listed.get(row.destfolderid)
        if listed is None:
            return Listing()
        if listed.is_empty:
            absent = self._ledger.folder_listings.absent(row)
            listed = self._after_first(row, listed, absent)
            held = self._held_while_empty(row, absent) if listed.is_empty else None
            if held is not None:
                return held
        unsure = None
        try:
            if listed.incomplete and self._clock.steady() >= listed.again_at:
                with self._alone(row.destfolderid, self._again):
                    self._list(row.destfolderid)
                listed = self._listed[row.destfolderid]
            if listed.incomplete or listed.may_be_cut:
                unsure = self._search(row, listed)
            # Compare no names if the folder holds no unprocessed asset, which is the usual case.
            if not listed.unprocessed or row.send_again:
                return Listing(unsure=unsure)
            if row.attempts and self._ledger.queue.may_have_left(row.id):
                return Listing(unsure=unsure)
            assetid = self._unprocessed(row.destfolderid, self._names_of(row.path))
        except Unlisted as why:
            if why.held:
                raise
            return Listing(is_running=True)
        since = None if assetid is None else self._ledger.folder_listings.sighted_since(assetid)
        return Listing(assetid, since, unsure=unsure)

    def _after_first(self, row: FileRow, listed: _Listed, absent: list[tuple[int, float]]) -> _Listed:
        """Return the listing for a file that may be sent although it was empty: a newer one if a file was accepted.

        Raise Unlisted if a worker has the first file, and the errors of `ensure`: a folder on which the key's user has
        no right shows nothing, whatever it holds.
        """
        first = listed.first
        if first not in (None, row.id) and self._is_leased(first):
            raise Unlisted(held=False)
        if not self._may_show_more(row, listed, absent):
            with self._lock:
                if listed.first != first:
                    raise Unlisted(held=False)
                # An earlier first file was not sent, or its answer is lost: this one shows what the listing is worth.
                listed.first = row.id
            return listed
        self._known.pop(row.destfolderid, None)
        self.ensure(row.destfolderid)
        return self._listed[row.destfolderid]

    def _may_show_more(self, row: FileRow, listed: _Listed, absent: list[tuple[int, float]]) -> bool:
        """Return whether a listing that was empty may show something now: an asset of ours, or of the file."""
        folder = row.destfolderid
        if self._ledger.folder_listings.accepted(folder) is not None or self._has_shown(folder):
            return True
        return bool(absent) and (self._clock.steady() - listed.at >= _LIST_AGAIN or absent[0][0] > listed.newest)

    def _has_shown(self, folder: str) -> bool:
        """Return whether the folder has shown an asset of ours that is still expected there."""
        return bool(self._ledger.control_samples.read_back_last(folder, 1))

    def _held_while_empty(self, row: FileRow, absent: list[tuple[int, float]]) -> Listing | None:
        """Return what holds a file back while its folder shows nothing; None if the file is sent to find out.

        A folder that holds uploads of a lost ledger may show nothing for a while: there each lost answer would let one
        more file go that the folder holds already.
        """
        may_hold_it = self._ledger.folder_listings.may_lack() and not row.send_again
        if may_hold_it and row.destfolderid in self._ledger.doubts.by_folder():
            return Listing(is_running=True)
        return None if self._may_go_again(row, absent) else Listing(unsure=_UNSEEN)

    def _may_go_again(self, row: FileRow, absent: list[tuple[int, float]]) -> bool:
        """Return whether a file that an empty folder did not show may be sent there again.

        Where the key's user has no right, such a file may have been stored. Of a folder one file goes again, later each
        time: a lone file that was lost would never arrive otherwise. The others wait until the folder shows something.
        """
        if not absent:
            return True
        # The clock may have been set back since.
        passed = abs(self._clock.now() - absent[0][1])
        is_first = self._ledger.folder_listings.first_absent(row.destfolderid) in (row.id, None)
        return is_first and passed >= self._grace * _AGAIN_GROWTH ** (len(absent) - 1)

    def _search(self, row: FileRow, listed: _Listed) -> str | None:
        """Search for a file by name in a folder whose listing may lack it, once in each process.

        Return why it may be there nevertheless, None if that is known not to be so. Raise as `ensure` does.
        """
        folder, listings = row.destfolderid, self._ledger.folder_listings
        # Before the first scan has ended, few files may be queued: each is searched for.
        if listed.may_be_cut and not listed.incomplete and self._ledger.runs.has_scanned():
            with self._alone(folder, self._again):
                self._look_for_some(folder, listed)
        if not (listed.incomplete or listed.may_be_cut):
            return None
        if row.id not in listed.searched:
            with self._held_if_failing(folder):
                self._look_for(row, listed)
        if listed.searched[row.id] and (listed.incomplete is None or listings.keeps_names(folder)):
            return None
        return f"{listed.incomplete or f'the listing of folder {folder} may have been cut'}; {_BY_NAME_NOT}"

    def _look_for_some(self, folder: str, listed: _Listed) -> None:
        """Search for some files by name that a long listing lacks: if one is found, the listing was cut."""
        rows = self._ledger.folder_listings.lacks(folder, SAMPLES)
        for row in rows:
            self._look_for(row, listed)
            if listed.incomplete:
                return
        listed.may_be_cut = False
        if len(rows) >= SAMPLES // 2:
            # Fewer files show too little: the next start lists the folder again.
            self._ledger.folder_listings.made(folder)

    def _look_for(self, row: FileRow, listed: _Listed) -> None:
        """Search for the asset of a file by each name that a release has sent; record what is found."""
        folder, names = row.destfolderid, self._names_of(row.path)
        is_whole = not any(map(is_broad, names))
        for name in sorted(names):
            found = self._observer.named_in(folder, name)
            strangers = self._remember(folder, [*found], listed)
            is_whole = is_whole and found.incomplete is None
            if strangers and listed.incomplete is None:
                lacked = printable(strangers[0].filename.encode())
                listed.incomplete = f"the listing of folder {folder} is incomplete: it lacks {lacked}"
                self._report_incomplete(folder, listed.incomplete)
        listed.searched[row.id] = is_whole

    def _report_incomplete(self, folder: str, why: str) -> None:
        self._ledger.folder_listings.unproven(folder)
        log.warning("not listed completely", destfolderid=folder, detail=why, next=_BY_NAME)

    def _unprocessed(self, destfolderid: str, names: Sequence[str]) -> str | None:
        """Return the id of an unprocessed asset that may be the file that is or was sent under one of these names.

        If there is one and the listing is older than a minute, list the folder again.
        """
        listed = self._listed[destfolderid]
        if listed.like(names) is None:
            return None
        if self._clock.steady() - listed.at >= _LIST_AGAIN:
            with self._alone(destfolderid, self._again):
                if self._clock.steady() - self._listed[destfolderid].at >= _LIST_AGAIN:
                    self._list(destfolderid)
        return self._listed[destfolderid].like(names)

    def try_held(self) -> None:
        """List one folder that is held because it could not be listed: the folder that was tried longest ago.

        The hold ends soon after the service lists the folder again, however long `ensure` waits before its next try. A
        listing that takes longer than `_QUICK` seconds is given up here; then only `ensure`, which waits for any
        listing, ends the hold.
        """
        # A folder whose listing only takes long is left out: a second listing would slow the service further.
        held = [folder for folder, why in self._ledger.reports.unlisted().items() if not why.startswith(_RUNS)]
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
            if _ROUND / len(held) < _QUICK:
                # If many folders hang, one of them that answers again, as fast as others, is found within a minute.
                self._health_check.ask(held)
                patience = max(_ROUND / len(held), _SLOWER * (self._clock.steady() - now))
                probe(self._service, folder, min(_QUICK, patience))
            self._known[folder] = self._list(folder, within=_QUICK)
        except ServiceError as error:
            log.debug("still cannot be listed", destfolderid=folder, detail=str(error))
            # The next try waits for as long as this one took, too: a large listing loads the service.
            ended = self._clock.steady()
            self._tried[folder] = ended + min(_QUICK, ended - now)
            return
        self._lookup_gates.answered(folder)
        self._ledger.queue.release_unlisted(folder)
        log.info("can be listed again", destfolderid=folder)

    def report_slow(self) -> None:
        """Report a folder as held while its required listing has been running for more than half a minute."""
        steady, now = self._clock.steady(), self._clock.now()
        with self._lock:
            late = {folder: steady - began for folder, began in self._first.items() if steady - began > _SLOW}
            for folder in late.keys() - self._ledger.reports.holds(now).keys() if late else ():
                detail = f"{_RUNS}{moment(now - late[folder])}"
                self._ledger.queue.hold_folder(folder, Hold(UNLISTED, detail, now, now))
                after = "it is released when the listing ends"
                log.warning("folder held back", destfolderid=folder, detail=detail, next=after)

    @contextmanager
    def _alone(self, destfolderid: str, listing: dict[str, float]) -> Iterator[None]:
        with self._lock:
            if destfolderid in listing:
                raise Unlisted(held=False)
            listing[destfolderid] = self._clock.steady()
        try:
            with self._held_if_failing(destfolderid):
                try:
                    yield
                finally:
                    with self._lock:
                        # From now on it is not slow: a report must not replace the hold after a failure.
                        listing[destfolderid] = float("inf")
                    if self._ledger.reports.unlisted().get(destfolderid, "").startswith(_RUNS):
                        self._ledger.queue.release_unlisted(destfolderid)
        finally:
            with self._lock:
                del listing[destfolderid]

    @contextmanager
    def _held_if_failing(self, destfolderid: str) -> Iterator[None]:
        """Hold the folder if the service does not answer inside the block; raise Unlisted then, or ServiceError."""
        getattr(self._before_wait, "call", lambda: None)()
        began = self._clock.steady()
        try:
            yield
            if destfolderid in self._lookup_gates:
                self._ledger.queue.release_unlisted(destfolderid)
                self._lookup_gates.answered(destfolderid)
        except ServiceError as error:
            listed = self._listed.get(destfolderid)
            if listed is not None and listed.at > began:
                # `try_held` has listed it since.
                raise Unlisted(held=False) from error
            # Raises the error if the service answers for no other folder either.
            wait = self._lookup_gates.put_off(destfolderid, error, self._clock.steady() - began)
            detail = f"it is listed before anything is sent there, and that fails: {error}"
            now = self._clock.now()
            self._ledger.queue.hold_folder(destfolderid, Hold(UNLISTED, detail, now, now + wait))
            log.warning("folder held back", destfolderid=destfolderid, detail=detail, next=_TRIED)
            raise Unlisted(held=True) from error

    def _list(self, destfolderid: str, *, within: float | None = None) -> int:
        """List the folder, and record the assets that no row owns and the assets that were moved there.

        Return the number of requests for a listing at its start. Raise ServiceError, also if it takes longer than
        `within` seconds, or if it is empty although the folder accepted a file.
        """
        listings, before = self._ledger.folder_listings, self._listed.get(destfolderid)
        asks = listings.asks(destfolderid)
        missed = listings.missed(destfolderid, _MOST_KEPT)
        listed = _Listed(self._clock.steady(), self._ledger.doubts.newest_attempt(), missed)
        if before is not None:
            listed.first = before.first
            listed.searched = before.searched if len(before.searched) < _MOST_KEPT else {}
        listing = self._observer.folder(destfolderid, patience=within)
        shown = self._in_time(listing, within)
        while batch := list(islice(shown, _BATCH)):
            self._remember(destfolderid, batch, listed)
        listed.took = self._clock.steady() - listed.at
        listed.incomplete = listing.incomplete
        listed.may_be_cut = listing.may_be_cut
        if not (listing.count or self._has_shown(destfolderid)):
            accepted = listings.accepted(destfolderid)
            if accepted is not None:
                raise BadAnswer(
                    f"the listing of folder {destfolderid} is empty, and {printable(accepted)} was stored there",
                    hint="may the key's user see the folder? If the asset was deleted there,"
                    " `assetsync retry --send-again PATH`",
                )
            listed.is_empty = True
        if listed.incomplete is None:
            listings.not_there(listed.missed)
        self._listed[destfolderid] = listed
        if listed.incomplete is not None:
            self._report_incomplete(destfolderid, listed.incomplete)
        elif listed.is_empty or listed.may_be_cut:
            # It is not believed yet.
            listings.unproven(destfolderid)
        elif listings.asks(destfolderid) == asks:
            # Otherwise another listing was requested during this one.
            listings.made(destfolderid)
        return asks

    def _in_time(self, assets: Iterable[Asset], within: float | None) -> Iterator[Asset]:
        began = self._clock.steady()
        for asset in assets:
            if within is not None and self._clock.steady() - began > within:
                raise ServiceUnreachable(f"the listing of the folder has not ended after {within:.0f} s")
            yield asset

    def _remember(self, destfolderid: str, batch: list[Asset], listed: _Listed) -> list[Asset]:
        """Record assets that the folder shows; return those that nothing has shown before."""
        doubts, known_assets = self._ledger.doubts, self._ledger.assets
        for path in self._ledger.metadata_drift.met(destfolderid, batch):
            log.info("moved in the service", path=printable(path), destfolderid=destfolderid)
        owned = doubts.owned([asset.id for asset in batch])
        strangers = [asset for asset in batch if asset.id not in owned]
        known = {*known_assets.first_seen([asset.id for asset in strangers])} if listed.may_be_cut else set()
        known_assets.record(strangers, doubts.newest_attempt(), self._clock.now())
        # An asset of an earlier version is no other file's, also if the service never processes it.
        earlier = known_assets.history([asset.id for asset in strangers if not asset.processed])
        for asset in strangers:
            listed.missed.pop(asset.id, None)
            if not asset.processed and asset.id not in earlier and len(listed.unprocessed) < _MOST_KEPT:
                listed.unprocessed[asset.filename.casefold()] = asset.id
        return [asset for asset in strangers if asset.id not in known]
