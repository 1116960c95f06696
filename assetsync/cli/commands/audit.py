"""`assetsync audit`: compare the service's folders with the ledger, and print the differences as a table or as JSON.

`sync.readback.auditor` compares a folder. Beside a daemon the command requests the audit and waits up to `PATIENCE`
seconds for it.
"""

import math
import random
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import NamedTuple

import click

from assetsync.app import build
from assetsync.cli.commands.files import named
from assetsync.cli.entry import NO_SERVICE, NOT_IN_SYNC, OK
from assetsync.cli.operator import PATIENCE, open_service, wait_until
from assetsync.cli.options import with_config, with_json, with_limit
from assetsync.cli.output import coloured, first_of, note, table, write, write_json, write_parts
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig
from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.errors import LedgerBusy, ServiceError
from assetsync.ledger.audits import RunningAudit, Unmet
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.ledger.reports import Finding
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import Pause
from assetsync.log import configure_logging
from assetsync.status.sentences import why_paused
from assetsync.text import moment, plural, printable, runnable

_DIFFERENCES = ("different", "missing", NEVER_PROCESSED, "elsewhere", "doubled", "suspected", "unknown")
_COLUMNS = ("assets", "fine", *_DIFFERENCES, "history")
_UNMET = "unmet"
_SEVERE = ("different", "missing", NEVER_PROCESSED, "damaged")
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
        # When each audit began, in seconds since the epoch; None if there was none yet.
        self._began = {f: None if result is None else float(str(result["at"])) for f, result in self.folders.items()}
        self._stopped = [folder for folder, result in self.folders.items() if result is not None and result["braked"]]
        self._brakes = {brake.subject: brake.id for brake in ledger.reports.brakes() if brake.kind == "missing"}
        self.stale = {folder: at for folder, at in self._began.items() if at is None or at < since}

    def as_json(self) -> bool:
        """Print JSON lines; return whether every folder was audited and nothing differs."""
        for folder, result in self.folders.items():
            numbers = {name: (result or {}).get(name) for name in (*_COLUMNS, "braked")}
            at = {"audited_at": moment(self._began[folder]), "current": folder not in self.stale}
            left = None if result is None else sum(1 for _ in self._unmet(folder))
            write_json({"destfolderid": folder, "folder": folder, **at, **numbers, "not_concluded": left})
        counts: Counter[str] = Counter()
        for finding in self._counted(counts):
            write_json(finding.as_object() | {"why": finding.why, "name": finding.name})
        return self._is_fine(counts)

    def as_text(self, limit: int | None) -> bool:
        """Print the folders, the first `limit` differences (0: all, None: none), and the sums; return as `as_json`."""
        if sys.stdout.isatty():
            self._folders()
        else:
            self._table()
        counts: Counter[str] = Counter()
        listed = self._counted(counts)
        for finding in first_of(listed, limit or 0) if limit is not None else ():
            if counts.total() == 1:
                write()
            why = coloured(f"{finding.why:<9}", _colour(finding.why))
            write_parts(f"{why}  {finding.assetid or '-':<32}", named(finding.path, finding.name))
            if finding.detail and finding.why != _UNMET:
                write(f"    {printable(finding.detail)}")
        # Count what is not listed, too.
        deque(listed, maxlen=0)
        if counts["missing"] and limit is not None:
            write("`assetsync retry --reason missing` looks for what is missing; with --send-again it is uploaded")
        if counts[NEVER_PROCESSED] and limit is not None:
            write(f"`assetsync retry --send-again --reason {NEVER_PROCESSED}` uploads what was never processed")
        write()
        unmet = counts.pop(_UNMET, 0)
        said_of = [", ".join(coloured(f"{count:,} {why}", _colour(why)) for why, count in sorted(counts.items()))]
        said_of += [*self._since(counts), *self._left(unmet)]
        write(f"{self.site}: {'; '.join(filter(None, said_of)) or coloured('nothing differs', 'green')}")
        return self._is_fine(counts)

    def _table(self) -> None:
        """Print a line for each folder, with all counts in columns."""
        rows = []
        for folder, result in self.folders.items():
            if result is None:
                rows.append((folder, *("-" for _ in _COLUMNS), "not yet"))
                continue
            braked = self._braked(folder)
            counted = (_count(result, name) for name in _COLUMNS)
            rows.append((folder, *counted, f"{moment(self._began[folder])}{braked and f'  {braked}'}"))
        for line in table(("folder", *_COLUMNS, "audited at"), rows):
            write(line)

    def _folders(self) -> None:
        """Print each folder with the counts that are not 0, for a terminal: all columns need 120 characters."""
        for folder, result in self.folders.items():
            if result is None:
                write(f"folder {folder}: not audited yet")
                continue
            braked = self._braked(folder)
            at = f"folder {folder}, audited {moment(self._began[folder])}"
            write_parts(at, *([coloured(runnable(braked), "red")] if braked else []))
            counted = [f"{_count(result, name)} {name}" for name in _COLUMNS[2:] if result.get(name)]
            first = f"    {_count(result, 'assets')} assets, {_count(result, 'fine')} fine"
            write_parts(first, *counted, between=", ")

    def _braked(self, folder: str) -> str:
        """Return the next step if too many assets were missing, so that a brake stopped the audit; else ""."""
        if folder not in self._stopped:
            return ""
        brake = self._brakes.get(folder)
        if brake is None:
            return "BRAKED, released: audited again by the next run"
        return f"BRAKED: assetsync resume {brake}"

    def _counted(self, counts: Counter[str]) -> Iterator[Finding]:
        """Yield the differences, then the assets missed by audits that a brake stopped; count each by its word."""
        unmet = (row for folder in self.folders for row in self._unmet(folder))
        missed = (Finding.of(row, _UNMET, "not met, and not concluded") for row in unmet)
        for finding in chain(self._ledger.reports.findings(), missed):
            counts[finding.why] += 1
            yield finding

    def _is_fine(self, counts: Counter[str]) -> bool:
        is_audited = not self._stopped and None not in self._began.values()
        return is_audited and not counts.total() and not self._queued_again(counts)

    def _unmet(self, folder: str) -> Iterator[FileRow]:
        began = self._began[folder]
        if began is None or folder not in self._stopped:
            return
        clock = SystemClock()
        audit = RunningAudit(clock, began, clock.steady())
        for where in (Unmet(folder), Unmet(folder, away_from=[*self.folders])):
            after = 0
            while rows := self._ledger.audits.unmet(where, audit, _PAGE, after=after):
                yield from rows
                after = rows[-1].id

    def _more_than(self, counts: Counter[str], why: str) -> int:
        """Return how many more differences of this kind the audits counted than are listed now."""
        return (
            sum(int(str(result.get(why) or 0)) for result in self.folders.values() if result is not None) - counts[why]
        )

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
        if self._stopped:
            waits = any(folder in self._brakes for folder in self._stopped)
            then = "a brake waits" if waits else "the next audit decides"
            yield (
                f"{unmet:,} missing, not concluded: {then}"
                if unmet
                else f"stopped by a brake: {len(self._stopped):,} of {folders}"
            )
        if unseen := [*self._began.values()].count(None):
            yield f"not audited yet: {unseen:,} of {folders}"


