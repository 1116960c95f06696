"""Two sites that would send the same files to the same folder of the service: the later one waits for a person.

Covers `sync/duplicate_sites.py`.
"""

import os
import shutil
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from assetsync.errors import RootElsewhere
from assetsync.ledger.ledger import open_ledger
from assetsync.model import State
from assetsync.sync.duplicate_sites import (
    CLAIM,
    Claim,
    ClaimState,
    duplicates_of,
    is_same_service,
    make_claim,
    neighbours,
    read_claim,
)

ADDRESS = "http://127.0.0.1:1/dam"
OURS = Path("/var/lib/assetsync/oslo.db")
WEEK = 7 * 24 * 3600.0


@pytest.fixture
def first(make_world):
    """A site that has mirrored its one file."""
    world = make_world(site="hq")
    world.write("a.jpg")
    go_on(world)
    return world


@pytest.fixture
def make_second(make_world, first):
    """Make the site of a configuration that was copied from the first one's, with its own name and ledger alone."""

    def make(name: str = "oslo", site: str | None = None, **said):
        second = make_world(first.base, site=site or name, ledger=str(first.base / f"{name}.db"), **said)
        second.service = first.service
        return second

    return make


def brakes(world) -> list[str]:
    return [brake.kind for brake in world.ledger.reports.brakes()]


def resume(world) -> None:
    world.ledger.resume(None, world.clock.now())


def go_on(world) -> bool:
    try:
        world.scan()
    except RootElsewhere:
        return False
    if not world.site.brakes.pulled():
        world.live(5)
    return True


def claim_of(world) -> Claim:
    claim = read_claim(world.ledger.reports.fact(CLAIM))
    assert claim is not None
    return claim


def set_claim(world, **changes) -> None:
    world.ledger.set_fact(CLAIM, replace(claim_of(world), **changes).text())


@pytest.mark.parametrize("folder", ["F1", "f1"])
def test_second_site_scans_nothing(first, make_second, folder):
    second = make_second(folders=[{"path": ".", "destfolderid": folder}])
    with pytest.raises(
        RootElsewhere, match=rf"the site `hq` \(ledger .*ledger.db\) sends .*/root to folder {folder}, too"
    ):
        second.scan()
    assert brakes(second) == ["twin"]
    assert second.states() == {}
    assert second.site.root_identity.elsewhere


def test_first_site_runs_beside_the_second(first, make_second):
    second = make_second()
    for name in "bc":
        assert not go_on(second)
        first.write(f"{name}.jpg", name.encode())
        first.restart()
        assert go_on(first)
    assert brakes(first) == []
    assert first.posted() == ["a.jpg", "b.jpg", "c.jpg"]


def test_corrected_configuration_resumes(first, make_second, tmp_path):
    second = make_second()
    go_on(second)
    (tmp_path / "oslo").mkdir()
    (tmp_path / "oslo" / "c.jpg").write_bytes(b"of oslo")
    second.restart(root=str(tmp_path / "oslo"), folders=[{"path": ".", "destfolderid": "F2"}])
    assert go_on(second)
    assert brakes(second) == []
    assert second.states() == {"c.jpg": State.VERIFIED}


def be_stopped(first) -> None:
    first.close()


def be_away(first) -> None:
    first.close()
    first.ledger_path.rename(first.base / "elsewhere")


def be_linked(first) -> None:
    os.link(first.ledger_path, first.base / "snapshot")


def be_damaged(first) -> None:
    first.close()
    first.ledger_path.write_bytes(b"no database any more" * 500)


def be_at_another_address(first) -> None:
    set_claim(first, service="http://localhost:1/dam")


def map_something_else(first) -> None:
    set_claim(first, folders={b"": "F9"})


@pytest.mark.parametrize(
    "happens", [be_stopped, be_away, be_linked, be_damaged, be_at_another_address, map_something_else]
)
def test_first_site_progress_frees_no_second(first, make_second, happens):
    second = make_second()
    go_on(second)
    happens(first)
    for _ in range(2):
        second.restart()
        assert not go_on(second)
    assert brakes(second) == ["twin"]


