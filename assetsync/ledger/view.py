"""The read-only view of a ledger: reports, hourly statistics and the results of runs.

A command that only reads does not load the modules that send, which take longer to load than reading takes. Everything
else of a ledger is left to `ledger`.
"""

import sqlite3
from pathlib import Path

from assetsync.ledger import owner
from assetsync.ledger.database import Database, open_beside
from assetsync.ledger.hourly_stats import HourlyStats
from assetsync.ledger.reports import Reports
from assetsync.ledger.runs import Runs


class LedgerView:
    """A ledger that is only read (`view_ledger`), or the readable part of a ledger that is sent for."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.reports = Reports(store)
        self.hours = HourlyStats(store)
        self.runs = Runs(store)

    def close(self) -> None:
        """Close the connections."""
        self.store.close()


def view_ledger(path: Path, *, site: str | None = None) -> LedgerView:
    """Open a ledger beside its holder, to read it; creates nothing. Raises as `store_beside` does."""
    return LedgerView(store_beside(path, site=site))


def store_beside(path: Path, *, site: str | None, writable: bool = False) -> Database:
    """Open the file of a ledger beside its holder, to read it or (writable) to leave requests; creates nothing.

    Raises as `database.open_beside` does, and LedgerOfAnother if `site` is named and another site owns the ledger.
    """
    store = open_beside(path, writable=writable)
    try:
        if site is not None:
            owner.expect(store.reader(), store.path, site)
    except sqlite3.Error as error:
        store.close()
        raise store.translate(error) from error
    except BaseException:
        store.close()
        raise
    return store
