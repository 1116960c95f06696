"""Count the progress of each service call as a heartbeat of the loop that waits for it.

A body that takes hours to send and a listing that takes minutes are no hang. Silence beyond the read timeout is a hang.
The calls themselves are left to the wrapped service, the deadlines to `loops.Pulse`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from assetsync.model import Asset, Body, SearchRequest, Sent, Service, UploadConnection, UploadRequest
from assetsync.tree.body import TappedBody

_ROWS = 500


class HeartbeatService:
    """A service that forwards every call and calls `alive` with the seconds of silence to expect."""

    def __init__(self, service: Service, alive: Callable[[float], None], *, silence: float) -> None:
        self._service = service
        self._alive = alive
        self._silence = silence

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file; each chunk sent is a heartbeat."""
        self._alive(self._silence)
        return self._service.upload(request, TappedBody(body, lambda _length: self._tick()))

    def connection(self) -> UploadConnection | None:
        """Return a connection for the event loop, whose own heartbeat does not depend on a post."""
        return self._service.connection()

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open one search; the call and every `_ROWS`-th row are heartbeats."""
        self._alive(self._silence)
        with self._service.search(request) as assets:
            yield self._rows(assets)

    def index(self, assetids: Sequence[str]) -> str:
        """Request indexing; the call is a heartbeat."""
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
