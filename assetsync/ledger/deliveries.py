"""What is being sent, what comes next, and what was delivered last, for people who wait for a file."""

from typing import NamedTuple

from assetsync.ledger.file.database import Database
from assetsync.ledger.rows import FileRow, files_where
from assetsync.model import State

_RECENT = 1_000
"""The newest attempts among which deliveries are searched for."""


class InFlight(NamedTuple):
    """An upload that is being sent: size in bytes, begin in seconds since the epoch."""

    file_id: int
    path: bytes
    size: int
    started_at: float


class Delivered(NamedTuple):
    """An upload that arrived: the present path and state of its version, and the time of its answer."""

    path: bytes
    size: int
    state: State
    at: float


class Deliveries:
    """Queries whose cost does not depend on the number of files."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def in_flight(self, limit: int) -> list[InFlight]:
        """Return up to `limit` uploads that are being sent, ordered by id."""
        sql = (
            # Files first: the few that are being sent, by their index.
            "SELECT f.id, f.path, a.size, a.started_at FROM files f"
            " CROSS JOIN attempts a ON a.file_id = f.id AND a.closed_at IS NULL"
            " WHERE f.state = 'sending' ORDER BY f.id LIMIT ?"
        )
        return [InFlight(*row) for row in self._store.rows(sql, limit)]

    def next(self, limit: int) -> list[FileRow]:
        """Return up to `limit` queued files, those that were due first before others."""
        return files_where(self._store, "state = 'queued' AND wanted = 'yes' ORDER BY due_at, id LIMIT ?", limit)

    def last(self, limit: int) -> list[Delivered]:
        """Return up to `limit` of the newest uploads that arrived, the newest first."""
        sql = (
            "SELECT f.path, f.size, f.state, COALESCE(f.uploaded_at, a.closed_at) FROM attempts a"
            " JOIN files f ON f.id = a.file_id WHERE a.id > (SELECT COALESCE(MAX(id), 0) FROM attempts) - ?"
            " AND a.result IN ('accepted', 'found') AND a.closed_at IS NOT NULL ORDER BY a.id DESC LIMIT ?"
        )
        return [
            Delivered(path, size, State(state), at) for path, size, state, at in self._store.rows(sql, _RECENT, limit)
        ]
