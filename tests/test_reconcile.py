"""One shot over the whole way: when it ends, what it reports, and what stops it."""

import os
import random
import shutil
import threading
import time

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from assetsync.app import build, make_service
from assetsync.clock import SystemClock
from assetsync.config.models import SiteConfig
from assetsync.errors import LedgerError, RootMissing
from assetsync.ledger.assets import INDEX_STOPPED
from assetsync.ledger.ledger import open_ledger
from assetsync.model import State
from assetsync.reconcile import Reconciler, Report, dry_run
from assetsync.sandbox import FaultKind, FaultRule, Operation, Sandbox, SandboxSettings
from assetsync.status.sentences import verdict
from assetsync.status.standing import stand
from assetsync.sync.requests import carry_out


class Told:
    """Keeps what a run tells of its progress."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.done = 0.0

    def phase(self, name: str, total: int | None = None) -> None:
        self.phases.append(name)

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        assert done >= 0
        self.done = done


def run(world, *, wait: float = 300.0, adopt: bool = False) -> Report:
    return Reconciler(world.site, wait=wait, adopt=adopt, progress=Told()).run()


def test_a_run_uploads_verifies_and_says_so_in_numbers(world):
    for number in range(7):
        world.write(f"d/{number}", b"x" * number or b"first")
    report = run(world)
    assert (report.scanned, report.uploaded, report.verified, report.pending, report.in_doubt, report.blocked) == (
        7, 7, 7, 0, 0, 0,
    )  # fmt: skip
    assert (report.bytes_uploaded, report.unchanged, report.in_sync, report.trouble) == (26, 0, True, None)
    again = run(world)
    assert (again.scanned, again.unchanged, again.verified, again.in_sync) == (7, 7, 7, True)
    assert len(world.service.posts) == 7


def test_a_ledger_that_was_put_back_from_a_backup_is_told_of(world):
    world.write("a")
    run(world)
    world.close()
    backup = world.ledger_path.read_bytes()
    with capture_logs() as said:
        run(world)
        world.close()
        assert [entry["event"] for entry in said if "put back from a backup" in entry["event"]] == []
        world.ledger_path.write_bytes(backup)
        assert run(world).in_sync
    assert [entry["log_level"] for entry in said if "put back from a backup" in entry["event"]] == ["warning"]


def test_a_run_with_nothing_to_do_ends_at_once_and_asks_the_service_nothing(world, clock):
    world.write("a")
    run(world)
    world.restart()
    world.service.searches.clear()
    began = clock.steady()
    report = run(world)
    assert (report.in_sync, report.uploaded, world.service.searches) == (True, 0, [])
    assert clock.steady() - began < 1


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda world: world.write("bad", b""), "blocked"),
        (lambda world: world.ledger.pull_brake("new_files", "site", "why", 1, 1.0), "braked"),
    ],
    ids=["blocked", "braked"],
)
def test_a_run_ends_early_when_nothing_that_is_left_depends_on_time(world, clock, make, count):
    world.write("a")
    make(world)
    began = clock.steady()
    report = run(world, wait=3600)
    assert clock.steady() - began < 60
    assert (getattr(report, count), report.in_sync) == (1, False)


def test_a_brake_keeps_everything_from_being_sent_and_what_waits_is_pending(world):
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    for number in range(3):
        world.write(f"{number}", f"{number}".encode())
    report = run(world)
    assert (report.uploaded, report.pending, report.braked, world.service.posts) == (0, 3, 1, [])


def test_a_brake_beside_a_file_that_never_becomes_findable_does_not_hold_a_run_for_ever(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    world.scan_and_send()
    world.write("b")
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    began = clock.steady()
    report = run(world, wait=100)
    assert (report.pending, report.braked) == (2, 1)
    assert 100 <= clock.steady() - began < 200


def test_a_brake_that_is_released_beside_a_run_lets_it_go_on(world, clock):
    world.service.index_lag = 50.0
    world.write("a")
    world.scan_and_send()
    world.write("b", b"b")
    world.restart()
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    world.service.during_search = lambda _request: world.ledger.resume(None, clock.now())
    report = run(world, wait=300)
    assert (report.verified, report.uploaded, report.in_sync) == (2, 1, True)


def test_without_a_wait_each_step_is_taken_once(world, clock):
    world.service.index_lag = 500.0
    world.write("a")
    began = clock.steady()
    report = run(world, wait=0)
    assert (report.uploaded, report.pending, report.verified, report.in_sync) == (1, 1, 0, False)
    assert clock.steady() - began < 30
    assert world.row("a").seen_at is not None


def test_what_comes_to_rest_while_the_service_is_down_is_said_to_be_at_rest(make_world):
    world = make_world(watch={"settle": "5s"})
    world.write("a")
    run(world)
    world.service.down = True
    world.write("b", mtime=world.clock.now())
    report = run(world, wait=60)
    assert (report.pending, world.row("b").state) == (1, State.QUEUED)
    assert len(world.site.settling) == 0


def test_a_wait_counts_from_the_last_answered_post(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    report = run(world, wait=120)
    assert report.pending == 1
    assert 120 <= clock.steady() - world.site.sender.poster.last_answer < 125


def test_uploads_that_fail_from_some_size_on_do_not_hold_a_run_up(world, clock):
    world.service.loses = lambda size: size > 1000
    for number in range(40):
        world.write(f"a-video-{number}", b"v" * 2000 + b"%d" % number)
        world.write(f"b-photo-{number}", b"photo %d" % number)
    began = clock.steady()
    report = run(world, wait=300)
    assert (report.verified, report.in_sync) == (40, False)
    assert report.pending + report.in_doubt + report.blocked == 40
    assert 300 <= clock.steady() - began < 1000


def test_too_many_doubts_that_nothing_decides_do_not_hold_a_run_for_ever(world, clock):
    world.service.processing = 10**9
    for number in range(15):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    world.service.script.extend(["lost_after"] * 15)
    for _ in range(9):
        world.site.circuit_breaker.answered()
        world.site.sender.step()
    world.service.script.clear()
    began = clock.steady()
    report = run(world, wait=200)
    assert (report.in_doubt, report.pending, report.in_sync) == (9, 6, False)
    assert clock.steady() - began < 400


@pytest.mark.parametrize(("wait", "least", "most"), [(0, 0, 30), (60, 60, 130)])
def test_a_service_that_is_down_is_trouble_and_no_failure_of_any_file(world, clock, wait, least, most):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.down = True
    began = clock.steady()
    report = run(world, wait=wait)
    assert least <= clock.steady() - began < most
    assert "nothing answers" in report.trouble
    assert (report.uploaded, report.pending, report.blocked, report.in_doubt) == (0, 10, 0, 0)
    assert {row.failures for row in world.ledger.reports.files()} == {0}


def test_a_service_that_answers_look_ups_and_no_post_ends_the_wait_too(world, clock):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.script.extend(["lost_before"] * 1000)
    began = clock.steady()
    report = run(world, wait=100)
    assert report.trouble is not None
    assert clock.steady() - began < 300
    assert len(world.service.posts) < 20


def test_a_refused_key_ends_a_run_soon_and_blocks_nothing(world, clock):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.key_refused = True
    began = clock.steady()
    report = run(world, wait=3600)
    assert clock.steady() - began < 60
    assert "API key" in report.trouble
    assert (report.pending, report.blocked, world.service.posts) == (10, 0, [])


def test_a_service_that_comes_back_within_the_wait_gets_everything(world):
    for number in range(5):
        world.write(f"{number}", f"{number}".encode())
    searches = 0

    def outage(_request) -> None:
        nonlocal searches
        searches += 1
        world.service.down = searches < 6

    world.service.during_search = outage
    report = run(world, wait=600)
    assert (report.verified, report.in_sync, report.trouble) == (5, True, None)


def test_a_lost_answer_is_resolved_within_the_run(world):
    world.write("a", b"a")
    world.write("b", b"b")
    world.service.script.extend(["lost_after", "lost_before"])
    report = run(world)
    assert (report.uploaded, report.verified, report.in_doubt, report.in_sync) == (2, 2, 0, True)
    assert len(world.service.assets) == 2


def test_what_an_unclean_stop_left_is_resolved_by_the_next_run(world):
    world.write("a")
    world.scan()
    (row,) = world.ledger.queue.due(world.clock.now(), 1)
    ready = world.site.sender._preparer.prepare(row)
    world.ledger.queue.begin(ready.intent, world.clock.now())
    ready.file.close()
    world.service.put(b"content", "a")
    world.close()
    report = run(world)
    assert (report.verified, report.adopted, world.service.posts) == (1, 1, [])


def test_a_stop_ends_a_run_and_is_reported(world, clock):
    for number in range(200):
        world.write(f"{number}", f"{number}".encode())

    def stop(_request) -> None:
        clock.stopped = len(world.service.posts) >= 5

    world.service.during_upload = stop
    report = run(world)
    assert (report.interrupted, report.in_sync) == (True, False)
    assert 5 <= report.uploaded < 20
    clock.stopped = False
    world.service.during_upload = lambda _request: None
    assert run(world).in_sync
    assert len(world.service.assets) == 200


def test_what_a_worker_did_not_expect_ends_the_run_and_surfaces(world):
    world.write("a")

    def explode(_request) -> None:
        raise ZeroDivisionError("in a worker")

    world.service.during_upload = explode
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        run(world)
    world.service.during_upload = lambda _request: None
    world.restart()
    report = run(world)
    assert (report.verified, report.in_sync) == (1, True)


def test_a_ledger_that_cannot_be_written_ends_the_run(world):
    for number in range(50):
        world.write(f"{number}", f"{number}".encode() * 100)
    world.scan()
    writer = world.ledger.store._writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]

    def fill(_request) -> None:
        writer.execute(f"PRAGMA max_page_count = {pages}")

    world.service.during_upload = fill
    with pytest.raises(LedgerError, match="full"):
        run(world)
    writer.execute("PRAGMA max_page_count = 100000")
    world.service.during_upload = lambda _request: None
    world.restart()
    report = run(world)
    assert (report.verified, len(world.service.assets)) == (50, 50)


def test_a_new_site_without_its_root_is_an_error_and_a_known_one_brakes(world):
    shutil.rmtree(world.root)
    with pytest.raises(RootMissing):
        run(world)
    world.root.mkdir()
    world.write("a")
    run(world)
    shutil.rmtree(world.root)
    report = run(world)
    assert (report.braked, report.verified, report.in_sync) == (1, 1, False)


def test_a_folder_that_cannot_be_read_keeps_a_run_from_being_in_sync(make_world, monkeypatch):
    world = make_world()
    world.write("a")
    world.write("d/b")
    from assetsync.tree import scan as module

    real = module.open_unmarked

    def refuse(name: bytes, flags: int, dir_fd: int | None = None) -> int:
        if name == b"d":
            raise PermissionError(13, os.strerror(13))
        return real(name, flags, dir_fd)

    monkeypatch.setattr(module, "open_unmarked", refuse)
    report = run(world)
    assert (report.verified, report.unreadable, report.in_sync) == (1, 1, False)


@pytest.fixture
def two_folders(make_world):
    """Give a world with a file for each of two folders, and what fails each look-up of the first so many times."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    for folder in ("F1", "F2"):
        world.write(f"{folder}/a", folder.encode())

    def failing(times: float) -> None:
        world.fail_for("F1", times=times)

    return world, failing


