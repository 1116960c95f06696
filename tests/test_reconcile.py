"""One shot over the whole way: when it ends, what it reports, and what stops it.

Covers `reconcile/report.py` and `reconcile/run.py`.
"""

import os
import random
import shutil
import threading
import time

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from assetsync.app import build
from assetsync.clock import SystemClock
from assetsync.config.models import SiteConfig
from assetsync.errors import LedgerError, RootMissing
from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.read_back import INDEX_STOPPED
from assetsync.model import State
from assetsync.parts import make_service
from assetsync.reconcile import Reconciler, Report, dry_run
from assetsync.sandbox import FaultKind, FaultRule, Operation, Sandbox, SandboxSettings
from assetsync.status.sentences import headline
from assetsync.status.site_status import read_status
from assetsync.sync.requests.decisions import Resume


class Told:
    """Keeps what a run tells of its progress."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.done = 0.0

    def phase(self, name: str, total: int | None = None) -> None:
        self.phases.append(name)

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        assert done >= 0, "the progress of a phase"
        self.done = done


def run(world, *, wait: float = 300.0, adopt: bool = False) -> Report:
    return Reconciler(world.site, wait=wait, adopt=adopt, progress=Told()).run()


def test_run_uploads_verifies_and_counts(world):
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


def test_restored_ledger_is_reported(world):
    world.write("a")
    run(world)
    world.close()
    backup = world.ledger_path.read_bytes()
    with capture_logs() as said:
        run(world)
        world.close()
        assert [entry["event"] for entry in said if entry["event"] == "the ledger is an older copy, or was moved"] == []
        world.ledger_path.write_bytes(backup)
        assert run(world).in_sync
    assert [entry["log_level"] for entry in said if entry["event"] == "the ledger is an older copy, or was moved"] == [
        "warning"
    ]


def test_idle_run_asks_the_service_nothing(world, clock):
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
def test_run_ends_early_if_time_cannot_help(world, clock, make, count):
    world.write("a")
    make(world)
    began = clock.steady()
    report = run(world, wait=3600)
    assert clock.steady() - began < 60
    assert (getattr(report, count), report.in_sync) == (1, False)


def test_brake_stops_all_uploads(world):
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    for number in range(3):
        world.write(f"{number}", f"{number}".encode())
    report = run(world)
    assert (report.uploaded, report.pending, report.braked, world.service.posts) == (0, 3, 1, [])


def test_unfindable_file_and_brake_end_run(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    world.scan_and_send()
    world.write("b")
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    began = clock.steady()
    report = run(world, wait=100)
    assert (report.pending, report.braked) == (2, 1)
    assert 100 <= clock.steady() - began < 200


def test_brake_released_in_run_resumes_it(world, clock):
    world.service.index_lag = 50.0
    world.write("a")
    world.scan_and_send()
    world.write("b", b"b")
    world.restart()
    world.ledger.pull_brake("new_files", "site", "why", 1, 1.0)
    world.service.during_search = lambda _request: world.ledger.resume(None, clock.now())
    report = run(world, wait=300)
    assert (report.verified, report.uploaded, report.in_sync) == (2, 1, True)


def test_zero_wait_takes_each_step_once(world, clock):
    world.service.index_lag = 500.0
    world.write("a")
    began = clock.steady()
    report = run(world, wait=0)
    assert (report.uploaded, report.pending, report.verified, report.in_sync) == (1, 1, 0, False)
    assert clock.steady() - began < 30
    assert any(world.row("a").assetid in request.searchfor for request in world.service.searches)


def test_file_settled_in_outage_is_queued(make_world):
    world = make_world(watch={"settle": "5s"})
    world.write("a")
    run(world)
    world.service.down = True
    world.write("b", mtime=world.clock.now())
    report = run(world, wait=60)
    assert (report.pending, world.row("b").state) == (1, State.QUEUED)
    assert len(world.site.settling) == 0


def test_wait_counts_from_last_answered_post(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    report = run(world, wait=120)
    assert report.pending == 1
    assert 120 <= clock.steady() - world.site.uploads.last_answer < 125


def test_failing_large_files_delay_no_run(world, clock):
    world.service.loses = lambda size: size > 1000
    for number in range(40):
        world.write(f"a-video-{number}", b"v" * 2000 + b"%d" % number)
        world.write(f"b-photo-{number}", b"photo %d" % number)
    began = clock.steady()
    report = run(world, wait=300)
    assert (report.verified, report.in_sync) == (40, False)
    assert report.pending + report.in_doubt + report.blocked == 40
    assert 300 <= clock.steady() - began < 1000


def test_undecided_doubts_delay_no_run(world, clock):
    world.service.processing = 10**9
    for number in range(15):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    world.service.script.extend(["lost_after"] * 15)
    for _ in range(9):
        world.site.gates.checked()
        world.site.uploader.step()
    world.service.script.clear()
    began = clock.steady()
    report = run(world, wait=200)
    assert (report.in_doubt, report.pending, report.in_sync) == (8, 7, False)
    assert clock.steady() - began < 400


@pytest.mark.parametrize(("wait", "least", "most"), [(0, 0, 30), (60, 60, 130)])
def test_outage_is_no_failure_of_a_file(world, clock, wait, least, most):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.down = True
    began = clock.steady()
    report = run(world, wait=wait)
    assert least <= clock.steady() - began < most
    assert "nothing answers" in report.trouble
    assert (report.uploaded, report.pending, report.blocked, report.in_doubt) == (0, 10, 0, 0)
    assert {row.failures for row in world.ledger.reports.files()} == {0}


def test_service_without_posts_ends_wait(world, clock):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.script.extend(["lost_before"] * 1000)
    began = clock.steady()
    report = run(world, wait=100)
    assert report.trouble is not None
    assert clock.steady() - began < 300
    assert len(world.service.posts) < 20


def test_refused_key_ends_run_soon(world, clock):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.service.key_refused = True
    began = clock.steady()
    report = run(world, wait=3600)
    assert clock.steady() - began < 60
    assert "API key" in report.trouble
    assert (report.pending, report.blocked, world.service.posts) == (10, 0, [])


def test_recovered_service_gets_all_files(world):
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


def test_lost_answer_is_resolved_within_run(world):
    world.write("a", b"a")
    world.write("b", b"b")
    world.service.script.extend(["lost_after", "lost_before"])
    report = run(world)
    assert (report.uploaded, report.verified, report.in_doubt, report.in_sync) == (2, 2, 0, True)
    assert len(world.service.assets) == 2


def test_next_run_resolves_unclean_stop(world):
    world.write("a")
    world.scan()
    (row,) = world.ledger.queue.due(world.clock.now(), 1)
    ready = world.site.preparer.prepare(row)
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


def test_unexpected_worker_error_ends_run(world):
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


def test_unwritable_ledger_ends_run(world):
    """The ledger's disk fills during an upload; the next run sends each file once."""
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


