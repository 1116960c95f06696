"""A single run over a site: `run` does the work, `dry_run` only counts it, `report` holds the result."""

from assetsync.reconcile.dry_run import dry_run
from assetsync.reconcile.report import Report
from assetsync.reconcile.run import Progress, Reconciler

__all__ = ["Progress", "Reconciler", "Report", "dry_run"]
