"""What the last scan missed is looked for, so that a scan begins once it is back."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assetsync.core.gate import Trouble
from assetsync.daemon.work import Work

FOLDERS = [{"path": "photos", "destfolderid": "F1"}, {"path": "docs", "destfolderid": "F2"}]
NOBODY = 65534


@pytest.fixture
def lossy(make_world):
    """A world with 400 files in one folder and 10 in another, all verified; `aside` is a place outside of its root."""
    world = make_world(folders=FOLDERS, schedule={"rescan": "off"}, watch={"mode": "off"})
    for number in range(400):
        world.write(f"photos/{number:03}", b"%d" % number)
    for number in range(10):
        world.write(f"docs/{number}", b"d%d" % number)
    world.scan_and_send()
    world.live(5)
    world.aside = world.base / "aside"
    return world


def found(world) -> str | None:
    return world.site.rescan.awaited.found()


def brakes(world) -> list[str]:
    return [brake.kind for brake in world.ledger.reports.brakes()]


def lose(world, *numbers: int) -> None:
    world.aside.mkdir(exist_ok=True)
    for number in numbers:
        (world.root / f"photos/{number:03}").rename(world.aside / f"{number:03}")


def bring_back(world, *numbers: int) -> None:
    for number in numbers:
        (world.aside / f"{number:03}").rename(world.root / f"photos/{number:03}")


def test_missing_files_must_all_be_back(lossy):
    lose(lossy, *range(350))
    lossy.scan()
    assert (brakes(lossy), found(lossy)) == (["vanished"], None)
    bring_back(lossy, *range(340))
    assert found(lossy) is None
    bring_back(lossy, *range(340, 350))
    assert found(lossy) == "the missing files are back"
    lossy.scan()
    assert (brakes(lossy), found(lossy)) == ([], None)
    assert len(lossy.service.posts) == 410


def test_sample_reaches_beyond_the_kept_files(lossy, monkeypatch):
    """Of a large loss only the first files are kept by name: their return is not the return of all."""
    monkeypatch.setattr(lossy.site.intake, "_rules", lossy.site.intake._rules.__class__((5.0, 5.0), True, 50))
    lose(lossy, *range(350))
    lossy.scan()
    bring_back(lossy, *range(300))
    assert found(lossy) is None


def test_renamed_files_are_not_awaited(lossy):
    lose(lossy, *range(250))
    for number in range(300, 310):
        (lossy.root / f"photos/{number}").rename(lossy.root / f"photos/renamed {number}")
    lossy.scan()
    assert brakes(lossy) == ["vanished"]
    bring_back(lossy, *range(250))
    assert found(lossy) == "the missing files are back"


def test_deleted_files_are_not_awaited(lossy):
    lose(lossy, *range(50))
    lossy.scan()
    assert brakes(lossy) == []
    bring_back(lossy, *range(50))
    assert found(lossy) is None


def test_mapped_folder_that_comes_is_found(make_world):
    world = make_world(folders=FOLDERS)
    (world.root / "photos").mkdir()
    world.scan()
    assert found(world) is None
    (world.root / "docs").mkdir()
    assert found(world) == "a mapped folder is back"
    world.scan()
    assert found(world) is None


@contextmanager
def nobody() -> Iterator[None]:
    """Look at the tree as another user: root reads everything."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("way", ["readable", "deleted"])
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_unreadable_folder_is_found_once_it_can_be_read(make_world, mode, way):
    """What a scan could not read is looked for; a scan begins once it can be read, or is gone."""
    with tempfile.TemporaryDirectory(prefix="assetsync-awaited-") as folder:
        os.chmod(folder, 0o755)
        world = make_world(Path(folder))
        world.write("shut/a", b"a")
        shut, rescan = world.root / "shut", world.site.rescan
        shut.chmod(mode)
        with nobody():
            result = rescan.dry_run()
            rescan.awaited.note(result, undecided=False)
            assert (result.report.unreadable_count, rescan.awaited.found()) == (1, None)
        if way == "readable":
            shut.chmod(0o755)
        else:
            shutil.rmtree(shut)
        with nobody():
            assert rescan.awaited.found() == "what was unreadable can be read"
        world.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_path_unexamined_by_a_look_is_awaited(make_world):
    """A folder is copied by another user: it can be read only at the end of the copy."""
    with tempfile.TemporaryDirectory(prefix="assetsync-awaited-") as folder:
        os.chmod(folder, 0o755)
        world = make_world(Path(folder))
        world.write("shut/a", b"a")
        rescan = world.site.rescan
        rescan.run()
        (world.root / "shut").chmod(0o700)
        with nobody():
            world.site.single_looks.look(b"shut/a")
            assert rescan.awaited.found() is None
        (world.root / "shut").chmod(0o755)
        assert rescan.awaited.found() == "what was unreadable can be read"
        rescan.run()
        assert rescan.awaited.found() is None
        world.close()


