"""From due to decided: what is not sent, what is sent once, and whose matter a refusal is.

Covers `sync/upload/gather.py`, `sync/upload/prepare.py` and `sync/upload/results.py`.
"""

import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.core.gate import Trouble
from assetsync.core.outcome import Reply
from assetsync.errors import LedgerDamaged, LedgerError, RootMissing
from assetsync.ledger.queue import Intent
from assetsync.model import Answer, Outcome, Sent, SentExtent, State, UploadRequest
from assetsync.sync.upload.queue import Step
from assetsync.sync.upload.results import FOLDER_HOLD
from tests.sync.conftest import chunked
from tests.world import FullDisk

NOBODY = 65534

VERIFIED, BLOCKED, QUEUED, IN_DOUBT, STORED = (
    State.VERIFIED, State.BLOCKED, State.QUEUED, State.IN_DOUBT, State.STORED,
)  # fmt: skip


@pytest.fixture
def one(world):
    """A world with one verified file, `a`."""
    world.write("a", b"content")
    world.scan_and_send()
    world.live(3)
    assert world.states() == {"a": VERIFIED}
    return world


def test_file_is_sent_once_and_read_back(one):
    one.live(300)
    assert [(r.filename, r.destfolderid) for r in one.service.posts] == [("a", "F1")]
    assert one.service.contents == [b"content"]
    row = one.row("a")
    assert (row.assetid, row.md5) == (next(iter(one.service.assets)), "9A0364B9E99BB480DD25E1F0284C8555")


def test_changed_content_is_a_new_asset(one):
    first = one.row("a").assetid
    one.write("a", b"other")
    one.scan_and_send()
    one.live(3)
    assert one.history("a") == [VERIFIED, State.SUPERSEDED]
    assert one.service.contents == [b"content", b"other"]
    assert [(o.assetid, o.why) for o in one.orphans()] == [(first, "replaced")]


def test_reported_change_is_sent_once_allowed(make_world):
    world = make_world(policy={"on_change": "report"})
    world.write("a.jpg", b"first")
    world.scan_and_send()
    world.live(5)
    world.write("a.jpg", b"second")
    world.scan_and_send()
    world.site.try_again()
    world.send()
    assert (world.row("a.jpg").reason, world.posted()) == ("changed", ["a.jpg"])
    world.restart(policy={"on_change": "upload"})
    world.site.try_again()
    world.send()
    assert world.posted() == ["a.jpg", "a.jpg"]


@pytest.mark.parametrize("what", ["brake", "pause", "window"])
def test_blocked_file_keeps_its_reason(make_world, what):
    """While nothing may be sent, a retry would find nothing out: the reason and its advice stay."""
    world = make_world(upload={"window": "00:00-12:00"})
    world.clock.advance(86_400 - world.clock.now() % 86_400 + 6 * 3600)
    world.write("a.jpg.yaml", b"descriptoin: x")
    world.write("a.jpg")
    world.scan_and_send()
    assert world.row("a.jpg").reason == "sidecar"
    if what == "brake":
        world.ledger.pull_brake("new_files", "site", "why", 1, world.clock.now())
    elif what == "pause":
        world.site.gates.failed(Trouble("unreachable", "no answer", None))
    else:
        world.clock.advance(8 * 3600)
    world.site.try_again()
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (State.BLOCKED, "sidecar")
    world.ledger.resume(None, world.clock.now())
    world.site.gates.checked()
    world.clock.advance(86_400 - world.clock.now() % 86_400 + 6 * 3600)
    world.site.try_again()
    assert world.row("a.jpg").state is State.QUEUED


def test_on_change_report_blocks_changed_file(make_world):
    world = make_world(policy={"on_change": "report"})
    world.write("a", b"1")
    world.scan_and_send()
    world.write("a", b"22")
    world.scan_and_send()
    assert (world.row("a").state, world.row("a").reason) == (BLOCKED, "changed")
    assert "--send-again" in world.row("a").detail
    assert len(world.service.posts) == 1


def _touch(world) -> None:
    os.utime(world.root / "a", (12345, 12345))


