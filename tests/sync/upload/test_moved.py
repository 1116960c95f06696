"""Assets that somebody moves in the service: whatever becomes of their files and mappings then, none is sent again."""

import os
import random
from collections import deque
from contextlib import suppress

import pytest

from assetsync.errors import RootMissing
from assetsync.ledger.equal_content import EqualContent
from assetsync.model import State
from assetsync.reconcile.report import dry_run
from assetsync.sync.requests.decisions import Resolve
from assetsync.sync.requests.retry import Retry
from tests.slices import skip_outside

P, Q = {"path": "p", "destfolderid": "F1"}, {"path": "q", "destfolderid": "F2"}
P_TO_F2 = {"path": "p", "destfolderid": "F2"}


@pytest.fixture
def moved(make_world):
    """Make a world whose `p/0` and `p/1` were moved from F1 to F2 in the service, where `q/2` lies."""

    def make(*, audited: bool = True):
        world = make_world(folders=[P, Q])
        for name in ("p/0", "p/1", "q/2"):
            world.write(name, f"content of {name}".encode())
        live(world)
        assert set(world.states().values()) == {State.VERIFIED}
        for name in ("p/0", "p/1"):
            world.service.assets[world.row(name).assetid].folder = "F2"
        world.clock.advance(60)
        if audited:
            for folder in ("F1", "F2"):
                world.site.auditor.audit(folder)
        return world

    return make


def live(world, seconds: float = 10.0, *, resumed: bool = False) -> None:
    """Scan and send; where a person has `resumed`, scan once more. Nothing is sent under a brake."""
    world.scan()
    if resumed:
        world.ledger.resume(None, world.clock.now())
        world.scan()
    if not world.site.brakes.pulled():
        world.live(seconds)


def expect_nothing_sent_again(world) -> None:
    assert sorted(world.posted()) == ["0", "1", "2"]
    assert set(world.states().values()) == {State.VERIFIED}
    while world.site.drift.step():
        pass
    assert {row.path: row.drift for row in world.ledger.metadata_drift.drifted()} == {}
    assert {row.destfolderid for row in world.ledger.reports.files()} == {"F2"}


@pytest.mark.parametrize("audited", [True, False], ids=["audited", "unknown"])
@pytest.mark.parametrize("touched", [True, False], ids=["touched", "as it was"])
def test_a_mapping_that_follows_its_assets(moved, touched, audited):
    world = moved(audited=audited)
    if touched:
        world.write("p/0", b"content of p/0")
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    expect_nothing_sent_again(world)


def test_first_release_start_follows_assets(moved):
    world = moved(audited=False)
    # Older releases did not keep it.
    world.ledger.set_fact("mappings_listed", None)
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    expect_nothing_sent_again(world)


def test_requested_listing_is_made_again(moved):
    world = moved()
    contact = world.site.folder_listing

    def listings() -> int:
        return sum(request.searchfor == "%" and request.folderid == "F2" for request in world.service.searches)

    contact.ensure("F2")
    before = listings()
    contact.ensure("F2")
    assert listings() == before
    world.ledger.folder_listings.again("F2")
    contact.ensure("F2")
    assert listings() > before


@pytest.mark.parametrize("audited", [True, False], ids=["audited", "unknown"])
@pytest.mark.parametrize("touched", [True, False], ids=["touched", "as it was"])
def test_restored_mapping_follows_its_assets(moved, touched, audited):
    world = moved(audited=audited)
    world.restart(folders=[Q])
    live(world)
    if touched:
        world.write("p/0", b"content of p/0")
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    expect_nothing_sent_again(world)


