"""Small files of which one worker has several under way: few commits, and each for itself when something goes wrong."""

import sqlite3
import threading
from contextlib import closing

import pytest

from assetsync.errors import LedgerError
from assetsync.model import State
from assetsync.sync.upload.in_flight import LEAD
from assetsync.sync.upload.uploader import Step
from tests.world import FullDisk

WORKERS = 4
_OPEN = "SELECT sent_name FROM attempts WHERE closed_at IS NULL ORDER BY id"


@pytest.fixture
def quick(make_world):
    """A world of which a first file has told that answers can be waited for together."""
    world = make_world(upload={"workers": str(WORKERS)})
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


def test_an_answer_that_does_not_come_keeps_no_other_file_back(quick):
    write(quick, 10)
    hangs = ["00"]
    quick.service.has_answered = lambda request: request.filename not in hangs
    seen = []

    def go_on() -> bool:
        states = quick.states()
        seen.append(states["00"])
        if list(states.values()).count(State.STORED) == 10:
            hangs.clear()
        return True

    assert quick.site.sender.run(go_on) is Step.IDLE
    assert set(seen[1:-2]) == {State.SENDING}
    assert set(quick.states().values()) == {State.STORED}


def test_an_outcome_is_on_the_disk_while_others_are_waited_for(quick):
    write(quick, 2)
    hangs = ["00"]
    quick.service.has_answered = lambda request: request.filename not in hangs

    def go_on() -> bool:
        with closing(sqlite3.connect(quick.ledger_path)) as conn:
            states = dict(conn.execute("SELECT CAST(path AS TEXT), state FROM files"))
        if (states["00"], states["01"]) == (State.SENDING, State.STORED):
            hangs.clear()
        return True

    assert quick.site.sender.run(go_on) is Step.IDLE
    assert hangs == []


def test_a_run_ends_with_nothing_under_way(quick):
    write(quick, 4)
    looks = []
    quick.service.has_answered = lambda _request: looks.append(1) or len(looks) > 20
    assert quick.site.sender.run(lambda: False) is Step.WORKED
    assert open_attempts(quick) == []
    assert set(quick.states().values()) == {State.STORED}


def test_by_a_proxy_each_worker_waits_for_its_own(make_world):
    world = make_world(upload={"workers": str(WORKERS)})
    world.service.by_proxy = True
    write(world, 6)
    found = []
    world.service.during_upload = lambda request: found.append(open_attempts(world))
    assert run(world) is Step.IDLE
    assert found == [[f"{number:02}"] for number in range(6)]
    assert set(world.states().values()) == {State.STORED}


def test_a_service_to_which_no_connection_comes_about_is_asked_once_and_the_others_are_taken_back(quick):
    write(quick, 4)
    started = []
    real = quick.service.start

    def start(request, body):
        started.append(request.filename)
        quick.clock.advance(10.0)
        quick.service.down = True
        underway = real(request, body)
        underway.fileno = lambda: None
        return underway

    quick.service.start = start
    run(quick)
    assert started == ["00"]
    assert open_attempts(quick) == []
    assert sorted(quick.states().values()) == [State.QUEUED] * 4 + [State.STORED]
    quick.service.start, quick.service.down = real, False
    quick.live(200)
    assert set(quick.states().values()) == {State.VERIFIED}


def test_where_one_takes_its_time_to_leave_a_stop_takes_the_others_back(quick):
    write(quick, 4)
    real = quick.service.start

    def start(request, body):
        quick.clock.advance(2 * LEAD)
        return real(request, body)

    quick.service.start = start
    assert quick.site.sender.run(lambda: False) is Step.WORKED
    assert open_attempts(quick) == []
    assert sorted(quick.states().values()) == [State.QUEUED] * 3 + [State.STORED] * 2


def test_what_could_not_be_sent_is_sent_by_another_worker_where_the_one_that_leads_hangs(quick):
    write(quick, 4)
    hangs, go_on = threading.Event(), threading.Event()
    real = quick.service.start

    def start(request, body):
        if request.filename == "00":
            hangs.set()
            assert go_on.wait(10)
        return real(request, body)

    quick.service.start = start
    leader = threading.Thread(target=run, args=(quick,))
    leader.start()
    assert hangs.wait(10)
    try:
        quick.clock.advance(2 * LEAD)
        assert run(quick) is Step.IDLE
        states = quick.states()
        assert (states.pop("00"), set(states.values())) == (State.SENDING, {State.STORED})
    finally:
        go_on.set()
        leader.join()
    assert set(quick.states().values()) == {State.STORED}


def test_while_outcomes_wait_for_the_ledger_no_more_are_open_than_there_are_workers(quick):
    write(quick, 12)
    disk = FullDisk(quick.ledger, 2)
    most, waits = [], []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        other = threading.Thread(target=quick.site.sender.run, args=(lambda: False,))
        quick.clock.advance(2 * LEAD)
        other.start()
        other.join()
        most.append(len(open_attempts(quick)))
        return False

    quick.service.ending = lambda request: disk.fill() if request.filename == "03" and not waits else None
    quick.site.sender.results._clock = WaitingClock(quick.clock, wait)
    run(quick)
    assert waits
    assert max(most) <= WORKERS


class WaitingClock:
    """The clock of a world, of which one does something else while it waits."""

    def __init__(self, clock, wait):
        self._clock = clock
        self.wait = wait

    def __getattr__(self, name):
        return getattr(self._clock, name)


