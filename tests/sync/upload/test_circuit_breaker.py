"""The gate: shut once, one probe at a time, half open after it."""

import threading

import pytest

from assetsync.sync.upload.circuit_breaker import CircuitBreaker


@pytest.fixture
def circuit_breaker(clock) -> CircuitBreaker:
    return CircuitBreaker(clock.steady, lambda: 0.0, longest=60.0)


def test_an_open_gate_lets_everyone_in(circuit_breaker):
    assert [circuit_breaker.enter() for _ in range(3)] == [True] * 3


def test_first_of_many_troubles_is_reported(circuit_breaker):
    assert [circuit_breaker.trouble("unreachable", f"{n}") for n in range(8)] == [True] + [False] * 7
    assert circuit_breaker.pause.failed_checks == 0
    assert circuit_breaker.check_due()
    assert circuit_breaker.enter() is False


def test_probe_interval_doubles_to_a_limit(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "down")
    waits = []
    for _ in range(9):
        waits.append(circuit_breaker.pause.next_check - clock.steady())
        clock.advance(waits[-1])
        assert circuit_breaker.check_due()
        circuit_breaker.trouble("unreachable", "down", by_check=True)
        assert not circuit_breaker.check_due()
    assert waits == [0, 0.5, 1, 2, 4, 7.5, 7.5, 7.5, 7.5]
    assert circuit_breaker.pause.since == clock.steady() - sum(waits)


def test_retry_after_delays_the_next_probe(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "busy", retry_after=40.0)
    clock.advance(39.9)
    assert not circuit_breaker.check_due()
    clock.advance(0.1)
    assert circuit_breaker.check_due()


def test_trouble_in_flight_delays_no_probe(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.trouble("unreachable", "down too")
    assert circuit_breaker.check_due()


def test_answered_probe_admits_one_upload(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    assert circuit_breaker.health_check_answered().reason == "unreachable"
    assert circuit_breaker.pause is None
    assert [circuit_breaker.enter(), circuit_breaker.enter()] == [True, False]
    circuit_breaker.leave()
    assert circuit_breaker.enter() is True
    circuit_breaker.post_answered()
    assert circuit_breaker.enter() is True


def test_half_open_breaker_admits_one_thread(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.health_check_answered()
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


def test_upload_that_hangs_delays_no_trial(circuit_breaker):
    assert circuit_breaker.enter()
    circuit_breaker.trouble("unreachable", "nobody listens")
    circuit_breaker.health_check_answered()
    assert circuit_breaker.pause is None
    assert circuit_breaker.enter()
    assert circuit_breaker.ongoing is not None
    assert not circuit_breaker.enter()
    circuit_breaker.post_answered()
    assert circuit_breaker.enter()


def test_unanswered_posts_extend_the_interval(circuit_breaker, clock):
    waits = []
    since = clock.steady()
    for _ in range(6):
        circuit_breaker.trouble("http_status", "503")
        waits.append(circuit_breaker.pause.next_check - clock.steady())
        assert circuit_breaker.pause.since == since
        clock.advance(waits[-1])
        circuit_breaker.health_check_answered()
        assert circuit_breaker.enter()
        circuit_breaker.leave()
    assert waits == [0, 0.5, 1, 2, 4, 8]
    circuit_breaker.post_answered()
    assert circuit_breaker.trouble("http_status", "503") is True
    assert circuit_breaker.pause.failed_checks == 0
    assert circuit_breaker.pause.since == clock.steady()


def test_trouble_after_long_rest_is_new(circuit_breaker, clock):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.health_check_answered()
    clock.advance(901)
    assert circuit_breaker.ongoing is None
    assert circuit_breaker.trouble("unreachable", "down again") is True
    assert (circuit_breaker.pause.since, circuit_breaker.pause.failed_checks) == (clock.steady(), 0)


def test_post_in_flight_closes_no_breaker(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.post_answered()
    assert circuit_breaker.enter() is False
    circuit_breaker.health_check_answered()
    assert [circuit_breaker.enter(), circuit_breaker.enter()] == [True, False]


@pytest.mark.parametrize("hangs", [1.0, 100.0, 300.0])
def test_hung_trial_post_is_the_same_trouble(circuit_breaker, clock, hangs):
    since = clock.steady()
    circuit_breaker.trouble("unreachable", "no answer")
    waits = []
    for _ in range(6):
        waits.append(circuit_breaker.pause.next_check - clock.steady())
        clock.advance(waits[-1])
        circuit_breaker.health_check_answered()
        assert circuit_breaker.enter()
        clock.advance(hangs)
        assert (circuit_breaker.pause, circuit_breaker.ongoing.since) == (None, since)
        assert circuit_breaker.trouble("unreachable", "no answer") is False
        circuit_breaker.leave()
        assert circuit_breaker.ongoing == circuit_breaker.pause
    assert waits == [0, 0.5, 1, 2, 4, 8]


def test_pause_goes_on_until_the_trial_is_answered(circuit_breaker, clock):
    """An answered search does not show that uploads are answered."""
    circuit_breaker.trouble("http_status", "503")
    for _ in range(4):
        circuit_breaker.health_check_answered()
        clock.advance(300)
        assert circuit_breaker.ongoing is not None
        assert circuit_breaker.enter()
        circuit_breaker.trouble("http_status", "503")
        circuit_breaker.leave()
        assert circuit_breaker.ongoing is not None


@pytest.mark.parametrize("by_lookup", [False, True])
def test_pause_ends_without_a_trial_if_nothing_is_sent(circuit_breaker, clock, by_lookup):
    circuit_breaker.trouble("unreachable", "down", by_lookup=by_lookup)
    circuit_breaker.health_check_answered()
    assert circuit_breaker.awaits_trial is not by_lookup
    circuit_breaker.nothing_to_send()
    clock.advance(30)
    assert circuit_breaker.ongoing is not None
    clock.advance(1)
    assert circuit_breaker.ongoing is None
    assert circuit_breaker.trouble("unreachable", "down again", by_lookup=by_lookup) is True


def test_successful_trial_post_clears_trouble(circuit_breaker):
    circuit_breaker.trouble("unreachable", "down")
    circuit_breaker.health_check_answered()
    circuit_breaker.enter()
    circuit_breaker.post_answered()
    assert circuit_breaker.ongoing is None


def test_long_outage_is_checked_each_quarter_minute(clock):
    circuit_breaker = CircuitBreaker(clock.steady, lambda: 1.0)
    for _ in range(20):
        circuit_breaker.trouble("unreachable", "down", by_check=True)
    assert circuit_breaker.pause.next_check - clock.steady() == 15
