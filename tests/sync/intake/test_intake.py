"""From the tree to the ledger: the merge of a scan, settling, sidecars, what vanished and what is unmapped.

Covers `sync/intake/settling.py`.
"""

import errno
import mmap
import os
import random
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from assetsync.errors import LedgerError
from assetsync.ledger.versions import NewVersion
from assetsync.model import FileStat, State, Wanted
from assetsync.sync.context import Context, Heartbeat
from assetsync.sync.intake.settling import Settling
from assetsync.tree.safe_open import Tree, facts
from assetsync.tree.scan_report import ScanReport
from tests.slices import skip_outside
from tests.world import FullDisk

NAMES = [b"a", b"b.jpg", b"c d", b"\xff\xfe", b"e\nf", b"-g", "é".encode(), b"a.", b"a-", b"a0", b"~", b"x" * 200]


def grow(root: Path, chance: random.Random, count: int) -> set[bytes]:
    """Make a tree whose names sort differently by component and by whole path."""
    paths: set[bytes] = set()
    base = os.fsencode(root)
    while len(paths) < count:
        path = b"/".join(chance.choice(NAMES) for _ in range(chance.randint(1, 4)))
        full = base + b"/" + path
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "xb") as file:
                file.write(path)
        except OSError:
            continue
        paths.add(path)
    return paths


def known(world) -> dict[bytes, int]:
    return {row.path: row.size for row in world.ledger.reports.files()}


@pytest.mark.parametrize("seed", range(6))
def test_second_scan_of_any_tree_is_unchanged(make_world, request, seed):
    """Grow a random tree, scan it twice, change, add and remove some files, and scan it twice again."""
    skip_outside(seed, range(6), 3, request)
    world = make_world(brake={"max_vanished": "100000"})
    chance = random.Random(seed)
    paths = grow(world.root, chance, 150)
    first = world.scan()
    world.send()
    assert (first.scanned, first.new_versions, first.unchanged) == (150, 150, 0)
    assert known(world) == {path: len(path) for path in paths}
    second = world.scan()
    assert (second.scanned, second.unchanged, second.to_send, second.missing_count) == (150, 150, 0, 0)
    base = os.fsencode(world.root) + b"/"
    removed = set(chance.sample(sorted(paths), 30))
    for path in removed:
        os.unlink(base + path)
    changed = set(chance.sample(sorted(paths - removed), 20))
    for path in changed:
        with open(base + path, "ab") as file:
            file.write(b"more")
    added = grow(world.root, chance, 25)
    third = world.scan()
    gone = removed - added
    assert third.missing_count == len(gone)
    assert third.new_versions == len(changed | added)
    assert set(known(world)) == (paths | added) - gone
    fourth = world.scan()
    assert (fourth.unchanged, fourth.to_send, fourth.missing_count) == (fourth.scanned, 0, 0)


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"!")


