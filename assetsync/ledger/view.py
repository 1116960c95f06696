"""The ledger as those see it who only look: what it tells, and what runs left behind.

A command that looks loads nothing of what sends, which takes longer to load than looking does. All the rest of a ledger
is `ledger`'s.
"""

import sqlite3
from pathlib import Path

from assetsync.ledger import owner
from assetsync.ledger.database import Database, open_beside
from assetsync.ledger.hourly_stats import HourlyStats
from assetsync.ledger.reports import Reports
from assetsync.ledger.runs import Runs


class LedgerView:
    """A ledger to look at (`view_ledger`), or what there is to see of one that is sent for."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.reports = Reports(store)
        self.hours = HourlyStats(store)
        self.runs = Runs(store)

    def close(self) -> None:
        """Close its connections."""
        self.store.close()


def view_ledger(path: Path, *, site: str | None = None) -> LedgerView:
    """Open a ledger beside its holder, to look at it; creates nothing. Raises as `store_beside` does."""
    return LedgerView(store_beside(path, site=site))


def store_beside(path: Path, *, site: str | None, writable: bool = False) -> Database:
    """Open the file of a ledger beside its holder, to read it or (writable) to leave requests; creates nothing.

    Raises as `store.open_beside` does, and LedgerOfAnother for that of another site than `site`, where one is named.
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
