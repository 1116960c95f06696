"""What closes a gate and for how long; limits on uploads in doubt: each rule a row, the rule in the row's name."""

import pytest

from assetsync.core.gate import Concerns, DoubtLimits, FolderGate, Pace, accepted_within, concerns
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.model import Answer, Fault, Outcome, Sent, SentExtent

A, B, C = "A", "B", "C"
MANY = {A: 1000, B: 1000, C: 1}


@pytest.mark.parametrize(
    ("rule", "doubts", "accepted", "held", "held_for_waiting"),
    [
        ("a new site sends", {}, {}, "", ""),
        ("in its first seconds its folders share 16 doubts", {A: 6, B: 5, C: 5}, {}, "ABC", "ABC"),
        ("of which none has more than half", {A: 8, B: 5}, {}, "A", "A"),
        ("a folder without an accepted upload has one doubt", {A: 1}, {B: 1}, "A", "A"),
        ("a folder that accepts uploads has more", {A: 1}, {A: 1}, "", ""),
        ("a decided doubt gives the folder its next try", {A: 0}, {B: 9}, "", ""),
        ("folders without one have 16 apart from the others", {A: 16, B: 49, C: 50}, {B: 100, C: 100}, "AC", "ABC"),
        ("the next count for the others", {A: 17, B: 49, C: 50}, {B: 100, C: 100}, "ABC", "ABC"),
        ("and may be half as many", {A: 40}, {C: 100}, "A", "A"),
        ("but no more", {A: 41}, {C: 100}, "AB", "AB"),
        ("the others send beside them", {A: 41, C: 24}, {C: 100}, "AB", "AB"),
        ("until they have used the rest", {A: 41, C: 25}, {C: 100}, "ABC", "ABC"),
        ("the 16 are theirs in any case", {A: 15, C: 50}, {C: 100}, "AC", "AC"),
        ("a quarter is for files that were saved just now", {B: 12}, {B: 1}, "", "B"),
        ("one folder has the whole limit", {B: 15}, {B: 1}, "", "B"),
        ("and no more", {B: 16}, {B: 1}, "B", "B"),
        ("of several none has more than half", {A: 8, B: 5}, {A: 1, B: 1}, "A", "A"),
        ("a quarter of which is for files saved just now", {A: 6, B: 5}, {A: 1, B: 1}, "", "A"),
        ("several share the limit", {A: 6, B: 5, C: 5}, {A: 1, B: 1, C: 1}, "ABC", "ABC"),
        ("half of what was accepted is allowed", {A: 50, B: 49}, {A: 100, B: 100}, "A", "AB"),
        ("at most 1,000", {A: 499, B: 499}, MANY | {A: 10_000}, "", "AB"),
        ("and no more of any kind", {A: 499, B: 499, "former": 2}, {A: 9999, B: 1}, "ABC", "ABC"),
        ("doubts of a former folder count", {"former": 24}, {A: 1}, "BC", "BC"),
    ],
)
def test_doubt_limits_hold_folders(rule, doubts, accepted, held, held_for_waiting):
    limits = DoubtLimits.of(
        doubts, accepted, (A, B, C), failing={folder for folder, count in doubts.items() if count}, workers=4
    )
    assert (limits.held, limits.held_for_waiting) == ({*held}, {*held_for_waiting}), rule
    assert limits.is_full is (held == "ABC")


@pytest.mark.parametrize(
    ("workers", "accepted", "most"),
    [(4, 0, 16), (4, 32, 16), (4, 50, 25), (32, 100, 128), (4, 2000, 1000), (4, 9999, 1000), (300, 0, 1000)],
)
def test_half_of_accepted_uploads_may_be_in_doubt(workers, accepted, most):
    assert DoubtLimits.of({}, {A: accepted}, (A,), failing=(), workers=workers).most == most


