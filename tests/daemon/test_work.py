"""The steps of the daemon, called one by one on a clock that is set by hand.

Covers `daemon/watching.py`.
"""

import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, EventEmitter

from assetsync.core.gate import Trouble
from assetsync.daemon.work import Work
from assetsync.errors import LedgerError
from assetsync.ledger.folders import Hold
from assetsync.model import AddressProbe, UploadRequest
from assetsync.status.sentences import headline
from assetsync.status.site_status import read_status
from assetsync.tree import filesystem
from tests.world import PROBE

YEAR_3000 = 32_503_680_000.0
"""A time of change that tells nothing: such a file rests when two looks agree."""


def test_overflowed_settling_files_are_found(make_world, clock, monkeypatch):
    world = make_world(watch={"settle": "5s", "mode": "off"}, schedule={"rescan": "off"})
    monkeypatch.setattr(world.site.settling, "_most", 2)
    for number in range(5):
        world.write(f"{number}", b"%d" % number, mtime=YEAR_3000)
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()
    assert len(world.site.settling) == 2
    for _ in range(10):
        clock.advance(30)
        work.look()
        work.scan()
    assert (len(world.states()), world.site.settling.overflowed) == (5, False)


def test_held_due_files_are_polled_moderately(make_world, clock):
    world = make_world()
    world.write("a")
    world.scan()
    world.ledger.queue.hold_folder("F1", Hold("unlisted", "why", clock.now(), clock.now() + 3000))
    world.site.service_identity.make_sure()
    work = Work(world.site)
    began = time.monotonic()
    work.send()
    assert time.monotonic() - began >= 0.2
    assert world.service.posts == []


def test_upload_of_an_hour_lets_others_go(make_world, clock):
    """A file is saved during an upload that lasts an hour, and its answer comes before that of the long upload."""
    world = make_world()
    # A folder that was listed empty takes one file at a time.
    world.service.put(b"there before", "there before")
    world.write("long")
    world.scan()
    world.site.service_identity.make_sure()
    give_up = time.monotonic() + 20
    answered = []

    def has_answered(request: UploadRequest) -> bool:
        if request.filename == "long" and clock.steady() < 3600:
            clock.advance(3600)
            world.write("saved meanwhile")
            world.scan()
        ends = request.filename != "long" or bool(answered) or time.monotonic() > give_up
        if ends:
            answered.append(request.filename)
        return ends

    world.service.has_answered = has_answered
    Work(world.site, idle=0.0).send()
    assert answered == ["saved meanwhile", "long"]


def test_saved_file_interrupts_sidecar_drift(make_world):
    """A folder's sidecar makes 1,700 files unread; a file saved meanwhile is queued before all of them are read."""
    world = make_world()
    many = 1700
    for number in range(many):
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()

    def unread() -> int:
        return sum(1 for number in range(many) if world.row(f"{number}").drift == "unread")

    assert unread() == many
    work.look()
    assert 0 < unread() < many
    world.write("new")
    work._watch_queue.add(b"new")
    work.look()
    assert world.row("new").state == "queued"
    assert unread() > 0
    for _ in range(3):
        work.look()
    assert unread() == 0


def test_blocked_file_is_not_retried_each_minute(make_world, clock):
    world = make_world()
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"nonsense: [")
    work = Work(world.site, idle=0.0)
    tried = 0
    for _ in range(60):
        work.want_scan()
        work.scan()
        tried += world.row("a.jpg").state == "queued"
        world.send()
        assert world.row("a.jpg").state == "blocked"
        clock.advance(60)
    assert 5 <= tried <= 10, "the number of tries"


def test_start_retries_everything_at_once(make_world, clock):
    world = make_world()
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"nonsense: [")
    world.scan()
    clock.advance(3000)
    world.send()
    assert world.row("a.jpg").state == "blocked"
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()
    assert world.row("a.jpg").state == "blocked"
    work.begin()
    work.end()
    assert world.row("a.jpg").state == "queued"


