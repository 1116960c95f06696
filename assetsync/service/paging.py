"""All rows of a search, whatever the service makes of `startrow` and `maxrows`.

Documented is paging by row (interface section 4.1). Observed: through the database both parameters are ignored and all
rows come at once; `maxrows` counts for each kind of asset; some releases take `startrow` for the number of a page; an
asset may come twice; and a service may give fewer rows at a time than it is asked for. So the second request asks from
row 2: its answer tells these apart. One request is one call of the service's `search`; sending it is the caller's.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace

from assetsync.errors import BadAnswer, UsageError
from assetsync.model import Asset, SearchRequest

Search = Callable[[SearchRequest], AbstractContextManager[Iterator[Asset]]]

PAGE = 1000

MOST = 5_000_000
"""Assets that one search may find: a service that has new ones on every page would else never be done with."""

_KINDS = 5
"""img, vid, aud, doc, other: an answer that honours maxrows holds at most so many times as many rows."""

_DOCUMENTED = 25
"""The interface's own page (section 8): what is shorter was not cut to a page that a service insists on."""

_IDLE = 2

_LEAST = 12
"""Fewer rows are not asked for at a time: rows or pages could not be told apart where assets come twice."""


def every(search: Search, request: SearchRequest, *, size: int = PAGE, most: int = MOST) -> Iterator[Asset]:
    """Yield every asset that a search finds, each at least once and none skipped, in the service's order.

    `size` is the number of rows asked for at a time; fewer than 12 are not. Memory holds the ids of one page. Ends with
    the first page that brings nothing new, and raises BadAnswer after `most` assets, so that it ends with any service.
    Raises what `search` raises, and UsageError when the request pages itself.
    """
    with closing(_every(search, request, size)) as assets:
        for number, asset in enumerate(assets):
            if number >= most:
                raise BadAnswer(
                    f"the service goes on giving new assets after {most:,} of them",
                    hint="its paging does not end: look at its log, and search in one folder or for less",
                )
            yield asset


def _every(search: Search, request: SearchRequest, size: int) -> Generator[Asset, None, None]:
    if request.startrow is not None or request.maxrows is not None:
        raise UsageError("startrow and maxrows cannot be combined with all pages", hint="leave them out")
    size = max(size, _LEAST)
    first = _Page()
    yield from first.read(search, replace(request, startrow=1, maxrows=size))
    if first.overflows or first.count < min(size, _DOCUMENTED):
        # Everything fitted, or the limit was ignored.
        return
    # A service may give fewer rows than it is asked for, and may count them by kind: it goes on by what came of one
    # kind. A step that is too short costs a call, one that is too long would skip.
    step = min(size, first.most_of_a_kind)
    second = _Page(first.ids)
    yield from second.read(search, replace(request, startrow=2, maxrows=size))
    if second.rows == first.rows:
        # The very same rows: where to begin was ignored, and so was how many.
        return
    # From row 2 came all but the first of each kind again. As page 2 came others, but for an asset that comes twice,
    # whose rows stand on both sides of a page's end.
    by_row = len(first.ids & second.ids) > len(first.ids - second.ids)
    if not (second.new or by_row):
        return
    start, step = (step + 2, step) if by_row else (3, 1)
    known = first.ids | second.ids
    idle = 0
    # Rows that come twice may fill a page that brings nothing new, but not two.
    while idle < _IDLE:
        page = _Page(known)
        yield from page.read(search, replace(request, startrow=start, maxrows=size))
        if not page.count:
            return
        idle = 0 if page.new else idle + 1
        known = page.ids
        start += step


class _Page:
    """One answer on its way; `ids` are kept as long as the answer may be a page."""

    def __init__(self, before: set[str] | None = None) -> None:
        self._before = before or set()
        self.ids: set[str] = set()
        self.count = 0
        self.new = 0
        self.overflows = False
        self.rows = 0
        """A digest of the rows in their order."""
        self._kinds: Counter[str] = Counter()

    @property
    def most_of_a_kind(self) -> int:
        """How many assets came of the kind of which most came."""
        return max(self._kinds.values(), default=1)

    def read(self, search: Search, request: SearchRequest) -> Iterator[Asset]:
        """Yield what was neither on the page before nor earlier on this one."""
        most = (request.maxrows or 0) * _KINDS
        with search(request) as assets:
            for asset in assets:
                self.count += 1
                self.rows = hash((self.rows, asset.id))
                seen = asset.id in self.ids
                self.overflows = self.overflows or (not seen and len(self.ids) >= most)
                if not (seen or self.overflows):
                    self.ids.add(asset.id)
                    self._kinds[asset.kind] += 1
                if not seen and asset.id not in self._before:
                    self.new += 1
                    yield asset
