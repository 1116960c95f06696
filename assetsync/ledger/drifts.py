"""Drift: what the tree or the configuration says of a file and the service does not, noted and settled.

A version of which something may have changed is marked as unread; what it is, `flow.drift` reads and notes here.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from assetsync.ledger.rows import FILE_COLUMNS, FileRow, file_row
from assetsync.ledger.store import Store

_PAGE = 500
_IS_THERE = "asset_folder = ? AND state IN ('stored', 'verified')"


class Found(NamedTuple):
    """What was found of a version (None: nothing that the service lacks), with the digest of what is said of it now."""

    drift: str | None
    said_digest: str | None
    file_id: int
    path: bytes


class Drifts:
    """The ledger's side of drift."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def unread(self, limit: int = 500) -> list[FileRow]:
        """Give versions of which something may have changed since they were sent, for a look at what it is."""
        # While one is on its way or in doubt it is open which upload of it will count.
        settled = "state IN ('stored', 'verified', 'blocked')"
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE drift = 'unread' AND {settled} ORDER BY id LIMIT ?"
        return [file_row(row) for row in self._store.rows(sql, limit)]

    def mark_unread(self, file_id: int) -> None:
        """Note that something may have been said of a version since it was told."""
        self._store.write(lambda conn: conn.execute("UPDATE files SET drift = 'unread' WHERE id = ?", (file_id,)))

    def read(self, found: Sequence[Found], *, still: Callable[[], bool]) -> None:
        """Note what was found of versions that were unread.

        Nothing is noted where it is not `still` so; nor of a file that was moved, or of which something else was noted,
        meanwhile.
        """

        def work(conn: sqlite3.Connection) -> None:
            if still():
                sql = "UPDATE files SET drift = ?, said_digest = ? WHERE id = ? AND path = ? AND drift = 'unread'"
                conn.executemany(sql, found)

        self._store.write(work)

    def told(self, below: bytes = b"") -> Iterator[FileRow]:
        """Give the files that something is told of, those below a folder or that one path; all unless told."""
        low, high = (below + b"/", below + b"0") if below else (b"", b"\xff" * 8)
        sql = (
            f"SELECT {FILE_COLUMNS} FROM files WHERE drift <> 'unread' AND wanted = 'yes' AND id > ?"
            " AND (path = ? OR path >= ? AND path < ?) ORDER BY id LIMIT ?"
        )
        last = 0
        while page := self._store.rows(sql, last, below, low, high, _PAGE):
            yield from map(file_row, page)
            last = page[-1]["id"]

    def settle(self, row: FileRow) -> bool:
        """Record a person's word that the service has by now what is told of a version, and where it is meant to be.

        False where something else is told by now. It is read once more: what cannot be settled is told again.
        """
        sql = (
            "UPDATE files SET meta_digest = COALESCE(said_digest, meta_digest), agreed_folder = asset_folder,"
            " drift = 'unread' WHERE id = ? AND drift = ? AND said_digest IS ? AND asset_folder IS ?"
        )
        values = (row.id, row.drift, row.said_digest, row.asset_folder)
        return self._store.write(lambda conn: conn.execute(sql, values).rowcount == 1)

    def lies_in(self, file_id: int, folder: str) -> bool:
        """Whether a version's asset was last seen in that folder of the service, wherever it was sent."""
        sql = f"SELECT EXISTS (SELECT 1 FROM files WHERE id = ? AND {_IS_THERE})"
        return bool(self._store.rows(sql, file_id, folder)[0][0])

    def remapped(self, rows: Sequence[tuple[int, str]]) -> None:
        """Note of (row, folder) that its mapping points to that folder now.

        One whose asset was moved there in the service counts as sent there. Of others it is to be told.
        """

        def work(conn: sqlite3.Connection) -> None:
            for file_id, folder in rows:
                moved = f"UPDATE files SET destfolderid = ?, drift = 'unread' WHERE id = ? AND {_IS_THERE}"
                conn.execute(moved, (folder, file_id, folder))
                # Told once: each scan meets it again.
                told = "UPDATE files SET drift = 'unread' WHERE id = ? AND (drift IS NULL OR instr(drift, ?) = 0)"
                conn.execute(told, (file_id, folder))

        if rows:
            self._store.write(work)
