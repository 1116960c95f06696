"""`assetsync audit`: compare the service's folders with the ledger, and print the differences as a table or as JSON.

`sync.readback.auditor` compares a folder; `audit_table` prints the result. Beside a daemon the command requests the
audit and waits up to `PATIENCE` seconds for it.
"""

import math
import random
from contextlib import closing
from typing import NamedTuple

import click

from assetsync.app import build
from assetsync.cli.audit_table import Compared, mapped_folders
from assetsync.cli.entry import NO_SERVICE, NOT_IN_SYNC, OK
from assetsync.cli.operator import PATIENCE, open_service, soon
from assetsync.cli.options import with_config, with_json
from assetsync.cli.output import moment, note, write
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig
from assetsync.errors import LedgerBusy, ServiceError
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.ledger.runs import Pause
from assetsync.log import configure_logging
from assetsync.status.sentences import why_paused
from assetsync.text import plural, printable

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
@with_json("Print one object a line: first the folders, then what was found.")
def command(config: SiteConfig, *, last: bool, as_json: bool) -> int:
    """Compare each mapped folder of the service with the ledger, and list what differs.

    In the table, history counts assets of versions that were replaced or deleted, or that a person had sent again. WHY
    is missing (no longer in the service), different (no longer these bytes), elsewhere (moved in the service), doubled
    (a copy), damaged (a cut upload, proven), suspected (perhaps one), unknown (never sent by this ledger) or unmet
    (missed by an audit that a brake stopped; the next one concludes). Where no path is known (-), the asset's name in
    the service follows. Exits with 1 when there is any, when so much is missing that a brake was pulled, or when a
    folder was not audited yet. Beside a daemon the daemon is asked for an audit. Where that takes more than a few
    seconds, its last one is shown, the last line says why (with --json, `current` is false), and it exits with 1, or
    with 3 while sending is paused because of the service.

    \b
    Examples:
      assetsync audit --config hq.yaml
      assetsync audit --config hq.yaml --last --json | jq -r 'select(.why == "missing") | .path'
    """
    configure_logging(config.log.format, "warning")
    asked = _Asked(_NOT_ASKED_FOR) if last else _audit(config)
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        compared = Compared(config, ledger, since=asked.since)
        fine = compared.as_json() if as_json else compared.as_table()
        if not last and compared.stale:
            pause = ledger.runs.pause_at_hand()
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
    of = f"what is shown is of {moment(times[0])}" if times else "nothing is shown, as there was no audit before"
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
            number = beside.ask("audit", {}, asked)
            if not soon(lambda: _is_audited(config, beside, asked), clock):
                note(
                    f"another process holds the ledger: it will audit (request {number}), and `audit --last` shows"
                    " what it found when it is over"
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


def _is_audited(config: SiteConfig, ledger: Ledger, since: float) -> bool:
    """Return whether each folder has an audit that began at `since` (seconds since the epoch) or later."""
    return not Compared(config, ledger, since=since).stale