def test_restored_mapping_follows_after_audit(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.clock.advance(60)
    world.site.auditor.audit("F2")
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    expect_nothing_sent_again(world)


def test_files_follow_assets_to_other_folder(moved):
    world = moved()
    for name in "01":
        (world.root / "p" / name).rename(world.root / "q" / name)
    live(world, resumed=True)
    expect_nothing_sent_again(world)


def test_only_possible_equals_are_read(moved):
    world = moved()
    sizes = {row.size for row in world.ledger.reports.files()}
    alike = EqualContent(world.ledger.store)
    assert sizes == {14}
    assert alike.has_size(0, "F2", 14)
    assert not alike.has_size(0, "F3", 14)
    assert not alike.has_size(0, "F2", 15)


def test_copy_of_moved_file_is_its_own_file(moved):
    world = moved()
    world.write("q/copy", b"content of p/0")
    live(world)
    assert sorted(world.posted()) == ["0", "1", "2", "copy"]


def test_redirected_mapping_pulls_the_brake(moved):
    world = moved(audited=False)
    world.write("p/gone", b"gone by then")
    live(world)
    world.restart(folders=[Q])
    live(world)
    (world.root / "p" / "gone").unlink()
    world.restart(folders=[{"path": "p", "destfolderid": "F3"}, Q])
    live(world)
    assert [(brake.kind, brake.subject, brake.amount) for brake in world.ledger.reports.brakes()] == [
        ("takeover", "p → F3", 2)
    ]
    assert len(world.posted()) == 4
    live(world, resumed=True)
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2", "gone"]


def test_mapping_to_known_assets_pulls_no_brake(moved):
    world = moved()
    world.restart(folders=[P_TO_F2, Q])
    live(world)
    assert not world.site.brakes.pulled()
    expect_nothing_sent_again(world)


def test_unignored_file_reports_missed_drift(make_world):
    world = make_world(folders=[P, Q])
    world.write("p/0")
    live(world)
    world.restart(ignore=["0"])
    live(world)
    world.write("p/0.yaml", b"title: said while it was ignored")
    live(world)
    assert world.states() == {}
    world.restart(ignore=[])
    live(world)
    while world.site.drift.step():
        pass
    assert [row.path for row in world.ledger.metadata_drift.drifted()] == [b"p/0"]


class Wandering:
    """Files that are edited, put back and renamed below mappings that change, while people move their assets.

    Answers are lost and the process dies meanwhile. Each content is one file's alone: nothing may be sent to a folder
    of the service that holds an asset of it.
    """

    versions = 3

    def __init__(self, world, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.places = {"0": "p", "1": "p", "2": "q"}
        self.mapped: dict[str, str | None] = {"p": "F1", "q": "F2"}
        self.trace: list[str] = []
        for name in self.places:
            self.write(name)
        world.service.before_upload = self.check

    def write(self, name: str) -> None:
        version = self.rng.randrange(self.versions)
        self.trace.append(f"write {name} {version}")
        self.world.write(f"{self.places[name]}/{name}", b"%s in version %d" % (name.encode(), version))

    def check(self, request) -> None:
        content = (self.world.root / self.places[request.filename] / request.filename).read_bytes()
        there = [
            asset.id
            for asset in self.world.service.assets.values()
            if asset.folder == request.destfolderid and asset.content == content
        ]
        assert not there, f"{request.filename} is {there} in {request.destfolderid}: {self.trace}"

    def disturb(self) -> None:
        faults = self.rng.choices(("lost_after", "lost_after", "unreachable"), k=self.rng.choice((0, 0, 1, 2)))
        # After a few of these in a row a person would be asked.
        faults += ["lost_before"] * (self.trace.count("lost_before") < 3 and self.rng.random() < 0.3)
        self.world.service.script = deque(faults)
        self.trace += faults
        if self.rng.random() < 0.2:
            self.trace.append("restart")
            self.world.restart()

    def step(self) -> None:
        self.disturb()
        name = self.rng.choice(sorted(self.places))
        match self.rng.choice(("write", "rename", "map", "map", "move", "move", "move")):
            case "write":
                self.write(name)
            case "rename":
                place = self.rng.choice("pq")
                self.trace.append(f"rename {name} to {place}")
                (self.world.root / self.places[name] / name).rename(self.world.root / place / name)
                self.places[name] = place
            case "map":
                place = self.rng.choice("pq")
                self.mapped[place] = self.rng.choice(("F1", "F2", "F3", None))
                self.trace.append(f"map {place} to {self.mapped[place]}")
                # One is needed.
                folders = [{"path": path, "destfolderid": to} for path, to in self.mapped.items() if to]
                self.world.restart(folders=[*folders, {"path": "r", "destfolderid": "F4"}])
            case "move":
                # Of one that was never read back a person is asked, wherever it lies.
                rows = self.world.ledger.reports.files(history=True)
                known = sorted(row.assetid for row in rows if row.verified_at is not None and row.assetid is not None)
                asset = self.world.service.assets[self.rng.choice(known)]
                asset.folder = self.rng.choice(("F1", "F2", "F3", "F5"))
                self.trace.append(f"move {asset.id[-2:]} {asset.content!r} to {asset.folder}")
                self.audit()
        # Longer than the grace of a doubt.
        live(self.world, 45.0, resumed=True)

    def audit(self) -> None:
        self.world.clock.advance(60)
        for folder in sorted({folder for folder in self.mapped.values() if folder}):
            self.world.site.auditor.audit(folder)


@pytest.mark.parametrize("seed", range(12))
def test_moved_asset_causes_no_upload(make_world, seed, request):
    skip_outside(seed, range(12), 3, request)
    for run in range(40 if request.config.getoption("--long") else 1):
        world = make_world(folders=[P, Q])
        (world.root / "q").mkdir()
        (world.root / "p").mkdir()
        (world.root / "r").mkdir()
        wandering = Wandering(world, 1000 * seed + run)
        live(world)
        for _ in range(15):
            wandering.step()
        world.service.script.clear()
        live(world, 120.0, resumed=True)
        left = [(row.path, row.detail) for row in world.ledger.reports.files() if row.state is not State.VERIFIED]
        assert not left, wandering.trace
        world.close()


class Sorting(Wandering):
    """Files that are edited and put back, while people sort what has just come in: also what is in doubt.

    The mappings stay, and so nothing may be sent of which the service holds an asset anywhere.
    """

    versions = 9

    def check(self, request) -> None:
        content = (self.world.root / self.places[request.filename] / request.filename).read_bytes()
        there = [(asset.id, asset.folder) for asset in self.world.service.assets.values() if asset.content == content]
        assert not there, f"{request.filename} is {there}: {self.trace}"

    def step(self) -> None:
        self.disturb()
        match self.rng.choice(("write", "write", "sort", "audit")):
            case "write":
                self.write(self.rng.choice(sorted(self.places)))
                self.world.scan_and_send()
                # What has just come in is what people look at.
                self.sort(self.rng.choice((0, 1)), newest=True)
            case "sort":
                self.sort(2)
            case "audit":
                self.audit()
        # Shorter than the grace of a doubt, or longer.
        live(self.world, self.rng.choice((2.0, 10.0, 45.0)), resumed=True)

    def sort(self, count: int, *, newest: bool = False) -> None:
        assets = sorted(self.world.service.assets.values(), key=lambda asset: asset.id)
        for asset in assets[-count:] if newest and count else self.rng.sample(assets, count):
            asset.folder = self.rng.choice(("F1", "F2", "F3", "F5"))
            self.trace.append(f"move {asset.id[-2:]} {asset.content!r} to {asset.folder}")

    def answer_for_a_person(self) -> None:
        """Say of each file that is asked about which asset is it, or that it may lie where it does."""
        for row in self.world.ledger.reports.files(State.BLOCKED):
            content = (self.world.root / os.fsdecode(row.path)).read_bytes()
            (asset,) = (asset for asset in self.world.service.assets.values() if asset.content == content)
            self.world.ask(Resolve(row.path, asset.id) if row.assetid is None else Retry((row.path,)))


@pytest.mark.parametrize("seed", range(12))
def test_sorting_during_upload_resends_nothing(make_world, seed, request):
    skip_outside(seed, range(12), 3, request)
    for run in range(40 if request.config.getoption("--long") else 1):
        world = make_world(folders=[P, Q])
        (world.root / "q").mkdir()
        (world.root / "p").mkdir()
        sorting = Sorting(world, 1000 * seed + run)
        live(world)
        for _ in range(15):
            sorting.step()
        world.service.script.clear()
        for _ in range(3):
            live(world, 120.0, resumed=True)
            sorting.answer_for_a_person()
        left = [(row.path, row.detail) for row in world.ledger.reports.files() if row.state is not State.VERIFIED]
        assert not left, sorting.trace
        world.close()


def test_displaced_asset_is_not_adopted(moved):
    world = moved(audited=False)
    # When F2 is listed, the rows are history already, and new versions are queued in their place.
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    for name in ("p/0", "p/1"):
        world.service.assets[world.row(name).assetid].folder = "F3"
    world.clock.advance(60)
    world.site.auditor.audit("F2")
    world.restart(folders=[{"path": "p", "destfolderid": "F3"}, Q])
    live(world, resumed=True)
    world.restart(folders=[P_TO_F2, Q])
    live(world, resumed=True)
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2"]
    assert set(world.states().values()) == {State.VERIFIED}


P_TO_F3 = {"path": "p", "destfolderid": "F3"}


def expect_a_brake_for_files_that_come_back(world) -> None:
    assert [(brake.kind, brake.subject) for brake in world.ledger.reports.brakes()] == [("takeover", "p → F3")]
    assert sorted(world.posted()) == ["0", "1", "2"]


@pytest.mark.parametrize("away", [".", "p"])
def test_late_mounted_disk_hides_no_takeover(moved, away):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    folder = world.root if away == "." else world.root / "p"
    folder.rename(world.base / "unmounted")
    world.restart(folders=[P_TO_F3, Q])
    with suppress(RootMissing):
        world.scan()
    (world.base / "unmounted").rename(folder)
    live(world)
    expect_a_brake_for_files_that_come_back(world)


def test_unignored_files_pull_takeover_brake(moved):
    world = moved(audited=False)
    world.restart(ignore=["0", "1"])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    world.ledger.resume(None, world.clock.now())
    world.clock.advance(8 * 86_400)
    world.restart(ignore=[])
    live(world)
    expect_a_brake_for_files_that_come_back(world)


def test_hinted_returning_file_waits_for_scan(moved):
    world = moved(audited=False)
    world.restart(ignore=["0", "1"])
    live(world)
    world.restart(folders=[P_TO_F3, Q], ignore=[])
    world.site.brakes.check_mappings()
    assert world.hint("p/0") == 0
    assert "p/0" not in world.states()
    live(world)
    expect_a_brake_for_files_that_come_back(world)


@pytest.mark.parametrize("kept", ["nothing", "the size", "the time"])
def test_edited_returning_file_pulls_no_brake(moved, kept):
    """Files of an unmapped folder were edited before it is mapped again: they are new versions."""
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    for name in "01":
        before = (world.root / "p" / name).stat()
        content = b"%-14s" % name.encode() if kept == "the size" else b"edited since, %s" % name.encode()
        world.write(f"p/{name}", content)
        moment = before.st_mtime_ns + (10**9 if kept != "the time" else 0)
        os.utime(world.root / "p" / name, ns=(moment, moment))
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    assert not world.site.brakes.pulled()
    world.clock.advance(8 * 86_400)
    world.restart(folders=[P_TO_F3, Q, {"path": "r", "destfolderid": "F4"}])
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2"]


def test_corrected_mapping_lifts_the_brake(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    expect_a_brake_for_files_that_come_back(world)
    world.restart(folders=[P, Q])
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "1", "2"]
    assert set(world.states().values()) == {State.VERIFIED}


def test_file_follows_unverified_moved_asset(make_world):
    world = make_world(folders=[P, Q])
    world.service.index_lag = None
    world.write("p/3", b"three")
    world.write("q/2", b"two")
    live(world)
    asset = world.service.assets[world.row("p/3").assetid]
    asset.folder, asset.indexed_at = "F2", world.clock.now()
    world.live(120)
    assert world.row("p/3").state is State.BLOCKED
    (world.root / "p" / "3").rename(world.root / "q" / "3")
    live(world, resumed=True)
    assert sorted(world.posted()) == ["2", "3"]
    world.ledger.decisions.retry(world.row("q/3"), world.clock.now())
    world.live(120)
    assert world.row("q/3").state is State.VERIFIED


def test_agreed_folder_ends_with_the_mapping(moved):
    world = moved()
    world.site.drift.step()
    assert world.ledger.metadata_drift.settle(list(world.ledger.metadata_drift.drifted())) == 2
    assert world.row("p/0").agreed_folder == "F2"
    for name in "01":
        (world.root / "p" / name).rename(world.root / "q" / name)
    live(world, resumed=True)
    assert world.row("q/0").agreed_folder is None
    expect_nothing_sent_again(world)


def test_replaced_moved_asset_is_adopted(make_world):
    world = make_world(folders=[P, Q])
    world.write("p/0", b"first")
    world.write("q/2", b"two")
    live(world)
    (first,) = (asset for asset in world.service.assets.values() if asset.content == b"first")
    world.write("p/0", b"second one")
    live(world)
    first.folder = "F2"
    world.clock.advance(60)
    world.site.auditor.audit("F2")
    world.write("q/again", b"first")
    live(world)
    assert world.row("q/again").assetid == first.id
    assert sorted(world.posted()) == ["0", "0", "2"]


@pytest.mark.parametrize("how", ["unmapped", "renamed"])
def test_unverified_moved_asset_is_listed(make_world, how):
    """An asset is moved in the service before it was verified, and its file follows; no upload results."""
    world = make_world(folders=[P, Q])
    world.write("q/2", b"two")
    live(world)
    world.service.index_lag = None
    world.write("p/3", b"three")
    live(world)
    assert world.row("p/3").state is State.STORED
    if how == "unmapped":
        world.restart(folders=[Q])
        live(world)
    (asset,) = (asset for asset in world.service.assets.values() if asset.content == b"three")
    asset.folder = "F2"
    world.clock.advance(60)
    if how == "unmapped":
        world.restart(folders=[P_TO_F2, Q])
    else:
        for folder in ("F1", "F2"):
            world.site.auditor.audit(folder)
        (world.root / "p" / "3").rename(world.root / "q" / "3")
    live(world, resumed=True)
    assert sorted(world.posted()) == ["2", "3"]


def test_partial_release_covers_no_rest(moved):
    world = moved(audited=False)
    world.write("p/3", b"content of p/3")
    live(world)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q], ignore=["3"])
    world.scan()
    world.restart(ignore=[])
    world.scan()
    world.ledger.resume(None, world.clock.now())
    for _ in range(3):
        live(world)
        assert [(brake.kind, brake.amount) for brake in world.ledger.reports.brakes()] == [("takeover", 3)]
    live(world, resumed=True)
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2", "3", "3"]


