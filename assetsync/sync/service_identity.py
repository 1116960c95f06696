"""Use the service of the configuration only once it is known to be the one that holds the assets of the ledger.

If its address has changed, it may be another installation with folders of the same ids. Everything verified would then
seem to be there, and files in doubt would be looked up, not found and sent. So it is first searched for assets that it
should hold. If it shows one of them, only the address has changed; if it shows none, a brake asks a person. Nothing is
sent, looked up or concluded before.

An unchanged address may lead to another installation, too: one that was set up anew, or a test system behind a proxy.
So each listing and each round of reading back is believed only if the service still shows one of the assets that were
read back last. The requests themselves are left to the `Service` that is passed in.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import NoReturn

import structlog

from assetsync.errors import KeyRefused, ServiceElsewhere, ServiceError
from assetsync.ledger.assets import INDEX_STOPPED, KnownAsset
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.ledger_metadata import SERVICE
from assetsync.model import Asset, Body, Clock, SearchRequest, Sent, Service, UploadConnection, UploadRequest
from assetsync.sync.brakes import BrakeControl
from assetsync.sync.folder_backoff import Repeating
from assetsync.sync.lookups import by_id, is_shown
from assetsync.sync.readback.auditor import ask_for_audit
from assetsync.sync.readback.indexer import SUSPECT

log = structlog.get_logger(__name__)

_KIND = "service"
_WITNESSES = 10
"""Number of assets to search for. With fewer read back, an unchanged address is believed: somebody may have deleted the
few files of a trial. An audit, too, reports up to ten missing assets without a brake."""

_MOST_FOLDERS = 100
_ASK_AGAIN = 60.0


class ServiceIdentity:
    """Passes all requests on to the service once it is known; shared by all threads."""

    def __init__(
        self, service: Service, ledger: Ledger, clock: Clock, address: str, folders: Sequence[str] = ()
    ) -> None:
        """Take the address and the mapped folders of the service from the configuration."""
        self._service = service
        self._repeating = Repeating(service, clock.steady)
        self._ledger = ledger
        self._clock = clock
        self._address = address
        self._folders = folders
        self._brake_control = BrakeControl(ledger, clock)
        self._lock = threading.Lock()
        self._refused: tuple[float, str] | None = None
        self.is_known = False
        """Whether the service counts as the one that holds the ledger's assets; an unchanged address is enough."""

    def make_sure(self) -> None:
        """Return if the service is known. Raise ServiceError, and ServiceElsewhere if it may be another one."""
        if self.is_known:
            return
        before = self._ledger.reports.fact(SERVICE) or self._address
        if before == self._address and not self._is_doubted():
            self._settle()
            return
        # A thread that waits for the one that asks would seem to hang.
        if not self._lock.acquire(blocking=False):
            raise ServiceElsewhere("the service may be another one, and is being asked for what it should hold")
        try:
            if before == self._address:
                self._wait_to_ask()
                self.expect_ours()
            else:
                self._ask(before)
                self._forget_findings()
                log.warning("another address of the service", before=before, now=self._address)
            self._settle()
        finally:
            self._lock.release()

    def expect_ours(self) -> None:
        """Return if the service shows one of the assets read back last, in any folder, or if fewer than ten are known.

        If it shows none, pull the brake and raise ServiceElsewhere; a person may have agreed to that before. Raise
        ServiceError if a search fails: that proves nothing.
        """
        samples = self._samples()
        if len(samples) < _WITNESSES or self._indexed(samples) or self._shows_one_of(samples):
            return
        if self._brake_control.allowed(_KIND, self._address, 1):
            return
        self._forget_findings()
        self._refuse(
            f"the service at {self._address} shows none of {len(samples)} assets that it showed before, in any folder:"
            " was it emptied or set up anew, is another one behind this address, or may the key not see them now?"
            " Nothing is sent there and nothing concluded until it shows one of them, or you agree"
        )

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Send one file; `make_sure` was called when the file was prepared."""
        return self._service.upload(request, body)

    def connection(self) -> UploadConnection | None:
        """Return a connection for uploads; `make_sure` was called when the file was prepared."""
        return self._service.connection()

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Open one search. Raise as `make_sure` does, too."""
        self.make_sure()
        return self._repeating.search(request)

    def index(self, assetids: Sequence[str]) -> str:
        """Request indexing. Raise as `make_sure` does, too."""
        self.make_sure()
        return self._service.index(assetids)

    def close(self) -> None:
        """Close every connection."""
        self._service.close()

    def _ask(self, before: str) -> None:
        """Return if the service may be taken for the one at the earlier address; else pull the brake and raise."""
        if self._brake_control.allowed(_KIND, self._address, 1):
            return
        self._wait_to_ask()
        witnesses = self._ledger.control_samples.of_all(_WITNESSES)
        if self._shows_one_of(witnesses) if witnesses else not self._ledger.control_samples.has_begun():
            return
        shows = "and nothing that was sent before was read back yet, by which it could be known"
        if witnesses:
            shows = f"which shows none of {len(witnesses)} assets that it should have"
        self._refuse(
            f"the service was at {before} and is at {self._address} now, {shows}: is this another installation? Nothing"
            " is sent there and nothing concluded before you agree that it holds what was sent"
        )

    def _wait_to_ask(self) -> None:
        """Raise ServiceElsewhere if the service was asked a moment ago."""
        if self._refused is not None and self._clock.steady() - self._refused[0] < _ASK_AGAIN:
            raise ServiceElsewhere(self._refused[1])

    def _refuse(self, detail: str) -> NoReturn:
        self._brake_control.pull(_KIND, self._address, detail, 1)
        self._refused = self._clock.steady(), detail
        # After the brake: without one, an unchanged address counts as known.
        self.is_known = False
        raise ServiceElsewhere(detail)

    def _is_doubted(self) -> bool:
        """Return whether the service at this address has shown nothing of ours and nobody has agreed to that."""
        return any((brake.kind, brake.subject) == (_KIND, self._address) for brake in self._ledger.reports.brakes())

    def _forget_findings(self) -> None:
        """Have everything read again that was learned from the service, which may be another one by now."""
        for folder in self._folders:
            self._ledger.folder_listings.again(folder)
        for name in (SUSPECT, INDEX_STOPPED):
            self._ledger.set_fact(name, None)
        ask_for_audit(self._ledger, self._clock.now())

    def _samples(self) -> list[KnownAsset]:
        """Return assets read back last, from all folders alike: the key's user may have lost the right to see one."""
        read_back_last = self._ledger.control_samples.read_back_last
        folders = [read_back_last(folder, _WITNESSES) for folder in self._folders[:_MOST_FOLDERS]]
        samples = [asset for rank in zip_longest(*folders) for asset in rank if asset is not None]
        return samples[: max(_WITNESSES, len(folders))]

    def _indexed(self, samples: Sequence[KnownAsset]) -> bool:
        """Return whether the index shows one of these. One search is enough, but the index may be lost, or rebuilt."""
        try:
            return bool(by_id(self._service, [sample.assetid for sample in samples]))
        except KeyRefused:
            raise
        except ServiceError as error:
            log.debug("the index of the service cannot be asked", detail=str(error))
            return False

    def _shows_one_of(self, witnesses: Sequence[KnownAsset]) -> bool:
        unnamed: ServiceError | None = None
        try:
            if is_shown(self._service, witnesses):
                return True
        except KeyRefused:
            raise
        except ServiceError as error:
            # A name that is not ASCII makes a broad search, whose answer may be too large.
            unnamed = error
        # People may have renamed all of them. The index still knows them, unless it was not moved with the service.
        try:
            return bool(by_id(self._service, [witness.assetid for witness in witnesses]))
        except KeyRefused:
            raise
        except ServiceError as error:
            if unnamed is not None:
                raise
            log.warning("the index of the service cannot be asked", detail=str(error))
            return False

    def _settle(self) -> None:
        if self._ledger.reports.fact(SERVICE) != self._address:
            self._ledger.set_fact(SERVICE, self._address)
        # Revoke releases for other addresses: the operator has come back from them.
        self._brake_control.withdraw_others(_KIND, [self._address])
        for brake in self._ledger.reports.brakes():
            if brake.kind == _KIND:
                self._brake_control.lift(brake, "the service is the ledger's")
        self.is_known = True
