"""Folders of which everything was known when they were scanned, so that their files need not be compared again.

That a folder is quiet says two things: its names and facts gave the digest, and the ledger's rows agreed with them. The
next scan sees for itself whether the first still holds. The second holds until a row of the folder changes: whatever
writes through the store, the folder is struck out in the very transaction (`Stirred`).
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assetsync.ledger.ledger_metadata import set_fact
from assetsync.model import Quiet

if TYPE_CHECKING:
    from assetsync.ledger.database import Database

_PAGE = 2000
_WEEK = 7 * 24 * 3600.0
_MOST_NOTED = 50_000
_PLAN, _SINCE = "quiet_plan", "quiet_since"
_COUNT = "SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3"
_COLUMNS = ("path", "wanted", "size", "mtime_ns", "ctime_ns", "inode", "destfolderid")
_DIFFERS = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in _COLUMNS)
_WATCHED, _BOTH = ", ".join(_COLUMNS), " BEGIN SELECT stir(OLD.path), stir(NEW.path); END"
# Of the connection and not of the file: any tool may write to a ledger, and then the weekly look at all mends it.
_TRIGGERS = (
    "CREATE TEMP TRIGGER stirred_files_new AFTER INSERT ON main.files BEGIN SELECT stir(NEW.path); END",
    "CREATE TEMP TRIGGER stirred_files_gone AFTER DELETE ON main.files BEGIN SELECT stir(OLD.path); END",
    f"CREATE TEMP TRIGGER stirred_files AFTER UPDATE OF {_WATCHED} ON main.files WHEN {_DIFFERS}{_BOTH}",
    "CREATE TEMP TRIGGER stirred_sidecars_new AFTER INSERT ON main.sidecars BEGIN SELECT stir(NEW.path); END",
    "CREATE TEMP TRIGGER stirred_sidecars_gone AFTER DELETE ON main.sidecars BEGIN SELECT stir(OLD.path); END",
    "CREATE TEMP TRIGGER stirred_sidecars AFTER UPDATE ON main.sidecars BEGIN SELECT stir(NEW.path); END",
)


class Stirred:
    """The folders whose rows change, struck out with the change; all but `has` is called under the store's lock."""

    def __init__(self) -> None:
        self._pending: set[bytes] = set()
        self._noted: set[bytes] | None = None
        self._too_many = False

    def install(self, conn: sqlite3.Connection) -> None:
        """Listen to the one connection that writes."""
        conn.create_function("stir", 1, self._stir)
        for trigger in _TRIGGERS:
            conn.execute(trigger)

    def settle(self, conn: sqlite3.Connection) -> None:
        """Strike out what was stirred; the last statement of a transaction."""
        if self._pending:
            conn.executemany("DELETE FROM quiet WHERE folder = ?", [(folder,) for folder in self._pending])
            self._pending.clear()

    def note(self) -> None:
        """Begin to keep in mind what is stirred."""
        self._noted, self._too_many = set(), False

    def forget(self) -> None:
        """Keep nothing in mind any more."""
        self._noted = None

    def has(self, folder: bytes) -> bool:
        """Whether the folder was stirred since `note`; also when it is not known, as without a `note`."""
        return self._noted is None or self._too_many or folder in self._noted

    def _stir(self, path: bytes) -> None:
        folder = path[: path.rfind(b"/") + 1]
        self._pending.add(folder)
        if self._noted is not None:
            self._noted.add(folder)
            if len(self._noted) > _MOST_NOTED:
                self._too_many = True
                self._noted.clear()


class FolderCache:
    """The ledger's side of leaving out what has not changed; for one scan at a time."""

    def __init__(self, store: "Database") -> None:
        self._store = store

    def begin(self, plan: str, now: float) -> bool:
        """Begin a scan by this plan; False when nothing may be relied on.

        What was found by another plan is forgotten, and after a week everything is: whatever went wrong with the ledger
        is then found by comparing, and counting, all of it. A ledger that is only read keeps no notes.
        """
        usable = self._is_usable(plan, now)
        if self._store.read_only or not self._store.holds_lock:
            return usable

        def work(conn: sqlite3.Connection) -> None:
            # In a transaction: what was stirred before is on the disk when the scan reads its first row.
            self._store.stirred.note()
            if usable:
                return
            conn.execute("DELETE FROM quiet")
            conn.execute("DELETE FROM counted")
            conn.execute(f"INSERT INTO counted {_COUNT}")
            set_fact(conn, _PLAN, plan)
            set_fact(conn, _SINCE, str(now))

        self._store.write(work)
        return True

    def end(self) -> None:
        """End the scan."""
        self._store.stirred.forget()

    def recorded(self) -> Iterator[Quiet]:
        """Give the folders by their paths in byte order."""
        sql = "SELECT folder, digest, files, sidecars, ignored FROM quiet WHERE folder"
        yield from (Quiet(*row) for row in self._store.rows(f"{sql} = ?", b""))
        below = self._store.pages(f"{sql} > ? ORDER BY folder LIMIT ?", "folder", (b"",), size=_PAGE)
        yield from (Quiet(*row) for row in below)

    def was_stirred(self, folder: bytes) -> bool:
        """Whether a row of the folder has changed since the scan began; beside a holder nobody knows."""
        return self._store.holds_lock and self._store.stirred.has(folder)

    def record(self, found: Sequence[Quiet], struck: Sequence[bytes]) -> None:
        """Write down what the scan found, but for folders that were stirred meanwhile, and strike out others."""

        def work(conn: sqlite3.Connection) -> None:
            conn.executemany("DELETE FROM quiet WHERE folder = ?", [(folder,) for folder in struck])
            conn.executemany(
                "INSERT OR REPLACE INTO quiet (folder, digest, files, sidecars, ignored) VALUES (?, ?, ?, ?, ?)",
                [each for each in found if not self._store.stirred.has(each.folder)],
            )

        if found or struck:
            self._store.write(work)

    def _is_usable(self, plan: str, now: float) -> bool:
        rows = self._store.rows("SELECT name, value FROM facts WHERE name IN (?, ?)", _PLAN, _SINCE)
        facts: dict[str, str] = {row[0]: row[1] for row in rows}
        since = float(facts.get(_SINCE) or "inf")
        return facts.get(_PLAN) == plan and since <= now < since + _WEEK
