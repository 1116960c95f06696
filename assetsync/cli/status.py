"""`assetsync status`: how the site stands, from the ledger alone."""

import time
from contextlib import closing

import click

from assetsync.cli.given import with_config, with_json
from assetsync.cli.output import amount, files, moment, write, write_json
from assetsync.cli.standing import LastScan, in_doubt, last_scan, leftovers, next_step, pending
from assetsync.config import SiteConfig
from assetsync.ledger.ledger import Ledger, read_ledger
from assetsync.ledger.reports import Counts
from assetsync.model import State
from assetsync.shown import relative_text

_NAMED = 20


@click.command("status")
@with_config
@with_json("Print one object.")
def command(config: SiteConfig, *, as_json: bool) -> None:
    """Tell how the site stands, from the ledger alone: nothing is asked of the service, and the tree is not looked at.

    Works beside a daemon.

    \b
    Examples:
      assetsync status --config /etc/assetsync/hq.yaml
      assetsync status --config hq.yaml --json | jq .in_sync
    """
    with closing(read_ledger(config.ledger)) as ledger:
        now = time.time()
        counts = ledger.reports.counts(now)
        scan = last_scan(ledger)
        if as_json:
            write_json(_as_object(config.site, ledger, counts, scan, now))
            return
        write(f"{config.site}: {_verdict(ledger, counts, scan)}")
        shown = ", ".join(f"{counts.of(state):,} {state.replace('_', ' ')}" for state in State if counts.of(state))
        write(f"files: {shown or 'none known'}; {amount(counts.bytes_verified)} verified")
        if scan is None:
            write("last scan: none that the ledger knows of")
        else:
            blind = f", {scan.unreadable:,} unreadable: assetsync check names them" if scan.unreadable else ""
            write(f"last scan: {moment(scan.at)}{', complete' if scan.complete else ', not complete'}{blind}")
        for line in leftovers(ledger, now, counts):
            write(line)


def _in_sync(ledger: Ledger, counts: Counts, scan: LastScan | None) -> bool:
    left = pending(counts) or in_doubt(counts) or counts.of(State.BLOCKED) or ledger.reports.brakes()
    return scan is not None and scan.complete and not left


def _verdict(ledger: Ledger, counts: Counts, scan: LastScan | None) -> str:
    if _in_sync(ledger, counts, scan):
        return f"in sync: {files(counts.of(State.VERIFIED))} verified"
    brakes = len(ledger.reports.brakes())
    needs = [f"{counts.of(State.BLOCKED):,} blocked"] * bool(counts.of(State.BLOCKED))
    needs += [f"{brakes} brake{'s' * (brakes != 1)}"] * bool(brakes)
    going = [f"{pending(counts):,} pending"] * bool(pending(counts))
    going += [f"{in_doubt(counts):,} in doubt"] * bool(in_doubt(counts))
    if needs:
        return f"needs you: {', '.join(needs)}" + (f" (beside {', '.join(going)})" if going else "")
    if going:
        return f"on its way: {', '.join(going)}"
    return "the tree was not scanned completely yet"


def _as_object(site: str, ledger: Ledger, counts: Counts, scan: LastScan | None, now: float) -> dict[str, object]:
    return {
        "site": site,
        "in_sync": _in_sync(ledger, counts, scan),
        "verified": counts.of(State.VERIFIED),
        "pending": pending(counts),
        "in_doubt": in_doubt(counts),
        "blocked": counts.of(State.BLOCKED),
        "bytes_verified": counts.bytes_verified,
        "states": {str(state): counts.of(state) for state in State if counts.of(state)},
        "brakes": [
            {
                "id": brake.id,
                "kind": brake.kind,
                "subject": brake.subject,
                "detail": brake.detail,
                "pulled_at": moment(brake.pulled_at),
                "help": f"assetsync resume {brake.id}",
            }
            for brake in ledger.reports.brakes()
        ],
        "holds": [
            {"destfolderid": folder, "detail": detail} for folder, detail in sorted(ledger.reports.holds(now).items())
        ],
        "blocked_files": [
            {
                "path": relative_text(row.path)[0],
                "reason": row.reason,
                "detail": row.detail,
                "help": next_step(row),
            }
            for row in ledger.reports.blocked(_NAMED)
        ],
        "index_stopped": ledger.reports.fact("index_stopped"),
        "last_scan": None
        if scan is None
        else {"at": moment(scan.at), "complete": scan.complete, "unreadable": scan.unreadable},
    }
