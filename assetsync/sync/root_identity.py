"""Check that the root holds the tree that the ledger was filled from.

With another tree in its place (another `root`, or another disk mounted at a mapped folder), all known files would count
as gone and all files of that tree would be sent. The tree of another site would do the same; that check is left to
`sync.duplicate_sites`. Nothing of such a tree is read before a person agrees, apart from a few files that are compared.
A missing root pulls a brake of its own.
"""

from typing import NamedTuple

from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.errors import FileChanged, FileUnreadable, NotRegular, ReadStopped, RootElsewhere, RootMissing
from assetsync.ledger.file.facts import ROOT
from assetsync.ledger.versions import Known
from assetsync.model import FileStat, Mapping
from assetsync.sync.brakes import BrakeControl
from assetsync.sync.context import Context
from assetsync.sync.duplicate_sites import DuplicateSites
from assetsync.tree.body import digest
from assetsync.tree.filesystem import file_system

_KIND = "root"
_MISSING = "root"
_DISK = "disk:"
_SAMPLE = 100
_FEW = 3
_COARSE = 2 * 10**9
_COMPARED = 5
_MOST_READ = 64 * 2**20
"""The size of the largest file that is compared, in bytes."""


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
        self._context = context
        self._brake_control = BrakeControl(context.ledger, context.clock)
        self._agreed: set[str] = set()
        self.agreed: set[int] = set()
        """The positions of the mappings whose files a person agreed to be replaced by others that look alike."""
        # By large mapping: the rows whose files are looked at before each scan. A new sample reads all its rows.
        self._samples: dict[int, list[Known]] = {}
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
        # The ledger now records what a person agreed to, so the release is no longer needed. Other content is recorded
        # only when the files are queued.
        self._brake_control.withdraw_others(_KIND, self._agreed)
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
        if not found:
            return self._other_content()
        subject = ", ".join(f"{printable(mapping.path) or 'the root'} on {disk}" for mapping, disk in found)
        if self._brake_control.allowed(_KIND, subject, 1):
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
        return found is not None and _is_alike(row, found)

    def _other_content(self) -> _Problem | None:
        """Return the problem of the first mapped folder whose files look like the known ones and have other content."""
        self._agreed, self.agreed = set(), set()
        for position, mapping in enumerate(self._plan.mappings.all):
            different = self._compare(position, mapping)
            if different is None:
                continue
            shown = printable(mapping.path) or "the root"
            subject = f"{shown} with other content on {self._file_system(mapping)}"
            if self._brake_control.allowed(_KIND, subject, 1):
                self._agreed.add(subject)
                self.agreed.add(position)
                continue
            detail = (
                f"the files at {shown} have the names, sizes and times of those uploaded from there, and other content"
                f" ({different}): uploads stay stopped until you confirm that they replace the others; if they do not,"
                " mount the right disk"
            )
            return _Problem(subject, detail)
        return None

    def _compare(self, position: int, mapping: Mapping) -> str | None:
        """Return which files have other content, if half of the compared ones do; None if nothing is wrong or known.

        A few files are compared if most known ones have another inode, or if the folder is on another disk.
        """
        sample = self._samples.pop(position, None) or self._sample(position, mapping)
        alike = [(row, found) for row in sample if (found := self._found(row)) is not None]
        others = sum(row.inode != found.inode for row, found in alike)
        disk, here = self._ledger.reports.fact(_disk_of(mapping)), self._file_system(mapping)
        is_another_disk = None not in (disk, here) and disk != here
        if len(alike) < _FEW or not (others * 2 > len(alike) or is_another_disk):
            if len(alike) * 2 > _SAMPLE:
                self._samples[position] = sample
            return None
        compared, different = 0, []
        for row, found in sorted(alike, key=lambda each: each[0].size):
            current = self._ledger.versions.current_of(row.path)
            if compared == _COMPARED or row.size > _MOST_READ:
                break
            if current is None or current.md5 is None or current.stat[:2] != (row.size, row.mtime_ns):
                continue
            try:
                with self._tree.open(row.path) as file:
                    content = digest(file, found, stop=self._context.must_stop)
            except ReadStopped:
                return None
            except (FileChanged, FileUnreadable, NotRegular, RootMissing):
                continue
            compared += 1
            different += [row.path] * (content != current.md5)
        if not different or len(different) * 2 < compared:
            return None
        return f"{len(different)} of {compared} compared, first {printable(different[0])}"

    def _found(self, row: Known) -> FileStat | None:
        """Return the file of a row, if its size and time are those of the row; None if not, or if it is unreadable."""
        try:
            found = self._tree.lstat(row.path)
        except (FileUnreadable, RootMissing):
            return None
        return found if found is not None and _is_alike(row, found) else None

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


def _is_alike(row: Known, found: FileStat) -> bool:
    # A copy on another kind of file system may have coarser times.
    return found.size == row.size and abs(found.mtime_ns - row.mtime_ns) <= _COARSE


def _disk_of(mapping: Mapping) -> str:
    return _DISK + mapping.path.hex()