def _count(result: Mapping[str, object], name: str) -> str:
    # Audits by an older release may lack a count.
    count = result.get(name)
    return f"{count:,}" if isinstance(count, int) else "-"


def _colour(why: str) -> str:
    return "red" if why in _SEVERE else "yellow"


_BY_THIS_PROCESS = -math.inf
_NOT_ASKED_FOR = math.inf


class _Asked(NamedTuple):
    """The time from which on an audit counts as current (seconds since the epoch), and the number of a request.

    The request is left for the ledger's holder; `request` is None if this process audits.
    """

    since: float
    request: int | None = None


@click.command("audit")
@with_config
@click.option("--last", is_flag=True, help="Show the last audit's findings without a request to the service.")
@click.option("--summary", is_flag=True, help="Show the folders and the sums, and not the single differences.")
@with_limit
@with_json("Print one object a line: first the folders, then what was found.")
def command(config: SiteConfig, *, last: bool, summary: bool, limit: int, as_json: bool) -> int:
    """Compare each mapped folder of the service with the ledger, and list the differences.

    The reason of a difference is missing (no longer in the service), different (other bytes), never_processed (accepted
    and left unprocessed), elsewhere (moved in the service), doubled (a copy), damaged (proven to be a cut upload),
    suspected (perhaps a cut upload), unknown (never sent by this ledger) or unmet (missed by an audit that a brake
    stopped; the next audit decides). If no path is known (-), the asset's name in the service follows. In the table,
    history counts the assets of versions that were replaced or deleted, or that a person sent again.

    The command exits with 1 if anything differs, if a brake was pulled because too many assets are missing, or if a
    folder was not audited yet. Beside a daemon, the daemon makes the audit. If it takes longer than a few seconds, the
    command shows the last audit and why it is not current (with --json, `current` is false), and exits with 1, or with
    3 while uploads are paused because of the service.

    \b
    Examples:
      assetsync audit --config hq.yaml
      assetsync audit --config hq.yaml --last --summary
      assetsync audit --config hq.yaml --last --json | jq -r 'select(.reason == "missing") | .path'
    """
    configure_logging(config.log.format, "warning")
    asked = _Asked(_NOT_ASKED_FOR) if last else _audit(config)
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        compared = Compared(config, ledger, since=asked.since)
        fine = compared.as_json() if as_json else compared.as_text(None if summary else limit)
        if not last and compared.stale:
            pause = ledger.runs.at_hand(Pause)
            if not as_json:
                write(_not_now(compared, asked, pause))
            # The audits that are shown are old: differences may have been fixed, or may have appeared, since then.
            return NOT_IN_SYNC if pause is None or pause.reason == "elsewhere" else NO_SERVICE
    return OK if fine else NOT_IN_SYNC


