"""Look for what the last scan missed, so that a scan begins once it is back, and for files that can be read again.

Without this, a brake for missing files and a report of unreadable paths would last until the next regular scan. A look
concludes nothing: only the scan lifts a brake or ends a report. When to look is left to the daemon.
"""

import os
from itertools import chain

from assetsync.core.mapping import Plan
from assetsync.errors import FileUnreadable, NotRegular, RootMissing
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.intake.renames import Missing
from assetsync.tree.scan_report import MOVED_AWAY

_MOST = 100
_REASON = "unreadable"


class AwaitedPaths:
    """What the last finished scan missed or could not read, and blocked files; used by the thread that scans.

    `unexamined` are those that another thread could not examine. A finished scan removes those that it covered.
    """

    def __init__(self, context: Context, plan: Plan, unexamined: set[bytes]) -> None:
        self._tree = context.tree
        self._ledger = context.ledger
        self._clock = context.clock
        self._tick = context.heartbeat.tick
        self._plan = plan
        self._files: list[bytes] = []
        self._replaced: list[Missing] = []
        self._folders: list[bytes] = []
        self._unreadable: list[bytes] = []
        self._unexamined = unexamined
        # Those that a scan covers which has begun.
        self._covered: set[bytes] = set()
        # The files that are blocked as unreadable and could not be opened at the last look.
        self._shut: set[bytes] = set()

    def scan_begins(self) -> None:
        """Note that a scan begins, which covers what was unexamined before it."""
        self._covered = {*self._unexamined}

    def note(self, result: ScanResult, *, undecided: bool) -> None:
        """Replace the paths by those of a finished scan; `undecided`: a brake keeps its missing files in the ledger."""
        report, renamed = result.report, result.matched.renamed
        self._files = [path for path in result.missing_sample.values if undecided and path not in renamed]
        self._replaced = result.replaced[:: len(result.replaced) // _MOST + 1] if undecided else []
        self._folders = [self._plan.folders()[position] for position in report.missing_mappings]
        self._unreadable = [path for path, why in report.unreadable[:_MOST] if why != MOVED_AWAY]
        self._unexamined.difference_update(self._covered)

    def found(self) -> str | None:
        """Return what is back, as the reason for a scan; None if nothing is. Raise OutOfResources.

        Of missing files all must be back: a scan in the middle of a restore could take the others for deleted.
        """
        back = chain(map(self._is_file, self._files), map(self._is_other, self._replaced))
        if (self._files or self._replaced) and all(back):
            return "the missing files are back"
        if any(map(self._is_listable, self._folders)):
            return "a mapped folder is back"
        if any(map(self._is_readable, (*self._unreadable, *self._unexamined))):
            return "what was unreadable can be read"
        return None

    def _is_file(self, path: bytes) -> bool:
        self._tick()
        try:
            return self._tree.lstat(path) is not None
        except (FileUnreadable, RootMissing):
            return False

    def _is_other(self, replaced: Missing) -> bool:
        """Return whether a file that replaced a known one was replaced again, or is gone."""
        self._tick()
        try:
            found = self._tree.lstat(replaced.path)
        except (FileUnreadable, RootMissing):
            return False
        return found is None or not self._ledger.versions.still_differs(replaced.id, found)

    def _is_readable(self, path: bytes) -> bool:
        """Return whether a scan could read the file or folder at `path`, or would find that it is gone."""
        try:
            return self._is_listable(path) or self._is_file(path) or self._tree.is_absent(path)
        except RootMissing:
            # A scan reports it.
            return False

    def _is_listable(self, path: bytes) -> bool:
        """Return whether the folder at `path` can be listed to its end, and its files be examined."""
        self._tick()
        try:
            with self._tree.listed(path) as (fd, entries):
                for _entry in entries:
                    pass
                return os.access(b".", os.X_OK, dir_fd=fd, effective_ids=True)
        except (OSError, FileUnreadable, RootMissing):
            return False

    def retry_opened(self) -> None:
        """Retry all files that are blocked as unreadable, once one can be opened that could not be at the last look.

        A file that can be opened, and fails while it is read, is left to the retries of the scans. Raise LedgerError
        and OutOfResources.
        """
        paths = self._ledger.queue.blocked_paths(_REASON, _MOST)
        shut = {path for path in paths if not self._opens(path)}
        if not self._shut.isdisjoint(set(paths) - shut):
            self._ledger.queue.retry_blocked(_REASON, self._clock.now())
        self._shut = shut

    def _opens(self, path: bytes) -> bool:
        self._tick()
        try:
            self._tree.open(path).close()
        except (FileUnreadable, NotRegular, RootMissing):
            return False
        return True
