"""The gate: shut once, one probe at a time, half open after it."""

import threading

import pytest

from assetsync.sync.upload.circuit_breaker import CircuitBreaker


@pytest.fixture
def circuit_breaker(clock) -> CircuitBreaker:
    return CircuitBreaker(clock.steady, lambda: 0.0, longest=60.0)


def test_an_open_gate_lets_everyone_in(circuit_breaker):
    assert [circuit_breaker.enter() for _ in range(3)] == [True] * 3


def test_of_many_troubles_at_once_only_the_first_is_reported_and_none_counts_as_a_probe(circuit_breaker):
    assert [circuit_breaker.trouble("unreachable", f"{n}") for n in range(8)] == [True] + [False] * 7
    assert circuit_breaker.pause.probes == 0
    assert circuit_breaker.probe_due()
    assert circuit_breaker.enter() is False


def test_probes_that_fail_come_less_and_less_often_and_never_further_apart_than_the_longest_wait(
    circuit_breaker, clock
):
    circuit_breaker.trouble("unreachable", "down")
    waits = []
    for _ in range(9):
        waits.append(circuit_breaker.pause.next_probe - clock.steady())
        clock.advance(waits[-1])
        assert circuit_breaker.probe_due()
        circuit_breaker.trouble("unreachable", "down", probed=True)
        assert not circuit_breaker.probe_due()
    assert waits == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert circuit_breaker.pause.since == clock.steady() - sum(waits)


def test_the_service_is_left_alone_for_as_long_as_it_asked(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "busy", retry_after=40.0)
    clock.advance(39.9)
    assert not circuit_breaker.probe_due()
    clock.advance(0.1)
    assert circuit_breaker.probe_due()


def test_trouble_of_those_on_their_way_does_not_put_the_probe_off(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.trouble("unreachable", "down too")
    assert circuit_breaker.probe_due()


def test_after_an_answered_probe_one_goes_through_until_it_was_answered(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    assert circuit_breaker.answered().reason == "unreachable"
    assert circuit_breaker.pause is None
    assert [circuit_breaker.enter(), circuit_breaker.enter()] == [True, False]
    circuit_breaker.leave()
    assert circuit_breaker.enter() is True
    circuit_breaker.worked()
    assert circuit_breaker.enter() is True


def test_a_gate_that_is_half_open_lets_one_of_many_threads_through(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.answered()
    entered: list[bool] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        entered.append(circuit_breaker.enter())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == [False] * 7 + [True]


def test_a_service_that_answers_look_ups_and_no_post_is_asked_less_and_less_often(circuit_breaker, clock):
    waits = []
    since = clock.steady()
    for _ in range(6):
        circuit_breaker.trouble("http_status", "503")
        waits.append(circuit_breaker.pause.next_probe - clock.steady())
        assert circuit_breaker.pause.since == since
        clock.advance(waits[-1])
        circuit_breaker.answered()
        assert circuit_breaker.enter()
        circuit_breaker.leave()
    assert waits == [0, 0.5, 1, 2, 4, 8]
    circuit_breaker.worked()
    assert circuit_breaker.trouble("http_status", "503") is True
    assert circuit_breaker.pause.probes == 0
    assert circuit_breaker.pause.since == clock.steady()


def test_trouble_long_after_the_last_is_another_one(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.answered()
    clock.advance(121)
    assert circuit_breaker.trouble("unreachable", "down again") is True
    assert (circuit_breaker.pause.since, circuit_breaker.pause.probes) == (clock.steady(), 0)


def test_a_post_that_was_on_its_way_and_worked_does_not_open_a_gate_that_is_shut(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.worked()
    assert circuit_breaker.enter() is False
    circuit_breaker.answered()
    assert [circuit_breaker.enter(), circuit_breaker.enter()] == [True, False]


@pytest.mark.parametrize("hangs", [1.0, 100.0, 300.0])
def test_however_long_the_post_on_trial_hangs_it_is_the_same_trouble_that_goes_on(circuit_breaker, clock, hangs):
    since = clock.steady()
    circuit_breaker.trouble("unreachable", "no answer")
    waits = []
    for _ in range(6):
        waits.append(circuit_breaker.pause.next_probe - clock.steady())
        clock.advance(waits[-1])
        circuit_breaker.answered()
        assert circuit_breaker.standing is None
        assert circuit_breaker.enter()
        clock.advance(hangs)
        assert (circuit_breaker.pause, circuit_breaker.standing.since) == (None, since)
        assert circuit_breaker.trouble("unreachable", "no answer") is False
        circuit_breaker.leave()
        assert circuit_breaker.standing == circuit_breaker.pause
    assert waits == [0, 0.5, 1, 2, 4, 8]


def test_once_the_post_on_trial_worked_no_trouble_stands(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.answered()
    circuit_breaker.enter()
    circuit_breaker.worked()
    assert circuit_breaker.standing is None
