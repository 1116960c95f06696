"""A run of the uploads: its threads, group commit, and each kind of stop.

Covers `sync/upload/worker.py`.
"""

import errno
import os
import sqlite3
import threading
import time
from contextlib import closing, nullcontext, suppress

import pytest

from assetsync.core.gate import Trouble
from assetsync.errors import LedgerError, OutOfResources
from assetsync.model import State
from assetsync.sync.upload import gather
from assetsync.sync.upload.queue import Step
from tests.world import FOLDER, FullDisk

WORKERS = 4
PATIENCE = 60
_OPEN = "SELECT sent_name FROM attempts WHERE closed_at IS NULL ORDER BY id"


@pytest.fixture
def world(make_world):
    """A world whose first file is stored, so that its folder is listed."""
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
    return world.site.uploader.run(lambda: True)


def open_attempts(world):
    with closing(sqlite3.connect(world.ledger_path)) as conn:
        return [name for (name,) in conn.execute(_OPEN)]


def stored(world) -> int:
    return list(world.states().values()).count(State.STORED)


def hold_answers(world, *names):
    """Let the answers for these files, or for all, come only once the returned event is set."""
    come = threading.Event()
    world.service.has_answered = lambda request: come.is_set() or (bool(names) and request.filename not in names)
    return come


def wait_until(condition) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


