"""Files that vanish from the tree are reported, wherever a person looks.

Covers `sync/intake/renames.py`.
"""

import os
import re
import shutil

import pytest

from assetsync.cli.commands.reconcile import KEYS
from assetsync.core.notices import Kind
from assetsync.notify.notifications import current_problems
from assetsync.reconcile.report import dry_run
from assetsync.status.document import as_object
from assetsync.status.sentences import headline, vanished
from assetsync.status.site_status import read_status
from assetsync.sync.intake import renames

DAY = 24 * 3600


@pytest.fixture
def filled(make_world):
    """A site with 30 files in two folders, all sent."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    for number in range(15):
        world.write(f"F1/{number:02}", bytes([number + 1]))
        world.write(f"F2/{number:02}", bytes([number + 101]))
    world.scan_and_send()
    return world


def remove(world, folder, count):
    for number in range(count):
        (world.root / folder / f"{number:02}").unlink()


def status(world):
    return read_status(world.site.config.outline, world.ledger, world.clock.now(), running=True)


def test_no_scan_is_reported_that_missed_nothing(filled):
    assert filled.scan().vanished == 0
    assert list(vanished(status(filled))) == []
    assert "vanished" not in headline(status(filled))


def test_vanished_files_are_named_by_folder(filled):
    remove(filled, "F1", 7)
    remove(filled, "F2", 3)
    assert filled.scan().vanished == 10
    first, *folders, newest = vanished(status(filled))
    assert first == "vanished in the last 7 days: 10 files; `assetsync orphans --all` lists their assets"
    assert [folder.strip() for folder in folders] == ["7 from F1", "3 from F2"]
    assert newest.endswith(": 10 of 30 files: F1/00, F1/01, F1/02, F1/03, F1/04, …")
    (event,) = as_object(status(filled))["vanished"]
    assert (event["count"], event["known"], event["folders"]) == (10, 30, {"F1": 7, "F2": 3})
    assert len(event["names"]) == 5


def test_verdict_with_vanished_files_is_punctuated(filled):
    remove(filled, "F1", 10)
    filled.scan()
    assert re.fullmatch(
        r"In progress: 0 of 20 verified, 20 pending\. 10 files vanished, [^.;]+ UTC\.", headline(status(filled))
    )
    filled.live(600)
    assert re.fullmatch(r"in sync: 20 files verified; 10 files vanished, [^.;]+ UTC", headline(status(filled)))


def test_verdict_sums_the_scans_of_a_day(filled):
    remove(filled, "F1", 10)
    filled.scan()
    remove(filled, "F2", 10)
    filled.scan()
    assert " 20 files vanished, " in headline(status(filled))
    filled.live(600)
    assert status(filled).badge == "noted"
    filled.clock.advance(86_400)
    assert status(filled).badge != "noted"


def test_few_vanished_files_stay_out_of_the_verdict(filled):
    remove(filled, "F1", 9)
    assert filled.scan().vanished == 9
    assert "vanished" not in headline(status(filled))
    assert next(vanished(status(filled))).startswith("vanished in the last 7 days: 9 files;")


@pytest.mark.parametrize("keeps_inode", [True, False])
def test_renamed_file_has_not_vanished(filled, keeps_inode):
    """A rename, and a move from another disk, which keeps the time but not the inode."""
    old, new = filled.root / "F1/00", filled.root / "F2/renamed"
    if keeps_inode:
        old.rename(new)
    else:
        new.write_bytes(old.read_bytes())
        os.utime(new, ns=(old.stat().st_atime_ns, old.stat().st_mtime_ns))
        old.unlink()
    assert filled.scan().vanished == 0


def test_reorganised_folder_pulls_no_brake(filled):
    for number in range(15):
        (filled.root / f"F1/{number:02}").rename(filled.root / f"F1/new {number:02}")
    filled.scan()
    assert not filled.site.brakes.pulled()


AGO, AHEAD = 1e9, 4e9
"""Times of files: one that has settled, and one that settles at the second look."""


def put_alike(world, *paths, mtime=AGO):
    """Write files of one size and time, as an export with fixed times does."""
    for number, path in enumerate(paths):
        world.write(path, b"%04d" % (number + sum(path.encode())), mtime=mtime)


@pytest.fixture(params=[AGO, AHEAD])
def alike(make_world, request):
    """A site with 100 sent files of one size and one time."""
    world = make_world(folders=[{"path": "F1", "destfolderid": "F1"}])
    put_alike(world, *(f"F1/{number:02}" for number in range(100)), mtime=request.param)
    for _ in range(3):
        world.scan_and_send()
    assert len(world.states()) == 100
    world.mtime = request.param
    return world


def test_new_path_excuses_one_missing_file(alike):
    """Of 95 deleted files, one has a new path on another disk; all pull the brake, and 94 are reported."""
    content = (alike.root / "F1/00").read_bytes()
    remove(alike, "F1", 95)
    alike.write("F1/new", content, mtime=alike.mtime)
    assert alike.scan().vanished == 0
    (brake,) = alike.ledger.reports.brakes()
    assert (brake.kind, brake.subject, brake.amount) == ("vanished", "F1/", 95)
    assert brake.detail == "95 of 100 files of the mapped folder F1 are gone: is this intended?"
    alike.ledger.resume(brake.id, alike.clock.now())
    assert alike.scan().vanished == 94
    assert next(vanished(status(alike))).startswith("vanished in the last 7 days: 94 files;")


def test_used_new_path_counts_once(alike):
    """A file that has not settled arrives again with each scan."""
    (alike.root / "F1/00").unlink()
    put_alike(alike, "F1/new", mtime=alike.mtime)
    assert alike.scan().vanished == 0
    (alike.root / "F1/01").unlink()
    assert alike.scan().vanished == 1


def test_rename_among_equal_files_is_exact(alike):
    """Of files of the same size and time, the inode shows which one was renamed."""
    remove(alike, "F1", 1)
    (alike.root / "F1/70").rename(alike.root / "F1/renamed")
    assert alike.scan().vanished == 1
    assert list(vanished(status(alike)))[2].endswith(": F1/00")


def test_spared_upload_excuses_no_deletion(alike):
    """The ledger knows whose file a watched new path is, once its upload was spared."""
    (alike.root / "F1/sub").mkdir()
    move(alike, "F1", "F1/sub", 10)
    alike.live(3)
    assert alike.row("F1/sub/00").attempts == 1
    for number in range(90, 100):
        (alike.root / f"F1/{number:02}").unlink()
    assert alike.scan().vanished == 10


def test_renames_beyond_the_limit_have_not_vanished(alike, monkeypatch):
    """With more new paths than are kept, the ledger shows the new path of each renamed file once all are queued."""
    monkeypatch.setattr(renames, "_MOST_ARRIVED", 5)
    put_alike(alike, *(f"F1/!{number:02}" for number in range(20)), mtime=alike.mtime - 1e6)
    for number in range(60):
        (alike.root / f"F1/{number:02}").rename(alike.root / f"F1/renamed {number:02}")
    (alike.root / "F1/60").unlink()
    found = [alike.scan().vanished, alike.scan().vanished]
    assert not alike.site.brakes.pulled()
    assert found == ([1, 0] if alike.mtime == AGO else [0, 1])


@pytest.fixture
def larger(make_world):
    """A site with 20 files in the first of three folders, and one in each of the others."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2", "F3")])
    for number in range(20):
        world.write(f"F1/{number:02}", b"x%d" % number)
    world.write("F2/other", b"y")
    world.write("F3/only", b"z")
    world.scan_and_send()
    return world


