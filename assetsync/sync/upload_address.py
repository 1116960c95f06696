"""Find out whether the address for uploads is the service's, and whether the service accepts the key there.

A form without a file is posted to the address. At a wrong address every upload ends in doubt, and look-ups prove only
after its grace that it did not arrive. So the form is posted once an upload there is in doubt and none was accepted, at
most once for each address and key that answers. The daemon also posts it at its start, after a change of the key and
daily, but not more often: the service makes a folder on its disk for each form. What the answer proves is left to
`core.outcome`. Nothing waits for it: a wrong address is reported, and uploads go on.
"""

import structlog

from assetsync.core.outcome import UPLOAD_ADDRESS_HELP, not_the_upload_address
from assetsync.errors import KeyRefused
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.runs import UploadAddress
from assetsync.model import Clock, Service

log = structlog.get_logger(__name__)

_DAY = 24 * 3600.0
_SOON = 600.0
"""Seconds after an accepted key within which another start does not try it again."""


class UploadAddressCheck:
    """The check of one process; one thread uses it."""

    def __init__(self, service: Service, ledger: Ledger, clock: Clock, address: str) -> None:
        """Take the address for uploads from the configuration."""
        self._service = service
        self._ledger = ledger
        self._clock = clock
        self._address = address
        self._is_over = False
        self._key_due = clock.steady()

    def step(self, *, tries_key: bool = False) -> None:
        """Probe the address if that is due, and record the result. Raise KeyRefused, LedgerError.

        With `tries_key` that is also due at the first call, and a day after each probe.
        """
        is_key_due = tries_key and self._clock.steady() >= self._key_due
        if self._is_over and not is_key_due:
            return
        runs, uploads = self._ledger.runs, self._ledger.hourly_stats.total()
        known = runs.recorded(UploadAddress)
        if known is None or known.address != self._address:
            # Without a record, an earlier release accepted what was uploaded, at this address as far as is known.
            known = UploadAddress(self._address, 0 if known is None else uploads)
            runs.record(UploadAddress, known)
        was_accepted = uploads > known.uploads
        if is_key_due:
            self._key_due = self._clock.steady() + _DAY
            was_tried = known.account == self._service.account and 0 <= self._clock.now() - known.tried_at < _SOON
            if not was_tried:
                self._probe(known, is_proven=was_accepted)
            return
        self._is_over = was_accepted or self._ledger.doubts.count() > 0
        if self._is_over and not was_accepted and known.account != self._service.account:
            self._probe(known, is_proven=False)

    def _probe(self, known: UploadAddress, *, is_proven: bool) -> None:
        """Probe the address; `is_proven`: it has stored an upload, so that only the answer of its operation counts."""
        probe = self._service.probe_uploads()
        if probe.key_refused:
            raise KeyRefused(probe.detail)
        if probe.is_right is None or (is_proven and not probe.is_right):
            return
        detail = "" if probe.is_right else not_the_upload_address(self._address, probe.detail)
        found = known._replace(account=self._service.account, detail=detail, tried_at=self._clock.now())
        self._ledger.runs.record(UploadAddress, found)
        if detail:
            log.warning("wrong upload address", detail=detail, fix=UPLOAD_ADDRESS_HELP)
