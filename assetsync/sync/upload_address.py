"""Find out whether the address for uploads is the service's, once an upload there is in doubt and none was accepted.

At a wrong address every upload ends in doubt, and look-ups prove only after its grace that it did not arrive. So a form
without a file is posted to the address, at most once for each address and key that answers. What the answer proves is
left to `core.outcome`. Nothing waits for it: a wrong address is reported, and uploads go on.
"""

import structlog

from assetsync.core.outcome import UPLOAD_ADDRESS_HELP, not_the_upload_address
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.runs import UploadAddress
from assetsync.model import Service

log = structlog.get_logger(__name__)


class UploadAddressCheck:
    """The check of one process; one thread uses it."""

    def __init__(self, service: Service, ledger: Ledger, address: str) -> None:
        """Take the address for uploads from the configuration."""
        self._service = service
        self._ledger = ledger
        self._address = address
        self._is_over = False

    def step(self) -> None:
        """Probe the address if that is due, and record the result. Raise LedgerError."""
        if self._is_over:
            return
        runs, uploads = self._ledger.runs, self._ledger.hourly_stats.total()
        known = runs.upload_address()
        if known is None or known.address != self._address:
            # Without a record, an earlier release accepted what was uploaded, at this address as far as is known.
            known = UploadAddress(self._address, 0 if known is None else uploads)
            runs.note_upload_address(known)
        was_accepted = uploads > known.uploads
        self._is_over = was_accepted or self._ledger.doubts.count() > 0
        if self._is_over and not was_accepted and known.account != self._service.account:
            self._probe(known)

    def _probe(self, known: UploadAddress) -> None:
        probe = self._service.probe_uploads()
        if probe.is_right is None:
            return
        detail = "" if probe.is_right else not_the_upload_address(self._address, probe.detail)
        self._ledger.runs.note_upload_address(known._replace(account=self._service.account, detail=detail))
        if detail:
            log.warning("wrong upload address", detail=detail, fix=UPLOAD_ADDRESS_HELP)