def _not_now(compared: Compared, asked: _Asked, pause: Pause | None) -> str:
    """Return the line that reports that the audit was not made in time, why, and how old the shown audits are."""
    why = f"the process that holds the ledger has not done it within {PATIENCE:g} s (request {asked.request})"
    if pause is not None:
        why = why_paused(pause)
    folders, stale = len(compared.folders), len(compared.stale)
    some = f"{stale:,} of {plural(folders, 'folder')}, " if stale < folders else ""
    times = sorted(at for at in compared.stale.values() if at is not None)
    of = f"the audits shown are from {moment(times[0])}" if times else "nothing is shown, as there was no audit before"
    later = " and later" if times and times[-1] > times[0] else ""
    return f"{compared.site}: not audited now: {some}{why}; {of}{later}"


def _audit(config: SiteConfig) -> _Asked:
    """Audit each folder, or request it from the ledger's holder; raise ServiceError if an audit fails here."""
    clock = SystemClock()
    try:
        ledger = open_ledger(config.ledger, site=config.site, create=False)
    except LedgerBusy:
        with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
            asked = clock.now()
            number = beside.add_request("audit", {}, asked)
            if not wait_until(lambda: not Compared(config, beside, since=asked).stale, clock):
                note(
                    f"another process holds the ledger: it, or the next `run`, audits (request {number}), and"
                    " `audit --last` shows the result afterwards"
                )
            return _Asked(asked, number)
    with closing(ledger), open_service(config) as service:
        site = build(config, ledger, service, clock, random.SystemRandom())
        failed: ServiceError | None = None
        for folder in mapped_folders(config):
            try:
                site.auditor.audit(folder)
            except ServiceError as error:
                if not site.health_check.is_answered({folder}):
                    raise
                note(f"folder {printable(folder)} could not be audited; `audit --last` shows the others: {error}")
                failed = error
        while site.drift.step():
            # Record drift for the assets that the audits found moved, until no file is left to read.
            pass
        if failed is not None:
            raise failed
    return _Asked(_BY_THIS_PROCESS)
