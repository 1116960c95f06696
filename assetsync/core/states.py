"""Define the rules for state and `wanted` of a file version: every event against every state, in one table.

The ledger calls `transition` before it writes; the guide's diagram is drawn from the table. The data of an event (an
id, a reason, a time), and whether the event is true, are left to the caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from assetsync.errors import IllegalTransition
from assetsync.model import State, Wanted


class Event(StrEnum):
    """An event of a file version: first those at the service, then those by an operator, then those on disk."""

    BEGUN = "begun"
    BLOCKED = "blocked"
    ADOPTED = "adopted"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNSENT = "unsent"
    LOST = "answer lost"
    DUPLICATE = "already exists"
    FOUND = "found"
    ABSENT = "proven absent"
    DAMAGED = "proven damaged"
    UNDECIDABLE = "undecidable"
    CONFIRMED = "read back equal"
    DIFFERENT = "read back different"
    UNSEEN = "not there after processing"
    NEVER_PROCESSED = "never processed"
    DISPUTED = "id claimed by another answer"
    MISSING = "missing at audit"
    REPLENISHED = "missing, to be sent again"
    RETRIED = "retried"
    SENT_AGAIN = "send again"
    SETTLED_BY_HAND = "resolved by hand"
    REPLACED = "replaced on disk"
    VANISHED = "gone from disk"
    UNMAPPED = "no longer mapped"
    REVIVED = "back on disk"
    MOVED = "moved on disk"


class Next(StrEnum):
    """A next state that depends on the facts of the row."""

    SAME = "same state"
    RESUMED = "stored if an id is known, in_doubt if an attempt is open, else queued"
    REOPENED = "in_doubt if an attempt is open, else queued"


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a row that the table needs, as they are after the event."""

    wanted: Wanted = Wanted.YES
    has_id: bool = False
    open_attempt: bool = False


_LIVE = (State.QUEUED, State.SENDING, State.IN_DOUBT, State.STORED, State.VERIFIED, State.BLOCKED)
_REST = (State.SUPERSEDED, State.GONE)


def _from(states: tuple[State, ...], to: State | Next) -> dict[State, State | Next]:
    return dict.fromkeys(states, to)


TABLE: Mapping[Event, Mapping[State, State | Next]] = {
    Event.BEGUN: {State.QUEUED: State.SENDING},
    Event.BLOCKED: {State.QUEUED: State.BLOCKED},
    Event.ADOPTED: {State.QUEUED: State.STORED},
    Event.ACCEPTED: {State.SENDING: State.STORED},
    Event.REFUSED: {State.SENDING: State.BLOCKED},
    Event.UNSENT: {State.SENDING: State.QUEUED},
    Event.LOST: {State.SENDING: State.IN_DOUBT},
    Event.DUPLICATE: {State.SENDING: State.IN_DOUBT},
    Event.FOUND: {State.IN_DOUBT: State.STORED},
    Event.ABSENT: {State.IN_DOUBT: State.QUEUED},
    Event.DAMAGED: {State.IN_DOUBT: State.QUEUED},
    Event.UNDECIDABLE: {State.IN_DOUBT: State.BLOCKED},
    Event.CONFIRMED: {State.STORED: State.VERIFIED, State.VERIFIED: Next.SAME},
    Event.DIFFERENT: _from((State.STORED, State.VERIFIED), State.BLOCKED),
    Event.UNSEEN: {State.STORED: State.IN_DOUBT},
    Event.NEVER_PROCESSED: {State.STORED: State.BLOCKED},
    # The real owner of an adopted asset was found; the adopter may be in any of these states by then.
    Event.DISPUTED: _from((State.STORED, State.VERIFIED, State.BLOCKED), Next.REOPENED) | _from(_REST, Next.SAME),
    Event.MISSING: _from((State.STORED, State.VERIFIED), State.BLOCKED),
    Event.REPLENISHED: {State.VERIFIED: State.QUEUED},
    Event.RETRIED: {State.BLOCKED: Next.RESUMED},
    Event.SENT_AGAIN: _from((State.BLOCKED, State.IN_DOUBT, State.STORED, State.VERIFIED), State.QUEUED),
    Event.SETTLED_BY_HAND: _from((State.BLOCKED, State.IN_DOUBT), Next.RESUMED),
    # Events on disk are legal in every state; `_rest` decides where the row comes to rest.
    Event.REPLACED: _from((*_LIVE, *_REST), Next.SAME),
    Event.VANISHED: _from((*_LIVE, *_REST), Next.SAME),
    Event.UNMAPPED: _from((*_LIVE, *_REST), Next.SAME),
    # An operator may have deleted the asset as an orphan: it is read back before it counts again.
    Event.REVIVED: _from(_LIVE, Next.SAME) | _from(_REST, Next.RESUMED),
    Event.MOVED: _from(_LIVE, Next.SAME) | _from(_REST, Next.RESUMED),
}

WANTED_AFTER: Mapping[Event, Wanted] = {
    Event.REPLACED: Wanted.REPLACED,
    Event.VANISHED: Wanted.GONE,
    Event.UNMAPPED: Wanted.UNMAPPED,
    Event.REVIVED: Wanted.YES,
    Event.MOVED: Wanted.YES,
}


def transition(state: State, event: Event, facts: Facts) -> State:
    """Return the state after `event`, or raise IllegalTransition; `facts` are those after the event."""
    to = TABLE[event].get(state)
    if to is None:
        raise IllegalTransition(f"“{event}” cannot happen to a file that is {state}")
    if to is Next.SAME:
        after = state
    elif to in (Next.RESUMED, Next.REOPENED):
        after = _resumed(facts)
    else:
        after = State(to)
    return _rest(after, facts)


def allowed(state: State, event: Event) -> bool:
    """Return whether the table allows `event` in `state`."""
    return state in TABLE[event]


def _resumed(facts: Facts) -> State:
    if facts.has_id:
        return State.STORED
    return State.IN_DOUBT if facts.open_attempt else State.QUEUED


def _rest(state: State, facts: Facts) -> State:
    """Return the state of rest of a row that the tree no longer wants, unless its attempt is undecided."""
    if facts.open_attempt or state in (State.SENDING, State.IN_DOUBT):
        return state
    if facts.wanted is Wanted.REPLACED:
        return State.SUPERSEDED
    if facts.wanted is Wanted.GONE:
        return State.GONE
    return state
