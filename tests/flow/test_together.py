"""Several small files that one worker sends together: one commit, each for itself when something goes wrong."""

import sqlite3
import threading
from contextlib import closing

import pytest

from assetsync.errors import LedgerError
from assetsync.flow.crew import OVERDUE
from assetsync.flow.send import Step
from assetsync.model import State
from tests.world import FullDisk

WORKERS = 4
_OPEN = "SELECT sent_name FROM attempts WHERE closed_at IS NULL ORDER BY id"


@pytest.fixture
def quick(make_world):
    """A world in which answers come at once, which is known by a first file."""
    world = make_world(upload={"workers": str(WORKERS)})
    world.service.waited = 0.0
    world.write("first", b"first")
    world.scan()
    run(world)
    return world


def write(world, count, *, folder=""):
    for number in range(count):
        world.write(f"{folder}{number:02}", f"{folder}{number}".encode())
    world.scan()


def run(world) -> Step:
    return world.site.sender.run(lambda: True)


def open_attempts(world):
    with closing(sqlite3.connect(world.ledger_path)) as conn:
        return [name for (name,) in conn.execute(_OPEN)]


def test_intents_of_several_files_go_into_one_commit_with_what_became_of_those_before(quick):
    write(quick, 12)
    before = quick.ledger.store.commits
    assert run(quick) is Step.IDLE
    assert quick.ledger.store.commits - before == 12 / WORKERS + 1
    assert set(quick.states().values()) == {State.STORED}
    assert len(quick.service.posts) == 13


def test_all_of_them_are_on_the_disk_before_the_first_leaves_and_never_more_than_there_are_workers(quick):
    write(quick, 10)
    found = []
    quick.service.during_upload = lambda request: found.append((request.filename, open_attempts(quick)))
    run(quick)
    assert [name for name, _ in found] == [f"{number:02}" for number in range(10)]
    assert all(name in names and len(names) <= WORKERS for name, names in found)
    assert {len(names) for _, names in found} == {4, 2}


def test_a_step_takes_one(quick):
    write(quick, 3)
    assert quick.site.sender.step() is Step.WORKED
    assert sorted(quick.states().values()) == [State.QUEUED] * 2 + [State.STORED] * 2


def test_a_long_file_and_one_of_another_folder_go_by_themselves(make_world):
    folders = [{"path": "a", "destfolderid": "FA"}, {"path": "b", "destfolderid": "FB"}]
    world = make_world(upload={"workers": str(WORKERS)}, folders=folders)
    world.service.waited = 0.0
    world.write("a/0", b"first")
    world.write("b/0", b"first")
    world.scan()
    run(world)
    found = []
    world.service.during_upload = lambda request: found.append(open_attempts(world))
    write(world, 2, folder="a/a")
    write(world, 2, folder="b/b")
    world.write("b/long", bytes(1 << 20))
    world.scan()
    run(world)
    assert found == [["a00", "a01"]] * 2 + [["b00", "b01"]] * 2 + [["long"]]


def test_with_a_rate_each_goes_by_itself(make_world):
    world = make_world(upload={"workers": str(WORKERS), "rate": "1MB/s"})
    world.service.waited = 0.0
    write(world, 4)
    found = []
    world.service.during_upload = lambda request: found.append(open_attempts(world))
    run(world)
    assert [len(names) for names in found] == [1] * 4


def test_one_that_changed_one_that_vanished_and_one_whose_name_is_busy_keep_nobody_back(quick, monkeypatch):
    write(quick, 4)
    quick.write("x/02", b"of the same name")
    quick.scan()
    quick.write("00", b"changed")
    (quick.root / "01").unlink()
    preparer, queue = quick.site.preparer, quick.ledger.queue
    prepare = preparer.prepare

    def be_overtaken(row):
        ready = prepare(row)
        if row.path == b"03":
            other = prepare(quick.row("x/02"))
            other.file.close()
            queue.begin(other.intent, quick.clock.now())
        return ready

    monkeypatch.setattr(preparer, "prepare", be_overtaken)
    run(quick)
    assert quick.states() == {
        "00": State.STORED, "02": State.QUEUED, "03": State.STORED, "first": State.STORED, "x/02": State.SENDING,
    }  # fmt: skip
    monkeypatch.undo()
    quick.restart()
    quick.live(300)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == 5


