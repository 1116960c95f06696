"""The results of audits as `assetsync audit` prints them: counts for each folder, the differences, and a summary line.

Comparing the folders is left to `sync.readback.auditor`; the results are read from the ledger.
"""

from collections import Counter
from collections.abc import Iterator

from assetsync.cli.files import named
from assetsync.cli.output import moment, table, write, write_json
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig
from assetsync.ledger.audits import RunningAudit, Unmet
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Finding
from assetsync.ledger.rows import FileRow
from assetsync.text import plural, printable, relative_text

_COLUMNS = ("assets", "fine", "different", "missing", "elsewhere", "doubled", "suspected", "unknown", "history")
_DIFFERENCES = ("different", "missing", "elsewhere", "doubled", "suspected", "unknown")
_UNMET = "unmet"
_PAGE = 500


def mapped_folders(config: SiteConfig) -> list[str]:
    """Return the folders of the service that are audited, sorted."""
    return sorted({folder.destfolderid for folder in config.folders})


class Compared:
    """The newest audit of each mapped folder, read from the ledger when the object is created.

    `stale` maps each folder whose audit began before `since` (seconds since the epoch) to that start, and each folder
    that was never audited to None.
    """

    def __init__(self, config: SiteConfig, ledger: Ledger, *, since: float) -> None:
        """Read the counts of each folder."""
        self.site = config.site
        self._ledger = ledger
        self.folders = {folder: ledger.audits.last(folder) for folder in mapped_folders(config)}
        began = {folder: None if said is None else float(str(said["at"])) for folder, said in self.folders.items()}
        self._brakes = {brake.subject: brake.id for brake in ledger.reports.brakes() if brake.kind == "missing"}
        self.stale = {folder: at for folder, at in began.items() if at is None or at < since}

    def as_json(self) -> bool:
        """Print JSON lines; return whether every folder was audited and nothing differs."""
        for folder, said in self.folders.items():
            numbers = {name: None if said is None else said.get(name) for name in (*_COLUMNS, "braked")}
            at = None if said is None else moment(float(str(said["at"])))
            left = {"not_concluded": None if said is None else sum(1 for _ in self._unmet(folder))}
            write_json({"folder": folder, "audited_at": at, "current": folder not in self.stale, **numbers, **left})
        counts: Counter[str] = Counter()
        for finding in self._listed():
            counts[finding.why] += 1
            write_json({"why": finding.why, **_shown(finding)})
        return self._is_fine(counts)

    def as_table(self) -> bool:
        """Print a table; return whether every folder was audited and nothing differs."""
        rows = []
        for folder, said in self.folders.items():
            if said is None:
                rows.append((folder, *("-" for _ in _COLUMNS), "not yet"))
                continue
            braked = f"  {_braked(self._brakes.get(folder))}" if said["braked"] else ""
            at = moment(float(str(said["at"])))
            rows.append((folder, *(_number(said.get(name)) for name in _COLUMNS), f"{at}{braked}"))
        for line in table(("folder", *_COLUMNS, "audited at"), rows):
            write(line)
        counts: Counter[str] = Counter()
        for finding in self._listed():
            if not counts:
                write()
            counts[finding.why] += 1
            write(f"{finding.why:<9}  {finding.assetid or '-':<32}  {named(finding.path, finding.name)}")
            if finding.detail and finding.why != _UNMET:
                write(f"    {printable(finding.detail)}")
        write()
        unmet = counts.pop(_UNMET, 0)
        said_of = [", ".join(f"{count:,} {why}" for why, count in sorted(counts.items()))]
        said_of += [*self._since(counts), *self._left(unmet)]
        write(f"{self.site}: {'; '.join(filter(None, said_of)) or 'nothing differs'}")
        return self._is_fine(counts)

    def _is_fine(self, counts: Counter[str]) -> bool:
        audited = all(said is not None and not said["braked"] for said in self.folders.values())
        return audited and not counts.total() and not self._queued_again(counts)

    def _listed(self) -> Iterator[Finding]:
        """Yield the differences, then the assets missed by audits that a brake stopped, without a conclusion."""
        yield from self._ledger.reports.findings()
        for folder in self.folders:
            for row in self._unmet(folder):
                at = row.asset_folder or row.destfolderid
                yield Finding(_UNMET, row.assetid, row.path, at, row.size, row.md5, "not met, and not concluded")

    def _unmet(self, folder: str) -> Iterator[FileRow]:
        said = self.folders[folder]
        if said is None or not said["braked"]:
            return
        clock = SystemClock()
        audit = RunningAudit(clock, float(str(said["at"])), clock.steady())
        for where in (Unmet(folder), Unmet(folder, away_from=[*self.folders])):
            after = 0
            while rows := self._ledger.audits.unmet(where, audit, _PAGE, after=after):
                yield from rows
                after = rows[-1].id

    def _more_than(self, counts: Counter[str], why: str) -> int:
        """Return how many more differences of this kind the audits counted than are listed now."""
        return sum(int(str(said.get(why) or 0)) for said in self.folders.values() if said is not None) - counts[why]

    def _queued_again(self, counts: Counter[str]) -> int:
        """Count the files whose assets the audits missed and that `policy.on_remote_missing` has queued again."""
        more = self._more_than(counts, "missing")
        return min(more, self._ledger.reports.replenished()) if more > 0 else 0

    def _since(self, counts: Counter[str]) -> Iterator[str]:
        """Yield notes about differences that the table counts and the list does not hold."""
        for why in _DIFFERENCES:
            more = self._more_than(counts, why)
            if more <= 0:
                continue
            if why == "missing" and (again := self._queued_again(counts)):
                yield f"{again:,} missing, queued again"
            elif why == "elsewhere" and (agreed := min(more, self._ledger.reports.settled_elsewhere())):
                yield f"{agreed:,} elsewhere (as agreed)"
            elif not counts[why] and not (why == "suspected" and counts["damaged"]):
                # If some are listed, the others may be the same ones: an audit counts an asset both in the folder that
                # it was sent to and in the folder that holds it.
                yield f"{more:,} {why} when audited, none now"

    def _left(self, unmet: int) -> Iterator[str]:
        """Yield notes about folders without a conclusion or without an audit."""
        folders = plural(len(self.folders), "folder")
        stopped = [folder for folder, said in self.folders.items() if said is not None and said["braked"]]
        if stopped:
            waits = any(folder in self._brakes for folder in stopped)
            then = "a brake waits" if waits else "the next audit decides"
            yield (
                f"{unmet:,} missing, not concluded: {then}"
                if unmet
                else f"stopped by a brake: {len(stopped):,} of {folders}"
            )
        if unseen := sum(said is None for said in self.folders.values()):
            yield f"not audited yet: {unseen:,} of {folders}"


def _shown(finding: Finding) -> dict[str, object]:
    path, encoded = (None, None) if finding.path is None else relative_text(finding.path)
    shown: dict[str, object] = {
        "assetid": finding.assetid,
        "path": path,
        "destfolderid": finding.folder,
        "size": finding.size,
        "md5": finding.md5,
        "detail": finding.detail,
        "name": finding.name,
    }
    return shown if encoded is None else shown | {"path_base64": encoded}


def _number(count: object) -> str:
    """Format a count; audits by an older release may lack it."""
    return f"{count:,}" if isinstance(count, int) else "-"


def _braked(brake: int | None) -> str:
    """Return the note for an audit that a brake stopped because too many assets were missing."""
    return "BRAKED, released: audited again by the next run" if brake is None else f"BRAKED: assetsync resume {brake}"
