"""Find changed sidecars: compare those of a scan with the ledger, and look at single ones that the watcher reported.

This module finds only that a sidecar has changed; its content is read when its file is sent.
"""

from collections.abc import Callable

import structlog

from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX
from assetsync.core.names import printable
from assetsync.core.settled import is_settled
from assetsync.errors import FileUnreadable, RootMissing
from assetsync.ledger.versions import SidecarChange
from assetsync.model import FileStat, Seen
from assetsync.sync.context import Context
from assetsync.sync.intake.file_metadata import Sidecars
from assetsync.sync.intake.plan import Plan
from assetsync.tree.scan_report import ScanReport

log = structlog.get_logger(__name__)

_TICK = 2.5
"""Seconds. FAT times, which some servers pass on, have steps of two seconds."""
_MOST_GONE = 10_000
"""The number of vanished sidecars that are kept until the end of a scan; the next scan finds the others."""


class SidecarDiff:
    """The comparison of one scan's sidecars with the ledger.

    `see` takes them in the order of the scan. `forget` is called before changes are recorded.
    """

    def __init__(self, context: Context, report: ScanReport, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._ledger = context.ledger
        self._clock = context.clock
        self._report = report
        self._known = self._ledger.intake.sidecars()
        self._next = next(self._known, None)
        self._changes: list[SidecarChange] = []
        self._gone: list[bytes] = []
        self.spoil: Callable[[bytes], None] = lambda _path: None
        """Called with the path of each sidecar that differs from the ledger or has vanished."""

    def see(self, seen: Seen) -> None:
        """Compare one sidecar with its row in the ledger."""
        while self._next is not None and self._next[0] < seen.path:
            self._missing(self._next[0])
        known = self._next
        if known is not None and known[0] == seen.path:
            self._next = next(self._known, None)
            if known[1] == seen[1:5]:
                return
        self.spoil(seen.path)
        self._changes.append(SidecarChange(seen.path, FileStat(*seen[1:5]), spoken_of(seen.path)))

    def reached(self, until: bytes | None, folder: bytes, *, is_quiet: bool) -> None:
        """Note that the scan has passed everything before `until`.

        If `is_quiet`, the sidecars directly in `folder` were not yielded and are unchanged.
        """
        while self._next is not None and (until is None or self._next[0] < until):
            path = self._next[0]
            if is_quiet and path.startswith(folder) and b"/" not in path[len(folder) :]:
                self._next = next(self._known, None)
            else:
                self._missing(path)

    @property
    def held(self) -> int:
        """The number of changes that are not yet written."""
        return len(self._changes)

    def finish(self) -> None:
        """Take the remaining sidecars as vanished, at the end of the scan; only paths that its report covers count."""
        while self._next is not None:
            self._missing(self._next[0])
        covered = filter(self._report.covers, self._gone)
        self._changes += [SidecarChange(path, None, spoken_of(path)) for path in covered]

    def flush(self, *, dry_run: bool) -> None:
        """Write the changes so far, or drop them in a dry run."""
        changes, self._changes = self._changes, []
        if changes and not dry_run:
            # Uploads from here on must carry the metadata that is recorded as seen.
            self._forget()
            self._ledger.intake.sidecars_changed(changes, self._clock.now())

    def _missing(self, path: bytes) -> None:
        self._next = next(self._known, None)
        self.spoil(path)
        if len(self._gone) < _MOST_GONE:
            self._gone.append(path)


def look_at_sidecar(context: Context, said: Sidecars, path: bytes) -> int:
    """Look at one sidecar that the watcher reported; return how many files became due because of it."""
    try:
        stat = context.tree.lstat(path)
    except (FileUnreadable, RootMissing) as error:
        log.warning("cannot be looked at", path=printable(path), why=str(error))
        return 0
    now = context.clock.now()
    # Two changes within one tick of the clock that stamps files look alike, so a young sidecar counts as changed.
    # Without a regular file there may be a link, or may have been one, which blocks its file as well.
    if stat is not None and context.ledger.intake.sidecar(path) == stat and is_settled(stat, now, _TICK):
        return 0
    said.forget()
    return context.ledger.intake.sidecars_changed([SidecarChange(path, stat, spoken_of(path))], now)


def note_sidecar(context: Context, plan: Plan, said: Sidecars, path: bytes) -> None:
    """Record a sidecar that was read, if the ledger does not know it; else its removal would not be noticed.

    A path that a scan treats as a file is skipped: the ledger knows it as a file.
    """
    if not plan.is_sidecar(path) or context.ledger.intake.sidecar(path) is not None:
        return
    try:
        stat = context.tree.lstat(path)
    except (FileUnreadable, RootMissing) as error:
        log.warning("cannot be looked at", path=printable(path), why=str(error))
        stat = None
    # The sidecar may be gone already: callers that read it must read again.
    said.forget()
    if stat is not None:
        context.ledger.intake.sidecars_changed([SidecarChange(path, stat, spoken_of(path))], context.clock.now())


def spoken_of(sidecar: bytes) -> bytes | tuple[bytes, bytes]:
    """Return the path of the file that a sidecar is for, or for a folder's sidecar the range of paths below it."""
    folder, slash, name = sidecar.rpartition(b"/")
    if name != FOLDER_SIDECAR:
        return sidecar.removesuffix(SUFFIX)
    # "0" follows "/" in byte order; the range of the root covers every path.
    return (folder + slash, folder + b"0") if slash else (b"", b"\xff" * 8)