def _copy_back(world) -> None:
    shutil.copyfile(world.root / "a", world.root / "copy")
    os.replace(world.root / "copy", world.root / "a")


def _there_and_back(world) -> None:
    world.write("a", b"other")
    world.scan()
    world.write("a", b"content")


def _rename(world) -> None:
    (world.root / "a").rename(world.root / "b")


def _move_into_a_new_folder(world) -> None:
    (world.root / "new/deep").mkdir(parents=True)
    (world.root / "a").rename(world.root / "new/deep/a")


def _copy_then_delete(world) -> None:
    shutil.copyfile(world.root / "a", world.root / "b")
    (world.root / "a").unlink()


def _delete_scan_and_restore(world) -> None:
    world.write("keep", b"something else")
    world.scan_and_send()
    world.service.posts.pop()
    (world.root / "a").unlink()
    world.scan()
    world.write("a", b"content")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (_touch, "a"),
        (lambda world: (world.root / "a").chmod(0o600), "a"),
        (_copy_back, "a"),
        (_there_and_back, "a"),
        (_rename, "b"),
        (_move_into_a_new_folder, "new/deep/a"),
        (_copy_then_delete, "b"),
        (_delete_scan_and_restore, "a"),
    ],
    ids=["touch", "chmod", "copied_back", "there_and_back", "renamed", "moved", "copied_and_deleted", "restored"],
)
def test_content_in_the_folder_is_not_resent(one, change, path):
    asset = one.row("a").assetid
    change(one)
    one.scan_and_send()
    one.scan()
    one.live(3)
    assert len(one.service.posts) == 1
    assert (one.row(path).state, one.row(path).assetid) == (VERIFIED, asset)


def test_swapped_files_are_not_resent(world):
    world.write("a", b"aaaa")
    world.write("b", b"bbbb")
    world.scan_and_send()
    world.live(3)
    before = {path: world.row(path).assetid for path in ("a", "b")}
    (world.root / "a").rename(world.root / "c")
    (world.root / "b").rename(world.root / "a")
    (world.root / "c").rename(world.root / "b")
    world.scan_and_send()
    world.live(3)
    assert {path: world.row(path).assetid for path in ("a", "b")} == {"a": before["b"], "b": before["a"]}
    assert len(world.service.posts) == 2


