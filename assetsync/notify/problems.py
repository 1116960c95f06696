"""Read the current problems of a site from the ledger and the circuit breaker.

Which notices follow from them is left to `core.notices`, sending them to `notifications`.
"""

from collections.abc import Collection

from assetsync.core.names import printable
from assetsync.core.notices import KEPT, Kind, Problem
from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Reports
from assetsync.sync.upload.limits import Pause


def current_problems(
    ledger: Ledger, pause: Pause | None, waiting: str | None, reported: Collection[str]
) -> list[Problem]:
    """Return the current state of each kind that can be read now. Raises LedgerDamaged.

    `pause` is the circuit breaker's, `waiting` the reason why a loop waits for the ledger's disk, `reported` holds the
    keys of the blocked files that were reported.
    """
    reports = ledger.reports
    out = {} if pause is None else {"outage": printable(pause.detail)}
    since = {} if pause is None else {"outage": pause.since}
    found = []
    try:
        found += [_blocked(reports, reported), _braked(reports), _index_stopped(reports), _unread(ledger)]
        folders = {
            folder: f"into folder {printable(folder)}: {printable(detail)}"
            for folder, detail in reports.unlisted().items()
        }
        found.append(_named(Kind.OUTAGE, out | folders, since))
    except LedgerDamaged:
        raise
    except LedgerError as error:
        waiting = waiting or str(error)
        if out:
            found.append(_named(Kind.OUTAGE, out, since))
    return [Problem(Kind.ENDED), *found, ledger_problem(waiting)]


def ledger_problem(waiting: str | None) -> Problem:
    """Return the problem of a ledger that cannot be used because of `waiting`; with None it is in order."""
    return _named(Kind.LEDGER, {} if waiting is None else {"ledger": printable(waiting)})


def _named(kind: Kind, items: dict[str, str], since: dict[str, float] | None = None) -> Problem:
    return Problem(kind, items, len(items), since or {})


def _blocked(reports: Reports, reported: Collection[str]) -> Problem:
    rows = reports.blocked(KEPT)
    items = {f"{row.id}:{row.reason}": f"{printable(row.path)} ({row.reason})" for row in rows}
    count = len(rows) if len(rows) < KEPT else reports.count_blocked()
    # A reported file that is being sent again still counts: it may be blocked again in a moment.
    ids = {key: int(key.partition(":")[0]) for key in reported if key not in items}
    trying = reports.trying(ids.values()) if ids else set()
    return Problem(Kind.BLOCKED, items | {key: key for key, row_id in ids.items() if row_id in trying}, count)


def _braked(reports: Reports) -> Problem:
    brakes = reports.brakes()
    return Problem(Kind.BRAKE, {str(brake.id): printable(brake.detail) for brake in brakes[:KEPT]}, len(brakes))


def _index_stopped(reports: Reports) -> Problem:
    detail = reports.fact(INDEX_STOPPED)
    return _named(Kind.INDEX_STOPPED, {} if detail is None else {"index": printable(detail)})


def _unread(ledger: Ledger) -> Problem:
    scan = ledger.runs.last_scan()
    if scan is None:
        return Problem(Kind.TREE)
    # The brake of a missing folder that held files reports it.
    braked = {brake.subject for brake in ledger.reports.brakes() if brake.kind == "emptied"}
    missing = [name for name in scan.missing if name not in braked]
    items = {f"missing {name}": f"the mapped folder {name} is not there" for name in missing}
    # The key omits the reason in brackets, so that another reason causes no new notice.
    items |= {f"unreadable {blind.rpartition(' (')[0]}": blind for blind in scan.blind}
    return Problem(Kind.TREE, items, len(missing) + scan.unread)
