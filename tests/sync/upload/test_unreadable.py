"""A large file whose disk fails while it is sent leaves one damaged asset, and no second one."""

import errno
import os

import pytest

from assetsync.model import State
from assetsync.status.sentences import next_step

LARGE = bytes(range(256)) * (9 * 2**12)
BAD_FROM = 5 * 2**20
NAMED = "large.tif cannot be read: Input/output error at byte 5,242,880, on the disk of the tree ("


@pytest.fixture
def bad_sector(monkeypatch):
    """Let every read of `large.tif` fail from one place on, while the set holds its name."""
    bad, pread = {"large.tif"}, os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset >= BAD_FROM and os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) in bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return (
            pread(fd, min(length, max(1, BAD_FROM - offset)), offset)
            if offset < BAD_FROM
            else pread(fd, length, offset)
        )

    monkeypatch.setattr(os, "pread", failing)
    return bad


@pytest.fixture
def cut(world, bad_sector):
    """A file that was cut by a bad sector and is in doubt; the service stores what came."""
    world.service.stores_cuts = True
    world.write("large.tif", LARGE)
    world.scan_and_send()
    assert world.states() == {"large.tif": State.IN_DOUBT}
    assert len(world.service.assets) == 1
    return world


def is_blocked_once(world) -> bool:
    row = world.row("large.tif")
    return (row.state, row.reason) == (State.BLOCKED, "unreadable") and len(world.posted()) == 1


def test_bad_sector_leaves_one_damaged_asset(cut):
    """The damaged asset is listed before the file is blocked."""
    cut.live(60)
    assert is_blocked_once(cut)
    assert [found.why for found in cut.orphans()] == ["damaged"]
    for _ in range(3):
        cut.scan()
        cut.live(60)
    assert is_blocked_once(cut)


def test_message_names_file_error_and_disk(cut):
    """Look-ups do not replace the message while the file is in doubt."""
    disk = os.stat(cut.root / "large.tif").st_dev
    assert (cut.row("large.tif").detail or "").startswith(f"{NAMED}{os.major(disk)}:{os.minor(disk)})")
    cut.service.down = True
    cut.live(5)
    assert NAMED in (cut.row("large.tif").detail or "")
    cut.service.down = False
    cut.live(90)
    row = cut.row("large.tif")
    assert row.detail == (
        f"{NAMED}{os.major(disk)}:{os.minor(disk)}); a part of it had been sent, so the service may have stored a"
        " damaged asset: the folder holds a damaged copy of it"
    )
    assert "restore it from a backup" in next_step(row)
    assert "assetsync retry large.tif" in next_step(row)


@pytest.mark.parametrize("how", ["retry", "restart", "resolve", "send_again"])
def test_unreadable_file_is_read_before_each_post(cut, how):
    """A file on a bad sector is read completely before it is sent again, so that no cut asset results."""
    now = cut.clock.now()
    if how != "resolve":
        cut.live(60)
    match how:
        case "retry":
            cut.ledger.decisions.retry(cut.row("large.tif"), now)
        case "restart":
            cut.restart()
            cut.scan()
        case "resolve":
            cut.ledger.decisions.resolve_as_absent(cut.row("large.tif"), now)
        case "send_again":
            cut.ledger.decisions.send_again(cut.row("large.tif"), now)
    cut.live(60)
    assert is_blocked_once(cut)
    assert len(cut.service.assets) == 1


def test_readable_file_is_sent_after_all(cut, bad_sector):
    """Nothing that was lost before it left is counted against the way to the service."""
    cut.live(60)
    assert cut.row("large.tif").absences == 0
    bad_sector.clear()
    cut.ledger.decisions.retry(cut.row("large.tif"), cut.clock.now())
    cut.live(60)
    assert cut.states() == {"large.tif": State.VERIFIED}
    assert len(cut.posted()) == 2


def test_cut_upload_that_left_nothing_blocks_too(world, bad_sector):
    world.write("large.tif", LARGE)
    world.scan_and_send()
    world.live(120)
    assert is_blocked_once(world)
    assert world.service.assets == {}


def test_deleted_unreadable_file_is_not_blocked(cut):
    """A file that is gone before its doubt is decided comes to rest."""
    (cut.root / "large.tif").unlink()
    cut.write("other", b"other")
    cut.scan()
    cut.live(60)
    assert cut.history("large.tif") == [State.GONE]
