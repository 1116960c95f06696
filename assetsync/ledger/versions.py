"""Record what the tree shows: new versions; replaced, vanished, unmapped and revived files; sidecars.

Comparing the tree with these rows is left to `sync.intake`.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from assetsync.core.backoff import LONGEST
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, XMP_ENDINGS, described_by_xmp, is_xmp_name, xmp_names
from assetsync.core.settled import HOUR, KEEPS_CHANGING, is_settled
from assetsync.core.states import Event
from assetsync.ledger.file.database import AFTER_ALL, Database, below
from assetsync.ledger.file.facts import XMP_FIRST_SCAN
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import (
    CHECKED_AGAIN,
    DIFFERS,
    SENT_WITH_XMP,
    TOUCHED,
    FileRow,
    apply,
    files_where,
    retry_where,
)
from assetsync.model import FileStat, State, Wanted

_OF_A_FOLDER = b"/" + FOLDER_SIDECAR
_FOLDERS_LEFT_OUT = 100
_UNSENT = "EXISTS (SELECT 1 FROM files WHERE without_sidecar = 1 AND state IN ('queued', 'blocked') AND "
# A person let it be sent without a sidecar: the version that this one replaces, or the same file at its old path.
_RELEASED = f"SELECT {_UNSENT} id = ?) OR {_UNSENT} inode = ? AND size = ? AND mtime_ns = ?)"
_TOUCHED = "its ctime or inode changed, and its size and time did not: it is read, and sent only if its content differs"
_DIFFERS = "its content differs from the asset's, and its size and time do not: the next scan counts such files"


class Known(NamedTuple):
    """The current row of a path, with the columns that a scan compares."""

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    destfolderid: str
    id: int
    state: str
    reason: str | None

    @property
    def stat(self) -> tuple[int, int, int, int]:
        """The values of its FileStat, as in `model.Seen`."""
        return self[1:5]

    @property
    def is_checked_again(self) -> bool:
        """Whether it is verified and its file is read again; the same condition as `CHECKED_AGAIN` in SQL."""
        return self.reason is not None and self.state == State.VERIFIED


class KnownSidecar(NamedTuple):
    """A sidecar as it was last recorded."""

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def stat(self) -> tuple[int, int, int, int]:
        """The values of its FileStat, as in `model.Seen`."""
        return self[1:]


_KNOWN = ", ".join(Known._fields)


class NewVersion(NamedTuple):
    """A version to queue; `replaces` is the id of the row that was current for its path.

    With `block` (reason, detail) the version is blocked in the same commit, because it is known that it cannot be sent.
    """

    path: bytes
    stat: FileStat
    destfolderid: str
    folded_name: str
    replaces: int | None
    block: tuple[str, str] | None = None


class SidecarChange(NamedTuple):
    """A sidecar's new state; None: it was deleted."""

    path: bytes
    stat: FileStat | None