def test_one_whose_answer_is_lost_leaves_one_doubt_and_the_others_are_stored(quick):
    write(quick, 4)
    quick.service.script.extend(["accept", "lost_after", "accept", "accept"])
    run(quick)
    assert sorted(quick.states().values()) == [State.IN_DOUBT] + [State.STORED] * 4
    quick.live(300)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == 5


def test_a_service_that_is_down_leaves_all_of_them_queued_and_none_in_doubt(quick):
    write(quick, 8)
    quick.service.down = True
    run(quick)
    assert sorted(quick.states().values()) == [State.QUEUED] * 8 + [State.STORED]
    assert open_attempts(quick) == []
    quick.service.down = False
    quick.live(200)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == 9


def test_a_crash_among_them_leaves_no_more_doubts_than_workers_and_doubles_none(quick):
    write(quick, 8)

    class Dies(BaseException):
        pass

    def die(request) -> None:
        if request.filename == "02":
            raise Dies

    quick.service.during_upload = die
    with pytest.raises(Dies):
        run(quick)
    quick.service.during_upload = lambda _request: None
    quick.restart()
    assert sorted(quick.states().values()) == [State.IN_DOUBT] * 4 + [State.QUEUED] * 4 + [State.STORED]
    quick.live(300)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == 9


def test_an_answer_that_hangs_keeps_the_others_from_nobody(quick):
    write(quick, 6)
    hangs, go_on = threading.Event(), threading.Event()

    def answer(request) -> None:
        if request.filename == "00":
            hangs.set()
            assert go_on.wait(10)

    quick.service.answering = answer
    leader = threading.Thread(target=run, args=(quick,))
    leader.start()
    assert hangs.wait(10)
    try:
        assert run(quick) is Step.CROWDED
        quick.clock.advance(2 * OVERDUE)
        assert run(quick) is Step.IDLE
        states = quick.states()
        assert states.pop("00") is State.SENDING
        assert set(states.values()) == {State.STORED}
    finally:
        go_on.set()
        leader.join()
    assert set(quick.states().values()) == {State.STORED}
    assert len(quick.service.assets) == 7


def test_what_does_not_leave_in_a_moment_lets_each_of_the_others_go_by_itself(quick):
    write(quick, 4)
    together = []
    real = quick.service.start

    def start(request, body):
        together.append(request.filename)
        quick.clock.advance(2 * OVERDUE)
        return real(request, body)

    quick.service.start = start
    run(quick)
    assert together == ["00"]
    assert set(quick.states().values()) == {State.STORED}


@pytest.mark.parametrize("full", [1, 10_000], ids=["for_a_moment", "for_long"])
def test_a_disk_that_is_full_when_they_begin_loses_nothing_of_those_before_and_sends_none_twice(quick, full):
    write(quick, 8)
    disk = FullDisk(quick.ledger, full)
    posted = len(quick.service.posts)

    def fill(request) -> None:
        if request.filename == "03":
            disk.fill()

    quick.service.answering = fill
    if full == 1:
        assert run(quick) is Step.IDLE
    else:
        with pytest.raises(LedgerError):
            run(quick)
        disk.empty()
        quick.restart()
    quick.service.answering = lambda _request: None
    quick.live(300)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == len(quick.service.posts) == posted + 8


def test_trouble_while_they_are_taken_gives_all_back(quick, monkeypatch):
    write(quick, 4)
    take, calls = quick.site.feed.take, []

    def fail_at_the_third(*choices, **said):
        calls.append(1)
        if len(calls) == 3:
            raise LedgerError("the disk has trouble")
        return take(*choices, **said)

    with monkeypatch.context() as patch:
        patch.setattr(quick.site.feed, "take", fail_at_the_third)
        with pytest.raises(LedgerError):
            run(quick)
    assert run(quick) is Step.IDLE
    assert set(quick.states().values()) == {State.STORED}
