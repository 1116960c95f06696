"""What is not shown counts only where the service shows what is known to be there."""

from contextlib import contextmanager

import pytest

from assetsync.model import State
from tests.world import FOLDER, OTHER

HOUR = 3600


@pytest.fixture
def world(make_world):
    """Give a world with some files that were read back."""
    world = make_world()
    for number in range(5):
        world.write(f"before{number}", b"before %d" % number)
    world.scan()
    world.live(60)
    assert set(world.states().values()) == {State.VERIFIED}
    return world


@contextmanager
def blind(world):
    """Let every search be answered, with nothing."""
    search = world.service.search

    @contextmanager
    def shows_nothing(_request):
        yield iter(())

    world.service.search = shows_nothing
    yield
    world.service.search = search


def lose_an_answer(world) -> None:
    world.service.script.append("lost_after")
    world.write("lost", b"lost")
    world.scan_and_send()


def test_blank_service_delays_the_resend(world):
    with blind(world):
        lose_an_answer(world)
        world.live(HOUR)
        row = world.row("lost")
        assert (row.state, world.posted().count("lost")) == (State.IN_DOUBT, 1)
        assert row.detail.startswith("it cannot be looked up in the service: the service shows nothing of ours")
    world.live(600)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 1)


def test_blank_service_blocks_no_accepted_upload(world):
    with blind(world):
        world.write("new", b"new")
        world.scan()
        world.live(HOUR)
        assert world.row("new").state is State.STORED
        assert "the service shows nothing of ours" in world.row("new").detail
    world.live(600)
    assert world.row("new").state is State.VERIFIED


def expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world) -> None:
    for asset in world.service.assets.values():
        asset.folder = OTHER
    world.service.script.append("lost_before")
    world.write("lost", b"lost")
    world.scan()
    world.live(120)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 2)


def test_mass_move_does_not_delay_the_resend(world):
    expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world)


def test_read_back_asset_has_its_sent_name(world):
    for number in range(5):
        (world.root / f"before{number}").rename(world.root / f"renamed{number}")
    world.scan_and_send()
    assert len(world.service.posts) == 5
    expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world)


def test_audit_after_deletion_revives_lookups(world):
    world.service.assets.clear()
    world.service.script.append("lost_before")
    world.write("lost", b"lost")
    world.scan()
    world.live(120)
    assert world.row("lost").state is State.IN_DOUBT
    for _ in range(2):
        world.site.auditor.audit(FOLDER)
        for brake in world.ledger.reports.brakes():
            world.ledger.resume(brake.id, world.clock.now())
    world.live(HOUR)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 2)


def test_blank_service_proves_no_empty_folder(world):
    world.ledger.folder_listings.again("F1")
    world.service.put(b"sent since the backup", "since")
    world.write("since", b"sent since the backup")
    with blind(world):
        world.scan()
        world.live(HOUR)
        assert world.row("since").state is State.QUEUED
    world.live(600)
    assert (world.row("since").state, world.posted().count("since")) == (State.VERIFIED, 0)


def test_taken_over_asset_is_no_newer_sample(make_world):
    """A sample proves something only by its own upload; a file that took over an older asset is none."""
    world = make_world(policy={"on_remote_missing": "upload"})
    for number in range(4):
        world.write(f"keep{number}", b"keep %d" % number)
    for path in ("old", "copy"):
        before = world.ledger.doubts.newest_attempt()
        world.write(path, b"equal")
        world.scan_and_send()
        world.live(60)
    old, copy = world.row("old").assetid, world.row("copy").assetid
    newer = world.ledger.control_samples.sent_after(before, 9)
    assert [asset.assetid for _attempt, asset in newer] == [copy]
    (world.root / "old").unlink()
    world.scan()
    del world.service.assets[copy]
    world.clock.advance(HOUR)
    world.site.auditor.audit(FOLDER)
    world.live(60)
    assert world.row("copy").assetid == old
    assert world.ledger.control_samples.sent_after(before, 9) == []
