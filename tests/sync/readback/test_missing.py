"""What an audit does not meet is looked for in every way, and called missing only where it is nowhere."""

from dataclasses import replace

import pytest

from assetsync.errors import BadAnswer
from assetsync.ledger.audits import RunningAudit, Unmet, begin
from assetsync.model import State
from assetsync.sync.readback import missing
from assetsync.sync.requests.decisions import Resume
from tests.sync.readback.test_auditor import FOLDER, audit, mirrored
from tests.sync.readback.test_drift import drift

__all__ = ["mirrored"]

BLOCKED, VERIFIED = State.BLOCKED, State.VERIFIED


def asset_of(world, path: str):
    return world.service.assets[world.row(path).assetid]


def audit_again(world):
    world.clock.advance(60)
    return audit(world)


@pytest.mark.parametrize("policy", ["upload", "report"])
def test_empty_service_has_no_missing_assets(make_world, policy):
    """A service that shows none of the site's assets proves nothing; one emptied folder beside shown ones does."""
    # As of a key that has lost a right: each folder alone holds too few for a brake.
    folders = [{"path": f"d{number}", "destfolderid": f"F{number}"} for number in range(3)]
    world = make_world(folders=folders, policy={"on_remote_missing": policy})
    for number in range(3):
        for name in "abcde":
            world.write(f"d{number}/{name}.jpg", f"{number} {name}".encode())
    world.scan_and_send()
    world.live(130)
    matches = world.service._matches
    world.service._matches = lambda _asset, _request: False
    for number in range(3):
        with pytest.raises(BadAnswer, match="shows nothing of ours"):
            world.site.auditor.audit(f"F{number}")
    world.service._matches = matches
    world.live(60)
    assert (set(world.states().values()), len(world.posted())) == ({VERIFIED}, 15)
    # What is really gone from one of the folders is missing: the others are shown.
    for name in "abcde":
        del world.service.assets[world.row(f"d0/{name}.jpg").assetid]
    assert world.site.auditor.audit("F0").missing == 5


@pytest.mark.parametrize("order", [("LARGE", "SMALL"), ("SMALL", "LARGE")])
def test_small_folder_waits_with_the_braked_one(make_world, order):
    """A service that lost one folder may have lost more: assets of a small folder are not missing yet."""
    folders = [{"path": name, "destfolderid": name.upper()} for name in ("large", "small")]
    world = make_world(folders=folders)
    for path in (*(f"large/{number}" for number in range(12)), "small/1", "small/2"):
        world.write(path, path.encode())
    world.scan_and_send()
    world.live(130)
    world.service.assets.clear()
    # What is sent meanwhile is shown, so that the service does not look empty.
    world.write("large/new", b"new")
    world.scan_and_send()
    world.live(130)
    assert [world.site.auditor.audit(folder).braked for folder in order] == [True, True]
    assert [brake.subject for brake in world.ledger.reports.brakes()] == [*order]
    assert set(world.states().values()) == {VERIFIED}
    world.ledger.resume(None, world.clock.now())
    world.clock.advance(60)
    assert sum(world.site.auditor.audit(folder).missing for folder in order) == 14


def test_full_resend_waits_for_a_person(mirrored):
    world = mirrored(policy={"on_remote_missing": "upload"})
    world.service.assets.clear()
    assert audit(world) == {"braked": True}
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["missing"]
    world.ledger.resume(None, world.clock.now())
    assert audit_again(world)["missing"] == 3


@pytest.mark.parametrize("how", ["never indexed", "indexed anew"])
@pytest.mark.parametrize("policy", ["upload", "report"])
def test_moved_unindexed_asset_is_not_missing(make_world, how, policy):
    world = make_world(policy={"on_remote_missing": policy, "verified_when": "stored"})
    if how == "never indexed":
        world.service.index_lag = None
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    asset = asset_of(world, "a.jpg")
    asset.folder = "ARCHIVE"
    asset.indexed_at = world.clock.now() + 120
    assert audit(world) == {"elsewhere": 1}
    world.live(300)
    assert (world.row("a.jpg").state, world.row("a.jpg").asset_folder) == (VERIFIED, "ARCHIVE")
    assert len(world.service.posts) == 1


