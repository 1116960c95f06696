"""Ask the service to index stored assets that are not findable, and guard its index.

Observed: in some releases, any call of searchIndex first deletes the tenant's whole index. So the indexer looks up a
sample of findable assets before and after each call. If more than half of the sample are no longer findable, and the
database still shows one of these, it makes no further call and logs an error.

A call carries all due ids, and the next call follows an interval later. If more ids are due than fit into a call, the
next call follows at once. Finding out which assets are findable is left to `sync.readback.verifier`.
"""

from collections.abc import Callable

import structlog

from assetsync.errors import ServiceRefused
from assetsync.ledger.read_back import INDEX_STOPPED
from assetsync.model import SearchRequest
from assetsync.service.index import BATCH_COUNT, batches
from assetsync.sync.context import Context

log = structlog.get_logger(__name__)

SUSPECT = "index_suspect"
_CALLED = "index_called"
"""Key of the time of the last call, in seconds since the epoch: after a restart, the interval still counts."""

_SAMPLE = 5
_AGAIN_AFTER = 10


class Indexer:
    """Caller of searchIndex; used by one thread at a time. `interval` is schedule.index in seconds, None for off.

    `refuses` returns whether the service refuses every search through its index: without a sample no call is made.
    """

    def __init__(self, context: Context, *, interval: float | None, refuses: Callable[[], bool]) -> None:
        self._ledger = context.ledger
        self._service = context.service
        self._observer = context.observer
        self._clock = context.clock
        self._refuses = refuses
        self.interval = interval
        """Seconds between two calls; None for off."""
        # The first step checks the sample of a call that an earlier process made before it died.
        self._look_again_at: float | None = 0.0
        # Whether more ids were due than the last call could carry.
        self._has_more = False

    @property
    def enabled(self) -> bool:
        """Whether the configuration wants indexing and the guard has not stopped it."""
        return self.interval is not None and not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the guard found that a call made other assets unfindable."""
        return self._ledger.reports.fact(INDEX_STOPPED) is not None

    def begin(self) -> None:
        """Clear the guard's result while indexing is off, so that switching it on again tries a call."""
        if self.interval is None and self.stopped:
            for fact in (SUSPECT, INDEX_STOPPED):
                self._ledger.set_fact(fact, None)

    def rest(self) -> float:
        """Return the seconds until the next call may be made; 0 for now."""
        called = self._ledger.reports.fact(_CALLED)
        if self.interval is None or self._has_more or called is None:
            return 0.0
        since = self._clock.now() - float(called)
        # A time in the future comes from a clock that has since been set back.
        return max(0.0, self.interval - since) if since >= 0 else 0.0

    def step(self) -> int:
        """Ask for the indexing of due assets, once an interval, and return how many ids were sent.

        Raise ServiceError. A failed call counts as a call; its assets stay due for the next one.
        """
        if self.interval is None or self.stopped or self._refuses():
            return 0
        try:
            return self._step(self.interval)
        except ServiceRefused:
            if not self._refuses():
                raise
            return 0

    def _step(self, interval: float) -> int:
        now = self._clock.now()
        if self._look_again_at is not None and self._clock.steady() >= self._look_again_at and self._stop_if_wiped():
            return 0
        if self.rest() > 0:
            return 0
        self._has_more = False
        again = now - _AGAIN_AFTER * interval
        rows = self._ledger.read_back.to_index(now, now - interval, again, BATCH_COUNT + 1)
        # A step makes one call, with a check before and after it.
        ids = next(batches(row.assetid for row in rows if row.assetid is not None), [])
        if not ids or self._stop_if_wiped():
            return 0
        sample = self._sample(set(ids))
        # Commit the sample before the call: if the process dies during the call, the next start checks the sample.
        self._ledger.set_fact(SUSPECT, ",".join(sample) or None)
        self._ledger.set_fact(_CALLED, repr(now))
        self._service.index(ids)
        self._has_more = len(rows) > len(ids)
        self._ledger.read_back.asked(ids, now)
        log.info("asked for indexing", assets=len(ids))
        if not self._stop_if_wiped():
            # Check again after an interval: the work that the call started may not have ended yet.
            self._look_again_at = self._clock.steady() + interval
        return len(ids)

    def _sample(self, sent: set[str]) -> list[str]:
        """Return ids of a few findable assets of the whole tenant, without those in `sent`."""
        request = SearchRequest(searchfor="*", maxrows=_SAMPLE + len(sent))
        with self._service.search(request) as assets:
            sample: list[str] = []
            for asset in assets:
                if len(sample) < _SAMPLE and asset.id not in sent and asset.id not in sample:
                    sample.append(asset.id)
        ours = [i for i in self._ledger.read_back.findable_sample(_SAMPLE) if i not in sample]
        if ours and len(sample) < _SAMPLE:
            sample += sorted(self._observer.ids(ours))
        return sample

    def _stop_if_wiped(self) -> bool:
        """Check the sample of the last call; stop indexing for good if more than half of it left the index alone.

        Raise ServiceError if the service does not answer; then nothing is decided.
        """
        sample = list(filter(None, (self._ledger.reports.fact(SUSPECT) or "").split(",")))
        lost = set(sample) - self._observer.ids(sample).keys() if sample else set()
        # Assets that were deleted, or a service that shows nothing at all for a while, prove nothing about its index.
        is_suspect = len(lost) * 2 > len(sample)
        was_wiped = is_suspect and any(asset.id in lost for asset in self._observer.everything())
        self._look_again_at = None
        if is_suspect and not was_wiped:
            # Another check of the same sample would list all assets of the service again.
            self._ledger.set_fact(SUSPECT, None)
        if was_wiped:
            detail = (
                f"after searchIndex {len(lost)} of {len(sample)} other assets were not findable:"
                " this release of the service seems to delete its whole index when it is called, so assetsync calls it"
                " no more; set `schedule.index: off`, and let the DAM's administrator rebuild the index"
            )
            self._ledger.set_fact(INDEX_STOPPED, detail)
            log.error("indexing stopped", detail=detail)
        return was_wiped
