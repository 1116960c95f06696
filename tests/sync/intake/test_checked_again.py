"""Verified files whose ctime or inode alone changed stay verified, and are read again.

Covers the reading in `sync/intake/intake.py`, and what scans, runs and the daemon make of it.
"""

import os
import shutil
from datetime import timedelta

import pytest

from assetsync.daemon.work import Work
from assetsync.ledger.rows import DIFFERS, TOUCHED
from assetsync.model import State
from assetsync.reconcile import Reconciler, Report
from assetsync.status.document import as_object
from assetsync.status.sentences import headline, leftovers
from assetsync.status.site_status import read_status
from tests.world import World

MTIME = 1e9


def settled(world: World) -> World:
    """Let all files of a site be verified."""
    world.scan_and_send()
    world.live(3)
    assert set(world.states().values()) == {State.VERIFIED}
    world.service.posts.clear()
    return world


@pytest.fixture
def verified(make_world) -> World:
    """A site with 20 verified files, and an upload window that is open only when `opened` lets it be."""
    world = make_world()
    for number in range(20):
        world.write(f"{number:02}", b"content %02d" % number, mtime=MTIME)
    return settled(world)


def shut(world: World) -> None:
    """Restart with an upload window that opens in some hours."""
    hours = [(world.clock.now() + shift) % 86400 / 3600 for shift in (6 * 3600, 8 * 3600)]
    opens, closes = (str(timedelta(hours=int(hour)))[:-3].zfill(5) for hour in hours)
    world.restart(upload={"window": f"{opens}-{closes}"})
    assert not world.site.gates.may_send()


def chmod(world: World) -> None:
    for path in world.root.rglob("*"):
        path.chmod(0o640)


def put_other(world: World, *paths: str) -> None:
    """Put files of other content, and of the same sizes and times, in the places of known ones."""
    for path in paths:
        full = world.root / path
        size = full.stat().st_size
        full.unlink()
        world.write(path, b"other".ljust(size, b"."), mtime=MTIME)


def status(world: World):
    return read_status(world.site.config.outline, world.ledger, world.clock.now(), running=True)


def reconcile(world: World) -> Report:
    class Untold:
        phase = at = lambda *_more: None

    return Reconciler(world.site, wait=0.0, adopt=False, progress=Untold()).run()


def test_chmod_undoes_no_verification(verified):
    shut(verified)
    chmod(verified)
    verified.scan()
    assert set(verified.states().values()) == {State.VERIFIED}
    found = status(verified)
    assert (found.in_sync, found.pending, found.counts.checked_again) == (False, 0, 20)
    assert headline(found) == "In progress: 20 of 20 verified, 20 being checked again."
    assert "being checked again: 20 files, whose ctime or inode changed, and not the size and time" in leftovers(found)
    assert (as_object(found)["verified"], as_object(found)["checked_again"]) == (20, 20)


def test_unchanged_content_is_read_outside_the_window(verified):
    shut(verified)
    chmod(verified)
    verified.scan()
    assert verified.read_again() == 20
    assert headline(status(verified)).startswith("in sync: 20 files verified")
    assert verified.scan().unchanged == 20
    assert (verified.history("00"), verified.posted()) == ([State.VERIFIED], [])


def test_other_content_waits_for_the_window(verified):
    shut(verified)
    put_other(verified, "03")
    verified.scan()
    verified.read_again()
    assert verified.history("03") == [State.QUEUED, State.SUPERSEDED]
    assert (verified.send(), verified.posted()) == (0, [])
    verified.clock.advance(7 * 3600)
    verified.send()
    assert verified.posted() == ["03"]


def test_watched_chmod_is_checked_again(verified):
    chmod(verified)
    verified.hint("05")
    assert verified.row("05")[8:11:2] == (State.VERIFIED, TOUCHED)


def test_mark_survives_a_restart(verified):
    chmod(verified)
    verified.scan()
    verified.restart()
    assert verified.read_again() == 20
    assert status(verified).in_sync


def test_file_being_written_is_read_later(verified):
    verified.restart(watch={"settle": "2d"})
    chmod(verified)
    verified.scan()
    assert (verified.read_again(), status(verified).counts.checked_again) == (0, 20)
    verified.clock.advance(2 * 86400)
    assert verified.read_again() == 20


def test_unreadable_file_is_blocked(verified, monkeypatch):
    put_other(verified, "03")
    verified.scan()
    real = os.open

    def refusing(path, flags, *more, **options):
        if path == b"03":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refusing)
    verified.read_again()
    verified.send()
    assert (verified.row("03").state, verified.row("03").reason) == (State.BLOCKED, "unreadable")


def test_file_gone_before_the_reading_vanishes(verified):
    chmod(verified)
    verified.scan()
    (verified.root / "07").unlink()
    assert verified.read_again() == 19
    assert verified.scan().vanished == 1
    assert not status(verified).counts.checked_again


