"""Versions that were at rest, or blocked, and are the file again: read back before they count as verified.

Meanwhile somebody may have taken their assets away, as the list of orphans told them to.
"""

import pytest

from assetsync.model import State

FOLDER = "F1"
CONTENT = b"content A"


@pytest.fixture
def one(make_world):
    """A world whose `a.jpg` is verified, beside a file that stays."""
    world = make_world()
    world.write("a.jpg", CONTENT)
    world.write("keep.jpg", b"other")
    world.scan_and_send()
    world.live(5)
    assert set(world.states().values()) == {State.VERIFIED}
    world.clock.advance(60)
    return world


def expect_no_word_for_what_is_not_there(world, path: str) -> None:
    """Let time pass, and see that the file is not called verified; its asset is gone, or holds something else."""
    world.scan_and_send()
    world.live(1800, tick=5)
    row = world.row(path)
    there = {asset.id for asset in world.service.assets.values() if asset.content == CONTENT}
    assert (row.state, row.assetid in there) == (State.BLOCKED, False)
    assert CONTENT in world.root.joinpath(path).read_bytes()
    # One for each content that the file has had.
    assert len(world.service.posts) <= 3


@pytest.mark.parametrize("audited", [True, False])
def test_old_version_without_asset_is_blocked(one, audited):
    one.write("a.jpg", b"content B!")
    one.scan_and_send()
    one.live(5)
    one.clock.advance(60)
    (orphan,) = one.orphans()
    del one.service.assets[orphan.assetid]
    if audited:
        one.site.auditor.audit(FOLDER)
    one.write("a.jpg", CONTENT)
    expect_no_word_for_what_is_not_there(one, "a.jpg")


@pytest.mark.parametrize("audited", [True, False])
def test_restored_file_without_asset_is_blocked(one, audited):
    (one.root / "a.jpg").unlink()
    one.scan_and_send()
    one.clock.advance(8 * 86400)
    (orphan,) = one.ledger.reports.orphans(one.clock.now() - 7 * 86400)
    del one.service.assets[orphan.assetid]
    if audited:
        one.site.auditor.audit(FOLDER)
    one.write("a.jpg", CONTENT)
    expect_no_word_for_what_is_not_there(one, "a.jpg")


def test_unignored_file_without_asset_is_blocked(one):
    one.restart(ignore=["a.jpg"])
    one.scan_and_send()
    (asset,) = (asset for asset in one.service.assets.values() if asset.content == CONTENT)
    del one.service.assets[asset.id]
    one.site.auditor.audit(FOLDER)
    one.restart(ignore=[])
    expect_no_word_for_what_is_not_there(one, "a.jpg")


def touched(world) -> str:
    world.write("a.jpg", CONTENT, mtime=world.clock.now() - 90_000)
    return "a.jpg"


def renamed(world) -> str:
    (world.root / "a.jpg").rename(world.root / "b.jpg")
    return "b.jpg"


def restored(world) -> str:
    (world.root / "a.jpg").unlink()
    world.scan_and_send()
    world.write("a.jpg", CONTENT)
    return "a.jpg"


def put_back(world) -> str:
    world.write("a.jpg", b"content B!")
    world.scan_and_send()
    world.live(5)
    return touched(world)


@pytest.mark.parametrize("act", [touched, renamed, restored, put_back])
@pytest.mark.parametrize("what", ["missing", "different"])
def test_disk_change_verifies_no_blocked_file(one, act, what):
    asset = one.service.assets[one.row("a.jpg").assetid]
    if what == "missing":
        del one.service.assets[asset.id]
    else:
        asset.content = b"another version"
    one.site.auditor.audit(FOLDER)
    assert one.row("a.jpg").reason == what
    expect_no_word_for_what_is_not_there(one, act(one))


def test_returned_version_is_verified_unsent(one):
    (one.root / "a.jpg").rename(one.root / "b.jpg")
    one.scan_and_send()
    assert one.row("b.jpg").state is State.STORED
    one.live(5)
    assert (one.row("b.jpg").state, len(one.service.posts)) == (State.VERIFIED, 2)


@pytest.mark.parametrize("indexes", [True, False])
def test_returned_version_is_verified_moved(make_world, indexes):
    world = make_world(policy={"verified_when": "findable" if indexes else "stored"})
    world.service.index_lag = 0.0 if indexes else None
    world.write("a.jpg", CONTENT)
    world.scan_and_send()
    world.live(5)
    world.write("a.jpg", b"content B!")
    world.scan_and_send()
    world.live(5)
    (old,) = (asset for asset in world.service.assets.values() if asset.content == CONTENT)
    old.folder = "ARCHIVE"
    world.write("a.jpg", CONTENT)
    world.scan_and_send()
    world.live(1500, tick=5)
    row = world.row("a.jpg")
    assert (row.state, row.assetid, row.asset_folder) == (State.VERIFIED, old.id, "ARCHIVE")
    assert len(world.service.posts) == 2


def test_unindexed_old_version_is_reindexed(one):
    one.write("a.jpg", b"content B!")
    one.scan_and_send()
    one.live(5)
    (old,) = (asset for asset in one.service.assets.values() if asset.content == CONTENT)
    old.indexed_at = None
    one.write("a.jpg", CONTENT)
    one.scan_and_send()
    one.live(1800, tick=5)
    assert (one.row("a.jpg").state, one.row("a.jpg").assetid) == (State.VERIFIED, old.id)


def test_renamed_verified_file_stays_findable(one):
    findable = one.shown("a.jpg").findable_at
    (one.root / "a.jpg").rename(one.root / "b.jpg")
    # Seen where it is before it is missed where it was: it was never at rest.
    one.hint("b.jpg")
    one.send()
    assert findable is not None
    assert (one.row("b.jpg").state, one.shown("b.jpg").findable_at) == (State.VERIFIED, findable)
