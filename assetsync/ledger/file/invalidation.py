"""Remove a folder from the folder cache in the transaction that changes a row of it, whoever makes the change.

What the cache is for, and which folders are in it, is left to `ledger.folder_cache`.
"""

from assetsync.ledger.file.handle import Handle

_MOST_NOTED = 50_000
_COLUMNS = ("path", "wanted", "size", "mtime_ns", "ctime_ns", "inode", "destfolderid")
_DIFFERS = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in _COLUMNS)
_IS_CHECKED = "NEW.state = 'verified' AND NEW.reason IS NOT NULL"
_WATCHED, _BOTH = ", ".join(_COLUMNS), " BEGIN SELECT invalidate(OLD.path), invalidate(NEW.path); END"
# Temporary triggers, which belong to the connection and not to the file: any other tool may write to a ledger, and the
# weekly full comparison then corrects the cache.
_TRIGGERS = (
    "CREATE TEMP TRIGGER invalidate_files_new AFTER INSERT ON main.files BEGIN SELECT invalidate(NEW.path); END",
    "CREATE TEMP TRIGGER invalidate_files_gone AFTER DELETE ON main.files BEGIN SELECT invalidate(OLD.path); END",
    f"CREATE TEMP TRIGGER invalidate_files AFTER UPDATE OF {_WATCHED} ON main.files WHEN {_DIFFERS}{_BOTH}",
    # A file that is checked again may be as before by the next scan, which must see that.
    f"CREATE TEMP TRIGGER invalidate_files_checked AFTER UPDATE OF reason ON main.files WHEN {_IS_CHECKED}{_BOTH}",
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

    def install(self, conn: Handle) -> None:
        """Install the triggers on the writing connection."""
        conn.register_function(self._invalidate, name="invalidate")
        for trigger in _TRIGGERS:
            conn.execute(trigger)

    def settle(self, conn: Handle) -> None:
        """Remove the folders of changed rows from the cache; runs as the last statement of a transaction."""
        if self._pending:
            conn.execute_each("DELETE FROM folder_cache WHERE folder = ?", [(folder,) for folder in self._pending])
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
