"""How a site stands, in sentences: what is left, why, and the command that helps. Reads the ledger, decides nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from assetsync.cli.output import moment
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Counts
from assetsync.ledger.rows import FileRow
from assetsync.model import State
from assetsync.shown import printable

_NAMED = 20
# What helps with a blocked file, by its reason; all others are retried once their reason is gone.
_HELP = {
    "empty_file": "it is sent by itself once it has content",
    "sidecar": "mend the sidecar: the file is sent at the next scan",
    "unreadable": "mend its permissions: every run tries it again",
    "unknown_folder": "correct destfolderid or make the folder: every run tries it again",
    "unprocessed": "every run tries it again; if it is another file: assetsync retry --send-again {path}",
    "resembles": "assetsync reconcile --adopt, or assetsync retry --send-again {path}",
    "changed": "assetsync retry --send-again {path}",
    "undecidable": "assetsync doubt resolve {path} --asset ID, or --absent",
    "refused_as_duplicate": "assetsync doubt resolve {path} --asset ID",
}
_RETRY = "assetsync retry {path}"


@dataclass(frozen=True, slots=True)
class LastScan:
    """When the tree was last looked at as a whole, and whether all of it could be read."""

    at: float
    complete: bool
    unreadable: int


def last_scan(ledger: Ledger) -> LastScan | None:
    """Give what the ledger says of the last scan; None where it says nothing."""
    fact = ledger.reports.fact("last_scan")
    if fact is None:
        return None
    said = json.loads(fact)
    return LastScan(float(said["at"]), bool(said["complete"]), int(said["unreadable"]))


def pending(counts: Counts) -> int:
    """Count what goes on by itself: queued, on its way, or stored and not verified yet."""
    return counts.of(State.QUEUED, State.SENDING, State.STORED)


def in_doubt(counts: Counts) -> int:
    """Count the doubts, those of versions that the tree no longer has included."""
    return counts.of(State.IN_DOUBT) + counts.unresolved_history


def quoted(path: bytes) -> str:
    """Give a path as it can stand in a command; one that no line can hold stays readable only."""
    text = printable(path)
    return "'" + text.replace("'", "'\\''") + "'" if set(text) - _PLAIN else text


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%")


def next_step(row: FileRow) -> str:
    """Say what helps with a blocked file."""
    return _HELP.get(row.reason or "", _RETRY).format(path=quoted(row.path))


def leftovers(ledger: Ledger, now: float, counts: Counts) -> Iterator[str]:
    """Say line by line what keeps the site from being in sync, with the next step for each."""
    for brake in ledger.reports.brakes():
        yield f"brake {brake.id}: {printable(brake.detail)}"
        yield f"    since {moment(brake.pulled_at)}; if it is meant: assetsync resume {brake.id}"
    for folder, why in ledger.reports.holds(now).items():
        yield f"held: folder {printable(folder)}: {printable(why)}"
    for row in ledger.reports.blocked(_NAMED):
        yield f"blocked: {printable(row.path)}: {printable(row.detail or row.reason or 'for no known reason')}"
        yield f"    {next_step(row)}"
    more = counts.of(State.BLOCKED) - _NAMED
    if more > 0:
        yield f"and {more:,} more blocked: assetsync files --state blocked"
    doubts = in_doubt(counts)
    if doubts:
        yield f"in doubt: {doubts:,}, looked up until it is clear whether they arrived: assetsync doubt list"
    for row in ledger.reports.drifted(_NAMED):
        yield f"metadata drift: {printable(row.path)}: {printable(row.drift or '')}"
    stopped = ledger.reports.fact("index_stopped")
    if stopped is not None:
        yield f"indexing stopped: {printable(stopped)}"
