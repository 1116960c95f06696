"""How a site stands, read from the ledger in one go.

Reads only. What is said of it in words is `sentences`', as JSON `document`'s, as a page `page`'s, as metrics
`metrics`'.
"""

from dataclasses import dataclass
from enum import StrEnum

from assetsync.config import SiteConfig, mappings
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.database import is_held
from assetsync.ledger.hourly_stats import Hour
from assetsync.ledger.place import without_room
from assetsync.ledger.reports import Brake, Counts
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import LastScan, Pause, Refusal, Run, Unsettled
from assetsync.ledger.view import LedgerView
from assetsync.model import Mapping, State
from assetsync.status.out_of_sync import OutOfSync, what_is_out_of_sync

NAMED = 20
"""Of blocked, doubtful and drifted files so many are named."""

_CHART_HOURS = 24


class Level(StrEnum):
    """Whether to sleep: all is in sync, it goes on by itself, or a person must act."""

    IN_SYNC = "in_sync"
    UNDER_WAY = "under_way"
    NEEDS_YOU = "needs_you"


@dataclass(frozen=True, slots=True)
class Standing:
    """All that the ledger tells of a site at one time; of the lists, the first `NAMED`.

    `running` says whether a process holds the ledger; `oldest` is the version under way that was queued first. Without
    a running process, `ended_by` is the trouble that the last one ended in. `undecided` names folders of the service
    that were found to miss much, of which the next audit concludes it. `without_room` says that the ledger's disk is
    full: then it does not tell what happens now. `sends_from` is when `upload.window` opens, while it is shut and
    something is queued. `reads_back` says whether a daemon would read back what is stored.
    `refused` is the configuration that the running process was to go on with, and did not.
    """

    site: str
    at: float
    running: bool
    mappings: tuple[Mapping, ...]
    counts: Counts
    brakes: tuple[Brake, ...]
    holds: dict[str, str]
    blocked: tuple[FileRow, ...]
    doubts: tuple[FileRow, ...]
    drifted: tuple[FileRow, ...]
    drift_count: int
    oldest: FileRow | None
    hours: tuple[Hour, ...]
    unsettled: Unsettled
    last_scan: LastScan | None
    last_runs: dict[str, Run]
    index_stopped: str | None
    paused: Pause | None
    ended_by: Pause | None
    undecided: tuple[str, ...] = ()
    without_room: str | None = None
    sends_from: float | None = None
    reads_back: bool = True
    refused: Refusal | None = None

    @property
    def left(self) -> OutOfSync:
        """What keeps the site from being in sync."""
        complete = self.last_scan is not None and self.last_scan.complete
        braked, undecided = len(self.brakes), len(self.undecided)
        return what_is_out_of_sync(self.counts, self.unsettled, braked=braked, complete=complete, undecided=undecided)

    @property
    def pending(self) -> int:
        """Count what goes on by itself: queued, on its way, stored and not verified yet, or not at rest yet."""
        return self.left.pending

    @property
    def not_read_back(self) -> int:
        """Count what is pending and will stay stored, for the schedule has nothing that reads back."""
        return 0 if self.reads_back else self.counts.of(State.STORED)

    @property
    def in_doubt(self) -> int:
        """Count the doubts, those of versions that the tree no longer has included."""
        return self.left.in_doubt

    @property
    def in_sync(self) -> bool:
        """Whether a complete scan found nothing that is not verified, and nothing waits for a person."""
        return self.left.in_sync and self.without_room is None

    @property
    def scan_age(self) -> float | None:
        """Give how many seconds ago the tree was last looked at as a whole; None where it never was."""
        return None if self.last_scan is None else max(0.0, self.at - self.last_scan.at)

    @property
    def missing_folders(self) -> tuple[str, ...]:
        """Name the mapped folders that the last scan did not find."""
        return () if self.last_scan is None else self.last_scan.missing

    @property
    def unreadable(self) -> str | None:
        """Name the first path that the last scan was not let read, and why; None for none."""
        return None if self.last_scan is None else self.last_scan.first_unreadable or None

    @property
    def oldest_age(self) -> float:
        """Give for how many seconds the version that waits longest has waited; 0 when none does."""
        return 0.0 if self.oldest is None else max(0.0, self.at - self.oldest.queued_at)

    @property
    def level(self) -> Level:
        """Sum it up."""
        trouble = self.paused or self.ended_by
        key_refused = trouble is not None and trouble.reason == "key_refused"
        asks = self.brakes, self.missing_folders, self.unreadable, key_refused, self.without_room, self.index_stopped
        if self.counts.of(State.BLOCKED) or any(asks):
            return Level.NEEDS_YOU
        return Level.IN_SYNC if self.in_sync and trouble is None else Level.UNDER_WAY


def stand(config: SiteConfig, ledger: LedgerView, now: float, *, running: bool | None = None) -> Standing:
    """Read how the site stands at `now` (seconds since the epoch). Raises LedgerError.

    Whether it is `running` is seen by the lock, unless whoever asks knows it, or has no use for it.
    """
    reports = ledger.reports
    if running is None:
        running = ledger.store.holds_lock or is_held(ledger.store.path)
    counts, window = reports.counts(now), config.upload.window
    return Standing(
        site=config.site,
        at=now,
        running=running,
        mappings=mappings(config),
        counts=counts,
        brakes=tuple(reports.brakes()),
        holds=reports.holds(now),
        blocked=tuple(reports.blocked(NAMED)),
        doubts=tuple(reports.in_doubt(NAMED)),
        drifted=tuple(reports.drifted(NAMED)),
        drift_count=reports.count_drifted(),
        oldest=reports.waiting_longest(),
        hours=tuple(ledger.hours.last(_CHART_HOURS, now)),
        unsettled=ledger.runs.unsettled(),
        last_scan=ledger.runs.last_scan(),
        last_runs=ledger.runs.last(),
        index_stopped=reports.fact(INDEX_STOPPED),
        paused=ledger.runs.pause_at_hand() if running else None,
        ended_by=None if running else ledger.runs.pause(),
        undecided=undecided_folders(config, ledger),
        without_room=without_room(ledger.store.path),
        sends_from=None if window is None or not counts.of(State.QUEUED) else window.opens(now),
        reads_back=config.schedule.reads_back,
        refused=ledger.runs.refusal_at_hand() if running else None,
    )


def undecided_folders(config: SiteConfig, ledger: LedgerView) -> tuple[str, ...]:
    """Name the mapped folders of the service of which an audit is still to conclude what they miss."""
    mapped = {folder.destfolderid for folder in config.folders}
    return tuple(folder for folder in ledger.runs.undecided_audits() if folder in mapped)
