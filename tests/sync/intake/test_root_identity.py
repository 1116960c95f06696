"""Another disk in the place of the one that was mirrored: nothing of it is looked at before a person has agreed.

Covers `sync/root_identity.py`.
"""

import os
import shutil
from pathlib import Path

import pytest

from assetsync.errors import FileUnreadable, RootElsewhere
from assetsync.model import State
from assetsync.tree.safe_open import Tree


@pytest.fixture
def mounted(make_world, tmp_path, other_disk):
    """A site with five verified files in `photos`, whose root is a link; `mount` lets it lead to another disk."""
    world = make_world(folders=[{"path": "photos", "destfolderid": "F1"}])
    world.root.rmdir()
    ours, theirs = tmp_path / "ours", other_disk
    for disk in (ours, theirs):
        (disk / "photos").mkdir(parents=True)

    def mount(disk: Path) -> None:
        world.root.unlink(missing_ok=True)
        world.root.symlink_to(disk)

    mount(ours)
    for number in range(5):
        world.write(f"photos/{number}", f"content {number}".encode())
    live(world)
    assert list(world.states().values()) == [State.VERIFIED] * 5
    return world, mount, ours, theirs


def live(world) -> None:
    world.scan()
    if not world.site.brakes.pulled():
        world.live(5)


def test_foreign_disk_changes_nothing(mounted):
    world, mount, ours, theirs = mounted
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    # A camera counts the names of its pictures from one, as the other did.
    (theirs / "photos" / "0").write_bytes(b"theirs, too")
    mount(theirs)
    for _ in range(2):
        with pytest.raises(RootElsewhere, match="another disk"):
            world.scan()
    (brake,) = world.ledger.reports.brakes()
    assert brake.kind == "root"
    assert "photos" in brake.subject
    assert list(world.states().values()) == [State.VERIFIED] * 5
    mount(ours)
    live(world)
    assert world.ledger.reports.brakes() == []
    assert len(world.posted()) == 5


def test_copied_files_on_new_disk_are_known(mounted):
    world, mount, ours, theirs = mounted
    shutil.copytree(ours, theirs, dirs_exist_ok=True)
    (theirs / "photos" / "4").unlink()
    mount(theirs)
    live(world)
    assert not world.site.brakes.pulled()
    assert list(world.states().values()) == [State.VERIFIED] * 4
    assert len(world.posted()) == 5


def test_agreed_disk_replaces_the_known_one(mounted):
    world, mount, _ours, theirs = mounted
    for number in range(3):
        (theirs / "photos" / f"new {number}").write_bytes(b"theirs %d" % number)
    mount(theirs)
    with pytest.raises(RootElsewhere):
        world.scan()
    world.ledger.resume(None, world.clock.now())
    live(world)
    live(world)
    assert sorted(world.posted())[5:] == ["new 0", "new 1", "new 2"]
    assert set(world.states()) == {f"photos/new {number}" for number in range(3)}
    assert not world.site.brakes.pulled()


def test_stale_agreement_covers_no_later_disk(mounted):
    world, mount, ours, theirs = mounted
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    for _ in range(2):
        mount(theirs)
        with pytest.raises(RootElsewhere):
            world.scan()
        mount(ours)
        world.ledger.resume(None, world.clock.now())
        world.scan()
    assert len(world.posted()) == 5


def test_an_empty_place_is_told_as_such(mounted):
    world, mount, _ours, theirs = mounted
    mount(theirs)
    world.scan()
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["emptied"]


def test_replaced_files_pull_no_disk_brake(mounted):
    world, _mount, ours, _theirs = mounted
    for number in range(5):
        (ours / "photos" / f"{number}").unlink()
        (ours / "photos" / f"{number + 5}").write_bytes(b"next %d" % number)
    live(world)
    assert not world.site.brakes.pulled()
    assert set(world.states()) == {f"photos/{number + 5}" for number in range(5)}


@pytest.mark.parametrize("left", [2, 3])
def test_of_two_files_nothing_is_concluded(mounted, left):
    world, mount, ours, theirs = mounted
    for number in range(left, 5):
        (ours / "photos" / f"{number}").unlink()
    live(world)
    (theirs / "photos" / "new").write_bytes(b"new")
    mount(theirs)
    if left == 2:
        live(world)
        assert set(world.states()) == {"photos/new"}
    else:
        with pytest.raises(RootElsewhere):
            world.scan()