class Running:
    """A run in a thread of its own, until nothing is left or `stop`."""

    def __init__(self, world):
        self._world = world
        self._goes_on = True
        self.ended: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.ended.append(self._world.site.uploader.run(lambda: self._goes_on))
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            self.ended.append(error)

    def stop(self) -> None:
        self._goes_on = False

    def join(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.ended[0]


def test_intents_and_results_share_commits(world):
    write(world, 12)
    before = world.ledger.store._commits.count
    assert run(world) is Step.IDLE
    # One for each intent, and for the last result before each wait. Without a shared commit there would be 24.
    assert world.ledger.store._commits.count - before <= 12 + 2 * WORKERS
    assert set(world.states().values()) == {State.STORED}
    assert len(world.service.posts) == 13


def test_one_worker_commits_once_a_file(make_world):
    world = make_world(upload={"workers": "1"})
    world.service.put(b"there", "there")
    world.write("first", b"first")
    world.scan()
    run(world)
    write(world, 10)
    before = world.ledger.store._commits.count
    assert run(world) is Step.IDLE
    assert world.ledger.store._commits.count - before == 11


def test_no_more_attempts_are_open_than_workers(world):
    write(world, 20)
    found = []

    def look(request) -> None:
        time.sleep(0.05)
        found.append((request.filename, open_attempts(world)))

    world.service.during_upload = look
    run(world)
    assert all(name in names and len(names) <= WORKERS for name, names in found)
    assert max(len(names) for _, names in found) == WORKERS
    assert len(found) == 20


def test_large_file_keeps_no_other_back(world):
    """The upload of a large file hangs; eight small files are sent meanwhile."""
    world.write("large", bytes(9 << 20))
    write(world, 8)
    reached, go_on = threading.Event(), threading.Event()

    def hang(request) -> None:
        if request.filename == "large":
            reached.set()
            assert go_on.wait(PATIENCE)

    world.service.receiving = hang
    running = Running(world)
    assert reached.wait(PATIENCE)
    wait_until(lambda: stored(world) == 9)
    assert open_attempts(world) == ["large"]
    go_on.set()
    assert running.join() is Step.IDLE
    assert set(world.states().values()) == {State.STORED}


def test_files_that_cannot_be_sent_keep_no_other_back(world, monkeypatch):
    """One has changed, one has vanished, and the name of one is in use by another attempt."""
    write(world, 4)
    world.write("00", b"changed")
    (world.root / "01").unlink()
    preparer, queue = world.site.preparer, world.ledger.queue
    prepare = preparer.prepare

    def be_overtaken(row, *said):
        ready = prepare(row, *said)
        if row.path == b"02":
            world.write("x/02", b"of the same name")
            world.scan()
            other = prepare(world.row("x/02"))
            other.file.close()
            queue.begin(other.intent, world.clock.now())
        return ready

    monkeypatch.setattr(preparer, "prepare", be_overtaken)
    run(world)
    assert world.states() == {
        "00": State.STORED, "02": State.QUEUED, "03": State.STORED, "first": State.STORED, "x/02": State.SENDING,
    }  # fmt: skip
    monkeypatch.undo()
    world.restart()
    world.live(300)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 5


def test_lost_answer_leaves_one_doubt(world):
    write(world, 4)
    world.service.script.extend(["accept", "lost_after", "accept", "accept"])
    run(world)
    assert list(world.states().values()).count(State.IN_DOUBT) == 1
    world.live(300)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 5


def test_service_that_is_down_causes_no_doubt(world):
    write(world, 8)
    world.service.down = True
    assert run(world) is Step.PAUSED
    assert sorted(world.states().values()) == [State.QUEUED] * 8 + [State.STORED]
    assert open_attempts(world) == []
    world.service.down = False
    world.live(200)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 9


def test_crash_leaves_no_more_doubts_than_workers(world):
    """An exception ends the run in the middle of an upload, as a crash does; files read ahead are not in doubt."""
    write(world, 8)

    class Dies(BaseException):
        pass

    def die(request) -> None:
        if request.filename == "02":
            raise Dies

    world.service.during_upload = die
    with pytest.raises(Dies):
        run(world)
    world.service.during_upload = lambda _request: None
    # A process that dies takes its threads along.
    wait_until(lambda: not any(thread.name.startswith("upload-") for thread in threading.enumerate()))
    world.restart()
    assert 0 < list(world.states().values()).count(State.IN_DOUBT) <= WORKERS
    world.live(300)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 9


def test_unexpected_error_ends_the_run(world):
    """The other uploads in flight end first, and their results are recorded."""
    write(world, 8)

    def fail(request) -> None:
        if request.filename == "02":
            raise ZeroDivisionError

    world.service.during_upload = fail
    with pytest.raises(ZeroDivisionError):
        run(world)
    assert open_attempts(world) == ["02"]


@pytest.mark.parametrize("posts", [1, 2, 3])
def test_ledger_that_fails_before_a_file_loses_no_result(world, posts):
    """The daemon asks the ledger about brakes before each file."""
    write(world, 6)

    def go_on() -> bool:
        if len(world.service.posts) > posts:
            raise LedgerError("disk I/O error")
        return True

    with pytest.raises(LedgerError):
        world.site.uploader.run(go_on)
    assert open_attempts(world) == []
    assert not world.site.upload_queue.has_leased
    assert run(world) is Step.IDLE
    assert set(world.states().values()) == {State.STORED}
    assert len(world.service.posts) == 7


def test_hanging_answer_keeps_no_other_back(world):
    write(world, 10)
    come = hold_answers(world, "00")
    running = Running(world)
    wait_until(lambda: stored(world) == 10)
    assert world.states()["00"] is State.SENDING
    come.set()
    assert running.join() is Step.IDLE
    assert set(world.states().values()) == {State.STORED}


def test_new_file_is_sent_beside_a_hanging_one(world):
    write(world, 1)
    come = hold_answers(world, "00")
    running = Running(world)
    wait_until(lambda: world.states()["00"] is State.SENDING)
    world.write("new", b"new")
    world.scan()
    world.site.uploads.selection.forget()
    wait_until(lambda: world.states()["new"] is State.STORED)
    come.set()
    assert running.join() is Step.IDLE


def test_stop_ends_uploads_in_flight(world):
    """SIGTERM, or a brake: what is in flight ends, what is prepared waits for the next run."""
    write(world, 12)
    come = hold_answers(world)
    running = Running(world)
    wait_until(lambda: len(world.posted()) == 1 + WORKERS)
    running.stop()
    time.sleep(0.05)
    assert running.ended == []
    come.set()
    assert running.join() is Step.WORKED
    assert open_attempts(world) == []
    assert sorted(world.states().values()) == [State.QUEUED] * 8 + [State.STORED] * 5
    assert run(world) is Step.IDLE
    assert set(world.states().values()) == {State.STORED}


@pytest.fixture
def slow_commit(world, monkeypatch):
    """Let the first commit that holds intents wait for `slow_commit.go_on`."""

    class Slow:
        reached, go_on = threading.Event(), threading.Event()

        @classmethod
        def wait(cls):
            """Wait until the commit is reached, and the intents of the other workers wait for the next one."""
            assert cls.reached.wait(PATIENCE)
            wait_until(lambda: len(commits._queue) == WORKERS - 1)

    commits = world.ledger.store._commits
    real = commits._commit

    def commit(conn):
        if not Slow.reached.is_set() and conn.execute(_OPEN).fetchone():
            Slow.reached.set()
            assert Slow.go_on.wait(PATIENCE)
            world.clock.advance(1.0)
        real(conn)

    monkeypatch.setattr(commits, "_commit", commit)
    write(world, 8)
    return Slow


def test_stop_during_a_commit_sends_nothing(world, slow_commit):
    """The intents are taken back: no doubt is left, and the files still count as never tried."""
    running = Running(world)
    slow_commit.wait()
    running.stop()
    slow_commit.go_on.set()
    assert running.join() is Step.WORKED
    assert (world.posted(), open_attempts(world)) == (["first"], [])
    assert sorted(world.states().values()) == [State.QUEUED] * 8 + [State.STORED]
    assert {world.row(f"{number:02}").attempts for number in range(8)} == {0}
    assert run(world) is Step.IDLE
    assert len(world.service.assets) == 9


def test_window_that_closes_during_a_commit_stops(world, slow_commit):
    is_open = [True]
    world.site.gates.may_send = lambda: is_open[0]
    running = Running(world)
    slow_commit.wait()
    is_open[0] = False
    slow_commit.go_on.set()
    assert running.join() is Step.PAUSED
    assert (world.posted(), open_attempts(world)) == (["first"], [])
    is_open[0] = True
    assert run(world) is Step.IDLE
    assert len(world.service.assets) == 9


def test_trouble_during_a_commit_stops(world, slow_commit):
    running = Running(world)
    slow_commit.wait()
    world.site.gates.failed(Trouble("no_answer", "the service is gone"))
    slow_commit.go_on.set()
    assert running.join() is Step.PAUSED
    assert (world.posted(), open_attempts(world)) == (["first"], [])
    world.live(200)
    assert set(world.states().values()) == {State.VERIFIED}


def test_deleted_row_stops_no_taking_back(world, slow_commit, monkeypatch):
    """At a stop, files are taken back from the workers; the row of the first of them is gone."""
    take_back = world.site.uploads.results.take_back
    deleted: list[str] = []

    def delete_first(attempt, ready):
        if not deleted:
            deleted.append(ready.row.path.decode())
            world.ledger.store.write(lambda conn: conn.execute("DELETE FROM files WHERE id = ?", (ready.row.id,)))
        take_back(attempt, ready)

    monkeypatch.setattr(world.site.uploads.results, "take_back", delete_first)
    running = Running(world)
    slow_commit.wait()
    running.stop()
    slow_commit.go_on.set()
    assert running.join() is Step.WORKED
    assert run(world) is Step.IDLE
    assert len(deleted) == 1
    assert deleted[0] not in world.posted()
    assert set(world.states().values()) == {State.STORED}


def test_file_of_a_renamed_row_is_sent_once(world, slow_commit):
    """The file is moved while its intent is committed; the asset belongs to the file at its new path."""
    running = Running(world)
    slow_commit.wait()
    (world.root / "00").rename(world.root / "moved")
    slow_commit.go_on.set()
    running.join()
    world.scan()
    world.live(300)
    assert len(world.service.assets) == 9


def test_large_file_renamed_while_hashed_is_sent_once(world, monkeypatch):
    """Its new path is prepared, too, before the attempt of the old one would be recorded."""
    world.write("known", bytes(9 << 20))
    world.scan()
    run(world)
    world.write("old", bytes([1]) * (9 << 20))
    world.scan()
    hashed, is_asked = threading.Event(), threading.Event()
    real, hints = gather.digest, world.ledger.equal_content.hints

    def hash_slowly(file, stat, **said):
        md5 = real(file, stat, **said)
        if file.path == b"old":
            hashed.set()
            assert is_asked.wait(PATIENCE)
        return md5

    def note(row, md5):
        found = hints(row, md5)
        if row.path == b"new":
            is_asked.set()
        return found

    monkeypatch.setattr(gather, "digest", hash_slowly)
    monkeypatch.setattr(world.ledger.equal_content, "hints", note)
    running = Running(world)
    assert hashed.wait(PATIENCE)
    (world.root / "old").rename(world.root / "new")
    world.hint("new")
    world.site.upload_queue.clear()
    running.join()
    world.scan()
    world.live(300)
    assert world.posted() == ["first", "known", "new"]
    assert world.states() == dict.fromkeys(["first", "known", "new"], State.VERIFIED)


@pytest.mark.parametrize("commits", [1, 10_000], ids=["for_a_moment", "for_long"])
def test_full_disk_in_a_group_commit_loses_nothing(world, commits):
    write(world, 8)
    disk = FullDisk(world.ledger, commits)
    posted = len(world.service.posts)
    world.service.during_upload = lambda request: disk.fill() if request.filename == "03" else None
    if commits == 1:
        # A worker without a result begins no file while the ledger cannot be written.
        with suppress(LedgerError):
            run(world)
    else:
        with pytest.raises(LedgerError):
            run(world)
        disk.empty()
        world.restart()
    world.service.during_upload = lambda _request: None
    world.live(300)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == len(world.service.posts) == posted + 8


def test_failed_commit_opens_no_more_attempts_than_workers(world):
    """Results and intents share a transaction: no intent is on the disk without the result before it."""
    write(world, 12)
    disk = FullDisk(world.ledger, 3)
    most = []

    def during_upload(request) -> None:
        time.sleep(0.05)
        most.append(len(open_attempts(world)))
        if request.filename == "03":
            disk.fill()

    world.service.during_upload = during_upload
    ended = None
    while ended is not Step.IDLE:
        try:
            ended = run(world)
        except LedgerError:
            most.append(len(open_attempts(world)))
    assert max(most) == WORKERS
    assert set(world.states().values()) == {State.STORED}
    assert len(world.service.posts) == 13


def test_sidecar_that_changes_before_the_post_is_noticed(world, monkeypatch):
    """The sidecar comes between the preparation of a file and its intent."""
    write(world, 3)
    submit = world.ledger.queue.submit_begin

    def change_sidecar(intent, now):
        if intent.sent_name == "00":
            world.write("00.yaml", b"description: comes late\n")
            world.hint("00.yaml")
        return submit(intent, now)

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger.queue, "submit_begin", change_sidecar)
        run(world)
    world.live(300)
    while world.site.drift.step():
        pass
    assert "metadata changed" in world.row("00").drift
    assert {path: row for path, row in world.states().items() if row is not State.VERIFIED} == {}


