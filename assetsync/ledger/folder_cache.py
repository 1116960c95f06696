"""The folder cache: folders whose files a scan need not compare again, because everything in them was known.

A cached folder meets two conditions: the names and properties of its files gave the digest, and the ledger's rows
agreed with them. The next scan checks the first. The second holds until a row of the folder changes: the writing
connection removes the folder from the cache in the same transaction (`ledger.file.invalidation`).
"""

from collections.abc import Iterator, Sequence

from assetsync.ledger.file.database import Database
from assetsync.ledger.file.facts import set_fact
from assetsync.ledger.file.handle import Handle
from assetsync.model import CachedFolder

_WEEK = 7 * 24 * 3600.0
_PLAN, _SINCE = "folder_cache_plan", "folder_cache_since"


class FolderCache:
    """The ledger's part for skipping unchanged folders; for one scan at a time."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def begin(self, plan: str, now: float) -> bool:
        """Begin a scan by this plan; return False if no cached folder may be used.

        Folders cached under another plan are removed, and after a week all folders are: comparing and counting
        everything then finds whatever went wrong with the ledger. A ledger opened without the lock is not changed.
        """
        since = float(self._store.fact(_SINCE) or "inf")
        usable = self._store.fact(_PLAN) == plan and since <= now < since + _WEEK
        if not self._store.holds_lock:
            return usable

        def work(conn: Handle) -> None:
            # In a transaction, so that earlier changes are on the disk when the scan reads its first row.
            self._store.invalidation.note()
            if usable:
                return
            conn.table("folder_cache").delete_where()
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
        sql = (
            "SELECT folder, digest, files, sidecars, ignored FROM folder_cache WHERE folder > ? ORDER BY folder LIMIT ?"
        )
        # SQLite sorts any text before any blob, and the root is the empty blob.
        return map(CachedFolder._make, self._store.pages(sql, "folder", ("",)))

    def was_invalidated(self, folder: bytes) -> bool:
        """Return whether a row of the folder changed since the scan began; unknown, and False, without the lock."""
        return self._store.holds_lock and self._store.invalidation.has(folder)

    def record(self, found: Sequence[CachedFolder], outdated: Sequence[bytes]) -> None:
        """Record the folders that the scan found, except those that changed meanwhile; remove those in `outdated`."""

        def work(conn: Handle) -> None:
            conn.execute_each("DELETE FROM folder_cache WHERE folder = ?", [(folder,) for folder in outdated])
            kept = (each._asdict() for each in found if not self._store.invalidation.has(each.folder))
            conn.table("folder_cache").insert_all(kept, replace=True)

        if found or outdated:
            self._store.write(work)