def test_release_ends_with_its_mapping(moved):
    world = moved(audited=False)
    for _ in range(2):
        world.restart(folders=[Q])
        live(world)
        world.restart(folders=[P_TO_F3, Q])
        live(world)
        expect_a_brake_for_files_that_come_back(world)
        world.restart(folders=[P, Q])
        world.ledger.resume(None, world.clock.now())
        live(world)


def test_restored_file_at_asset_is_no_takeover(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world, resumed=True)
    world.clock.advance(8 * 86_400)
    kept = world.base / "kept"
    (world.root / "p" / "0").rename(kept)
    live(world)
    kept.rename(world.root / "p" / "0")
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2"]


def test_dry_run_reports_the_takeover_brake(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    report = dry_run(world.site)
    assert not report.in_sync
    (reason,) = report.would_brake
    assert "2 files sent to another folder" in reason
    live(world)
    world.ledger.resume(None, world.clock.now())
    assert dry_run(world.site).would_brake == ()


def test_released_mapping_is_not_asked_again(moved):
    world = moved(audited=False)
    world.restart(folders=[{"path": "r", "destfolderid": "F4"}])
    live(world)
    world.restart(folders=[P_TO_F3, {"path": "q", "destfolderid": "F3"}])
    live(world)
    one, other = world.ledger.reports.brakes()
    assert {one.subject, other.subject} == {"p → F3", "q → F3"}
    world.ledger.resume(one.id, world.clock.now())
    for _ in range(2):
        live(world)
        assert [brake.subject for brake in world.ledger.reports.brakes()] == [other.subject]
    assert sorted(world.posted()) == ["0", "1", "2"]


def test_nested_mapping_has_its_own_brake(make_world):
    world = make_world(folders=[P, {"path": "p/sub", "destfolderid": "F2"}])
    world.write("p/0", b"zero")
    world.write("p/sub/1", b"one")
    live(world)
    world.restart(folders=[P_TO_F3])
    live(world)
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["destfolderid"]
    world.service.assets[world.row("p/0").assetid].folder = "F3"
    world.clock.advance(60)
    world.site.auditor.audit("F3")
    live(world)
    assert [(brake.kind, brake.amount) for brake in world.ledger.reports.brakes()] == [("takeover", 1)]
    assert sorted(world.posted()) == ["0", "1"]


def test_hints_use_up_no_smaller_release(moved):
    world = moved(audited=False)
    world.write("p/3", b"content of p/3")
    live(world)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q], ignore=["1", "3"])
    live(world, resumed=True)
    assert sorted(world.posted()) == ["0", "0", "1", "2", "3"]
    world.restart(ignore=[])
    world.site.brakes.check_mappings()
    assert [world.hint("p/1"), world.hint("p/3")] == [0, 0]
    live(world)
    assert [(brake.kind, brake.amount) for brake in world.ledger.reports.brakes()] == [("takeover", 2)]
    assert sorted(world.posted()) == ["0", "0", "1", "2", "3"]


