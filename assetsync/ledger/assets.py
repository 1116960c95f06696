"""Assets with a known id until they are `verified`: list what to read back and to index, and record the results.

Reading back is left to `sync.readback`, the meaning of what it shows to `core.verdict`.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from assetsync.core.backoff import LONGEST
from assetsync.core.states import Event
from assetsync.ledger.database import Database
from assetsync.ledger.repair import MISSING
from assetsync.ledger.rows import FILE_COLUMNS, FileRow, apply, close_attempts, file_row, move, reopen, standing

Change = tuple[FileRow, Event | None, dict[str, Any]]
"""The result of reading back a row: the row as it was read, the event, if any, and the columns to write."""

INDEX_STOPPED = "index_stopped"
"""The fact that explains to the operator why searchIndex is no longer called."""


class Assets:
    """The ledger's part for verifying and indexing."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def to_verify(self, now: float, limit: int = 100) -> list[FileRow]:
        """Return stored assets that are due to be read back."""
        rows = self._store.rows(
            f"SELECT {FILE_COLUMNS} FROM files WHERE state = 'stored' AND (due_at <= ?1 OR due_at > ?1 + {LONGEST})"
            " ORDER BY due_at, id LIMIT ?2",
            now,
            limit,
        )
        return [file_row(row) for row in rows]

    def to_verify_in(self, folder: str, now: float, limit: int) -> list[FileRow]:
        """Return stored assets of one folder of the service that are due, for one listing that decides all of them."""
        rows = self._store.rows(
            f"SELECT {FILE_COLUMNS} FROM files WHERE state = 'stored' AND (due_at <= ?1 OR due_at > ?1 + {LONGEST})"
            " AND asset_folder = ?2 ORDER BY due_at, id LIMIT ?3",
            now,
            folder,
            limit,
        )
        return [file_row(row) for row in rows]

    def to_index(self, now: float, uploaded_before: float, asked_before: float, limit: int = 500) -> list[FileRow]:
        """Return assets that the database shows and the index does not, long enough after upload and last request.

        A time after `now` was set by a clock that has since been set back; it counts as long enough ago.
        """
        rows = self._store.rows(
            f"SELECT {FILE_COLUMNS} FROM files WHERE state = 'stored' AND findable_at IS NULL AND seen_at IS NOT NULL"
            " AND COALESCE(uploaded_at, queued_at) NOT BETWEEN ?2 AND ?1"
            " AND (index_asked_at IS NULL OR index_asked_at NOT BETWEEN ?3 AND ?1) ORDER BY due_at, id LIMIT ?4",
            now,
            uploaded_before,
            asked_before,
            limit,
        )
        return [file_row(row) for row in rows]

    def findable_sample(self, limit: int) -> list[str]:
        """Return ids of assets that the index showed when last read, newest first."""
        rows = self._store.rows(
            "SELECT assetid FROM files WHERE state = 'verified' AND findable_at IS NOT NULL ORDER BY id DESC LIMIT ?",
            limit,
        )
        return [str(row[0]) for row in rows]

    def asked(self, ids: Sequence[int], now: float) -> None:
        """Record that the service was asked to index these rows' assets."""
        self._store.write(
            lambda conn: conn.executemany("UPDATE files SET index_asked_at = ? WHERE id = ?", [(now, i) for i in ids])
        )

    def apply_all(self, events: Sequence[Change], now: float) -> None:
        """Record the results of reading back, in one commit.

        A row that was replaced, disputed or decided by hand while the service answered is skipped.
        """

        def work(conn: sqlite3.Connection) -> None:
            for row, event, changes in events:
                found = standing(conn, row.id, changes)
                if found is None or not _is_as_read(found, row):
                    continue
                is_open = bool(found["open"])
                if is_open and event is Event.CONFIRMED:
                    # The attempt was reopened when the asset was not shown; nothing else would close it.
                    close_attempts(conn, row.id, "found", now)
                    is_open = False
                if event is not None:
                    move(conn, found, event, now, open_attempt=is_open, **changes)
                elif changes:
                    names = ", ".join(f"{name} = ?" for name in changes)
                    conn.execute(f"UPDATE files SET {names} WHERE id = ?", (*changes.values(), row.id))

        if events:
            self._store.write(work)

    def unseen(self, row: FileRow, detail: str, now: float) -> None:
        """Put a row in doubt because the service does not show its id; reopen its last attempt."""

        def work(conn: sqlite3.Connection) -> None:
            found = standing(conn, row.id, ())
            if found is None or not _is_as_read(found, row):
                return
            reason = MISSING if row.reason == MISSING else "unseen"
            last = conn.execute("SELECT MAX(id) FROM attempts WHERE file_id = ?", (row.id,)).fetchone()[0]
            if last is not None:
                reopen(conn, last, now, why="unseen", accepted_id=row.assetid)
                apply(conn, row.id, Event.UNSEEN, now, reason=reason, detail=detail)
            else:
                apply(conn, row.id, Event.MISSING, now, reason=reason, detail=detail)

        self._store.write(work)


def _is_as_read(found: sqlite3.Row, row: FileRow) -> bool:
    return (found["state"], found["assetid"]) == (row.state, row.assetid)
