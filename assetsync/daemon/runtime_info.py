"""Collect the values that only the running process knows, for the page and the metrics.

Values of the ledger are left to `status.standing`.
"""

from assetsync import __version__
from assetsync.app import Site
from assetsync.daemon.loops import Pulse
from assetsync.daemon.schedule import Schedule
from assetsync.daemon.work import Work
from assetsync.status.standing import Live


class RuntimeInfo:
    """The source of the live values; the page's threads call it, so it reads no ledger and does not block."""

    def __init__(self, site: Site, work: Work, schedule: Schedule, pulse: Pulse) -> None:
        self._site = site
        self._work = work
        self._schedule = schedule
        self._pulse = pulse
        self._started_at = site.context.clock.now()

    def __call__(self) -> Live:
        """Return the current values."""
        return Live(
            version=__version__,
            started_at=self._started_at,
            trust=self._work.watching.trust,
            next_runs=self._schedule.next_runs(),
            late=tuple(self._pulse.late()),
            settling=len(self._site.settling),
            adopted=self._site.context.progress.read().adopted,
        )