def test_renamed_large_file_is_only_hashed(world):
    content = chunked(9 * 2**20)
    world.write("big", content)
    world.scan_and_send()
    world.live(3)
    (world.root / "big").rename(world.root / "renamed")
    world.scan_and_send()
    world.live(3)
    assert (world.row("renamed").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize(
    "make", [shutil.copyfile, os.link, lambda old, new: new.write_bytes(old.read_bytes())], ids=["copy", "link", "same"]
)
def test_second_path_has_its_own_asset(one, make):
    make(one.root / "a", one.root / "b")
    one.scan_and_send()
    one.live(3)
    assert one.service.contents == [b"content", b"content"]
    assert one.row("a").assetid != one.row("b").assetid
    assert one.states() == {"a": VERIFIED, "b": VERIFIED}


def _chmod_to_nothing(path) -> None:
    path.chmod(0)


# What is wrong with the file, the reason, and what its sentence names.
BAD = {
    "empty": ({}, lambda w: w.write("bad", b""), "empty_file", "waits for content"),
    "too_large": ({"max_file_size": "10"}, lambda w: w.write("bad", b"x" * 11), "too_large", "upload.max_file_size"),
    "sidecar": ({}, lambda w: (w.write("bad"), w.write("bad.yaml", b"nonsense: 1")), "sidecar", "bad.yaml, line 1"),
    "folder_sidecar": (
        {},
        lambda w: (w.write("d/bad"), w.write("d/_folder.yaml", b"description: [x")),
        "sidecar",
        "d/_folder.yaml, line 1, column 14",
    ),
    "sidecar_is_a_folder": ({}, lambda w: (w.write("bad"), w.write("bad.yaml/x")), "sidecar", "replace it by a file"),
}


@pytest.mark.parametrize("case", BAD)
def test_unsendable_file_is_blocked_alone(make_world, case):
    upload, make, reason, says = BAD[case]
    world = make_world(upload=upload)
    for name in ("a", "z"):
        world.write(name, name.encode())
    make(world)
    world.scan_and_send()
    world.live(3)
    (blocked,) = world.ledger.reports.blocked(10)
    assert (os.path.basename(blocked.path), blocked.reason) == (b"bad", reason)
    assert says in blocked.detail
    assert (world.states()["a"], world.states()["z"]) == (VERIFIED, VERIFIED)
    assert "bad" not in world.posted()


def test_unreadable_file_is_sent_later(make_world, clock):
    """A file without read permission is blocked with the fix; after a chmod and a retry it is sent."""
    with tempfile.TemporaryDirectory(prefix="assetsync-flow-") as folder:
        os.chmod(folder, 0o755)
        world = make_world(base=Path(folder))
        path = world.write("a")
        path.chmod(0)
        world.scan()
        privileged = os.geteuid() == 0
        try:
            if privileged:
                os.seteuid(NOBODY)
            world.send()
        finally:
            if privileged:
                os.seteuid(0)
        assert (world.row("a").state, world.row("a").reason) == (BLOCKED, "unreadable")
        assert "give the user that assetsync runs as read permission" in world.row("a").detail
        path.chmod(0o644)
        assert world.ledger.queue.retry_blocked("unreadable", clock.now()) == 1
        world.send()
        assert world.row("a").state is STORED
        world.close()


def test_empty_file_is_sent_once_filled(world):
    world.write("a", b"")
    world.scan_and_send()
    world.write("a", b"now")
    world.scan_and_send()
    assert (world.row("a").state, world.service.contents) == (STORED, [b"now"])


def test_fixed_sidecar_is_sent_with_its_file(world):
    world.write("a.txt")
    world.write("a.txt.yaml", b"nonsense: 1\n")
    world.scan_and_send()
    world.write("a.txt.yaml", b"description: The harbour\nkeywords: [a, b]\nlanguage: 2\n")
    world.scan_and_send()
    (post,) = world.service.posts
    assert (dict(post.meta), post.language) == ({"file_desc": "The harbour", "file_keywords": "a,b"}, "2")
    assert not post.options.zip_extract


@pytest.mark.parametrize("minutes", [2, 60])
@pytest.mark.parametrize("comes", [True, False])
def test_file_waits_for_sidecar_until_timeout(make_world, clock, minutes, comes):
    world = make_world(watch={"sidecar_wait": f"{minutes}m"})
    world.write("a.txt")
    world.scan()
    assert world.site.uploader.step() is Step.WORKED
    assert world.site.uploader.step() is Step.IDLE
    world.live(60 * (minutes - 1), tick=20)
    assert world.service.posts == []
    if comes:
        world.write("a.txt.yaml", b"description: here\n")
        world.scan_and_send()
    else:
        world.live(120, tick=20)
    (post,) = world.service.posts
    assert post.meta == ((("file_desc", "here"),) if comes else ())


def test_vanished_queued_file_blocks_nothing(world):
    for name in ("a", "b"):
        world.write(name, name.encode())
    world.scan()
    (world.root / "a").unlink()
    world.send()
    world.live(3)
    assert (world.states(), world.history("a")) == ({"b": VERIFIED}, [State.GONE])


@pytest.mark.parametrize("what", ["its_mapped_folder", "the_root"])
def test_files_of_absent_place_stay_queued(make_world, what):
    world = make_world(folders=[{"path": "d", "destfolderid": "F1"}])
    for name in ("d/a", "d/b"):
        world.write(name)
    world.scan()
    if what == "the_root":
        world.root.rename(world.base / "away")
    else:
        (world.root / "d").rename(world.base / "away")
        (world.root / "d").mkdir()
    assert world.send() == 2
    assert world.states() == {"d/a": QUEUED, "d/b": QUEUED}
    assert world.service.posts == []


def test_file_replaced_by_folder_is_gone(world):
    world.write("a")
    world.write("b")
    world.scan()
    for name in ("a", "b"):
        (world.root / name).unlink()
    (world.root / "a").mkdir()
    (world.root / "b").symlink_to("/etc/passwd")
    world.send()
    assert (world.history("a"), world.history("b"), world.service.posts) == ([State.GONE], [State.GONE], [])


@pytest.mark.parametrize("size", [100, 9 * 2**20], ids=["small", "large"])
def test_file_changed_in_flight_is_not_recorded(world, size):
    """The digest in the ledger is that of the stored asset, whichever content that has."""
    old, new = b"o" * size, b"n" * size
    path = world.write("a", old)

    def change(_request: UploadRequest) -> None:
        world.service.during_upload = lambda _request: None
        path.write_bytes(new)

    world.service.during_upload = change
    world.scan_and_send()
    world.live(60)
    world.scan_and_send()
    world.live(60)
    stored = world.service.assets[world.row("a").assetid]
    assert world.row("a").state is VERIFIED
    assert (stored.content == new) or (size == 100 and stored.content == old and world.row("a").size == size)
    assert world.row("a").md5 == stored.md5


def test_file_changed_before_send_is_requeued(world):
    world.write("a", b"old")
    world.scan()
    world.write("a", b"newer")
    world.send()
    world.live(3)
    assert (world.service.contents, world.history("a")) == ([b"newer"], [VERIFIED])


@pytest.mark.parametrize("gives_md5", [True, False])
def test_hand_filled_folder_is_adopted_unsent(world, gives_md5):
    world.service.gives_md5 = gives_md5
    theirs = world.service.put(b"content", "by hand.jpg")
    world.service.put(b"something", "else.jpg")
    world.write("a", b"content")
    world.scan_and_send()
    world.live(3)
    if gives_md5:
        assert (world.row("a").assetid, world.service.posts) == (theirs.id, [])
    else:
        # Without a digest nothing proves that it is the same: a name and a size are no reason not to send a file.
        assert len(world.service.posts) == 1
    assert world.row("a").state is VERIFIED


def test_root_lost_during_an_adoption_costs_nothing(world, monkeypatch):
    """The file was read and an equal asset found; then the root was gone for a moment."""
    theirs = world.service.put(b"content", "a")
    world.write("a", b"content")
    world.scan()
    metadata_of, lost = world.site.sidecars.metadata_of, []

    def lose_the_root(path, mapping, kind=None, **rest):
        if kind is not None and not lost:
            lost.append(path)
            raise RootMissing("the root is not there at the moment")
        return metadata_of(path, mapping, kind, **rest)

    monkeypatch.setattr(world.site.sidecars, "metadata_of", lose_the_root)
    world.send()
    assert (lost, world.row("a").assetid, world.service.posts) == ([b"a"], theirs.id, [])


def test_asset_serves_one_of_two_equal_files(world):
    world.service.put(b"content", "by hand.jpg")
    world.write("a", b"content")
    world.write("b", b"content")
    world.scan_and_send()
    world.live(3)
    assert (len(world.service.posts), len(world.service.assets)) == (1, 2)
    assert world.states() == {"a": VERIFIED, "b": VERIFIED}


def test_lost_ledger_is_rebuilt(one):
    one.close()
    for file in one.base.glob("ledger.db*"):
        file.unlink()
    one.scan_and_send()
    one.live(3)
    assert (one.states(), len(one.service.posts)) == ({"a": VERIFIED}, 1)


def test_restored_ledger_repeats_no_post(one):
    one.close()
    copy = one.ledger_path.read_bytes()
    one.write("b", b"later")
    one.scan_and_send()
    one.close()
    one.ledger_path.write_bytes(copy)
    assert one.ledger.restored
    one.scan_and_send()
    one.live(3)
    assert (one.states(), len(one.service.posts)) == ({"a": VERIFIED, "b": VERIFIED}, 2)


def test_unknown_folder_holds_the_folder_alone(make_world, clock):
    """The first refused file holds its folder for a while; the other folder is sent."""
    folders = [{"path": "x", "destfolderid": "F1"}, {"path": "y", "destfolderid": "F2"}]
    world = make_world(folders=folders)
    for number in range(5):
        world.write(f"x/{number}", f"x{number}".encode())
        world.write(f"y/{number}", f"y{number}".encode())
    world.service.script.append("unknown_folder")
    world.scan_and_send()
    states = world.states()
    assert [states[f"y/{n}"] for n in range(5)] == [STORED] * 5
    assert sorted(states[f"x/{n}"] for n in range(5)) == [BLOCKED, QUEUED, QUEUED, QUEUED, QUEUED]
    assert "destfolderid" in world.ledger.reports.holds(clock.now())["F1"].detail
    assert world.ledger.reports.counts(clock.now()).held == 4
    clock.advance(FOLDER_HOLD + 1)
    world.send()
    world.live(3)
    assert set(world.states().values()) == {VERIFIED}


def test_retry_after_of_upload_holds_its_folder(make_world, clock):
    """The service's wait is the folder's: other folders go on, and a restart does not end it."""
    folders = [{"path": "x", "destfolderid": "F1"}, {"path": "y", "destfolderid": "F2"}]
    world = make_world(folders=folders)
    for number in range(3):
        world.write(f"x/{number}", f"x{number}".encode())
        world.write(f"y/{number}", f"y{number}".encode())
    world.service.script.append(Reply(429, retry_after=200.0, is_delimited=True))
    world.scan_and_send()
    for restarts in (False, True):
        if restarts:
            world.restart()
        world.site.gates.checked()
        world.send()
        assert sorted(world.posted()) == ["0", "0", "1", "2"]
    detail = "the service asks to wait for 200 s before the next upload"
    assert world.ledger.reports.holds(clock.now())["F1"][:2] == ("asked_to_wait", detail)
    assert world.ledger.reports.counts(clock.now()).held == 0
    clock.advance(201)
    # A folder that accepted nothing takes no further file before its doubt is decided.
    world.live(120)
    assert sorted(world.posted()) == ["0", "0", "0", "1", "1", "2", "2"]
    assert world.ledger.reports.holds(clock.now()) == {}


def test_upload_under_way_ends_no_wait(make_world, clock):
    """An upload that was accepted after the wait began was sent before it."""
    world = make_world()
    world.service.put(b"there", "there")
    for name in ("a", "b", "c"):
        world.write(name, name.encode())
    world.scan()

    def busy(_request) -> None:
        world.service.during_upload = lambda _request: None
        world.service.script.append(Reply(429, retry_after=200.0, is_delimited=True))
        world.site.uploader.step()

    world.service.during_upload = busy
    world.site.uploader.step()
    assert QUEUED in world.states().values()
    assert "F1" in world.ledger.reports.holds(clock.now())


def test_later_accepted_upload_ends_the_wait(make_world, clock):
    """It began after the service had asked to wait, as an upload by hand may."""
    world = make_world()
    for name in ("a", "b"):
        world.write(name, name.encode())
    world.service.script.append(Reply(429, retry_after=3600.0, is_delimited=True))
    world.scan_and_send()
    assert world.ledger.reports.holds(clock.now())["F1"].until == clock.now() + 3600
    clock.advance(1)
    row = next(world.row(name) for name in ("a", "b") if world.row(name).state == QUEUED)
    name = row.path.decode()
    intent = Intent(row.id, "F1", name, "boundary", row.stat, None, "", by_hand=True)
    attempt = world.ledger.queue.begin(intent, clock.now())
    sent = Sent(Outcome(Answer.ACCEPTED, assetid="A9"), SentExtent.ALL, 1, "")
    world.ledger.attempt_results.accepted(attempt, row.id, sent, clock.now())
    assert world.ledger.reports.holds(clock.now()) == {}


def test_refused_key_pauses_and_blocks_nothing(world):
    for number in range(5):
        world.write(f"{number}", f"{number}".encode())
    world.service.script.append("key")
    world.scan()
    assert world.send() == 1
    assert set(world.states().values()) == {QUEUED}
    assert world.site.gates.closed.reason == "key_refused"
    assert world.site.uploader.step() is Step.PAUSED
    world.live(10)
    assert set(world.states().values()) == {VERIFIED}
    assert len(world.service.posts) == 6


@pytest.mark.parametrize(("word", "reason"), [("too_large", "too_large"), ("no_filedata", "no_filedata")])
def test_refused_file_is_blocked_alone(world, word, reason):
    for number in range(3):
        world.write(f"{number}", f"{number}".encode())
    world.service.script.append(word)
    world.scan_and_send()
    world.live(3)
    assert sorted(world.states().values()) == [BLOCKED, VERIFIED, VERIFIED]
    assert world.ledger.reports.blocked(1)[0].reason == reason
    assert len(world.service.posts) == 3


def test_outage_sends_one_probe_at_a_time(world):
    world.service.put(b"there", "there")
    world.write("a", b"a")
    world.scan_and_send()
    for number in range(20):
        world.write(f"{number}", f"{number}".encode())
    world.service.down = True
    world.scan_and_send()
    posts = len(world.service.posts)
    world.live(3600)
    assert len(world.service.posts) == posts == 2
    rows = [row for row in world.ledger.reports.files() if row.path != b"a"]
    assert {(row.state, row.failures) for row in rows} == {(QUEUED, 0)}
    assert len(world.service.searches) < 400
    world.service.down = False
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}


