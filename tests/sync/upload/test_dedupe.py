"""What stands for a file already, where the tree cannot tell whether the other path still holds it."""

import pytest

from assetsync.errors import FileUnreadable, RootMissing
from assetsync.ledger.queue import Intent
from assetsync.model import State
from assetsync.sync.requests.take import take_requests
from assetsync.tree.safe_open import Tree
from tests.world import md5


@pytest.fixture
def moved(make_world, monkeypatch):
    """A site with a file that was moved after it was sent; after `break_old` its old path cannot be looked at."""
    world = make_world()
    world.write("old/a.jpg", b"the only one of its kind")
    world.write("keeps.jpg")
    world.scan_and_send()
    world.live(5)
    (world.root / "new").mkdir()
    (world.root / "old/a.jpg").rename(world.root / "new/a.jpg")
    world.hint("new/a.jpg")
    lstat = Tree.lstat

    def break_old(error):
        def look(tree, path):
            if path.startswith(b"old/"):
                raise error
            return lstat(tree, path)

        monkeypatch.setattr(Tree, "lstat", look)

    world.break_old = break_old
    world.mend = lambda: monkeypatch.setattr(Tree, "lstat", lstat)
    return world


def test_moved_file_waits_for_its_old_path(moved):
    moved.break_old(FileUnreadable("old/a.jpg cannot be read: Permission denied"))
    moved.send()
    row = moved.row("new/a.jpg")
    assert (row.state, row.reason) == (State.BLOCKED, "unreadable")
    assert "may have been moved here" in row.detail
    assert len(moved.posted()) == 2
    moved.mend()
    moved.site.try_again()
    moved.scan_and_send()
    assert moved.row("new/a.jpg").assetid == "A0000000000000000000000000000002"
    assert len(moved.posted()) == 2


def test_moved_file_waits_for_an_absent_root(moved):
    moved.break_old(RootMissing("the root is not there"))
    moved.send()
    assert moved.row("new/a.jpg").state is State.QUEUED
    assert len(moved.posted()) == 2
    moved.mend()
    moved.clock.advance(61)
    moved.send()
    assert moved.row("new/a.jpg").assetid == "A0000000000000000000000000000002"
    assert len(moved.posted()) == 2


def test_person_can_force_the_upload(moved):
    moved.break_old(FileUnreadable("old/a.jpg cannot be read: Stale file handle"))
    moved.send()
    moved.ledger.add_request("retry", {"paths": [b"new/a.jpg".hex()], "send_again": True}, moved.clock.now())
    take_requests(moved.site.context)
    moved.send()
    assert len(moved.posted()) == 3


def test_copy_of_unreadable_file_is_sent(moved):
    moved.break_old(FileUnreadable("old/a.jpg cannot be read: Permission denied"))
    moved.write("elsewhere/logo.jpg", b"the only one of its kind")
    moved.hint("elsewhere/logo.jpg")
    moved.send()
    assert moved.row("elsewhere/logo.jpg").state is State.STORED
    assert (moved.row("new/a.jpg").state, len(moved.posted())) == (State.BLOCKED, 3)


def test_unowned_asset_is_adopted_regardless(moved):
    moved.service.put(b"the only one of its kind", "a.jpg")
    moved.ledger.folder_listings.again("F1")
    moved.break_old(FileUnreadable("old/a.jpg cannot be read: Permission denied"))
    moved.send()
    assert (moved.row("new/a.jpg").state, len(moved.posted())) == (State.STORED, 2)


def test_restored_ledger_finds_newer_uploads(make_world):
    world = make_world()
    sent, undecided = b"a" * 100, b"b" * 100
    world.write("sent.jpg", sent)
    world.write("undecided.jpg", undecided)
    world.scan()
    row = world.row("undecided.jpg")
    intent = Intent(row.id, "F1", "undecided.jpg", "boundary", row.stat, None, "")
    world.ledger.queue.begin(intent, world.clock.now())
    asset = world.service.put(sent, "sent.jpg")
    world.restart()
    world.send()
    assert world.posted() == []
    world.live(300)
    assert world.posted() == ["undecided.jpg"]
    assert world.row("sent.jpg").assetid == asset.id
    assert set(world.states().values()) == {State.VERIFIED}


