"""Uploads per hour, counted in the commit that records the upload, so that a chart reads only 24 rows.

An index over a million attempts would cost as much per upload as this row, and more when it is read.
"""

import sqlite3
from typing import NamedTuple

from assetsync.ledger.database import Database

SECONDS = 3600


class Hour(NamedTuple):
    """One hour that began at `start` (seconds since the epoch): number of uploaded files, and their bytes."""

    start: float
    uploads: int
    bytes: int


class HourlyStats:
    """Reads the hours."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def last(self, count: int, now: float) -> list[Hour]:
        """Return the last `count` hours, the current hour last; an hour without uploads has zeros."""
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
