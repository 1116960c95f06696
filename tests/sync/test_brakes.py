"""The brakes: each is pulled by its own kind of mistake, waits for a person, and not again for what was allowed.

Covers `core/brakes.py`.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from assetsync.daemon.work import Work
from assetsync.errors import RootMissing
from assetsync.model import State
from assetsync.reconcile import dry_run

NOBODY = 65534


def sent(world, count: int, below: str = "photos") -> None:
    for number in range(count):
        world.write(f"{below}/{number}", f"{below}{number}".encode())
    world.site.brakes.check_mappings()
    world.scan_and_send()
    world.live(3)
    world.ledger.set_fact("queue_was_empty", "1")


@dataclass
class Case:
    """What is wrong, and what the scan after it may not do before someone has looked."""

    brake: dict[str, str]
    wrong: Callable
    kind: str
    refused: Callable


def _empty(world) -> None:
    shutil.rmtree(world.root / "photos")
    (world.root / "photos").mkdir()


def _unmount(world) -> None:
    shutil.rmtree(world.root / "photos")


def _lose(count: int) -> Callable:
    def lose(world) -> None:
        for number in range(count):
            (world.root / f"photos/{number}").unlink()

    return lose


def _grow(world) -> None:
    for number in range(6):
        world.write(f"photos/new{number}", f"new{number}".encode())


def _repoint(world) -> None:
    world.restart(folders=[{"path": "photos", "destfolderid": "F9"}, {"path": "rest", "destfolderid": "F1"}])
    world.site.brakes.check_mappings()


def _all_verified(world) -> bool:
    return world.states() == {f"photos/{n}": State.VERIFIED for n in range(10)}


CASES = {
    "emptied": Case({}, _empty, "emptied", _all_verified),
    "missing": Case({}, _unmount, "emptied", _all_verified),
    "vanished": Case({"max_vanished": "4"}, _lose(5), "vanished", _all_verified),
    "none_may_vanish": Case({"max_vanished": "0"}, _lose(1), "vanished", _all_verified),
    "new_files": Case({"max_new_files": "5"}, _grow, "new_files", lambda world: len(world.service.posts) == 10),
    "destfolderid": Case({}, _repoint, "destfolderid", lambda world: len(world.service.posts) == 10),
}


def check(world) -> None:
    """What a run does about brakes, from its beginning to its sending."""
    world.site.brakes.check_mappings()
    world.scan()
    if not world.site.brakes.pulled():
        world.send()


@pytest.mark.parametrize("name", CASES)
def test_each_mistake_brakes_until_resumed(make_world, clock, name):
    """Each kind of mistake pulls one brake, which refuses uploads until a person resumes, and not again after that."""
    case = CASES[name]
    folders = [{"path": "photos", "destfolderid": "F1"}, {"path": "rest", "destfolderid": "F1"}]
    world = make_world(brake=case.brake, folders=folders)
    sent(world, 10)
    assert not world.site.brakes.pulled()
    case.wrong(world)
    check(world)
    assert [brake.kind for brake in world.ledger.reports.brakes()] == [case.kind]
    assert case.refused(world)
    check(world)
    assert len(world.ledger.reports.brakes()) == 1
    assert case.refused(world)
    (brake,) = world.ledger.reports.brakes()
    assert world.ledger.resume(brake.id, clock.now()) == 1
    check(world)
    assert world.ledger.reports.brakes() == []
    assert not case.refused(world)
    check(world)
    assert world.ledger.reports.brakes() == []


@pytest.mark.parametrize("name", CASES)
def test_dry_run_reports_the_brake_only(make_world, clock, name):
    """The dry run prints the sentence that the brake will have, and pulls none."""
    case = CASES[name]
    folders = [{"path": "photos", "destfolderid": "F1"}, {"path": "rest", "destfolderid": "F1"}]
    world = make_world(brake=case.brake, folders=folders)
    (world.root / "rest").mkdir()
    sent(world, 10)
    assert (dry_run(world.site).would_brake, dry_run(world.site).in_sync) == ((), True)
    if case.wrong is _repoint:
        world.restart(folders=[{"path": "photos", "destfolderid": "F9"}, folders[1]])
    else:
        case.wrong(world)
    foreseen = dry_run(world.site)
    assert not foreseen.in_sync
    assert not world.site.brakes.pulled()
    check(world)
    assert [brake.detail for brake in world.ledger.reports.brakes()] == list(foreseen.would_brake)
    assert dry_run(world.site).would_brake == ()
    world.ledger.resume(None, clock.now())
    assert dry_run(world.site).would_brake == ()


@pytest.mark.parametrize("name", ["emptied", "vanished"])
def test_resume_after_return_allows_nothing(make_world, clock, name):
    """The release of a brake is not kept for the next loss if everything had come back."""
    world = make_world(brake=CASES[name].brake, folders=[{"path": "photos", "destfolderid": "F1"}])
    sent(world, 10)
    aside = world.root.with_name("aside")

    def loses() -> list[str]:
        shutil.copytree(world.root / "photos", aside)
        CASES[name].wrong(world)
        check(world)
        return [brake.kind for brake in world.ledger.reports.brakes()]

    assert loses() == [name]
    shutil.rmtree(world.root / "photos")
    aside.rename(world.root / "photos")
    world.ledger.resume(None, clock.now())
    check(world)
    assert world.ledger.reports.brakes() == []
    # What came back is read back.
    world.live(5)
    assert loses() == [name]
    assert _all_verified(world)


@pytest.mark.parametrize("name", ["emptied", "missing", "vanished", "none_may_vanish"])
def test_missing_brake_lifts_once_all_is_back(make_world, name):
    """The brake stays while a single file is still missing."""
    case = CASES[name]
    world = make_world(brake=case.brake, folders=[{"path": "photos", "destfolderid": "F1"}])
    sent(world, 10)
    aside = world.root.with_name("aside")
    shutil.copytree(world.root / "photos", aside)
    case.wrong(world)
    check(world)
    # Where one of them is missing still, a person looks.
    shutil.rmtree(world.root / "photos", ignore_errors=True)
    shutil.copytree(aside, world.root / "photos")
    (world.root / "photos/0").unlink()
    check(world)
    assert [brake.kind for brake in world.ledger.reports.brakes()] == [case.kind]
    shutil.copy2(aside / "0", world.root / "photos/0")
    check(world)
    assert world.ledger.reports.brakes() == []
    world.live(5)
    assert (_all_verified(world), len(world.service.posts)) == (True, 10)


def test_absent_disk_has_one_brake(make_world):
    """A disk that is not mounted pulls the root's brake, then that of an emptied folder; both clear at its return."""
    world = make_world(folders=[{"path": "photos", "destfolderid": "F1"}])
    sent(world, 10)
    away = world.root.with_name("away")

    def kinds() -> list[str]:
        with suppress(RootMissing):
            check(world)
        return [brake.kind for brake in world.ledger.reports.brakes()]

    world.root.rename(away)
    world.site.root_identity.missing("the root is not there")
    assert kinds() == ["root"]
    # The place where it is mounted, as it is before that.
    world.root.mkdir()
    assert kinds() == ["emptied"]
    world.root.rmdir()
    away.rename(world.root)
    assert kinds() == []
    world.live(5)
    assert (_all_verified(world), len(world.service.posts)) == (True, 10)