def test_saved_file_precedes_drift_reading(make_world, monkeypatch):
    world = make_world()
    work = Work(world.site, idle=0.0)
    work._unread.set()
    world.write("new")
    work._watch_queue.add(b"new")
    before = work._bell.heard()
    heard = []

    def step() -> int:
        heard.append((world.row("new").state, work._bell.heard() != before))
        return 0

    monkeypatch.setattr(world.site.drift, "step", step)
    work.look()
    assert heard == [("queued", True)]


def test_drift_found_during_reading_is_kept(make_world, monkeypatch):
    work = Work(make_world().site, idle=0.0)
    work._unread.set()
    scans = [work._unread.set]

    def step() -> int:
        while scans:
            scans.pop()()
        return 0

    monkeypatch.setattr(work._site.drift, "step", step)
    work.look()
    assert work._unread.is_set()
    work.look()
    assert not work._unread.is_set()


def test_drift_is_read_after_a_ledger_failure(make_world, monkeypatch):
    work = Work(make_world().site, idle=0.0)
    work._unread.set()

    def fail() -> int:
        raise LedgerError("full")

    monkeypatch.setattr(work._site.drift, "step", fail)
    with pytest.raises(LedgerError):
        work.look()
    assert work._unread.is_set()


def test_sidecar_hint_marks_its_file(make_world):
    world = make_world()
    world.write("a.jpg")
    world.scan_and_send()
    world.live(5)
    work = Work(world.site, idle=30.0)
    world.write("a.jpg.yaml", b"description: new")
    work._watch_queue.add(b"a.jpg.yaml")
    began = time.monotonic()
    work.look()
    assert world.row("a.jpg").drift.startswith("its metadata changed")
    # Nor is waited for a hint while there is something left to read.
    work.look()
    assert time.monotonic() - began < 25


def test_look_refused_by_ledger_is_rescanned(make_world, monkeypatch):
    world = make_world()
    work = Work(world.site, idle=0.0)
    world.write("a.jpg")
    work._watch_queue.add(b"a.jpg")

    def fail(_path: bytes) -> None:
        raise LedgerError("full")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger.versions, "current_of", fail)
        with pytest.raises(LedgerError):
            work.look()
    work.scan()
    assert world.row("a.jpg").state == "queued"


@pytest.mark.parametrize("on_move", ["upload", "report"])
def test_reverted_file_in_moved_mapping_settles(make_world, clock, on_move):
    """A file of a remapped folder is edited and put back with its times: nothing stays unsettled, at few commits."""
    world = make_world(watch={"settle": "5s", "mode": "off"}, policy={"on_move": on_move})
    world.write("a", b"first")
    world.scan_and_send()
    world.live(5)
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    world.scan()
    if on_move == "report":
        world.ledger.resume(None, clock.now())
        world.scan()
    clock.set_now(time.time())
    file = world.root / "a"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    for content in (b"edited by mistake", b"first"):
        file.write_bytes(content)
        if content == b"first":
            os.utime(file, ns=times)
        world.hint("a")
    clock.advance(600)
    commits = world.ledger.store._commits.count
    work = Work(world.site, idle=0.0)
    for _ in range(5):
        work.look()
    assert len(world.site.settling) == 0
    assert world.ledger.store._commits.count - commits <= 2


def test_settling_files_are_queued_in_batches(make_world, clock):
    world = make_world(watch={"settle": "5s", "mode": "off"}, schedule={"rescan": "off"})
    for number in range(600):
        world.write(f"{number}", b"%d" % number, mtime=YEAR_3000)
    world.scan()
    clock.advance(6)
    work = Work(world.site, idle=0.0)
    work.look()
    assert (len(world.states()), len(world.site.settling)) == (500, 100)
    work.look()
    assert (len(world.states()), len(world.site.settling)) == (600, 0)