@pytest.mark.parametrize(
    "error", [OutOfResources("no descriptor"), LedgerError("the disk is full"), OSError(errno.EIO, "no answer")]
)
def test_error_in_a_preparation_leaves_nothing_taken(world, monkeypatch, error):
    write(world, 80)
    find = world.site.preparer.dedupe.find
    raised = []

    def failing(row, md5):
        if not raised:
            raised.append(row)
            raise error
        return find(row, md5)

    monkeypatch.setattr(world.site.preparer.dedupe, "find", failing)
    with nullcontext() if isinstance(error, OutOfResources) else pytest.raises(type(error)):
        run(world)
    assert raised
    assert not world.site.upload_queue.has_leased
    assert world.site.gates._service.inside == 0
    world.clock.advance(10)
    world.site.gates.check()
    while len(world.posted()) < 81:
        run(world)
        world.clock.advance(10)
    assert len(set(world.posted())) == 81


@pytest.fixture
def recorded_before(make_world, monkeypatch):
    """Return a function that sends two files, and returns the state of the first when a step of the second begins."""
    world = make_world(upload={"workers": "1"})
    world.service.put(b"there", "there")
    world.write("first", b"first")
    world.scan_and_send()
    world.live(60)

    def run_with(owner, name, *, size=1):
        found = []
        real = getattr(owner, name)

        def note(*args, **said):
            found.append({*world.states().values()})
            return real(*args, **said)

        for letter in ("a", "b"):
            world.write(letter, letter.encode() * size)
        world.scan()
        monkeypatch.setattr(owner, name, note)
        assert run(world) is Step.IDLE
        # The first of the two is not queued any more, the second still is.
        (state,) = [states for states in found if State.QUEUED in states][-1] - {State.QUEUED, State.VERIFIED}
        return state

    run_with.world = world
    return run_with