def test_unanswered_posts_open_few_doubts(world):
    for number in range(200):
        world.write(f"{number}", f"{number}".encode())
    world.service.script.extend(["lost_before"] * 100_000)
    world.scan_and_send()
    world.live(3600, tick=5.0)
    assert len(world.service.posts) < 100


def test_impossible_form_blocks_file_once(world):
    from assetsync.model import Answer, Fault, Outcome, Sent, SentExtent

    world.write("a")
    outcome = Outcome(Answer.UNSENT, "bad_form", "the value of meta_x is not text", Fault.FILE)
    world.service.upload = lambda request, body: Sent(outcome, SentExtent.NOTHING, 0, "")
    world.scan_and_send()
    assert (world.row("a").state, world.row("a").reason) == (BLOCKED, "bad_form")


def test_failing_file_is_retried_with_backoff(world, clock):
    from assetsync.model import Answer, Fault, Outcome, Sent, SentExtent

    world.write("a")
    outcome = Outcome(Answer.UNSENT, "unreadable", "input/output error", Fault.FILE)
    posts = []
    world.service.upload = lambda request, body: posts.append(clock.now()) or Sent(outcome, SentExtent.NOTHING, 0, "")
    world.scan_and_send()
    world.live(24 * 3600, tick=60.0)
    assert 20 < len(posts) < 220
    assert world.row("a").failures == len(posts)