def test_renamed_file_is_searched_by_sent_name(mirrored):
    world = mirrored()
    world.service.index_lag = None
    (world.root / "1").rename(world.root / "another name")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    asset = asset_of(world, "another name")
    asset.folder, asset.indexed_at = "ARCHIVE", world.clock.now() + 1e6
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}


@pytest.mark.parametrize("policy", ["upload", "report"])
def test_reprocessed_asset_is_not_missing(mirrored, policy):
    world = mirrored(policy={"on_remote_missing": policy})
    matches = world.service._matches
    world.service._matches = lambda asset, request: (
        (asset.processed_at <= world.clock.now()) == (request.available != "0") and matches(asset, request)
    )
    asset = asset_of(world, "1")
    asset.processed_at = asset.indexed_at = world.clock.now() + 600
    assert audit(world) == {"assets": 2, "fine": 2}
    assert (world.row("1").state, len(world.service.posts)) == (VERIFIED, 3)


@pytest.mark.parametrize("is_settled", [True, False])
@pytest.mark.parametrize("then", ["deleted", "replaced", "moved on"])
def test_asset_outside_mappings_is_audited(mirrored, then, is_settled):
    """An asset was moved into a folder without a mapping; audits still find it deleted, replaced or moved again."""
    world = mirrored()
    asset = asset_of(world, "1")
    asset.folder = "ARCHIVE"
    audit(world)
    drift(world)
    if is_settled:
        assert world.ledger.metadata_drift.settle([world.row("1")]) == 1
    assert audit_again(world) == {"assets": 2, "fine": 2} | ({} if is_settled else {"elsewhere": 1})
    if then == "deleted":
        del world.service.assets[asset.id]
        assert audit_again(world) == {"assets": 2, "fine": 2, "missing": 1}
        assert (world.row("1").state, world.row("1").reason) == (BLOCKED, "missing")
    elif then == "replaced":
        asset.content = b"their new version"
        assert audit_again(world) == {"assets": 2, "fine": 2, "different": 1}
        assert (world.row("1").state, world.row("1").reason) == (BLOCKED, "different")
    else:
        asset.folder = "ARCHIVE2"
        assert audit_again(world) == {"assets": 2, "fine": 2, "elsewhere": 1}
        assert drift(world) == {b"1": "it lies in another folder of the service: ARCHIVE2"}


def test_asset_in_other_folder_is_audited_there(make_world):
    world = make_world(folders=[{"path": "p", "destfolderid": "F1"}, {"path": "q", "destfolderid": "F2"}])
    world.write("p/a", b"content A")
    world.write("q/b", b"content B")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    asset = asset_of(world, "p/a")
    asset.folder = "F2"
    audit(world)
    del world.service.assets[asset.id]
    assert audit_again(world) == {}
    assert world.site.auditor.audit("F2").missing == 1


@pytest.mark.parametrize("at_most", [200, 3])
def test_many_lookups_become_one_listing(mirrored, monkeypatch, at_most):
    monkeypatch.setattr(missing, "_BY_NAME_AT_MOST", at_most)
    world = mirrored(9)
    world.service.index_lag = None
    for number in range(5):
        asset = asset_of(world, f"{number}")
        asset.folder, asset.indexed_at = "ARCHIVE", world.clock.now() + 1e6
    asset.content = b"their new version"
    del world.service.assets[world.row("5").assetid]
    world.service.searches.clear()
    assert audit(world) == {"assets": 3, "fine": 3, "elsewhere": 4, "different": 1, "missing": 1}
    everywhere = [request.searchfor for request in world.service.searches if request.dbdirect and not request.folderid]
    assert sorted(set(everywhere)) == (["%"] if at_most == 3 else [f"{number}" for number in range(6)])
    # What is being processed is asked for as well.
    assert len(everywhere) == 2 * len(set(everywhere))


def test_renamed_moved_asset_is_not_resent(mirrored):
    world = mirrored(policy={"on_remote_missing": "upload"})
    asset = asset_of(world, "1")
    asset.folder, asset.name, asset.indexed_at = "ARCHIVE", "Harbour at dawn.jpg", world.clock.now() + 1e6
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}