def test_removed_conflict_needs_a_release(first, make_second):
    second = make_second()
    go_on(second)
    set_claim(first, folders={b"": "F9"})
    resume(second)
    assert go_on(second)
    assert second.states() == {"a.jpg": State.VERIFIED}
    # That was no word on the same mistake, made once more.
    second.restart(folders=[{"path": ".", "destfolderid": "F3"}])
    second.site.root_identity.check()
    set_claim(first, folders={b"": "F1"})
    second.restart(folders=[{"path": ".", "destfolderid": "F1"}])
    assert not go_on(second)


def test_agreed_duplicate_is_not_asked_again(first, make_second):
    second = make_second()
    go_on(second)
    resume(second)
    for _ in range(2):
        assert go_on(second)
        second.clock.advance(2 * WEEK)
        second.restart()
    second.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    assert go_on(second)
    assert brakes(second) == []
    assert second.states() == {"a.jpg": State.VERIFIED}


def test_each_duplicate_needs_agreement(first, make_second):
    make_second("bergen").ledger.set_fact(CLAIM, replace(claim_of(first), ledger="bergen").text())
    second = make_second()
    assert not go_on(second)
    assert brakes(second) == ["twin", "twin"]
    second.ledger.resume(second.ledger.reports.brakes()[0].id, second.clock.now())
    assert not go_on(second)
    assert [brake.subject for brake in second.ledger.reports.brakes()] == [str(first.ledger_path)]
    resume(second)
    assert go_on(second)


def test_later_mapping_makes_the_second_site(first, make_second):
    second = make_second(folders=[{"path": "photos", "destfolderid": "F2"}])
    second.write("photos/p.jpg", b"a picture")
    go_on(second)
    first.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "photos", "destfolderid": "F2"}])
    assert not go_on(first)
    assert brakes(first) == ["twin"]
    assert go_on(second)


def test_simultaneous_sites_do_not_both_start(first, make_second):
    second = make_second()
    set_claim(first, state=ClaimState.ASKING)
    assert not go_on(second)
    set_claim(second, state=ClaimState.ASKING)
    assert not go_on(first)


def test_early_claim_counts_when_site_is_down(make_world):
    first = make_world(site="hq")
    (first.base / "old.db").write_bytes(b"x" * 9000)
    (first.base / "old.db.epoch").write_text("3")
    first.write("a.jpg")
    assert go_on(first)
    first.close()
    second = make_world(first.base, site="oslo", ledger=str(first.base / "oslo.db"))
    assert not go_on(second)
    second.close()
    first.restart()
    assert go_on(first)


def test_claim_precedes_the_neighbour_check(first, make_second, monkeypatch):
    second = make_second()
    claimed = []

    def look(ledger):
        claimed.append(claim_of(second).state)
        return neighbours(ledger)

    monkeypatch.setattr("assetsync.sync.duplicate_sites.neighbours", look)
    go_on(second)
    assert claimed == [ClaimState.ASKING]
    assert claim_of(second).state is ClaimState.WAITING


def test_crash_after_claim_repeats_the_check(first, make_second):
    second = make_second()
    go_on(second)
    resume(second)
    go_on(second)
    second.ledger.set_fact("twins", None)
    set_claim(second, state=ClaimState.ASKING)
    second.restart()
    assert not go_on(second)


def test_waiting_site_stops_no_new_ledger(first, make_second):
    go_on(make_second())
    first.close()
    for path in first.base.glob("ledger.db*"):
        path.unlink()
    assert go_on(first)
    assert first.states() == {"a.jpg": State.VERIFIED}


def test_absent_root_keeps_the_order_of_sites(first, make_second):
    second = make_second()
    go_on(second)
    away = first.root.rename(first.base / "away")
    first.site.root_identity.check()
    away.rename(first.root)
    assert go_on(first)
    assert not go_on(second)


def test_mistaken_root_stops_no_other_site(first, make_second, tmp_path):
    (tmp_path / "oslo").mkdir()
    (tmp_path / "oslo" / "c.jpg").write_bytes(b"of oslo")
    second = make_second(root=str(tmp_path / "oslo"))
    go_on(second)
    first.restart(root=str(tmp_path / "oslo"))
    assert not go_on(first)
    assert brakes(first) == ["root"]
    second.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    assert go_on(second)


