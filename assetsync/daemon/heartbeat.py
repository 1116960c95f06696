"""The service as the daemon calls it: every sign of life in an answer is one of the loop that waits for it.

A body that takes hours to leave and a folder that is listed for minutes are no hang; silence beyond the read timeout
is one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from assetsync.model import Asset, Body, SearchRequest, Sent, Service, Underway, UploadRequest
from assetsync.tree.body import TappedBody

_ROWS = 500


class HeartbeatService:
    """Passes everything on and calls `alive` with the seconds for which silence is to be expected."""

    def __init__(self, service: Service, alive: Callable[[float], None], *, silence: float) -> None:
        self._service = service
        self._alive = alive
        self._silence = silence

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file; each chunk that leaves is a sign of life."""
        self._alive(self._silence)
        return self._service.upload(request, TappedBody(body, lambda _length: self._tick()))

    def start(self, request: UploadRequest, body: Body) -> Underway:
        """Send one file, whose answer is read later: that it is asked for is a sign of life."""
        self._alive(self._silence)
        started = self._service.start(request, TappedBody(body, lambda _length: self._tick()))
        self._alive(self._silence)
        return started

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open one search; rows that come are signs of life."""
        self._alive(self._silence)
        with self._service.search(request) as assets:
            yield self._rows(assets)

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing."""
        self._alive(self._silence)
        return self._service.index(assetids)

    def close(self) -> None:
        """Close every connection."""
        self._service.close()

    def _rows(self, assets: Iterator[Asset]) -> Iterator[Asset]:
        for number, asset in enumerate(assets):
            if number % _ROWS == 0:
                self._tick()
            yield asset

    def _tick(self) -> None:
        self._alive(self._silence)
