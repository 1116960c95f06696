"""What the tree says, written down: new versions, replaced, vanished, unmapped and revived ones, sidecars."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX
from assetsync.core.settled import HOUR, KEEPS_CHANGING, is_settled
from assetsync.core.states import Event
from assetsync.ledger.database import Database
from assetsync.ledger.rows import FILE_COLUMNS, FileRow, apply, file_row
from assetsync.model import FileStat, State, Wanted

_PAGE = 5000
_OF_A_FOLDER = b"/" + FOLDER_SIDECAR
_FIRST_PAGE = 100
# No path is longer than the kernel's 4,096 bytes, and none begins so.
_FOLDERS_LEFT_OUT = 100
_AFTER_ALL = b"\xff" * 5000


class Known(NamedTuple):
    """The current row of a path, as the scan compares it."""

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    destfolderid: str
    id: int
    state: str


class NewVersion(NamedTuple):
    """A version to be queued; `replaces` is the row that was current for its path.

    With `hold`, a reason and its detail, it is held in the same commit: it is known that it cannot be sent.
    """

    path: bytes
    stat: FileStat
    destfolderid: str
    folded_name: str
    replaces: int | None
    hold: tuple[str, str] | None = None


class SidecarChange(NamedTuple):
    """A sidecar as it is now (None: gone), and the one path, or the range of paths, that it speaks of."""

    path: bytes
    stat: FileStat | None
    below: bytes | tuple[bytes, bytes]


class Intake:
    """The ledger's side of scanning and watching."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def current(
        self, first: bytes = b"", until: bytes | None = None, *, not_in: bytes | None = None
    ) -> Iterator[Known]:
        """Give the current row of each path in byte order, in pages, from `first` to before `until` (None: to the end).

        What is directly in the folder `not_in` (with a slash at its end) is left out.
        """
        where, values = _range(until)
        if not_in is not None:
            where += " AND NOT (path >= ? AND path < ? AND instr(substr(path, ?), x'2F') = 0)"
            values += [not_in, not_in[:-1] + b"0" if not_in else _AFTER_ALL, len(not_in) + 1]
        sql = (
            "SELECT path, size, mtime_ns, ctime_ns, inode, destfolderid, id, state FROM files"
            f" WHERE wanted = 'yes' AND path {{}} ?{where} ORDER BY path LIMIT ?"
        )
        after, size = first, _FIRST_PAGE
        while True:
            page = self._store.rows(sql.format(">" if after is not first else ">="), after, *values, size)
            yield from (Known._make(row) for row in page)
            if len(page) < size:
                return
            after, size = page[-1][0], min(4 * size, _PAGE)

    def count(self, first: bytes, until: bytes | None) -> int:
        """Count the paths from `first` to before `until` (None: to the end)."""
        where, values = _range(until)
        sql = f"SELECT COUNT(*) FROM files WHERE wanted = 'yes' AND path >= ?{where}"
        return int(self._store.rows(sql, first, *values)[0][0])

    def current_of(self, path: bytes) -> FileRow | None:
        """Give the current row of one path."""
        rows = self._store.rows(f"SELECT {FILE_COLUMNS} FROM files WHERE path = ? AND wanted = 'yes'", path)
        return file_row(rows[0]) if rows else None

    def enqueue(self, versions: Sequence[NewVersion], now: float, *, due_at: float | None = None) -> list[NewVersion]:
        """Queue new versions, each replacing the current one of its path; gives those that were left out.

        A version that is the very one of a row put aside as unmapped revives that row instead, where its asset was
        sent to the same folder, or was moved there. One whose path has another current version by now than `replaces`
        says comes of a look that is out of date, and is left out: its path is to be looked at once more.
        """
        due = now if due_at is None else due_at
        return self._store.write(lambda conn: [v for v in versions if not _enqueue(conn, v, now, due)])

    def add_by_hand(self, version: NewVersion, now: float) -> int:
        """Add what `assetsync upload` is to send and is no file of the tree, by its absolute path; gives the row's id.

        No scan misses it and the queue leaves it alone. A row of the path and the folder of which nothing was stored is
        taken again.
        """

        def work(conn: sqlite3.Connection) -> int:
            row = conn.execute(
                "SELECT id FROM files WHERE path = ? AND destfolderid = ? AND wanted = 'outside' AND state = 'queued'",
                (version.path, version.destfolderid),
            ).fetchone()
            if row is not None:
                sql = "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, md5 = NULL WHERE id = ?"
                conn.execute(sql, (*version.stat, row["id"]))
                return int(row["id"])
            return _insert(conn, version, Wanted.OUTSIDE, now, now)

        return self._store.write(work)

    def forget(self, file_id: int) -> None:
        """Remove a version of which no byte was ever sent; another is left alone."""
        self._store.write(lambda conn: _forget_unsent(conn, file_id))

    def unwanted(self, rows: Iterable[tuple[int, bytes]], event: Event, now: float) -> None:
        """Record of (row, path) that the path is gone (VANISHED) or no longer mapped (UNMAPPED).

        A row that has come to stand for another path meanwhile, because its file was moved, is left alone.
        """
        known = list(rows)

        def work(conn: sqlite3.Connection) -> None:
            for file_id, path in known:
                if _current_id(conn, path) == file_id:
                    apply(conn, file_id, event, now)

        if known:
            self._store.write(work)

    def remap(self, file_id: int, destfolderid: str) -> None:
        """Point a row that was never sent to another folder, after its mapping changed."""
        self._store.write(
            lambda conn: conn.execute(
                "UPDATE files SET destfolderid = ? WHERE id = ? AND state = 'queued' AND assetid IS NULL",
                (destfolderid, file_id),
            )
        )

    def sidecars(self) -> Iterator[tuple[bytes, FileStat]]:
        """Give the known sidecars in byte order."""
        after = b""
        sql = "SELECT path, size, mtime_ns, ctime_ns, inode FROM sidecars WHERE path > ? ORDER BY path LIMIT ?"
        while True:
            page = self._store.rows(sql, after, _PAGE)
            yield from ((row[0], FileStat(*row[1:])) for row in page)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def strays(self, limit: int) -> list[bytes]:
        """Give the first known sidecars that speak of no file that the ledger knows; takes a look at each of them."""
        rows = self._store.rows(
            f"SELECT path FROM sidecars s WHERE path <> ?1 AND substr(path, -{len(_OF_A_FOLDER)}) <> ?2"
            " AND NOT EXISTS (SELECT 1 FROM files"
            f"   WHERE path = substr(s.path, 1, length(s.path) - {len(SUFFIX)}) AND wanted = 'yes')"
            " ORDER BY path LIMIT ?3",
            FOLDER_SIDECAR,
            _OF_A_FOLDER,
            limit,
        )
        return [row[0] for row in rows]

    def sidecar(self, path: bytes) -> FileStat | None:
        """Give one sidecar as it is known."""
        rows = self._store.rows("SELECT size, mtime_ns, ctime_ns, inode FROM sidecars WHERE path = ?", path)
        return FileStat(*rows[0]) if rows else None

    def sidecars_changed(self, changes: Sequence[SidecarChange], now: float) -> int:
        """Record new, changed and vanished sidecars and what follows for the files; gives how many are due by that.

        Files that a bad sidecar blocked are tried again; files that were sent have metadata that may differ now.
        """

        def work(conn: sqlite3.Connection) -> int:
            return sum(_sidecar_changed(conn, change, now) for change in changes)

        return self._store.write(work) if changes else 0

    def sent(self) -> Iterator[tuple[bytes, str, str | None]]:
        """Give of each current version that has an asset its path, where it was sent, and where its asset lies."""
        sql = (
            "SELECT path, destfolderid, asset_folder FROM files WHERE wanted = 'yes'"
            " AND state IN ('stored', 'verified', 'blocked') AND assetid IS NOT NULL AND path > ? ORDER BY path LIMIT ?"
        )
        return ((row[0], row[1], row[2]) for row in self._store.pages(sql, "path", (b"",), size=_PAGE))

    def has_asides(self) -> bool:
        """Whether there are versions with an asset that were put aside as unmapped."""
        aside = "wanted = 'unmapped' AND state IN ('stored', 'verified', 'blocked') AND files > 0"
        return bool(self._store.rows(f"SELECT EXISTS (SELECT 1 FROM counted WHERE {aside})")[0][0])

    def was_sent_elsewhere(self, path: bytes, stat: FileStat, folder: str) -> bool:
        """Whether the very file was put aside as unmapped, and all assets of it lie in other folders of the service."""
        rows = self._store.rows(
            "SELECT wanted, destfolderid, asset_folder FROM files WHERE path = ? AND assetid IS NOT NULL"
            " AND +size = ? AND mtime_ns = ?",
            path,
            stat.size,
            stat.mtime_ns,
        )
        return any(row[0] == Wanted.UNMAPPED for row in rows) and all(folder not in (row[1], row[2]) for row in rows)

    def has_assets(self, mapping: bytes, destfolderid: str | None, apart_from: str) -> bool:
        """Whether files below a mapped folder were sent to a folder of the service, and lie in another than one."""
        low, high = (mapping + b"/", mapping + b"0") if mapping else (b"", b"\xff" * 8)
        rows = self._store.rows(
            "SELECT EXISTS (SELECT 1 FROM files WHERE path >= ? AND path < ? AND wanted = 'yes'"
            " AND destfolderid = ? AND assetid IS NOT NULL AND asset_folder IS NOT ?)",
            low,
            high,
            destfolderid,
            apart_from,
        )
        return bool(rows[0][0])

    def sample(self, below: bytes, limit: int, *, but: Sequence[bytes] = ()) -> list[Known]:
        """Give up to so many of the current versions below a folder that have an asset, always the same ones.

        None from below the folders in `but`, or the first hundred of them.
        """
        bounds = [(folder + b"/", folder + b"0") for folder in but[:_FOLDERS_LEFT_OUT]]
        low, high = (below + b"/", below + b"0") if below else (b"", _AFTER_ALL)
        rows = self._store.rows(
            f"SELECT {', '.join(Known._fields)} FROM files WHERE wanted = 'yes' AND path >= ? AND path < ?"
            f"{' AND NOT (path >= ? AND path < ?)' * len(bounds)}"
            " AND state IN ('stored', 'verified') ORDER BY id * 2654435761 % 4294967296 LIMIT ?",
            low,
            high,
            *(bound for both in bounds for bound in both),
            limit,
        )
        return [Known._make(row) for row in rows]

    def size(self) -> int:
        """Give how many paths are current."""
        return int(self._store.rows("SELECT COALESCE(SUM(files), 0) FROM counted WHERE wanted = 'yes'")[0][0])


