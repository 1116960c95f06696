"""How many uploads may be under way, and who takes several of them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from assetsync.flow.crew import AT_ONCE, OVERDUE, Begun, Crew


@pytest.fixture
def quick(clock):
    """A crew of four to whose uploads the answers come at once."""
    crew = Crew(4, clock.steady)
    crew.waited(0.0)
    return crew


def elsewhere(call):
    """Call it as another worker."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_each_worker_takes_one_where_nothing_is_known_of_answers(clock):
    crew = Crew(3, clock.steady)
    assert [crew.reserve() for _ in range(4)] == [1, 1, 1, 0]
    crew.give_back()
    assert crew.reserve() == 1


def test_one_worker_takes_all_where_answers_come_at_once(quick):
    assert quick.reserve() == 4
    assert elsewhere(quick.reserve) == 0
    quick.give_back(3)
    quick.lead()
    assert (quick.reserve(), quick.reserve_one()) == (3, 0)


def test_another_takes_over_from_one_that_has_not_come_back_for_a_while(quick, clock):
    quick.reserve()
    quick.lead()
    quick.give_back(2)
    assert elsewhere(quick.reserve) == 0
    clock.advance(2 * OVERDUE)
    assert elsewhere(quick.reserve) == 2


def test_who_takes_one_that_may_be_long_keeps_nobody_from_the_others(quick):
    assert quick.reserve() == 4
    quick.give_back(3)
    assert elsewhere(quick.reserve) == 3


def test_one_is_taken_by_itself_however_quick_answers_are(quick):
    assert [quick.reserve_one() for _ in range(5)] == [1, 1, 1, 1, 0]


def test_answers_that_have_to_be_waited_for_end_it_and_one_that_comes_at_once_begins_it_again(quick):
    quick.waited(8 * AT_ONCE)
    assert quick.reserve() == 4
    quick.give_back(4)
    quick.waited(50 * AT_ONCE)
    assert quick.reserve() == 1
    quick.give_back()
    quick.waited(AT_ONCE / 2)
    assert quick.reserve() == 4


def test_what_was_sent_together_is_ended_in_order_and_by_another_worker_once_it_is_overdue(quick, clock):
    began = clock.steady()
    begun = [Begun(attempt, None, began) for attempt in range(3)]
    quick.hand_in(begun)
    assert quick.next() == begun[0]
    assert quick.overdue() is None
    clock.advance(2 * OVERDUE)
    assert [quick.overdue() for _ in range(3)] == [begun[1], begun[2], None]
    assert quick.next() is None


def test_what_was_not_sent_yet_is_anybodys_at_once(quick, clock):
    clock.advance(1.0)
    quick.hand_in([Begun(1, None)])
    assert quick.overdue() == Begun(1, None)


def test_no_more_are_under_way_than_there_are_workers_however_they_meet(clock):
    crew = Crew(5, clock.steady)
    crew.waited(0.0)
    under_way, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal under_way, most
        for _ in range(300):
            count = crew.reserve()
            with lock:
                under_way += count
                most = max(most, under_way)
            if count > 1:
                crew.lead()
            with lock:
                under_way -= count
            crew.give_back(count)
            clock.advance(OVERDUE)

    with ThreadPoolExecutor(5) as pool:
        for done in [pool.submit(work) for _ in range(5)]:
            done.result()
    assert most == 5
