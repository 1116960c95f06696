"""The folder cache: folders whose files a scan need not compare again, because everything in them was known.

A cached folder meets two conditions: the names and properties of its files gave the digest, and the ledger's rows
agreed with them. The next scan checks the first. The second holds until a row of the folder changes: the writing
connection removes the folder from the cache in the same transaction (`Invalidation`).
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assetsync.ledger.ledger_metadata import set_fact
from assetsync.model import CachedFolder

if TYPE_CHECKING:
    from assetsync.ledger.database import Database

_WEEK = 7 * 24 * 3600.0
_MOST_NOTED = 50_000
_PLAN, _SINCE = "quiet_plan", "quiet_since"
_COLUMNS = ("path", "wanted", "size", "mtime_ns", "ctime_ns", "inode", "destfolderid")
_DIFFERS = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in _COLUMNS)
_WATCHED, _BOTH = ", ".join(_COLUMNS), " BEGIN SELECT invalidate(OLD.path), invalidate(NEW.path); END"
# Temporary triggers, which belong to the connection and not to the file: any other tool may write to a ledger, and the
# weekly full comparison then corrects the cache.
_TRIGGERS = (
    "CREATE TEMP TRIGGER invalidate_files_new AFTER INSERT ON main.files BEGIN SELECT invalidate(NEW.path); END",
    "CREATE TEMP TRIGGER invalidate_files_gone AFTER DELETE ON main.files BEGIN SELECT invalidate(OLD.path); END",
    f"CREATE TEMP TRIGGER invalidate_files AFTER UPDATE OF {_WATCHED} ON main.files WHEN {_DIFFERS}{_BOTH}",
    "CREATE TEMP TRIGGER invalidate_sidecars_new AFTER INSERT ON main.sidecars BEGIN SELECT invalidate(NEW.path); END",
    "CREATE TEMP TRIGGER invalidate_sidecars_gone AFTER DELETE ON main.sidecars BEGIN SELECT invalidate(OLD.path); END",
    "CREATE TEMP TRIGGER invalidate_sidecars AFTER UPDATE ON main.sidecars BEGIN SELECT invalidate(NEW.path); END",
)


class Invalidation:
    """Removes folders from the cache in the transaction that changes their rows.

    Except `has` and `forget`, every method is called under the store's lock.
    """

    def __init__(self) -> None:
        self._pending: set[bytes] = set()
        self._noted: set[bytes] | None = None

    def install(self, conn: sqlite3.Connection) -> None:
        """Install the triggers on the writing connection."""
        conn.create_function("invalidate", 1, self._invalidate)
        for trigger in _TRIGGERS:
            conn.execute(trigger)

    def settle(self, conn: sqlite3.Connection) -> None:
        """Remove the folders of changed rows from the cache; runs as the last statement of a transaction."""
        if self._pending:
            conn.executemany("DELETE FROM quiet WHERE folder = ?", [(folder,) for folder in self._pending])
            self._pending.clear()

    def note(self) -> None:
        """Begin to remember which folders change."""
        self._noted = set()

    def forget(self) -> None:
        """Stop remembering changed folders."""
        self._noted = None

    def has(self, folder: bytes) -> bool:
        """Return whether the folder changed since `note`; True if unknown: without a `note`, or after many changes."""
        noted = self._noted
        return noted is None or folder in noted

    def _invalidate(self, path: bytes) -> None:
        folder = path[: path.rfind(b"/") + 1]
        self._pending.add(folder)
        noted = self._noted
        if noted is not None:
            noted.add(folder)
            if len(noted) > _MOST_NOTED:
                self._noted = None


class FolderCache:
    """The ledger's part for skipping unchanged folders; for one scan at a time."""

    def __init__(self, store: "Database") -> None:
        self._store = store

    def begin(self, plan: str, now: float) -> bool:
        """Begin a scan by this plan; return False if no cached folder may be used.

        Folders cached under another plan are removed, and after a week all folders are: comparing and counting
        everything then finds whatever went wrong with the ledger. A ledger opened without the lock is not changed.
        """
        rows = self._store.rows("SELECT name, value FROM facts WHERE name IN (?, ?)", _PLAN, _SINCE)
        facts: dict[str, str] = {row[0]: row[1] for row in rows}
        since = float(facts.get(_SINCE) or "inf")
        usable = facts.get(_PLAN) == plan and since <= now < since + _WEEK
        if not self._store.holds_lock:
            return usable

        def work(conn: sqlite3.Connection) -> None:
            # In a transaction, so that earlier changes are on the disk when the scan reads its first row.
            self._store.invalidation.note()
            if usable:
                return
            conn.execute("DELETE FROM quiet")
            conn.execute("DELETE FROM counted")
            counts = "SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3"
            conn.execute(f"INSERT INTO counted {counts}")
            set_fact(conn, _PLAN, plan)
            set_fact(conn, _SINCE, str(now))

        self._store.write(work)
        return True

    def end(self) -> None:
        """End the scan."""
        self._store.invalidation.forget()

    def recorded(self) -> Iterator[CachedFolder]:
        """Yield the cached folders by path, in byte order."""
        sql = "SELECT folder, digest, files, sidecars, ignored FROM quiet WHERE folder > ? ORDER BY folder LIMIT ?"
        # SQLite sorts any text before any blob, and the root is the empty blob.
        return map(CachedFolder._make, self._store.pages(sql, "folder", ("",)))

    def was_invalidated(self, folder: bytes) -> bool:
        """Return whether a row of the folder changed since the scan began; unknown, and False, without the lock."""
        return self._store.holds_lock and self._store.invalidation.has(folder)

    def record(self, found: Sequence[CachedFolder], outdated: Sequence[bytes]) -> None:
        """Record the folders that the scan found, except those that changed meanwhile; remove those in `outdated`."""

        def work(conn: sqlite3.Connection) -> None:
            conn.executemany("DELETE FROM quiet WHERE folder = ?", [(folder,) for folder in outdated])
            conn.executemany(
                "INSERT OR REPLACE INTO quiet (folder, digest, files, sidecars, ignored) VALUES (?, ?, ?, ?, ?)",
                [each for each in found if not self._store.invalidation.has(each.folder)],
            )

        if found or outdated:
            self._store.write(work)