def _range(until: bytes | None) -> tuple[str, list[object]]:
    return ("", []) if until is None else (" AND path < ?", [until])


def _enqueue(conn: sqlite3.Connection, version: NewVersion, now: float, due_at: float) -> bool:
    """Queue one version; False where its path has come to stand for another meanwhile."""
    path, stat, destfolderid, _folded_name, replaces, hold = version
    if _current_id(conn, path) != replaces:
        return False
    if replaces is not None and hold is None and not is_settled(stat, now, HOUR):
        # What is held for its changes stays so with the next one: it is not queued for a moment each time.
        sql = "SELECT reason, detail FROM files WHERE id = ? AND state = 'blocked' AND reason = ?"
        hold = conn.execute(sql, (replaces, KEEPS_CHANGING)).fetchone()
        due_at = due_at if hold is None else now + HOUR
    if replaces is not None and not _forget_unsent(conn, replaces):
        apply(conn, replaces, Event.REPLACED, now)
    aside = conn.execute(
        # By the path: the index by content would be taken, with all files of this size. And by the word itself: were it
        # bound, SQLite would compile the statement anew for each file, to see whether an index is for that word alone.
        "SELECT id FROM files WHERE path = ?1 AND wanted = 'unmapped' AND (+destfolderid = ?2 OR asset_folder = ?2)"
        " AND +size = ?3 AND mtime_ns = ?4 AND ctime_ns = ?5 AND inode = ?6",
        (path, destfolderid, *stat),
    ).fetchone()
    if aside is not None:
        # What was said of it meanwhile was said of nobody's file.
        apply(conn, aside[0], Event.REVIVED, now, destfolderid=destfolderid, drift="unread")
        return True
    file_id = _insert(conn, version, Wanted.YES, now, due_at)
    if hold is not None:
        reason, detail = hold
        apply(conn, file_id, Event.HELD, now, reason=reason, detail=detail)
    return True


