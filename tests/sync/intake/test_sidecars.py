"""A sidecar that is still being written, one that has not come, and what stands where one should be."""

import os
import time

import pytest

from assetsync.model import State
from assetsync.sync.upload.facts import NothingEqual
from tests.sync.readback.test_drift import drift


@pytest.fixture
def settling(make_world, clock):
    """A site with a file that is due now, and whose sidecar would be as young."""
    world = make_world(watch={"settle": "60s"})
    clock.set_now(time.time())
    world.write("a.jpg")
    world.scan()
    clock.advance(60)
    clock.set_now(time.time() + 1)
    assert world.site.intake.look_again() == 1
    return world


@pytest.mark.parametrize("half", [b"description: The old har", b'description: "The old'])
def test_half_written_sidecar_is_waited_for(settling, clock, half):
    settling.write("a.jpg.yaml", half)
    assert settling.send() == 1
    assert settling.posted() == []
    assert settling.row("a.jpg").state is State.QUEUED
    assert "has settled" in settling.row("a.jpg").detail
    settling.write("a.jpg.yaml", b"description: The old harbour")
    clock.advance(62)
    settling.send()
    assert settling.service.posts[0].meta == (("img_description", "The old harbour"),)


@pytest.mark.parametrize("name", ["_folder.yaml", "sub/_folder.yaml"])
@pytest.mark.parametrize("half", [b"description: The old har", b'description: "The old'])
def test_half_written_folder_sidecar_is_awaited(make_world, clock, name, half):
    world = make_world(watch={"settle": "60s"})
    clock.set_now(time.time())
    for path in ("sub/a.jpg", "sub/b.jpg"):
        world.write(path, path.encode())
    world.scan()
    clock.advance(60)
    clock.set_now(time.time() + 1)
    assert world.site.intake.look_again() == 2
    world.write(name, half)
    world.send()
    assert world.posted() == []
    assert "has settled" in world.row("sub/a.jpg").detail
    world.write(name, b"description: The old harbour")
    clock.advance(62)
    world.send()
    assert [post.meta for post in world.service.posts] == [(("img_description", "The old harbour"),)] * 2


def test_restless_folder_sidecar_delays_once(settling, clock):
    """A folder's sidecar that never settles is waited for once, and then its files are sent with what it says."""

    def write():
        settling.write("_folder.yaml", b"description: by a tool that never ends")
        os.utime(settling.root / "_folder.yaml", (clock.now(), clock.now()))

    for _ in range(3):
        write()
        assert settling.send() <= 1
        clock.advance(59)
    write()
    assert settling.posted() == []
    clock.advance(2)
    write()
    settling.send()
    assert settling.posted() == ["a.jpg"]
    settling.write("b.jpg", b"queued in the meantime")
    write()
    settling.scan()
    settling.send()
    assert settling.posted() == ["a.jpg", "b.jpg"]


def test_each_folder_sidecar_write_is_awaited(settling, clock):
    def write(said: bytes) -> None:
        os.utime(settling.write("_folder.yaml", said), (clock.now(), clock.now()))

    write(b"description: first")
    settling.send()
    clock.advance(62)
    settling.send()
    assert settling.posted() == ["a.jpg"]
    clock.advance(600)
    settling.write("b.jpg", b"queued long after it")
    settling.scan()
    write(b"description: half of the sec")
    settling.send()
    assert settling.posted() == ["a.jpg"]
    assert "has settled" in settling.row("b.jpg").detail


def test_future_folder_sidecar_delays_nothing(settling, clock):
    dated = clock.now() + 1e6
    os.utime(settling.write("_folder.yaml", b"description: of another day"), (dated, dated))
    settling.send()
    assert settling.posted() == ["a.jpg"]


@pytest.mark.parametrize("when", [1e6, -1e10], ids=["tomorrow", "before 1970"])
def test_restless_sidecar_delays_two_minutes(settling, clock, when):
    dated = clock.now() + when
    os.utime(settling.write("a.jpg.yaml", b"description: of another day"), (dated, dated))
    for _ in range(3):
        assert settling.send() <= 1
        clock.advance(59)
    assert settling.posted() == []
    clock.advance(2)
    settling.send()
    assert settling.posted() == ["a.jpg"]


def test_zero_settle_time_waits_for_nothing(world):
    world.write("a.jpg")
    future = world.clock.now() + 1e6
    os.utime(world.write("a.jpg.yaml", b"description: from tomorrow"), (future, future))
    world.scan_and_send()
    assert world.posted() == ["a.jpg"]


def test_an_empty_sidecar_has_not_come(make_world):
    world = make_world(watch={"sidecar_wait": "600s"})
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"")
    world.scan_and_send()
    assert world.posted() == []
    world.write("a.jpg.yaml", b"description: now it has")
    world.hint("a.jpg.yaml")
    world.send()
    assert world.service.posts[0].meta == (("img_description", "now it has"),)


def test_fresh_empty_sidecar_is_waited_for(settling, clock):
    settling.write("a.jpg.yaml", b"")
    settling.send()
    assert settling.posted() == []
    clock.advance(62)
    settling.send()
    assert settling.service.posts[0].meta == ()


