"""Sightings: assets without an owner that look-ups, listings and audits showed, and what each of them is.

Their order relative to the attempts tells which attempt may have made an asset. Which asset is a file in doubt is left
to `core.doubt`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable

from assetsync.ledger.file.database import ANY_OF, Database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset


class Sightings:
    """The ledger's part for assets without an owner."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def first_seen(self, assetids: Collection[str]) -> dict[str, tuple[int, float]]:
        """Return, by asset id, the newest attempt at the end of the look-up that first showed the asset, and the time.

        The time is in seconds since the epoch. Assets without a sighting are left out.
        """
        sql = f"SELECT assetid, seen_to, first_seen FROM sightings WHERE assetid {ANY_OF}"
        return {row[0]: (row[1], row[2]) for row in self._store.rows(sql, json.dumps([*assetids]))}

    def record(self, assets: Iterable[Asset], newest: int, now: float) -> None:
        """Record assets that no live row owns; the order of the first sightings is kept.

        `newest` is the newest attempt at the end of the look-up.
        """
        sql = (
            "INSERT INTO sightings (assetid, folder_id, name, size, md5, first_seen, seen_to, why, met_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', ?6)"
            " ON CONFLICT (assetid) DO UPDATE SET folder_id = excluded.folder_id, size = excluded.size,"
            " md5 = excluded.md5, met_at = excluded.met_at"
        )
        values = [(a.id, a.folder_id, a.filename, a.size if a.processed else None, a.md5, now, newest) for a in assets]
        self._store.change_each(sql, values)

    def history(self, assetids: Collection[str]) -> dict[str, set[str | None]]:
        """Return the digests of the versions that once had these ids; None for a version that was never hashed.

        The ids belong to versions at rest, or to assets that an operator had replaced by another upload.
        """
        digests: defaultdict[str, set[str | None]] = defaultdict(set)
        sql = (
            f"SELECT assetid, md5 FROM files WHERE state IN ('superseded', 'gone') AND assetid {ANY_OF}"
            f" UNION ALL SELECT assetid, md5 FROM sightings WHERE why = 'replaced' AND assetid {ANY_OF}"
        )
        ids = json.dumps([*assetids])
        for assetid, md5 in self._store.rows(sql, ids, ids):
            digests[assetid].add(md5)
        return digests

    def damaged(self, assetids: Collection[str]) -> set[str]:
        """Return the ids recorded as damaged: a damaged asset is the proof of one attempt and of no other."""
        sql = f"SELECT assetid FROM sightings WHERE why = 'damaged' AND assetid {ANY_OF}"
        return set(self._store.column(sql, json.dumps([*assetids])))


def explain(conn: Handle, assetid: str, why: str, file: FileRow) -> None:
    """Record what a sighted asset is; proof of damage is not replaced by a later suspicion."""
    conn.execute(
        "UPDATE sightings SET why = ?, file_id = ?, path = ? WHERE assetid = ? AND why <> 'damaged'",
        (why, file.id, file.path, assetid),
    )
