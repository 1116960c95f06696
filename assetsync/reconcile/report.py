"""Build the result of a run or of a dry run: its work, and what keeps the site from being in sync.

A dry run counts what a run would do (`reconcile --dry-run`), without writing and without requests to the service.
Printing and the exit code are left to the command.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from assetsync.app import Site
from assetsync.errors import RootElsewhere, RootMissing
from assetsync.ledger.reports import Counts
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.parts import make_preview
from assetsync.status.site_status import undecided_folders, what_is_out_of_sync
from assetsync.sync.context import Counted
from assetsync.sync.intake.intake import Planned, ScanResult
from assetsync.sync.upload.decide import Block, Decision, Gather, Wait
from assetsync.text import printable
from assetsync.tree.scan_report import ScanReport

_SENT = ("upload", "replace", "hash")
"""The actions of a plan that count as an upload."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run; `vanished` counts the files that its scan found gone, renamed files apart.

    `left_out` counts the files that were known and that the mappings and the rules for ignored files leave out now.
    `missing` names the mapped folders that the scan did not find. `undecided` counts folders of the service whose last
    audit missed so many assets that it pulled a brake; the next audit concludes it. `finished` means that the scan
    reached the end of the tree. `trouble` describes a pause that has not ended. `would_brake` holds the reasons for
    which the run after a dry run would pull a brake. `checked_again` files are verified, and are to be read again.
    """

    site: str
    scanned: int
    unchanged: int
    uploaded: int
    adopted: int
    vanished: int
    bytes_uploaded: int
    seconds: float
    verified: int
    pending: int
    in_doubt: int
    blocked: int
    in_sync: bool
    unreadable: int = 0
    missing: tuple[str, ...] = ()
    undecided: int = 0
    finished: bool = False
    braked: int = 0
    trouble: str | None = None
    interrupted: bool = False
    would_brake: tuple[str, ...] = ()
    left_out: int = 0
    checked_again: int = 0


def report_of(
    site: Site,
    result: ScanResult | None,
    counts: Counts,
    counted: Counted,
    *,
    unsettled: Unsettled,
    seconds: float,
    coming: int = 0,
) -> Report:
    """Return the report of a run over `site` that took `seconds`.

    `result` is the result of its scan, None without a scan. `counted` is the work done, `unsettled` the files that are
    not settled, `coming` the number of files that a run would send and that are not in the ledger yet.
    """
    scan = None if result is None else result.report
    left = what_is_out_of_sync(
        counts,
        unsettled,
        braked=len(site.context.ledger.reports.brakes()),
        complete=scan is not None and scan.complete,
        coming=coming,
        undecided=len(undecided_folders(site.config.outline, site.context.ledger)),
    )
    pause = site.gates.closed
    return Report(
        site=site.config.site,
        scanned=result.scanned if result else 0,
        unchanged=result.unchanged if result else 0,
        uploaded=counted.uploaded,
        adopted=counted.adopted,
        vanished=result.vanished if result else 0,
        bytes_uploaded=counted.bytes_uploaded,
        seconds=round(seconds, 3),
        verified=counts.of(State.VERIFIED),
        pending=left.pending,
        in_doubt=left.in_doubt,
        blocked=left.blocked,
        in_sync=left.in_sync,
        unreadable=scan.unreadable_count if scan else 0,
        missing=site.rescan.missing_folders(scan) if scan else (),
        undecided=left.undecided,
        finished=scan is not None and scan.finished,
        braked=left.braked,
        trouble=None if pause is None else pause.detail,
        interrupted=site.context.clock.wait(0),
        left_out=result.unmapped if result else 0,
        checked_again=left.checked_again,
    )


def dry_run(site: Site, planned: Callable[[Planned], None] = lambda _found: None) -> Report:
    """Return what a run would do; change nothing. Raise RootMissing for a new site without its root.

    `planned` is called with each file that a run would send, block or no longer find. The counts are those of the same
    files.

    It may run beside a daemon. A renamed, moved or touched file counts as an upload: recognizing it needs its digest,
    and a dry run reads no file.
    """
    context = site.context
    started = context.clock.steady()
    elsewhere = None
    plan = _Plan(site, planned)
    try:
        result = site.rescan.dry_run(plan.add_scanned)
    except (RootElsewhere, RootMissing) as error:
        if isinstance(error, RootMissing) and context.ledger.versions.size() == 0:
            raise
        # A run could not scan this tree and would send nothing.
        result, elsewhere = ScanResult(ScanReport()), str(error)
    plan.add_missing(result)
    plan.add_known()
    counts = context.ledger.reports.counts(context.clock.now())
    report = report_of(
        site,
        result,
        counts,
        plan.counted,
        unsettled=Unsettled(result.unsettled, site.settling.overflowed),
        seconds=context.clock.steady() - started,
        coming=result.to_send,
    )
    would_brake = tuple(site.brakes.foreseen(result)) if elsewhere is None else (elsewhere,)
    return replace(report, would_brake=would_brake, in_sync=report.in_sync and not would_brake)


class _Plan:
    """The files that a run would send, block or no longer find; `planned` is called with each of them once.

    `counted` counts those that would be sent.
    """

    def __init__(self, site: Site, planned: Callable[[Planned], None]) -> None:
        self._planned = planned
        self._reports = site.context.ledger.reports
        self._folders = [mapping.destfolderid for mapping in site.plan.mappings.all]
        self._preview = make_preview(site.config, site.context.ledger, site.context.clock)
        self._listed: set[bytes] = set()
        self.counted = Counted()

    def add_scanned(self, found: Planned) -> None:
        """Add a file that the scan found new or changed."""
        # New files are not kept: the ledger holds none of them, and a first import has millions.
        if found.reason != "new":
            self._listed.add(found.path)
        self._add(_foreseen(found, self._preview.of_new(found.path, found.destfolderid)))

    def add_missing(self, result: ScanResult) -> None:
        """Add the files that the scan found gone."""
        for missing in result.not_renamed() if result.vanished else ():
            folder = "" if missing.mapping is None else self._folders[missing.mapping]
            self._listed.add(missing.path)
            self._add(Planned("vanished", missing.path, folder, None, "vanished", "its asset stays in the service"))
        if result.report.finished:
            # Renamed files are added under their new paths, and a run drops files that were never sent.
            self._listed.update(missing.path for missing in result.missing)

    def add_known(self) -> None:
        """Add the files that the ledger holds as queued or blocked, unless they were added before."""
        for state, action in ((State.QUEUED, "upload"), (State.BLOCKED, "blocked")):
            for row in self._reports.files(state):
                if row.path in self._listed:
                    continue
                detail = printable(row.detail or row.reason or "waits to be sent")
                found = Planned(action, row.path, row.destfolderid, row.size, row.reason or str(state), detail)
                self._add(_foreseen(found, self._preview.of(row)) if state is State.QUEUED else found)

    def _add(self, found: Planned) -> None:
        if found.action in _SENT:
            size = self.counted.bytes_uploaded + (found.size or 0)
            self.counted = self.counted._replace(uploaded=self.counted.uploaded + 1, bytes_uploaded=size)
        self._planned(found)


def _foreseen(found: Planned, decision: Decision | Gather) -> Planned:
    """Return the plan for a file that a run would send, if the run would decide otherwise when its turn comes."""
    match decision:
        case Block(reason, detail):
            return found._replace(action="blocked", reason=reason, detail=printable(detail))
        case Wait(_, why):
            return found._replace(detail=printable(why))
        case Gather() if found.action != "hash":
            return found._replace(action="hash", detail=f"{found.detail}; sent if the service has no equal content")
        case _:
            return found