def test_missing_root_ends_no_look_for_a_path(lossy):
    lossy.root.rename(lossy.aside)
    lossy.site.single_looks.look(b"photos/000")
    assert found(lossy) is None
    lossy.aside.rename(lossy.root)
    assert found(lossy) == "what was unreadable can be read"


def test_daemon_scans_a_minute_after_the_return(lossy, clock):
    work = Work(lossy.site, idle=0.0)
    lose(lossy, *range(350))
    work.want_scan()
    work.scan()
    assert brakes(lossy) == ["vanished"]
    scanned = lossy.ledger.runs.last_scan().at
    for _ in range(5):
        clock.advance(60)
        work.scan()
    assert lossy.ledger.runs.last_scan().at == scanned
    bring_back(lossy, *range(350))
    clock.advance(60)
    work.scan()
    assert brakes(lossy) == []


def test_daemon_tries_a_missing_root_each_minute(lossy, clock):
    work = Work(lossy.site, idle=0.0)
    away = lossy.root.with_name("away")
    lossy.root.rename(away)
    work.want_scan()
    work.scan()
    assert brakes(lossy) == ["root"]
    away.rename(lossy.root)
    clock.advance(60)
    work.scan()
    assert brakes(lossy) == []


@pytest.fixture
def shut(make_world):
    """A world as root sees it, with a file that is blocked because another user cannot read it."""
    with tempfile.TemporaryDirectory(prefix="assetsync-awaited-") as folder:
        os.chmod(folder, 0o755)
        world = make_world(Path(folder))
        file = world.write("a", b"a")
        file.chmod(0)
        world.scan()
        site = world.site
        with nobody_at(world):
            world.send()
        assert world.row("a").reason == "unreadable"
        yield world, site, file
        world.close()


@contextmanager
def nobody_at(world) -> Iterator[None]:
    """Let another user, who may write the ledger, look at the tree."""
    for path in (world.base, *world.base.glob("*.db*")):
        os.chown(path, NOBODY, NOBODY)
    with nobody():
        yield


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_file_is_retried_once_it_can_be_opened(shut):
    world, site, file = shut
    with nobody_at(world):
        site.retry_opened()
        assert world.row("a").state == "blocked"
    file.chmod(0o644)
    with nobody_at(world):
        site.retry_opened()
    assert world.row("a").state == "queued"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_opened_file_waits_while_nothing_may_be_sent(shut):
    world, site, file = shut
    with nobody_at(world):
        site.retry_opened()
    file.chmod(0o644)
    site.gates.failed(Trouble("unreachable", "down"))
    site.retry_opened()
    assert world.row("a").state == "blocked"
    assert site.gates.check()
    site.retry_opened()
    assert world.row("a").state == "queued"


def test_file_that_opens_and_cannot_be_read_is_left_to_the_scans(lossy):
    """Its disk fails: a retry each minute would read it each minute."""
    lossy.ledger.store.write(
        lambda conn: conn.execute(
            "UPDATE files SET state = 'blocked', reason = 'unreadable' WHERE path = ?", (b"docs/1",)
        )
    )
    for _ in range(3):
        lossy.site.retry_opened()
    assert lossy.row("docs/1").state == "blocked"
