"""`reconcile --dry-run`: what a run would do, counted. Writes nothing, and asks the service nothing."""

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
    """Count what a run would do; changes nothing and may run beside a daemon. Raises RootMissing for a new site.

    A renamed, moved or touched file counts as one to be uploaded: telling needs its digest, and that is not read.
    """
    context = site.context
    started = context.clock.steady()
    elsewhere = None
    try:
        result = site.rescan.run(dry_run=True)
    except (RootElsewhere, RootMissing) as error:
        if isinstance(error, RootMissing) and context.ledger.intake.size() == 0:
            raise
        # Nothing is known of the tree, and nothing would be sent.
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
