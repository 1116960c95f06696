"""Which folders of the service were listed before the first POST into them, and what a listing left to wait for."""

import sqlite3
from collections import Counter
from collections.abc import Mapping

from assetsync.ledger.audits import SIGHTED, TAKEN_AWAY
from assetsync.ledger.database import Database
from assetsync.ledger.equal_content import OWNED

_AGAIN = -1
"""Stands in place of the number of a start, and is below them all."""


def note_names(conn: sqlite3.Connection, destfolderid: str, *, kept: bool) -> None:
    """Record whether an upload into a folder kept its name; a folder in which one was renamed stays so."""
    conn.execute(
        "INSERT INTO folders (destfolderid, names) VALUES (?, ?) ON CONFLICT (destfolderid) DO UPDATE"
        " SET names = excluded.names WHERE names IS NOT 'changed'",
        (destfolderid, "kept" if kept else "changed"),
    )


class FolderListings:
    """The ledger's side of first contact. `start_no` numbers the start of the program that opened it."""

    def __init__(self, store: Database, start_no: int) -> None:
        self._store = store
        self._start_no = start_no
        self._asks: Counter[str] = Counter()

    def needed(self, destfolderid: str) -> bool:
        """Whether the folder must be listed before anything is posted into it.

        So it is before the first POST into a folder of which no row is verified, where the ledger may have forgotten
        some that was sent (`open_ledger`), and where a mapping points there anew (`again`).
        """
        rows = self._store.rows(
            "SELECT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ?1 AND contact_start >="
            "   (SELECT COALESCE((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'contact_from'), 0)))"
            " OR (NOT EXISTS (SELECT 1 FROM facts WHERE name = 'contact_from')"
            "   AND NOT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ?1 AND contact_start < 0) AND EXISTS"
            "   (SELECT 1 FROM files WHERE destfolderid = ?1 AND verified_at IS NOT NULL))",
            destfolderid,
        )
        return not rows[0][0]

    def made(self, destfolderid: str) -> None:
        """Record that the folder was listed completely in this start."""
        self._set(destfolderid, self._start_no)

    def again(self, destfolderid: str) -> None:
        """Record that the folder must be listed once more, whatever was listed before."""
        self._set(destfolderid, _AGAIN)
        # After that: whoever hears of it looks there.
        self._asks[destfolderid] += 1

    def asks(self, destfolderid: str) -> int:
        """Count how often `again` was said of the folder in this process: what was listed at another count is old."""
        return self._asks[destfolderid]

    def _set(self, destfolderid: str, start_no: int) -> None:
        self._store.write(
            lambda conn: conn.execute(
                "INSERT INTO folders (destfolderid, contact_start) VALUES (?, ?)"
                " ON CONFLICT (destfolderid) DO UPDATE SET contact_start = excluded.contact_start",
                (destfolderid, start_no),
            )
        )

    def named(self, destfolderid: str, *, kept: bool) -> None:
        """Record whether an upload into the folder was read back under the name that was sent."""
        self._store.write(lambda conn: note_names(conn, destfolderid, kept=kept))

    def left_unprocessed(self, destfolderid: str) -> bool:
        """Whether an asset was seen in the folder that the service was still working on, and that is no row's."""
        rows = self._store.rows(
            "SELECT EXISTS (SELECT 1 FROM sightings s WHERE folder_id = ? AND size IS NULL"
            f" AND NOT {OWNED.format('s.assetid')})",
            destfolderid,
        )
        return bool(rows[0][0])

    def sighted_since(self, assetid: str) -> float | None:
        """Give when an asset that no row owns was first seen."""
        rows = self._store.rows("SELECT first_seen FROM sightings WHERE assetid = ?", assetid)
        return float(rows[0][0]) if rows else None

    def missed(self, destfolderid: str, limit: int) -> dict[str, float | None]:
        """Give some of the sighted assets that the folder's newest audit did not show, with when they were met last."""
        rows = self._store.rows(
            "SELECT assetid, met_at FROM sightings s WHERE folder_id = ? AND met_at IS NOT 0"
            f" AND {TAKEN_AWAY.format('s.folder_id', SIGHTED.format('s'))} LIMIT ?",
            destfolderid,
            limit,
        )
        return {row[0]: row[1] for row in rows}

    def not_there(self, missed: Mapping[str, float | None]) -> None:
        """Record that a listing did not show them either, unless they were met since."""
        sql = "UPDATE sightings SET met_at = 0 WHERE assetid = ? AND met_at IS ?"
        if missed:
            self._store.write(lambda conn: conn.executemany(sql, missed.items()))