NAMES = ["x/a.jpg", "y/a.jpg", "z/A.JPG"]


def test_only_one_namesake_attempt_is_open(world):
    for name in NAMES:
        world.write(name, name.encode())
    open_at_once: list[int] = []
    world.service.during_upload = lambda _request: open_at_once.append(world.service.in_flight)
    world.scan()
    threads = [threading.Thread(target=world.send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    world.send()
    assert open_at_once == [1, 1, 1]
    assert world.states() == dict.fromkeys(NAMES, STORED)


def test_name_in_doubt_holds_only_itself(world):
    for name in [*NAMES, "zz.jpg"]:
        world.write(name, name.encode())
    world.service.script.append("lost_before")
    world.scan_and_send()
    world.site.gates.checked()
    world.send()
    states = world.states()
    assert sorted(states[name] for name in NAMES) == [IN_DOUBT, QUEUED, QUEUED]
    assert states["zz.jpg"] is STORED


def test_four_doubts_per_worker_pause_sending(world):
    for number in range(20):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    world.service.script.extend(["lost_before"] * 20)
    steps = []
    for _ in range(20):
        world.site.gates.checked()
        steps.append(world.site.uploader.step())
    assert steps == [Step.WORKED] * 8 + [Step.PAUSED] * 12
    assert world.ledger.doubts.count() == 8
    world.service.script.clear()
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}


def test_many_threads_send_each_file_once(world):
    """Eight threads take from one queue of 120 files."""
    for number in range(120):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    raised = []

    def run() -> None:
        try:
            world.send()
        except BaseException as error:  # noqa: BLE001 - compared below
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert raised == []
    assert sorted(world.posted(), key=int) == [str(n) for n in range(120)]
    assert set(world.states().values()) == {STORED}


def test_changing_tree_stops_no_sender(world):
    """Four threads send while files change and exchange names; at the end each asset has its file's content."""
    for number in range(40):
        world.write(f"{number}", f"{number}".encode() * 10)
    world.scan()
    raised = []
    done = threading.Event()

    def sends() -> None:
        try:
            while not done.is_set():
                world.site.uploader.step()
        except BaseException as error:  # noqa: BLE001 - compared below
            raised.append(error)
            done.set()

    threads = [threading.Thread(target=sends) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(12):
        for number in range(0, 40, 2):
            path = world.root / f"{number}"
            path.write_bytes(f"{number} {turn % 3}".encode() * 10)
            world.site.intake.look(f"{number}".encode())
            (world.root / f"{number + 1}").rename(world.root / f"moving{number}")
            (world.root / f"moving{number}").rename(world.root / f"{number + 1}")
        (world.root / "1").rename(world.root / "one")
        world.scan()
        (world.root / "one").rename(world.root / "1")
        world.scan()
        world.site.verifier.step()
        world.site.resolver.step()
    done.set()
    for thread in threads:
        thread.join(30)
    assert raised == []
    world.scan()
    world.live(20)
    world.scan()
    world.live(20)
    assert set(world.states().values()) == {VERIFIED}
    owned = [world.row(path).assetid for path in world.states()]
    assert len(set(owned)) == 40
    for path in world.states():
        assert world.service.assets[world.row(path).assetid].content == (world.root / path).read_bytes()


def test_block_reason_omits_the_root_path(world):
    world.write("bad", b"")
    world.write("worse")
    world.write("worse.yaml", b"x: 1")
    world.scan_and_send()
    for row in world.ledger.reports.blocked(10):
        assert re.search(re.escape(str(world.root)), row.detail) is None


def run_to_the_end(world) -> Step:
    return world.site.uploader.run(lambda: True)


def test_attempt_is_written_before_its_upload(world):
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    found = []

    def look(request) -> None:
        with closing(sqlite3.connect(world.ledger_path)) as conn:
            found.append((request.filename, conn.execute(_OPEN).fetchall()))

    world.service.during_upload = look
    run_to_the_end(world)
    assert all((name,) in names for name, names in found)
    assert len(found) == 10


_OPEN = "SELECT sent_name FROM attempts WHERE closed_at IS NULL"


def test_result_survives_an_unwritable_disk(make_world, monkeypatch):
    """The ledger refuses commits while answers arrive: the results are recorded later, and nothing is sent again."""
    world = make_world(upload={"workers": "1"})
    for number in range(40):
        world.write(f"{number}", f"{number}".encode() * 200)
    world.scan()
    writer = world.ledger.store._writer
    waits = []

    def refuse(_request) -> None:
        if not waits:
            writer.execute("PRAGMA query_only = ON")

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            writer.execute("PRAGMA query_only = OFF")
        return False

    world.service.during_upload = refuse
    monkeypatch.setattr(world.clock, "wait", wait)
    assert run_to_the_end(world) is Step.IDLE
    assert len(waits) == 3
    assert set(world.states().values()) == {STORED}
    assert len(world.service.posts) == 40


def test_equal_sizes_are_looked_up_by_index(world):
    """Each is looked for by its digest: the time for one must not grow with how many there are of its size."""
    for number in range(300):
        world.write(f"{number:03}", b"%03d" % number)
    world.scan()
    steps = []
    # While a single thread reads, every query uses this connection.
    world.ledger.store.read(lambda conn: conn.conn.set_progress_handler(lambda: steps.append(1) and 0, 1))
    counts = []
    for _ in range(300):
        before = len(steps)
        assert world.site.uploader.step() is Step.WORKED
        counts.append(len(steps) - before)
    # Every 64th asks the ledger for more, which is another matter.
    assert sorted(counts[200:])[50] < 2 * sorted(counts[:100])[50]


def test_unrecorded_result_is_looked_up(world):
    world.write("a", b"1")
    world.write("b", b"22")
    world.scan()
    disk = FullDisk(world.ledger, 60)
    world.service.during_upload = lambda _request: disk.fill()
    with pytest.raises(LedgerError):
        world.send()
    assert world.row("a").state is State.SENDING
    world.service.during_upload = lambda _request: None
    disk.empty()
    world.restart()
    world.live(200)
    assert (world.posted(), set(world.states().values())) == (["a", "b"], {State.VERIFIED})


@pytest.mark.parametrize("answer", ["accept", "lost_after", "too_large"])
@pytest.mark.parametrize("size", [2, 9 * 2**20], ids=["small", "large"])
def test_result_of_deleted_row_blocks_nothing(make_world, answer, size):
    """A row is deleted while its file is uploaded: the result is dropped, and the next file is sent at once."""
    world = make_world(upload={"workers": "1"})
    world.write("a", b"1")
    world.write("b", b"2" * size)
    world.scan()
    world.service.script.append(answer)

    def forget(_request) -> None:
        world.service.during_upload = lambda _request: None
        world.ledger.store.write(lambda conn: conn.execute("DELETE FROM files WHERE path = CAST('a' AS BLOB)"))

    world.service.during_upload = forget
    began = world.clock.steady()
    world.site.uploader.run(lambda: True)
    assert world.clock.steady() == began
    world.live(200)
    world.send()
    assert (world.posted(), world.states()) == (["a", "b"], {"b": State.VERIFIED})


def test_folder_is_held_with_its_blocked_file(world):
    """The commit that blocks the file holds its folder, so that no worker sends another file in between."""
    for name in ("a", "b"):
        world.write(name, name.encode())
    world.scan()
    world.service.script.append("unknown_folder")
    commits = world.ledger.store._commits
    commit, before = commits._commit, []

    def blocks(conn) -> None:
        commit(conn)
        before.append((world.row("a").state, list(world.ledger.reports.holds(world.clock.now()))))

    def watch(_request) -> None:
        commits._commit = blocks

    world.service.during_upload = watch
    world.send()
    assert before[0] == (State.BLOCKED, ["F1"])
    assert world.posted() == ["a"]


def test_damaged_ledger_is_not_waited_for(world):
    world.write("a", b"1")
    world.scan()
    commits = world.ledger.store._commits

    def damaged(_conn) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    world.service.script.append("too_large")
    world.service.during_upload = lambda _request: setattr(commits, "_commit", damaged)
    began = world.clock.steady()
    with pytest.raises(LedgerDamaged):
        world.send()
    assert world.clock.steady() == began


def test_unreadable_file_is_retried_in_window(make_world):
    """A scan outside the upload window leaves it blocked; it is read once the window opens."""
    world = make_world(upload={"window": "19:00-07:00"}, schedule={"rescan": "0 12 * * *"})
    world.write("a.jpg", b"a")
    world.scan()

    def until(hour: int) -> None:
        for _ in range(48):
            if time.localtime(world.clock.now()).tm_hour == hour:
                return
            world.clock.advance(1800)
        raise AssertionError

    until(12)
    world.ledger.queue.block(world.row("a.jpg").id, "unreadable", "was not readable", world.clock.now())
    world.clock.advance(3600)
    # As the daemon scans.
    world.site.try_again(only_due=True)
    world.scan()
    world.live(60)
    assert world.states()["a.jpg"] is State.BLOCKED
    until(22)
    world.live(60)
    assert world.states()["a.jpg"] is State.VERIFIED
