"""searchIndex is called when it is due, and never again once a call has made other assets unfindable."""

import itertools

import pytest

from assetsync.errors import ServiceUnreachable
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import INDEX_STOPPED, Change
from assetsync.model import State
from assetsync.sync.readback.indexer import SUSPECT


@pytest.fixture
def waiting(make_world):
    """A world with `count` files sent, seen in the database and not findable, beside assets of others that are."""

    def make(count: int = 3, *, call: str = "adds", others: int = 8, **said):
        world = make_world(**said)
        for number in range(others):
            world.service.put(f"other {number}".encode(), f"other{number}", "F9")
        world.service.index_lag = None
        world.service.index_call = call
        for number in range(count):
            world.write(f"{number}", f"content {number}".encode())
        world.scan_and_send()
        now = world.clock.now()
        seen = [Change(row, None, {}, Shown(now)) for row in world.ledger.reports.files()]
        world.ledger.read_back.apply_all(seen, now)
        world.live(2)
        return world

    return make


def test_unfindable_assets_are_indexed_by_id(waiting):
    world = waiting()
    world.live(50)
    assert world.service.indexed == []
    world.live(60)
    assert [sorted(ids) for ids in world.service.indexed] == [sorted(world.row(str(n)).assetid for n in range(3))]
    assert set(world.states().values()) == {State.VERIFIED}
    assert not world.site.indexer.stopped


def test_self_indexing_service_is_not_called(waiting):
    world = waiting()
    for asset in world.service.assets.values():
        asset.indexed_at = 0.0
    world.live(300)
    assert world.service.indexed == []


def test_ineffective_call_is_retried_later(waiting):
    world = waiting(call="noop")
    world.live(500)
    assert len(world.service.indexed) == 1
    world.live(300)
    assert len(world.service.indexed) == 2
    assert set(world.states().values()) == {State.STORED}


def test_idle_indexing_sends_no_request(waiting):
    world = waiting()
    world.live(300)
    before = len(world.service.searches)
    world.live(300)
    assert len(world.service.searches) == before


def test_index_wipe_stops_calls_not_verifying(waiting):
    world = waiting(call="wipes")
    world.live(120)
    assert len(world.service.indexed) == 1
    assert world.site.indexer.stopped
    assert "schedule.index: off" in world.ledger.reports.fact(INDEX_STOPPED)
    assert set(world.states().values()) == {State.VERIFIED}
    world.write("later", b"later")
    world.scan_and_send()
    world.live(300)
    assert (len(world.service.indexed), world.row("later").state) == (1, State.VERIFIED)
    world.restart()
    world.write("after the restart", b"after")
    world.scan_and_send()
    world.live(300)
    assert len(world.service.indexed) == 1


def test_wipe_before_crash_stops_the_next_call(waiting):
    """The process dies in the call that empties the index; the next process finds this out first."""
    world = waiting(call="wipes")

    class Killed(BaseException):
        pass

    index = world.service.index

    def die(assetids):
        index(assetids)
        raise Killed

    world.service.index = die
    with pytest.raises(Killed):
        world.live(120)
    world.service.index = index
    world.restart()
    world.live(120)
    assert (len(world.service.indexed), world.site.indexer.stopped) == (1, True)


def test_failed_sample_lookup_is_no_verdict(waiting, clock):
    world = waiting(call="adds")
    clock.advance(61)
    index = world.service.index

    def then_down(assetids):
        index(assetids)
        world.service.down = True

    world.service.index = then_down
    with pytest.raises(ServiceUnreachable):
        world.site.indexer.step()
    assert world.ledger.reports.fact(SUSPECT)
    assert not world.site.indexer.stopped
    world.service.down = False
    world.live(10)
    assert not world.site.indexer.stopped