def test_late_begun_sidecar_is_waited_for(settling, clock):
    # As after an outage, or within sidecar_wait.
    book = settling.ledger.store
    book.write(lambda conn: conn.execute("UPDATE files SET queued_at = queued_at - 3600"))
    settling.write("a.jpg.yaml", b"description: The old har")
    settling.send()
    assert settling.posted() == []


def test_removed_sidecar_link_frees_its_file(world):
    world.write("a.jpg")
    (world.root / "a.jpg.yaml").symlink_to("somewhere")
    world.scan_and_send()
    assert world.row("a.jpg").reason == "sidecar"
    (world.root / "a.jpg.yaml").unlink()
    world.hint("a.jpg.yaml")
    world.send()
    assert world.posted() == ["a.jpg"]


def test_sidecar_replaced_by_link_is_drift(world):
    world.write("a.jpg")
    world.scan_and_send()
    world.live(5)
    (world.root / "a.jpg.yaml").symlink_to("somewhere")
    world.hint("a.jpg.yaml")
    assert "not a regular file" in drift(world)[b"a.jpg"]


def orphan_sidecars(world) -> tuple[int, str]:
    scan = world.ledger.runs.last_scan()
    return scan.stray, scan.first_stray


def test_stray_sidecars_are_reported(world):
    """Sidecars without a file are counted, and the first is named; a name in other case is no match."""
    for name in ("d.JPG", "e.jpg", "sub/f.jpg"):
        world.write(name)
    for name in ("d.jpg.yaml", "e.jpg.yaml", "sub/g.yaml", "_folder.yaml", "sub/_folder.yaml"):
        world.write(name, b"description: words")
    world.scan()
    assert orphan_sidecars(world) == (2, "d.jpg.yaml")
    world.scan()
    assert orphan_sidecars(world) == (2, "d.jpg.yaml")
    (world.root / "d.JPG").rename(world.root / "d.jpg")
    world.hint("d.jpg")
    world.send()
    world.scan()
    assert orphan_sidecars(world) == (1, "sub/g.yaml")
    (world.root / "sub/g.yaml").unlink()
    world.scan()
    assert orphan_sidecars(world) == (0, "")
    (world.root / "e.jpg").unlink()
    world.scan()
    assert orphan_sidecars(world) == (1, "e.jpg.yaml")


def test_stray_found_by_hint_is_in_next_scan(world):
    world.scan()
    for name in ("d.JPG", "d.jpg.yaml"):
        world.write(name)
        world.hint(name)
    assert world.scan().unchanged == 1
    assert orphan_sidecars(world) == (1, "d.jpg.yaml")


def test_sidecar_of_settling_file_is_no_stray(make_world, clock):
    world = make_world(watch={"settle": "60s"})
    clock.set_now(time.time())
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"description: words")
    world.scan()
    assert orphan_sidecars(world) == (0, "")


def test_root_lost_before_sidecar_keeps_queue(make_world, monkeypatch):
    """The root goes between the look at the file and at its sidecars; the file stays queued and is sent later."""
    # With a configured kind, no sidecar is read before.
    world = make_world(service={"kinds": {"jpg": "img"}})
    world.write("a.jpg")
    world.scan()
    away = world.root.with_name("away")

    def find(_row, _md5):
        world.root.rename(away)
        return NothingEqual()

    monkeypatch.setattr(world.site.preparer.dedupe, "find", find)
    assert world.send() == 1
    assert (world.posted(), world.row("a.jpg").state) == ([], State.QUEUED)
    assert "nor is anything else" in world.row("a.jpg").detail
    away.rename(world.root)
    monkeypatch.undo()
    world.clock.advance(61)
    world.send()
    assert world.posted() == ["a.jpg"]


def test_sidecar_during_preparation_is_sent(world, monkeypatch):
    world.write("a.jpg")
    world.scan()

    def find(_row, _md5):
        world.write("a.jpg.yaml", b"description: late")
        world.hint("a.jpg.yaml")
        return NothingEqual()

    monkeypatch.setattr(world.site.preparer.dedupe, "find", find)
    world.send()
    monkeypatch.undo()
    world.live(5)
    assert world.posted() == ["a.jpg"]
    assert dict(world.service.posts[0].meta) == {"img_description": "late"}
    assert b"a.jpg" not in drift(world)


def test_old_folder_sidecar_is_not_cached(world, monkeypatch):
    world.write("_folder.yaml", b"description: old")
    sidecars, (mapping,) = world.site.sidecars, world.site.plan.mappings.all
    read = sidecars.read

    def read_while_it_changes(path, allowed):
        found = read(path, allowed)
        if path == b"_folder.yaml" and b"old" in (world.root / "_folder.yaml").read_bytes():
            world.write("_folder.yaml", b"description: new")
            sidecars.cache.forget()
        return found

    monkeypatch.setattr(sidecars, "read", read_while_it_changes)
    assert sidecars.metadata_of(b"a.jpg", mapping).fields == (("img_description", "old"),)
    assert sidecars.metadata_of(b"b.jpg", mapping).fields == (("img_description", "new"),)