def test_a_folder_that_can_be_listed_a_little_later_is_sent_within_the_run(two_folders):
    world, failing = two_folders
    failing(2)
    report = run(world, wait=60)
    assert (report.uploaded, report.in_sync, report.trouble) == (2, True, None)


def test_a_folder_that_cannot_be_listed_is_left_after_the_wait_and_named(two_folders, clock):
    world, failing = two_folders
    failing(float("inf"))
    began = clock.steady()
    report = run(world, wait=60)
    assert 60 <= clock.steady() - began < 130
    assert (report.uploaded, report.pending, report.in_sync, report.trouble) == (1, 1, False, None)
    assert "F1" in stand(world.config(), world.ledger, clock.now()).holds


def test_a_folder_that_takes_no_upload_and_answers_no_look_up_neither_holds_up_the_others_nor_the_end(
    two_folders, clock
):
    world, failing = two_folders
    for number in range(40):
        world.write(f"F1/{number}", f"F1 {number}".encode())
    run(world)
    world.restart()
    for folder in ("F1", "F2"):
        for number in range(40, 80):
            world.write(f"{folder}/{number}", f"{folder} {number}".encode())

    def lose(request) -> None:
        if request.destfolderid == "F1":
            world.service.script.append("lost_before")

    world.service.before_upload = lose
    failing(float("inf"))
    began = clock.steady()
    report = run(world, wait=100)
    assert 100 <= clock.steady() - began < 400
    assert (report.uploaded, report.trouble, report.in_sync) == (40, None, False)
    assert report.pending + report.in_doubt == 40