@contextmanager
def _unreadable(world) -> Iterator[None]:
    """Let `photos` be a folder that may not be read, whoever runs the tests."""
    folder = world.root / "photos"
    privileged = os.geteuid() == 0
    folder.chmod(0)
    try:
        if privileged:
            os.seteuid(NOBODY)
        yield
    finally:
        if privileged:
            os.seteuid(0)
        folder.chmod(0o755)


@contextmanager
def _cut_short(world) -> Iterator[None]:
    world.clock.stopped = True
    yield
    world.clock.stopped = False


@pytest.mark.parametrize("blinded", [_unreadable, _cut_short], ids=["unreadable", "cut short"])
@pytest.mark.parametrize("name", ["emptied", "vanished"])
def test_blind_scan_keeps_the_agreement(make_world, clock, name, blinded):
    """A scan that cannot read the folder does not use up the release of its brake."""
    with tempfile.TemporaryDirectory(prefix="assetsync-flow-") as folder:
        os.chmod(folder, 0o755)
        case = CASES[name]
        world = make_world(Path(folder), brake=case.brake, folders=[{"path": "photos", "destfolderid": "F1"}])
        sent(world, 10)
        case.wrong(world)
        check(world)
        assert [brake.kind for brake in world.ledger.reports.brakes()] == [name]
        world.ledger.resume(None, clock.now())
        with blinded(world):
            result = world.scan()
        assert (result.missing_count, result.report.complete) == (0, False)
        assert _all_verified(world)
        check(world)
        assert world.ledger.reports.brakes() == []
        assert not case.refused(world)
        world.close()


