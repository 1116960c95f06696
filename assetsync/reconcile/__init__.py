"""A single run over a site: `run` does the work, `report` builds its result and counts that of a dry run."""

from assetsync.reconcile.report import Report, dry_run
from assetsync.reconcile.run import Progress, Reconciler

__all__ = ["Progress", "Reconciler", "Report", "dry_run"]