def test_a_look_alone_writes_nothing(first, make_second):
    second = make_second()
    with pytest.raises(RootElsewhere):
        second.site.root_identity.expect()
    assert brakes(second) == []
    assert second.ledger.reports.fact(CLAIM) is None
    first.site.root_identity.expect()


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"),
    [
        ({b"": "F"}, {b"": "F"}, [b""]),
        ({b"": "F"}, {b"": "G"}, []),
        ({b"": "F"}, {b"photos": "F"}, [b"photos"]),
        ({b"photos": "F"}, {b"": "F"}, [b"photos"]),
        ({b"photos": "F"}, {b"photos2": "F"}, []),
        ({b"photos": "F"}, {b"": "F", b"photos": "G"}, []),
        ({b"": "F", b"photos": "G"}, {b"photos": "F"}, []),
        ({b"": "F", b"photos/old": "G"}, {b"photos": "F"}, [b"photos"]),
        ({b"a": "F", b"b": "F"}, {b"a": "F", b"b": "F"}, [b"a", b"b"]),
    ],
)
def test_shared_target_folder_is_found(first, make_second, ours, theirs, shared):
    set_claim(first, root=b"/srv/media", service=ADDRESS, folders=theirs, places={})
    claim = make_claim(b"/srv/media", ADDRESS, ours, OURS)
    found = [place for twin in duplicates_of(claim, neighbours(make_second().ledger_path)) for place in twin.shared]
    assert found == [b"/srv/media/" + path if path else b"/srv/media" for path in shared]


@pytest.mark.parametrize(
    ("root", "folders", "is_twin"),
    [
        (b"/srv/media", {b"photos": "F"}, True),
        (b"/srv/media/", {b"photos": "F"}, True),
        (b"/srv", {b"media/photos": "F"}, True),
        (b"/", {b"": "F"}, True),
        (b"/srv/other", {b"photos": "F"}, False),
    ],
)
def test_same_files_match_below_another_root(first, make_second, root, folders, is_twin):
    set_claim(first, root=root, service=ADDRESS, folders=folders, places={})
    claim = make_claim(b"/srv/media", ADDRESS, {b"photos": "F"}, OURS)
    assert bool(list(duplicates_of(claim, neighbours(make_second().ledger_path)))) is is_twin


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://dam/razuna", "https://dam:80/razuna", True),
        ("https://DAM.example.com/razuna/", "https://dam.example.com:443//razuna", True),
        ("https://dam/razuna", "https://dam/razuna2", False),
        ("https://dam/razuna", "https://dam:8443/razuna", False),
        ("https://dam/razuna", "https://staging/razuna", False),
        ("https://dam:nine/", "https://dam:nine/", True),
    ],
)
def test_equal_addresses_match_however_written(one, other, same):
    assert is_same_service(one, other) is same


def test_other_service_has_its_own_folders(first, make_second):
    second = make_second(service={"base_url": "http://127.0.0.1:2/dam"})
    assert go_on(second)


def test_root_named_by_link_is_the_same(first, make_second, tmp_path):
    (tmp_path / "link").symlink_to(first.root)
    assert not go_on(make_second(root=str(tmp_path / "link")))


def test_linked_mapped_folder_is_the_same(first, make_second, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "linked").symlink_to(first.root)
    second = make_second(
        root=str(tmp_path / "tree"),
        folders=[{"path": "linked", "destfolderid": "F1"}],
        watch={"follow_symlinks": True},
    )
    assert not go_on(second)


