"""How a site stands, read from the ledger in one go.

Reads only. What is said of it in words is `sentences`', as JSON `document`'s, as a page `page`'s, as metrics
`metrics`'.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assetsync.config import SiteConfig, mappings
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.hours import Hour
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Brake, Counts
from assetsync.ledger.rows import FileRow
from assetsync.ledger.store import is_held
from assetsync.model import Mapping, State

NAMED = 20
"""Of blocked, doubtful and drifted files so many are named."""

PAUSED = "paused"
"""The fact in which the running process tells of its pause: JSON of start, since, reason and detail."""

JOBS = ("rescan", "index", "verify", "audit")
_CHART_HOURS = 24


class Level(StrEnum):
    """Whether to sleep: all is in sync, it goes on by itself, or a person must act."""

    IN_SYNC = "in_sync"
    UNDER_WAY = "under_way"
    NEEDS_YOU = "needs_you"


@dataclass(frozen=True, slots=True)
class LastScan:
    """When the tree was last looked at as a whole, and whether all of it could be read."""

    at: float
    complete: bool
    unreadable: int


@dataclass(frozen=True, slots=True)
class Run:
    """When a kind of regular work last came to its end, and how many seconds it took, where that is known."""

    at: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Paused:
    """Why and since when the running process sends nothing."""

    since: float
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Standing:
    """All that the ledger tells of a site at one time; of the lists, the first `NAMED`.

    `running` says whether a process holds the ledger; `oldest` is the version under way that was queued first.
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
    more_drifted: bool
    oldest: FileRow | None
    hours: tuple[Hour, ...]
    last_scan: LastScan | None
    last_runs: dict[str, Run]
    index_stopped: str | None
    paused: Paused | None

    @property
    def pending(self) -> int:
        """Count what goes on by itself: queued, on its way, or stored and not verified yet."""
        return self.counts.of(State.QUEUED, State.SENDING, State.STORED)

    @property
    def in_doubt(self) -> int:
        """Count the doubts, those of versions that the tree no longer has included."""
        return self.counts.of(State.IN_DOUBT) + self.counts.unresolved_history

    @property
    def in_sync(self) -> bool:
        """Whether a complete scan found nothing that is not verified, and nothing waits for a person."""
        left = self.pending or self.in_doubt or self.counts.of(State.BLOCKED) or self.brakes
        return self.last_scan is not None and self.last_scan.complete and not left

    @property
    def oldest_age(self) -> float:
        """Give for how many seconds the version that waits longest has waited; 0 when none does."""
        return 0.0 if self.oldest is None else max(0.0, self.at - self.oldest.queued_at)

    @property
    def level(self) -> Level:
        """Sum it up."""
        key_refused = self.paused is not None and self.paused.reason == "key_refused"
        if self.counts.of(State.BLOCKED) or self.brakes or key_refused:
            return Level.NEEDS_YOU
        return Level.IN_SYNC if self.in_sync and self.paused is None else Level.UNDER_WAY


def last_run(job: str) -> str:
    """Name the fact that tells when a kind of regular work last came to its end."""
    return "last_scan" if job == "rescan" else f"last_{job}"


def stand(config: SiteConfig, ledger: Ledger, now: float) -> Standing:
    """Read how the site stands at `now` (seconds since the epoch). Raises LedgerError."""
    reports = ledger.reports
    counts = reports.counts(now)
    drifted = reports.drifted(NAMED + 1)
    running = ledger.store.holds_lock or is_held(ledger.store.path)
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
        drifted=tuple(drifted[:NAMED]),
        more_drifted=len(drifted) > NAMED,
        oldest=reports.waiting_longest(counts),
        hours=tuple(ledger.hours.last(_CHART_HOURS, now)),
        last_scan=_last_scan(ledger),
        last_runs=_last_runs(ledger),
        index_stopped=reports.fact(INDEX_STOPPED),
        paused=_paused(ledger) if running else None,
    )


def _last_scan(ledger: Ledger) -> LastScan | None:
    said = _said(ledger, last_run("rescan"))
    return None if said is None else LastScan(float(said["at"]), bool(said["complete"]), int(said["unreadable"]))


def _last_runs(ledger: Ledger) -> dict[str, Run]:
    runs = {}
    for job in JOBS:
        said = _said(ledger, last_run(job))
        if said is not None:
            runs[job] = Run(float(said["at"]), said.get("seconds"))
    return runs


def _paused(ledger: Ledger) -> Paused | None:
    """Give the pause that the running process wrote down; one of an earlier process is over."""
    said = _said(ledger, PAUSED)
    if said is None or str(said["start"]) != ledger.reports.fact("start"):
        return None
    return Paused(float(said["since"]), str(said["reason"]), str(said["detail"]))


def _said(ledger: Ledger, name: str) -> dict[str, Any] | None:
    fact = ledger.reports.fact(name)
    return None if fact is None else json.loads(fact)