@pytest.mark.parametrize("failing", [1, 2, 5])
def test_folders_whose_listing_times_out_keep_a_run_from_no_end(make_world, clock, failing):
    folders = [f"F{number}" for number in range(failing + 1)]
    world = make_world(
        folders=[{"path": folder, "destfolderid": folder} for folder in folders], upload={"workers": "1"}
    )
    for folder in folders:
        world.write(f"{folder}/a", folder.encode())
    world.fail_for(*folders[:failing], listings_only=True, takes=300.0)
    began = clock.steady()
    report = run(world, wait=60)
    assert clock.steady() - began < 300 * (failing + 2)
    assert (report.verified, report.pending) == (1, failing)


@pytest.mark.parametrize("wait", [0, 1])
def test_files_are_sent_within_the_run_whose_folder_was_full_of_doubts_at_its_start(two_folders, wait, monkeypatch):
    world, _failing = two_folders
    run(world)
    for number in range(4):
        world.write(f"F1/{number}", f"F1 {number}".encode())
        world.service.script.append("lost_after")
    world.scan()
    while world.service.script:
        world.send()
        world.restart()
    assert world.ledger.doubts.count() == 4
    for number in range(20):
        world.write(f"F1/more {number}", f"F1 more {number}".encode())
    # The workers wait in real time.
    known = world.clock.wait
    monkeypatch.setattr(world.clock, "wait", lambda seconds: (time.sleep(seconds), known(seconds))[1])
    report = run(world, wait=wait)
    assert (report.uploaded, report.pending, report.in_doubt) == (20, 0, 0)
    assert len(world.service.posts) == 2 + 4 + 20