def move(world, old, new, count):
    """Move files, as a watcher sees it."""
    for number in range(count):
        (world.root / old / f"{number:02}").rename(world.root / new / f"{number:02}")
    world.site.single_looks.look(*(f"{new}/{number:02}".encode() for number in range(count)))


def test_watched_move_pulls_no_brake(larger):
    """The watcher queues the new paths before a scan misses the old ones."""
    move(larger, "F1", "F2", 19)
    assert larger.scan().vanished == 0
    larger.scan_and_send()
    move(larger, "F2", "F1", 19)
    larger.send()
    assert larger.scan().vanished == 0
    assert not larger.site.brakes.pulled()


def test_killed_after_a_watched_move_pulls_no_brake(larger):
    """Another process queued the new paths; no scan had missed the old ones before it was killed."""
    move(larger, "F1", "F2", 19)
    larger.restart()
    assert larger.scan().vanished == 0
    assert not larger.site.brakes.pulled()


def test_watched_paths_count_for_one_scan(larger):
    move(larger, "F1", "F2", 11)
    larger.scan()
    remove(larger, "F2", 11)
    assert larger.scan().vanished == 11


@pytest.mark.parametrize("keeps", [os.link, shutil.copy2])
def test_older_copies_are_no_new_paths(larger, keeps):
    """The deletion of a hard link changes the ctime of the one that remains."""
    for number in range(19):
        keeps(larger.root / f"F1/{number:02}", larger.root / f"F2/{number:02}")
    for _ in range(3):
        larger.scan_and_send()
    remove(larger, "F1", 11)
    larger.scan()
    assert [brake.subject for brake in larger.ledger.reports.brakes()] == ["F1/"]