class Versions:
    """The ledger's part for scanning and watching."""

    def __init__(self, store: Database) -> None:
        self._store = store
        # None while they were not asked for.
        self._xmp_endings: set[bytes] | None = None

    def current(
        self, first: bytes = b"", until: bytes | None = None, *, not_in: bytes | None = None
    ) -> Iterator[Known]:
        """Yield the current row of each path from `first` to before `until` (None: to the end) in byte order.

        Files directly in the folder `not_in` (with a slash at its end) are left out.
        """
        where = "wanted = 'yes' AND path < ?"
        values: list[object] = [AFTER_ALL if until is None else until]
        if not_in is not None:
            where += " AND NOT (path >= ? AND path < ? AND instr(substr(path, ?), x'2F') = 0)"
            values += [*below(not_in[:-1]), len(not_in) + 1]
        # Ids begin at 1, so `first` itself is included.
        sql = f"SELECT {_KNOWN} FROM files WHERE {where} AND (path, id) > (?, ?) ORDER BY path, id LIMIT ?"
        last = None
        for row in map(Known._make, self._store.pages(sql, "path, id", (first, 0), *values)):
            # A watched path may get a newer row between two pages.
            if row.path != last:
                yield row
            last = row.path

    def count(self, first: bytes, until: bytes | None) -> int:
        """Return the number of current paths from `first` to before `until` (None: to the end)."""
        sql = "SELECT COUNT(*) FROM files WHERE wanted = 'yes' AND path >= ? AND path < ?"
        return int(self._store.value(sql, first, AFTER_ALL if until is None else until))

    def current_of(self, path: bytes) -> FileRow | None:
        """Return the current row of one path."""
        return next(iter(files_where(self._store, "path = ? AND wanted = 'yes'", path)), None)

    def may_have_asset(self, row: Known, folders: Collection[str]) -> bool:
        """Return whether something of a queued or blocked file may be in the service.

        A version of its path has an asset or an upload whose end is open, or a file of its size and time was sent to
        one of these folders of the service: a renamed file takes over its asset only when its turn comes.
        """
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files f WHERE path = ? AND (assetid IS NOT NULL"
            " OR EXISTS (SELECT 1 FROM attempts a WHERE a.file_id = f.id AND a.closed_at IS NULL)))"
            " OR EXISTS (SELECT 1 FROM files WHERE destfolderid IN (SELECT value FROM json_each(?)) AND size = ?"
            " AND mtime_ns = ? AND assetid IS NOT NULL)"
        )
        return bool(self._store.value(sql, row.path, json.dumps([*folders]), row.size, row.mtime_ns))

    def look_like_sent(self, new: Sequence[NewVersion], folders: Collection[str]) -> set[bytes]:
        """Return the new paths whose size and time a file has that was sent to one of these folders of the service.

        Renamed files are left out: they keep the inode, too. One query for all, because files of one size may be most
        of the ledger.
        """
        sql = (
            "SELECT DISTINCT size, mtime_ns, CASE WHEN inode IN (SELECT value FROM json_each(?)) THEN inode END"
            " FROM files WHERE destfolderid IN (SELECT value FROM json_each(?)) AND size IN"
            " (SELECT value FROM json_each(?)) AND mtime_ns IN (SELECT value FROM json_each(?))"
            " AND assetid IS NOT NULL AND wanted = 'yes'"
        )
        looks = {each.path: (each.stat.size, each.stat.mtime_ns, each.stat.inode) for each in new}
        sizes, times, inodes = ([each[at] for each in looks.values()] for at in range(3))
        sent = {tuple(row) for row in self._store.rows(sql, *map(json.dumps, (inodes, [*folders], sizes, times)))}
        return {path for path, each in looks.items() if each not in sent and (*each[:2], None) in sent}

    def enqueue(self, versions: Sequence[NewVersion], now: float, *, due_at: float | None = None) -> list[NewVersion]:
        """Queue new versions, each in place of the current version of its path; return those that were skipped.

        If a row put aside as unmapped has the same path, size, times and inode, and its asset was sent or moved to the
        same folder, that row is revived instead. A version is skipped if the current row of its path is no longer
        `replaces`: the scan that found it is outdated, and the caller must look at the path again.
        """
        due = now if due_at is None else due_at

        def work(conn: Handle) -> list[NewVersion]:
            asides = "SELECT EXISTS (SELECT 1 FROM counted WHERE wanted = 'unmapped' AND files > 0)"
            may_revive = bool(conn.execute(asides).fetchone()[0])
            return [each for each in versions if not _enqueue(conn, each, now, due, may_revive=may_revive)]

        return self._store.write(work)

    def check_again(self, ids: Sequence[int], now: float) -> None:
        """Mark verified versions whose files differ from them in ctime or inode alone: each is to be read again."""
        sql = (
            f"UPDATE files SET reason = '{TOUCHED}', detail = ?, due_at = ?"
            f" WHERE id = ? AND state = 'verified' AND reason IS NOT '{TOUCHED}'"
        )
        self._store.change_each(sql, [(_TOUCHED, now, file_id) for file_id in ids])

    def to_read_again(self, now: float, limit: int) -> list[FileRow]:
        """Return up to `limit` versions that are due to be read again, those due longest first."""
        where = f"{CHECKED_AGAIN} AND reason = ? AND (due_at <= ? OR due_at > ? + {LONGEST}) ORDER BY due_at LIMIT ?"
        return files_where(self._store, where, TOUCHED, now, now, limit)

    def has_unread(self) -> bool:
        """Return whether a version is still to be read again."""
        sql = f"SELECT EXISTS (SELECT 1 FROM files WHERE {CHECKED_AGAIN} AND reason = ?)"
        return bool(self._store.value(sql, TOUCHED))

    def read_again(self, equal: Sequence[tuple[int, bytes, FileStat]]) -> None:
        """Record for each (row id, path, file) that the file has the content of the version."""
        sql = (
            "UPDATE files SET ctime_ns = ?, inode = ?, reason = NULL, detail = NULL"
            f" WHERE id = ? AND path = ? AND size = ? AND mtime_ns = ? AND {CHECKED_AGAIN}"
        )
        values = [(s.ctime_ns, s.inode, file_id, path, s.size, s.mtime_ns) for file_id, path, s in equal]
        self._store.change_each(sql, values)

    def read_later(self, ids: Sequence[int], due_at: float) -> None:
        """Delay the next reading of versions whose files cannot be read now."""
        sql = f"UPDATE files SET due_at = ? WHERE id = ? AND {CHECKED_AGAIN}"
        self._store.change_each(sql, [(due_at, file_id) for file_id in ids])

    def differ(self, read: Sequence[tuple[int, FileStat]]) -> None:
        """Record for each (row id, file) that the file has other content; a scan counts it among the missing files."""
        # Such a version is due again once its file has another ctime.
        sql = f"UPDATE files SET reason = ?, detail = ?, due_at = ? / 1e9 WHERE id = ? AND {CHECKED_AGAIN}"
        self._store.change_each(sql, [(DIFFERS, _DIFFERS, found.ctime_ns, file_id) for file_id, found in read])

    def still_differs(self, file_id: int, found: FileStat) -> bool:
        """Return whether the file is the one that `differ` recorded for a version."""
        sql = f"SELECT EXISTS (SELECT 1 FROM files WHERE id = ? AND reason = '{DIFFERS}' AND due_at = ? / 1e9)"
        return bool(self._store.value(sql, file_id, found.ctime_ns))

    def add_by_hand(self, version: NewVersion, now: float) -> int:
        """Add a file that `assetsync upload` is to send, by its absolute path; return the row's id.

        Scans do not report it missing, and the queue does not send it. A row of the same path and folder from an
        earlier upload by hand, of which nothing was stored, is used again: a queued one, or one blocked because it did
        not arrive.
        """

        def work(conn: Handle) -> int:
            row = conn.execute(
                "SELECT id FROM files WHERE path = ? AND destfolderid = ? AND wanted = 'outside' AND (state = 'queued'"
                " OR state = 'blocked' AND assetid IS NULL"
                "   AND NOT EXISTS (SELECT 1 FROM attempts WHERE file_id = files.id AND closed_at IS NULL))",
                (version.path, version.destfolderid),
            ).fetchone()
            if row is not None:
                sql = "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, md5 = NULL WHERE id = ?"
                conn.execute(sql, (*version.stat, row["id"]))
                return int(row["id"])
            inserted = _insert(conn, version, Wanted.OUTSIDE, now, now)
            assert inserted is not None, "a file from outside is never the current row of its path"
            return inserted

        return self._store.write(work)

    def forget(self, file_id: int) -> None:
        """Delete a version if none of its bytes was ever sent."""
        self._store.write(lambda conn: _forget_unsent(conn, file_id))

    def unwanted(self, rows: Sequence[tuple[int, bytes]], event: Event, now: float) -> None:
        """Record for each (row id, path) that the path is gone (VANISHED) or no longer mapped (UNMAPPED).

        A row that belongs to another path by now, because its file was moved, is skipped.
        """

        def work(conn: Handle) -> None:
            for file_id, path in rows:
                if _current_id(conn, path) == file_id:
                    apply(conn, file_id, event, now)

        if rows:
            self._store.write(work)

    def remap(self, file_id: int, destfolderid: str) -> None:
        """Change the destination folder of a queued row without an asset, after its mapping changed."""
        sql = "UPDATE files SET destfolderid = ? WHERE id = ? AND state = 'queued' AND assetid IS NULL"
        self._store.change(sql, destfolderid, file_id)

    def sidecars(self) -> Iterator[KnownSidecar]:
        """Yield the known sidecars in byte order."""
        sql = "SELECT path, size, mtime_ns, ctime_ns, inode FROM sidecars WHERE path > ? ORDER BY path LIMIT ?"
        return map(KnownSidecar._make, self._store.pages(sql, "path", (b"",)))

    def orphan_sidecars(self, limit: int) -> list[bytes]:
        """Return the first known sidecars without a matching current file; checks every known sidecar.

        XMP files are left out: programs write them for their own copies of a picture, too.
        """
        where = (
            f"path <> ?1 AND substr(path, -{len(_OF_A_FOLDER)}) <> ?2 AND substr(path, -{len(SUFFIX)}) = ?3"
            " AND NOT EXISTS (SELECT 1 FROM files"
            f"   WHERE path = substr(sidecars.path, 1, length(sidecars.path) - {len(SUFFIX)}) AND wanted = 'yes')"
        )
        rows = self._store.rows_where(
            "sidecars", where, FOLDER_SIDECAR, _OF_A_FOLDER, SUFFIX, order_by="path", limit=limit
        )
        return [row["path"] for row in rows]

    def sidecar(self, path: bytes) -> FileStat | None:
        """Return the recorded state of one sidecar."""
        rows = self._store.rows("SELECT size, mtime_ns, ctime_ns, inode FROM sidecars WHERE path = ?", path)
        return FileStat(*rows[0]) if rows else None

    def xmp_endings(self) -> tuple[bytes, ...]:
        """Return the endings that XMP files of the tree have, in the order in which they count.

        It is asked for each file that is sent, and each ending costs a look at the disk: those that no scan and no
        watched path has shown are left out, except the usual one. A first XMP file of another ending that comes after
        its file was read is drift.
        """
        if self._xmp_endings is None:
            where, ending = "lower(CAST(substr(path, -4) AS TEXT)) = '.xmp'", "DISTINCT substr(path, -4) AS ending"
            rows = self._store.rows_where("sidecars", where, select=ending)
            self._xmp_endings = {row["ending"] for row in rows}
        known = self._xmp_endings
        return tuple(ending for ending in XMP_ENDINGS if ending in known or ending == XMP_ENDINGS[0])

    def known_xmp(self, path: bytes) -> bytes | None:
        """Return a known XMP file of the file at a path, by its name, None if there is none."""
        self.xmp_endings()
        if not self._xmp_endings:
            return None
        folder, slash, name = path.rpartition(b"/")
        paths = [folder + slash + each for each in xmp_names(name)]
        marks = ", ".join("?" * len(paths))
        return next(iter(self._store.column(f"SELECT path FROM sidecars WHERE path IN ({marks})", *paths)), None)

    def sidecars_changed(self, changes: Sequence[SidecarChange], now: float) -> int:
        """Record new, changed and deleted sidecars; return the number of files that become due because of them.

        Files that a bad sidecar blocked are retried. Files that were sent are marked for reading, because their
        metadata may differ now.
        """
        if self._xmp_endings is not None:
            self._xmp_endings |= {change.path[-4:] for change in changes if is_xmp_name(change.path)}

        def work(conn: Handle) -> int:
            return sum(_sidecar_changed(conn, change, now) for change in changes)

        return self._store.write(work) if changes else 0

    def xmp_recorded(self) -> None:
        """Record that a scan has recorded the XMP files that were there when XMP files began to be read."""
        if self._store.fact(XMP_FIRST_SCAN) is not None:
            self._store.write(lambda conn: conn.table("facts").delete(XMP_FIRST_SCAN))

    def sent(self) -> Iterator[tuple[bytes, str, str | None]]:
        """Yield path, destination folder and asset folder of each current version that has an asset."""
        sql = (
            "SELECT path, destfolderid, asset_folder FROM files WHERE wanted = 'yes'"
            " AND state IN ('stored', 'verified', 'blocked') AND assetid IS NOT NULL AND path > ? ORDER BY path LIMIT ?"
        )
        return ((row[0], row[1], row[2]) for row in self._store.pages(sql, "path", (b"",)))

    def has_asides(self) -> bool:
        """Return whether any version put aside as unmapped has an asset."""
        aside = "wanted = 'unmapped' AND state IN ('stored', 'verified', 'blocked') AND files > 0"
        return bool(self._store.value(f"SELECT EXISTS (SELECT 1 FROM counted WHERE {aside})"))

    def was_sent_elsewhere(self, path: bytes, stat: FileStat, folder: str) -> bool:
        """Return whether this file was put aside as unmapped and all its assets are in other folders of the service."""
        sql = (
            "SELECT wanted, destfolderid, asset_folder FROM files WHERE path = ? AND assetid IS NOT NULL"
            " AND +size = ? AND mtime_ns = ?"
        )
        rows = self._store.rows(sql, path, stat.size, stat.mtime_ns)
        return any(row[0] == Wanted.UNMAPPED for row in rows) and all(folder not in (row[1], row[2]) for row in rows)

    def has_assets(self, mapping: bytes, destfolderid: str, apart_from: str) -> bool:
        """Return whether files below a mapping were sent to `destfolderid` and have assets outside `apart_from`."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files WHERE path >= ? AND path < ? AND wanted = 'yes'"
            " AND destfolderid = ? AND assetid IS NOT NULL AND asset_folder IS NOT ?)"
        )
        return bool(self._store.value(sql, *below(mapping), destfolderid, apart_from))

    def sample(self, folder: bytes, limit: int, *, but: Sequence[bytes] = ()) -> list[Known]:
        """Return up to `limit` current versions below a folder that have an asset, the same ones on each call.

        Versions below the folders in `but` (the first 100 of them) are left out.
        """
        ranges = [below(each) for each in (folder, *but[:_FOLDERS_LEFT_OUT])]
        where = "wanted = 'yes' AND path >= ? AND path < ?" + " AND NOT (path >= ? AND path < ?)" * (len(ranges) - 1)
        order = "ORDER BY id * 2654435761 % 4294967296 LIMIT ?"
        bounds, spaced = tuple(chain.from_iterable(ranges)), json.dumps(_spaced(self.newest(), 4 * limit))
        # Usually most rows of the ledger are such versions, so that some ids show enough. For a small folder the index
        # alone shows enough ids, without reading all rows, if most files have an asset.
        by_id = f"(SELECT value FROM json_each(?)) CROSS JOIN files ON id = value WHERE {where}"
        by_index = f"files WHERE id IN (SELECT id FROM files WHERE {where} {order})"
        rows: list[Known] = []
        for source, values in (
            (by_id, (spaced, *bounds)),
            (by_index, (*bounds, 4 * limit)),
            (f"files WHERE {where}", bounds),
        ):
            if len(rows) < limit:
                sql = f"SELECT {_KNOWN} FROM {source} AND state IN ('stored', 'verified') {order}"
                rows = [*map(Known._make, self._store.rows(sql, *values, limit))]
        return rows

    def newest(self) -> int:
        """Return the id of the newest version, 0 without one."""
        return int(self._store.value("SELECT COALESCE(MAX(id), 0) FROM files"))

    def size(self) -> int:
        """Return the number of current paths."""
        return int(self._store.value("SELECT COALESCE(SUM(files), 0) FROM counted WHERE wanted = 'yes'"))


def _spaced(last: int, count: int) -> list[int]:
    """Return `count` to twice as many numbers up to `last`, or all: one in each of so many steps.

    They stay the same until `last` has doubled.
    """
    step = 1 << max(0, (last // count).bit_length() - 1)
    return [number * step + number * 2654435761 % step for number in range(last // step + 1)]


def _enqueue(conn: Handle, version: NewVersion, now: float, due_at: float, *, may_revive: bool) -> bool:
    """Queue one version; return False if its path has another current row by now."""
    path, stat, _destfolderid, _folded_name, replaces, block = version
    released = conn.execute(_RELEASED, (replaces, stat.inode, stat.size, stat.mtime_ns)).fetchone()[0]
    if replaces is not None:
        if _current_id(conn, path) != replaces:
            return False
        if block is None and not is_settled(stat, now, HOUR):
            # A file that is blocked because it keeps changing stays blocked with its next version, so that it is not
            # queued for a moment at each change.
            sql = "SELECT reason, detail FROM files WHERE id = ? AND state = 'blocked' AND reason = ?"
            block = conn.execute(sql, (replaces, KEEPS_CHANGING)).fetchone()
            due_at = due_at if block is None else now + HOUR
        if not _forget_unsent(conn, replaces):
            apply(conn, replaces, Event.REPLACED, now)
    if may_revive and _revive(conn, version, now):
        return True
    file_id = _insert(conn, version, Wanted.YES, now, due_at)
    if file_id is None:
        return False
    if released:
        conn.execute("UPDATE files SET without_sidecar = 1 WHERE id = ?", (file_id,))
    if block is not None:
        reason, detail = block
        apply(conn, file_id, Event.BLOCKED, now, reason=reason, detail=detail)
    return True


def _revive(conn: Handle, version: NewVersion, now: float) -> bool:
    """Make the row of an unchanged file that was put aside as unmapped current again; return False without one."""
    path, stat, destfolderid, *_ = version
    aside = conn.execute(
        # The plus signs make SQLite use the index by path: the index by content would read all files of this size.
        # 'unmapped' is not a parameter: with one, SQLite would recompile the statement for each file, to check whether
        # the partial index applies.
        "SELECT id FROM files WHERE path = ?1 AND wanted = 'unmapped' AND (+destfolderid = ?2 OR asset_folder = ?2)"
        " AND +size = ?3 AND mtime_ns = ?4 AND ctime_ns = ?5 AND inode = ?6"
        " AND NOT EXISTS (SELECT 1 FROM files WHERE path = ?1 AND wanted = 'yes')",
        (path, destfolderid, *stat),
    ).fetchone()
    if aside is None:
        return False
    # Sidecar changes while the path was unmapped were not recorded: read the metadata again.
    apply(conn, aside[0], Event.REVIVED, now, destfolderid=destfolderid, drift="unread")
    return True


def _insert(conn: Handle, version: NewVersion, wanted: Wanted, now: float, due_at: float) -> int | None:
    """Insert a version and return its row's id; None, inserting nothing, if its path has a current row."""
    inserted = conn.execute(
        "INSERT INTO files (path, size, mtime_ns, ctime_ns, inode, destfolderid, folded_name, state, wanted, queued_at,"
        " due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) WHERE wanted = 'yes' DO NOTHING",
        (version.path, *version.stat, version.destfolderid, version.folded_name, State.QUEUED, wanted, now, due_at),
    )
    return inserted.lastrowid if inserted.rowcount else None


