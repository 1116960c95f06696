"""Asks the service to index what is stored but not findable, and guards the index while doing so.

Observed: in some releases any call first deletes the tenant's whole index. So assets that were findable are looked up
before and after each call; when they are not findable any more, no further call is made, and that is said loudly.

Calls are gathered: one call carries all that is due, and the next one follows an interval later. Only where more is due
than one call can carry do further calls follow at once.
"""

from collections.abc import Sequence

import structlog

from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.model import SearchRequest
from assetsync.service.index import BATCH_COUNT, batches
from assetsync.sync.context import Context
from assetsync.sync.global_lookup import by_id

log = structlog.get_logger(__name__)

SUSPECT = "index_suspect"
_CALLED = "index_called"
"""The fact that holds when the last call was made, in seconds since the epoch: a restart does not call any sooner."""

_SAMPLE = 5
_AGAIN_AFTER = 10


class Indexer:
    """Calls searchIndex when it is due; used by one thread at a time. `interval` is schedule.index, None for off."""

    def __init__(self, context: Context, *, interval: float | None) -> None:
        self._ledger = context.ledger
        self._service = context.service
        self._clock = context.clock
        self._interval = interval
        # The sample of a call that another process made before it died is looked at in the first step.
        self._look_again_at: float | None = 0.0
        # Whether the last call could not carry all that was due.
        self._has_more = False

    @property
    def enabled(self) -> bool:
        """Whether it asks at all: the configuration wants it, and the guard has not stopped it."""
        return self._interval is not None and not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the guard has found that a call made other assets unfindable."""
        return self._ledger.reports.fact(INDEX_STOPPED) is not None

    def begin(self) -> None:
        """Forget what the guard found where nothing is to be indexed: whoever switches it on again wants it tried."""
        if self._interval is None and self.stopped:
            for fact in (SUSPECT, INDEX_STOPPED):
                self._ledger.set_fact(fact, None)

    def rest(self) -> float:
        """Return the seconds until the next call may be made; 0 if it may be made now."""
        called = self._ledger.reports.fact(_CALLED)
        if self._interval is None or self._has_more or called is None:
            return 0.0
        since = self._clock.now() - float(called)
        # A time after now was told by a clock that has since been set back.
        return max(0.0, self._interval - since) if since >= 0 else 0.0

    def step(self) -> int:
        """Ask for the indexing of what is due, once an interval; return how many ids were sent. Raises ServiceError.

        A call that fails counts: what is due stays due for the next one.
        """
        if self._interval is None or self.stopped:
            return 0
        now = self._clock.now()
        if self._look_again_at is not None and self._clock.steady() >= self._look_again_at and self._was_wiped():
            return 0
        if self.rest() > 0:
            return 0
        self._has_more = False
        again = now - _AGAIN_AFTER * self._interval
        rows = self._ledger.assets.to_index(now, now - self._interval, again, BATCH_COUNT + 1)
        # One call a step, with its own look before and after.
        ids = next(batches(row.assetid for row in rows if row.assetid is not None), [])
        if not ids or self._was_wiped():
            return 0
        sample = self._sample(set(ids))
        # Written before the call: should the process die in it, the next start still looks at the sample.
        self._ledger.set_fact(SUSPECT, ",".join(sample) or None)
        self._ledger.set_fact(_CALLED, repr(now))
        self._service.index(ids)
        self._has_more = len(rows) > len(ids)
        self._ledger.assets.asked([row.id for row in rows if row.assetid in ids], now)
        log.info("asked for indexing", assets=len(ids))
        if not self._was_wiped():
            # Once more after a while: what the call began may not have been over.
            self._look_again_at = self._clock.steady() + self._interval
        return len(ids)

    def _sample(self, sent: set[str]) -> list[str]:
        """Find a few assets of the whole tenant that are findable now, without those that are about to be sent."""
        request = SearchRequest(searchfor="*", maxrows=_SAMPLE + len(sent))
        with self._service.search(request) as assets:
            sample: list[str] = []
            for asset in assets:
                if len(sample) < _SAMPLE and asset.id not in sent and asset.id not in sample:
                    sample.append(asset.id)
        ours = [i for i in self._ledger.assets.findable_sample(_SAMPLE) if i not in sample]
        if ours and len(sample) < _SAMPLE:
            sample += sorted(self._findable(ours))
        return sample

    def _was_wiped(self) -> bool:
        """Look at the sample of the last call; stop for good when it is gone. Raises ServiceError: no verdict."""
        kept = self._ledger.reports.fact(SUSPECT)
        if not kept:
            self._look_again_at = None
            return False
        sample = kept.split(",")
        found = self._findable(sample)
        self._look_again_at = None
        if len(found) * 2 < len(sample):
            detail = (
                f"after searchIndex {len(sample) - len(found)} of {len(sample)} other assets were not findable:"
                " this release of the service seems to delete its whole index when it is called, so assetsync calls it"
                " no more; set `schedule.index: off`, and let the DAM's administrator rebuild the index"
            )
            self._ledger.set_fact(INDEX_STOPPED, detail)
            log.error("indexing stopped", detail=detail)
            return True
        return False

    def _findable(self, ids: Sequence[str]) -> set[str]:
        return set(by_id(self._service, ids))
