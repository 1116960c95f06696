"""One run over a site, once: `run` does it, `dry_run` only counts what it would do, `report` says what came of it."""

from assetsync.reconcile.dry_run import dry_run
from assetsync.reconcile.report import Report
from assetsync.reconcile.run import Progress, Reconciler

__all__ = ["Progress", "Reconciler", "Report", "dry_run"]