def test_missing_root_brakes_known_site_only(world):
    shutil.rmtree(world.root)
    with pytest.raises(RootMissing):
        run(world)
    world.root.mkdir()
    world.write("a")
    run(world)
    shutil.rmtree(world.root)
    report = run(world)
    assert (report.braked, report.verified, report.in_sync) == (1, 1, False)


def test_unreadable_folder_is_not_in_sync(make_world, monkeypatch):
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


def test_folder_listed_later_is_sent_in_run(two_folders):
    world, failing = two_folders
    failing(2)
    report = run(world, wait=60)
    assert (report.uploaded, report.in_sync, report.trouble) == (2, True, None)


def test_unlistable_folder_is_named(two_folders, clock):
    world, failing = two_folders
    failing(float("inf"))
    began = clock.steady()
    report = run(world, wait=60)
    assert 60 <= clock.steady() - began < 130
    assert (report.uploaded, report.pending, report.in_sync, report.trouble) == (1, 1, False, None)
    assert "F1" in read_status(world.config().outline, world.ledger, clock.now()).holds


def test_failing_folder_delays_no_others(two_folders, clock):
    """Every upload into one folder is lost; the other folder is sent completely before the run ends."""
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
    # Twenty uploads into F1 may be in doubt, each after a pause; the run may end in one of them.
    assert 100 <= clock.steady() - began < 600
    assert (report.uploaded, report.in_sync) == (40, False)
    assert report.pending + report.in_doubt == 40


