"""`assetsync audit`: the service's folders compared with the ledger, and what differs, as a table or as JSON.

How a folder is compared is `flow.audit`'s. Beside a daemon it is asked for an audit, which is waited for a moment.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import click

from assetsync.amounts import plural
from assetsync.cli.acting import open_service, soon
from assetsync.cli.entry import NOT_IN_SYNC, OK
from assetsync.cli.given import with_config, with_json
from assetsync.cli.output import moment, note, table, write, write_json
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig
from assetsync.errors import LedgerBusy, ServiceError
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.ledger.reports import Finding
from assetsync.log import configure_logging
from assetsync.shown import printable, relative_text
from assetsync.site import build

_COLUMNS = ("assets", "fine", "different", "missing", "elsewhere", "doubled", "suspected", "unknown", "history")


@click.command("audit")
@with_config
@click.option("--last", is_flag=True, help="Show what the last audit found, and ask the service nothing.")
@with_json("Print one object a line: first the folders, then what was found.")
def command(config: SiteConfig, *, last: bool, as_json: bool) -> int:
    """Compare each mapped folder of the service with the ledger, and list what differs.

    In the table, history counts assets of versions that were replaced or deleted, or that a person had sent again.
    WHY is missing (no longer in the service), different (no longer these bytes), elsewhere (moved in the service),
    doubled (a copy), damaged (a cut upload, proven), suspected (perhaps one) or unknown (never sent by this ledger).
    Exits with 1 when there is any, when so much is missing that a brake was pulled, or when a folder was not audited
    yet. Beside a daemon the daemon is asked for an audit. Where that takes more than a few seconds, what is shown, and
    the exit code, are of its last one, and a line says so.

    \b
    Examples:
      assetsync audit --config hq.yaml
      assetsync audit --config hq.yaml --last --json | jq -r 'select(.why == "missing") | .path'
    """
    configure_logging(config.log.format, "warning")
    if not last:
        _audit(config)
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        fine = _as_json(config, ledger) if as_json else _as_table(config, ledger)
    return OK if fine else NOT_IN_SYNC


def _audit(config: SiteConfig) -> None:
    clock = SystemClock()
    try:
        ledger = open_ledger(config.ledger, site=config.site, create=False)
    except LedgerBusy:
        with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
            asked = clock.now()
            number = beside.ask("audit", {}, asked)
            if soon(lambda: _is_audited(config, beside, asked), clock):
                return
        note(
            f"another process holds the ledger: it will audit (request {number}), and `audit --last` shows what it"
            " found when it is over. What stands here, and the exit code, are of the audits before, with their times"
        )
        return
    with closing(ledger), open_service(config) as service:
        site = build(config, ledger, service, clock, random.SystemRandom())
        failed: ServiceError | None = None
        for folder in _folders(config):
            try:
                site.auditor.audit(folder)
            except ServiceError as error:
                if not site.prober.is_answered({folder}):
                    raise
                note(f"folder {printable(folder)} could not be audited, `audit --last` shows the others: {error}")
                failed = error
        while site.drift.step():
            # What was moved in the service is told from now on.
            pass
        if failed is not None:
            raise failed


def _is_audited(config: SiteConfig, ledger: Ledger, since: float) -> bool:
    """Whether each folder has been audited, begun at that time (seconds since 1970) or later."""
    ended = [ledger.audits.last_at(folder) for folder in _folders(config)]
    return all(at is not None and at >= since for at in ended)


def _folders(config: SiteConfig) -> list[str]:
    return sorted({folder.destfolderid for folder in config.folders})


def _audited(config: SiteConfig, ledger: Ledger) -> Iterator[tuple[str, dict[str, object] | None]]:
    for folder in _folders(config):
        yield folder, ledger.audits.last(folder)


def _as_json(config: SiteConfig, ledger: Ledger) -> bool:
    """Print it; gives whether every folder was audited and nothing differs."""
    fine = True
    for folder, said in _audited(config, ledger):
        numbers = {name: None if said is None else said.get(name) for name in (*_COLUMNS, "braked")}
        at = None if said is None else moment(float(str(said["at"])))
        fine = fine and said is not None and not said["braked"]
        write_json({"folder": folder, "audited_at": at, **numbers})
    for finding in ledger.reports.findings():
        fine = False
        write_json({"why": finding.why, **_shown(finding)})
    return fine


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


def _as_table(config: SiteConfig, ledger: Ledger) -> bool:
    """Print it; gives whether every folder was audited and nothing differs."""
    rows = []
    unseen = stopped = 0
    brakes = {brake.subject: brake.id for brake in ledger.reports.brakes() if brake.kind == "missing"}
    for folder, said in _audited(config, ledger):
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
    for finding in ledger.reports.findings():
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
    write(f"{config.site}: {'; '.join(filter(None, (said_of, braked_in, not_yet))) or 'nothing differs'}")
    return not (counts or stopped or unseen)
