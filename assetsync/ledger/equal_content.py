"""Find equal content for a file: a version that has an asset or may have one, or an asset that no row owns.

Reads only. What to do with the result is left to `sync.upload.dedupe`, recording it to `queue`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from assetsync.core.names import is_exactly, is_shown_as, sent_names, shown_patterns
from assetsync.ledger.audits import SIGHTED, TAKEN_AWAY
from assetsync.ledger.file.database import Database
from assetsync.ledger.rows import FILE_COLUMNS, WHOSE_ASSET, FileRow, file_row, files_where

# The last case is an open attempt of a blocked row, which may have stored its asset.
_MAY_HAVE_ASSET = (
    "(assetid IS NOT NULL OR state IN ('sending', 'in_doubt')"
    " OR EXISTS (SELECT 1 FROM attempts WHERE file_id = files.id AND closed_at IS NULL))"
)
# The index is named because the planner would choose the index by content and read all queued versions of this size.
_UNHASHED = (
    "SELECT id FROM files INDEXED BY files_unhashed"
    " WHERE destfolderid = ?1 AND size = ?2 AND md5 IS NULL AND assetid IS NOT NULL"
)
_UNHASHED_AND_OPEN = (
    "SELECT f.id FROM attempts a CROSS JOIN files f ON f.id = a.file_id"
    " WHERE a.closed_at IS NULL AND f.md5 IS NULL AND f.destfolderid = ?1 AND f.size = ?2"
)
# Assets that somebody moved into the folder in the service. The digest is compared in a separate statement for each
# case, so that each uses the index.
_MOVED_THERE = (
    "SELECT id FROM files INDEXED BY files_elsewhere"
    " WHERE asset_folder = ?1 AND size = ?2 AND asset_folder <> destfolderid AND assetid IS NOT NULL"
)
_EQUAL_MOVED_THERE = f"{_MOVED_THERE} AND md5 = ?4 UNION ALL {_MOVED_THERE} AND md5 IS NULL"
OWNED = "EXISTS (SELECT 1 FROM files l WHERE l.assetid = {0} AND l.state NOT IN ('superseded', 'gone'))"
"""SQL condition: a live row has the asset."""
_MISSED = TAKEN_AWAY.format("s.folder_id", SIGHTED.format("s"))
# `met_at` 0: neither the folder's newest audit nor a listing after it showed the asset, so it is not there. Of the
# others, those that the audit showed come first.
_IS_THERE = "s.met_at IS NOT 0"
_LIKELIEST = f"{_MISSED}, first_seen, assetid"

COMPARED_AT_MOST = 1000
"""Maximum number of files, or of assets, of equal size that are compared with one file."""

_EQUAL_ASSET = (
    f"FROM unowned s WHERE s.folder_id = ?1 AND s.size = ?2 AND s.md5 = ?3 AND {_IS_THERE}"
    f" AND NOT {OWNED.format('s.assetid')}"
)
_MAY_HAVE_STORED_IT = (
    "SELECT 1 FROM attempts a WHERE a.closed_at IS NULL AND a.destfolderid = s.folder_id"
    # Don't wait for undigested attempts that an operator must decide.
    " AND a.size = s.size AND (a.md5 = s.md5 OR a.md5 IS NULL AND a.name_released = 0)"
)


class Sighted(NamedTuple):
    """An asset that no row owns, with its name in the service; `is_exact`: it is the file's.

    It has the content of a file; or it has no MD5, and by its size and name it may be the file.
    """

    assetid: str
    name: str
    is_exact: bool = False


def may_be_copies(destfolderid: str, size: int, md5: str | None, names: Collection[str]) -> tuple[str, list[object]]:
    """Return the SQL condition for assets that may be a file: by their MD5, without one by their names."""
    patterns = sorted(frozenset[str]().union(*map(shown_patterns, names)))
    named = " OR ".join(["name LIKE ?"] * len(patterns))
    return f"folder_id = ? AND size = ? AND (md5 = ? OR md5 IS NULL AND ({named}))", [
        destfolderid,
        size,
        md5,
        *patterns,
    ]


class EqualContent:
    """Queries for each file before it is sent; sizes are in bytes, digests are MD5 in upper-case hex."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def has_size(self, file_id: int, destfolderid: str, size: int) -> bool:
        """Return whether the folder has another version or a sighted asset of this size, so that hashing pays off."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files WHERE destfolderid = ?1 AND size = ?2 AND id <> ?3"
            f"   AND {_MAY_HAVE_ASSET})"
            f" OR EXISTS ({_MOVED_THERE} AND id <> ?3)"
            " OR EXISTS (SELECT 1 FROM unowned WHERE folder_id = ?1 AND size = ?2)"
        )
        return bool(self._store.value(sql, destfolderid, size, file_id))

    def hints(self, row: FileRow, md5: str) -> tuple[bool, bool]:
        """Return whether a version, and whether an asset that no row owns, may be equal: a closer look then shows it.

        One statement, because it runs for each file sent.
        """
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files WHERE destfolderid = ?1 AND size = ?2 AND md5 = ?4 AND id <> ?3)"
            f" OR EXISTS ({_UNHASHED}) OR EXISTS ({_UNHASHED_AND_OPEN}) OR EXISTS ({_EQUAL_MOVED_THERE}),"
            " EXISTS (SELECT 1 FROM unowned WHERE folder_id = ?1 AND size = ?2)"
        )
        found = self._store.rows(sql, row.destfolderid, row.size, row.id, md5)[0]
        return bool(found[0]), bool(found[1])

    def equals(self, row: FileRow, md5: str) -> list[FileRow]:
        """Return versions of the same content in the folder that have an asset or may have one, most likely first.

        They were sent to the folder, or their assets were moved there later.

        A version whose bytes were never hashed counts if it has the same inode, size and mtime. A version at rest is
        left out if a live row owns its asset by now, since it has no asset left to pass on.
        """
        sql = (
            # The joins are fixed in this order, so that each part uses its index: cameras and scanners produce any
            # number of files of the same size.
            f"SELECT {FILE_COLUMNS} FROM ("
            "   SELECT id AS found FROM files WHERE destfolderid = ?1 AND size = ?2 AND md5 = ?4"
            f"  UNION {_UNHASHED} UNION {_UNHASHED_AND_OPEN} UNION {_EQUAL_MOVED_THERE}"
            ") AS equal CROSS JOIN files ON files.id = equal.found WHERE files.id <> ?3"
            f" AND {_MAY_HAVE_ASSET}"
            " AND (md5 = ?4 OR md5 IS NULL AND inode = ?5 AND mtime_ns = ?6)"
            f" AND (state NOT IN ('superseded', 'gone') OR assetid IS NULL OR NOT {OWNED.format('files.assetid')})"
            # A renamed file keeps its inode. Versions at rest come early because they need no look at the disk.
            " ORDER BY path = ?7 DESC, inode = ?5 DESC, wanted IN ('replaced', 'gone') DESC,"
            " state IN ('verified', 'stored') DESC, id DESC LIMIT 100"
        )
        rows = self._store.rows(sql, row.destfolderid, row.size, row.id, md5, row.inode, row.mtime_ns, row.path)
        return [file_row(found) for found in rows]

    def unread(self, row: FileRow) -> list[FileRow]:
        """Return undecided versions of its size that may just have been stored in the folder and were never hashed.

        Only versions queued before this one count: a file that was queued before them existed beside them, so it is
        another file. A version of the same inode and mtime is left out because `equals` finds it. A version that an
        operator must decide is left out because the wait for it could be endless.
        """
        where = (
            "id IN (SELECT file_id FROM attempts WHERE closed_at IS NULL"
            # Order by id, not by time: the clock may be set back.
            "   AND destfolderid = ?1 AND size = ?2) AND id < ?3 AND md5 IS NULL"
            " AND state IN ('sending', 'in_doubt') AND NOT (inode = ?4 AND mtime_ns = ?5)"
        )
        return files_where(self._store, where, row.destfolderid, row.size, row.id, row.inode, row.mtime_ns)

    def sighted(self, row: FileRow, md5: str, limit: int = 1) -> list[Sighted]:
        """Return assets of the same MD5 in the folder that no row owns, most likely first, at most `limit`.

        Those that the newest audit showed go before the others, then those of the file's name.
        """
        names = sent_names(row.path.rpartition(b"/")[2])
        patterns = sorted(frozenset[str]().union(*map(shown_patterns, names)))
        has_its_name = " OR ".join(f"s.name LIKE ?{number}" for number, _ in enumerate(patterns, 4))
        # While an equal upload is undecided, the asset more likely belongs to that upload.
        sql = (
            f"SELECT s.assetid, s.name {_EQUAL_ASSET} AND NOT EXISTS ({_MAY_HAVE_STORED_IT})"
            f" ORDER BY {_MISSED}, {has_its_name} DESC, first_seen, assetid LIMIT {limit}"
        )
        return [Sighted(*found) for found in self._store.rows(sql, row.destfolderid, row.size, md5, *patterns)]

    def without_asset(self, row: FileRow, md5: str) -> list[FileRow]:
        """Return other files of the folder that have no asset and may have this MD5, at most `COMPARED_AT_MOST`."""
        where = (
            "destfolderid = ? AND size = ? AND (md5 = ? OR md5 IS NULL) AND id <> ? AND wanted = 'yes'"
            f" AND state IN ('queued', 'blocked') AND assetid IS NULL LIMIT {COMPARED_AT_MOST}"
        )
        return files_where(self._store, where, row.destfolderid, row.size, md5, row.id)

    def may_have_stored_it(self, row: FileRow, md5: str) -> FileRow | None:
        """Return a version whose undecided upload, of equal or unknown bytes, may have stored such an asset."""
        where = (
            f"id <> ?4 AND state IN ('sending', 'in_doubt') AND id IN"
            " (SELECT file_id FROM attempts a WHERE a.closed_at IS NULL AND a.name_released = 0"
            f"   AND (a.md5 IS NULL OR a.md5 = ?3) AND a.destfolderid = ?1 AND a.size = ?2)"
            f" AND EXISTS (SELECT 1 {_EQUAL_ASSET}) LIMIT 1"
        )
        return next(iter(files_where(self._store, where, row.destfolderid, row.size, md5, row.id)), None)

    def resembling(self, row: FileRow, names: Collection[str]) -> list[Sighted]:
        """Return assets of this size without a digest whose name may be the file's, most likely first.

        `names` are those under which the file may have been sent. Without an MD5 from the service, nothing shows
        whether such an asset is this file. Assets that ever belonged to a version are left out, and so are assets seen
        before an operator resolved a doubt of this file.
        """
        patterns = sorted(frozenset[str]().union(*map(shown_patterns, names)))
        is_shown_as_name = " OR ".join(["name LIKE ?"] * len(patterns))
        sql = (
            "SELECT assetid, name FROM unowned s WHERE folder_id = ? AND size = ? AND md5 IS NULL"
            f" AND why <> 'damaged' AND ({is_shown_as_name}) AND {_IS_THERE}"
            # The digest of an asset that once belonged to a version is known, and differs.
            f" AND NOT EXISTS (SELECT 1 FROM files WHERE {WHOSE_ASSET.format('= s.assetid')})"
            " AND NOT EXISTS (SELECT 1 FROM attempts WHERE file_id = ? AND result = 'resolved'"
            f"   AND closed_at >= s.first_seen) ORDER BY {_LIKELIEST}"
        )
        rows = self._store.rows(sql, row.destfolderid, row.size, *patterns, row.id)
        found = (
            Sighted(assetid, shown, any(is_exactly(name, shown) for name in names))
            for assetid, shown in rows
            if any(is_shown_as(name, shown) for name in names)
        )
        return sorted(found, key=lambda one: not one.is_exact)

    def unconfirmed(self, row: FileRow, md5: str, names: Collection[str]) -> str | None:
        """Return an asset that may be the file, and that a person who had it sent again may not have known.

        None without one. Assets that ever belonged to a version are known, and so are those seen before the request.
        """
        sql, values = may_be_copies(row.destfolderid, row.size, md5, names)
        found: str | None = self._store.value(
            f"SELECT assetid FROM unowned s WHERE {sql} AND why NOT IN ('replaced', 'damaged') AND {_IS_THERE}"
            f" AND NOT EXISTS (SELECT 1 FROM files WHERE {WHOSE_ASSET.format('= s.assetid')}) LIMIT 1",
            *values,
        )
        return found

    def open_upload_shown_as(self, row: FileRow, shown: str) -> FileRow | None:
        """Return a version of this size in the folder whose undecided upload may have come back under a name."""
        sql = (
            "SELECT file_id, sent_name FROM attempts WHERE closed_at IS NULL AND name_released = 0 AND destfolderid = ?"
            " AND size = ? AND file_id <> ?"
        )
        rows = self._store.rows(sql, row.destfolderid, row.size, row.id)
        other = next((file_id for file_id, name in rows if is_shown_as(name, shown)), None)
        return next(iter(files_where(self._store, "id = ?", other)), None)

    def is_only_match(self, row: FileRow, shown: str, names_of: Callable[[bytes], Iterable[str]]) -> bool:
        """Return whether no other file of this size in the folder lacks an asset and may have come back as `shown`.

        `names_of` returns the names under which the file at a path may have been sent.
        """
        sql = (
            "SELECT path FROM files WHERE destfolderid = ? AND size = ? AND id <> ? AND wanted = 'yes'"
            " AND assetid IS NULL LIMIT ?"
        )
        rows = self._store.rows(sql, row.destfolderid, row.size, row.id, COMPARED_AT_MOST)
        names = (name for found in rows for name in names_of(found[0]))
        return len(rows) < COMPARED_AT_MOST and not any(is_shown_as(name, shown) for name in names)

    def is_missed(self, assetid: str) -> bool:
        """Return whether the newest audit of its folder no longer showed a sighted asset."""
        return bool(self._store.value(f"SELECT {_MISSED} FROM unowned s WHERE assetid = ?", assetid))
