"""Sidecars: the merge of those that a scan meets with those that the ledger knows, and the look at a hinted one.

Only that one has changed is found out here; it is read when its file is sent.
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
"""Seconds: the times of FAT, which some servers hand on, go in steps of two."""
_MOST_GONE = 10_000
"""So many vanished sidecars are kept in mind to the end of a scan; the next one finds the others."""


class SidecarDiff:
    """One scan's merge; `see` takes sidecars in the order of the scan, `forget` hears of changes before the ledger."""

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
        """Hears of each sidecar that is not as it was known, or was known and is not there."""

    def see(self, seen: Seen) -> None:
        """Compare one sidecar with what is known of it."""
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
        """Hear that the scan has told all before `until`, but for what is directly in `folder` where that is quiet."""
        while self._next is not None and (until is None or self._next[0] < until):
            path = self._next[0]
            if is_quiet and path.startswith(folder) and b"/" not in path[len(folder) :]:
                self._next = next(self._known, None)
            else:
                self._missing(path)

    @property
    def held(self) -> int:
        """Count the changes that are not written down."""
        return len(self._changes)

    def finish(self) -> None:
        """Take what is left for missing; for the end of the scan, which tells what it covered."""
        while self._next is not None:
            self._missing(self._next[0])
        covered = filter(self._report.covers, self._gone)
        self._changes += [SidecarChange(path, None, spoken_of(path)) for path in covered]

    def flush(self, *, dry_run: bool) -> None:
        """Write the changes so far down, or forget them."""
        changes, self._changes = self._changes, []
        if changes and not dry_run:
            # What is sent from here on is to be told what is recorded as seen.
            self._forget()
            self._ledger.intake.sidecars_changed(changes, self._clock.now())

    def _missing(self, path: bytes) -> None:
        self._next = next(self._known, None)
        self.spoil(path)
        if len(self._gone) < _MOST_GONE:
            self._gone.append(path)


def look_at_sidecar(context: Context, said: Sidecars, path: bytes) -> int:
    """Look at one sidecar that a hint led to; gives how many files may be sent at once because of it."""
    try:
        stat = context.tree.lstat(path)
    except (FileUnreadable, RootMissing) as error:
        log.warning("cannot be looked at", path=printable(path), why=str(error))
        return 0
    now = context.clock.now()
    # Two changes within one tick of the clock that stamps files look alike: one so young is taken for another. And
    # where nothing regular is, or was, there may be a link, or have been one, which blocks its file as well.
    if stat is not None and context.ledger.intake.sidecar(path) == stat and is_settled(stat, now, _TICK):
        return 0
    said.forget()
    return context.ledger.intake.sidecars_changed([SidecarChange(path, stat, spoken_of(path))], now)


def note_sidecar(context: Context, plan: Plan, said: Sidecars, path: bytes) -> None:
    """See to it that the ledger knows a sidecar that was read: else nobody would notice that it goes again.

    Where a scan takes it for a file, it is known as that.
    """
    if not plan.is_sidecar(path) or context.ledger.intake.sidecar(path) is not None:
        return
    try:
        stat = context.tree.lstat(path)
    except (FileUnreadable, RootMissing) as error:
        log.warning("cannot be looked at", path=printable(path), why=str(error))
        stat = None
    # Gone already: whoever was told what it said is to look once more.
    said.forget()
    if stat is not None:
        context.ledger.intake.sidecars_changed([SidecarChange(path, stat, spoken_of(path))], context.clock.now())


def spoken_of(sidecar: bytes) -> bytes | tuple[bytes, bytes]:
    """Give the path of the file that a sidecar is for, or the range of paths below a folder that has one."""
    folder, slash, name = sidecar.rpartition(b"/")
    if name != FOLDER_SIDECAR:
        return sidecar.removesuffix(SUFFIX)
    # "0" follows "/" in the order of bytes; below the root everything is meant.
    return (folder + slash, folder + b"0") if slash else (b"", b"\xff" * 8)