def test_a_sidecar_that_changes_before_a_commit_that_fails_for_one_of_them_is_told_of(quick, monkeypatch):
    write(quick, 3)
    submit = quick.ledger.queue.submit_begin

    class Fails:
        def result(self):
            raise LedgerError("the disk has trouble")

    def fail_for_one(intent, now):
        if intent.sent_name != "01":
            return submit(intent, now)
        quick.write("00.yaml", b"description: comes late\n")
        quick.hint("00.yaml")
        return Fails()

    with monkeypatch.context() as patch:
        patch.setattr(quick.ledger.queue, "submit_begin", fail_for_one)
        with pytest.raises(LedgerError):
            run(quick)
    run(quick)
    quick.live(300)
    while quick.site.drift.step():
        pass
    assert "metadata changed" in quick.row("00").drift
    assert {path: row for path, row in quick.states().items() if row is not State.VERIFIED} == {}


def test_files_that_are_read_slowly_are_taken_one_by_each_worker(quick, monkeypatch):
    write(quick, 60)
    prepare = quick.site.preparer.prepare

    def slowly(row):
        quick.clock.advance(0.02)
        return prepare(row)

    monkeypatch.setattr(quick.site.preparer, "prepare", slowly)
    found = []
    quick.service.during_upload = lambda request: found.append(len(open_attempts(quick)))
    run(quick)
    assert max(found[:4]) > 1
    assert set(found[-30:]) == {1}
    assert len(found) == 60


@pytest.fixture
def full(quick, monkeypatch):
    """A world of 9 files of which as many are under way as may be until `full.hangs` is cleared; tells what is read."""
    write(quick, 9)
    quick.hangs = [True]
    quick.service.has_answered = lambda _request: not quick.hangs
    quick.read = []
    prepare = quick.site.preparer.prepare

    def note(row):
        quick.read.append(row.path.decode())
        return prepare(row)

    monkeypatch.setattr(quick.site.preparer, "prepare", note)
    return quick


def looks(world, count, then=lambda: None):
    """Look so often whether to go on, do something else, and let the answers come."""
    seen = []

    def go_on() -> bool:
        seen.append(1)
        if len(seen) == count:
            then()
            world.hangs.clear()
        return True

    return go_on


def test_while_all_that_may_be_is_under_way_the_next_files_are_made_ready(full):
    assert full.site.sender.run(looks(full, 6, lambda: full.read.append("come"))) is Step.IDLE
    assert full.read == ["00", "01", "02", "03", "04", "05", "06", "come", "07", "08"]
    assert set(full.states().values()) == {State.STORED}
    assert len(full.service.assets) == 10


def test_a_file_that_was_made_ready_long_ago_is_looked_at_again(full):
    assert full.site.sender.run(looks(full, 6, lambda: full.clock.advance(2.0))) is Step.IDLE
    assert sorted(full.read[7:]) == ["04", "05", "06", "07", "08"]
    assert set(full.states().values()) == {State.STORED}


def test_a_file_that_is_replaced_while_it_is_ready_is_sent_once_as_it_is_by_then(full):
    def replace() -> None:
        full.write("04", b"as it is by then")
        full.hint("04")

    assert full.site.sender.run(looks(full, 6, replace)) is Step.IDLE
    assert set(full.states().values()) == {State.STORED}
    assert full.service.assets[full.row("04").assetid].content == b"as it is by then"
    assert len(full.service.assets) == 10


def test_what_is_ready_when_a_run_ends_waits_for_the_next(full):
    seen = []

    def stop() -> bool:
        seen.append(1)
        if len(seen) == 6:
            full.hangs.clear()
        return len(seen) < 6

    assert full.site.sender.run(stop) is Step.WORKED
    assert sorted(full.states().values()) == [State.QUEUED] * 5 + [State.STORED] * 5
    assert full.site.sender.run(lambda: True) is Step.IDLE
    assert set(full.states().values()) == {State.STORED}


def test_trouble_that_comes_while_files_are_ready_keeps_them_from_being_sent(full):
    def trouble() -> None:
        full.site.circuit_breaker.trouble("no_answer", "the service is gone")

    assert full.site.sender.run(looks(full, 6, trouble)) is Step.PAUSED
    assert sorted(full.states().values()) == [State.QUEUED] * 5 + [State.STORED] * 5
    assert open_attempts(full) == []
    full.live(200)
    assert set(full.states().values()) == {State.VERIFIED}


@pytest.mark.parametrize("commits", [1, 10_000], ids=["for_a_moment", "for_long"])
def test_a_disk_that_is_full_when_they_begin_loses_nothing_of_those_before_and_sends_none_twice(quick, commits):
    write(quick, 8)
    disk = FullDisk(quick.ledger, commits)
    posted = len(quick.service.posts)

    def fill(request) -> None:
        if request.filename == "03":
            disk.fill()

    quick.service.ending = fill
    if commits == 1:
        assert run(quick) is Step.IDLE
    else:
        with pytest.raises(LedgerError):
            run(quick)
        disk.empty()
        quick.restart()
    quick.service.ending = lambda _request: None
    quick.live(300)
    assert set(quick.states().values()) == {State.VERIFIED}
    assert len(quick.service.assets) == len(quick.service.posts) == posted + 8


def test_trouble_while_they_are_taken_gives_all_back(quick, monkeypatch):
    write(quick, 4)
    take, calls = quick.site.upload_queue.take, []

    def fail_at_the_third(*choices, **said):
        calls.append(1)
        if len(calls) == 3:
            raise LedgerError("the disk has trouble")
        return take(*choices, **said)

    with monkeypatch.context() as patch:
        patch.setattr(quick.site.upload_queue, "take", fail_at_the_third)
        with pytest.raises(LedgerError):
            run(quick)
    assert run(quick) is Step.IDLE
    assert set(quick.states().values()) == {State.STORED}
