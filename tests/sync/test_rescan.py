"""What a look at the whole tree leaves written down of what it could not see."""

import os

import pytest

from assetsync.sync import rescan
from assetsync.tree import scan as module
from assetsync.tree.scan_report import MOVED_AWAY


@pytest.fixture
def closed(monkeypatch) -> set[bytes]:
    """Name the folders that nobody may open, whoever runs the tests."""
    names: set[bytes] = set()
    real = module.open_unmarked

    def refuse(name: bytes, flags: int, dir_fd: int | None = None) -> int:
        if name in names:
            raise PermissionError(13, os.strerror(13))
        return real(name, flags, dir_fd)

    monkeypatch.setattr(module, "open_unmarked", refuse)
    return names


def folders(world, *names: str) -> None:
    for name in names:
        world.write(f"{name}/1.jpg", name.encode())


def test_unreadable_paths_are_kept_up_to_100(world, closed):
    names = [f"d{number:03}" for number in range(102)]
    folders(world, *names)
    closed |= {name.encode() for name in names}
    world.scan()
    scan = world.ledger.runs.last_scan()
    assert (scan.unreadable, scan.unread, scan.moved) == (102, 102, 0)
    assert scan.blind == tuple(f"{name} (Permission denied)" for name in names[:100])


def test_file_moved_in_scan_is_not_unreadable(world, closed, monkeypatch):
    """A file that moves during a scan leaves it incomplete, and is not reported as unreadable."""
    real = rescan.scan

    def moving(tree, plan, report, **options):
        yield from real(tree, plan, report, **options)
        for name in (b"m1", b"m2"):
            report.mark_unreadable(name, MOVED_AWAY)

    monkeypatch.setattr(rescan, "scan", moving)
    folders(world, "a")
    world.scan()
    scan = world.ledger.runs.last_scan()
    assert (scan.complete, scan.unreadable, scan.unread, scan.moved, scan.blind) == (False, 2, 0, 2, ())
    world.ledger.runs.not_scanned("x (Permission denied)")
    assert world.ledger.runs.last_scan().unread == 1, "a look in between met one that is"
    closed.add(b"a")
    world.scan()
    scan = world.ledger.runs.last_scan()
    assert (scan.unreadable, scan.unread, scan.blind) == (3, 1, ("a (Permission denied)",))


def test_stopped_scan_keeps_unreadable_paths(make_world, closed):
    world = make_world(folders=[{"path": name, "destfolderid": "F1"} for name in ("b", "z")])
    folders(world, "b/c", "b/d")
    closed |= {b"c", b"d"}
    world.scan()
    before = world.ledger.runs.last_scan()
    assert (before.missing, before.unread) == (("z",), 2)
    world.clock.stopped = True
    world.scan()
    world.clock.stopped = False
    scan = world.ledger.runs.last_scan()
    assert (scan.missing, scan.blind, scan.unread, scan.complete) == (("z",), before.blind, 2, False)
    closed.clear()
    folders(world, "z")
    world.scan()
    scan = world.ledger.runs.last_scan()
    assert (scan.missing, scan.blind, scan.unreadable, scan.complete) == ((), (), 0, True)
