"""What audits found, as `assetsync audit` shows it: the numbers of each folder, what differs, and a closing line."""

from collections import Counter

from assetsync.amounts import plural
from assetsync.cli.output import moment, table, write, write_json
from assetsync.config import SiteConfig
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Finding
from assetsync.shown import printable, relative_text

_COLUMNS = ("assets", "fine", "different", "missing", "elsewhere", "doubled", "suspected", "unknown", "history")


def mapped_folders(config: SiteConfig) -> list[str]:
    """Name the folders of the service that are audited."""
    return sorted({folder.destfolderid for folder in config.folders})


class Compared:
    """The newest audit of each mapped folder, as the ledger tells of it when this is made.

    `stale` holds when the audits of those folders began that were not begun `since` (seconds since the epoch) or later;
    None for one that was never audited.
    """

    def __init__(self, config: SiteConfig, ledger: Ledger, *, since: float) -> None:
        """Read the numbers of each folder."""
        self.site = config.site
        self._ledger = ledger
        self.folders = {folder: ledger.audits.last(folder) for folder in mapped_folders(config)}
        began = {folder: None if said is None else float(str(said["at"])) for folder, said in self.folders.items()}
        self.stale = {folder: at for folder, at in began.items() if at is None or at < since}

    def as_json(self) -> bool:
        """Print it; gives whether every folder was audited and nothing differs."""
        fine = True
        for folder, said in self.folders.items():
            numbers = {name: None if said is None else said.get(name) for name in (*_COLUMNS, "braked")}
            at = None if said is None else moment(float(str(said["at"])))
            fine = fine and said is not None and not said["braked"]
            write_json({"folder": folder, "audited_at": at, "current": folder not in self.stale, **numbers})
        for finding in self._ledger.reports.findings():
            fine = False
            write_json({"why": finding.why, **_shown(finding)})
        return fine

    def as_table(self) -> bool:
        """Print it; gives whether every folder was audited and nothing differs."""
        rows = []
        unseen = stopped = 0
        brakes = {brake.subject: brake.id for brake in self._ledger.reports.brakes() if brake.kind == "missing"}
        for folder, said in self.folders.items():
            if said is None:
                unseen += 1
                rows.append((folder, *("-" for _ in _COLUMNS), "not yet"))
                continue
            stopped += bool(said["braked"])
            braked = f"  {_braked(brakes.get(folder))}" if said["braked"] else ""
            at = moment(float(str(said["at"])))
            rows.append((folder, *(_number(said.get(name)) for name in _COLUMNS), f"{at}{braked}"))
        for line in table(("folder", *_COLUMNS, "audited at"), rows):
            write(line)
        counts: Counter[str] = Counter()
        for finding in self._ledger.reports.findings():
            if not counts:
                write()
            counts[finding.why] += 1
            path = "-" if finding.path is None else printable(finding.path)
            write(f"{finding.why:<9}  {finding.assetid or '-':<32}  {path}")
            if finding.detail:
                write(f"    {printable(finding.detail)}")
        write()
        said_of = ", ".join(f"{count:,} {why}" for why, count in sorted(counts.items()))
        not_yet = f"not audited yet: {unseen:,} of {plural(len(rows), 'folder')}" if unseen else ""
        braked_in = f"stopped by a brake: {stopped:,} of {plural(len(rows), 'folder')}" if stopped else ""
        write(f"{self.site}: {'; '.join(filter(None, (said_of, braked_in, not_yet))) or 'nothing differs'}")
        return not (counts or stopped or unseen)


def _shown(finding: Finding) -> dict[str, object]:
    path, encoded = (None, None) if finding.path is None else relative_text(finding.path)
    shown: dict[str, object] = {
        "assetid": finding.assetid,
        "path": path,
        "destfolderid": finding.folder,
        "size": finding.size,
        "md5": finding.md5,
        "detail": finding.detail,
    }
    return shown if encoded is None else shown | {"path_base64": encoded}


def _number(count: object) -> str:
    """Show a count; one of an older release may not know it."""
    return f"{count:,}" if isinstance(count, int) else "-"


def _braked(brake: int | None) -> str:
    """Say what became of an audit that missed so much that it concluded nothing."""
    return "BRAKED, released: audited again by the next run" if brake is None else f"BRAKED: assetsync resume {brake}"
