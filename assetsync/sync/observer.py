"""Ask the service which assets there are, and judge whether an answer is whole and believed.

`Observer` has the questions. `Everywhere` decides how all folders are searched: what a service refuses is asked in
another form. `InTurn` decides which of several look-ups in all folders are made.

A search may return nothing at all, while the service's database is restored or after the key has lost a right. That
looks like a folder in which nothing arrived, and files in doubt would be sent a second time. So if a folder shows none
of our assets, some of those read back from it are searched for in all folders. A listing of another folder, and one
that is cut, prove no absence either. Choosing the control samples is left to `ledger.read_back`, whether an answer was
cut to `service.paging`, and what a found asset means to the callers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Literal, TypeVar

import structlog

from assetsync.core.names import LONGEST_NAME, sent_names
from assetsync.errors import BadAnswer, ServiceError, ServiceRefused
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.read_back import KnownAsset
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, Searches, SearchRequest
from assetsync.service.paging import Extent, WholeSearch, every
from assetsync.service.search import ids_query, like_pattern

log = structlog.get_logger(__name__)

_FEW_LETTERS = 3
_ATTEMPTS = 20
_ASKED_AGAIN = 24 * 3600.0
_FAILED_AT_MOST = 1000
"""Number of failed look-ups in all folders that are remembered."""
_NOT_THE_QUESTION = "errorCode.sqlError"
"""The code of an answer while the database is down (`search-database-down`): another question gets it, too."""
_QUESTION = "errorCode.expressionError"
"""The code with which searches without `folderid` are refused if the key's user is no administrator (observed)."""