@pytest.mark.parametrize("failing", [1, 2, 5])
def test_listing_timeouts_do_not_prevent_end(make_world, clock, failing):
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
def test_files_behind_doubts_are_sent(two_folders, wait, monkeypatch):
    """Four doubts of an earlier process wait for their look-ups; the files behind them are sent in the same run."""
    world, _photos = two_folders
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


def test_adopt_sends_nothing_unlisted(two_folders):
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
def test_adopt_lists_known_folders_again(world, adopt):
    for name in ("a", "first"):
        world.write(name, name.encode())
    run(world)
    theirs = world.service.put(b"by hand", "theirs")
    world.write("b", b"by hand")
    world.restart()
    report = run(world, adopt=adopt)
    assert (report.adopted, report.uploaded, report.in_sync) == ((1, 0, True) if adopt else (0, 1, True))
    assert (world.row("b").assetid == theirs.id) is adopt


def test_run_makes_audit_owed_after_release(world):
    """After a person releases an audit's brake, status names the audit, and the next run makes it."""
    for number in range(30):
        world.write(f"{number}", b"%d" % number)
    run(world)
    world.clock.wait(3600.0)
    world.service.assets.clear()
    assert world.site.auditor.audit("F1").braked
    assert not run(world).in_sync
    world.clock.wait(1.0)
    world.ask(Resume())
    status = read_status(world.config().outline, world.ledger, world.clock.now(), running=False)
    assert (status.in_sync, headline(status)) == (
        False,
        "No process is running: 30 of 30 verified, 1 folder to be audited.",
    )
    report = run(world)
    assert (report.blocked, report.undecided, report.in_sync, len(world.service.posts)) == (30, 0, False, 30)
    assert {row.reason for row in map(world.row, map(str, range(30)))} == {"missing"}
    assert "audit" in last_runs(world)


def test_brake_of_owed_audit_stops_uploads(world):
    for number in range(30):
        world.write(f"{number}", b"%d" % number)
    run(world)
    world.service.assets.clear()
    world.clock.wait(60.0)
    world.site.pending_audits.ask()
    for number in range(50):
        world.write(f"new {number}", b"new %d" % number)
    told = Told()
    Reconciler(world.site, wait=300.0, adopt=False, progress=told).run()
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["missing"]
    assert len(world.service.posts) == 30
    assert told.phases == ["scan", "audit", "upload"]


def test_unanswered_owed_audit_is_made_later(world, monkeypatch):
    world.write("a")
    run(world)
    world.clock.wait(1.0)
    world.site.pending_audits.ask()
    world.service.down = True
    assert run(world, wait=0).trouble is not None
    assert world.site.pending_audits.folders() == ["F1"]
    world.service.down = False
    assert run(world).in_sync
    assert world.site.pending_audits.folders() == []


def test_dry_run_sends_nothing(world):
    world.write("a", b"a")
    run(world)
    world.write("b", b"four")
    world.write("a", b"changed")
    report = dry_run(world.site)
    assert (report.scanned, report.unchanged, report.uploaded, report.bytes_uploaded) == (2, 0, 2, 11)
    assert (report.verified, report.in_sync, len(world.service.posts)) == (1, False, 1)
    assert list(world.states()) == ["a"]


def test_dry_run_counts_queued_bytes(world):
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