def _rewrite_with_the_same_times(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replace(path: Path) -> None:
    status = path.stat()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(path)


@pytest.mark.parametrize(
    ("change", "to_send", "new"),
    [
        (lambda path: None, 0, 0),
        (_append, 1, 1),
        (lambda path: os.utime(path, (1, 1)), 1, 1),
        (lambda path: path.chmod(0o600), 1, 0),
        (_rewrite_with_the_same_times, 1, 0),
        (_replace, 1, 0),
    ],
    ids=["nothing", "appended", "touched", "chmod", "rewritten_with_times_set_back", "replaced_by_a_copy"],
)
def test_disk_change_decides_the_next_scan(world, change, to_send, new):
    path = world.write("a", b"content")
    world.scan()
    change(path)
    result = world.scan()
    assert (result.to_send, result.new_versions, result.unchanged) == (to_send, new, 1 - to_send)
    # The older version was never sent: it is nobody's history.
    assert world.history("a") == [State.QUEUED]


def test_unsent_row_follows_its_mapping(world):
    world.write("a")
    world.scan()
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    result = world.scan()
    assert (result.to_send, world.row("a").destfolderid, world.history("a")) == (0, "F2", [State.QUEUED])


@pytest.mark.parametrize(("policy", "to_send"), [("upload", 1), ("report", 0)])
def test_sent_file_obeys_the_on_move_policy(make_world, policy, to_send):
    world = make_world(policy={"on_move": policy})
    world.write("a")
    world.scan_and_send()
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    assert (world.scan().to_send, world.row("a").destfolderid) == (0, "F1"), "the brake: a person looks first"
    world.ledger.resume(None, world.clock.now())
    result = world.scan()
    assert (result.moved, result.to_send) == (1, to_send)
    assert world.row("a").destfolderid == ("F2" if to_send else "F1")


def test_growing_file_waits_for_equal_looks(make_world, clock):
    world = make_world(watch={"settle": "5s"})
    path = world.write("a", b"1")
    clock.set_now(path.stat().st_ctime)
    assert world.scan().unsettled == 1
    clock.advance(3)
    path.write_bytes(b"12")
    os.utime(path, (clock.now(), clock.now()))
    assert world.site.intake.look_again() == 0
    clock.advance(3)
    assert world.site.intake.look_again() == 0
    assert len(world.site.settling) == 1
    clock.advance(5)
    assert world.site.intake.look_again() == 1
    assert (len(world.site.settling), world.row("a").size) == (0, 2)


@pytest.mark.parametrize("mtime", [-1_000_000, 32_503_680_000], ids=["before_1970", "year_3000"])
def test_useless_time_costs_one_more_look(make_world, clock, mtime):
    world = make_world(watch={"settle": "5s"})
    world.write("a", mtime=mtime)
    assert (world.scan().unsettled, world.states()) == (1, {})
    clock.advance(5)
    assert world.site.intake.look_again() == 1


@pytest.mark.parametrize(
    ("inode", "mtime_ns"), [(2**64 - 1, 1), (2**63, 1), (1, 2**63), (1, -(2**63) - 1), (2**63 - 1, 2**63 - 1)]
)
def test_extreme_inode_or_time_is_kept(world, inode, mtime_ns):
    status = SimpleNamespace(st_size=1, st_mtime_ns=mtime_ns, st_ctime_ns=1, st_ino=inode)
    stat = facts(status)
    world.ledger.versions.enqueue([NewVersion(b"a", stat, "F1", "a", None)], 1.0)
    assert world.row("a").stat == stat
    assert facts(SimpleNamespace(**{**vars(status), "st_ino": inode - 1})) != stat


@pytest.mark.parametrize("how", ["looked at", "scanned"])
def test_new_file_survives_backup_takeover(world, monkeypatch, how):
    """`a.jpg` becomes `a.jpg~`, and is written anew: a worker takes the backup over between the look and its commit."""
    world.write("a.jpg", b"old")
    world.scan_and_send()
    world.live(5)
    (world.root / "a.jpg").rename(world.root / "a.jpg~")
    world.hint("a.jpg~")
    world.write("a.jpg", b"new content")
    enqueue = world.ledger.versions.enqueue

    def enqueue_late(*arguments):
        monkeypatch.undo()
        world.send()
        return enqueue(*arguments)

    monkeypatch.setattr(world.ledger.versions, "enqueue", enqueue_late)
    if how == "looked at":
        world.hint("a.jpg")
    else:
        world.scan()
    assert world.row("a.jpg~").state is State.VERIFIED
    world.live(5)
    assert world.states() == {"a.jpg": State.VERIFIED, "a.jpg~": State.VERIFIED}
    assert len(world.service.posts) == 2


def test_file_gone_in_settling_is_forgotten(make_world, clock):
    world = make_world(watch={"settle": "5s"})
    path = world.write("a")
    clock.set_now(path.stat().st_ctime)
    world.scan()
    path.unlink()
    clock.advance(6)
    assert (world.site.intake.look_again(), len(world.site.settling)) == (0, 0)


def test_found_files_count_despite_failure(world, monkeypatch):
    """The ledger fails in the second batch of 120 files: the first batch is recorded, the rest is not."""
    paths = [f"{number:03}".encode() for number in range(120)]
    for path in paths:
        world.write(path)
    current_of = world.ledger.versions.current_of

    def fail_late(path: bytes):
        if path == paths[110]:
            raise LedgerError("full")
        return current_of(path)

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger.versions, "current_of", fail_late)
        with pytest.raises(LedgerError):
            world.site.single_looks.look(*paths)
    assert world.site.single_looks.new_versions >= len(world.states()) == 100
    # What was not written is not written behind the back of a later look either.
    assert (world.site.single_looks.look(), len(world.states())) == (0, 100)
    assert world.site.single_looks.look(*paths) == 20


