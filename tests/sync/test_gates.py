"""The gate of the service: closed once, one health check at a time, on trial after it; and that of the process."""

import random
import threading
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from assetsync.core.gate import Met, Trouble
from assetsync.sync.gates import Gates


class Least(random.Random):
    """A source that spreads no wait: each is half of the longest."""

    def random(self) -> float:
        return 0.0


@pytest.fixture
def gates(world) -> Gates:
    context = replace(world.site.context, chance=Least())
    return Gates(world.config(), context, world.site.health_check, lambda _busy: ())


def test_an_open_gate_lets_everyone_in(gates):
    assert [gates.enter() for _ in range(3)] == [True] * 3


def test_first_of_many_troubles_is_reported(gates):
    with capture_logs() as logs:
        for number in range(8):
            gates.failed(Trouble("unreachable", f"{number}"))
    assert [(log["event"], log["detail"]) for log in logs] == [("sending paused", "0")]
    assert gates.closed.failures == 0
    assert gates.check_due()
    assert gates.enter() is False


def test_probe_interval_doubles_to_a_limit(gates, clock):
    gates.failed(Trouble("unreachable", "down"))
    waits = []
    for _ in range(9):
        waits.append(gates.closed.until - clock.steady())
        clock.advance(waits[-1])
        assert gates.check_due()
        gates.failed(Trouble("unreachable", "down", met_by=Met.CHECK))
        assert not gates.check_due()
    assert waits == [0, 0.5, 1, 2, 4, 7.5, 7.5, 7.5, 7.5]
    assert gates.closed.since == clock.steady() - sum(waits)


def test_retry_after_delays_the_next_probe(gates, clock):
    gates.failed(Trouble("unreachable", "busy", retry_after=40.0))
    clock.advance(39.9)
    assert not gates.check_due()
    clock.advance(0.1)
    assert gates.check_due()


def test_trouble_in_flight_delays_no_probe(gates, clock):
    gates.failed(Trouble("unreachable", "down"))
    gates.failed(Trouble("unreachable", "down too"))
    assert gates.check_due()


def test_answered_probe_admits_one_upload(gates):
    gates.failed(Trouble("unreachable", "down"))
    gates.checked()
    assert gates.closed is None
    assert [gates.enter(), gates.enter()] == [True, False]
    gates.leave()
    assert gates.enter() is True
    gates.answered()
    assert gates.enter() is True


def test_gate_on_trial_admits_one_thread(gates):
    gates.failed(Trouble("unreachable", "down"))
    gates.checked()
    entered: list[bool] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        entered.append(gates.enter())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == [False] * 7 + [True]


def test_upload_that_hangs_delays_no_trial(gates):
    assert gates.enter()
    gates.failed(Trouble("unreachable", "nobody listens"))
    gates.checked()
    assert gates.closed is None
    assert gates.enter()
    assert gates.ongoing is not None
    assert not gates.enter()
    gates.answered()
    assert gates.enter()


def test_unanswered_posts_extend_the_interval(gates, clock):
    waits = []
    since = clock.steady()
    for _ in range(6):
        gates.failed(Trouble("http_status", "503"))
        waits.append(gates.closed.until - clock.steady())
        assert gates.closed.since == since
        clock.advance(waits[-1])
        gates.checked()
        assert gates.enter()
        gates.leave()
    assert waits == [0, 0.5, 1, 2, 4, 8]
    gates.answered()
    gates.failed(Trouble("http_status", "503"))
    assert gates.closed.failures == 0
    assert gates.closed.since == clock.steady()


def test_trouble_after_long_rest_is_new(gates, clock):
    gates.failed(Trouble("unreachable", "down"))
    gates.checked()
    clock.advance(901)
    assert gates.ongoing is None
    gates.failed(Trouble("unreachable", "down again"))
    assert (gates.closed.since, gates.closed.failures) == (clock.steady(), 0)


def test_answer_of_the_past_opens_no_gate(gates):
    gates.failed(Trouble("unreachable", "down"))
    gates.answered()
    assert gates.enter() is False
    gates.checked()
    assert [gates.enter(), gates.enter()] == [True, False]


@pytest.mark.parametrize("hangs", [1.0, 100.0, 300.0])
def test_hung_trial_post_is_the_same_trouble(gates, clock, hangs):
    since = clock.steady()
    gates.failed(Trouble("unreachable", "no answer"))
    waits = []
    for _ in range(6):
        waits.append(gates.closed.until - clock.steady())
        clock.advance(waits[-1])
        gates.checked()
        assert gates.enter()
        clock.advance(hangs)
        assert (gates.closed, gates.ongoing.since) == (None, since)
        gates.failed(Trouble("unreachable", "no answer"))
        gates.leave()
        assert gates.ongoing == gates.closed
    assert waits == [0, 0.5, 1, 2, 4, 8]


def test_pause_goes_on_until_the_trial_is_answered(gates, clock):
    """An answered search does not show that uploads are answered."""
    gates.failed(Trouble("http_status", "503"))
    for _ in range(4):
        gates.checked()
        clock.advance(300)
        assert gates.ongoing is not None
        assert gates.enter()
        gates.failed(Trouble("http_status", "503"))
        gates.leave()
        assert gates.ongoing is not None


@pytest.mark.parametrize("by_lookup", [False, True])
def test_pause_ends_without_a_trial_if_nothing_is_sent(gates, clock, by_lookup):
    gates.failed(Trouble("unreachable", "down", met_by=Met.LOOKUP if by_lookup else Met.UPLOAD))
    gates.checked()
    assert gates.awaits_trial is not by_lookup
    gates.nothing_to_send()
    clock.advance(30)
    assert gates.ongoing is not None
    clock.advance(1)
    assert gates.ongoing is None
    gates.failed(Trouble("unreachable", "down again", met_by=Met.LOOKUP if by_lookup else Met.UPLOAD))


def test_successful_trial_post_clears_trouble(gates):
    gates.failed(Trouble("unreachable", "down"))
    gates.checked()
    gates.enter()
    gates.answered()
    assert gates.ongoing is None


def test_long_outage_is_checked_each_quarter_minute(gates, clock):
    gates._chance = lambda: 1.0
    for _ in range(20):
        gates.failed(Trouble("unreachable", "down", met_by=Met.CHECK))
    assert gates.closed.until - clock.steady() == 15


def test_lack_of_the_process_ends_by_itself(gates, clock):
    """It shows nothing of the service: no health check is made."""
    with capture_logs() as logs:
        for number in range(3):
            gates.lacks(f"no descriptor {number}")
    assert [(log["event"], log["detail"]) for log in logs] == [("sending paused", "no descriptor 0")]
    assert (gates.closed.reason, gates.enter(), gates.check_due()) == ("out_of_resources", False, False)
    assert gates.lookups_answered
    clock.advance(5)
    assert (gates.closed, gates.ongoing.reason, gates.enter()) == (None, "out_of_resources", True)
    clock.advance(30)
    assert gates.ongoing is None


def test_outage_is_not_checked_while_the_process_lacks(gates, clock):
    gates.failed(Trouble("unreachable", "down"))
    gates.lacks("no descriptor")
    assert (gates.closed.reason, gates.check_due()) == ("out_of_resources", False)
    clock.advance(5)
    assert (gates.closed.reason, gates.check_due()) == ("unreachable", True)
