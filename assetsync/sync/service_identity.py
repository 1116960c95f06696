"""Use the service of the configuration only once it is known to be the one that holds the assets of the ledger.

If its address has changed, it may be another installation with folders of the same ids. Everything verified would then
seem to be there, and files in doubt would be looked up, not found and sent. So it is first searched for assets that it
should hold. If it shows one of them, only the address has changed; if it shows none, a brake asks a person. Nothing is
sent, looked up or concluded before. The requests themselves are left to the `Service` that is passed in.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from assetsync.core.outcome import SERVICE_FAILS_HELP
from assetsync.errors import BadAnswer, KeyRefusalCached, KeyRefused, ServiceElsewhere, ServiceError
from assetsync.ledger.file.facts import SERVICE
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.read_back import INDEX_STOPPED, KnownAsset
from assetsync.model import (
    AddressProbe,
    Asset,
    Body,
    Clock,
    SearchRequest,
    Sent,
    Service,
    UploadRequest,
)
from assetsync.sync.brakes import BrakeControl
from assetsync.sync.lookup_gates import Repeating
from assetsync.sync.observer import Everywhere, Observer
from assetsync.sync.readback.auditor import ask_for_audit
from assetsync.sync.readback.indexer import SUSPECT

log = structlog.get_logger(__name__)

_KIND = "service"
_SAMPLES = 10
_ASK_AGAIN = 60.0
_CACHED = (
    "searches refuse the API key, which the address for uploads accepts: the service keeps the refusal of a key that"
    " was tried before it was valid for up to a day, and sending then resumes by itself"
)


class ServiceIdentity:
    """Passes all requests on to the service once it is known; shared by all threads."""

    def __init__(
        self, service: Service, ledger: Ledger, clock: Clock, address: str, folders: Sequence[str] = ()
    ) -> None:
        """Take the address and the mapped folders of the service from the configuration."""
        self._service = service
        self.everywhere = Everywhere(service, clock.steady, folders)
        self._repeating = Repeating(self.everywhere, clock.steady)
        self._ledger = ledger
        self._clock = clock
        self._address = address
        self._folders = folders
        self._brake_control = BrakeControl(ledger, clock)
        self._lock = threading.Lock()
        self._refused: tuple[float, str] | None = None
        self._only_probe_answered = False
        """Whether a probe of the address for uploads, but no search since, has shown that the key is valid."""
        self.is_known = False
        """Whether the service counts as the one that holds the ledger's assets; an unchanged address is enough."""

    def make_sure(self) -> None:
        """Return if the service is known. Raise ServiceError, and ServiceElsewhere if it may be another one."""
        if self.is_known:
            return
        before = self._ledger.reports.fact(SERVICE)
        if before is None or before == self._address:
            self._accept_address()
            return
        # A thread that waits for the one that asks would seem to hang.
        if not self._lock.acquire(blocking=False):
            raise ServiceElsewhere("the service has another address, and is being asked for what it should hold")
        try:
            self._ask(before)
            # Have everything read again that was learned from the service at its earlier address.
            for folder in self._folders:
                self._ledger.folder_listings.again(folder)
            # Findings about the index belong to the earlier address, or no longer hold.
            for name in (SUSPECT, INDEX_STOPPED):
                self._ledger.set_fact(name, None)
            ask_for_audit(self._ledger, self._clock.now())
            log.warning(
                "the service has another address", before=before, now=self._address, next="each folder is audited once"
            )
            self._accept_address()
        finally:
            self._lock.release()

    @property
    def account(self) -> str:
        """The account of the service."""
        return self._service.account

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Send one file; `make_sure` was called when the file was prepared."""
        return self._service.upload(request, body)

    def close_kept(self) -> None:
        """Close the connections that wait for a further upload."""
        self._service.close_kept()

    def probe_uploads(self) -> AddressProbe:
        """Probe the address for uploads."""
        probe = self._service.probe_uploads()
        if probe.is_right is not None:
            self._only_probe_answered = probe.is_right and not probe.key_refused
        return probe

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open one search. Raise as `make_sure` does, too, and KeyRefusalCached.

        A failure of a server that stored uploads before casts no doubt on the address.
        """
        self.make_sure()
        try:
            with self._repeating.search(request) as assets:
                self._only_probe_answered = False
                yield assets
        except KeyRefused as error:
            if not self._only_probe_answered:
                raise
            raise KeyRefusalCached(_CACHED) from error
        except BadAnswer as error:
            if error.is_of_server and self._ledger.has_sent_to(self._address):
                error.hint = SERVICE_FAILS_HELP
            raise

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
        if self._refused is not None and self._clock.steady() - self._refused[0] < _ASK_AGAIN:
            raise ServiceElsewhere(self._refused[1])
        samples = self._ledger.control_samples.of_all(_SAMPLES)
        if self._shows_one_of(samples) if samples else not self._ledger.control_samples.has_begun():
            return
        shows = "and no earlier upload was read back yet by which to recognise it"
        if samples:
            shows = f"which shows none of {len(samples)} assets that it should have"
        detail = (
            f"the service was at {before} and is at {self._address} now, {shows}: is this another installation? Uploads"
            " stay stopped until you confirm that this service holds the earlier uploads"
        )
        self._brake_control.pull(_KIND, self._address, detail, 1)
        self._refused = self._clock.steady(), detail
        raise ServiceElsewhere(detail)

    def _shows_one_of(self, samples: Sequence[KnownAsset]) -> bool:
        observer = Observer(self.everywhere, self._ledger, self._clock.now)
        # People may have renamed all of them. The index still knows them, unless it was not moved with the service.
        try:
            if observer.ids([sample.assetid for sample in samples]):
                return True
        except KeyRefused:
            raise
        except ServiceError as error:
            log.warning("the index of the service cannot be searched", detail=str(error), next="again in a minute")
        return observer.folder_of_one(samples) is not None

    def _accept_address(self) -> None:
        if self._ledger.reports.fact(SERVICE) != self._address:
            self._ledger.set_fact(SERVICE, self._address)
        # Revoke releases for other addresses: the operator has come back from them.
        self._brake_control.withdraw_others(_KIND, [self._address])
        self._brake_control.lift_others(_KIND, (), "the service holds the earlier uploads")
        self.is_known = True
