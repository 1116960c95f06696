"""Pauses in the ledger: kept over a restart, counted down, and an SQL condition for what they cover."""

import pytest

from assetsync.core.pauses import OperatorPause
from assetsync.ledger.ledger import read_ledger
from assetsync.ledger.pauses import paused


@pytest.fixture
def world(make_world):
    return make_world()


def pause(world, path=b"photos", seconds=100.0):
    now, until = world.clock.now(), world.clock.now() + seconds
    world.ledger.pauses.begin(OperatorPause(path, "ann", "why", now, until, seconds))
    world.ledger.pauses.count(world.clock)


def paths(world):
    return [each.path for each in world.ledger.pauses.in_force(world.clock)]


def test_pause_survives_a_restart(world):
    pause(world)
    world.restart()
    assert paths(world) == [b"photos"]
    world.clock.advance(100)
    assert paths(world) == []


def test_second_pause_of_a_path_replaces_the_first(world):
    pause(world)
    pause(world, seconds=10.0)
    pause(world, b"docs")
    assert sorted(paths(world)) == [b"docs", b"photos"]
    world.clock.advance(10)
    assert paths(world) == [b"docs"]


def test_ended_pause_is_forgotten_once(world):
    pause(world)
    world.clock.advance(100)
    assert [each.path for each in world.ledger.pauses.count(world.clock)] == [b"photos"]
    assert world.ledger.pauses.count(world.clock) == []
    assert world.ledger.pauses.recorded() == ()


def test_what_is_left_is_recorded_each_minute(world):
    pause(world, seconds=1_000.0)
    commits = []
    for _ in range(180):
        world.clock.advance(1)
        before = world.ledger.store.fact("operator_pauses")
        world.ledger.pauses.count(world.clock)
        commits += [world.ledger.store.fact("operator_pauses")] * (world.ledger.store.fact("operator_pauses") != before)
    assert len(commits) == 3, "records in three minutes"
    world.clock.reboot()
    world.clock.set_now(world.clock.now() - 3_600)
    world.restart()
    assert paths(world) == [b"photos"]
    world.clock.advance(821)
    assert paths(world) == []


def test_reader_sees_pauses_of_the_holder(world):
    pause(world)
    reader = read_ledger(world.ledger_path)
    now = world.clock.now()
    try:
        assert [each.path for each in reader.pauses.shown(now)] == [b"photos"]
        world.ledger.pauses.end([b"photos"])
        assert reader.pauses.shown(now) == ()
    finally:
        reader.close()


def test_condition_names_files_at_and_below_the_paths(world):
    for path in ("photos/a.jpg", "photos2/a.jpg", "docs/x.pdf", "docs/y/z.pdf"):
        world.write(path)
    world.scan()

    def found(*names):
        sql = f"SELECT path FROM files WHERE {paused(names)} ORDER BY path"
        return [path.decode() for path in world.ledger.store.column(sql)]

    assert found(b"photos", b"docs/x.pdf") == ["docs/x.pdf", "photos/a.jpg"]
    assert (found(), len(found(b""))) == ([], 4)
    assert world.ledger.reports.count_paused([b"docs"]) == 2
