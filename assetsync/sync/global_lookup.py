"""Looks into all folders of the service, for what people may have moved."""

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
    """Give the names under which an asset of a version may lie: those that were sent, and that of its file."""
    sent = {attempt.sent_name for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS)}
    return sent | {sent_name(row.path.rpartition(b"/")[2])}


def by_id(service: Service, ids: Sequence[str]) -> dict[str, Asset]:
    """Give what the index shows of these ids, in whatever folder, without its columns; raises ServiceError."""
    # maxrows counts per kind, and an asset may come twice (observed).
    with service.search(SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))) as assets:
        return of_ids(assets, set(ids))


def of_ids(assets: Iterable[Asset], ids: Collection[str]) -> dict[str, Asset]:
    """Give those of some assets that have one of the ids; of their many columns none is needed to compare them."""
    return {asset.id: asset.bare() for asset in assets if asset.id in ids}


def named(service: Service, names: Iterable[str]) -> Iterator[Asset]:
    """Yield what the database shows under such names in whatever folder (interface section 4.1); raises ServiceError.

    Where there are several that are each the pattern of nearly everything, all is listed, once.
    """
    said = set(names)
    if sum(map(is_broad, said)) > 1:
        yield from everything(service)
        return
    for pattern in sorted(map(like_pattern, said)):
        yield from _both(service, SearchRequest(searchfor=pattern, dbdirect=True, showrenditions=False))


def everything(service: Service) -> Iterator[Asset]:
    """Yield every asset that the database of the service shows; raises ServiceError."""
    return _both(service, SearchRequest(searchfor="%", dbdirect=True, showrenditions=False))


def _both(service: Service, request: SearchRequest) -> Iterator[Asset]:
    yield from every(service.search, request)
    # Some releases show what is not processed yet only when it is asked for.
    yield from every(service.search, replace(request, available="0"))


def is_broad(name: str) -> bool:
    """Whether hardly anything of a name can be asked for: what is not ASCII may have come to be anything."""
    pattern = like_pattern(name)
    stem = pattern.rpartition(".")[0] or pattern
    return "%" in pattern and sum(letter not in "%_" for letter in stem) < _FEW_LETTERS