def test_file_changed_in_queue_is_rechecked():
    settling = Settling()
    old, new = FileStat(1, 1, 1, 1), FileStat(2, 2, 2, 1)
    settling.see(b"a", old, 1.0, 5.0)
    assert settling.see(b"a", old, 7.0, 5.0)
    settling.see(b"a", new, 8.0, 5.0)
    settling.queued(b"a", old)
    assert settling.due(13.0) == [b"a"]
    settling.queued(b"a", new)
    assert (len(settling), settling.due(13.0)) == (0, [])


def test_due_files_are_limited_to_the_request():
    settling = Settling()
    for number in range(4):
        settling.see(b"%d" % number, FileStat(1, 1, 1, 1), float(number), 5.0)
    assert [settling.due(7.5, most) for most in (1, 2, None)] == [[b"0"], [b"0", b"1"], [b"0", b"1", b"2"]]


def test_many_looks_share_few_commits(world):
    paths = [f"{number:03}".encode() for number in range(250)]
    for path in paths:
        world.write(path)
    before = world.ledger.store._commits.count
    assert world.site.intake.look(*paths) == 250
    assert world.ledger.store._commits.count - before == 3
    assert len(world.states()) == 250


def test_excess_settling_files_are_reported():
    settling = Settling(most=2)
    stat = FileStat(1, 1, 1, 1)
    assert [settling.see(path, stat, 1.0, 5.0) for path in (b"a", b"b", b"c")] == [False] * 3
    assert (len(settling), settling.overflowed) == (2, True)
    assert settling.due(6.0) == [b"a", b"b"]
    assert settling.next_due() == 6.0


def test_hint_checks_one_path(world):
    world.write("a")
    assert [world.site.intake.look(b"a"), world.site.intake.look(b"a"), world.site.intake.look(b"nothing")] == [1, 0, 0]
    assert world.scan().unchanged == 1


def test_hint_of_unmapped_path_queues_nothing(make_world):
    world = make_world(folders=[{"path": "photos", "destfolderid": "F1", "ignore": ["*.psd"]}])
    for path in ("photos/a.psd", "other/a", "photos/a.part"):
        world.write(path)
        assert world.site.intake.look(path.encode()) == 0


def test_a_hint_of_a_sidecar_is_no_file(world):
    world.write("a", b"1")
    world.write("a.yaml", b"description: x\n")
    assert world.hint("a.yaml") == 0
    world.scan()
    assert list(world.states()) == ["a"]


def test_sidecar_hint_retries_blocked_file(world):
    world.write("a", b"1")
    sidecar = world.write("a.yaml", b"nonsense: 1\n")
    world.scan_and_send()
    assert world.row("a").state is State.BLOCKED
    sidecar.write_bytes(b"description: x\n")
    assert (world.hint("a.yaml"), world.row("a").state) == (1, State.QUEUED)


def test_removed_sidecar_hint_frees_its_file(world):
    world.write("a", b"1")
    sidecar = world.write("a.yaml", b"nonsense: 1\n")
    world.scan_and_send()
    sidecar.unlink()
    assert (world.hint("a.yaml"), world.row("a").state) == (1, State.QUEUED)


def test_unchanged_sidecar_hint_does_nothing(world):
    world.write("a", b"1")
    world.write("a.yaml", b"description: x\n")
    world.scan_and_send()
    world.live(5.0)
    world.scan()
    before = world.ledger.store._commits.count
    assert (world.hint("a.yaml"), world.ledger.store._commits.count, world.row("a").drift) == (0, before, None)


@pytest.mark.parametrize("age", [0.5, 1.9])
def test_very_young_sidecar_counts_as_changed(world, age):
    world.write("a", b"1")
    sidecar = world.write("a.yaml", b"description: x\n")
    world.scan_and_send()
    world.clock.set_now(sidecar.stat().st_ctime + age)
    before = world.ledger.store._commits.count
    world.hint("a.yaml")
    assert world.ledger.store._commits.count == before + 1


# What is done to a.yaml and _folder.yaml between two scans, after the file was blocked by a bad sidecar or sent.
@pytest.mark.parametrize("name", ["d/a.yaml", "d/_folder.yaml", "_folder.yaml"])
@pytest.mark.parametrize("change", ["mended", "removed", "removed_before_another", "untouched"])
def test_changed_sidecar_retries_blocked_files(world, name, change):
    world.write("d/a")
    world.write("d/z.yaml", b"description: for a file that sorts later\n")
    sidecar = world.write(name, b"nonsense: 1\n")
    world.scan_and_send()
    assert (world.row("d/a").state, world.row("d/a").reason) == (State.BLOCKED, "sidecar")
    if change == "mended":
        sidecar.write_bytes(b"description: x\n")
    elif change.startswith("removed"):
        sidecar.unlink()
        if change == "removed":
            (world.root / "d/z.yaml").unlink()
    world.scan()
    assert world.row("d/a").state is (State.BLOCKED if change == "untouched" else State.QUEUED)