def test_unreadable_tree_yields_no_verdict(mounted, monkeypatch):
    world, mount, _ours, theirs = mounted
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    mount(theirs)

    def unreadable(_tree: Tree, path: bytes) -> None:
        raise FileUnreadable(f"{path!r} cannot be read")

    with monkeypatch.context() as patched:
        patched.setattr(Tree, "lstat", unreadable)
        world.site.root_identity.expect()
    with pytest.raises(RootElsewhere):
        world.site.root_identity.expect()


def test_a_dry_run_says_so_and_pulls_nothing(mounted):
    world, mount, _ours, theirs = mounted
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    mount(theirs)
    with pytest.raises(RootElsewhere):
        world.site.rescan.dry_run()
    assert not world.site.brakes.pulled()


def test_equal_names_and_sizes_differ_by_time(mounted):
    world, mount, _ours, theirs = mounted
    for number in range(5):
        path = theirs / "photos" / f"{number}"
        path.write_bytes(b"CONTENT %d" % number)
        os.utime(path, (1e9, 1e9))
    mount(theirs)
    with pytest.raises(RootElsewhere):
        world.scan()


def test_copy_with_coarse_times_is_known(mounted):
    world, mount, ours, theirs = mounted
    shutil.copytree(ours, theirs, dirs_exist_ok=True)
    for path in (theirs / "photos").iterdir():
        coarse = path.stat().st_mtime_ns // (2 * 10**9) * (2 * 10**9)
        os.utime(path, ns=(coarse, coarse))
    mount(theirs)
    live(world)
    assert list(world.states().values()) == [State.VERIFIED] * 5
    assert len(world.posted()) == 5


def test_nested_disk_is_no_witness_above(mounted):
    world, mount, ours, theirs = mounted
    world.restart(folders=[{"path": "photos", "destfolderid": "F1"}, {"path": "photos/own", "destfolderid": "F2"}])
    for number in range(5):
        world.write(f"photos/own/{number}", b"own %d" % number)
    live(world)
    shutil.copytree(ours / "photos" / "own", theirs / "photos" / "own")
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    mount(theirs)
    with pytest.raises(RootElsewhere, match="is mounted at photos, and"):
        world.scan()


def test_agreement_covers_only_its_own_disk(mounted):
    world, mount, ours, theirs = mounted
    world.restart(folders=[{"path": "photos", "destfolderid": "F1"}, {"path": "videos", "destfolderid": "F2"}])
    for number in range(5):
        world.write(f"videos/{number}", b"video %d" % number)
    live(world)
    shutil.copytree(ours / "videos", theirs / "videos")
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    mount(theirs)
    with pytest.raises(RootElsewhere, match="is mounted at photos, and"):
        world.scan()
    world.ledger.resume(None, world.clock.now())
    for path in (theirs / "videos").iterdir():
        path.rename(path.with_name(f"strange {path.name}"))
    with pytest.raises(RootElsewhere, match="is mounted at photos, videos, and"):
        world.scan()
    assert len(world.posted()) == 10


def test_changed_disk_is_seen_by_few_files(mounted):
    world, mount, _ours, theirs = mounted
    world.restart(folders=[{"path": "photos", "destfolderid": "F1"}, {"path": "photos/raw", "destfolderid": "F2"}])
    for number in range(300):
        world.write(f"photos/raw/{number}", f"raw {number}".encode())
    live(world)
    (theirs / "photos" / "raw").mkdir()
    (theirs / "photos" / "stranger").write_bytes(b"theirs")
    mount(theirs)
    with pytest.raises(RootElsewhere, match="another disk"):
        world.scan()


@pytest.fixture
def swapped(make_world):
    """A site with ten verified files in `photos`; `swap` puts a copy in its place, with other content in some files."""
    world = make_world(folders=[{"path": "photos", "destfolderid": "F1"}])
    for number in range(10):
        world.write(f"photos/{number}", bytes(100 + number))
    live(world)
    assert list(world.states().values()) == [State.VERIFIED] * 10
    ours = world.root / "photos"

    def swap(*different: int) -> None:
        copy = world.base / "copy"
        shutil.copytree(ours, copy)
        for number in different:
            path, times = copy / f"{number}", (ours / f"{number}").stat()
            path.write_bytes(b"x" * times.st_size)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        ours.rename(world.base / "aside")
        copy.rename(ours)

    return world, swap


def test_equal_copy_is_adopted_silently(swapped):
    """A restored backup or a copied disk has other inodes: no brake is pulled and nothing is sent."""
    world, swap = swapped
    swap()
    for _ in range(2):
        live(world)
    assert not world.site.brakes.pulled()
    assert list(world.states().values()) == [State.VERIFIED] * 10
    assert len(world.posted()) == 10
