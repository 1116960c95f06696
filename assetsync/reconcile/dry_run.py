"""`reconcile --dry-run`: what a run would do, counted. Writes nothing, and asks the service nothing."""

from dataclasses import replace

from assetsync.amounts import files
from assetsync.errors import RootElsewhere, RootMissing
from assetsync.flow.intake import ScanResult
from assetsync.flow.tally import Counted
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.reconcile.report import Report, report_of
from assetsync.site import Site
from assetsync.tree.report import ScanReport


def dry_run(site: Site) -> Report:
    """Count what a run would do; changes nothing and may run beside a daemon. Raises RootMissing for a new site.

    A renamed or touched file counts as one that would be uploaded: telling needs its digest, and that is not read.
    """
    edges = site.edges
    started = edges.clock.steady()
    would_brake = None
    try:
        result = site.rescan.run(dry_run=True)
    except (RootElsewhere, RootMissing) as error:
        if edges.ledger.intake.size() == 0:
            raise
        # Nothing is known of the tree, and nothing would be sent.
        result, would_brake = ScanResult(ScanReport()), str(error)
    counts = edges.ledger.reports.counts(edges.clock.now())
    would = result.to_send + result.unsettled + counts.of(State.QUEUED)
    report = report_of(
        site,
        result,
        counts,
        Counted(uploaded=would, bytes_uploaded=result.bytes_to_send),
        unsettled=Unsettled(result.unsettled, site.settling.overflowed),
        seconds=edges.clock.steady() - started,
        coming=result.to_send,
    )
    back = sum(count for at, count in result.taken_over.items() if not site.brakes.allows_takeover(at, count))
    if back and would_brake is None:
        would_brake = f"{files(back)} sent to another folder of the service before, where their mapping points no more"
        report = replace(report, in_sync=False)
    return replace(report, would_brake=would_brake)
