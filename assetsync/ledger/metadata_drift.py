"""Record and settle drift: what the tree or the configuration says of a file and the service does not.

A version that may have changed is marked as unread; `sync.readback.drift` reads it and records the drift here.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from assetsync.ledger.database import Database
from assetsync.ledger.rows import FILE_COLUMNS, WHOSE_ASSET, FileRow, file_row
from assetsync.model import Asset

AWAY = "away"
"""The word in place of a drift for a file that was not there to be looked at: `back` has it read."""

NOT_TOLD = ("unread", AWAY)
"""The words in place of a drift that tell of none."""

DRIFTED = f"drift <> 'unread' AND drift <> '{AWAY}' AND wanted = 'yes'"
"""The condition of SQL for the files that something is told of: history asks for nothing."""

ELSEWHERE = "it lies in another folder of the service: "
"""The sentence on an asset that was moved there, before the folder."""

UNREADABLE = "its metadata cannot be read any more, mend the sidecar: "
"""The sentence on a file with a sidecar that cannot be used, before what is wrong with it."""

_READ_BY = ("path", "destfolderid", "asset_folder", "agreed_folder", "filetype", "meta_digest")
"""What the drift of a version depends on beside its sidecars."""

_IS_THERE = "asset_folder = ? AND state IN ('stored', 'verified')"


class Found(NamedTuple):
    """What was found of a version (None: nothing that the service lacks), with the digest of what is said of it now."""

    drift: str | None
    said_digest: str | None
    row: FileRow


def _known_from(drift: str | None, digest: str | None) -> str | None:
    """Give what is said from here on of a file that an earlier release took over; "" where it is unreadable."""
    return digest or (None if drift in (None, AWAY) else "")


class MetadataDrift:
    """The ledger's side of drift."""

    def __init__(self, store: Database) -> None:
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

    def back(self) -> None:
        """Have read what was not there to be looked at: it may be there again."""
        if self._store.rows(f"SELECT 1 FROM files WHERE drift = '{AWAY}' LIMIT 1"):
            sql = f"UPDATE files SET drift = 'unread' WHERE drift = '{AWAY}'"
            self._store.write(lambda conn: conn.execute(sql))

    def unreadable(self) -> list[FileRow]:
        """Give one file for each thing that keeps sidecars from being read, many or one."""
        sql = (
            f"SELECT {FILE_COLUMNS} FROM files WHERE id IN"
            f" (SELECT MIN(id) FROM files WHERE {DRIFTED} AND drift LIKE '{UNREADABLE}%' GROUP BY drift)"
        )
        return [file_row(row) for row in self._store.rows(sql)]

    def read_alike(self, drift: str) -> None:
        """Have read all of which that was told: it is so no longer."""
        self._store.write(
            lambda conn: conn.execute(f"UPDATE files SET drift = 'unread' WHERE {DRIFTED} AND drift = ?", (drift,))
        )

    def read_anew(self) -> None:
        """Note that what is told may be so no longer: the mappings are others."""
        self._store.write(lambda conn: conn.execute(f"UPDATE files SET drift = 'unread' WHERE {DRIFTED}"))

    def read(self, found: Sequence[Found], *, still: Callable[[], bool]) -> None:
        """Note what was found of versions that were unread.

        Nothing is noted where it is not `still` so; nor of a file that was moved, or of which something else was noted,
        meanwhile, here or in the service: it is read once more.
        """
        values = [
            (drift, digest, _known_from(drift, digest), row.id, *(getattr(row, name) for name in _READ_BY))
            for drift, digest, row in found
        ]

        def work(conn: sqlite3.Connection) -> None:
            if still():
                same = " AND ".join(f"{name} IS ?" for name in _READ_BY)
                # Of what was taken over by an earlier release: from here on.
                since = "CASE WHEN assetid IS NULL THEN meta_digest ELSE COALESCE(meta_digest, ?) END"
                sql = (
                    f"UPDATE files SET drift = ?, said_digest = ?, meta_digest = {since}"
                    f" WHERE id = ? AND drift = 'unread' AND {same}"
                )
                conn.executemany(sql, values)

        self._store.write(work)

    def told(self, below: bytes = b"") -> Iterator[FileRow]:
        """Give the files that something is told of, those below a folder or that one path; all unless told."""
        low, high = (below + b"/", below + b"0") if below else (b"", b"\xff" * 8)
        sql = (
            f"SELECT {FILE_COLUMNS} FROM files WHERE {DRIFTED} AND (path = ? OR path >= ? AND path < ?)"
            " AND id > ? ORDER BY id LIMIT ?"
        )
        return map(file_row, self._store.pages(sql, "id", (0,), below, low, high))

    def settle(self, rows: Iterable[FileRow]) -> int:
        """Record a person's word that the service has by now what is told of versions, and that they may stay there.

        Gives of how many, those left out of which something else is told by now. They are read once more: what cannot
        be settled is told again.
        """
        sql = (
            "UPDATE files SET meta_digest = COALESCE(said_digest, meta_digest), drift = 'unread',"
            " agreed_folder = CASE WHEN asset_folder <> destfolderid THEN asset_folder END"
            " WHERE id = ? AND drift = ? AND said_digest IS ?"
        )
        values = [(row.id, row.drift, row.said_digest) for row in rows]
        return self._store.write(lambda conn: conn.executemany(sql, values).rowcount) if values else 0

    def lies_in(self, file_id: int, folder: str) -> bool:
        """Whether a version's asset was last seen in that folder of the service, wherever it was sent."""
        sql = f"SELECT EXISTS (SELECT 1 FROM files WHERE id = ? AND {_IS_THERE})"
        return bool(self._store.rows(sql, file_id, folder)[0][0])

    def met(self, folder: str, assets: Collection[Asset]) -> list[bytes]:
        """Record that a listing of a folder of the service shows these assets there; gives the paths of what was moved.

        Of history too: it may be what is to be sent there. What was never read back is believed by its digest alone.
        """
        if not assets:
            return []
        marks = ", ".join(f"?{number}" for number in range(2, 2 + len(assets)))
        rows = self._store.rows(
            "SELECT id, path, assetid, md5,"
            " verified_at IS NOT NULL OR state IN ('blocked', 'superseded', 'gone') AS known"
            f" FROM files WHERE {WHOSE_ASSET.format(f'IN ({marks})')} AND asset_folder <> ?1",
            folder,
            *(asset.id for asset in assets),
        )
        digests = {asset.id: asset.md5 for asset in assets}
        moved = [row for row in rows if row["known"] or row["md5"] == (digests[row["assetid"]] or "")]
        if moved:
            sql = (
                "UPDATE files SET asset_folder = ?, drift = CASE wanted WHEN 'yes' THEN 'unread' ELSE drift END"
                " WHERE id = ?"
            )

            def work(conn: sqlite3.Connection) -> None:
                conn.executemany(sql, [(folder, row["id"]) for row in moved])
                # What was seen of it before, when it was nobody's, would have a later version look for it there.
                seen = "UPDATE sightings SET folder_id = ? WHERE assetid = ?"
                conn.executemany(seen, [(folder, row["assetid"]) for row in moved])

            self._store.write(work)
        return [row["path"] for row in moved]

    def remapped(self, rows: Sequence[tuple[int, str]]) -> None:
        """Note of (row, folder) that its mapping points to that folder now.

        One whose asset was moved there in the service counts as sent there. Of others it is to be told.
        """

        def work(conn: sqlite3.Connection) -> None:
            for file_id, folder in rows:
                agreed = "agreed_folder = NULL, drift = 'unread'"
                moved = f"UPDATE files SET destfolderid = ?, {agreed} WHERE id = ? AND {_IS_THERE}"
                conn.execute(moved, (folder, file_id, folder))
                # Told once: each scan meets it again, and where the mappings have changed all is read anew.
                conn.execute("UPDATE files SET drift = 'unread' WHERE id = ? AND drift IS NULL", (file_id,))

        if rows:
            self._store.write(work)
