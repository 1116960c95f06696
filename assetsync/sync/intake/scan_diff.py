"""Merge a scan with the rows of the ledger: two streams in one order, folder by folder where nothing changed.

Unchanged folders cost a count of their rows. In other folders each file is matched with its row, and rows without a
file are passed on as missing. What a difference means is left to `sync.intake.intake`.
"""

from collections.abc import Callable, Iterator

from assetsync.core.mapping import Plan
from assetsync.ledger.versions import Known
from assetsync.model import CachedFolder
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import SidecarCache, SidecarDiff
from assetsync.tree.scan_report import ScanReport

_MOST_RANGES = 64
_MOST_COUNTED = 5000
_BATCH = 500
_MOST_CHANGED = 10_000

Range = tuple[bytes, bytes | None, bytes | None]
"""The first path, the path after the last (None: to the end), and the unchanged folder that they are in, if any."""


class ScanDiff:
    """The comparison of one scan, and its folder cache (`tree.folder_digest.KnownFolders`).

    `missing` is called with each row that has no file. `mark` identifies the rules of the scan: a cache made under
    other rules is not used.
    """

    def __init__(
        self,
        context: Context,
        plan: Plan,
        report: ScanReport,
        sidecar_cache: SidecarCache,
        *,
        missing: Callable[[Known], None],
        mark: str,
        dry_run: bool,
    ) -> None:
        self._ledger = context.ledger
        self.sidecar_diff = SidecarDiff(context, plan, report, sidecar_cache, self.differs)
        # The folders in which something differs from the ledger, as far as they have not ended.
        self._changed: set[bytes] = set()
        self._missing = missing
        self._dry_run = dry_run
        # The scan has yielded everything before this path; None is after all paths.
        self._at: bytes | None = b""
        self._rows: Iterator[Known] | None = None
        self._next: Known | None = None
        # Ranges of paths in which the scan yielded no file. The ledger is queried for several of them at once.
        self._ranges: list[Range] = []
        self._expected: int | None = 0
        usable = self._ledger.folder_cache.begin(mark, context.clock.now())
        self._recorded = self._ledger.folder_cache.recorded() if usable else iter(())
        self._known = next(self._recorded, None)
        self._found: list[CachedFolder] = []
        self._outdated: list[bytes] = []
        self.skipped_unchanged = 0
        """The number of files that were not yielded because they are unchanged."""

    def differs(self, path: bytes) -> None:
        """Note that something at a path differs from the ledger: its folder is not cached."""
        self._changed.add(path[: path.rfind(b"/") + 1])

    def row(self, path: bytes) -> Known | None:
        """Return the current row of a path that the scan yielded; rows before it are missing."""
        if self._ranges:
            self._check_row_counts()
        if self._rows is None:
            assert self._at is not None
            self._rows = self._ledger.versions.current(self._at)
            self._next = next(self._rows, None)
        self._pass(path)
        row = self._next
        if row is None or row.path != path:
            return None
        self._next = next(self._rows, None)
        return row

    def recall(self, folder: bytes) -> CachedFolder | None:
        """Return the cached state of the folder, None if there is none or a row of the folder has changed since."""
        while self._known is not None and self._known.folder < folder:
            # The folder is gone or no longer mapped. If it comes back, its files must be compared again.
            self._outdated.append(self._known.folder)
            self._known = next(self._recorded, None)
        if len(self._outdated) >= _BATCH:
            self._write()
        known = self._known
        if known is None or known.folder != folder:
            return None
        self._known = next(self._recorded, None)
        return None if self._ledger.folder_cache.was_invalidated(folder) else known

    def reached(self, until: bytes | None, folder: bytes, unchanged: CachedFolder | None) -> None:
        """Note that the scan has passed everything before `until`, all of it in `folder`."""
        first, self._at = self._at, until
        assert first is not None
        self.sidecar_diff.reached(until, folder, is_unchanged=unchanged is not None)
        if self._rows is not None:
            if unchanged is None:
                self._pass(until)
                return
            self._rows = self._next = None
        self._ranges.append((first, until, None if unchanged is None else folder))
        if unchanged is not None and unchanged.files:
            if first == folder:
                self.skipped_unchanged += unchanged.files
            whole = first == folder and until == (folder[:-1] + b"0" if folder else None)
            # With subfolders between the files, the number of files in each range is unknown.
            self._expected = self._expected + unchanged.files if whole and self._expected is not None else None
        if len(self._ranges) >= _MOST_RANGES or self._expected is None or self._expected > _MOST_COUNTED:
            self._check_row_counts()

    def ended(self, found: CachedFolder | None) -> None:
        """Note how to recognise a folder again; it is cached unless something in it differed from the ledger."""
        if found is not None:
            self._found.append(found)
        if len(self._found) >= _BATCH or len(self._changed) > _MOST_CHANGED:
            self._write()

    def finish(self, *, to_the_end: bool) -> None:
        """Write the folder cache; after a scan that reached its end, pass the remaining rows on as missing."""
        if to_the_end and self._at is not None:
            self.reached(None, b"", None)
        self.sidecar_diff.finish()
        self._write()

    def close(self) -> None:
        """End the comparison, finished or not."""
        self._ledger.folder_cache.end()

    def _pass(self, until: bytes | None) -> None:
        assert self._rows is not None
        row = self._next
        while row is not None and (until is None or row.path < until):
            self._miss(row)
            row = next(self._rows, None)
        self._next = row

    def _miss(self, row: Known) -> None:
        self.differs(row.path)
        self._missing(row)

    def _check_row_counts(self) -> None:
        """Check that the ledger has as many rows in the passed ranges as the unchanged folders have files."""
        if not self._ranges:
            return
        ranges, self._ranges = self._ranges, []
        expected, self._expected = self._expected, 0
        versions = self._ledger.versions
        count = versions.count(ranges[0][0], ranges[-1][1]) if expected is not None else None
        if count is not None and count == expected:
            return
        missed = 0
        for first, until, folder in ranges:
            for row in versions.current(first, until, not_in=folder):
                self._miss(row)
                missed += 1
        if count is not None and count - missed != expected:
            # An unchanged folder has other rows than before: the next scan compares each of its files.
            self._outdated += [folder for _first, _until, folder in ranges if folder is not None]

    def _write(self) -> None:
        """Write the folder cache; must not be called between the last `reached` of a folder and its `ended`."""
        # Rows without a file, in a folder without files, are found only here.
        self._check_row_counts()
        found, self._found = self._found, []
        outdated, self._outdated = self._outdated, []
        if not self._dry_run:
            self._ledger.folder_cache.record([each for each in found if each.folder not in self._changed], outdated)
        # Only the folders that contain the position of the scan have not ended.
        at = self._at
        self._changed = set() if at is None else {folder for folder in self._changed if at.startswith(folder)}
