"""How much was uploaded in each hour: kept in the commit that records the upload, so that a chart costs 24 rows.

An index over a million attempts would cost as much with every upload as this one row, and more when it is read.
"""

import sqlite3
from typing import NamedTuple

from assetsync.ledger.database import Database

SECONDS = 3600


class Hour(NamedTuple):
    """One hour that began at `start` (seconds since the epoch): how many files were uploaded, and their bytes."""

    start: float
    uploads: int
    bytes: int


class HourlyStats:
    """Reads the hours."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def last(self, count: int, now: float) -> list[Hour]:
        """Give the last `count` hours, the current one last; an hour in which nothing was uploaded is 0."""
        current = int(now // SECONDS)
        sql = "SELECT hour, uploads, bytes FROM hours WHERE hour > ? AND hour <= ?"
        known = {row[0]: (row[1], row[2]) for row in self._store.rows(sql, current - count, current)}
        return [Hour(hour * SECONDS, *known.get(hour, (0, 0))) for hour in range(current - count + 1, current + 1)]


def count_upload(conn: sqlite3.Connection, size: int, now: float) -> None:
    """Count an upload that is known to be stored, in the transaction that records it."""
    conn.execute(
        "INSERT INTO hours (hour, uploads, bytes) VALUES (?, 1, ?)"
        " ON CONFLICT (hour) DO UPDATE SET uploads = uploads + 1, bytes = bytes + excluded.bytes",
        (int(now // SECONDS), size),
    )