def test_brake_forgets_no_new_path(larger):
    """A move that was seen by a scan which pulled another brake is a move for the next scan, too."""
    (larger.root / "F3/only").unlink()
    for number in range(11):
        (larger.root / f"F1/{number:02}").rename(larger.root / f"F2/{number:02}")
    for _ in range(2):
        larger.scan()
        assert [brake.kind for brake in larger.ledger.reports.brakes()] == ["emptied"]


def test_file_that_came_and_went_has_vanished(filled):
    """A file that no scan saw is not its own new path."""
    filled.write("F1/short", b"short")
    filled.site.single_looks.look(b"F1/short")
    filled.send()
    (filled.root / "F1/short").unlink()
    assert filled.scan().vanished == 1


def test_file_without_asset_has_not_vanished(filled):
    filled.write("F1/unsent", b"never sent")
    filled.write("F1/empty", b"")
    filled.scan()
    (filled.root / "F1/unsent").unlink()
    (filled.root / "F1/empty").unlink()
    assert dry_run(filled.site).vanished == 0
    assert filled.scan().vanished == 0
    assert list(vanished(status(filled))) == []
    assert b"F1/unsent" not in {row.path for row in filled.ledger.reports.files()}


def test_unsent_version_of_a_sent_file_vanishes(filled):
    filled.write("F1/00", b"another content")
    filled.scan()
    (filled.root / "F1/00").unlink()
    assert filled.scan().vanished == 1


def test_file_in_doubt_vanishes(filled):
    filled.service.script.append("lost_after")
    filled.write("F1/doubt", b"in doubt")
    filled.scan_and_send()
    (filled.root / "F1/doubt").unlink()
    assert filled.scan().vanished == 1


def test_unsent_files_pull_no_brake(make_world):
    world = make_world()
    for number in range(30):
        world.write(f"d/{number:02}", b"x%d" % number)
    world.scan()
    shutil.rmtree(world.root / "d")
    world.scan()
    assert (world.site.brakes.pulled(), world.states()) == (False, {})


def test_vanished_share_pulls_a_brake(make_world):
    """Below 20 files of a mapping the share says little, and a released brake lets the files go."""
    world = make_world()
    for number in range(20):
        world.write(f"d/{number:02}", b"x%d" % number)
    world.scan_and_send()
    remove(world, "d", 11)
    assert world.scan().vanished == 0
    (brake,) = world.ledger.reports.brakes()
    assert (brake.kind, brake.subject, brake.amount) == ("vanished", "./", 11)
    assert brake.detail == "11 of 20 files of the mapped folder . are gone: is this intended?"
    world.ledger.resume(brake.id, world.clock.now())
    assert world.scan().vanished == 11
    assert not world.site.brakes.pulled()


def test_share_brake_lifts_when_files_are_back(make_world):
    world = make_world()
    for number in range(20):
        world.write(f"d/{number:02}", b"x%d" % number)
    world.scan_and_send()
    (world.root / "d").rename(world.base / "aside")
    world.write("other", b"y")
    world.scan()
    world.clock.advance(60)
    world.scan()
    assert world.site.brakes.pulled()
    (world.base / "aside").rename(world.root / "d")
    world.scan()
    assert not world.site.brakes.pulled()


def test_dry_run_counts_vanished_files(filled):
    remove(filled, "F1", 4)
    (filled.root / "F1/05").rename(filled.root / "F1/renamed")
    assert dry_run(filled.site).vanished == 4
    assert list(vanished(status(filled))) == []
    assert "vanished" in KEYS


def test_many_vanished_files_are_a_message(filled):
    def problem():
        found = current_problems(filled.ledger, None, None, (), filled.clock.now())
        return next(each for each in found if each.kind is Kind.VANISHED)

    assert problem().count == 0
    remove(filled, "F1", 10)
    filled.scan()
    assert list(problem().items.values()) == ["10 of 30 files: 10 from F1"]
    filled.clock.advance(DAY + 1)
    assert problem().count == 0


def test_report_is_kept_for_a_week(filled):
    remove(filled, "F1", 1)
    filled.scan()
    filled.clock.advance(6 * DAY)
    (filled.root / "F2/00").unlink()
    filled.scan()
    assert [each.count for each in status(filled).vanished] == [1, 1]
    filled.clock.advance(2 * DAY)
    assert [each.names for each in status(filled).vanished] == [("F2/00",)]