@pytest.mark.parametrize("name", ["d/a.yaml", "d/_folder.yaml", "_folder.yaml"])
@pytest.mark.parametrize("change", ["added", "changed", "removed"])
def test_sidecar_change_marks_only_its_files(world, name, change):
    sidecar = world.root / name
    for path in ("d/a", "e"):
        world.write(path, path.encode())
    if change != "added":
        world.write(name, b"description: x\n")
    world.scan_and_send()
    world.live(3)
    assert world.row("d/a").drift is None
    if change == "removed":
        sidecar.unlink()
    else:
        world.write(name, b"description: something else\n")
    assert world.scan().to_send == 0
    assert world.row("d/a").drift is not None
    assert (world.row("e").drift is None) is (name != "_folder.yaml")
    assert world.row("d/a").state is State.VERIFIED


@pytest.mark.parametrize("outcome", ["accept", "lost_after"])
@pytest.mark.parametrize("noticed", ["hint", "scan"])
def test_sidecar_change_during_upload_is_drift(world, noticed, outcome):
    """A change that is noticed while the body leaves is reported, whether or not the answer arrives."""
    world.write("a", b"1")
    sidecar = world.write("a.yaml", b"description: x\n")
    world.scan()

    def change(_request) -> None:
        sidecar.write_bytes(b"description: something else\n")
        if noticed == "hint":
            world.hint("a.yaml")
        else:
            world.scan()
            world.site.drift.step()

    world.service.script.append(outcome)
    world.service.during_upload = change
    world.send()
    world.live(200)
    world.scan()
    while world.site.drift.step():
        pass
    assert world.row("a").state is State.VERIFIED
    assert world.row("a").drift == "its metadata changed after the upload: set it in the service by hand"


@pytest.mark.parametrize("full", [0, 1, 40], ids=["as_it_is", "a_full_disk_for_a_moment", "a_full_disk_for_long"])
def test_sidecar_change_before_upload_is_drift(world, full):
    """The sidecar changes just before the intent is committed; `full` is how many of the next commits fail."""
    world.write("a", b"1")
    sidecar = world.write("a.yaml", b"description: x\n")
    world.scan()
    queue, disk = world.ledger.queue, FullDisk(world.ledger, full)
    begin = queue.submit_begin

    def change_first(intent, now):
        queue.submit_begin = begin
        sidecar.write_bytes(b"description: something else\n")
        world.hint("a.yaml")
        attempt = begin(intent, now)
        attempt.result()
        if full:
            # The next commits, and they alone.
            disk.fill()
        return attempt

    queue.submit_begin = change_first
    try:
        world.send()
    except LedgerError:
        # As a run that ended for it, and the next one.
        assert full > 1, "the commits that fail"
        disk.empty()
        world.restart()
    world.live(200)
    world.scan()
    while world.site.drift.step():
        pass
    told = [dict(request.meta)["file_desc"] for request in world.service.posts]
    drift = "its metadata changed after the upload: set it in the service by hand"
    if full > 1:
        # Nothing of it had left, and it was told as its sidecar says by now.
        assert (told, world.row("a").drift) == (["something else"], None)
    else:
        assert (told, world.row("a").drift) == (["x"], drift)


def test_upload_after_scan_uses_new_sidecar(world):
    world.write("d/_folder.yaml", b"description: x\n")
    world.write("d/a", b"1")
    world.scan_and_send()
    world.write("d/_folder.yaml", b"description: something else\n")
    world.write("d/b", b"22")
    world.scan_and_send()
    assert [dict(request.meta)["file_desc"] for request in world.service.posts] == ["x", "something else"]


def test_missing_file_needs_a_second_look(world):
    for path in ("a", "b"):
        world.write(path)
    world.scan_and_send()
    (world.root / "a").unlink()
    (world.root / "b").rename(world.base / "b")
    result = world.site.rescan.dry_run()
    assert [missing.path for missing in result.missing] == [b"a", b"b"]
    (world.base / "b").rename(world.root / "b")
    assert world.site.intake.decide_missing(result) == [b"a"]
    assert (world.states(), world.history("a")) == ({"b": State.STORED}, [State.GONE])


