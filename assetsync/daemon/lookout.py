"""What the running process knows of itself, for the page and the metrics; and its pauses, written down for all."""

import json

from assetsync import __version__
from assetsync.daemon.loops import Pulse
from assetsync.daemon.schedule import Schedule
from assetsync.daemon.work import Work
from assetsync.site import Site
from assetsync.status.live import Live
from assetsync.status.standing import PAUSED


class Lookout:
    """Gathers the live values; called from the page's threads, it asks no ledger and takes no time."""

    def __init__(self, site: Site, work: Work, schedule: Schedule, pulse: Pulse) -> None:
        self._site = site
        self._work = work
        self._schedule = schedule
        self._pulse = pulse
        self._started_at = site.edges.clock.now()

    def __call__(self) -> Live:
        """Look."""
        return Live(
            version=__version__,
            started_at=self._started_at,
            trust=self._work.watching.trust,
            next_runs=self._schedule.next_runs(),
            late=tuple(self._pulse.late()),
            settling=len(self._site.settling),
            adopted=self._site.edges.tally.read().adopted,
        )


class Pauses:
    """Writes into the ledger when a pause begins and ends, so that `status` beside the daemon can tell of it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._noted: tuple[float, str] | None = None

    def note(self) -> None:
        """Write down what has changed. Raises LedgerError, and then it is tried again."""
        clock, ledger = self._site.edges.clock, self._site.edges.ledger
        pause = self._site.gate.pause
        found = None if pause is None else (pause.since, pause.reason)
        if found == self._noted:
            return
        said = None
        if pause is not None:
            since = clock.now() - (clock.steady() - pause.since)
            said = json.dumps(
                {"start": ledger.start_no, "since": since, "reason": pause.reason, "detail": pause.detail}
            )
        ledger.set_fact(PAUSED, said)
        self._noted = found