def _insert(conn: sqlite3.Connection, version: NewVersion, wanted: Wanted, now: float, due_at: float) -> int:
    cursor = conn.execute(
        "INSERT INTO files (path, size, mtime_ns, ctime_ns, inode, destfolderid, folded_name, state, wanted, queued_at,"
        " due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (version.path, *version.stat, version.destfolderid, version.folded_name, State.QUEUED, wanted, now, due_at),
    )
    return int(cursor.lastrowid or 0)


def _forget_unsent(conn: sqlite3.Connection, file_id: int) -> bool:
    """Remove a version of which no byte was ever sent: it is nobody's history."""
    done = conn.execute(
        "DELETE FROM files WHERE id = ? AND state IN ('queued', 'blocked') AND attempts = 0 AND assetid IS NULL",
        (file_id,),
    )
    return done.rowcount == 1


def _current_id(conn: sqlite3.Connection, path: bytes) -> int | None:
    row = conn.execute("SELECT id FROM files WHERE path = ? AND wanted = 'yes'", (path,)).fetchone()
    return None if row is None else int(row[0])


def _sidecar_changed(conn: sqlite3.Connection, change: SidecarChange, now: float) -> int:
    path, stat, below = change
    if stat is None:
        conn.execute("DELETE FROM sidecars WHERE path = ?", (path,))
    else:
        conn.execute(
            "INSERT INTO sidecars (path, size, mtime_ns, ctime_ns, inode) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,"
            " ctime_ns = excluded.ctime_ns, inode = excluded.inode",
            (path, *stat),
        )
    where, values = ("path = ?", (below,)) if isinstance(below, bytes) else ("path >= ? AND path < ?", below)
    blocked = conn.execute(
        f"SELECT id FROM files WHERE {where} AND wanted = 'yes' AND state = 'blocked' AND reason = 'sidecar'",
        values,
    ).fetchall()
    for row in blocked:
        apply(conn, row[0], Event.RETRIED, now, reason=None, detail=None, due_at=now)
    sooner = conn.execute(
        f"UPDATE files SET due_at = ? WHERE {where} AND wanted = 'yes' AND state = 'queued' AND due_at > ?",
        (now, *values, now),
    ).rowcount
    conn.execute(
        f"UPDATE files SET drift = 'unread' WHERE {where} AND wanted = 'yes'"
        " AND state IN ('sending', 'in_doubt', 'stored', 'verified', 'blocked')",
        values,
    )
    return len(blocked) + sooner
