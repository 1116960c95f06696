"""Count what a run would do (`reconcile --dry-run`), without writing and without requests to the service.

Printing the counts is left to the command.
"""

from dataclasses import replace

from assetsync.app import Site
from assetsync.errors import RootElsewhere, RootMissing
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.reconcile.report import Report, report_of
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.progress import Counted
from assetsync.tree.scan_report import ScanReport


def dry_run(site: Site) -> Report:
    """Return what a run would do; change nothing. Raises RootMissing for a new site without its root.

    It may run beside a daemon. A renamed, moved or touched file counts as an upload: recognizing it needs its digest,
    and a dry run reads no file.
    """
    context = site.context
    started = context.clock.steady()
    elsewhere = None
    try:
        result = site.rescan.run(dry_run=True)
    except (RootElsewhere, RootMissing) as error:
        if isinstance(error, RootMissing) and context.ledger.intake.size() == 0:
            raise
        # A run could not scan this tree and would send nothing.
        result, elsewhere = ScanResult(ScanReport()), str(error)
    counts = context.ledger.reports.counts(context.clock.now())
    would = result.to_send + result.unsettled + counts.of(State.QUEUED)
    report = report_of(
        site,
        result,
        counts,
        Counted(uploaded=would, bytes_uploaded=result.bytes_to_send + counts.bytes_queued),
        unsettled=Unsettled(result.unsettled, site.settling.overflowed),
        seconds=context.clock.steady() - started,
        coming=result.to_send,
    )
    would_brake = tuple(site.brakes.foreseen(result)) if elsewhere is None else (elsewhere,)
    return replace(report, would_brake=would_brake, in_sync=report.in_sync and not would_brake)
