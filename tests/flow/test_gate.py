"""The gate: shut once, one probe at a time, half open after it."""

import threading

import pytest

from assetsync.flow.gate import Gate


@pytest.fixture
def gate(clock) -> Gate:
    return Gate(clock.steady, lambda: 0.0, longest=60.0)


def test_an_open_gate_lets_everyone_in(gate):
    assert [gate.enter() for _ in range(3)] == [True] * 3


def test_of_many_troubles_at_once_only_the_first_is_reported_and_none_counts_as_a_probe(gate):
    assert [gate.trouble("unreachable", f"{n}") for n in range(8)] == [True] + [False] * 7
    assert gate.pause.probes == 0
    assert gate.probe_due()
    assert gate.enter() is False


def test_probes_that_fail_come_less_and_less_often_and_never_further_apart_than_the_longest_wait(gate, clock):
    gate.trouble("unreachable", "down")
    waits = []
    for _ in range(9):
        waits.append(gate.pause.next_probe - clock.steady())
        clock.advance(waits[-1])
        assert gate.probe_due()
        gate.trouble("unreachable", "down", probed=True)
        assert not gate.probe_due()
    assert waits == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert gate.pause.since == clock.steady() - sum(waits)


def test_the_service_is_left_alone_for_as_long_as_it_asked(gate, clock):
    gate.trouble("unreachable", "busy", retry_after=40.0)
    clock.advance(39.9)
    assert not gate.probe_due()
    clock.advance(0.1)
    assert gate.probe_due()


def test_trouble_of_those_on_their_way_does_not_put_the_probe_off(gate, clock):
    gate.trouble("unreachable", "down")
    gate.trouble("unreachable", "down too")
    assert gate.probe_due()


def test_after_an_answered_probe_one_goes_through_until_it_was_answered(gate):
    gate.trouble("unreachable", "down")
    assert gate.answered().reason == "unreachable"
    assert gate.pause is None
    assert [gate.enter(), gate.enter()] == [True, False]
    gate.leave()
    assert gate.enter() is True
    gate.worked()
    assert gate.enter() is True


def test_a_gate_that_is_half_open_lets_one_of_many_threads_through(gate):
    gate.trouble("unreachable", "down")
    gate.answered()
    entered: list[bool] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        entered.append(gate.enter())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == [False] * 7 + [True]


def test_a_service_that_answers_look_ups_and_no_post_is_asked_less_and_less_often(gate, clock):
    waits = []
    since = clock.steady()
    for _ in range(6):
        gate.trouble("http_status", "503")
        waits.append(gate.pause.next_probe - clock.steady())
        assert gate.pause.since == since
        clock.advance(waits[-1])
        gate.answered()
        assert gate.enter()
        gate.leave()
    assert waits == [0, 0.5, 1, 2, 4, 8]
    gate.worked()
    assert gate.trouble("http_status", "503") is True
    assert gate.pause.probes == 0
    assert gate.pause.since == clock.steady()


def test_trouble_long_after_the_last_is_another_one(gate, clock):
    gate.trouble("unreachable", "down")
    gate.answered()
    clock.advance(121)
    assert gate.trouble("unreachable", "down again") is True
    assert (gate.pause.since, gate.pause.probes) == (clock.steady(), 0)


def test_a_post_that_was_on_its_way_and_worked_does_not_open_a_gate_that_is_shut(gate):
    gate.trouble("unreachable", "down")
    gate.worked()
    assert gate.enter() is False
    gate.answered()
    assert [gate.enter(), gate.enter()] == [True, False]


@pytest.mark.parametrize("hangs", [1.0, 100.0, 300.0])
def test_however_long_the_post_on_trial_hangs_it_is_the_same_trouble_that_goes_on(gate, clock, hangs):
    since = clock.steady()
    gate.trouble("unreachable", "no answer")
    waits = []
    for _ in range(6):
        waits.append(gate.pause.next_probe - clock.steady())
        clock.advance(waits[-1])
        gate.answered()
        assert gate.standing is None
        assert gate.enter()
        clock.advance(hangs)
        assert (gate.pause, gate.standing.since) == (None, since)
        assert gate.trouble("unreachable", "no answer") is False
        gate.leave()
        assert gate.standing == gate.pause
    assert waits == [0, 0.5, 1, 2, 4, 8]


def test_once_the_post_on_trial_worked_no_trouble_stands(gate):
    gate.trouble("unreachable", "down")
    gate.answered()
    gate.enter()
    gate.worked()
    assert gate.standing is None
