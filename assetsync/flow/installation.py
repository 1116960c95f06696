"""The service of the configuration, asked only once it is known for the one that holds what the ledger tells of.

Where its address is another than before, it may be another installation, with folders of the same ids: all that is
verified would seem to be there, and what is in doubt would be looked for, not found and sent. So it is first asked for
assets that were read back. Where it shows one of them the address alone has changed; where it shows none a brake asks
a person. Nothing is sent, looked up or concluded before.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import structlog

from assetsync.errors import ServiceElsewhere
from assetsync.flow.lever import Lever
from assetsync.flow.witness import is_shown
from assetsync.ledger.ledger import Ledger
from assetsync.model import Asset, Body, Clock, SearchRequest, Sent, Service, UploadRequest
from assetsync.service.query import ids_query

log = structlog.get_logger(__name__)

SERVICE = "service"
"""The fact that holds the address of the service that the ledger tells of, and the kind of the brake."""

_WITNESSES = 20
_ASK_AGAIN = 5.0


class Installation:
    """Passes everything on to the service once it is known; shared by all threads."""

    def __init__(self, service: Service, ledger: Ledger, clock: Clock, address: str) -> None:
        """Compare the address with the ledger's; a ledger that tells of nothing yet takes it for its own."""
        self._service = service
        self._ledger = ledger
        self._clock = clock
        self._address = address
        self._lever = Lever(ledger, clock)
        self._lock = threading.Lock()
        self._asked: tuple[float, str] | None = None
        known = ledger.reports.fact(SERVICE)
        self._before = known or address
        self._is_known = self._before == address
        if self._is_known:
            self._settle("the address is the ledger's")

    def make_sure(self) -> None:
        """Return when the service is known; raises ServiceError, and ServiceElsewhere where it may be another."""
        if self._is_known:
            return
        # Whoever waits for the one that asks would seem to hang.
        if not self._lock.acquire(blocking=False):
            raise ServiceElsewhere("the service has another address, and is being asked for what was read back before")
        try:
            self._ask()
        finally:
            self._lock.release()

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file, for which `make_sure` was asked when it was prepared."""
        return self._service.upload(request, body)

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Open one search; raises as `make_sure` does, too."""
        self.make_sure()
        return self._service.search(request)

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing; raises as `make_sure` does, too."""
        self.make_sure()
        return self._service.index(assetids)

    def close(self) -> None:
        """Close every connection."""
        self._service.close()

    def _ask(self) -> None:
        if self._lever.allowed(SERVICE, self._address, 1):
            self._settle("somebody has agreed to the address")
            return
        if self._asked is not None and self._clock.steady() - self._asked[0] < _ASK_AGAIN:
            raise ServiceElsewhere(self._asked[1])
        witnesses = self._ledger.doubts.witnesses(_WITNESSES)
        if not witnesses or self._shows_one_of(witnesses):
            self._settle("it shows what was read back")
            return
        detail = (
            f"the service was at {self._before} and is at {self._address} now, which shows none of {len(witnesses)}"
            " assets that were read back before: is this another installation? Nothing is sent there and nothing"
            " concluded before you agree that it holds them; else correct `service`"
        )
        self._lever.pull(SERVICE, self._address, detail, 1)
        self._asked = self._clock.steady(), detail
        raise ServiceElsewhere(detail)

    def _shows_one_of(self, witnesses: Sequence[tuple[bytes, str | None, str]]) -> bool:
        # The index has them by whatever name they lie there by now; but it may be empty, as after a move.
        ids = [assetid for _path, _name, assetid in witnesses]
        by_id = SearchRequest(searchfor=ids_query(ids), maxrows=2 * len(ids))
        with self._service.search(by_id) as assets:
            found = any(asset.id in ids for asset in assets)
        return found or is_shown(self._service, witnesses)

    def _settle(self, why: str) -> None:
        if self._ledger.reports.fact(SERVICE) != self._address:
            self._ledger.set_fact(SERVICE, self._address)
        for brake in self._ledger.reports.brakes():
            if brake.kind == SERVICE:
                self._lever.lift(brake, why)
        if not self._is_known:
            log.warning("another address of the service", before=self._before, now=self._address, why=why)
        self._is_known = True