def _forget_unsent(conn: Handle, file_id: int) -> bool:
    """Delete a version of which no byte was ever sent, since it has no history; return whether it was deleted."""
    done = conn.execute(
        "DELETE FROM files WHERE id = ? AND state IN ('queued', 'blocked') AND attempts = 0 AND assetid IS NULL",
        (file_id,),
    )
    return done.rowcount == 1


def _current_id(conn: Handle, path: bytes) -> int | None:
    row = conn.execute("SELECT id FROM files WHERE path = ? AND wanted = 'yes'", (path,)).fetchone()
    return None if row is None else int(row[0])


def _sidecar_changed(conn: Handle, change: SidecarChange, now: float) -> int:
    path, stat = change
    is_first = False
    if stat is None:
        conn.execute("DELETE FROM sidecars WHERE path = ?", (path,))
    else:
        is_first = is_xmp_name(path) and _is_first_of_xmp(conn, path)
        conn.execute(
            "INSERT INTO sidecars (path, size, mtime_ns, ctime_ns, inode, is_first) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,"
            " ctime_ns = excluded.ctime_ns, inode = excluded.inode, is_first = is_first AND size = excluded.size"
            " AND mtime_ns = excluded.mtime_ns AND ctime_ns = excluded.ctime_ns AND inode = excluded.inode",
            (path, *stat, is_first),
        )
    where, values = _described_by(path)
    retried = retry_where(conn, f"{where} AND wanted = 'yes' AND reason = 'sidecar'", values, now)
    sooner = conn.execute(
        f"UPDATE files SET due_at = ? WHERE {where} AND wanted = 'yes' AND state = 'queued' AND due_at > ?",
        (now, *values, now),
    ).rowcount
    conn.execute(
        f"UPDATE files SET drift = 'unread' WHERE {where} AND wanted = 'yes'"
        " AND state IN ('sending', 'in_doubt', 'stored', 'verified', 'blocked')" + f" AND {SENT_WITH_XMP}" * is_first,
        values,
    )
    return retried + sooner


