"""What came of a run: what it did, how the site stands at its end, and what keeps it from being in sync.

How it is printed, and which exit code follows, is the command's.
"""

from dataclasses import dataclass

from assetsync.app import Site
from assetsync.ledger.reports import Counts
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.status.out_of_sync import what_is_out_of_sync
from assetsync.status.standing import undecided_folders
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.progress import Counted


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run.

    `missing` names the mapped folders that are not there; `undecided` counts folders of the service that were found to
    miss much, of which an audit is still to conclude it; `finished` says that the tree was looked at to its end;
    `would_brake` is for what a dry run found that the next run would stop for.
    """

    site: str
    scanned: int
    unchanged: int
    uploaded: int
    adopted: int
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
    """Sum up a run over `site` after `seconds`: `result` is its scan's, None where there was none.

    `counted` is what it sent, `unsettled` what is not at rest, `coming` what a run would send that the ledger does not
    know yet.
    """
    scan = None if result is None else result.report
    left = what_is_out_of_sync(
        counts,
        unsettled,
        braked=len(site.context.ledger.reports.brakes()),
        complete=scan is not None and scan.complete,
        coming=coming,
        undecided=len(undecided_folders(site.config, site.context.ledger)),
    )
    pause = site.circuit_breaker.pause
    return Report(
        site=site.config.site,
        scanned=result.scanned if result else 0,
        unchanged=result.unchanged if result else 0,
        uploaded=counted.uploaded,
        adopted=counted.adopted,
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
    )