@pytest.mark.parametrize("policy", ["upload", "report"])
def test_moved_reprocessed_asset_is_not_lost(mirrored, policy):
    world = mirrored(policy={"on_remote_missing": policy})
    matches = world.service._matches
    world.service._matches = lambda asset, request: (
        (asset.processed_at <= world.clock.now()) == (request.available != "0") and matches(asset, request)
    )
    asset = asset_of(world, "1")
    asset.folder = "ARCHIVE"
    audit(world)
    world.clock.advance(60)
    asset.processed_at = asset.indexed_at = world.clock.now() + 600
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}
    assert world.row("1").state is VERIFIED


def test_release_for_few_covers_no_more(mirrored):
    world = mirrored(60)
    for number in range(40):
        asset_of(world, f"{number}").folder = "ARCHIVE"
    audit(world)
    world.ledger.resume(None, world.clock.now())
    audit_again(world)
    for number in range(40, 52):
        del world.service.assets[world.row(f"{number}").assetid]
    assert audit_again(world)["braked"]
    world.ledger.resume(None, world.clock.now())
    for number in range(40):
        del world.service.assets[world.row(f"{number}").assetid]
    assert audit_again(world)["braked"]
    assert State.BLOCKED not in world.states().values()
    (brake,) = world.ledger.reports.brakes()
    assert "52 of 60 assets are missing in folder F1 of the service, or where they were moved from it" in brake.detail


def test_moved_renamed_asset_is_found_by_id(mirrored):
    world = mirrored()
    asset = asset_of(world, "1")
    asset.folder, asset.name = "ARCHIVE", "Harbour at dawn.jpg"
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}


def test_unprocessed_counts_in_own_folder_only(mirrored):
    world = mirrored()
    matches = world.service._matches
    # A release that does not know the parameter.
    world.service._matches = lambda asset, request: request.available == "0" or matches(asset, request)
    asset_of(world, "1").folder = "ARCHIVE"
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}


def test_mass_loss_in_unmapped_folder_brakes(mirrored):
    world = mirrored(20)
    for number in range(15):
        asset_of(world, f"{number}").folder = "ARCHIVE"
    audit(world)
    world.ledger.resume(None, world.clock.now())
    audit_again(world)
    for number in range(15):
        del world.service.assets[world.row(f"{number}").assetid]
    assert audit_again(world) == {"assets": 5, "fine": 5, "braked": True}
    assert set(world.states().values()) == {VERIFIED}
    world.ledger.resume(None, world.clock.now())
    assert audit_again(world) == {"assets": 5, "fine": 5, "missing": 15}


def gone_and_back(world, count: int) -> dict:
    assets = {world.row(f"{number}").assetid for number in range(count)}
    return {assetid: world.service.assets.pop(assetid) for assetid in assets}


def test_release_after_return_covers_no_later(mirrored):
    world = mirrored(31, policy={"on_remote_missing": "upload"})
    kept = gone_and_back(world, 30)
    assert audit(world)["braked"]
    world.service.assets |= kept
    world.ledger.resume(None, world.clock.now())
    assert audit_again(world) == {"assets": 31, "fine": 31}
    world.clock.advance(5 * 86400)
    kept = gone_and_back(world, 30)
    assert audit(world)["braked"]
    assert len(world.service.posts) == 31


def test_a_word_that_was_used_is_used_up(mirrored):
    world = mirrored(62)
    gone_and_back(world, 30)
    assert audit(world)["braked"]
    world.ledger.resume(None, world.clock.now())
    assert audit_again(world)["missing"] == 30
    for number in range(30, 60):
        del world.service.assets[world.row(f"{number}").assetid]
    assert audit_again(world)["braked"]


def test_audit_brake_release_requests_audit(mirrored):
    world = mirrored(31)
    gone_and_back(world, 30)
    audit(world)
    world.clock.wait(1.0)
    world.ledger.pull_brake("vanished", "site", "so many are gone", 3, world.clock.now())
    world.ask(Resume(2))
    assert world.site.pending_audits.folders() == []
    told = world.ask(Resume())
    assert "assetsync reconcile" in told
    assert world.site.pending_audits.folders() == ["F1"]
    assert world.site.pending_audits.asked_at() == world.clock.now()


def test_other_brake_release_audits_nothing(mirrored):
    world = mirrored()
    world.ledger.pull_brake("vanished", "site", "so many are gone", 3, world.clock.now())
    assert world.ask(Resume()) == "1 brake released: 1"
    assert world.site.pending_audits.folders() == []