def test_renamed_file_is_not_read_twice(verified):
    """The take-over compares the content."""
    chmod(verified)
    verified.scan()
    (verified.root / "07").rename(verified.root / "renamed")
    verified.site.single_looks.look(b"renamed")
    verified.send()
    assert (verified.row("renamed").state, verified.row("renamed").reason) == (State.VERIFIED, None)
    assert verified.posted() == []


def test_restored_disk_needs_no_reading(verified):
    """The scan sees the file as it was, also in a folder that it would have skipped."""
    (verified.root / "sub").mkdir()
    verified.write("sub/a", b"a", mtime=MTIME)
    verified.scan_and_send()
    verified.live(3)
    verified.scan()
    verified.scan()
    ours = verified.root / "sub"
    shutil.copytree(ours, verified.base / "theirs")
    ours.rename(verified.base / "ours")
    shutil.move(verified.base / "theirs", ours)
    verified.scan()
    assert status(verified).counts.checked_again == 1
    ours.rename(verified.base / "theirs")
    (verified.base / "ours").rename(ours)
    verified.scan()
    assert status(verified).in_sync


def test_run_reads_outside_the_window(verified):
    shut(verified)
    chmod(verified)
    report = reconcile(verified)
    assert (report.verified, report.checked_again, report.in_sync, verified.posted()) == (20, 0, True, [])


def test_run_that_reads_nothing_is_not_in_sync(verified):
    verified.restart(watch={"settle": "2d"})
    chmod(verified)
    report = reconcile(verified)
    assert (report.verified, report.pending, report.checked_again, report.in_sync) == (20, 0, 20, False)


def test_daemon_reads_between_scans(verified):
    shut(verified)
    chmod(verified)
    work = Work(verified.site, idle=0.0)
    work.want_scan()
    for _ in range(3):
        assert status(verified).counts.of(State.VERIFIED) == 20
        work.scan()
    assert status(verified).in_sync


def test_dry_run_marks_nothing(verified):
    chmod(verified)
    assert verified.site.rescan.dry_run().to_send == 20
    assert status(verified).counts.checked_again == 0


@pytest.fixture
def swapped(make_world) -> World:
    """A site with 100 verified files, sixty of which were deleted and have look-alikes in their places."""
    world = make_world()
    for number in range(100):
        world.write(f"{number:03}", b"content %03d" % number, mtime=MTIME)
    settled(world)
    world.before = {path.name: path.read_bytes() for path in world.root.iterdir()}
    return world


SIXTY = [f"{number:03}" for number in range(60)]


def swap(world: World, *, differing: int = 60) -> None:
    """Replace sixty files in place, of which some get other content."""
    for number, name in enumerate(SIXTY):
        full = world.root / name
        content = b"other %05d" % number if number < differing else world.before[name]
        full.write_bytes(content)
        os.utime(full, (MTIME, MTIME))


def test_sixty_look_alikes_pull_the_brake(swapped):
    swap(swapped)
    swapped.scan()
    swapped.read_again()
    assert swapped.scan().vanished == 0
    (brake,) = swapped.ledger.reports.brakes()
    assert (brake.kind, brake.subject, brake.amount) == ("vanished", "./", 60)
    assert brake.detail == "60 of 100 files of the mapped folder . are gone: is this intended?"
    swapped.live(5)
    assert swapped.posted() == []


def test_released_look_alikes_are_sent_and_reported(swapped):
    swap(swapped)
    swapped.scan()
    swapped.read_again()
    swapped.scan()
    swapped.ledger.resume(None, swapped.clock.now())
    assert swapped.scan().vanished == 60
    swapped.send()
    assert sorted(swapped.posted()) == SIXTY
    swapped.scan()
    assert not swapped.site.brakes.pulled()


def test_restored_files_lift_the_brake(swapped):
    """They have other ctimes, so that they are read again."""
    swap(swapped)
    swapped.scan()
    swapped.read_again()
    swapped.scan()
    assert {swapped.row(name).reason for name in SIXTY} == {DIFFERS}
    swapped.restart()
    swap(swapped, differing=0)
    swapped.scan()
    swapped.send()
    assert swapped.read_again() == 60
    swapped.scan()
    assert not swapped.site.brakes.pulled()
    assert (status(swapped).in_sync, swapped.posted()) == (True, [])


def test_right_disk_lifts_the_brake(make_world):
    """Its files are those of the ledger: they need no reading."""
    world = make_world(brake={"max_vanished_share": "30%"})
    for number in range(100):
        world.write(f"{'disk' if number < 40 else 'rest'}/{number}", b"content %03d" % number, mtime=MTIME)
    settled(world)
    ours, theirs = world.root / "disk", world.base / "theirs"
    shutil.copytree(ours, theirs)
    for path in theirs.iterdir():
        path.write_bytes(b"other".ljust(11, b"."))
        os.utime(path, (MTIME, MTIME))
    ours.rename(world.base / "ours")
    theirs.rename(ours)
    for _ in range(2):
        world.scan()
        world.read_again()
    assert world.site.brakes.pulled()
    ours.rename(theirs)
    (world.base / "ours").rename(ours)
    world.scan()
    assert not world.site.brakes.pulled()
    assert (status(world).in_sync, world.posted()) == (True, [])