@pytest.mark.parametrize("then", ["deleted", "nothing shown"])
def test_empty_service_is_no_wiped_index(waiting, then):
    """The sample is deleted, or the service shows nothing, after an index call: indexing goes on."""
    world = waiting(others=1)
    index, matches = world.service.index, world.service._matches

    def and_lose(assetids):
        index(assetids)
        if then == "deleted":
            del world.service.assets[world.ledger.reports.fact(SUSPECT)]
        else:
            world.service._matches = lambda _asset, _request: False

    world.service.index = and_lose
    world.live(65)
    assert (len(world.service.indexed), world.site.indexer.stopped) == (1, False)
    # The lost sample proves nothing later either; each check of it would list the whole service.
    assert world.ledger.reports.fact(SUSPECT) is None
    world.service._matches, world.service.index = matches, index
    world.live(120)
    assert set(world.states().values()) == {State.VERIFIED}
    assert not world.site.indexer.stopped


@pytest.mark.parametrize("unfindable", [0, 2, 3, 5])
def test_single_sample_loss_is_no_wipe(waiting, unfindable):
    world = waiting()
    index = world.service.index

    def lose_some(assetids):
        index(assetids)
        for assetid in world.ledger.reports.fact(SUSPECT).split(",")[:unfindable]:
            world.service.assets[assetid].indexed_at = None

    world.service.index = lose_some
    world.live(65)
    assert world.site.indexer.stopped is (unfindable >= 3)


def test_the_index_off_is_never_called(waiting):
    world = waiting(schedule={"index": "off"})
    world.live(600, tick=5)
    assert world.service.indexed == []


def test_reenabled_indexing_is_tried_again(waiting):
    world = waiting(call="wipes")
    world.live(120)
    world.restart()
    assert world.site.indexer.stopped
    world.restart(schedule={"index": "off", "verify": "60s"})
    facts = [world.ledger.reports.fact(fact) for fact in (SUSPECT, INDEX_STOPPED)]
    assert facts == [None, None]
    world.service.index_call = "adds"
    world.restart(schedule={"index": "60s", "verify": "60s"})
    world.write("later", b"later")
    world.scan_and_send()
    world.live(300)
    assert len(world.service.indexed) == 2
    assert not world.site.indexer.stopped


@pytest.fixture
def trickling(make_world):
    """Have `count` files arrive one a second, each looked up in the database; gives the times of the calls."""

    def run(count: int = 40, *, interval: float = 4.0, call: str = "adds", restarts: tuple[int, ...] = ()):
        world = make_world(schedule={"index": f"{interval:g}s", "verify": "1s"})
        world.service.index_lag = None
        world.service.index_call = call
        times: list[float] = []
        index = world.service.index

        def noted(assetids):
            times.append(world.clock.now())
            return index(assetids)

        world.service.index = noted
        for number in range(count):
            if number in restarts:
                world.restart()
            world.write(f"{number}", f"content {number}".encode())
            world.scan_and_send()
            world.live(1, tick=0.1)
        world.live(5 * interval, tick=0.1)
        return world, times

    return run


def test_what_arrives_singly_is_indexed_together(trickling):
    world, times = trickling()
    assert set(world.states().values()) == {State.VERIFIED}
    assert all(later - earlier >= 4.0 for earlier, later in itertools.pairwise(times))
    assert 8 <= len(times) <= 14
    assert sum(map(len, world.service.indexed)) == 40


def test_restart_neither_calls_early_nor_forgets(trickling):
    world, times = trickling(restarts=tuple(range(5, 40)))
    assert set(world.states().values()) == {State.VERIFIED}
    assert all(later - earlier >= 4.0 for earlier, later in itertools.pairwise(times))
    assert sum(map(len, world.service.indexed)) == 40


def test_only_a_full_call_is_followed_at_once(waiting):
    world = waiting(450)
    world.live(70)
    assert [len(ids) for ids in world.service.indexed] == [200, 200, 50]
    assert len({i for ids in world.service.indexed for i in ids}) == 450


def test_failed_call_is_repeated_an_interval_later(waiting):
    world = waiting()
    index, tried = world.service.index, []

    def refuse(_ids):
        tried.append(world.clock.now())
        raise ServiceUnreachable("down")

    world.service.index = refuse
    world.live(59 + 58)
    assert len(tried) == 1, tried
    world.service.index = index
    world.live(60)
    assert set(world.states().values()) == {State.VERIFIED}