def _is_first_of_xmp(conn: Handle, path: bytes) -> bool:
    """Return whether an XMP file is new to a ledger that was filled before XMP files were read."""
    sql = "SELECT EXISTS (SELECT 1 FROM facts WHERE name = ?) AND NOT EXISTS (SELECT 1 FROM sidecars WHERE path = ?)"
    return bool(conn.execute(sql, (XMP_FIRST_SCAN, path)).fetchone()[0])


def _described_by(sidecar: bytes) -> tuple[str, tuple[bytes | int, ...]]:
    """Return the SQL condition, with its values, for the paths of the files that a sidecar is for."""
    folder, _, name = sidecar.rpartition(b"/")
    if name == FOLDER_SIDECAR:
        return "path >= ? AND path < ?", below(folder)
    if not is_xmp_name(name):
        return "path = ?", (sidecar.removesuffix(SUFFIX),)
    stem = described_by_xmp(sidecar)
    # The file of that very name, and all whose name continues with one more ending.
    ending = "substr(path, ?)"
    where = (
        f"path >= ? AND path < ? AND (path = ? OR {ending} >= x'2E' AND {ending} < x'2F'"
        f" AND instr(substr(path, ?), x'2E') = 0 AND instr({ending}, x'2F') = 0)"
    )
    after = len(stem) + 1
    return where, (stem, stem + b"/", stem, after, after, after + 1, after)
