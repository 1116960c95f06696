"""Remember what listings have shown about the service, so that reading back sends fewer requests.

Only reading back uses it. A search whose silence may lead to an upload asks for the second page and for unprocessed
assets in any case. Nothing is kept on disk: a process has one service, and it may be updated at any time.
"""

from collections.abc import Callable, Iterable, Iterator

from assetsync.model import Asset
from assetsync.service.paging import Paging

_KEPT = 24 * 3600.0


class Learned:
    """What listings have shown in the last day; used by one thread at a time."""

    def __init__(self, steady: Callable[[], float]) -> None:
        """Begin with nothing learned; `steady` returns seconds of the steady clock."""
        self._steady = steady
        self.forget()

    def forget(self) -> None:
        """Learn everything again, because another installation may answer by now."""
        self._since = self._steady()
        self._paging = Paging()
        self._shows_unprocessed = False

    @property
    def paging(self) -> Paging:
        """How the service pages its listings."""
        self._forget_old()
        return self._paging

    @property
    def shows_unprocessed(self) -> bool:
        """Whether the service ignores `available`, so that each listing shows the unprocessed assets, too."""
        self._forget_old()
        return self._shows_unprocessed

    def unprocessed(self, assets: Iterable[Asset]) -> Iterator[Asset]:
        """Yield the answer to a request for unprocessed assets (interface section 4.1), and learn from it."""
        for asset in assets:
            self._shows_unprocessed = self._shows_unprocessed or asset.processed
            yield asset

    def _forget_old(self) -> None:
        if self._steady() - self._since >= _KEPT:
            self.forget()