@pytest.mark.parametrize("what", ["missing", "different"])
def test_restored_asset_unblocks_its_file(mirrored, what):
    world = mirrored()
    asset = asset_of(world, "1")
    if what == "missing":
        del world.service.assets[asset.id]
    else:
        asset.content = b"their new version"
    audit(world)
    assert world.row("1").reason == what
    asset.content = b"content 1"
    world.service.assets[asset.id] = asset
    assert audit_again(world) == {"assets": 3, "fine": 3}
    assert (world.row("1").state, world.row("1").reason) == (State.STORED, None)
    world.live(5)
    assert (world.row("1").state, len(world.service.posts)) == (VERIFIED, 3)


def test_still_different_asset_stays_blocked(mirrored):
    world = mirrored()
    asset_of(world, "1").content = b"their new version"
    audit(world)
    audit_again(world)
    assert (world.row("1").state, world.row("1").reason) == (BLOCKED, "different")


def test_unproven_asset_blocks_despite_audit(make_world):
    world = make_world()
    world.service.gives_md5 = False
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    asset.folder = "ARCHIVE"
    world.live(5)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "different")
    asset.folder = FOLDER
    for _ in range(2):
        audit_again(world)
        assert world.row("a.jpg").state is BLOCKED


def test_asset_restored_elsewhere_is_verified(make_world):
    world = make_world(folders=[{"path": "p", "destfolderid": "F1"}, {"path": "q", "destfolderid": "F2"}])
    world.write("p/a", b"content A")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    asset = world.service.assets.pop(world.row("p/a").assetid)
    audit(world)
    assert world.row("p/a").reason == "missing"
    asset.folder = "F2"
    world.service.assets[asset.id] = asset
    world.clock.advance(60)
    world.site.auditor.audit("F2")
    world.live(5)
    assert (world.row("p/a").state, drift(world).keys()) == (VERIFIED, {b"p/a"})


def test_late_shown_asset_is_verified(make_world):
    world = make_world()
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    world.service.assets.clear()
    world.live(1500, tick=2)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "never_processed")
    world.service.assets[asset.id] = asset
    audit_again(world)
    world.live(5)
    assert world.row("a.jpg").state is VERIFIED


def test_unverified_asset_put_back_is_verified(make_world):
    world = make_world()
    world.service.index_lag = None
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    asset.folder = "ARCHIVE"
    world.live(1500, tick=2)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "different")
    asset.folder, asset.indexed_at = FOLDER, world.clock.now()
    for _ in range(2):
        audit_again(world)
    world.live(5)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("policy", ["upload", "report"])
def test_adopted_asset_is_searched_by_file_name(make_world, policy):
    world = make_world(policy={"on_remote_missing": policy})
    asset = world.service.put(b"content A", "a.jpg")
    world.write("keep.jpg", b"other")
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    assert (world.row("a.jpg").state, world.posted()) == (VERIFIED, ["keep.jpg"])
    asset.folder, asset.indexed_at = "ARCHIVE", world.clock.now() + 1e6
    assert audit(world) == {"assets": 1, "fine": 1, "elsewhere": 1}


def test_copy_is_searched_by_earlier_sent_name(mirrored):
    world = mirrored()
    world.write("copy", b"content 1")
    world.service.script.append("unreachable")
    world.scan_and_send()
    (world.root / "1").unlink()
    world.site.gates.checked()
    world.live(60)
    assert (world.row("copy").state, len(world.service.assets)) == (VERIFIED, 3)
    world.clock.advance(60)
    asset = asset_of(world, "copy")
    asset.folder, asset.indexed_at = "ARCHIVE", world.clock.now() + 1e6
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}


def shown_only_if_asked_for(world) -> None:
    matches = world.service._matches
    world.service._matches = lambda asset, request: (
        (asset.processed_at <= world.clock.now()) == (request.available != "0") and matches(asset, request)
    )