def test_upload_after_interrupt_is_counted(world, clock):
    """Uploads that end after the stop count in the progress and in the report."""
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


def test_run_records_index_and_verify_times(world, clock):
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
def test_run_does_not_record_unfinished_work(make_world, said, trouble, told):
    world = make_world(**said)
    world.write("a")
    world.service.down = trouble
    run(world, wait=0)
    assert last_runs(world) == told


def test_unanswered_look_up_is_not_recorded(world, clock):
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    began = clock.steady()

    def break_down(_request):
        world.service.down = clock.steady() - began > 20

    world.service.during_search = break_down
    assert run(world, wait=100).trouble is not None
    assert last_runs(world) == {"rescan"}


def test_run_over_other_root_skips_sidecars(world):
    world.write("a.jpg", b"a")
    world.write("a.jpg.yaml", b"description: first")
    run(world)
    world.write("a.jpg.yaml", b"description: second one")
    world.scan()
    (world.base / "other").mkdir()
    world.restart(root=str(world.base / "other"))
    assert run(world, wait=0).braked == 1
    assert [row.drift for row in world.ledger.reports.files()] == ["unread"]


def test_interrupted_run_records_no_verify(world, clock):
    world.write("a")
    run(world)
    world.ledger.set_fact("last_verify", None)
    clock.stopped = True
    run(world)
    assert last_runs(world) == {"rescan", "index"}


def test_failed_second_look_is_not_in_sync(make_world, clock):
    world = make_world(watch={"settle": "5s"})
    world.write("d/sent")
    world.write("d/settling", mtime=clock.now() + 1e6)
    world.service.during_upload = lambda _request: world.root.rename(world.base / "away")
    report = run(world)
    assert (world.posted(), report.verified, report.unreadable, report.in_sync) == (["sent"], 1, 1, False)
    assert not read_status(world.config().outline, world.ledger, clock.now()).in_sync


def test_settling_overflow_is_not_in_sync(world, clock):
    world.write("a")
    settling = world.site.settling

    def find_no_room(_request) -> None:
        settling.overflowed = True

    world.service.during_upload = find_no_room
    report = run(world)
    assert (report.verified, report.pending, report.in_sync) == (1, 0, False)
    assert not dry_run(world.site).in_sync
    assert not read_status(world.config().outline, world.ledger, clock.now()).in_sync


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
        sandbox = Sandbox(SandboxSettings(dialect="observed", folders={"F1": "Photos"}, **settings))
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


def test_second_real_run_sends_nothing(make_real):
    real = make_real()
    files = fill(real, 40)
    report = real.run()
    assert (report.uploaded, report.verified, report.in_sync) == (len(files), len(files), True)
    assert sorted(real.sandbox.content(asset.id) for asset in real.sandbox.assets()) == sorted(files.values())
    again = real.run()
    assert (again.uploaded, again.unchanged, len(real.sandbox.assets())) == (0, len(files), len(files))


def test_real_faults_lose_or_double_nothing(make_real):
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


def test_guard_stops_calls_wiping_the_index(make_real):
    real = make_real(index_mode="wipes", self_index=False)
    real.world.write("first.txt", b"first")
    assert real.run().in_sync
    assert real.ledger.reports.fact(INDEX_STOPPED) is None
    for number in range(3):
        real.world.write(f"{number}.txt", f"{number}".encode())
    report = real.run()
    assert (report.verified, report.in_sync) == (4, True)
    assert "delete its whole index" in real.ledger.reports.fact(INDEX_STOPPED)


def test_absent_service_is_trouble(make_real):
    real = make_real()
    real.world.write("a")
    real.sandbox.stop()
    began = time.monotonic()
    report = real.run(wait=1)
    assert time.monotonic() - began < 15
    assert report.trouble is not None
    assert (report.pending, real.ledger.reports.counts(0.0).of(State.QUEUED)) == (1, 1)


def test_brake_of_new_address_ends_waiting(world):
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