def test_restored_ledger_shares_out_equal_assets(make_world):
    """Of two equal assets one belongs to the upload in doubt: the other file waits, and adopts what is left."""
    world = make_world()
    world.write("undecided.jpg", b"the same")
    world.write("sent.jpg", b"the same")
    world.scan()
    row = world.row("undecided.jpg")
    intent = Intent(row.id, "F1", "undecided.jpg", "boundary", row.stat, md5(b"the same"), "")
    world.ledger.queue.begin(intent, world.clock.now())
    assets = {world.service.put(b"the same", name).id for name in ("undecided.jpg", "sent.jpg")}
    world.restart()
    world.send()
    world.live(300)
    assert world.posted() == []
    assert {world.row(name).assetid for name in ("undecided.jpg", "sent.jpg")} == assets
    assert set(world.states().values()) == {State.VERIFIED}


def test_equal_asset_is_left_to_its_namesake(make_world):
    """After a lost ledger each of two equal files takes the asset of its own name, whichever is prepared first."""
    world = make_world()
    world.write("pic_1.jpg", b"the same")
    world.write("pic_2.jpg", b"the same")
    asset = world.service.put(b"the same", "pic_2.jpg")
    world.scan()
    world.send()
    world.live(5)
    assert world.row("pic_2.jpg").assetid == asset.id
    assert world.posted() == ["pic_1.jpg"]


def test_own_name_goes_before_an_earlier_asset(make_world):
    world = make_world()
    world.write("b.jpg", b"the same")
    _, own = (world.service.put(b"the same", name) for name in ("a.jpg", "b.jpg"))
    world.scan()
    world.send()
    assert (world.row("b.jpg").assetid, world.posted()) == (own.id, [])


def test_namesake_of_other_content_takes_nothing(make_world):
    """An asset named after a file of other content is the file that was renamed since: it is not sent again."""
    world = make_world()
    world.write("pic_1.jpg", b"the same")
    world.write("pic_2.jpg", b"not that")
    asset = world.service.put(b"the same", "pic_2.jpg")
    world.scan()
    world.send()
    world.live(5)
    assert world.row("pic_1.jpg").assetid == asset.id
    assert world.posted() == ["pic_2.jpg"]


def test_other_name_waits_for_the_first_scan(make_world):
    """Before the first scan has ended, the file that the asset is named after may not be known yet."""
    world = make_world()
    world.write("pic_1.jpg", b"the same")
    world.write("pic_2.jpg", b"the same")
    asset = world.service.put(b"the same", "pic_2.jpg")
    world.hint("pic_1.jpg")
    world.send()
    assert (world.row("pic_1.jpg").state, world.posted()) == (State.QUEUED, [])
    world.scan()
    world.clock.advance(61)
    world.send()
    assert (world.row("pic_2.jpg").assetid, world.posted()) == (asset.id, ["pic_1.jpg"])


def test_renamed_files_share_out_what_is_left(make_world):
    """After a lost ledger, some of many equal files have new names: each file takes one asset, and none is sent."""
    world = make_world()
    for number in range(40):
        world.service.put(b"the same", f"e{number:02}.bin")
        world.write(f"e{number:02}.bin" if number % 5 else f"renamed{number:02}.bin", b"the same")
    world.scan()
    world.send()
    world.live(5)
    assert world.posted() == []
    assert all(world.row(f"e{number:02}.bin").assetid for number in range(40) if number % 5)
    assert len({row.assetid for row in world.ledger.reports.files()}) == 40


def test_second_asset_of_a_name_is_taken(make_world):
    """A file is left with one asset: of two copies named after it the other one is free."""
    world = make_world()
    world.write("a_renamed.jpg", b"the same")
    world.write("b.jpg", b"the same")
    for _ in range(2):
        world.service.put(b"the same", "b.jpg")
    world.scan()
    world.send()
    assert world.posted() == []
