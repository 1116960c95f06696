"""Why a version waits, and when its next automatic step is: a brake, a pause, a folder, a limit, or its own reason.

The file's own reasons are left to `sync.upload.decide`. Only the ledger and the tree are read: the queue itself chooses
by the same facts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assetsync.config import SiteConfig, mappings
from assetsync.core.pauses import OperatorPause
from assetsync.core.settled import KEEPS_CHANGING
from assetsync.ledger.file.database import is_sent_by_hand
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Brake
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import HeldUp, Pause
from assetsync.model import NextTry, State, Wanted
from assetsync.sync.upload.decide import Block, Wait
from assetsync.sync.upload.preview import Preview
from assetsync.text import local_moment, named_path, on_the_wall, printable

_INTERRUPTED = "`systemctl start assetsync@SITE`, or `assetsync reconcile`, looks up whether it arrived"


@dataclass(frozen=True, slots=True)
class Waits:
    """What versions may wait for.

    `sends`: whether a process sends now, `pause` is its pause. `next_read_back` returns when stored versions are read
    back next, in seconds since the epoch, None if never. Without a `preview` the file's own reasons are left out, and
    nothing of the tree is looked at.
    """

    config: SiteConfig
    ledger: Ledger
    now: float
    brakes: Sequence[Brake]
    holds: dict[str, Hold]
    sends: bool
    pause: Pause | None
    preview: Preview | None
    next_read_back: Callable[[], float | None]


def next_try(row: FileRow, waits: Waits) -> NextTry | None:
    """Return the next automatic step for a version; None if there is none."""
    if row.state is State.SENDING:
        return None if _is_sent(row, waits) else NextTry(waits.now, "interrupted", _INTERRUPTED, is_timed=False)
    if row.state is State.IN_DOUBT:
        attempt = waits.ledger.doubts.of(row.id)
        if attempt is None:
            return None
        if waits.pause is None or attempt.look_at > waits.now:
            return NextTry(attempt.look_at)
        # It is due and was not looked up: the pause is not for uploads alone.
        return NextTry(attempt.look_at, *_answered_again(row, waits.pause), is_timed=False)
    if row.wanted is not Wanted.YES:
        return None
    if row.state is State.BLOCKED and row.reason == KEEPS_CHANGING:
        return NextTry(row.due_at, KEEPS_CHANGING, "if it does not change before")
    if row.state is State.STORED:
        runs_at = waits.next_read_back()
        return None if runs_at is None else NextTry(max(row.due_at, runs_at))
    return _upload(row, waits) if row.state is State.QUEUED else None


def _is_sent(row: FileRow, waits: Waits) -> bool:
    """Return whether a process may be sending the version now: the one that holds the ledger, or one by hand."""
    attempt = None if waits.sends else waits.ledger.doubts.of(row.id)
    return waits.sends or (attempt is not None and is_sent_by_hand(waits.ledger.store.path, attempt.boundary))


def _upload(row: FileRow, waits: Waits) -> NextTry:
    """Return when a queued version is sent."""
    window, hold = waits.config.upload.window, waits.holds.get(row.destfolderid)
    due = row.due_at if hold is None else max(waits.now, row.due_at, hold.until)
    stopped = _stopped(row, waits)
    opens = None if window is None else window.opens(max(waits.now, due))
    if stopped is not None:
        return NextTry(due if opens is None else opens, *stopped, is_timed=False)
    pause = pause_of(row.path, waits.ledger, waits.now)
    if pause is not None:
        end = pause.ends_at(waits.now)
        return NextTry(max(due, end or due), "paused", until_ended(pause, waits.now), is_timed=end is not None)
    if opens is not None:
        return NextTry(opens, "window", f"when upload.window opens ({on_the_wall(opens)})")
    if hold is not None:
        return NextTry(due, hold.reason, f"when folder {printable(row.destfolderid)} is tried again")
    return _decided(row, due, waits)


def pause_of(path: bytes, ledger: Ledger, now: float) -> OperatorPause | None:
    """Return the pause by a person that holds the files at a path longest, None if no pause does."""
    pauses = [pause for pause in ledger.pauses.shown(now) if pause.covers(path)]
    return max(pauses, key=lambda pause: pause.ends_at(now) or math.inf, default=None)


def until_ended(pause: OperatorPause, now: float) -> str:
    """Return the words for the end of a pause: `when …` or `once …`."""
    end = pause.ends_at(now)
    by = f"pause of {named_path(pause.path)} by {printable(pause.who)}"
    why = f": {printable(pause.why)}" * bool(pause.why)
    if end is None:
        return f"once `assetsync resume --pause` ends the {by}{why}"
    return f"when the {by} ends ({local_moment(end)}){why}"


def _decided(row: FileRow, due: float, waits: Waits) -> NextTry:
    """Return what would become of a version if its turn came now."""
    foreseen = None if waits.preview is None else waits.preview.of(row)
    goes_on = waits.preview is None or (isinstance(foreseen, Wait) and foreseen.reason == row.reason)
    if row.waits_for_sidecar and goes_on:
        return NextTry(due, row.reason, "when its sidecar has come", is_timed=False)
    match foreseen:
        case Wait(until, why, reason=reason):
            return NextTry(max(due, until), reason or "waits", why, is_timed=reason is None)
        case Block(reason, detail):
            return NextTry(due, reason, f"it will be blocked: {printable(detail)}")
        case _:
            most_before = waits.ledger.queue_folders.most_before(row, waits.now, mappings(waits.config))
            return NextTry(due, most_before=most_before)


def _stopped(row: FileRow, waits: Waits) -> tuple[str, str] | None:
    """Return what stops the upload of a version, in a word and a sentence; None if it only waits for its time."""
    if waits.brakes:
        return "brake", f"once brake {waits.brakes[0].id} is released: `assetsync status` shows why it is pulled"
    if waits.pause is not None:
        return _answered_again(row, waits.pause)
    other = waits.ledger.queue.behind(row)
    if other is not None:
        return "doubts", f"once the upload of {printable(other.path)} is decided: assetsync doubt list"
    held_up = waits.ledger.runs.at_hand(HeldUp)
    if held_up is None or row.destfolderid not in held_up.folders:
        return None
    into = f"into folder {row.destfolderid}"
    return "doubts", f"once some of the uploads in doubt {into} are decided: assetsync doubt list"


def _answered_again(row: FileRow, pause: Pause) -> tuple[str, str]:
    known = f": {printable(pause.detail)}" if pause.detail not in (row.detail or "") else ""
    return pause.reason, f"once the service answers as it should{known}"
