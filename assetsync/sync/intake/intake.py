"""Record in the ledger what looks at the tree find: whole scans, and looks at single paths.

A scan and the ledger are merged as streams in the same order; an unchanged file costs one comparison. Vanished files
are recorded only after a scan that reached its end, and after a second look at each of them. A verified file that only
looks changed stays verified, and is read again. `core.settled` decides what a look means, and `sync.brakes` whether too
much has vanished.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.core.settled import EMPTY, Change, compare, is_settled
from assetsync.core.spaced_sample import SpacedSample
from assetsync.core.states import Event
from assetsync.errors import FileChanged, FileUnreadable, NotRegular, ReadStopped, RootMissing
from assetsync.ledger.file.facts import LOOK_ALIKES
from assetsync.ledger.rows import DIFFERS, TOUCHED
from assetsync.ledger.versions import Known, NewVersion
from assetsync.model import FileStat, Seen, State
from assetsync.sync.context import Context
from assetsync.sync.intake.renames import Looks, Matched, Missing, Renames, has_room
from assetsync.sync.intake.scan_diff import ScanDiff
from assetsync.sync.intake.settling import Settling
from assetsync.sync.intake.sidecars import SidecarCache
from assetsync.tree.body import digest
from assetsync.tree.folder_digest import KnownFolders
from assetsync.tree.scan_report import ScanReport

log = structlog.get_logger(__name__)

_BATCH = 1000
_FEW = 100
"""Batch size for single looks. It is smaller than `_BATCH`, because each of these files may be waited for."""

_MAYBE_UNSENT = (State.QUEUED, State.BLOCKED)
"""The states in which a file may never have had an asset."""

_UNEXAMINED = 100

_READ_SECONDS = 1.0
"""Seconds after which `read_again` begins no other file: a scan may be due."""

_LATER = 5.0
"""Seconds until the next try to read a file that cannot be looked at now."""

_NAMED = 5
"""The most files that a log line names."""

_SAMPLED = 100
"""The least number of missing files in the sample, if so many are missing."""


class Planned(NamedTuple):
    """What a run would do with a file, and why: in a word, and for a person.

    `action` is upload, replace, hash, blocked or vanished. `hash`: whether it is sent depends on its digest. `size` is
    None for a file that is gone.
    """

    action: str
    path: bytes
    destfolderid: str
    size: int | None
    reason: str
    detail: str


_PLANS = {
    Change.NEW: ("upload", "new", "new"),
    Change.CHANGED: ("replace", "changed", "changed"),
    Change.TOUCHED: ("hash", "touched", "its times changed, and its size did not: sent if its content differs"),
    Change.REMAPPED: ("upload", "remapped", "its mapping points to another folder"),
}


@dataclass(slots=True)
class ScanResult:
    """The result of one scan; `to_send` counts the files that it queued (in a dry run: that it would queue).

    `missing_by` counts the missing files by mapping, `new_by` those without a row, `unsent` those that never had an
    asset, which count for no brake and no report. `missing` lists them all and the files that are no longer mapped,
    each kind up to `most_missing`, which is no less than the brake allows; `missing_sample` has paths of all missing
    files that had an asset. `taken_over` counts, by mapping, files that were unmapped for a while and had been sent to
    another folder of the service before. `arrived` holds the new paths, and `matched` shows which of them are new names
    of missing files. `vanished` counts the files that are gone, once that is decided. `look_alikes` counts by mapping
    the files that are still to be read again; `replaced` holds those that were read and differ, which count as missing.
    """

    report: ScanReport
    scanned: int = 0
    unchanged: int = 0
    to_send: int = 0
    bytes_to_send: int = 0
    new_versions: int = 0
    unsettled: int = 0
    missing: list[Missing] = field(default_factory=list)
    missing_by: Counter[int] = field(default_factory=Counter)
    missing_sample: SpacedSample[bytes] = field(default_factory=partial(SpacedSample[bytes], _SAMPLED))
    unsent: int = 0
    unmapped: int = 0
    replaced: list[Missing] = field(default_factory=list)
    look_alikes: Counter[int] = field(default_factory=Counter)
    new_by: Counter[int] = field(default_factory=Counter)
    moved: int = 0
    taken_over: Counter[int] = field(default_factory=Counter)
    arrived: dict[bytes, Looks] = field(default_factory=dict)
    matched: Matched = field(default_factory=lambda: Matched({}))
    vanished: int = 0

    def not_renamed(self, *, by_inode: bool = False) -> list[Missing]:
        """Return the missing files of all mappings that had an asset and were not renamed, up to `most_missing`.

        With `by_inode`, only a new path with the inode of the missing file counts. Return none while some may have been
        renamed to paths that are not known yet.
        """
        if self.matched.is_partial:
            return []
        renamed, arrived = self.matched.renamed, self.arrived
        if by_inode:
            # A path that is not among those that arrived was found by its inode.
            same = (one for one in self.missing if one.path in renamed)
            renamed = {
                one.path: to for one in same if arrived.get(to := renamed[one.path], one.looks).inode == one.looks.inode
            }
        counted = (one for one in self.missing if one.mapping is not None and one.had_asset)
        return [*(one for one in counted if one.path not in renamed), *self.replaced]

    @property
    def missing_count(self) -> int:
        """The number of missing files in all mappings that had an asset."""
        return self.missing_by.total()


@dataclass(frozen=True, slots=True)
class IntakeRules:
    """The configured rules: how long files rest, whether moved files are sent again, how many missing files are kept.

    `settles` holds seconds, in the order of the mappings.
    """

    settles: Sequence[float]
    resend_moved: bool
    most_missing: int


class MappingGuard(Protocol):
    """Which mappings may send files whose assets are in another folder of the service.

    `frozen` holds the positions of mappings whose files stay as they are until an operator decides. `is_counting`:
    a scan has not shown yet how many files are missing.
    """

    frozen: frozenset[int]
    is_counting: bool

    def allows_takeover(self, position: int, count: int) -> bool:
        """Return whether a mapping may send this many files whose assets are in another folder of the service."""


class Intake:
    """Records looks at the tree in the ledger; used by one thread at a time.

    `new_versions` counts the new and changed files that single looks found. `unexamined` holds paths that single looks
    could not examine, up to 100.
    """

    def __init__(
        self,
        context: Context,
        plan: Plan,
        settling: Settling,
        rules: IntakeRules,
        *,
        guard: MappingGuard,
        sidecar_cache: SidecarCache,
    ) -> None:
        self._context = context
        self._ledger = context.ledger
        self._tree = context.tree
        self._clock = context.clock
        self._plan = plan
        self.settling = settling
        self._rules = rules
        self._guard = guard
        self._sidecar_cache = sidecar_cache
        self._has_asides = False
        self._is_looking = False
        # The report of the last scan. A later look that fails makes it incomplete.
        self._report = ScanReport()
        self._folders = [mapping.destfolderid for mapping in plan.mappings.all]
        self._batch: list[NewVersion] = []
        self.aside: dict[bytes, NewVersion] = {}
        """New paths that look like known files: whether those are missing is known only after the scan."""
        self._remapped: list[tuple[int, str]] = []
        # The ids of the versions whose files are read again, and of those whose files turned out to be as before.
        self._touched: list[int] = []
        self._as_before: list[tuple[int, bytes, FileStat]] = []
        # In a dry run: called with each file that a run would queue.
        self._planned: Callable[[Planned], None] | None = None
        self.new_versions = 0
        self.unexamined: set[bytes] = set()
        self.renames = Renames(context.ledger.versions)

    def scan(
        self,
        look: Callable[[KnownFolders | None], Iterable[Seen]],
        report: ScanReport,
        planned: Callable[[Planned], None] | None = None,
    ) -> ScanResult:
        """Merge one scan into the ledger. Missing files are collected, not decided.

        `look` starts the scan. Its argument is the folder cache: files in unchanged folders are not yielded. With
        `planned` the scan is a dry run, which writes nothing and calls it with each file that a run would queue.
        """
        result = ScanResult(report)
        self._planned = planned
        dry_run = planned is not None
        self._has_asides = self._ledger.versions.has_asides()
        self._is_looking = False
        self._report = report
        self.aside.clear()
        scan_diff = ScanDiff(
            *(self._context, self._plan, report, self._sidecar_cache),
            missing=partial(self._missing, result),
            mark=self._mark(),
            dry_run=dry_run,
        )
        sidecar_diff = scan_diff.sidecar_diff
        try:
            for seen in look(scan_diff):
                if seen.is_sidecar:
                    sidecar_diff.see(seen)
                    if sidecar_diff.pending >= _BATCH:
                        self._flush()
                        sidecar_diff.flush(dry_run=dry_run)
                    continue
                result.scanned += 1
                row = scan_diff.row(seen.path)
                if row is not None and row.stat == seen.stat and row.destfolderid == self._folders[seen.mapping]:
                    result.unchanged += 1
                    if row.is_checked_again:
                        self._as_before.append((row.id, row.path, FileStat(*row.stat)))
                    continue
                scan_diff.differs(seen.path)
                self._take_in(seen, row, result)
                if max(len(self._batch), len(self._remapped), len(self._touched), len(self._as_before)) >= _BATCH:
                    self._flush()
                    sidecar_diff.flush(dry_run=dry_run)
            scan_diff.finish(to_the_end=report.finished)
        finally:
            scan_diff.close()
        self._flush()
        sidecar_diff.flush(dry_run=dry_run)
        result.scanned += scan_diff.skipped_unchanged
        result.unchanged += scan_diff.skipped_unchanged
        return result

    def decide_missing(self, result: ScanResult) -> list[bytes]:
        """Record the missing files that are gone or no longer mapped; return the paths that are gone and not renamed.

        Called after a scan that reached its end. Paths that its report does not cover are skipped, and those that may
        have been renamed. Files in place of missing ones are queued, once no more of them is to be read.
        """
        gone: list[tuple[int, bytes]] = []
        unmapped: list[tuple[int, bytes]] = []
        for missing in result.missing:
            # The storage may take long for each look, and `brake.max_vanished` may allow many.
            self._context.heartbeat.tick()
            if not result.report.covers(missing.path):
                continue
            if missing.mapping is None:
                unmapped.append((missing.id, missing.path))
                continue
            if result.matched.is_partial and missing.path not in result.matched.renamed:
                continue
            try:
                if self._tree.lstat(missing.path) is None:
                    gone.append((missing.id, missing.path))
            except (FileUnreadable, RootMissing) as error:
                after = "it counts as deleted only once a scan can examine it"
                log.warning(
                    "a missing file cannot be examined", path=printable(missing.path), why=str(error), next=after
                )
        now = self._clock.now()
        for start in range(0, len(gone), _BATCH):
            self._ledger.versions.unwanted(gone[start : start + _BATCH], Event.VANISHED, now)
        for start in range(0, len(unmapped), _BATCH):
            self._ledger.versions.unwanted(unmapped[start : start + _BATCH], Event.UNMAPPED, now)
        if unmapped:
            # Changed rules, or the defaults of a new release: no file may be left out in silence.
            first = [printable(path) for _id, path in unmapped[:_NAMED]]
            fix = "their assets stay; `assetsync explain PATH` shows the rule; `!pattern` under `ignore` takes it back"
            log.warning("files are left out now that were sent before", count=result.unmapped, first=first, fix=fix)
        vanished = {one.path for one in result.not_renamed()}
        return [*(path for _id, path in gone if path in vanished), *self._queue_replaced(result)]

    def _queue_replaced(self, result: ScanResult) -> list[bytes]:
        """Queue the files that differ from verified ones and look like them; return their paths."""
        if self._ledger.reports.fact(LOOK_ALIKES) is not None:
            return []
        paths = []
        for one in result.replaced:
            self._context.heartbeat.tick()
            try:
                found = self._tree.lstat(one.path)
            except (FileUnreadable, RootMissing):
                found = None
            row = self._ledger.versions.current_of(one.path)
            # The next scan decides about those that are gone by now.
            if found is not None and row is not None and row.id == one.id:
                self._batch.append(NewVersion(one.path, found, row.destfolderid, row.folded_name, row.id))
                paths.append(one.path)
        result.to_send += len(paths)
        self._flush()
        return paths

    def queue_aside(self) -> int:
        """Queue the new paths that were put aside, once the brakes have counted the missing files; return how many."""
        aside, self.aside = [*self.aside.values()], {}
        for first in range(0, len(aside), _BATCH):
            self._batch = aside[first : first + _BATCH]
            self._flush()
        return len(aside)

    def look_again(self, most: int | None = None) -> int:
        """Take the second look at up to `most` files that had not settled; return how many were queued."""
        return self.look(*self.settling.due(self._clock.steady(), most))

    def look(self, *paths: bytes) -> int:
        """Look at paths that are not sidecars: watched paths and second looks. Return how many were queued."""
        self._planned = None
        self._has_asides = self._ledger.versions.has_asides()
        self._is_looking = True
        result = ScanResult(ScanReport())
        queued = 0 if self._guard.is_counting else self.queue_aside()
        try:
            for path in paths:
                self._look(path, result)
                if len(self._batch) >= _FEW:
                    self._flush()
            self._flush()
        finally:
            self._batch.clear()
            self._remapped.clear()
            self._touched.clear()
            self.new_versions += result.new_versions
            self.renames.note(result.arrived)
        return queued + result.to_send

    def _look(self, path: bytes, result: ScanResult) -> None:
        mapping = self._plan.covers(path)
        if mapping is None or self._plan.is_sidecar(path):
            self.settling.forget(path)
            return
        try:
            stat = self._tree.lstat(path)
        except (FileUnreadable, RootMissing) as error:
            after = "a scan follows once it can be; the daemon looks every minute"
            log.warning("a path cannot be examined", path=printable(path), why=str(error), next=after)
            self._report.mark_unreadable(path, str(error))
            if len(self.unexamined) < _UNEXAMINED:
                self.unexamined.add(path)
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else str(error)
            is_blind = isinstance(error, FileUnreadable)
            self._ledger.runs.not_scanned(f"{printable(path)} ({why})" if is_blind else "")
            stat = None
        if stat is None:
            # Only a scan that reaches its end decides whether the file is gone.
            self.settling.forget(path)
            return
        current = self._ledger.versions.current_of(path)
        known = None
        if current is not None:
            known = Known(path, *current.stat, current.destfolderid, current.id, current.state, current.reason)
        self._take_in(Seen(path, *stat, mapping, False), known, result)

    def _mark(self) -> str:
        """Return the key of the rules of a scan; the folder cache holds for one key only."""
        return f"4 {self._plan.mark} {self._tree.follow_symlinks}"

    def _take_in(self, seen: Seen, row: Known | None, result: ScanResult) -> None:
        """Compare a file that may have changed with its row: count it, let it settle, or queue a new version."""
        stat = FileStat(*seen.stat)
        folder = self._folders[seen.mapping]
        change = compare(stat, folder, FileStat(*row.stat) if row else None, row.destfolderid if row else None)
        if change is Change.UNCHANGED or (change is Change.REMAPPED and self._keep_or_remap(seen, row, folder, result)):
            self.settling.forget(seen.path)
            return
        if change is Change.TOUCHED and row is not None and row.state == State.VERIFIED and self._planned is None:
            self._check_again(seen, stat, row, result)
            return
        result.new_by[seen.mapping] += row is None
        if row is None and has_room(result.arrived):
            result.arrived[seen.path] = Looks(stat.size, stat.mtime_ns, stat.inode)
        if row is None and self._has_asides and self._count_takeover(seen, stat, folder, result):
            self.settling.forget(seen.path)
            return
        if self._planned is not None:
            action, reason, detail = _PLANS[change] if stat.size else ("blocked", *EMPTY)
            if change is Change.CHANGED and row is not None and row.size == stat.size:
                action, reason, detail = _PLANS[Change.TOUCHED]
            self._planned(Planned(action, seen.path, folder, stat.size, reason, detail))
        settle = self._rules.settles[seen.mapping]
        if not is_settled(stat, self._clock.now(), settle) and not self.settling.see(
            seen.path, stat, self._clock.steady(), settle
        ):
            result.unsettled += 1
            return
        result.to_send += stat.size > 0
        result.bytes_to_send += stat.size
        result.new_versions += change in (Change.NEW, Change.CHANGED)
        name = self._context.names_of_path(seen.path)[0].casefold()
        block = None if stat.size else EMPTY
        self._batch.append(NewVersion(seen.path, stat, folder, name, row.id if row else None, block))

    def _check_again(self, seen: Seen, stat: FileStat, row: Known, result: ScanResult) -> None:
        """Let a verified file whose ctime or inode alone changed be read again; count it if it was read and differs."""
        self.settling.forget(seen.path)
        if row.reason != DIFFERS or not self._ledger.versions.still_differs(row.id, stat):
            if row.reason != TOUCHED:
                self._touched.append(row.id)
            result.look_alikes[seen.mapping] += 1
            return
        result.missing_by[seen.mapping] += 1
        if result.missing_count <= self._rules.most_missing:
            looks = Looks(row.size, row.mtime_ns, row.inode)
            result.replaced.append(Missing(row.id, row.path, seen.mapping, looks))

    def read_again(self) -> int:
        """Read verified files that only look changed, for about a second; return the number of files that were read.

        A file of the same content stays verified. Another one is queued, or counted by the next scan if more files are
        read again than may vanish at once.
        """
        self._planned = None
        now, until = self._clock.now(), self._clock.steady() + _READ_SECONDS
        equal: list[tuple[int, bytes, FileStat]] = []
        differing: list[tuple[int, FileStat]] = []
        later, read = [], 0
        for row in self._ledger.versions.to_read_again(now, _FEW):
            mapping = self._plan.covers(row.path)
            try:
                found, md5 = self._content(row.path, 0.0 if mapping is None else self._rules.settles[mapping])
            except (FileUnreadable, RootMissing):
                found = None
            except ReadStopped:
                break
            if found is None:
                # A scan decides whether it is gone.
                later.append(row.id)
                continue
            read += 1
            if found[:2] == row.stat[:2] and md5 is not None and md5 == row.md5:
                equal.append((row.id, row.path, found))
            elif found[:2] == row.stat[:2] and md5 is not None and self._ledger.reports.fact(LOOK_ALIKES) is not None:
                differing.append((row.id, found))
            else:
                # If it cannot be read, its turn in the queue shows that.
                self._batch.append(NewVersion(row.path, found, row.destfolderid, row.folded_name, row.id))
            if self._clock.steady() >= until:
                break
        self._ledger.versions.read_again(equal)
        self._ledger.versions.read_later(later, now + _LATER)
        self._ledger.versions.differ(differing)
        self._flush()
        return read

    def _content(self, path: bytes, settle: float) -> tuple[FileStat | None, str | None]:
        """Return a file that has rested for `settle` seconds, and its MD5; None without one, or if it cannot be read.

        Raise ReadStopped, FileUnreadable and RootMissing.
        """
        found = self._tree.lstat(path)
        if found is None or 0 <= self._clock.now() - max(found.mtime_ns, found.ctime_ns) / 1e9 < settle:
            return None, None
        try:
            with self._tree.open(path) as file:
                return found, digest(file, found, stop=self._context.must_stop, tap=self._context.progress.hashed)
        except (FileChanged, FileUnreadable, NotRegular):
            return found, None

    def _count_takeover(self, seen: Seen, stat: FileStat, folder: str, result: ScanResult) -> bool:
        """Return whether a file that is mapped again, and was sent to another folder, must wait for a person."""
        if not self._ledger.versions.was_sent_elsewhere(seen.path, stat, folder):
            return False
        result.taken_over[seen.mapping] += 1
        # A single look does not know how many such files there are; the next scan counts them.
        return self._is_looking or not self._guard.allows_takeover(seen.mapping, result.taken_over[seen.mapping])

    def _keep_or_remap(self, seen: Seen, row: Known | None, folder: str, result: ScanResult) -> bool:
        """Return True if a file is not to be sent to the other folder that its mapping points to now."""
        if seen.mapping in self._guard.frozen:
            result.unchanged += 1
            return True
        if row is not None and row.state == State.QUEUED:
            if self._planned is None:
                self._ledger.versions.remap(row.id, folder)
            result.unchanged += 1
            return True
        is_there = row is not None and self._ledger.metadata_drift.lies_in(row.id, folder)
        result.unchanged += is_there
        result.moved += not is_there
        if row is not None and (is_there or not self._rules.resend_moved):
            self._remapped.append((row.id, folder))
            return True
        return not self._rules.resend_moved

    def _missing(self, result: ScanResult, row: Known) -> None:
        mapping = self._plan.covers(row.path)
        had_asset = True
        if mapping is None:
            result.unmapped += 1
            count = result.unmapped
        elif result.report.blind_at(row.path):
            # Unseen, not missing: it counts for no brake and takes no place in `missing`.
            return
        elif had_asset := row.state not in _MAYBE_UNSENT or self._ledger.versions.may_have_asset(row, self._folders):
            result.missing_by[mapping] += 1
            result.missing_sample.add(row.path)
            # More than the brake allows: which files they are does not matter.
            count = result.missing_count
        else:
            # The next scan misses those beyond the limit again.
            result.unsent += 1
            count = result.unsent
        if count <= self._rules.most_missing:
            looks = Looks(row.size, row.mtime_ns, row.inode)
            result.missing.append(Missing(row.id, row.path, mapping, looks, had_asset))

    def _put_aside(self, batch: list[NewVersion]) -> list[NewVersion]:
        """Return the versions of a batch that do not look like known files at other paths; put the others aside."""
        new = [version for version in batch if version.replaces is None]
        alike = self._ledger.versions.look_like_sent(new, self._folders) if new and has_room(self.aside) else set()
        for version in new:
            if version.path in alike:
                self.settling.queued(version.path, version.stat)
                self.aside[version.path] = version
        return [version for version in batch if version.path not in alike]

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        remapped, self._remapped = self._remapped, []
        touched, self._touched = self._touched, []
        as_before, self._as_before = self._as_before, []
        if self._planned is not None:
            return
        batch = self._put_aside(batch) if self._guard.is_counting else batch
        self._ledger.metadata_drift.remapped(remapped)
        self._ledger.versions.check_again(touched, self._clock.now())
        self._ledger.versions.read_again(as_before)
        if not batch:
            return
        left_out = set(self._ledger.versions.enqueue(batch, self._clock.now()))
        for version in left_out:
            # The row that was current moved to another path meanwhile (a save that keeps the old file as a backup, two
            # swapped names). Nothing else leads back to this path.
            mapping = self._plan.mapping_of(version.path.rpartition(b"/")[0])
            assert mapping is not None
            self.settling.forget(version.path)
            self.settling.see(version.path, version.stat, self._clock.steady(), self._rules.settles[mapping])
        for version in (version for version in batch if version not in left_out):
            # After the commit: a reader must always find the file in `settling` or in the ledger.
            self.settling.queued(version.path, version.stat)
            if version.block is not None:
                reason, detail = version.block
                log.warning("blocked", path=printable(version.path), reason=reason, detail=detail)