def test_agreement_has_amount_and_week_limit(make_world, clock):
    """The release of a brake covers no more files than it named, and ends after a week."""
    world = make_world(brake={"max_vanished": "2"})
    sent(world, 10, below="d")
    for number in range(3):
        (world.root / f"d/{number}").unlink()
    world.scan()
    world.ledger.resume(None, clock.now())
    world.scan()
    assert len(world.states()) == 7
    for number in range(3, 7):
        (world.root / f"d/{number}").unlink()
    world.scan()
    (brake,) = world.ledger.reports.brakes()
    assert (brake.kind, brake.amount) == ("vanished", 4)
    assert brake.detail == "4 of 7 known files are gone, 4 from d: is this intended?"
    world.ledger.resume(None, clock.now())
    clock.advance(8 * 24 * 3600)
    world.scan()
    assert len(world.ledger.reports.brakes()) == 1


@pytest.mark.parametrize(
    ("before", "now", "braked"),
    [
        pytest.param({".": "F1"}, {".": "F1", "d": "F9"}, "d → F9", id="a folder gets a mapping of its own"),
        pytest.param({".": "F1", "d": "F9"}, {".": "F1"}, ". → F1", id="a mapping is taken away from over another"),
        pytest.param({"d": "F1"}, {"d": "F1", "other": "F9"}, None, id="a mapping for what was not mapped"),
        pytest.param({"d": "F1"}, {".": "F1"}, None, id="a mapping to the same folder of the service"),
    ],
)
def test_mapping_takeover_brakes_first(make_world, clock, before, now, braked):
    world = make_world(folders=[{"path": path, "destfolderid": folder} for path, folder in before.items()])
    (world.root / "other").mkdir()
    sent(world, 4, below="d")
    world.restart(folders=[{"path": path, "destfolderid": folder} for path, folder in now.items()])
    for _ in range(2):
        check(world)
    assert [brake.subject for brake in world.ledger.reports.brakes()] == ([braked] if braked else [])
    assert len(world.service.posts) == 4
    assert set(world.states().values()) == {State.VERIFIED}
    if braked:
        world.ledger.resume(None, clock.now())
        check(world)
        assert len(world.service.posts) == 8
        check(world)
        assert not world.site.brakes.pulled()


def test_reported_takeover_needs_no_brake(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1"}], policy={"on_move": "report"})
    sent(world, 4, below="d")
    world.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "d", "destfolderid": "F9"}])
    check(world)
    assert not world.site.brakes.pulled()
    assert len(world.service.posts) == 4


@pytest.fixture
def hourly(make_world):
    world = make_world(brake={"max_new_files": "100"})
    world.ledger.set_fact("queue_was_empty", "1")
    return world


