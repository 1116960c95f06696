"""The table of states: what is allowed, where it leads, and that the diagram is made from it.

Covers `model.py`.
"""

import itertools

import pytest

from assetsync.core.states import TABLE, WANTED_AFTER, Event, Facts, Next, allowed, transition
from assetsync.errors import IllegalTransition
from assetsync.model import State, Wanted
from tests.reference import diagram

LIVE = {State.QUEUED, State.SENDING, State.IN_DOUBT, State.STORED, State.VERIFIED, State.BLOCKED}
REST = {State.SUPERSEDED, State.GONE}
UNDECIDED = {State.SENDING, State.IN_DOUBT}
DISK = (Event.REPLACED, Event.VANISHED, Event.UNMAPPED, Event.REVIVED, Event.MOVED)

# DESIGN's table, written down a second time and by hand: (event, states it may happen in, state it leads to).
SERVICE_RULES = (
    (Event.BEGUN, {State.QUEUED}, State.SENDING),
    (Event.BLOCKED, {State.QUEUED}, State.BLOCKED),
    (Event.ADOPTED, {State.QUEUED}, State.STORED),
    (Event.ACCEPTED, {State.SENDING}, State.STORED),
    (Event.REFUSED, {State.SENDING}, State.BLOCKED),
    (Event.UNSENT, {State.SENDING}, State.QUEUED),
    (Event.LOST, {State.SENDING}, State.IN_DOUBT),
    (Event.DUPLICATE, {State.SENDING}, State.IN_DOUBT),
    (Event.FOUND, {State.IN_DOUBT}, State.STORED),
    (Event.ABSENT, {State.IN_DOUBT}, State.QUEUED),
    (Event.DAMAGED, {State.IN_DOUBT}, State.QUEUED),
    (Event.UNDECIDABLE, {State.IN_DOUBT}, State.BLOCKED),
    (Event.CONFIRMED, {State.STORED, State.VERIFIED}, State.VERIFIED),
    (Event.DIFFERENT, {State.STORED, State.VERIFIED}, State.BLOCKED),
    (Event.UNSEEN, {State.STORED}, State.IN_DOUBT),
    (Event.NEVER_PROCESSED, {State.STORED}, State.BLOCKED),
    (Event.DISPUTED, {State.STORED, State.VERIFIED, State.BLOCKED} | REST, None),
    (Event.MISSING, {State.STORED, State.VERIFIED}, State.BLOCKED),
    (Event.REPLENISHED, {State.VERIFIED}, State.QUEUED),
    (Event.RETRIED, {State.BLOCKED}, None),
    (Event.SENT_AGAIN, {State.BLOCKED, State.IN_DOUBT, State.STORED, State.VERIFIED}, State.QUEUED),
    (Event.SETTLED_BY_HAND, {State.BLOCKED, State.IN_DOUBT}, None),
)
LEGAL = {event: states for event, states, _ in SERVICE_RULES} | dict.fromkeys(DISK, LIVE | REST)
EVERYTHING = [(state, event) for state, event in itertools.product(State, Event)]


def test_rules_cover_every_event():
    assert set(LEGAL) == set(Event) == set(TABLE)


@pytest.mark.parametrize(("state", "event"), EVERYTHING, ids=lambda value: str(value).replace(" ", "_"))
def test_event_outside_the_rules_raises(state: State, event: Event):
    assert allowed(state, event) is (state in LEGAL[event])
    if state in LEGAL[event]:
        assert isinstance(transition(state, event, Facts()), State)
        return
    with pytest.raises(IllegalTransition) as caught:
        transition(state, event, Facts())
    assert str(event) in str(caught.value)
    assert str(state) in str(caught.value)


@pytest.mark.parametrize(
    ("state", "event", "after"),
    [(state, event, to) for event, states, to in SERVICE_RULES if to is not None for state in sorted(states)],
    ids=lambda value: str(value).replace(" ", "_"),
)
def test_wanted_file_follows_the_rules(state: State, event: Event, after: State):
    assert transition(state, event, Facts()) is after


@pytest.mark.parametrize("facts", [Facts(), Facts(has_id=True, open_attempt=True)])
def test_facts_never_allow_an_illegal_event(facts: Facts):
    for state, event in EVERYTHING:
        if state not in LEGAL[event]:
            with pytest.raises(IllegalTransition):
                transition(state, event, facts)


@pytest.mark.parametrize("event", DISK)
def test_disk_events_are_always_legal(event: Event):
    assert [state for state in State if not allowed(state, event)] == []


@pytest.mark.parametrize("event", DISK)
def test_disk_event_keeps_state_of_live_row(event: Event):
    assert {state: transition(state, event, Facts()) for state in LIVE} == {state: state for state in LIVE}


def test_only_disk_events_change_wanted():
    assert dict(WANTED_AFTER) == {
        Event.REPLACED: Wanted.REPLACED,
        Event.VANISHED: Wanted.GONE,
        Event.UNMAPPED: Wanted.UNMAPPED,
        Event.REVIVED: Wanted.YES,
        Event.MOVED: Wanted.YES,
    }


