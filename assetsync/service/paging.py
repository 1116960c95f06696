"""Read all rows of a search, however the service interprets `startrow` and `maxrows`, and judge whether they are all.

The interface documents paging by row (section 4.1). Observed: searches in the database ignore both parameters and
return all rows at once; `maxrows` applies to each kind of asset; some releases take `startrow` for a page number; an
asset may be returned twice; and a service may return fewer rows than requested. The second request therefore asks from
row 2, because its answer distinguishes these cases. The caller supplies the function that sends one search.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

from assetsync.errors import BadAnswer, UsageError
from assetsync.model import Asset, SearchRequest
from assetsync.service.errors import text_of

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
class Extent:
    """How much the answers of one search held: `rows` with aliases and repeats, rows of overlapping pages once.

    `stated`: the largest number of assets that an answer stated, 0 without one (interface section 2) · `has_pages`:
    more than one answer held assets · `is_one_answer`: the first answer held more than a page has.
    """

    rows: int = 0
    stated: int = 0
    has_pages: bool = False
    is_one_answer: bool = False


def every(
    search: Search,
    request: SearchRequest,
    *,
    size: int = PAGE,
    most: int = MOST,
    extent: Extent | None = None,
) -> Iterator[Asset]:
    """Yield every asset that a search finds, each at least once and none skipped but aliases, in the service's order.

    `size` is the number of rows per request; a size below 12 is raised to 12. Memory holds the ids of a few pages. The
    iteration ends with an empty page, with the second page in a row without a new asset, or earlier if the first two
    answers show that nothing more follows. `extent` receives what the answers held.
    Raise BadAnswer after `most` assets, so that it ends with any service, UsageError if the request sets `startrow` or
    `maxrows`, and the errors of `search`.
    """
    with closing(_every(search, request, size, extent or Extent())) as assets:
        for number, asset in enumerate(assets):
            if number >= most:
                raise BadAnswer(
                    f"the service goes on giving new assets after {most:,} of them",
                    hint="its paging does not end: look at its log, and search in one folder or for less",
                )
            yield asset


_ORDERS = (None, "sizeasc", "dateadd")
"""The orders in which a folder is listed, one after the other, until two listings agree (`sortby`, section 4.1)."""

_NO_ID: frozenset[str] = frozenset()


class WholeSearch:
    """The assets that the database shows for a request: an iterable that also judges whether these are all.

    Pages may slip while they are read: assets of equal names change places, or people delete some. So a search whose
    answer came in several pages, without a total, is made again in another order until two results have the same ids,
    but for those that `meanwhile` returns: of given ids those that this process uploaded since the start. An answer
    with fewer rows than it states was cut.
    """

    def __init__(
        self,
        search: Search,
        request: SearchRequest,
        *,
        meanwhile: Callable[[Collection[str]], Collection[str]] = lambda _ids: _NO_ID,
    ) -> None:
        """Ask for nothing yet."""
        self._search = search
        self._request = request
        self._meanwhile = meanwhile
        self.extent = Extent()
        """How much the last search held."""
        self.incomplete: str | None = None
        """After the iteration: a clause that states why assets may be missing, None if these are all."""

    def __iter__(self) -> Iterator[Asset]:
        shown: set[str] = set()
        before: set[str] | None = None
        for order in _ORDERS:
            ids: set[str] = set()
            extent = self.extent = Extent()
            request = self._request if order is None else replace(self._request, sortby=order)
            for asset in every(self._search, request, extent=extent):
                # The ids of an answer that holds everything are not needed, and there may be millions.
                if not extent.is_one_answer:
                    ids.add(asset.id)
                if asset.id not in shown:
                    yield asset
            is_short = extent.stated > extent.rows
            self.incomplete = f"it holds {extent.rows:,} of {extent.stated:,} assets" if is_short else None
            # An asset that slipped to a later page is read twice there, and makes up for one that was left out.
            if not extent.has_pages or 0 < extent.stated <= len(ids):
                return
            if before is not None and not is_short:
                differing = before ^ ids
                if differing <= {*self._meanwhile(differing)}:
                    return
            before = None if is_short else ids
            shown |= ids
        self.incomplete = self.incomplete or "its pages show other assets each time they are read"


def _every(search: Search, request: SearchRequest, size: int, extent: Extent) -> Generator[Asset, None, None]:
    if request.startrow is not None or request.maxrows is not None:
        raise UsageError("startrow and maxrows cannot be combined with all pages", hint="leave them out")
    size = max(size, _LEAST)
    first = _Page(extent)
    yield from first.read(search, replace(request, startrow=1, maxrows=size))
    if first.overflows or first.count < min(size, _DOCUMENTED):
        # The service ignored the limit, or all rows fitted.
        return
    # A service may return fewer rows than requested and may count them by kind, so the step is the number of assets of
    # the most frequent kind. A step that is too short costs a call; a step that is too long would skip rows.
    step = min(size, max(first.kinds.values(), default=1))
    second = _Page(extent, first.ids)
    yield from second.read(search, replace(request, startrow=2, maxrows=size))
    if second.rows == first.rows:
        # The same rows again: the service ignores `startrow` and `maxrows`.
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
        page = _Page(extent, known)
        yield from page.read(search, replace(request, startrow=start, maxrows=size))
        if not page.count:
            return
        idle = 0 if page.new else idle + 1
        known = page.ids
        start += step


class _Page:
    """One answer while it is read; `ids` collects its asset ids until the answer is too long to be a page."""

    def __init__(self, extent: Extent, before: set[str] | None = None) -> None:
        self._extent = extent
        self._is_first = before is None
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
        extent = self._extent
        with search(request) as assets:
            for asset in assets:
                self.count += 1
                if self.count == 1:
                    extent.stated = max(extent.stated, _total(asset))
                # An alias is a row of the page, and no asset of its folder.
                key = f"{asset.id} in {asset.folder_id}" if asset.is_alias else asset.id
                self.rows = hash((self.rows, key))
                seen = key in self.ids
                self.overflows = self.overflows or (not seen and len(self.ids) >= most)
                if not (seen or self.overflows):
                    self.ids.add(key)
                    self.kinds[asset.kind] += 1
                if key in self._before:
                    continue
                extent.rows += 1
                if seen:
                    continue
                self.new += 1
                if self._is_first:
                    extent.is_one_answer = self.overflows
                else:
                    extent.has_pages = True
                if key is asset.id:
                    yield asset


def _total(asset: Asset) -> int:
    """Return the number of assets that a row states for its search; 0 if it states none."""
    text = text_of(asset.columns.get("totalassetscount"))
    return int(text) if text.isascii() and text.isdigit() else 0
