"""All rows of a search, whatever the service makes of `startrow` and `maxrows`.

Documented is paging by row (interface section 4.1). Observed: through the database both parameters are ignored and all
rows come at once; `maxrows` counts for each kind of asset; some releases take `startrow` for the number of a page; an
asset may come twice. So the second request asks from row 2: its answer tells the three apart. One request is one call
of the service's `search`; sending it is the caller's.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from assetsync.errors import UsageError
from assetsync.model import Asset, SearchRequest

Search = Callable[[SearchRequest], AbstractContextManager[Iterator[Asset]]]

PAGE = 1000
_KINDS = 5
"""img, vid, aud, doc, other: an answer that honours maxrows holds at most so many times as many rows."""

_LEAST = 12
"""Fewer rows are not asked for at a time: rows or pages could not be told apart where assets come twice."""


def every(search: Search, request: SearchRequest, *, size: int = PAGE) -> Iterator[Asset]:
    """Yield every asset that a search finds, each at least once and none skipped, in the service's order.

    `size` is the number of rows asked for at a time; fewer than 12 are not. Memory holds the ids of one page. Ends with
    the first page that brings nothing new, so that it ends with any service. Raises what `search` raises, and
    UsageError when the request pages itself.
    """
    if request.startrow is not None or request.maxrows is not None:
        raise UsageError("startrow and maxrows cannot be combined with all pages", hint="leave them out")
    size = max(size, _LEAST)
    first = _Page()
    yield from first.read(search, replace(request, startrow=1, maxrows=size))
    if first.count < size or first.overflows:
        # Everything fitted, or the limit was ignored.
        return
    second = _Page(first.ids)
    yield from second.read(search, replace(request, startrow=2, maxrows=size))
    # From row 2 came all but the first of each kind again. As page 2 came others, but for an asset that comes twice,
    # whose rows stand on both sides of a page's end.
    by_row = len(first.ids & second.ids) > len(first.ids - second.ids)
    if not (second.new or by_row):
        return
    start, step = (size + 2, size) if by_row else (3, 1)
    known = first.ids | second.ids
    while True:
        page = _Page(known)
        yield from page.read(search, replace(request, startrow=start, maxrows=size))
        if not page.new:
            return
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

    def read(self, search: Search, request: SearchRequest) -> Iterator[Asset]:
        """Yield what was neither on the page before nor earlier on this one."""
        most = (request.maxrows or 0) * _KINDS
        with search(request) as assets:
            for asset in assets:
                self.count += 1
                seen = asset.id in self.ids
                self.overflows = self.overflows or (not seen and len(self.ids) >= most)
                if not (seen or self.overflows):
                    self.ids.add(asset.id)
                if not seen and asset.id not in self._before:
                    self.new += 1
                    yield asset