def test_no_look_alike_is_sent_before_all_are_read(swapped):
    """Twenty of sixty differ: fewer than the brake allows, which is known only at the end."""
    swap(swapped, differing=20)
    swapped.scan()
    unread = [row.id for row in swapped.ledger.versions.to_read_again(swapped.clock.now(), 100)]
    swapped.ledger.versions.read_later(unread[30:], swapped.clock.now() + 600)
    assert swapped.site.rescan.read_again() == (30, False)
    swapped.scan()
    swapped.send()
    assert swapped.posted() == []
    swapped.clock.advance(600)
    assert swapped.site.rescan.read_again() == (30, True)
    assert swapped.scan().vanished == 20
    swapped.send()
    assert sorted(swapped.posted()) == SIXTY[:20]


def test_run_counts_look_alikes_by_a_second_scan(swapped):
    swap(swapped)
    report = reconcile(swapped)
    assert (report.braked, report.checked_again, report.in_sync, swapped.posted()) == (1, 60, False, [])
    swapped.ledger.resume(None, swapped.clock.now())
    report = reconcile(swapped)
    assert (report.vanished, len(swapped.posted())) == (60, 60)


def braked(swapped) -> Work:
    """Swap the files, and let the daemon scan until the brake is pulled."""
    swap(swapped)
    work = Work(swapped.site, idle=0.0)
    work.want_scan()
    for _ in range(4):
        work.scan()
    assert swapped.site.brakes.pulled()
    return work


def test_daemon_counts_look_alikes_by_a_second_scan(swapped):
    work = braked(swapped)
    assert work.send() > 0
    assert swapped.posted() == []


def test_daemon_notices_restored_files(swapped):
    """A brake that clears by itself does so within two minutes, not at the next regular scan."""
    work = braked(swapped)
    swap(swapped, differing=0)
    for _ in range(8):
        swapped.clock.advance(15)
        work.scan()
    assert not swapped.site.brakes.pulled()
    assert (status(swapped).in_sync, swapped.posted()) == (True, [])


@pytest.mark.parametrize(("differing", "pulls"), [(3, True), (2, False)])
def test_small_mapping_of_look_alikes_pulls_the_brake(make_world, differing, pulls):
    """Of a mapping with few files, all must differ."""
    world = make_world()
    for number in range(3):
        world.write(f"{number}", b"content %d" % number, mtime=MTIME)
    settled(world)
    put_other(world, *(f"{number}" for number in range(differing)))
    for _ in range(2):
        world.scan()
        world.read_again()
    assert world.site.brakes.pulled() == pulls
    world.send()
    assert len(world.posted()) == (0 if pulls else differing)


def test_few_look_alikes_are_sent(swapped):
    put_other(swapped, *SIXTY[:50])
    swapped.scan_and_send()
    assert sorted(swapped.posted()) == SIXTY[:50]


def test_look_alikes_at_new_paths_pull_the_brake(swapped):
    """For the share of a mapping, a new path excuses a missing file only if it has its inode."""
    for number, name in enumerate(SIXTY):
        (swapped.root / name).unlink()
        swapped.write(f"new {name}", b"other %05d" % number, mtime=MTIME)
    assert swapped.scan().vanished == 0
    (brake,) = swapped.ledger.reports.brakes()
    assert brake.detail == "60 of 100 files of the mapped folder . are gone: is this intended?"


def test_released_move_from_another_disk_costs_no_upload(swapped):
    """A large one pulls the brake, because other files may look alike; it is no deletion."""
    for name in SIXTY:
        (swapped.root / name).unlink()
        swapped.write(f"new {name}", swapped.before[name], mtime=MTIME)
    swapped.scan()
    assert swapped.site.brakes.pulled()
    swapped.ledger.resume(None, swapped.clock.now())
    assert swapped.scan().vanished == 0
    swapped.send()
    assert not swapped.site.brakes.pulled()
    assert swapped.posted() == []


def test_no_look_alike_is_sent_during_its_scan(swapped):
    """New paths are queued in parts while a scan goes on, and only its end shows how many files are missing."""
    for number, name in enumerate(SIXTY):
        (swapped.root / name).unlink()
        swapped.write(f"a/{name}", b"other %05d" % number, mtime=MTIME)
    for number in range(1000):
        swapped.write(f"b/{number:04}", b"new %04d" % number, mtime=MTIME)
    swapped.write("c/watched", b"others also", mtime=MTIME)
    swapped.write("z/last")

    def send(_files: int) -> None:
        swapped.hint("c/watched")
        swapped.send()

    swapped.site.rescan.run(send)
    assert len(swapped.posted()) > 900
    assert [name for name in swapped.posted() if name == "watched" or name in SIXTY] == []
    assert swapped.site.brakes.pulled()
    swapped.ledger.resume(None, swapped.clock.now())
    swapped.hint("c/watched")
    swapped.scan_and_send()
    assert sorted(name for name in swapped.posted() if name == "watched" or name in SIXTY) == [*SIXTY, "watched"]