def test_folder_mounted_twice_is_the_same(first, make_second, tmp_path):
    other = tmp_path / "mounted"
    other.mkdir()
    if subprocess.run(["mount", "--bind", first.root, other], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        assert not go_on(make_second(root=str(other)))
    finally:
        subprocess.run(["umount", other], check=True)


def test_linked_ledger_checks_both_folders(first, make_second, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (first.base / "oslo.db").symlink_to(disk / "oslo.db")
    assert not go_on(make_second())


@pytest.mark.parametrize("claim", ["", "[]", "no json", '{"root": "zz"}', '{"root": "", "folders": {}}'])
def test_ledger_without_claim_is_ignored(first, make_second, claim):
    first.ledger.set_fact(CLAIM, claim)
    first.ledger.set_fact("root", None)
    assert go_on(make_second())


def copy_ledger(first) -> None:
    first.close()
    for suffix in ("", ".epoch"):
        shutil.copyfile(f"{first.ledger_path}{suffix}", f"{first.base / 'copy.db'}{suffix}")


def test_ledger_copy_counts_only_when_running(first):
    copy_ledger(first)
    first.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    assert go_on(first)
    with closing(open_ledger(first.base / "copy.db")):
        first.restart(folders=[{"path": ".", "destfolderid": "F1"}])
        assert not go_on(first)


def test_site_on_ledger_copy_checks_neighbours(first, make_second):
    copy_ledger(first)
    go_on(first)
    second = make_second("copy", site="hq")
    assert not go_on(second)
    assert brakes(second) == ["twin"]


def test_unused_old_ledger_stops_no_site(first, make_second):
    first.ledger.set_fact(CLAIM, None)
    first.close()
    assert go_on(make_second())


def test_site_dead_before_check_is_ignored(first, make_second):
    set_claim(first, state=ClaimState.ASKING)
    first.close()
    assert go_on(make_second())


def test_agreement_counts_on_both_sides(first, make_second):
    second = make_second()
    go_on(second)
    resume(second)
    go_on(second)
    first.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    assert go_on(first)


def test_unreadable_neighbour_is_rechecked(first, make_second):
    first.close()
    whole = first.ledger_path.read_bytes()
    first.ledger_path.write_bytes(b"no database for a moment" * 400)
    second = make_second()
    assert go_on(second)
    assert claim_of(second).state is ClaimState.BLIND
    first.ledger_path.write_bytes(whole)
    assert not go_on(second)


def test_site_beside_unreadable_ledger_counts(first, make_second):
    set_claim(first, state=ClaimState.BLIND)
    assert not go_on(make_second())


def test_site_that_has_passed_checks_no_other(first, make_second):
    second = make_second()
    go_on(second)
    set_claim(second, state=ClaimState.ACTIVE)
    first.restart()
    assert go_on(first)
    assert brakes(first) == []


def test_what_is_no_ledger_has_no_claim(first, make_second):
    for name, content in (("text.db", b"no ledger"), ("empty.db", b"")):
        (first.base / name).write_bytes(content)
        (first.base / f"{name}.epoch").write_text("1")
    (first.base / "gone.db.epoch").write_text("1")
    (first.base / "folder.db").mkdir()
    (first.base / "folder.db.epoch").write_text("1")
    found = {neighbour.ledger.name: neighbour.claim for neighbour in neighbours(make_second().ledger_path)}
    assert found == {"empty.db": None, "ledger.db": claim_of(first), "text.db": None}
    assert sorted(path.name for path in first.base.glob("*.db-*")) == ["ledger.db-shm", "ledger.db-wal"]


def test_shared_folder_list_is_short(first, make_second):
    many = {b"%d" % number: f"{number}" for number in range(2000)}
    set_claim(first, folders=many)
    claim = make_claim(bytes(first.root), ADDRESS, many, OURS)
    (twin,) = duplicates_of(claim, neighbours(make_second().ledger_path))
    assert len(twin.shared) == 2000
    assert "and 1,997 more" in str(twin)


def test_recorded_form_is_that_of_all_releases():
    """A site waits for the claims of another release only if each reads the other's."""
    text = (
        '{"root": "2f73", "service": "http://dam", "folders": {"61": "F"}, "places": {"61": ["2f732f61", 7, 9]},'
        ' "ledger": "0f", "path": "/l.db", "state": "waiting"}'
    )
    places = {b"a": (b"/s/a", 7, 9)}
    claim = Claim(b"/s", "http://dam", {b"a": "F"}, places, "0f", "/l.db", ClaimState.WAITING)
    assert (read_claim(text), claim.text()) == (claim, text)