@pytest.mark.parametrize(("longest_grace", "seconds"), [(0, 600), (120, 600), (300, 600), (301, 602), (7200, 14_400)])
def test_accepted_uploads_count_for_two_graces(longest_grace, seconds):
    assert accepted_within(longest_grace) == seconds


@pytest.mark.parametrize(("accepted", "one_at_a_time"), [({}, ""), ({A: 1}, "BC"), ({A: 1, B: 1, C: 1}, "")])
def test_unproven_folder_takes_one_at_a_time(accepted, one_at_a_time):
    assert DoubtLimits.of({}, accepted, [A, B, C], failing=(), workers=4).one_at_a_time == frozenset(one_at_a_time)


def test_old_doubt_holds_no_folder():
    """The service may work for hours on an asset that is in doubt: its folder goes on, one file at a time."""
    limits = DoubtLimits.of({A: 1}, {B: 9}, [A, B], failing=(), workers=4)
    assert (limits.held, limits.one_at_a_time) == (frozenset(), frozenset({A}))


def of(answer: Answer, fault: Fault = Fault.NONE, left: SentExtent = SentExtent.ALL, **said) -> Sent:
    return Sent(Outcome(answer, fault=fault, **said), left, 1, "md5")


@pytest.mark.parametrize(
    ("sent", "shows"),
    [
        (of(Answer.ACCEPTED), Concerns.OPENS),
        (of(Answer.DUPLICATE), Concerns.OPENS),
        (of(Answer.REFUSED, Fault.FILE), Concerns.OPENS),
        (of(Answer.REFUSED, Fault.FOLDER), Concerns.OPENS),
        (of(Answer.REFUSED, Fault.KEY), Concerns.SERVICE),
        (of(Answer.DOUBT, answered=True), Concerns.FOLDER),
        (of(Answer.DOUBT, answered=True, reason=TOO_LARGE_FOR_PROXY), Concerns.NOTHING),
        (of(Answer.DOUBT), Concerns.SERVICE),
        (of(Answer.DOUBT, Fault.FILE), Concerns.SERVICE),
        (of(Answer.DOUBT, Fault.FILE, SentExtent.PART), Concerns.NOTHING),
        (of(Answer.UNSENT, Fault.SERVICE), Concerns.SERVICE),
        (of(Answer.UNSENT, Fault.FILE), Concerns.NOTHING),
    ],
)
def test_end_of_an_upload_concerns_one_gate(sent, shows):
    assert concerns(sent) is shows


def waits(pace: Pace, count: int, **more) -> list[float]:
    return [pace.wait(number + 1, **more) for number in range(count)]


def test_few_failures_close_no_folder():
    """An upload that was under way when the gate closed does not count."""
    gate, now, closed = FolderGate(), 100.0, []
    for _ in range(10):
        gate = gate.failed(now)
        closed.append(gate.until - now)
        assert gate.failed(now) is gate or not closed[-1]
        now = gate.until
    assert closed == [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]


def test_lookups_of_a_folder_wait_longer_each_time():
    assert waits(Pace.of_lookups(0), 12) == [1, 1, 1, 1, 5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(("more", "wait"), [({"asked": 200}, 200), ({"took": 60}, 300), ({"took": 900}, 3000)])
def test_later_failures_wait_as_long_as_asked(more, wait):
    assert waits(Pace.of_lookups(0), 5, **more) == [1, 1, 1, 1, wait]


def test_doubts_have_short_gaps_beside_a_failing_folder():
    """A look-up that fails must not take the time in which the doubts of other folders are looked up without a gap."""
    assert waits(Pace.of_lookups(1600.0), 5) == [100, 100, 100, 100, 5]
    assert waits(Pace.of_lookups(4.0).partly(), 11)[8:] == [0.25, 0.5, 1]


def test_long_grace_makes_no_long_gap():
    assert max(waits(Pace.of_lookups(24 * 3600.0), 12)) == max(waits(Pace.of_lookups(24 * 3600.0).partly(), 20)) == 850
