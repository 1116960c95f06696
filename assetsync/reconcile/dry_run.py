"""`reconcile --dry-run`: what a run would do, counted. Writes nothing, and asks the service nothing."""

import structlog

from assetsync.errors import RootElsewhere, RootMissing
from assetsync.flow.intake import ScanResult
from assetsync.flow.tally import Counted
from assetsync.ledger.runs import Unsettled
from assetsync.model import State
from assetsync.reconcile.report import Report, report_of
from assetsync.site import Site
from assetsync.tree.report import ScanReport

log = structlog.get_logger()


def dry_run(site: Site) -> Report:
    """Count what a run would do; changes nothing and may run beside a daemon. Raises RootMissing for a new site.

    A renamed or touched file counts as one that would be uploaded: telling needs its digest, and that is not read.
    """
    edges = site.edges
    started = edges.clock.steady()
    try:
        result = site.scan(dry_run=True)
    except RootElsewhere as error:
        log.warning("a run would pull the brake", detail=str(error))
        result = ScanResult(ScanReport())
    except RootMissing as error:
        if edges.ledger.intake.size() == 0:
            raise
        # A run would pull the brake: nothing is known of the tree, and nothing would be sent.
        log.warning("the root is missing", detail=str(error))
        result = ScanResult(ScanReport())
    counts = edges.ledger.reports.counts(edges.clock.now())
    would = result.to_send + result.unsettled + counts.of(State.QUEUED)
    return report_of(
        site,
        result,
        counts,
        Counted(uploaded=would, bytes_uploaded=result.bytes_to_send),
        unsettled=Unsettled(result.unsettled, site.settling.overflowed),
        seconds=edges.clock.steady() - started,
        coming=result.to_send,
    )