@pytest.mark.parametrize(
    ("event", "wanted", "rest"),
    [
        (Event.REPLACED, Wanted.REPLACED, State.SUPERSEDED),
        (Event.VANISHED, Wanted.GONE, State.GONE),
        (Event.UNMAPPED, Wanted.UNMAPPED, None),
    ],
)
@pytest.mark.parametrize("state", sorted(LIVE))
@pytest.mark.parametrize("open_attempt", [False, True])
def test_unwanted_row_rests_unless_undecided(
    event: Event, wanted: Wanted, rest: State | None, state: State, open_attempt: bool
):
    after = transition(state, event, Facts(wanted, open_attempt=open_attempt))
    assert after is (state if rest is None or open_attempt or state in UNDECIDED else rest)


@pytest.mark.parametrize(
    ("event", "state", "facts", "after"),
    [
        (Event.ACCEPTED, State.SENDING, Facts(Wanted.REPLACED, has_id=True), State.SUPERSEDED),
        (Event.ACCEPTED, State.SENDING, Facts(Wanted.GONE, has_id=True), State.GONE),
        (Event.ACCEPTED, State.SENDING, Facts(Wanted.UNMAPPED, has_id=True), State.STORED),
        (Event.UNSENT, State.SENDING, Facts(Wanted.REPLACED), State.SUPERSEDED),
        (Event.REFUSED, State.SENDING, Facts(Wanted.GONE), State.GONE),
        (Event.LOST, State.SENDING, Facts(Wanted.REPLACED, open_attempt=True), State.IN_DOUBT),
        (Event.FOUND, State.IN_DOUBT, Facts(Wanted.REPLACED, has_id=True), State.SUPERSEDED),
        (Event.ABSENT, State.IN_DOUBT, Facts(Wanted.GONE), State.GONE),
        (Event.UNDECIDABLE, State.IN_DOUBT, Facts(Wanted.GONE, open_attempt=True), State.BLOCKED),
        (Event.DISPUTED, State.STORED, Facts(Wanted.REPLACED), State.SUPERSEDED),
        (Event.DISPUTED, State.SUPERSEDED, Facts(Wanted.REPLACED), State.SUPERSEDED),
        (Event.DISPUTED, State.GONE, Facts(Wanted.GONE), State.GONE),
    ],
)
def test_unwanted_row_rests_once_decided(event: Event, state: State, facts: Facts, after: State):
    assert transition(state, event, facts) is after


@pytest.mark.parametrize(
    ("facts", "after"),
    [
        (Facts(has_id=True), State.STORED),
        (Facts(has_id=True, open_attempt=True), State.STORED),
        (Facts(open_attempt=True), State.IN_DOUBT),
        (Facts(), State.QUEUED),
    ],
)
@pytest.mark.parametrize("event", [Event.RETRIED, Event.SETTLED_BY_HAND, Event.DISPUTED])
def test_facts_decide_state_of_resumed_row(event: Event, facts: Facts, after: State):
    assert transition(State.BLOCKED, event, facts) is after


@pytest.mark.parametrize(
    ("facts", "after"),
    [
        (Facts(has_id=True), State.STORED),
        (Facts(has_id=True, open_attempt=True), State.STORED),
        (Facts(open_attempt=True), State.IN_DOUBT),
        (Facts(), State.QUEUED),
    ],
)
@pytest.mark.parametrize("event", [Event.REVIVED, Event.MOVED])
@pytest.mark.parametrize("state", sorted(REST))
def test_row_back_from_rest_is_verified_again(state: State, event: Event, facts: Facts, after: State):
    assert transition(state, event, facts) is after


@pytest.mark.parametrize("event", [event for event in Event if event not in DISK and event is not Event.DISPUTED])
def test_only_disk_or_dispute_changes_history(event: Event):
    assert not any(allowed(state, event) for state in REST)


def _context() -> set[tuple[str, str, str]]:
    lines = diagram().splitlines()[3:-1]
    found = set()
    for line in lines:
        arrow, events = line.strip().split(": ")
        source, target = arrow.split(" --> ")
        found |= {(source, target, event) for event in events.split(" · ")}
    return found


def test_diagram_starts_with_queued():
    assert diagram().splitlines()[1:3] == ["stateDiagram-v2", "    [*] --> queued"]


def test_diagram_has_exactly_the_table_edges():
    expected = set()
    for event, row in TABLE.items():
        for state, to in row.items():
            if event in DISK or state in REST or to is Next.SAME:
                continue
            targets = {
                Next.RESUMED: [State.STORED, State.IN_DOUBT, State.QUEUED],
                Next.REOPENED: [State.IN_DOUBT, State.QUEUED],
            }.get(to, [to])
            expected |= {(str(state), str(target), str(event)) for target in targets if target != state}
    assert _context() == expected


def test_every_diagram_edge_can_happen():
    facts = [Facts(), Facts(has_id=True), Facts(open_attempt=True)]
    for source, target, event in _context():
        assert State(target) in {transition(State(source), Event(event), each) for each in facts}
