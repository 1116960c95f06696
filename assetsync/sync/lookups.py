"""Search all folders of the service for assets that people may have moved, and check that a listing can be believed.

A search may return nothing at all, while the service's database is restored or after the key has lost a right. That
looks like a folder in which nothing arrived, and files in doubt would be sent a second time. So if a folder shows none
of our assets, some of those read back from it are searched for in all folders. Choosing these control samples is left
to `ledger.assets`, and what a found asset means to the callers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import structlog

from assetsync.core.names import LONGEST_NAME, sent_names
from assetsync.errors import BadAnswer, ServiceError, ServiceRefused
from assetsync.ledger.assets import ControlSamples, KnownAsset
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, SearchRequest, Service
from assetsync.service.paging import Paging, every
from assetsync.service.search import ids_query, like_pattern
from assetsync.sync.context import Context

_FEW_LETTERS = 3
_ATTEMPTS = 20


def names_of(ledger: Ledger, row: FileRow, longest: int = LONGEST_NAME) -> set[str]:
    """Return the names that an asset of a version may have: those that were sent, and those of its file.

    `longest`: the number of characters to which names are cut.
    """
    sent = {attempt.sent_name for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS)}
    return sent.union(sent_names(row.path.rpartition(b"/")[2], longest))


def by_id(
    service: Service, ids: Sequence[str], look: Callable[[Iterable[Asset]], Iterable[Asset]] = iter
) -> dict[str, Asset]:
    """Return the assets that the index shows for these ids in any folder, without columns. Raise ServiceError.

    `look` passes the assets on with their columns.
    """
    # maxrows counts per kind, and an asset may come twice (observed).
    with service.search(SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))) as assets:
        return of_ids(look(assets), set(ids))


def of_ids(assets: Iterable[Asset], ids: Collection[str]) -> dict[str, Asset]:
    """Return the assets that have one of the ids, by id, without columns: none is needed to compare them.

    Aliases are left out: they have the id of an asset that lies in another folder.
    """
    return {asset.id: asset.bare() for asset in assets if asset.id in ids and not asset.is_alias}


def named(service: Service, names: Iterable[str]) -> Iterator[Asset]:
    """Yield the assets that the database shows under these names in any folder (interface section 4.1).

    If several names are so broad that each matches nearly everything, list everything once. Raise ServiceError.
    """
    distinct = set(names)
    if sum(map(is_broad, distinct)) > 1:
        yield from everything(service)
        return
    for pattern in sorted(map(like_pattern, distinct)):
        yield from _both(service, SearchRequest(searchfor=pattern, dbdirect=True, showrenditions=False))


def everything(service: Service) -> Iterator[Asset]:
    """Yield every asset that the database of the service shows. Raise ServiceError."""
    return _both(service, SearchRequest(searchfor="%", dbdirect=True, showrenditions=False))


def _both(service: Service, request: SearchRequest) -> Iterator[Asset]:
    yield from every(service.search, request)
    # Some releases of the service show unprocessed assets only if a request asks for them.
    yield from every(service.search, replace(request, available="0"))


def is_broad(name: str) -> bool:
    """Return whether a name leaves little to search for: most of its characters match others in a pattern."""
    pattern = like_pattern(name)
    stem = pattern.rpartition(".")[0] or pattern
    return not {"%", "_"}.isdisjoint(stem) and sum(letter not in "%_" for letter in stem) < _FEW_LETTERS


log = structlog.get_logger(__name__)

_BATCH = 500
_SAMPLES = 3
_LOOKED_AT = 20


def expect_shown(
    service: Service, known: Sequence[KnownAsset], where: str, *, hint: str, patience: float | None = None
) -> None:
    """Raise BadAnswer if the service, which shows none of our assets in `where`, shows none of `known` in any folder.

    If no asset is `known`, nothing is expected. Raise ServiceError if the service does not answer each search within
    `patience` seconds (by default, within the client's time-out).
    """
    if known and not is_shown(service, known, patience):
        raise BadAnswer(
            f"the service shows nothing of ours in {where}, nor anywhere the asset {known[0].assetid} that it showed"
            " before: nothing is concluded from that",
            hint=hint,
        )


def is_shown(service: Service, known: Sequence[KnownAsset], patience: float | None = None) -> bool:
    """Return whether the service shows one of these in any folder; search by name. Raise ServiceError.

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
        if any(asset.id in wanted[pattern] for asset in every(service.search, request)):
            return True
    return False


def shown_sample(service: Service, control_samples: ControlSamples, since: Sequence[int]) -> int:
    """Return the attempt id of an accepted upload that the service shows, 0 if it shows none that was searched for.

    `since` holds attempts; a sample that began after an attempt is newer than its doubt. The sample began after the
    last of them if there is such an upload, else after the first, as late as possible. It is searched for by name in
    all folders, because people may have moved it. A search that fails shows nothing: the round then has no control
    sample.
    """
    if not since:
        return 0
    samples = control_samples.sent_after(max(since), _LOOKED_AT)
    samples = samples or control_samples.sent_after(min(since), _LOOKED_AT, newest=True)
    for sample in [each for each in samples if not is_broad(each.asset.sent_name or "")][:_SAMPLES]:
        try:
            if is_shown(service, [sample.asset]):
                return sample.attempt_id
        except ServiceError as error:
            log.debug("the control sample cannot be looked for", detail=str(error))
            if not isinstance(error, BadAnswer | ServiceRefused):
                # The next search would fail as well, perhaps after a time-out.
                return 0
    return 0


class CheckedListing:
    """Lists folders of the service; shared by all parts that conclude something from an asset's absence."""

    def __init__(self, context: Context) -> None:
        self._ledger = context.ledger
        self._service = context.service

    def listing(
        self, destfolderid: str, *, patience: float | None = None, paging: Paging | None = None
    ) -> Iterator[Asset]:
        """Yield every asset of the folder that the service's database shows (interface section 4.1).

        `paging`: as in `every`. Raise ServiceError. Raise BadAnswer at the end if the folder shows none of our assets,
        and the service shows none of those that were read back from the folder before.
        """
        batch: list[str] = []
        is_ours = False
        request = SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True, patience=patience)
        for asset in every(self._service.search, request, paging=paging):
            if not is_ours:
                batch.append(asset.id)
                if len(batch) >= _BATCH:
                    is_ours, batch = bool(self._ledger.doubts.owned(batch)), []
            yield asset
        if not is_ours and not self._ledger.doubts.owned(batch):
            expect_shown(
                self._service,
                self._ledger.control_samples.read_back_last(destfolderid, _SAMPLES),
                "the folder",
                hint="may the key's user see the folder? If all of it was deleted in the service, `assetsync audit`",
                patience=patience,
            )