def test_file_stays_pending_until_queued(make_world, clock, monkeypatch):
    world = make_world(watch={"settle": "5s", "mode": "off"}, schedule={"rescan": "off"})
    for number in range(3):
        world.write(f"{number}", b"%d" % number, mtime=YEAR_3000)
    world.scan()
    clock.advance(6)
    enqueue, seen = world.ledger.versions.enqueue, []

    def look_first(versions, now, **said) -> int:
        world.site.runtime_state.note()
        seen.append(read_status(world.config().outline, world.ledger, clock.now()).in_sync)
        return enqueue(versions, now, **said)

    monkeypatch.setattr(world.ledger.versions, "enqueue", look_first)
    assert world.site.single_looks.look_again() == 3
    assert (seen, len(world.site.settling)) == ([False], 0)


def test_readback_finding_needs_no_scan(make_world):
    world = make_world(watch={"mode": "off"})
    world.service.kinds["a.ai"] = "doc"
    world.write("a.ai.yaml", b"description: A drawing")
    world.write("a.ai", b"a")
    world.scan_and_send()
    work = Work(world.site, idle=0.0)
    work.read_back.want_verify()
    work.read_back.step()
    work.look()
    assert "another kind of file (doc)" in world.row("a.ai").drift


def test_refused_watcher_is_retried_regularly(make_world, clock, monkeypatch):
    """The kernel refuses an inotify instance; it is asked for once a minute, and the tree is scanned meanwhile."""
    watching = Work(make_world(watch={"mode": "inotify"}).site, idle=0.5).watching
    asked, wanted = [], []
    monkeypatch.setattr(watching, "_want_scan", wanted.append)

    def refuse(*_args, **_options) -> None:
        asked.append(clock.steady())
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    with monkeypatch.context() as patch:
        patch.setattr("assetsync.daemon.watching.Watcher", refuse)
        watching.start()
        for _ in range(121):
            clock.advance(1)
            watching.tend()
    assert len(asked) == 3
    assert (watching.mode, watching.polling, wanted) == ("polling", True, [])
    clock.advance(60)
    watching.tend()
    assert (watching.mode, wanted) == ("inotify", ["the tree can be watched again"])
    watching.check_coverage(1)
    assert not watching.polling
    watching.stop()


def test_each_hint_passes_watchdogs_dispatch(make_world, monkeypatch):
    """Two threads watch, and both are watchdog's: its observer, and the emitter that it started."""
    dispatched, hinted = [], []
    dispatch = FileSystemEventHandler.dispatch

    def recorded(handler: FileSystemEventHandler, event: FileSystemEvent) -> None:
        dispatched.append((threading.current_thread(), event.src_path))
        dispatch(handler, event)

    monkeypatch.setattr(FileSystemEventHandler, "dispatch", recorded)
    world = make_world(watch={"mode": "inotify"})
    work = Work(world.site, idle=0.5)
    before = set(threading.enumerate())
    monkeypatch.setattr(work._watch_queue, "add", hinted.append)
    work.watching.start()
    began = set(threading.enumerate()) - before
    [observer] = (thread for thread in began if isinstance(thread, BaseObserver))
    assert began == {observer, *observer.emitters}
    assert all(isinstance(emitter, EventEmitter) for emitter in observer.emitters)
    for name in ("a", "b.jpg"):
        world.write(name)
    work.watching.tend()
    work.watching.stop()
    assert set(hinted) == {b"a", b"b.jpg"}
    root = bytes(world.root)
    assert [path for _, path in dispatched if os.path.dirname(path) == root] == [os.path.join(root, p) for p in hinted]
    assert {thread for thread, _ in dispatched} == {observer}


def test_silent_watcher_is_rebuilt_with_backoff(make_world, clock, monkeypatch):
    """No event of the canary folder arrives: the watcher is made anew in doubling pauses, with a scan each minute."""
    world = make_world(watch={"mode": "inotify"})
    watching = Work(world.site, idle=30.0).watching
    wanted = []
    monkeypatch.setattr(watching, "_want_scan", wanted.append)
    watching.start()
    watching.tend()
    assert (watching.trust.canary_at, wanted) == (clock.now(), [])
    canary = Path(f"{world.config().ledger}.canary")
    shutil.rmtree(canary)
    canary.write_bytes(b"no folder")
    for _ in range(60):
        clock.advance(60)
        watching.tend()
    # The first, second, fourth, eighth, sixteenth and thirty-second time.
    assert (watching.trust.made_anew, len(wanted), watching.mode) == (6, 60, "inotify")
    canary.unlink()
    clock.advance(60)
    watching.tend()
    assert (watching.trust.canary_at, len(wanted)) == (clock.now(), 60)
    watching.stop()