def test_new_file_rush_brakes_without_scan(hourly, clock):
    for minute in range(50):
        hourly.site.brakes.check_hour(2 * minute)
        clock.advance(60)
    assert not hourly.site.brakes.pulled()
    hourly.site.brakes.check_hour(101)
    assert [(brake.kind, brake.amount) for brake in hourly.ledger.reports.brakes()] == [("new_files", 101)]


def test_hundred_new_files_hourly_are_normal(hourly, clock):
    for hour in range(1, 30):
        hourly.site.brakes.check_hour(100 * hour)
        clock.advance(3700)
        hourly.site.brakes.check_hour(100 * hour)
    assert not hourly.site.brakes.pulled()


def test_resume_starts_a_new_hour_count(hourly, clock):
    hourly.site.brakes.check_hour(101)
    hourly.ledger.resume(None, clock.now())
    hourly.site.brakes.check_hour(201)
    assert not hourly.site.brakes.pulled()
    hourly.site.brakes.check_hour(202)
    assert hourly.site.brakes.pulled()


def test_first_import_counts_for_no_hour(make_world):
    world = make_world(brake={"max_new_files": "100"})
    world.site.brakes.check_hour(50_000)
    world.ledger.set_fact("queue_was_empty", "1")
    world.site.brakes.check_hour(50_050)
    assert not world.site.brakes.pulled()


def test_single_looks_count_only_new_files(make_world):
    world = make_world()
    world.write("a", b"a")
    world.site.single_looks.look(b"a")
    world.send()
    world.write("a", b"b")
    world.site.single_looks.look(b"a")
    world.site.single_looks.look(b"a")
    assert world.site.single_looks.new_versions == 2


def test_first_import_pulls_no_brake(make_world):
    world = make_world(brake={"max_new_files": "3"})
    for number in range(10):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    assert not world.site.brakes.pulled()