def test_nothing_is_sent_into_a_folder_that_adopt_cannot_list(two_folders):
    world, failing = two_folders
    run(world)
    theirs = world.service.put(b"by hand", "theirs", "F1")
    world.write("F1/b", b"by hand")
    world.restart()
    failing(float("inf"))
    assert run(world, wait=60, adopt=True).uploaded == 0
    failing(0)
    world.restart()
    report = run(world, adopt=True)
    assert (report.uploaded, report.adopted, world.row("F1/b").assetid) == (0, 1, theirs.id)


@pytest.mark.parametrize("adopt", [False, True])
def test_adopt_lists_folders_that_were_known_before(world, adopt):
    world.write("a", b"a")
    run(world)
    theirs = world.service.put(b"by hand", "theirs")
    world.write("b", b"by hand")
    world.restart()
    report = run(world, adopt=adopt)
    assert (report.adopted, report.uploaded, report.in_sync) == ((1, 0, True) if adopt else (0, 1, True))
    assert (world.row("b").assetid == theirs.id) is adopt


def test_a_run_makes_the_audit_that_a_released_brake_is_owed(world):
    for number in range(30):
        world.write(f"{number}", b"%d" % number)
    run(world)
    world.clock.wait(3600.0)
    world.service.assets.clear()
    assert world.site.auditor.audit("F1").braked
    assert not run(world).in_sync
    world.clock.wait(1.0)
    carry_out(world.ledger, world.service, world.clock, "resume", {"id": None})
    standing = stand(world.config(), world.ledger, world.clock.now(), running=False)
    assert (standing.in_sync, verdict(standing)) == (False, "no process sends now: 1 folder to be audited")
    report = run(world)
    assert (report.blocked, report.undecided, report.in_sync, len(world.service.posts)) == (30, 0, False, 30)
    assert {row.reason for row in map(world.row, map(str, range(30)))} == {"missing"}
    assert "audit" in last_runs(world)


