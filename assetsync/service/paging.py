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


def every(search: Search, request: SearchRequest, *, size: int = PAGE) -> Iterator[Asset]:
    """Yield every asset that a search finds, each at least once and none skipped, in the service's order.

    `size` is the number of rows asked for at a time (2 or more). Memory holds the ids of one page. Ends with the first
    page that brings nothing new, so that it ends with any service. Raises what `search` raises, and UsageError when the
    request pages itself.
    """
    if request.startrow is not None or request.maxrows is not None:
        raise UsageError("startrow and maxrows cannot be combined with all pages", hint="leave them out")
    if size < 2:  # noqa: PLR2004 - with one row a page, row and page number are the same
        raise UsageError("a page has at least two rows")
    first = _Page()
    yield from first.read(search, replace(request, startrow=1, maxrows=size))
    if first.count < size or first.count > size * _KINDS:
        # Everything fitted, or the limit was ignored.
        return
    second = _Page(first.ids)
    yield from second.read(search, replace(request, startrow=2, maxrows=size))
    if not second.new:
        return
    by_row = bool(first.ids & second.ids)
    # From row 2 came one row more than was known; as page 2 came a page of them.
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

    def read(self, search: Search, request: SearchRequest) -> Iterator[Asset]:
        """Yield what was not on the page before."""
        most = (request.maxrows or 0) * _KINDS
        with search(request) as assets:
            for asset in assets:
                self.count += 1
                if asset.id in self._before:
                    self.ids.add(asset.id)
                    continue
                self.new += 1
                if self.count <= most:
                    self.ids.add(asset.id)
                yield asset
