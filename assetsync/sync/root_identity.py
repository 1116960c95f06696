"""Check that the root holds the tree that the ledger was filled from.

With another tree in its place (another `root`, or another disk mounted at a mapped folder), all known files would count
as gone and all files of that tree would be sent. The tree of another site would do the same; that check is left to
`sync.duplicate_sites`. Nothing of such a tree is read before a person agrees. Other files of the known names, sizes and
times are left to `sync.intake` and `sync.brakes`. A missing root pulls a brake of its own.
"""

from typing import NamedTuple

from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.errors import FileUnreadable, RootElsewhere, RootMissing
from assetsync.ledger.file.facts import ROOT
from assetsync.ledger.versions import Known
from assetsync.model import Mapping
from assetsync.sync.brakes import BrakeControl
from assetsync.sync.context import Context
from assetsync.sync.duplicate_sites import DuplicateSites
from assetsync.tree.filesystem import file_system

_KIND = "root"
_MISSING = "root"
_DISK = "disk:"
_SAMPLE = 100
_FEW = 3
_COARSE = 2 * 10**9


class _Problem(NamedTuple):
    """A difference from before: the subject of its brake, and the message."""

    subject: str
    detail: str
    is_another_root: bool = False


class RootIdentity:
    """Checks the root before the tree is read; used by one thread at a time."""

    def __init__(self, context: Context, plan: Plan, duplicate_sites: DuplicateSites) -> None:
        self._duplicate_sites = duplicate_sites
        self._ledger = context.ledger
        self._tree = context.tree
        self._plan = plan
        self._brake_control = BrakeControl(context.ledger, context.clock)
        self.elsewhere = False
        """Whether `check` found another tree than the ledger's. Nothing of such a tree may be read."""

    def check(self) -> None:
        """Return if the tree is the ledger's or a person has agreed to it; else pull a brake and raise RootElsewhere.

        The first root that a ledger is used with is its own. Another spelling of the same folder is the same root.
        """
        try:
            self._check()
        except RootElsewhere:
            self.elsewhere = True
            raise
        self.elsewhere = False

    def _check(self) -> None:
        problem = self._problem()
        if problem is not None:
            self._brake_control.pull(_KIND, problem.subject, problem.detail, 1)
            # A brake for a missing root is obsolete if the root is another one; else the next scan decides about it.
            also = () if problem.is_another_root else (_MISSING,)
            kept = (problem.subject, *also)
            self._brake_control.lift_others(_KIND, kept, "another brake reports what is there now")
            raise RootElsewhere(problem.detail)
        disks = {_disk_of(mapping): self._file_system(mapping) for mapping in self._plan.mappings.all}
        for name, value in {ROOT: self._here(), **disks}.items():
            if value is not None and value != self._ledger.reports.fact(name):
                self._ledger.set_fact(name, value)
        # The ledger now records what a person agreed to, so the release is no longer needed.
        self._brake_control.withdraw_others(_KIND, ())
        self._brake_control.lift_others(_KIND, (_MISSING,), "the root holds the known files again")
        self._duplicate_sites.check()

    def expect(self) -> None:
        """Raise RootElsewhere as `check` does, but pull no brake and write nothing."""
        problem = self._problem()
        if problem is not None:
            raise RootElsewhere(problem.detail)
        self._duplicate_sites.expect()

    def missing(self, problem: str) -> None:
        """Pull the brake because the root of a known site is not there; `problem` is its message."""
        self._brake_control.pull(_KIND, _MISSING, problem, 1)

    def found(self, why: str) -> None:
        """Lift the brake for a missing root, after a scan that missed no file or pulled a brake for those it missed."""
        for brake in self._ledger.reports.brakes():
            if brake.kind == _KIND and brake.subject == _MISSING:
                self._brake_control.lift(brake, why)

    def _problem(self) -> _Problem | None:
        known, here = self._ledger.reports.fact(ROOT), self._here()
        is_another = known is not None and known != here and not self._tree.is_at(known.encode())
        if is_another and self._ledger.versions.size() > 0 and not self._brake_control.allowed(_KIND, here, 1):
            detail = (
                f"the ledger was filled from the root {printable(known or '')}, and `root` is {printable(here)} now:"
                " uploads stay stopped until you confirm that the same tree has moved; if it has not, correct `root`"
            )
            return _Problem(here, detail, is_another_root=True)
        all_of_them = enumerate(self._plan.mappings.all)
        found = [(mapping, disk) for at, mapping in all_of_them if (disk := self._another_disk(at, mapping))]
        subject = ", ".join(f"{printable(mapping.path) or 'the root'} on {disk}" for mapping, disk in found)
        if not found or self._brake_control.allowed(_KIND, subject, 1):
            return None
        shown = ", ".join(printable(mapping.path) or "the root" for mapping, _disk in found)
        detail = (
            f"another disk than before is mounted at {shown}, and it holds none of the files that were uploaded from"
            " there: uploads stay stopped until you confirm that it replaces the other; if it does not, mount the right"
            " one"
        )
        return _Problem(subject, detail)

    def _another_disk(self, position: int, mapping: Mapping) -> str | None:
        """Return the file system of a mapped folder if it differs from before and holds none of the known files.

        Its number alone proves nothing: some file systems get a new number with each mount.
        """
        known, here = self._ledger.reports.fact(_disk_of(mapping)), self._file_system(mapping)
        if known is None or here in (None, known):
            return None
        sample = self._sample(position, mapping)
        return None if len(sample) < _FEW or any(map(self._may_be_there, sample)) else here

    def _sample(self, position: int, mapping: Mapping) -> list[Known]:
        """Return up to `_SAMPLE` current versions of a mapping that have an asset."""
        # A mapping below this one may be on a disk of its own.
        inside = mapping.path + b"/" if mapping.path else b""
        others = [other.path for other in self._plan.mappings.all if other.path.startswith(inside) and other.path]
        below = self._ledger.versions.sample(mapping.path, _SAMPLE, but=others)
        return [row for row in below if self._plan.covers(row.path) == position]

    def _may_be_there(self, row: Known) -> bool:
        try:
            found = self._tree.lstat(row.path)
        except (FileUnreadable, RootMissing):
            return True
        # A copy on another kind of file system may have coarser times.
        return found is not None and found.size == row.size and abs(found.mtime_ns - row.mtime_ns) <= _COARSE

    def _file_system(self, mapping: Mapping) -> str | None:
        """Return the file system of a mapped folder, None if the folder is empty or cannot be read.

        An empty folder is more likely a mount point without its disk. `sync.brakes` judges the files missing there.
        """
        try:
            with self._tree.listed(mapping.path) as (fd, entries):
                return file_system(fd) if next(entries, None) is not None else None
        except (OSError, FileUnreadable, RootMissing):
            return None

    def _here(self) -> str:
        return self._tree.root.decode("utf-8", "backslashreplace")


def _disk_of(mapping: Mapping) -> str:
    return _DISK + mapping.path.hex()