@pytest.mark.parametrize("batch", [500, 2])
def test_mass_reprocessing_pulls_no_brake(mirrored, monkeypatch, batch):
    monkeypatch.setattr(missing, "_BATCH", batch)
    world = mirrored(20)
    shown_only_if_asked_for(world)
    for number in range(15):
        asset = asset_of(world, f"{number}")
        asset.processed_at = asset.indexed_at = world.clock.now() + 600
    world.service.searches.clear()
    assert audit(world) == {"assets": 5, "fine": 5}
    # All are met before any is looked for elsewhere.
    assert [request.folderid for request in world.service.searches] == [FOLDER, FOLDER]


@pytest.mark.parametrize(("count", "braked"), [(10, False), (11, True)])
def test_mass_move_pulls_the_brake_first(mirrored, count, braked):
    world = mirrored(31)
    for number in range(count):
        asset_of(world, f"{number}").folder = "ARCHIVE"
    left = 31 - count
    found = {"braked": True} if braked else {"elsewhere": count}
    world.service.searches.clear()
    assert audit(world) == {"assets": left, "fine": left} | found
    assert all(request.folderid for request in world.service.searches) is braked


def test_each_id_is_asked_for_once(mirrored, monkeypatch):
    monkeypatch.setattr(missing, "_IDS", 2)
    world = mirrored(8)
    gone_and_back(world, 5)
    world.service.searches.clear()
    assert audit(world)["missing"] == 5
    assert len([request for request in world.service.searches if not request.dbdirect]) == 3


def test_replaced_asset_is_known_by_folder(mirrored):
    world = mirrored()
    asset = asset_of(world, "1")
    asset.folder, asset.content = "ARCHIVE", b"their new version"
    assert audit(world) == {"assets": 2, "fine": 2, "different": 1}
    assert (world.row("1").reason, world.row("1").asset_folder) == ("different", "ARCHIVE")


def test_asset_without_folder_is_not_moved(mirrored):
    world = mirrored()
    shown = world.service._shown
    world.service._shown = lambda asset: replace(shown(asset), folder_id="")
    with pytest.raises(BadAnswer, match="shows only assets of no named folder"):
        audit(world)
    assert (world.row("1").state, world.row("1").asset_folder) == (VERIFIED, FOLDER)


def test_moved_out_asset_is_audited_at_origin(make_world):
    world = make_world(folders=[{"path": "p", "destfolderid": "F1"}, {"path": "q", "destfolderid": "F2"}])
    world.write("p/a", b"content A")
    world.write("q/b", b"content B")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    asset = asset_of(world, "q/b")
    asset.folder = "ARCHIVE"
    world.site.auditor.audit("F2")
    world.clock.advance(60)
    del world.service.assets[asset.id]
    assert audit(world) == {"assets": 1, "fine": 1}
    assert world.site.auditor.audit("F2").missing == 1


def test_asset_verified_during_audit_is_met(mirrored):
    world = mirrored()
    since = world.clock.steady() - 120, world.clock.steady()
    began = [RunningAudit(world.clock, world.clock.now() - world.clock.steady() + steady, steady) for steady in since]
    counted = [world.ledger.audits.verified(Unmet(FOLDER), one) for one in began]
    assert counted == [0, 3]


@pytest.mark.parametrize("when", ["before", "after"], ids=["verified_before_it", "verified_after_it"])
@pytest.mark.parametrize("back", [10.0, 86_400.0])
def test_clock_setback_in_audit_is_harmless(mirrored, when, back):
    world = mirrored()
    world.clock.advance(3600)
    audit_begun = begin(world.clock)
    world.clock.advance(30)
    if when == "after":
        world.clock.set_now(world.clock.now() - back)
    world.write("meanwhile", b"verified meanwhile")
    world.scan_and_send()
    world.live(5)
    if when == "before":
        world.clock.set_now(world.clock.now() - back)
    assert world.states()["meanwhile"] is State.VERIFIED
    unmet = world.ledger.audits.unmet(Unmet(FOLDER), audit_begun, 10)
    assert b"meanwhile" not in {row.path for row in unmet}


def test_clock_setback_hides_no_later_loss(mirrored):
    world = mirrored()
    audit(world)
    world.clock.advance(60)
    world.clock.set_now(world.clock.now() - 365 * 86_400)
    del world.service.assets[world.row("1").assetid]
    assert world.site.auditor.audit(FOLDER).missing == 1
    assert world.row("1").state is State.BLOCKED