def test_early_look_leaves_files_to_the_scan(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    assert world.site.intake.look(b"p/0") == 0
    live(world, resumed=True)
    assert sorted(world.posted()) == ["0", "0", "1", "1", "2"]


def test_file_reverted_to_old_state_is_sent(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    (world.root / "p" / "1").unlink()
    kept = (world.root / "p" / "0").rename(world.base / "kept")
    world.write("p/0", b"edited")
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    assert sorted(world.posted()) == ["0", "0", "1", "2"]
    kept.rename(world.root / "p" / "0")
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "0", "0", "1", "2"]


def test_stopped_scan_lifts_no_takeover_brake(moved):
    world = moved(audited=False)
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    (brake,) = world.ledger.reports.brakes()
    world.clock.stopped = True
    assert not world.scan().report.complete
    world.clock.stopped = False
    assert world.ledger.reports.brakes() == [brake]


def test_takeover_skips_blocked_unsent_files(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1"}])
    world.write("d/empty", b"")
    world.write("e/empty", b"")
    world.write("e/0", b"zero")
    live(world)
    world.service.assets[world.row("e/0").assetid].content = b"ZERO"
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert set(world.states().values()) == {State.BLOCKED}
    world.restart(folders=[{"path": ".", "destfolderid": "F1"}, *({"path": p, "destfolderid": "F9"} for p in "de")])
    live(world)
    assert [(brake.subject, brake.amount) for brake in world.ledger.reports.brakes()] == [("e → F9", 1)]


@pytest.mark.parametrize("state", [State.STORED, State.BLOCKED])
def test_takeover_brake_ignores_asset_state(make_world, state):
    """Assets to take over count toward the brake, whether they are stored or blocked."""
    world = make_world(folders=[P, Q])
    world.service.index_lag = None
    world.write("p/0", b"zero")
    live(world)
    if state is State.BLOCKED:
        world.service.assets[world.row("p/0").assetid].content = b"ZERO"
        world.clock.advance(60)
        world.site.auditor.audit("F1")
    assert world.row("p/0").state is state
    (world.root / "q").mkdir()
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    assert [(brake.subject, brake.amount) for brake in world.ledger.reports.brakes()] == [("p → F3", 1)]
    assert world.posted() == ["0"]


@pytest.mark.parametrize("to", ["F1", "F2"], ids=["where they were sent", "where they lie"])
def test_files_returning_to_assets_are_unsent(moved, to):
    world = moved()
    world.restart(folders=[Q])
    live(world)
    world.restart(folders=[{"path": "p", "destfolderid": to}, Q])
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "1", "2"]


def test_unsent_returning_files_pull_no_brake(moved):
    world = moved(audited=False)
    world.write("p/new", b"never sent")
    world.scan()
    assert world.row("p/new").state is State.QUEUED
    world.restart(folders=[Q])
    live(world)
    for name in "01":
        (world.root / "p" / name).unlink()
    world.restart(folders=[P_TO_F3, Q])
    live(world)
    assert not world.site.brakes.pulled()
    assert sorted(world.posted()) == ["0", "1", "2", "new"]


def test_restored_gone_file_is_no_takeover(moved):
    world = moved(audited=False)
    kept = (world.root / "p" / "0").rename(world.base / "kept")
    live(world)
    world.restart(folders=[P_TO_F3])
    live(world, resumed=True)
    world.clock.advance(8 * 86_400)
    kept.rename(world.root / "p" / "0")
    live(world)
    assert not world.site.brakes.pulled()
    assert world.row("p/0").state is State.VERIFIED


def test_agreed_folder_survives_a_rename(moved):
    world = moved()
    world.site.drift.step()
    assert world.ledger.metadata_drift.settle(list(world.ledger.metadata_drift.drifted())) == 2
    (world.root / "p" / "0").rename(world.root / "p" / "renamed")
    live(world)
    while world.site.drift.step():
        pass
    assert world.row("p/renamed").agreed_folder == "F2"
    assert list(world.ledger.metadata_drift.drifted()) == []
    assert sorted(world.posted()) == ["0", "1", "2"]
