"""Scan the whole tree once: check that it is the right tree, scan it, check the brakes and record the result.

When a scan is due is left to `reconcile` and the daemon, and what its findings mean to `sync.intake.intake`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from assetsync.core.mapping import Plan
from assetsync.core.metadata import SUFFIX
from assetsync.core.names import printable
from assetsync.errors import OutOfResources, RootElsewhere, RootMissing
from assetsync.ledger.file.facts import LOOK_ALIKES
from assetsync.ledger.runs import LastScan
from assetsync.model import Seen
from assetsync.sync.awaited import AwaitedPaths
from assetsync.sync.brakes import Brakes
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import Intake, Planned, ScanResult
from assetsync.sync.readback.drift import Drift
from assetsync.sync.root_identity import RootIdentity
from assetsync.sync.runtime_state import RuntimeState
from assetsync.tree.folder_digest import KnownFolders
from assetsync.tree.scan import scan
from assetsync.tree.scan_report import MOVED_AWAY, ScanReport

log = structlog.get_logger(__name__)

_MOST_ORPHANS = 1000

_MOST_BLIND = 100
"""The number of unreadable paths that are recorded by name, so that a new one among them is reported."""


@dataclass(frozen=True, slots=True)
class Rescan:
    """Scans one site; used by one thread at a time.

    `intake` records scans, `single_looks` looks at single files. `awaited` holds what the last scan missed.
    `spill_folder` holds for a while what is too large for memory: the system's folder for temporary files may be in
    memory, or in the tree.
    """

    context: Context
    plan: Plan
    intake: Intake
    single_looks: Intake
    root_identity: RootIdentity
    brakes: Brakes
    runtime_state: RuntimeState
    drift: Drift
    awaited: AwaitedPaths
    spill_folder: Path

    def dry_run(self, planned: Callable[[Planned], None] = lambda _planned: None) -> ScanResult:
        """Scan the whole tree once and record nothing. Raise RootMissing and RootElsewhere.

        `planned` is called with each file that a run would queue.
        """
        self.root_identity.expect()
        report = ScanReport()
        result = self.intake.scan(self._look(report), report, planned)
        self._match_renames(result)
        result.vanished = len(result.not_renamed()) if report.finished else 0
        return result

    def run(self, seen: Callable[[int], None] = lambda _files: None) -> ScanResult:
        """Scan the whole tree once and record the result; a brake may leave missing files undecided.

        `seen` is called, folder by folder, with the number of files so far. Raise RootMissing, and RootElsewhere after
        pulling a brake for it.
        """
        report, clock = ScanReport(), self.context.clock
        try:
            self.root_identity.check()
        except (RootElsewhere, OutOfResources):
            self.context.ledger.runs.not_scanned()
            raise
        self.brakes.check_mappings()
        self.single_looks.renames.scan_begins()
        self.awaited.scan_begins()
        began = clock.steady()
        self.brakes.is_counting = True
        try:
            result = self._count(seen, report)
        finally:
            self.brakes.is_counting = False
        if report.finished:
            self.intake.queue_aside()
        self.drift.look_again()
        self._scanned(report, clock.steady() - began)
        return result

    def _count(self, seen: Callable[[int], None], report: ScanReport) -> ScanResult:
        """Scan the tree, and pull the brakes, or record the missing files as gone."""
        renames = self.single_looks.renames
        self.runtime_state.begin_scan()
        try:
            result = self.intake.scan(self._look(report, seen), report)
        except (RootMissing, OutOfResources):
            self.context.ledger.runs.not_scanned()
            raise
        finally:
            self.runtime_state.end_scan(finished=report.finished)
        self._match_renames(result)
        self.brakes.check_found(result)
        if report.finished:
            self._note_look_alikes(result)
            is_decidable = self.brakes.check_vanished(result)
            self.awaited.note(result, undecided=not is_decidable)
            if not is_decidable:
                # The next scan misses the same files, and finds no new paths for them.
                renames.note(result.arrived)
                self.root_identity.found("the root is there again, and another brake reports what is missing in it")
            else:
                self._note_vanished(result, self.intake.decide_missing(result))
                renames.decided(result.matched, result.arrived)
                if report.complete and not result.missing_count:
                    self.root_identity.found("the root and its files are back")
        return result

    def _match_renames(self, result: ScanResult) -> None:
        """Find the missing files that have a new path."""
        missing = [one for one in result.missing if one.mapping is not None]
        all_queued = not (result.unsettled or self.intake.aside)
        result.matched = self.single_looks.renames.match(missing, result.arrived, all_queued=all_queued)

    def _note_look_alikes(self, result: ScanResult) -> None:
        """Record whether more files are to be read again than may vanish, or that none is any more."""
        ledger, held = self.context.ledger, self.context.ledger.reports.fact(LOOK_ALIKES)
        alike = result.look_alikes.total()
        if held is None and alike and self.brakes.would_exceed(result):
            fix = "none of them is sent before all are read"
            log.warning("many files were replaced by others that look alike", files=alike, next=fix)
            ledger.set_fact(LOOK_ALIKES, "1")
        elif held is not None and not alike:
            ledger.set_fact(LOOK_ALIKES, None)

    def read_again(self) -> tuple[int, bool]:
        """Read some files that only look changed; return their number, and whether a scan is to decide about them.

        Nothing is read while the root holds another tree.
        """
        versions = self.context.ledger.versions
        if self.root_identity.elsewhere or not versions.has_unread():
            return 0, False
        read = self.intake.read_again()
        return read, self.context.ledger.reports.fact(LOOK_ALIKES) is not None and not versions.has_unread()

    def _note_vanished(self, result: ScanResult, gone: list[bytes]) -> None:
        """Report the files that are gone, so that no deletion passes in silence."""
        result.vanished = len(gone)
        if gone:
            runs, known = self.context.ledger.runs, self.context.ledger.versions.size() + len(gone)
            vanished = runs.note_vanished(self.context.clock.now(), gone, known)
            tell = log.warning if vanished.is_large else log.info
            tell("files vanished", count=len(gone), known=known, folders=vanished.folders, first=vanished.names[0])

    def missing_folders(self, report: ScanReport) -> tuple[str, ...]:
        """Return the mapped folders that a scan did not find."""
        return tuple(printable(self.plan.mappings.all[position].path) for position in report.missing_mappings)

    def _look(
        self, report: ScanReport, seen: Callable[[int], None] = lambda _files: None
    ) -> Callable[[KnownFolders | None], Iterator[Seen]]:
        spill_folder = str(self.spill_folder) if self.spill_folder.is_dir() else None

        def stop() -> bool:
            seen(report.files)
            return self.context.must_stop()

        def look(known_folders: KnownFolders | None) -> Iterator[Seen]:
            return scan(
                self.context.tree, self.plan, report, known_folders=known_folders, stop=stop, spill_folder=spill_folder
            )

        return look

    def _scanned(self, report: ScanReport, seconds: float) -> None:
        runs, missing = self.context.ledger.runs, self.missing_folders(report)
        before = runs.last_scan()
        blind = [f"{printable(path) or '.'} ({why})" for path, why in report.unreadable if why != MOVED_AWAY]
        moved = len(report.unreadable) - len(blind)
        unread = report.unreadable_count - moved
        if before is not None and not report.finished:
            # Keep the earlier findings: the scan may not have reached their paths.
            missing, blind = before.missing, list(dict.fromkeys([*before.blind, *blind]))
            unread = max(before.unread, len(blind))
        stray, first = self._orphan_sidecars(before)
        if missing and (before is None or before.missing != missing):
            log.warning(
                "mapped folders are not there",
                folders=missing,
                fix="mount their disk, correct `path`, or create them: the daemon looks every minute",
            )
        at = self.context.clock.now()
        blind = blind[:_MOST_BLIND]
        new = [each for each in blind if before is None or each not in before.blind]
        if new:
            fix = "give assetsync's user read permission: the daemon tries every minute; `assetsync check` names all"
            log.warning("paths cannot be read", first=new[0], new=len(new), count=unread, fix=fix)
        if report.finished and not missing:
            self.context.ledger.versions.xmp_recorded()
        last = LastScan(
            at, report.complete, unread + moved, missing, stray, first, "".join(blind[:1]), tuple(blind[1:]), moved
        )
        runs.scanned(last, seconds)
        self.context.meter.ran("rescan", seconds)

    def _orphan_sidecars(self, before: LastScan | None) -> tuple[int, str]:
        """Return the number of sidecars without a matching file, and the first of them."""
        # The ledger does not know a file that has not settled, so the tree is checked as well.
        absent = self.context.tree.is_absent
        unmatched = self.context.ledger.versions.orphan_sidecars(_MOST_ORPHANS)
        orphan_sidecars = [path for path in unmatched if absent(path.removesuffix(SUFFIX))]
        first = printable(orphan_sidecars[0]) if orphan_sidecars else ""
        if orphan_sidecars and (before is None or before.first_stray != first):
            fix = "`assetsync check` lists them; rename each after its file"
            log.warning("sidecars without a matching file", sidecars=len(orphan_sidecars), first=first, fix=fix)
        return len(orphan_sidecars), first
