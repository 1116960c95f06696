"""Read all rows of a search, however the service interprets `startrow` and `maxrows`.

The interface documents paging by row (section 4.1). Observed: searches in the database ignore both parameters and
return all rows at once; `maxrows` applies to each kind of asset; some releases take `startrow` for a page number; an
asset may be returned twice; and a service may return fewer rows than requested. The second request therefore asks from
row 2, because its answer distinguishes these cases. The caller supplies the function that sends one search.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

from assetsync.errors import BadAnswer, UsageError
from assetsync.model import Asset, SearchRequest

Search = Callable[[SearchRequest], AbstractContextManager[Iterator[Asset]]]

PAGE = 1000

MOST = 5_000_000
"""Most assets of one search: a service that returns new assets on every page would never end."""

_KINDS = 5
"""img, vid, aud, doc, other: an answer that honours maxrows holds at most this many times maxrows."""

_DOCUMENTED = 25
"""The interface's page size (section 8): a shorter answer was not cut to a page size that the service enforces."""

_IDLE = 2

_LEAST = 12
"""Least rows per request: with fewer, paging by row and by page may look alike if assets are returned twice."""


@dataclass(slots=True)
class Paging:
    """What the answers of a service have shown about its paging."""

    is_ignored: bool = False
    """Whether a search in the database returned all rows at once, whatever `startrow` and `maxrows` were."""


def every(
    search: Search, request: SearchRequest, *, size: int = PAGE, most: int = MOST, paging: Paging | None = None
) -> Iterator[Asset]:
    """Yield every asset that a search finds, each at least once and none skipped but aliases, in the service's order.

    `size` is the number of rows per request; a size below 12 is raised to 12. Memory holds the ids of a few pages. The
    iteration ends with an empty page, with the second page in a row without a new asset, or earlier if the first two
    answers show that nothing more follows. What is known of the `paging` saves the second page, and is learned from the
    answers; leave it out if a file may be sent because an asset is not shown. Raise BadAnswer after `most` assets, so
    that it ends with any service, UsageError if the request sets `startrow` or `maxrows`, and the errors of `search`.
    """
    with closing(_every(search, request, size, paging or Paging())) as assets:
        for number, asset in enumerate(assets):
            if number >= most:
                raise BadAnswer(
                    f"the service goes on giving new assets after {most:,} of them",
                    hint="its paging does not end: look at its log, and search in one folder or for less",
                )
            yield asset


def _every(search: Search, request: SearchRequest, size: int, paging: Paging) -> Generator[Asset, None, None]:
    if request.startrow is not None or request.maxrows is not None:
        raise UsageError("startrow and maxrows cannot be combined with all pages", hint="leave them out")
    size = max(size, _LEAST)
    first = _Page()
    yield from first.read(search, replace(request, startrow=1, maxrows=size))
    paging.is_ignored = paging.is_ignored or first.overflows
    if first.overflows or first.count < (size if paging.is_ignored else min(size, _DOCUMENTED)):
        # The service ignored the limit, or all rows fitted.
        return
    # A service may return fewer rows than requested and may count them by kind, so the step is the number of assets of
    # the most frequent kind. A step that is too short costs a call; a step that is too long would skip rows.
    step = min(size, max(first.kinds.values(), default=1))
    second = _Page(first.ids)
    yield from second.read(search, replace(request, startrow=2, maxrows=size))
    if second.rows == first.rows:
        # The same rows again: the service ignores `startrow` and `maxrows`.
        paging.is_ignored = True
        return
    # Read as row 2, the answer repeats all but the first asset of each kind. Read as page 2, the answer has other
    # assets, except for an asset that is returned twice with its rows on both sides of the page boundary.
    by_row = len(first.ids & second.ids) > len(first.ids - second.ids)
    if not (second.new or by_row):
        return
    start, step = (step + 2, step) if by_row else (3, 1)
    known = first.ids | second.ids
    idle = 0
    # Assets that are returned twice may fill one page without a new asset, but not two pages.
    while idle < _IDLE:
        page = _Page(known)
        yield from page.read(search, replace(request, startrow=start, maxrows=size))
        if not page.count:
            return
        idle = 0 if page.new else idle + 1
        known = page.ids
        start += step


class _Page:
    """One answer while it is read; `ids` collects its asset ids until the answer is too long to be a page."""

    def __init__(self, before: set[str] | None = None) -> None:
        self._before = before or set()
        self.ids: set[str] = set()
        self.count = 0
        self.new = 0
        self.overflows = False
        self.rows = 0
        """A hash of the asset ids in their order."""
        self.kinds: Counter[str] = Counter()

    def read(self, search: Search, request: SearchRequest) -> Iterator[Asset]:
        """Yield the assets that were neither on the page before nor earlier on this page."""
        most = (request.maxrows or 0) * _KINDS
        with search(request) as assets:
            for asset in assets:
                self.count += 1
                # An alias is a row of the page, and no asset of its folder.
                key = f"{asset.id} in {asset.folder_id}" if asset.is_alias else asset.id
                self.rows = hash((self.rows, key))
                seen = key in self.ids
                self.overflows = self.overflows or (not seen and len(self.ids) >= most)
                if not (seen or self.overflows):
                    self.ids.add(key)
                    self.kinds[asset.kind] += 1
                if not seen and key not in self._before:
                    self.new += 1
                    if key is asset.id:
                        yield asset