def test_a_run_sends_nothing_past_the_brake_of_an_audit_that_is_owed(world):
    for number in range(30):
        world.write(f"{number}", b"%d" % number)
    run(world)
    world.service.assets.clear()
    world.clock.wait(60.0)
    world.site.owed.ask()
    for number in range(50):
        world.write(f"new {number}", b"new %d" % number)
    told = Told()
    Reconciler(world.site, wait=300.0, adopt=False, progress=told).run()
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["missing"]
    assert len(world.service.posts) == 30
    assert told.phases == ["scan", "audit", "upload"]


def test_an_audit_that_is_owed_and_not_answered_is_made_by_a_later_run(world, monkeypatch):
    world.write("a")
    run(world)
    world.clock.wait(1.0)
    world.site.owed.ask()
    world.service.down = True
    assert run(world, wait=0).trouble is not None
    assert world.site.owed.folders() == ["F1"]
    world.service.down = False
    assert run(world).in_sync
    assert world.site.owed.folders() == []


def test_a_dry_run_counts_what_would_be_uploaded_and_does_nothing(world):
    world.write("a", b"a")
    run(world)
    world.write("b", b"four")
    world.write("a", b"changed")
    report = dry_run(world.site)
    assert (report.scanned, report.unchanged, report.uploaded, report.bytes_uploaded) == (2, 0, 2, 11)
    assert (report.verified, report.in_sync, len(world.service.posts)) == (1, False, 1)
    assert list(world.states()) == ["a"]


def test_a_dry_run_counts_the_bytes_of_what_is_queued_already(world):
    world.write("a", b"four")
    world.scan()
    world.write("b", b"seven77")
    report = dry_run(world.site)
    assert (report.uploaded, report.bytes_uploaded) == (2, 11)


def test_a_run_tells_its_phases_in_order(world):
    told = Told()
    world.write("a")
    Reconciler(world.site, wait=10, adopt=False, progress=told).run()
    assert told.phases == ["scan", "upload", "verify"]


def test_what_ends_after_an_interruption_is_told_of_in_the_phase_too(world, clock):
    told = Told()
    for number in range(200):
        world.write(f"{number}", f"{number}".encode())

    def stop(_request) -> None:
        if len(world.service.posts) >= 5:
            clock.stopped = True
            # The run has looked how far it is for the last time.
            time.sleep(0.3)

    world.service.during_upload = stop
    report = Reconciler(world.site, wait=10, adopt=False, progress=told).run()
    handled = world.site.context.progress.read().handled
    assert (told.phases, told.done) == (["scan", "upload"], handled)
    # A file that was only being read when the stop came is handled, and not uploaded.
    assert handled >= report.uploaded >= 5


def last_runs(world) -> set[str]:
    return set(world.ledger.runs.last())


