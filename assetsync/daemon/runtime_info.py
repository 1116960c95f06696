"""What the running process knows of itself, for the page and the metrics."""

from assetsync import __version__
from assetsync.app import Site
from assetsync.daemon.loops import Pulse
from assetsync.daemon.schedule import Schedule
from assetsync.daemon.work import Work
from assetsync.status.live import Live


class RuntimeInfo:
    """Gathers the live values; called from the page's threads, it asks no ledger and takes no time."""

    def __init__(self, site: Site, work: Work, schedule: Schedule, pulse: Pulse) -> None:
        self._site = site
        self._work = work
        self._schedule = schedule
        self._pulse = pulse
        self._started_at = site.context.clock.now()

    def __call__(self) -> Live:
        """Look."""
        return Live(
            version=__version__,
            started_at=self._started_at,
            trust=self._work.watching.trust,
            next_runs=self._schedule.next_runs(),
            late=tuple(self._pulse.late()),
            settling=len(self._site.settling),
            adopted=self._site.context.progress.read().adopted,
        )