def test_vanished_brake_spares_small_trees(make_world):
    for count, braked in ((100, True), (20, True), (19, False)):
        world = make_world()
        (world.root / "d").mkdir()
        for number in range(count):
            world.write(f"d/{number}", b"x")
        world.scan_and_send()
        for number in range(count * 6 // 10):
            (world.root / f"d/{number}").unlink()
        world.scan()
        assert world.site.brakes.pulled() is braked
        assert len(world.states()) == (count if braked else count - count * 6 // 10)


def test_mapping_without_assets_may_change(world):
    world.write("a")
    world.site.brakes.check_mappings()
    world.scan()
    world.restart(folders=[{"path": ".", "destfolderid": "F9"}])
    world.site.brakes.check_mappings()
    assert not world.site.brakes.pulled()


def test_missing_root_pulls_its_brake_once(world):
    sent(world, 1)
    world.root.rename(world.base / "elsewhere")
    with pytest.raises(RootMissing):
        world.scan()
    world.site.root_identity.missing("the root is not there")
    world.site.root_identity.missing("the root is not there")
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["root"]
    assert _states(world) == {State.VERIFIED}


def _states(world) -> set[State]:
    return set(world.states().values())


def test_empty_ledger_accepts_another_root(world):
    world.scan()
    world.root = world.base / "other"
    world.root.mkdir()
    world.restart(root=str(world.root))
    world.write("a")
    world.scan()
    assert not world.site.brakes.pulled()
    assert world.states() == {"a": State.QUEUED}


def test_other_root_blocks_hints_until_agreed(world):
    """Another tree stands at the root: what the watcher reports is not recorded until a person resumes."""
    sent(world, 1)
    (world.base / "other").mkdir()
    (world.base / "other" / "new").write_bytes(b"new")
    world.restart(root=str(world.base / "other"))
    work = Work(world.site, idle=0.05)
    work.begin()
    try:
        work._watch_queue.add(b"new")
        work.look()
        work.scan()
        assert world.states() == dict.fromkeys(world.states(), State.VERIFIED)
        world.ledger.add_request("resume", {"id": None}, world.clock.now())
        work.tend()
        work.scan()
        work.look()
    finally:
        work.end()
    assert "new" in world.states()


def test_changed_mapping_blocks_early_hints(world):
    sent(world, 1)
    world.restart(folders=[{"path": ".", "destfolderid": "F9"}])
    work = Work(world.site, idle=0.05)
    work.begin()
    try:
        for path in world.states():
            work._watch_queue.add(path.encode())
        work.look()
    finally:
        work.end()
    assert _states(world) == {State.VERIFIED}
    assert world.site.brakes.pulled()


def test_restored_mapping_lifts_its_brake(world):
    sent(world, 1)
    there, elsewhere = ([{"path": ".", "destfolderid": folder}] for folder in ("F1", "F9"))
    for folders, pulled in ((elsewhere, ["destfolderid"]), (there, []), (elsewhere, ["destfolderid"])):
        world.restart(folders=folders)
        world.scan()
        assert [brake.kind for brake in world.ledger.reports.brakes()] == pulled
    assert len(world.service.posts) == 1


def test_late_agreement_covers_no_new_mistake(world):
    sent(world, 1)
    there, elsewhere = ([{"path": ".", "destfolderid": folder}] for folder in ("F1", "F9"))
    for _ in range(2):
        world.restart(folders=elsewhere)
        world.scan()
        assert [brake.kind for brake in world.ledger.reports.brakes()] == ["destfolderid"]
        world.restart(folders=there)
        world.ledger.resume(None, world.clock.now())
        world.scan()
    assert len(world.service.posts) == 1


def test_release_beside_daemon_scans_at_once(world):
    sent(world, 1)
    world.restart(folders=[{"path": ".", "destfolderid": "F9"}])
    work = Work(world.site, idle=0.05)
    work.begin()
    try:
        work.scan()
        assert set(world.states().values()) == {State.VERIFIED}
        world.ledger.add_request("resume", {"id": None}, world.clock.now())
        work.tend()
        work.scan()
    finally:
        work.end()
    assert set(world.states().values()) == {State.QUEUED}


@pytest.mark.parametrize("lost", [0, 1])
def test_returned_root_brakes_for_lost_file(world, lost):
    sent(world, 3)
    world.site.root_identity.missing("the root is not there")
    for name in sorted(world.states())[:lost]:
        (world.root / name).unlink()
    world.scan()
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["root"] * lost


def _brakes(world) -> list[tuple[str, str]]:
    return [(brake.kind, brake.subject) for brake in world.ledger.reports.brakes()]


def test_emptied_brake_survives_a_long_list(make_world, monkeypatch):
    monkeypatch.setattr("assetsync.app._MISSING_KEPT", 5)
    folders = [{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}]
    world = make_world(folders=folders, brake={"max_vanished": 5})
    for name in (*(f"a/{number}.jpg" for number in range(8)), *(f"b/{number}.jpg" for number in range(3))):
        world.write(name, name.encode())
    world.scan_and_send()
    world.live(5)
    shutil.rmtree(world.root / "b")
    world.scan()
    assert _brakes(world) == [("emptied", "b")]
    shutil.rmtree(world.root / "a")
    world.scan()
    assert ("emptied", "b") in _brakes(world)
    (held,) = (brake.detail for brake in world.ledger.reports.brakes() if brake.subject == "a")
    assert "held 8 files" in held


def test_corrected_path_lifts_rename_brake(make_world):
    folders = [{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}]
    world = make_world(folders=folders)
    for number in range(10):
        world.write(f"a/{number}.jpg", b"a%d" % number)
        world.write(f"b/{number}.jpg", b"b%d" % number)
    world.scan_and_send()
    world.live(5)
    (world.root / "b").rename(world.root / "c")
    world.scan()
    assert _brakes(world) == [("emptied", "b")]
    world.restart(folders=[folders[0], {"path": "c", "destfolderid": "F2"}])
    world.scan()
    assert _brakes(world) == []
    world.live(60)
    assert len(world.service.posts) == 20