def test_a_run_tells_when_it_indexed_and_read_back_and_how_long_that_took(world, clock):
    world.write("a")
    before = clock.now()
    run(world)
    runs = world.ledger.runs.last()
    assert runs.keys() == {"rescan", "index", "verify"}
    assert all(before <= runs[job].at <= clock.now() and runs[job].seconds >= 0 for job in ("index", "verify"))


@pytest.mark.parametrize(
    ("said", "trouble", "told"),
    [
        ({"schedule": {"index": "off"}}, False, {"rescan", "verify"}),
        ({}, True, {"rescan"}),
    ],
    ids=["index off", "outage"],
)
def test_a_run_does_not_tell_of_work_that_it_did_not_finish(make_world, said, trouble, told):
    world = make_world(**said)
    world.write("a")
    world.service.down = trouble
    run(world, wait=0)
    assert last_runs(world) == told


def test_a_run_whose_last_look_up_was_not_answered_does_not_tell_that_it_read_back(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    began = clock.steady()

    def break_down(_request):
        world.service.down = clock.steady() - began > 20

    world.service.during_search = break_down
    assert run(world, wait=100).trouble is not None
    assert last_runs(world) == {"rescan"}


def test_over_another_root_a_run_compares_no_sidecars(world):
    world.write("a.jpg", b"a")
    world.write("a.jpg.yaml", b"description: first")
    run(world)
    world.write("a.jpg.yaml", b"description: second one")
    world.scan()
    (world.base / "other").mkdir()
    world.restart(root=str(world.base / "other"))
    assert run(world, wait=0).braked == 1
    assert [row.drift for row in world.ledger.reports.files()] == ["unread"]


def test_an_interrupted_run_does_not_tell_that_it_read_back(world, clock):
    world.write("a")
    run(world)
    world.ledger.set_fact("last_verify", None)
    clock.stopped = True
    run(world)
    assert last_runs(world) == {"rescan", "index"}


def test_a_file_whose_second_look_fails_keeps_the_run_and_status_from_being_in_sync(make_world, clock):
    world = make_world(watch={"settle": "5s"})
    world.write("d/sent")
    world.write("d/settling", mtime=clock.now() + 1e6)
    world.service.during_upload = lambda _request: world.root.rename(world.base / "away")
    report = run(world)
    assert (world.posted(), report.verified, report.unreadable, report.in_sync) == (["sent"], 1, 1, False)
    assert not stand(world.config(), world.ledger, clock.now()).in_sync


def test_files_beyond_the_room_for_settling_keep_run_dry_run_and_status_from_being_in_sync(world, clock):
    world.write("a")
    settling = world.site.settling

    def find_no_room(_request) -> None:
        settling.overflowed = True

    world.service.during_upload = find_no_room
    report = run(world)
    assert (report.verified, report.pending, report.in_sync) == (1, 0, False)
    assert not dry_run(world.site).in_sync
    assert not stand(world.config(), world.ledger, clock.now()).in_sync


# The same with everything real: threads, clock, HTTP and the sandbox as the service.


class Real:
    """A site against a sandbox."""

    def __init__(self, world, sandbox: Sandbox) -> None:
        self.world = world
        self.sandbox = sandbox
        self.config: SiteConfig = world.config()
        self.ledger = open_ledger(world.ledger_path)
        self.stop = threading.Event()

    def run(self, *, wait: float = 20.0) -> Report:
        service = make_service(self.config, SecretStr("sandbox-key"))
        try:
            site = build(self.config, self.ledger, service, SystemClock(self.stop), random.Random(1))
            return Reconciler(site, wait=wait, adopt=False, progress=Told()).run()
        finally:
            service.close()


@pytest.fixture
def make_real(make_world):
    opened: list[Real] = []

    def make(*, said: dict | None = None, **settings) -> Real:
        sandbox = Sandbox(SandboxSettings(folders={"F1": "Photos"}, **settings))
        sandbox.start()
        service = {"base_url": sandbox.base_url, "upload_url": sandbox.upload_url, "read_timeout": "2s"}
        upload = {"workers": "4", "doubt_grace": "2s", "lookup_lag": "0s"}
        sections = {"service": service, "upload": upload, "schedule": {"index": "1s", "verify": "1s"}, **(said or {})}
        opened.append(Real(make_world(**sections), sandbox))
        return opened[-1]

    yield make
    for real in opened:
        real.ledger.close()
        real.sandbox.stop()


def fill(real: Real, count: int) -> dict[str, bytes]:
    chance = random.Random(5)
    files = {f"d{n % 3}/f{n}.txt": chance.randbytes(chance.randrange(1, 30_000)) for n in range(count)}
    files["Grüße 東京 🚢.txt"] = b"a name that does not stay"
    files["big.bin"] = chance.randbytes(9 * 2**20)
    for path, content in files.items():
        real.world.write(path, content)
    return files


def test_a_tree_arrives_whole_in_a_real_service_and_a_second_run_sends_nothing(make_real):
    real = make_real()
    files = fill(real, 40)
    report = real.run()
    assert (report.uploaded, report.verified, report.in_sync) == (len(files), len(files), True)
    assert sorted(real.sandbox.content(asset.id) for asset in real.sandbox.assets()) == sorted(files.values())
    again = real.run()
    assert (again.uploaded, again.unchanged, len(real.sandbox.assets())) == (0, len(files), len(files))


def test_lost_cut_and_broken_answers_of_a_real_service_neither_double_nor_lose_a_file(make_real):
    real = make_real()
    files = fill(real, 30)
    real.sandbox.set_faults(
        FaultRule(kind=FaultKind.ANSWER_LOST, operation=Operation.UPLOAD, probability=0.15),
        FaultRule(kind=FaultKind.ANSWER_CUT, operation=Operation.UPLOAD, probability=0.1),
        FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, probability=0.1, stored=True),
        FaultRule(kind=FaultKind.HTML, operation=Operation.UPLOAD, probability=0.1),
        seed=11,
    )
    report = real.run(wait=60)
    assert (report.verified, report.in_doubt, report.blocked) == (len(files), 0, 0)
    assert sorted(real.sandbox.content(asset.id) for asset in real.sandbox.assets()) == sorted(files.values())


