"""As many files leave at once as there are workers, while a few more threads make the next ones ready."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from assetsync.flow.lanes import Lanes
from assetsync.flow.send import Step
from assetsync.model import State

LONG = 30.0


def always() -> bool:
    return True


@pytest.fixture
def lanes():
    return Lanes(2, lambda: 0.0)


def fill(lanes: Lanes) -> None:
    while lanes.enter():
        pass


@contextmanager
def senders(world, count: int) -> Iterator[None]:
    """Let so many threads send until nothing is due."""

    def work() -> None:
        while not world.site.sender.is_idle():
            if world.site.sender.run(always) is Step.PAUSED:
                # As the loops that drive it do.
                time.sleep(0.1)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (4, 5), (16, 20), (64, 80)])
def test_a_quarter_more_threads_than_lanes_keep_them_busy(count, threads):
    assert Lanes(count, lambda: 0.0).threads == threads


def test_there_are_so_many_lanes_and_no_more(lanes):
    assert [lanes.enter() for _ in range(3)] == [True, True, False]
    lanes.leave()
    assert lanes.wait(always)
    assert not lanes.enter()


def test_whoever_may_not_wait_gets_no_lane_even_if_one_is_free(lanes):
    assert not lanes.wait(lambda: False)
    assert lanes.enter()


def test_a_wait_for_a_lane_is_given_up_after_a_while(lanes):
    fill(lanes)
    assert not lanes.wait(always)


def test_a_lane_that_comes_free_is_handed_to_who_has_waited_longest(lanes):
    fill(lanes)
    order = []

    def wait(name: str) -> None:
        assert lanes.wait(always)
        order.append(name)
        lanes.leave()

    waiting = [threading.Thread(target=wait, args=[name]) for name in "abc"]
    for number, thread in enumerate(waiting, 1):
        thread.start()
        until(lambda number=number: len(lanes._waiting) == number)
    lanes.leave()
    # Nobody who comes later is quicker.
    assert not lanes.enter()
    for thread in waiting:
        thread.join(LONG)
    assert order == ["a", "b", "c"]
    assert [lanes.enter() for _ in range(2)] == [True, False]


def test_a_lane_that_is_handed_over_after_all_was_given_up_is_handed_on(lanes):
    fill(lanes)
    answers = iter([True])

    def may_wait() -> bool:
        if next(answers, False):
            return True
        # Just now one comes free.
        if lanes._waiting:
            lanes.leave()
        return False

    assert not lanes.wait(may_wait)
    assert lanes.enter()
    assert not lanes.enter()


def test_it_pays_to_be_ahead_where_answers_take_their_time_and_lanes_come_free():
    now = [0.0]
    lanes = Lanes(1, lambda: now[0])
    assert lanes.enter()
    lanes.leave()
    assert not lanes.pays_ahead()
    lanes.answer_took = 0.05
    assert lanes.pays_ahead()
    now[0] = 10.0
    assert not lanes.pays_ahead()


def test_no_more_files_leave_at_once_than_there_are_workers(world):
    for number in range(40):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    world.site.sender.lanes.answer_took = 1.0
    together = threading.Barrier(2)
    world.service.during_upload = lambda _request: together.wait(LONG)
    with senders(world, 5):
        pass
    assert world.service.most_in_flight == 2
    assert sorted(world.posted(), key=int) == [str(n) for n in range(40)]
    assert set(world.states().values()) == {State.STORED}


def test_the_next_intent_is_on_the_disk_while_the_only_worker_waits_for_its_answer(world):
    world.restart(upload={"workers": "1", "doubt_grace": "20s"})
    # Its folder is listed before the first, which takes its time.
    world.write("first", b"first")
    world.scan_and_send()
    for number in range(3):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    lanes = world.site.sender.lanes
    assert lanes.enter()
    lanes.leave()
    lanes.answer_took = 1.0
    begun = threading.Semaphore(0)
    queue = world.ledger.queue
    begin = queue.begin

    def begin_and_tell(*given):
        attempt = begin(*given)
        begun.release()
        return attempt

    queue.begin = begin_and_tell

    def waits_until_another_is_begun(_request) -> None:
        assert begun.acquire(timeout=LONG)
        if len(world.service.posts) == 2:
            assert begun.acquire(timeout=LONG)
            begun.release()

    world.service.during_upload = waits_until_another_is_begun
    with senders(world, 2):
        pass
    assert world.service.most_in_flight == 1
    assert len(world.service.posts) == 4
    assert set(world.states().values()) == {State.STORED}


def test_small_files_that_are_ahead_do_not_keep_a_large_one_from_its_lane(world):
    for number in range(300):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    # After files that have waited it is the turn of the newest.
    world.clock.advance(60)

    def take_a_while(_request) -> None:
        world.clock.advance(0.05)
        time.sleep(0.01)

    world.service.during_upload = take_a_while
    world.site.sender.lanes.answer_took = 1.0
    with senders(world, 4):
        until(lambda: len(world.service.posts) > 20)
        world.write("large", b"l" * 300 * 1024)
        world.scan()
        before = len(world.service.posts)
    assert world.posted().index("large") < before + 100


@pytest.mark.parametrize("size", [10, 300 * 1024])
def test_a_file_that_finds_no_lane_stays_queued_and_nothing_of_it_is_written(world, size):
    world.write("a", b"a" * size)
    world.scan()
    lanes = world.site.sender.lanes
    fill(lanes)
    before = world.row("a")
    assert world.site.sender.run(always) is Step.PAUSED
    assert world.row("a") == before
    assert world.service.posts == []
    lanes.leave()
    assert world.site.sender.run(lambda: False) is Step.WORKED
    assert world.posted() == ["a"]


@pytest.fixture
def ahead(world):
    """One file whose intent is written while all lanes are taken, which just came free."""
    world.write("a", b"a")
    world.scan()
    lanes = world.site.sender.lanes
    fill(lanes)
    lanes.leave()
    assert lanes.enter()
    lanes.answer_took = 1.0
    return world


def attempts(world) -> list[tuple[str | None, str | None]]:
    return [(one.result, one.left_part) for one in world.ledger.doubts.attempts(world.row("a").id, 10)]


def test_an_intent_whose_file_finds_no_lane_is_taken_back_and_is_no_failure(ahead):
    assert ahead.site.sender.run(always) is Step.PAUSED
    row = ahead.row("a")
    assert (row.state, row.reason, row.failures, row.due_at) == (State.QUEUED, None, 0, ahead.clock.now())
    assert attempts(ahead) == [("unsent", "nothing")]
    ahead.site.sender.lanes.leave()
    ahead.send()
    assert ahead.posted() == ["a"]
    assert ahead.row("a").state is State.STORED


def _trouble(world) -> None:
    world.site.gate.trouble("down", "connection refused")


def _shut_window(world) -> None:
    world.site.sender.may_send = lambda: False


def _stop(world) -> None:
    world.clock.wait = lambda _seconds: True


@pytest.mark.parametrize("comes", [_trouble, _shut_window, _stop])
def test_who_waits_for_a_lane_goes_no_further_once_nothing_is_to_be_sent(ahead, comes):
    begin = ahead.ledger.queue.begin

    def begin_as_it_comes(*given):
        attempt = begin(*given)
        comes(ahead)
        ahead.site.sender.lanes.leave()
        return attempt

    ahead.ledger.queue.begin = begin_as_it_comes
    ahead.site.sender.lanes.enter = _never_at_first(ahead.site.sender.lanes.enter)
    assert ahead.site.sender.run(always) is Step.PAUSED
    assert ahead.service.posts == []
    assert ahead.row("a").state is State.QUEUED


def _never_at_first(enter: Callable[[], bool]) -> Callable[[], bool]:
    asked = iter([False])
    return lambda: next(asked, True) and enter()
