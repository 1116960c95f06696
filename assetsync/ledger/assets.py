"""What the service shows of assets: of those of versions since they are read back, and of others by look-ups.

The order of first sights relative to the attempts tells which attempt may have made an asset. Which asset is a file in
doubt is left to `core.doubt`, reading back to `read_back`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from assetsync.core.read_back import Unprocessed
from assetsync.ledger.file.database import ANY_OF, Database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset


class Shown(NamedTuple):
    """What reading back was shown of a version's asset; the schema describes each column."""

    shown_at: float | None = None
    findable_at: float | None = None
    absent_boot: str | None = None
    absent_first: float | None = None
    absent_last: float | None = None
    unprocessed_since: float | None = None
    unprocessed_looks: int | None = None
    unprocessed_last: float | None = None
    index_asked_at: float | None = None

    @property
    def unprocessed(self) -> Unprocessed | None:
        """The look-ups that showed the asset unprocessed; None if there were none since it was last processed."""
        if self.unprocessed_since is None:
            return None
        last = self.unprocessed_last or self.unprocessed_since
        return Unprocessed(self.unprocessed_since, self.unprocessed_looks or 0, last)

    @property
    def is_processed(self) -> bool:
        """Whether the last look-up that showed the asset showed it processed."""
        return self.shown_at is not None and self.unprocessed_since is None


_SHOWN = ", ".join(Shown._fields)
# A later listing of the asset without a version is its first sight. With an earlier one it would be older than attempts
# of its own version, and without MD5 the file would be sent twice.
_OWN = (
    f"INSERT INTO assets (assetid, why, {_SHOWN}) VALUES (?, 'owned'{', ?' * len(Shown._fields)}) ON CONFLICT (assetid)"
    " DO UPDATE SET why = 'owned', first_seen = NULL, seen_to = NULL, file_id = NULL, path = NULL, "
    + ", ".join(f"{name} = excluded.{name}" for name in Shown._fields)
)


class Assets:
    """The ledger's part for what look-ups show."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def shown(self, rows: Iterable[FileRow]) -> dict[str, Shown]:
        """Return what is known of the assets of versions, by asset id; the others are left out."""
        ids = [row.assetid for row in rows if row.assetid is not None]
        found = self._store.rows(f"SELECT assetid, {_SHOWN} FROM assets WHERE assetid {ANY_OF}", json.dumps(ids))
        return {row[0]: Shown(*row[1:]) for row in found}

    def first_seen(self, assetids: Collection[str]) -> dict[str, tuple[int, float]]:
        """Return, by asset id, the newest attempt at the end of the look-up that first showed the asset, and the time.

        The time is in seconds since the epoch. Assets of versions, and assets that no look-up showed, are left out.
        """
        sql = f"SELECT assetid, seen_to, first_seen FROM unowned WHERE assetid {ANY_OF}"
        return {row[0]: (row[1], row[2]) for row in self._store.rows(sql, json.dumps([*assetids]))}

    def record(self, assets: Iterable[Asset], newest: int, now: float) -> None:
        """Record assets that no live row owns; the order of the first sights is kept.

        `newest` is the newest attempt at the end of the look-up.
        """
        sql = (
            "INSERT INTO assets (assetid, folder_id, name, size, md5, first_seen, seen_to, why, met_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', ?6)"
            " ON CONFLICT (assetid) DO UPDATE SET folder_id = excluded.folder_id, size = excluded.size,"
            " md5 = excluded.md5, met_at = excluded.met_at, name = IIF(why = 'owned', excluded.name, name),"
            " first_seen = COALESCE(first_seen, excluded.first_seen), seen_to = COALESCE(seen_to, excluded.seen_to),"
            " why = IIF(why = 'owned', '', why)"
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
            f" UNION ALL SELECT assetid, md5 FROM assets WHERE why = 'replaced' AND assetid {ANY_OF}"
        )
        ids = json.dumps([*assetids])
        for assetid, md5 in self._store.rows(sql, ids, ids):
            digests[assetid].add(md5)
        return digests

    def explained(self, assetids: Collection[str], why: str) -> set[str]:
        """Return the ids of assets recorded as `why`; a damaged one is the proof of one attempt and of no other."""
        sql = f"SELECT assetid FROM assets WHERE why = ? AND assetid {ANY_OF}"
        return set(self._store.column(sql, why, json.dumps([*assetids])))


def explain(conn: Handle, assetid: str, why: str, file: FileRow) -> None:
    """Record what an asset without a version is; proof of damage is not replaced by a later suspicion."""
    conn.execute(
        "UPDATE assets SET why = ?, file_id = ?, path = ? WHERE assetid = ? AND why NOT IN ('damaged', 'owned')",
        (why, file.id, file.path, assetid),
    )


def shown_of(conn: Handle, assetid: str | None) -> Shown:
    """Return what is known of a version's asset."""
    row = conn.execute(f"SELECT {_SHOWN} FROM assets WHERE assetid = ?", (assetid,)).fetchone()
    return Shown() if row is None else Shown(*row)


def own(conn: Handle, assetid: str | None, shown: Shown) -> None:
    """Record what is known of the asset of a live version, or of the asset that a live version takes now."""
    conn.execute(_OWN, (assetid, *shown))


def read_anew(conn: Handle, assetid: str | None) -> None:
    """Let a version's asset be read back as if nothing had shown it; how long it is unprocessed is kept."""
    sql = "UPDATE assets SET shown_at = NULL, findable_at = NULL, absent_boot = NULL WHERE assetid = ?"
    conn.execute(sql, (assetid,))