class Everywhere:
    """Opens searches; one without `folderid` is asked in the first form that the service does not refuse.

    The forms are without `folderid`, in the database with an empty one, and with the mapped folders. A key whose user
    is no administrator is refused the first (observed). An empty one shows in the database all that the user may see,
    and in the index nothing (observed). A refused form is asked again after a day. Shared by all threads.
    """

    def __init__(self, service: Searches, steady: Callable[[], float], folders: Sequence[str]) -> None:
        """Start with nothing refused; `folders` are those that are mapped, `steady` returns steady seconds."""
        self._service = service
        self._steady = steady
        mapped = [",".join(folders)] if folders else []
        self._forms: dict[bool, Sequence[str | None]] = {True: (None, "", *mapped), False: (None, *mapped)}
        # Refused forms, by whether they search the database: since when, in steady seconds, and the answer.
        self._refused: dict[tuple[bool, str | None], tuple[float, ServiceRefused]] = {}

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open a search, as `model.Service.search`. Raise ServiceRefused if every form is refused."""
        if request.folderid is not None:
            with self._service.search(request) as assets:
                yield assets
            return
        with ExitStack() as stack:
            yield self._in_first_form(request, stack)

    def is_narrowed(self, where: Literal["database", "index"]) -> bool:
        """Return whether the service refuses searches without `folderid` there."""
        return self._is_refused((where == "database", None))

    def refuses_index(self) -> bool:
        """Return whether the service refuses every search through its index."""
        return all(self._is_refused((False, form)) for form in self._forms[False])

    def _in_first_form(self, request: SearchRequest, stack: ExitStack) -> Iterator[Asset]:
        met: dict[tuple[bool, str | None], ServiceRefused] = {}
        for form in self._forms[request.dbdirect]:
            key = request.dbdirect, form
            if self._is_refused(key):
                continue
            try:
                assets = stack.enter_context(self._service.search(replace(request, folderid=form)))
                first = [*islice(assets, 1)]
            except ServiceRefused as error:
                if error.code == _NOT_THE_QUESTION:
                    raise
                met[key] = error
                continue
            self._note(met)
            return chain(first, assets)
        if all(error.code == _QUESTION for error in met.values()):
            self._note(met)
        raise [*met.values(), *(answer for key, (_, answer) in self._refused.items() if key[0] is request.dbdirect)][-1]

    def _is_refused(self, key: tuple[bool, str | None]) -> bool:
        since = self._refused.get(key)
        return since is not None and self._steady() - since[0] < _ASKED_AGAIN

    def _note(self, met: dict[tuple[bool, str | None], ServiceRefused]) -> None:
        for (dbdirect, form), error in met.items():
            self._refused[dbdirect, form] = self._steady(), error
            log.warning(
                "a search in all folders is refused",
                where="database" if dbdirect else "index",
                folderid="not sent" if form is None else form,
                detail=str(error),
                next="all folders are searched in another way; this one is tried again in a day",
            )


T = TypeVar("T")


class InTurn:
    """Look-ups in all folders, one after the other; used by one thread at a time.

    The first failure ends them, because the next may hang, too. Those that failed come last the next time, the oldest
    failure first, so that they hold up no other. After some seconds none begins: what is left comes in the next round.
    """

    def __init__(self, steady: Callable[[], float], seconds: float) -> None:
        """Start with no failure; in a round, look-ups begin within so many `seconds` after the first."""
        self._steady = steady
        self._seconds = seconds
        # The end of this round, in steady seconds; None before its first look-up.
        self._until: float | None = None
        # The oldest failure first.
        self._failed: dict[int, None] = {}

    def begin(self) -> None:
        """Begin a round."""
        self._until = None

    def each(self, items: Mapping[int, T], look: Callable[[T], None]) -> tuple[T, ServiceError] | None:
        """Call `look` for each item; return the item and the error of the failure, None without one."""
        places = {number: place for place, number in enumerate(self._failed)}
        for number in sorted(items, key=lambda number: places.get(number, -1)):
            if self._until is None:
                self._until = self._steady() + self._seconds
            elif self._steady() >= self._until:
                break
            self._failed.pop(number, None)
            try:
                look(items[number])
            except ServiceError as error:
                self._failed[number] = None
                if len(self._failed) > _FAILED_AT_MOST:
                    del self._failed[next(iter(self._failed))]
                return items[number], error
        return None


def names_of(ledger: Ledger, row: FileRow, longest: int = LONGEST_NAME) -> set[str]:
    """Return the names that an asset of a version may have: those that were sent, and those of its file.

    `longest`: the number of characters to which names are cut.
    """
    sent = {attempt.sent_name for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS)}
    return sent.union(sent_names(row.path.rpartition(b"/")[2], longest))


def of_ids(assets: Iterable[Asset], ids: Collection[str]) -> dict[str, Asset]:
    """Return the assets that have one of the ids, by id, without columns: none is needed to compare them.

    Stop reading, and asking for pages, once all are shown. Aliases are left out: they have the id of an asset that lies
    in another folder.
    """
    found: dict[str, Asset] = {}
    for asset in assets if ids else ():
        if asset.id in ids and not asset.is_alias:
            found[asset.id] = asset.bare()
            if len(found) == len(ids):
                break
    return found


def is_broad(name: str) -> bool:
    """Return whether a name leaves little to search for: most of its characters match others in a pattern."""
    pattern = like_pattern(name)
    stem = pattern.rpartition(".")[0] or pattern
    return not {"%", "_"}.isdisjoint(stem) and sum(letter not in "%_" for letter in stem) < _FEW_LETTERS


LONG = 500
"""Rows from which on a listing without a total may have been cut: the least limit that a service is known to have."""

PARTS = ("0", None)
"""The values of `available` in one look-up (interface section 4.1): some releases show unprocessed assets only on
request. These come first, so that an asset that is processed meanwhile is shown once at least."""

_CUT_FIX = "the service limits its answers: raise that limit there, or move files to more folders"
_BATCH = 500
_SAMPLES = 3
_LOOKED_AT = 20


class Observer:
    """The questions; shared by all threads. Each raises ServiceError if the service does not answer."""

    def __init__(self, service: Searches, ledger: Ledger, now: Callable[[], float]) -> None:
        """Take the searches of the service, and a clock in seconds since the epoch."""
        self.service = service
        self.ledger = ledger
        self.now = now

    def folder(self, folder: str, *, checked: bool = True, patience: float | None = None) -> "FolderContents":
        """Ask for all assets of a folder; `patience` as in `SearchRequest`."""
        request = SearchRequest("%", folderid=folder, dbdirect=True, patience=patience)
        return FolderContents(self, request, checked=checked)

    def part_of_folder(self, folder: str, available: str | None) -> "FolderContents":
        """Ask for one of the two `PARTS` of a folder; in some releases it holds all assets."""
        return FolderContents(self, SearchRequest("%", folderid=folder, dbdirect=True), parts=[available])

    def named_in(self, folder: str, name: str) -> "FolderContents":
        """Ask for the assets of a folder that the service shows under a name, however it writes the name."""
        return FolderContents(self, SearchRequest(like_pattern(name), folderid=folder, dbdirect=True))

    def first_named_in(self, folder: str, name: str) -> Iterator[Asset]:
        """Yield what one request for these assets shows: not the unprocessed ones in some releases."""
        return every(self.service.search, SearchRequest(like_pattern(name), folderid=folder, dbdirect=True))

    def ids(self, ids: Sequence[str], look: Callable[[Iterable[Asset]], Iterable[Asset]] = iter) -> dict[str, Asset]:
        """Return the assets that the index shows for these ids in any folder, without columns.

        `look` passes the assets on with their columns.
        """
        # maxrows counts per kind, and an asset may come twice (observed).
        with self.service.search(SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))) as assets:
            return of_ids(look(assets), set(ids))

    def named(self, names: Iterable[str]) -> Iterator[Asset]:
        """Yield the assets that the database shows under these names in any folder (interface section 4.1).

        If several names are so broad that each matches nearly everything, list everything once.
        """
        distinct = set(names)
        if sum(map(is_broad, distinct)) > 1:
            yield from self.everything()
            return
        for pattern in sorted(map(like_pattern, distinct)):
            yield from self._everywhere(pattern)

    def everything(self) -> Iterator[Asset]:
        """Yield every asset that the database of the service shows."""
        return self._everywhere("%")

    def _everywhere(self, pattern: str) -> Iterator[Asset]:
        request = SearchRequest(pattern, dbdirect=True, showrenditions=False)
        for available in PARTS:
            extent = Extent()
            yield from every(self.service.search, replace(request, available=available), extent=extent)
            if extent.stated > extent.rows:
                shown = f"{extent.rows:,} of {extent.stated:,}"
                raise BadAnswer(f"the search in all folders is cut: it holds {shown} assets")

    def folder_of_one(self, known: Sequence[KnownAsset], patience: float | None = None) -> str | None:
        """Return the folder in which the service shows one of these assets; None if it shows none. Search by name.

        Each search is given up after `patience` seconds (by default, after the client's time-out).
        """
        wanted: dict[str, set[str]] = {}
        for path, name, assetid in known:
            # The asset has the name that was sent, even if the file was renamed since.
            for sent in (name,) if name else sent_names(path.rpartition(b"/")[2]):
                wanted.setdefault(like_pattern(sent), set()).add(assetid)
        # Fewest wildcards first: little of a name that is not ASCII is certain, and the rest matches many other assets.
        for pattern in sorted(wanted, key=lambda pattern: pattern.count("%")):
            request = SearchRequest(searchfor=pattern, dbdirect=True, patience=patience)
            found = (asset.folder_id for asset in every(self.service.search, request) if asset.id in wanted[pattern])
            folder = next(found, None)
            if folder is not None:
                return folder
        return None

    def expect_one(
        self, known: Sequence[KnownAsset], where: str, *, hint: str, patience: float | None = None
    ) -> str | None:
        """Return the folder in which the service, which shows none of our assets in `where`, shows one of `known`.

        Raise BadAnswer if it shows none of them in any folder. If no asset is `known`, nothing is expected: return
        None. `patience` as in `folder_of_one`.
        """
        folder = self.folder_of_one(known, patience)
        if known and folder is None:
            raise BadAnswer(
                f"the service shows nothing of ours in {where}, nor anywhere the asset {known[0].assetid} that it"
                " showed before: nothing is concluded from that",
                hint=hint,
            )
        return folder

    def shown_sample(self, since: Sequence[int]) -> int:
        """Return the attempt id of an accepted upload that the service shows, 0 if it shows none that was searched for.

        `since` holds attempts; a sample that began after an attempt is newer than its doubt. The sample began after the
        last of them if there is such an upload, else after the first, as late as possible. It is searched for by name
        in all folders, because people may have moved it. A search that fails shows nothing: the round then has no
        control sample.
        """
        if not since:
            return 0
        control_samples = self.ledger.control_samples
        samples = control_samples.sent_after(max(since), _LOOKED_AT)
        samples = samples or control_samples.sent_after(min(since), _LOOKED_AT, newest=True)
        for attempt, asset in [each for each in samples if not is_broad(each[1].sent_name or "")][:_SAMPLES]:
            try:
                if self.folder_of_one([asset]) is not None:
                    return attempt
            except ServiceError as error:
                log.debug("the control sample cannot be looked for", detail=str(error))
                if not isinstance(error, BadAnswer | ServiceRefused):
                    # The next search would fail as well, perhaps after a time-out.
                    return 0
        return 0


class FolderContents:
    """The assets that the database shows for a request about one folder (interface section 4.1); read it once.

    Releases that do not tell processed assets from others show each asset in both `PARTS`. Renditions are no assets.

    Raise BadAnswer if there are rows, and none of them is of the folder. With `checked`, an answer that shows none of
    our assets is compared with those that were read back from the folder before. Raise BadAnswer at the end if the
    service shows none of these in any folder. If it shows nothing, raise it if one is shown nowhere, or may be in this
    folder. An answer with other assets that lacks one is incomplete.
    """

    def __init__(
        self,
        observer: Observer,
        request: SearchRequest,
        *,
        checked: bool = False,
        parts: Sequence[str | None] = PARTS,
    ) -> None:
        """Take a request that names one folder."""
        self._observer = observer
        self._request = replace(request, showrenditions=False)
        self._folder = request.folderid or ""
        self._checked = checked
        self._parts = parts
        self._why: str | None = None
        self.count = 0
        """Number of assets so far."""
        self.may_be_cut = False
        """After the iteration: whether the answer is long and states no total, so that it may have been cut."""

    @property
    def incomplete(self) -> str | None:
        """After the iteration: a sentence that states why assets may be missing, None if these are all."""
        return None if self._why is None else f"the listing of folder {self._folder} is incomplete: {self._why}"

    def __iter__(self) -> Iterator[Asset]:
        batch: list[str] = []
        owned = self._observer.ledger.doubts.owned
        is_ours = not self._checked
        for available in self._parts:
            for asset in self._part(available):
                if not is_ours:
                    batch.append(asset.id)
                    if len(batch) >= _BATCH:
                        is_ours, batch = bool(owned(batch)), []
                yield asset
        if self._why is None and not (is_ours or owned(batch)):
            self._compare_with_samples()

    def all(self) -> Iterator[Asset]:
        """Yield the assets; raise BadAnswer at the end, too, if some may be missing."""
        yield from self
        if self.incomplete is not None:
            raise BadAnswer(self.incomplete, hint=_CUT_FIX)

    def _part(self, available: str | None) -> Iterator[Asset]:
        """Yield the assets of the folder for this value of the parameter."""
        observer, began = self._observer, self._observer.now()
        search = WholeSearch(
            observer.service.search,
            replace(self._request, available=available),
            meanwhile=lambda ids: observer.ledger.doubts.owned(ids, since=began),
        )
        others, before = None, self.count
        for asset in search:
            if asset.folder_id != self._folder:
                others = asset.folder_id
            elif not _is_rendition(asset):
                self.count += 1
                yield asset
        if others is not None and self.count == before:
            raise BadAnswer(
                f"the listing of folder {self._folder} shows only assets of {others or 'no named folder'}: nothing is"
                " concluded from that",
                hint="is destfolderid the id of the folder? `assetsync check`",
            )
        self._why = self._why or search.incomplete
        self.may_be_cut = self.may_be_cut or (search.extent.rows >= LONG and not search.extent.stated)

    def _compare_with_samples(self) -> None:
        hint = "may the key's user see the folder? If all of it was deleted in the service, `assetsync audit`"
        known = self._observer.ledger.control_samples.read_back_last(self._folder, _SAMPLES)
        # One asset that was moved does not explain an empty folder.
        samples = [known] if self.count else [[one] for one in known]
        patience = self._request.patience
        expect = self._observer.expect_one
        shown_in = {expect(each, "the folder", hint=hint, patience=patience) for each in samples}
        # A row that names no folder may be of this one.
        if not shown_in.isdisjoint((self._folder, "")):
            self._why = "it lacks an asset that a search by name shows"
            if not self.count:
                raise BadAnswer(f"the listing of folder {self._folder} is empty, and a search by name shows an asset")


def _is_rendition(asset: Asset) -> bool:
    """Return whether an asset is a rendition, a smaller copy of a picture; some releases show these unasked."""
    return str(asset.columns.get("file_type") or "original").lower() != "original"