def test_second_looks_are_no_silence(world, monkeypatch):
    """The watchdog waits for a sign of life, however many files are gone."""
    for number in range(5):
        world.write(f"{number}")
    world.scan()
    for number in range(5):
        (world.root / f"{number}").unlink()
    result = world.site.rescan.dry_run()
    ticks = []
    heartbeat = Heartbeat(lambda: bool(ticks.append(1)))
    monkeypatch.setattr(world.site.intake, "_context", replace(world.site.context, heartbeat=heartbeat))
    world.site.intake.decide_missing(result)
    assert len(ticks) == 5


def test_unreadable_folder_decides_nothing(world):
    for path in ("a/1", "b/1"):
        world.write(path)
    world.scan()
    shutil.rmtree(world.root / "a")
    shutil.rmtree(world.root / "b")
    result = world.site.rescan.dry_run()
    result.report.mark_unreadable(b"b", "Permission denied")
    world.site.intake.decide_missing(result)
    assert world.states() == {"b/1": State.QUEUED}


def test_invisible_files_are_not_missing(world):
    for path in ("a/1", "a/2", "b/1"):
        world.write(path)
    world.scan_and_send()
    report = ScanReport()

    def entries():
        report.mark_unreadable(b"a", "Permission denied")
        report.finished = True
        yield from ()

    world.site.intake._most_missing = 1
    result = world.site.intake.scan(lambda _notes: entries(), report)
    assert ([missing.path for missing in result.missing], result.missing_count) == ([b"b/1"], 1)
    shutil.rmtree(world.root / "b")
    assert world.site.intake.decide_missing(result) == [b"b/1"]
    assert world.states() == {"a/1": State.STORED, "a/2": State.STORED}


def test_row_moved_since_the_scan_is_not_gone(world):
    old = world.write("a")
    world.scan_and_send()
    old.rename(world.root / "b")
    result = world.site.rescan.dry_run()
    world.site.intake.look(b"b")
    world.send()
    assert world.states() == {"b": State.STORED}
    world.site.intake.decide_missing(result)
    assert world.states() == {"b": State.STORED}


def test_outdated_look_replaces_nothing(world):
    path = world.write("a", b"1")
    world.scan()
    (row,) = world.ledger.queue.due(world.clock.now(), 1)
    path.write_bytes(b"12")
    world.site.intake.look(b"a")
    fresh = world.row("a")
    world.site.preparer.prepare(row)
    assert world.row("a") == fresh


@pytest.mark.parametrize("why", ["mapping", "ignore"])
def test_unmapped_path_revives_without_upload(world, why):
    world.write("photos/a")
    world.write("b", b"2")
    world.scan_and_send()
    world.live(3)
    aside = {"mapping": {"folders": [{"path": "c", "destfolderid": "F1"}]}, "ignore": {"ignore": ["photos/", "b"]}}[why]
    world.restart(**aside)
    result = world.scan()
    assert (result.unmapped, result.missing_count, world.states()) == (2, 0, {})
    assert {row.wanted for row in world.ledger.reports.files(history=True)} == {Wanted.UNMAPPED}
    assert world.orphans() == []
    world.restart(folders=[{"path": ".", "destfolderid": "F1"}], ignore=[])
    (world.root / "b").chmod(0o600)
    world.scan_and_send()
    assert world.states() == {"b": State.VERIFIED, "photos/a": State.VERIFIED}
    assert len(world.service.posts) == 2


def test_a_dry_run_counts_and_writes_nothing(world):
    world.write("kept")
    world.write("gone")
    world.scan_and_send()
    (world.root / "gone").unlink()
    world.write("new", b"12345")
    world.write("new.yaml", b"description: x\n")
    changes = world.ledger.store._writer.conn.total_changes
    result = world.site.rescan.dry_run()
    assert (result.scanned, result.unchanged, result.to_send, result.bytes_to_send) == (2, 1, 1, 5)
    assert [missing.path for missing in result.missing] == [b"gone"]
    assert world.ledger.store._writer.conn.total_changes == changes
    assert list(world.ledger.versions.sidecars()) == []