@pytest.mark.parametrize(
    ("mode", "before", "mounted", "expected"),
    [
        ("auto", b"ext4", b"nfs4", (1, True, ["a disk was mounted"])),
        ("inotify", b"ext4", b"nfs4", (1, False, ["a disk was mounted"])),
        ("auto", b"nfs4", b"cifs", (0, True, [])),
        ("auto", b"ext4", b"xfs", (0, False, ["a disk was mounted"])),
        ("off", b"ext4", b"xfs", (0, False, ["a disk was mounted"])),
    ],
)
def test_new_mount_is_noticed_once(make_world, tmp_path, monkeypatch, mode, before, mounted, expected):
    """One reload is requested for a network file system; if none follows, a scan is."""
    world = make_world(watch={"mode": mode})
    table = tmp_path / "mountinfo"
    table.write_bytes(b"1 0 8:1 / / rw - %s d rw\n" % before)
    monkeypatch.setattr(filesystem, "MOUNTS", str(table))
    asked, wanted = [], []
    watching = Work(world.site, idle=0.5, reload=lambda: asked.append("reload")).watching
    monkeypatch.setattr(watching, "_want_scan", wanted.append)
    watching.start()
    watching.tend()
    assert (asked, wanted) == ([], [])
    root = bytes(world.config().root)
    with table.open("ab") as more:
        more.write(b"2 1 0:2 / %s/share rw - %s d rw\n3 1 0:3 / /elsewhere rw - nfs4 d rw\n" % (root, mounted))
    for _ in range(3):
        world.clock.advance(5)
        watching.tend()
    assert (len(asked), watching.polling, wanted) == expected
    watching.stop()


def test_health_check_waits_for_no_other_look_up(make_world):
    """Look-ups of `tend` may hang with the service for minutes: the health check is a step of its own."""
    world = make_world()
    work = Work(world.site, idle=0.0)
    world.site.gates.failed(Trouble("unreachable", "down"))
    work.tend()
    assert world.site.gates.closed is not None
    work.recover()
    assert world.site.gates.closed is None
    assert [search.searchfor for search in world.service.searches] == [PROBE]


def test_wrong_key_is_found_at_the_start(make_world):
    """Nothing waits to be sent, and no look-up is due."""
    world = make_world()
    world.service.probed = AddressProbe(is_right=True, key_refused=True, detail="the service refuses the API key")
    Work(world.site, idle=0.0).tend()
    world.site.runtime_state.note()
    status = read_status(world.site.config.outline, world.ledger, world.clock.now())
    assert headline(status) == "Action needed: paused for 0 s (the service refuses the API key)."


def test_refused_search_after_a_good_probe_is_cached(make_world):
    """The service keeps the refusal of a key that was tried before it was valid."""
    world = make_world()
    work = Work(world.site, idle=0.0)
    work.tend()
    world.service.key_refused = True
    assert not world.site.gates.check()
    assert world.site.gates.closed.reason == "key_cached"
    world.service.key_refused = False
    assert world.site.gates.check()
    world.service.key_refused = True
    assert not world.site.gates.check()
    assert world.site.gates.closures()[0][0].reason == "key_refused", "a search was answered since"


def test_wrong_upload_address_is_found(make_world):
    world = make_world()
    world.service.probed = AddressProbe(is_right=False, detail="the answer was HTTP status 404")
    world.service.script.append("lost_before")
    world.write("a")
    world.scan_and_send()
    Work(world.site, idle=0.0).tend()
    assert read_status(world.site.config.outline, world.ledger, world.clock.now()).wrong_address is not None