def test_result_is_recorded_before_a_listing(recorded_before):
    world = recorded_before.world
    world.service.during_upload = lambda _request: world.ledger.folder_listings.again(FOLDER)
    assert recorded_before(world.service, "during_search") is State.STORED


@pytest.mark.parametrize(("size", "state"), [(256 * 1024, State.SENDING), (256 * 1024 + 1, State.STORED)])
def test_result_is_recorded_before_much_is_read(recorded_before, size, state):
    assert recorded_before(gather.FileBody, "load", size=size) is state


def test_result_is_recorded_before_more_of_a_slow_disk(recorded_before, monkeypatch):
    real = gather.Gathering._open

    def slowly(gathering, mapping):
        recorded_before.world.clock.advance(0.1)
        return real(gathering, mapping)

    monkeypatch.setattr(gather.Gathering, "_open", slowly)
    assert recorded_before(gather.Gathering, "_metadata") is State.STORED


@pytest.fixture
def unprocessed(make_world):
    """A world with 40 unprocessed assets in a folder that was listed long ago, and files of their names among others.

    The assets are processed by now: they are not these files.
    """
    world = make_world(upload={"workers": str(WORKERS)})
    for number in range(40):
        world.service.put(b"film", f"30 film {number}").processed_at = world.clock.now() + 100
    world.write("first")
    world.scan()
    run(world)
    world.clock.advance(120)
    for number in range(40):
        world.write(f"30 film {number}")
    return world


