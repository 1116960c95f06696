"""Uploads that fail from some size on, at a limit or a time-out on the way, and the smaller ones beside them."""

import threading

import pytest

from assetsync.core.outcome import read_silence
from assetsync.flow.ceiling import Ceiling
from assetsync.flow.feed import Choice
from assetsync.flow.send import Step
from assetsync.ledger.holds import FAILS_FROM
from assetsync.ledger.queue import Sizes
from assetsync.model import Left, Sent, State
from tests.world import FullDisk

LIMIT = 1000
LARGE = 40
SMALL = 20
MOST = 4
"""How many large ones may be in doubt with four workers."""


@pytest.fixture
def world(make_world):
    """Give a world with many large files that are due before the small ones, and a service that takes none of them."""
    world = make_world(upload={"workers": "4", "doubt_grace": "2m"})
    world.service.loses = lambda size: size > LIMIT
    for number in range(LARGE):
        world.write(f"a-video-{number:02}", b"v" * (LIMIT + 1 + number * 7919 % 1000) + b"%d" % number)
    write_photos(world, "b")
    world.scan()
    return world


def write_photos(world, prefix: str) -> None:
    for number in range(SMALL):
        world.write(f"{prefix}-photo-{number:02}", b"photo %s %d" % (prefix.encode(), number))


def arrived(world, prefix: str) -> int:
    return sum(path.startswith(prefix) and state is State.VERIFIED for path, state in world.states().items())


def learn(world) -> None:
    """Live until it is known what fails: before any of the doubts is decided."""
    world.live(60)
    assert world.ledger.reports.fails_from() > LIMIT


def test_small_ones_arrive_within_a_minute_and_large_ones_pause_nothing(world):
    world.live(60)
    assert arrived(world, "b") == SMALL
    for number in range(10):
        prefix = f"c{number}"
        write_photos(world, prefix)
        world.scan()
        world.live(30)
        assert arrived(world, prefix) == SMALL
        assert world.site.gate.pause is None


def test_each_large_one_is_tried_five_times_and_then_a_persons_matter(world):
    learn(world)
    most = 0
    while any(state in (State.QUEUED, State.IN_DOUBT) for state in world.states().values()):
        world.live(60)
        if world.clock.steady() > 2000:
            # Those that were lost before it was known.
            most = max(most, world.ledger.doubts.count())
    assert most == MOST
    blocked = [row for row in world.ledger.reports.files() if row.state is State.BLOCKED]
    assert (len(blocked), {row.reason for row in blocked}) == (LARGE, {"undecidable"})
    assert len(world.service.posts) == SMALL + 5 * LARGE
    # Nothing waits any more for what would have to be said of it.
    assert world.ledger.reports.fails_from() is None


def test_once_a_large_one_gets_through_all_go_as_they_are_due(world):
    learn(world)
    world.service.loses = lambda _size: False
    world.live(400)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == LARGE + SMALL
    assert world.ledger.reports.fact(FAILS_FROM) is None


def test_a_service_that_takes_nothing_at_all_is_paused_for(world):
    world.service.loses = lambda _size: True
    world.live(300)
    # No more than one in the while between two probes, a minute at last.
    assert len(world.service.posts) <= 15
    assert world.ledger.reports.fact(FAILS_FROM) is None
    world.service.loses = lambda _size: False
    world.live(600)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == LARGE + SMALL


def test_a_service_that_fails_for_small_ones_later_is_paused_for(world):
    learn(world)
    world.service.loses = lambda _size: True
    write_photos(world, "c")
    world.scan()
    world.send()
    assert world.site.gate.pause is not None


def test_a_smaller_one_that_fails_leaves_open_again_whether_the_service_takes_anything(world):
    ceiling = Ceiling(world.site.edges)
    ceiling.failed(2000)
    ceiling.worked(10)
    assert world.ledger.reports.fact(FAILS_FROM) == "2000"
    assert [ceiling.failed(size) for size in (1500, 3000)] == [False, False]
    assert (world.ledger.reports.fact(FAILS_FROM), ceiling.least) == (None, 1500)
    ceiling.worked(10)
    assert (world.ledger.reports.fact(FAILS_FROM), ceiling.failed(3000)) == ("1500", True)


def test_what_the_service_asks_for_is_given_also_for_a_large_one(world, monkeypatch):
    learn(world)
    silence = read_silence(Left.ALL, "HTTP status 503", retry_after=300.0)
    monkeypatch.setattr(world.service, "_upload", lambda *_given: Sent(silence, Left.ALL, 0, ""))
    world.live(150)
    assert world.site.gate.pause.detail.startswith("HTTP status 503")