def test_the_guard_stops_the_calls_to_a_real_service_that_wipes_its_index(make_real):
    real = make_real(index_mode="wipes", self_index=False)
    real.world.write("first.txt", b"first")
    assert real.run().in_sync
    assert real.ledger.reports.fact(INDEX_STOPPED) is None
    for number in range(3):
        real.world.write(f"{number}.txt", f"{number}".encode())
    report = real.run()
    assert (report.verified, report.in_sync) == (4, True)
    assert "delete its whole index" in real.ledger.reports.fact(INDEX_STOPPED)


def test_a_service_that_is_not_there_is_trouble(make_real):
    real = make_real()
    real.world.write("a")
    real.sandbox.stop()
    began = time.monotonic()
    report = real.run(wait=1)
    assert time.monotonic() - began < 15
    assert report.trouble is not None
    assert (report.pending, real.ledger.reports.counts(0.0).of(State.QUEUED)) == (1, 1)


def test_a_run_that_asks_a_person_of_another_address_waits_for_nothing_that_only_the_service_could_tell(world):
    world.service.index_lag = None
    world.write("a")
    run(world, wait=0.0)
    assert world.row("a").state is State.STORED
    world.close()
    world.service = type(world.service)(world.clock)
    address = "http://127.0.0.2:1/dam"
    world.restart(service={"base_url": address, "upload_url": address + "/index.cfm"})
    began = world.clock.steady()
    report = run(world, wait=300.0)
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["service"]
    assert (report.in_sync, report.trouble) == (False, None)
    assert world.clock.steady() - began < 60