def test_files_that_wait_for_a_listing_follow_soon(unprocessed):
    write(unprocessed, 60)
    unprocessed.service.during_search = lambda _request: time.sleep(0.1)
    run(unprocessed)
    unprocessed.clock.advance(5)
    run(unprocessed)
    assert len(unprocessed.posted()) == 101


def test_files_of_a_listed_folder_follow_at_once(make_world, monkeypatch):
    """The first file of a folder waits for the listing, the others of the folder for the first."""
    monkeypatch.setattr("assetsync.sync.upload.uploader._LOOK_AGAIN", PATIENCE)
    world = make_world(upload={"workers": str(WORKERS)})
    world.service.put(b"there", "there")
    come = hold_answers(world)
    world.service.during_search = lambda _request: time.sleep(0.05)
    write(world, 8)
    running = Running(world)
    began = time.monotonic()
    wait_until(lambda: len(world.posted()) == WORKERS)
    assert time.monotonic() - began < PATIENCE / 2
    come.set()
    assert running.join() is Step.IDLE


def test_ledger_trouble_gives_taken_files_back(world, monkeypatch):
    write(world, 4)
    take, calls = world.site.upload_queue.take, []

    def fail_at_the_third(*choices):
        calls.append(1)
        if len(calls) == 3:
            raise LedgerError("the disk has trouble")
        return take(*choices)

    with monkeypatch.context() as patch:
        patch.setattr(world.site.upload_queue, "take", fail_at_the_third)
        with pytest.raises(LedgerError):
            run(world)
    assert run(world) is Step.IDLE
    assert set(world.states().values()) == {State.STORED}


def test_ledger_that_fails_for_the_next_file_loses_no_result(make_world, monkeypatch):
    """One worker: the result of its first file waits for the intent of the second, which cannot be looked for."""
    world = make_world(upload={"workers": "1"})
    world.service.put(b"there", "there")
    write(world, 2)
    take = world.site.upload_queue.take

    def fail_after_the_first(*choices):
        if world.service.posts:
            raise LedgerError("the disk has trouble")
        return take(*choices)

    with monkeypatch.context() as patch:
        patch.setattr(world.site.upload_queue, "take", fail_after_the_first)
        with pytest.raises(LedgerError):
            run(world)
    assert (stored(world), open_attempts(world)) == (1, [])
    assert not world.site.upload_queue.has_leased


def test_ended_run_leaves_no_threads(world):
    before = threading.active_count()
    write(world, 20)
    run(world)
    wait_until(lambda: threading.active_count() <= before)


def test_runs_leave_no_descriptors(world):
    run(world)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        run(world)
    assert len(os.listdir("/proc/self/fd")) == before
