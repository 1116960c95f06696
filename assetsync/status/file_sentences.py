"""One file in sentences, for `explain` and for its page: its state, what is wrong, its next step, its attempts.

The status of the whole site is left to `sentences`.
"""

import json

from assetsync.ledger.folders import Hold
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.model import NextTry, SentExtent, State
from assetsync.text import amount, moment, plural, printable

_MEANS = {
    State.QUEUED: "it waits to be sent",
    State.SENDING: "it is on its way",
    State.IN_DOUBT: "its upload got no sound answer: it is looked up until it is clear whether it arrived",
    State.STORED: "the service gave an id; it is not read back yet",
    State.VERIFIED: "it was read back from the service as it was sent",
    State.BLOCKED: "an operator must act",
    State.SUPERSEDED: "a newer version has taken its place",
    State.GONE: "it is no longer in the tree",
}


def meaning_of(row: FileRow, due: NextTry | None) -> str:
    """Return what the state of a version means; `due` is its next automatic step."""
    if row.state is State.SENDING and due is not None:
        return "its upload was interrupted: no process sends it now"
    if row.state is State.VERIFIED and row.reason is not None:
        return f"{_MEANS[row.state]}; {row.detail}"
    return "it waits for a YAML or XMP file of its own" if row.waits_for_sidecar else _MEANS[row.state]


def error_of(row: FileRow, holds: dict[str, Hold]) -> str | None:
    """Return what is wrong with a version; None if nothing is wrong or it only waits to be sent.

    `holds` maps the destination folders that are held back to their holds.
    """
    if row.state in (State.BLOCKED, State.IN_DOUBT):
        return row.detail or row.reason or str(row.state)
    if row.state is State.QUEUED:
        if row.destfolderid in holds:
            return f"the folder {row.destfolderid} is held back: {holds[row.destfolderid].detail}"
        return row.detail or row.reason
    return None


def next_try_text(due: NextTry, now: float) -> str:
    """Return when the next automatic step is, and what it waits for."""
    if not due.is_timed:
        return due.why or ""
    soon = moment(due.at) if due.at > now else "now"
    when = f"{soon}, where a process runs" if due.why is None else f"{moment(due.at)}, {due.why}"
    if due.most_before is not None:
        when += f"; at most {plural(due.most_before, 'file')} before it"
    return when


def attempt_line(attempt: AttemptRow) -> tuple[str, ...]:
    """Return the parts of a line about an attempt: bytes sent, duration and result."""
    handed = "an unknown part" if attempt.bytes_sent is None else amount(attempt.bytes_sent)
    left = f"{handed} of {amount(attempt.size)} handed over"
    if attempt.left_part == SentExtent.NOTHING:
        # The bytes were read for a form that was never sent: leave out their number.
        left = "nothing left this machine"
    took = "" if attempt.ended_at is None else f" in {attempt.ended_at - attempt.started_at:.1f} s"
    became = printable(attempt.result or "open")
    became += f" ({printable(attempt.why)})" if attempt.why and attempt.why != attempt.result else ""
    looks = f", {plural(attempt.looks, 'look-up')}" if attempt.looks else ""
    left_out = json.loads(attempt.metadata).get("left_out")
    left_out = f"; left out: {printable(left_out)}" if left_out else ""
    sent_name = f"as {printable(attempt.sent_name)}:"
    return f"attempt {moment(attempt.started_at)}", sent_name, f"{left}{took}:", f"{became}{looks}{left_out}"
