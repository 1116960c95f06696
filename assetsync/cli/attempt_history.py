"""The parts of `assetsync explain` about the sidecars of a file and the history of its attempts.

Printing them, and the rest of the output, is left to `explain`.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from assetsync.cli.output import amount, moment
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, mappings
from assetsync.config.models import Schedule
from assetsync.core.mapping import Mappings
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, folder_sidecars, is_sidecar_name, sidecar_for
from assetsync.core.settled import KEEPS_CHANGING
from assetsync.errors import RootMissing, SidecarError, TreeError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.model import Mapping, SentExtent, State, Wanted
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.text import on_the_wall, plural, printable
from assetsync.tree.safe_open import Tree


def said_of(config: SiteConfig, path: bytes) -> Iterator[str]:
    """Yield lines with the sidecars of a file and the metadata merged from all levels, or with the first mistake.

    For a sidecar, the lines name the files that it describes and the fields that it sets, or the mistake in it.
    """
    known = Mappings(mappings(config))
    position = known.for_directory(path.rpartition(b"/")[0])
    if position is None:
        return
    mapping = known.all[position]
    tree = Tree(bytes(config.root), follow_symlinks=config.watch.follow_symlinks)
    sidecars = Sidecars(tree, SystemClock(), config.service.metadata_fields.table())
    try:
        if mapping.sidecars and is_sidecar_name(path.rpartition(b"/")[2]):
            yield from _said_by(tree, sidecars, path, mapping)
            return
        if mapping.sidecars:
            there = [name for name in (*folder_sidecars(path), sidecar_for(path)) if tree.lstat(name) is not None]
            yield f"sidecars: {', '.join(map(printable, there)) or 'none'}"
        told = sidecars.told(path, mapping)
    except SidecarError as error:
        yield f"metadata: {printable(str(error))}"
    except (TreeError, RootMissing):
        # The tree cannot be read; `explain` reports this in its line "on disk".
        return
    else:
        for name, value in told.fields:
            yield f"metadata: {printable(name)} = {printable(value)}"


def _said_by(tree: Tree, sidecars: Sidecars, path: bytes, mapping: Mapping) -> Iterator[str]:
    folder, _, name = path.rpartition(b"/")
    if name == FOLDER_SIDECAR:
        yield f"speaks of: every file below {printable(folder) or '.'}"
    else:
        of = path.removesuffix(SUFFIX)
        missing = "" if tree.lstat(of) is not None else ", which is not there: it is read by nobody"
        yield f"speaks of: {printable(of)}{missing}"
    level, _size = sidecars.read(path, mapping)
    if level is not None:
        yield f"metadata: {', '.join(key for key, said in asdict(level).items() if said not in (None, ())) or 'none'}"


def attempt_line(attempt: AttemptRow) -> str:
    """Return one line about an attempt: bytes sent, duration and result."""
    handed = "an unknown part" if attempt.handed is None else amount(attempt.handed)
    left = f"{handed} of {amount(attempt.size)} handed over"
    if attempt.left_part == SentExtent.NOTHING:
        # The bytes were read for a form that was never sent: leave out their number.
        left = "nothing left this machine"
    took = "" if attempt.ended_at is None else f" in {attempt.ended_at - attempt.started_at:.1f} s"
    became = printable(attempt.result or "open")
    became += f" ({printable(attempt.why)})" if attempt.why and attempt.why != attempt.result else ""
    looks = f", {plural(attempt.looks, 'look-up')}" if attempt.looks else ""
    begun = f"attempt {moment(attempt.started_at)} as {printable(attempt.sent_name)}"
    return f"{begun}: {left}{took}: {became}{looks}"


def attempt_object(attempt: AttemptRow) -> dict[str, object]:
    """Return an attempt as an object for JSON."""
    return {
        "sent_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "destfolderid": attempt.destfolderid,
        "sent_name": attempt.sent_name,
        "size": attempt.size,
        "bytes_left": attempt.handed,
        "open": attempt.closed_at is None,
        "result": attempt.result,
        "why": attempt.why,
        "looks": attempt.looks,
    }


class NextTry(NamedTuple):
    """The time of the next automatic step for a version (seconds since the epoch), and a note about the wait."""

    at: float
    why: str | None = None


def next_try(ledger: Ledger, row: FileRow, config: SiteConfig) -> NextTry | None:
    """Return the next automatic step for a version; None if there is none."""
    if row.state is State.IN_DOUBT:
        attempt = ledger.doubts.of(row.id)
        return None if attempt is None else NextTry(attempt.look_at)
    if row.wanted is Wanted.YES and row.state is State.BLOCKED and row.reason == KEEPS_CHANGING:
        return NextTry(row.due_at, "if it does not change before")
    if row.wanted is not Wanted.YES or row.state not in (State.QUEUED, State.STORED):
        return None
    if row.state is State.STORED:
        return _read_back(ledger, row, config.schedule)
    window, now = config.upload.window, time.time()
    opens = None if window is None else window.opens(max(now, row.due_at))
    return NextTry(row.due_at) if opens is None else NextTry(opens, f"when upload.window opens ({on_the_wall(opens)})")


def _read_back(ledger: Ledger, row: FileRow, times: Schedule) -> NextTry | None:
    """Return when a stored version is read back: at the next run of the index or the verify job after it is due."""
    from assetsync.daemon.schedule import next_run  # noqa: PLC0415 - slow to load, and rarely needed

    last = ledger.runs.last()
    runs = [
        next_run(when, last[job].at if job in last else None)
        for job, when in (("index", times.index), ("verify", times.verify))
    ]
    return NextTry(max(row.due_at, min(at for at in runs if at is not None))) if any(runs) else None