def test_upload_token_is_random_alphanumeric(world):
    assert isinstance(world.site.context, Context)
    tokens = {world.site.context.token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.isalnum() and len(token) <= 70 for token in tokens)


def test_empty_file_is_held_until_filled(world):
    for number in range(3):
        world.write(f"empty-{number}", b"")
    world.write("full")
    world.scan()
    assert world.states() == {"full": State.QUEUED} | {f"empty-{n}": State.BLOCKED for n in range(3)}
    assert world.row("empty-0").reason == "empty_file"
    world.write("empty-0")
    world.scan()
    assert world.history("empty-0") == [State.QUEUED]


def test_empty_file_is_held_when_queued(world):
    for number in range(50):
        world.write(f"empty-{number}", b"")
    before = world.ledger.store._commits.count
    world.scan()
    assert world.send() == 0
    assert world.ledger.store._commits.count - before < 15


def test_scanned_sidecars_commit_in_parts(world, monkeypatch):
    for number in range(2500):
        world.write(f"{number}.jpg.yaml", b"language: 1")
    parts = []
    write = world.ledger.versions.sidecars_changed

    def count(_self, changes, now: float) -> int:
        parts.append(len(changes))
        return write(changes, now)

    monkeypatch.setattr(type(world.ledger.versions), "sidecars_changed", count)
    world.scan()
    assert (sum(parts), max(parts)) == (2500, 1000)


def test_unreadable_path_is_kept_until_scan(world, monkeypatch):
    world.write("a")
    world.scan_and_send()

    def refuse(_tree, _path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "look", refuse)
        world.hint("dark/b")
    last = world.ledger.runs.last_scan()
    assert (last.complete, last.unreadable, last.first_unreadable) == (False, 1, "dark/b (Permission denied)")
    world.scan()
    last = world.ledger.runs.last_scan()
    assert (last.complete, last.unreadable, last.first_unreadable) == (True, 0, "")


def store(mapped, content: bytes, path) -> bool:
    """Store bytes through a memory map; give whether that changed the file's times."""
    before = path.stat()
    time.sleep(0.05)
    mapped[: len(content)] = content
    after = path.stat()
    return (before.st_mtime_ns, before.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns)


@pytest.fixture
def world_on_disk(make_world):
    """A site on a disk, because a file system in memory keeps the times of mapped pages differently."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield make_world(Path(folder))


@pytest.fixture
def mapped(world_on_disk):
    """A file that was sent once, and the memory map through which a program goes on writing it."""
    world = world_on_disk
    path = world.write("a", bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as made:
        os.fsync(file.fileno())
        assert world.scan_and_send() == 1
        yield made, path


def test_mapped_write_to_clean_page_is_sent(world_on_disk, mapped):
    world, (made, path) = world_on_disk, mapped
    assert store(made, b"first", path)
    made.flush()
    assert world.scan_and_send() == 1
    if not store(made, b"second", path):
        pytest.skip("this file system sets times at the first write to a page only")
    assert world.scan_and_send() == 1
    assert sorted(content[:6] for content in world.service.contents) == [bytes(6), b"first\0", b"second"]


def test_mapped_write_to_dirty_page_waits_for_touch(world_on_disk, mapped):
    """What the guide says of memory maps: such a write leaves no trace, not even once it is on the disk."""
    world, (made, path) = world_on_disk, mapped
    store(made, b"first", path)
    assert world.scan_and_send() == 1
    if store(made, b"second", path):
        pytest.skip("the kernel has written the page to the disk meanwhile, or this file system always sets times")
    made.flush()
    assert (world.hint("a"), world.scan_and_send()) == (0, 0)
    os.utime(path)
    assert world.scan_and_send() == 1
    assert b"second" in [content[:6] for content in world.service.contents]


def test_files_with_a_longer_settle_are_due_later():
    settling = Settling(most=3)
    stat = FileStat(1, 1, 1, 1)
    settling.see(b"long", stat, 0.0, 10.0)
    settling.see(b"short", stat, 1.0, 5.0)
    assert (settling.due(6.0), settling.next_due()) == ([b"short"], 6.0)
    assert (settling.due(11.0), settling.due(11.0, 1)) == ([b"short", b"long"], [b"short"])
    assert (settling.see(b"long", stat, 9.0, 10.0), settling.see(b"long", stat, 10.0, 10.0)) == (False, True)
    settling.forget(b"short")
    settling.queued(b"long", stat)
    assert (len(settling), settling.next_due()) == (0, None)