def test_a_large_one_is_tried_now_and_then_however_many_small_ones_come(world):
    learn(world)
    while world.ledger.doubts.count():
        # As if nothing were due but those.
        world.clock.advance(5)
        world.site.resolver.step()
    posted = len(world.service.posts)
    for number in range(30):
        write_photos(world, f"c{number}")
        world.scan()
        for _ in range(SMALL - 1):
            # There is always a smaller one left.
            assert world.site.sender.step() is Step.WORKED
        world.clock.advance(20)
        world.site.resolver.step()
    assert len([name for name in world.posted()[posted:] if "video" in name]) == 2


def test_it_is_known_after_a_restart_what_goes_first(world):
    learn(world)
    write_photos(world, "c")
    world.scan()
    world.restart()
    posted = len(world.service.posts)
    for _ in range(SMALL):
        world.site.sender.step()
    assert all("photo" in name for name in world.posted()[posted:])


def test_a_ledger_that_cannot_be_written_changes_nothing_of_what_goes_first(world):
    ceiling = Ceiling(world.site.edges)
    ceiling.failed(2000)
    disk = FullDisk(world.ledger, 1)
    disk.fill()
    ceiling.worked(10)
    assert (ceiling.failed(2000), world.ledger.reports.fact(FAILS_FROM)) == (True, None)
    ceiling.worked(2000)
    assert ceiling.least is None


def test_of_the_large_ones_one_is_given_at_a_time_and_small_ones_beside_it(world):
    feed = world.site.feed
    small, large = Choice(sizes=Sizes(below=LIMIT)), Choice(sizes=Sizes(LIMIT), alone=True)
    assert all(feed.take(small, large).size < LIMIT for _ in range(SMALL))
    given = feed.take(small, large)
    assert given.size > LIMIT
    assert (feed.take(small, large), feed.take(large, small)) == (None, None)
    feed.release(given)
    world.clock.advance(1)
    assert feed.take(small, large).size > LIMIT
    # Where nothing is said of sizes they are given as they are due.
    assert feed.take(Choice()).size > LIMIT
    assert not feed.idle(Choice())


def test_the_order_is_by_what_failed_and_when_it_was_tried(world, clock):
    ceiling = Ceiling(world.site.edges)

    def choices(*, may_doubt: bool = True):
        return ceiling.choices(("F1",), ("F2",), may_doubt=may_doubt)

    assert choices(may_doubt=False) == (Choice(("F1",)),)
    assert [ceiling.failed(size) for size in (5000, 2000, 3000)] == [False, False, False]
    small, large = Choice(("F1",), Sizes(below=2000)), Choice(("F1", "F2"), Sizes(2000), alone=True)
    # So far nothing is known to get through.
    assert choices(may_doubt=False) == (small, Choice(("F1",)))
    ceiling.worked(1999)
    assert (choices(), choices(may_doubt=False)) == ((small, large), (small,))
    clock.advance(300)
    assert (choices(), choices(may_doubt=False)) == ((large, small), (small,))
    assert [ceiling.failed(size) for size in (2000, 9000, 1500)] == [True, True, False]
    assert choices() == (Choice(("F1",), Sizes(below=1500)), Choice(("F1",)))
    ceiling.worked(1500)
    assert choices() == (Choice(("F1",)),)


def test_one_folder_that_takes_nothing_holds_no_large_file_of_another_up(make_world):
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F0", "F1")])
    world.service.before_upload = lambda request: (
        world.service.script.append("lost_before") if request.destfolderid == "F0" else None
    )
    for number in range(50):
        world.write(f"F0/{number}", b"x" * 2000 + b"%d" % number)
    world.scan()
    world.live(5)
    for number in range(10):
        world.write(f"F1/small{number}", b"%d" % number)
        world.write(f"F1/large{number}", b"y" * 3000 + b"%d" % number)
    world.scan()
    world.live(120)
    assert [path for path, state in world.states().items() if path[:2] == "F1" and state is not State.VERIFIED] == []


def test_many_threads_send_one_large_file_at_a_time(world):
    learn(world)
    world.live(130)
    together, most, lock = 0, 0, threading.Lock()
    upload = world.service._upload

    def counting(request, body, what):
        nonlocal together, most
        if body.size <= LIMIT:
            return upload(request, body, what)
        with lock:
            together += 1
            most = max(most, together)
        try:
            threading.Event().wait(0.02)
            return upload(request, body, what)
        finally:
            with lock:
                together -= 1

    world.service._upload = counting
    # Room for some doubts.
    for row in world.ledger.reports.in_doubt(100):
        world.ledger.repair.is_absent(row, world.clock.now())
    threads = [threading.Thread(target=lambda: [world.site.sender.step() for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == 1
