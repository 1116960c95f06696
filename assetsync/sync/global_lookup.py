"""Search all folders of the service for assets that people may have moved.

What a found asset means is left to the callers.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from assetsync.core.names import sent_name
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, SearchRequest, Service
from assetsync.service.paging import every
from assetsync.service.query import ids_query, like_pattern

_FEW_LETTERS = 3
_ATTEMPTS = 20


def names_of(ledger: Ledger, row: FileRow) -> set[str]:
    """Return the names that an asset of a version may have: those that were sent, and that of its file."""
    sent = {attempt.sent_name for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS)}
    return sent | {sent_name(row.path.rpartition(b"/")[2])}


def by_id(service: Service, ids: Sequence[str]) -> dict[str, Asset]:
    """Return the assets that the index shows for these ids in any folder, without columns. Raise ServiceError."""
    # maxrows counts per kind, and an asset may come twice (observed).
    with service.search(SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))) as assets:
        return of_ids(assets, set(ids))


def of_ids(assets: Iterable[Asset], ids: Collection[str]) -> dict[str, Asset]:
    """Return the assets that have one of the ids, by id, without columns: none is needed to compare them."""
    return {asset.id: asset.bare() for asset in assets if asset.id in ids}


def named(service: Service, names: Iterable[str]) -> Iterator[Asset]:
    """Yield the assets that the database shows under these names in any folder (interface section 4.1).

    If several names are so broad that each matches nearly everything, list everything once. Raise ServiceError.
    """
    said = set(names)
    if sum(map(is_broad, said)) > 1:
        yield from everything(service)
        return
    for pattern in sorted(map(like_pattern, said)):
        yield from _both(service, SearchRequest(searchfor=pattern, dbdirect=True, showrenditions=False))


def everything(service: Service) -> Iterator[Asset]:
    """Yield every asset that the database of the service shows. Raise ServiceError."""
    return _both(service, SearchRequest(searchfor="%", dbdirect=True, showrenditions=False))


def _both(service: Service, request: SearchRequest) -> Iterator[Asset]:
    yield from every(service.search, request)
    # Some releases of the service show unprocessed assets only if a request asks for them.
    yield from every(service.search, replace(request, available="0"))


def is_broad(name: str) -> bool:
    """Return whether a name leaves little to search for: characters that are not ASCII may have become anything."""
    pattern = like_pattern(name)
    stem = pattern.rpartition(".")[0] or pattern
    return "%" in pattern and sum(letter not in "%_" for letter in stem) < _FEW_LETTERS
