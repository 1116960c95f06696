"""As many files leave at once as there are workers, while a few more threads prepare what comes next."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from assetsync.flow.pace import Lanes
from assetsync.flow.send import Step
from assetsync.model import State

LONG = 30.0


@contextmanager
def senders(world, count: int, go_on: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Let so many threads send until nothing is due."""

    def work() -> None:
        while world.site.sender.run(go_on) is not Step.IDLE:
            pass

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


@pytest.mark.parametrize(("count", "threads"), [(1, 2), (4, 5), (16, 20), (32, 40)])
def test_a_quarter_more_threads_than_lanes_keep_them_busy(count, threads):
    assert Lanes(count).threads == threads


def test_there_are_so_many_lanes_and_no_more():
    lanes = Lanes(2)
    assert [lanes.enter_free() for _ in range(3)] == [True, True, False]
    lanes.leave()
    assert lanes.enter(lambda: True)
    assert not lanes.enter_free()


def test_whoever_may_wait_no_longer_gets_no_lane_even_if_one_is_free():
    lanes = Lanes(1)
    answers = iter([True, False])
    assert not lanes.enter(lambda: next(answers))
    assert lanes.enter_free()


def test_a_wait_for_a_lane_is_given_up_after_a_while():
    lanes = Lanes(1)
    assert lanes.enter_free()
    assert not lanes.enter(lambda: True)


def test_no_more_files_leave_at_once_than_there_are_workers(world):
    for number in range(40):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    together = threading.Barrier(2)

    def meets_another(_request) -> None:
        together.wait(LONG)

    world.service.during_upload = meets_another
    with senders(world, 5):
        pass
    assert world.service.most_in_flight == 2
    assert sorted(world.posted(), key=int) == [str(n) for n in range(40)]


def test_the_next_file_is_prepared_while_the_only_worker_waits_for_its_answer(world):
    world.restart(upload={"workers": "1", "doubt_grace": "20s"})
    for number in range(2):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    prepared = threading.Semaphore(0)
    preparer = world.site.preparer
    prepare = preparer.prepare

    def prepare_and_tell(row):
        ready = prepare(row)
        prepared.release()
        return ready

    preparer.prepare = prepare_and_tell

    def waits_until_both_are_prepared(_request) -> None:
        assert prepared.acquire(timeout=LONG)
        if len(world.service.posts) == 1:
            assert prepared.acquire(timeout=LONG)
            prepared.release()

    world.service.during_upload = waits_until_both_are_prepared
    with senders(world, world.site.sender.lanes.threads):
        pass
    assert world.service.most_in_flight == 1
    assert set(world.states().values()) == {State.STORED}


@pytest.mark.parametrize("size", [10, 300 * 1024])
def test_a_file_that_finds_no_lane_stays_queued_and_nothing_of_it_is_written(world, size):
    world.write("a", b"a" * size)
    world.scan()
    lanes = world.site.sender.lanes
    while lanes.enter_free():
        pass
    before = world.row("a")
    assert world.site.sender.run(lambda: True) is Step.PAUSED
    assert world.row("a") == before
    assert world.service.posts == []
    lanes.leave()
    assert world.site.sender.run(lambda: False) is Step.WORKED
    assert world.posted() == ["a"]


def test_what_became_of_a_file_is_on_the_disk_before_the_next_waits_for_a_lane(world):
    world.write("a", b"a")
    world.write("b", b"b")
    world.scan()
    lanes = world.site.sender.lanes
    seen = []

    def go_on() -> bool:
        # Asked after each file, and again and again by one that waits for a lane.
        seen.append(world.states()["a"])
        while lanes.enter_free():
            pass
        return len(seen) < 3

    assert world.site.sender.run(go_on) is Step.PAUSED
    assert seen[0] is State.SENDING
    assert seen[1] is State.STORED


def test_nobody_waits_for_a_lane_while_the_service_is_in_trouble(world):
    world.write("a", b"a")
    world.scan()
    lanes, gate = world.site.sender.lanes, world.site.gate
    while lanes.enter_free():
        pass

    def trouble_begins() -> bool:
        gate.trouble("down", "connection refused")
        lanes.leave()
        return True

    assert world.site.sender.run(trouble_begins) is Step.PAUSED
    assert world.service.posts == []
