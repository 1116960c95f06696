"""The audit finds what is missing, moved, different, doubled, suspected and unknown, and asks before too much.

Covers `ledger/audits.py` and `sync/readback/archive_members.py`.
"""

import io
import zipfile

import pytest

from assetsync.errors import ServiceUnreachable
from assetsync.model import State
from assetsync.status.sentences import next_step
from assetsync.sync.requests.retry import Retry
from tests.sync.conftest import lose
from tests.sync.readback.test_drift import drift

FOLDER = "F1"


@pytest.fixture
def mirrored(make_world):
    """Make a world whose files `0`, `1`, … are verified, and move it on by a minute."""

    def make(count: int = 3, **said):
        world = make_world(**said)
        for number in range(count):
            world.write(f"{number}", f"content {number}".encode())
        world.scan_and_send()
        world.live(5)
        assert set(world.states().values()) == {State.VERIFIED}
        world.clock.advance(60)
        return world

    return make


def audit(world):
    result = world.site.auditor.audit(FOLDER)
    return {name: getattr(result, name) for name in result.__slots__ if getattr(result, name) and name != "folder"}


def why(world):
    return {(orphan.why, orphan.path) for orphan in world.orphans()}


def test_folder_holding_sent_assets_is_fine(mirrored):
    world = mirrored()
    assert audit(world) == {"assets": 3, "fine": 3}
    assert why(world) == set()


def test_deleted_asset_blocks_with_remedy(mirrored):
    world = mirrored()
    del world.service.assets[world.row("1").assetid]
    assert audit(world) == {"assets": 2, "fine": 2, "missing": 1}
    assert (world.row("1").state, world.row("1").reason) == (State.BLOCKED, "missing")
    assert next_step(world.row("1")) == "`assetsync retry 1`, or `assetsync retry --send-again 1` if that finds nothing"


def test_suggested_retry_adopts_the_kept_copy(mirrored):
    world = mirrored()
    kept = world.service.put(b"content 1", "1")
    del world.service.assets[world.row("1").assetid]
    audit(world)
    assert next_step(world.row("1")).startswith("`assetsync retry 1`, or ")
    world.ask(Retry((b"1",)))
    world.live(1000, tick=5)
    assert (world.row("1").state, world.row("1").assetid) == (State.VERIFIED, kept.id)
    assert sorted(world.posted()) == ["0", "1", "2"]


def test_deleted_asset_is_resent_by_policy(mirrored):
    world = mirrored(policy={"on_remote_missing": "upload"})
    del world.service.assets[world.row("1").assetid]
    audit(world)
    assert world.row("1").state is State.QUEUED
    world.live(5)
    assert set(world.states().values()) == {State.VERIFIED}
    assert world.service.contents == [b"content 0", b"content 1", b"content 2"]


def test_asset_moved_in_service_is_drift(mirrored):
    world = mirrored()
    world.service.assets[world.row("1").assetid].folder = "ELSEWHERE"
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}
    assert (world.row("1").state, world.row("1").asset_folder) == (State.VERIFIED, "ELSEWHERE")
    assert drift(world) == {b"1": "it lies in another folder of the service: ELSEWHERE"}
    world.clock.advance(60)
    assert audit(world) == {"assets": 2, "fine": 2, "elsewhere": 1}
    assert drift(world).keys() == {b"1"}


def test_asset_moved_back_is_fine_again(mirrored):
    world = mirrored()
    asset = world.service.assets[world.row("1").assetid]
    asset.folder = "ELSEWHERE"
    audit(world)
    asset.folder = FOLDER
    world.clock.advance(60)
    assert audit(world) == {"assets": 3, "fine": 3}
    assert (world.row("1").state, world.row("1").asset_folder, drift(world)) == (State.VERIFIED, FOLDER, {})
    assert list(world.ledger.reports.findings()) == []


@pytest.mark.parametrize("folders", [(FOLDER, "F2"), ("F2", FOLDER)])
def test_alias_in_a_mapped_folder_is_no_move(mirrored, folders):
    world = mirrored(folders=[{"path": ".", "destfolderid": FOLDER}, {"path": "other", "destfolderid": "F2"}])
    world.service.link(world.row("1").assetid, "F2")
    for folder in folders:
        world.site.auditor.audit(folder)
    assert (world.row("1").asset_folder, drift(world), why(world)) == (FOLDER, {}, set())


def test_adopted_asset_with_an_alias_is_verified(make_world):
    world = make_world()
    asset = world.service.put(b"content", "a")
    world.service.link(asset.id, "F9")
    world.write("a", b"content")
    world.scan_and_send()
    world.live(120)
    assert (world.row("a").state, world.row("a").asset_folder) == (State.VERIFIED, FOLDER)
    assert world.service.posts == []


def test_alias_of_a_stranger_is_not_adopted(make_world):
    """The asset lies in another folder: the file is sent into its own."""
    world = make_world()
    world.service.link(world.service.put(b"content", "a", "F9").id, FOLDER)
    world.write("a", b"content")
    world.scan_and_send()
    world.live(120)
    assert (world.row("a").state, len(world.service.posts)) == (State.VERIFIED, 1)


@pytest.mark.parametrize("first", [FOLDER, "F2"])
def test_move_to_mapped_folder_is_drift(mirrored, first):
    world = mirrored()
    world.service.assets[world.row("1").assetid].folder = "F2"
    for folder in (first, {FOLDER: "F2", "F2": FOLDER}[first]):
        world.site.auditor.audit(folder)
    assert (world.row("1").state, world.row("1").asset_folder) == (State.VERIFIED, "F2")
    assert drift(world) == {b"1": "it lies in another folder of the service: F2"}
    assert [(found.why, found.path) for found in world.ledger.reports.findings()] == [("elsewhere", b"1")]


def test_settled_move_is_silent_until_next(mirrored):
    world = mirrored()
    asset = world.service.assets[world.row("1").assetid]
    asset.folder = "F2"
    audit(world)
    drift(world)
    assert world.ledger.metadata_drift.settle([world.row("1")])
    assert drift(world) == {}
    assert list(world.ledger.reports.findings()) == []
    asset.folder = "F3"
    world.clock.advance(60)
    world.site.auditor.audit("F2")
    assert drift(world).keys() == {b"1"}


def test_mapping_following_assets_sends_none(mirrored):
    world = mirrored()
    for name in "012":
        world.service.assets[world.row(name).assetid].folder = "F2"
    world.clock.advance(60)
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    world.site.auditor.audit("F2")
    world.scan()
    world.ledger.resume(None, world.clock.now())
    world.write("3", b"a new one")
    world.scan_and_send()
    world.live(5)
    assert sorted(world.posted()) == ["0", "1", "2", "3"]
    assert {world.row(name).destfolderid for name in "0123"} == {"F2"}
    assert drift(world) == {}


def test_asset_with_other_bytes_blocks_file(mirrored):
    world = mirrored()
    world.service.assets[world.row("1").assetid].content = b"something else"
    assert audit(world) == {"assets": 3, "fine": 2, "different": 1}
    assert (world.row("1").state, world.row("1").reason) == (State.BLOCKED, "different")


def test_copy_cut_and_stranger_are_separated(mirrored):
    world = mirrored()
    world.write("cut.jpg", b"the whole of the picture")
    world.service.script.append("lost_before")
    world.scan_and_send()
    world.live(60)
    assert world.states()["cut.jpg"] is State.VERIFIED
    world.service.put(b"content 2", "2")
    world.service.put(b"the whole", "cut.jpg")
    world.service.put(b"a stranger's", "stranger.jpg")
    world.clock.advance(60)
    assert audit(world) == {"assets": 7, "fine": 4, "doubled": 1, "suspected": 1, "unknown": 1}
    assert why(world) == {("doubled", b"2"), ("suspected", b"cut.jpg"), ("unknown", None)}


@pytest.mark.parametrize(
    ("file_type", "found"), [("rendition", {}), ("original", {"unknown": 1}), ("", {"unknown": 1})]
)
def test_renditions_are_no_unknown_assets(mirrored, file_type, found):
    world = mirrored()
    world.service.put(b"a smaller one", "0_rendition.jpg", file_type=file_type)
    assert audit(world) == {"assets": 3 + len(found), "fine": 3, **found}
    assert world.service.searches[-1].showrenditions is False


def zipped(*members: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return made.getvalue()


@pytest.mark.parametrize(
    ("extracts", "name", "content", "unknown"),
    [
        (True, "top.txt", b"top", 0),
        (True, "gr?n.txt", b"green", 0),
        (True, "top.txt", b"of another size", 1),
        (True, "inner.txt", b"inner", 1),
        (False, "top.txt", b"top", 1),
    ],
)
def test_archive_members_are_not_unknown(mirrored, extracts, name, content, unknown):
    folders = [{"path": ".", "destfolderid": FOLDER, "upload": {"zip_extract": str(extracts).lower()}}]
    world = mirrored(1, folders=folders)
    world.write("all.zip", zipped(("top.txt", b"top"), ("grün.txt", b"green"), ("sub/inner.txt", b"inner")))
    world.write("broken.zip", b"PK\x05\x06" + b"\xff" * 18)
    world.scan_and_send()
    world.live(5)
    world.service.put(content, name)
    world.clock.advance(60)
    assert audit(world).get("unknown", 0) == unknown
    assert len(why(world)) == unknown


def test_archive_on_absent_root_ends_no_audit(mirrored):
    # As of a disk that is not mounted in the night of the audit.
    folders = [{"path": ".", "destfolderid": FOLDER, "upload": {"zip_extract": "true"}}]
    world = mirrored(1, folders=folders)
    world.write("all.zip", zipped(("top.txt", b"top")))
    world.scan_and_send()
    world.live(5)
    world.service.put(b"top", "top.txt")
    world.root.rename(world.root.with_name("away"))
    world.clock.advance(60)
    assert audit(world)["unknown"] == 1


def test_removed_orphan_is_no_longer_listed(mirrored):
    """Each kind of orphan leaves the list when its asset is deleted, and returns with it."""
    world = mirrored()
    world.write("0", b"changed")
    world.scan_and_send()
    world.live(5)
    world.service.put(b"content 2", "2")
    world.service.put(b"a stranger's", "stranger.jpg")
    world.clock.advance(60)
    audit(world)
    listed = {orphan.assetid for orphan in world.orphans()}
    assert why(world) == {("replaced", b"0"), ("doubled", b"2"), ("unknown", None)}
    for assetid in listed:
        world.clock.advance(60)
        kept = world.service.assets.pop(assetid)
        audit(world)
        assert {orphan.assetid for orphan in world.orphans()} == listed - {assetid}
        world.service.assets[assetid] = kept
    world.clock.advance(60)
    audit(world)
    assert {orphan.assetid for orphan in world.orphans()} == listed


def test_history_is_not_called_unknown(mirrored):
    world = mirrored()
    world.write("0", b"changed")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    assert audit(world) == {"assets": 4, "fine": 3, "history": 1}
    assert why(world) == {("replaced", b"0")}


def test_replaced_asset_is_listed_as_replaced(mirrored):
    world = mirrored()
    world.ledger.decisions.send_again(world.row("0"), world.clock.now())
    world.send()
    world.live(5)
    for _ in range(2):
        world.clock.advance(60)
        assert audit(world) == {"assets": 4, "fine": 3, "history": 1}
        assert why(world) == {("replaced", b"0")}


def test_many_missing_assets_pull_the_brake(mirrored):
    world = mirrored(30)
    for number in range(12):
        del world.service.assets[world.row(f"{number}").assetid]
    assert audit(world)["braked"]
    assert set(world.states().values()) == {State.VERIFIED}
    assert world.ledger.reports.brakes()[0].kind == "missing"
    world.ledger.resume(None, world.clock.now())
    assert audit(world)["missing"] == 12


def test_unfinished_audit_concludes_nothing(mirrored):
    world = mirrored()
    del world.service.assets[world.row("1").assetid]
    world.service.down = True
    with pytest.raises(ServiceUnreachable):
        audit(world)
    assert set(world.states().values()) == {State.VERIFIED}


@pytest.mark.parametrize("gives_md5", [True, False])
@pytest.mark.parametrize("first", [FOLDER, "F2"])
def test_unverified_moved_asset_is_known_by_md5(make_world, first, gives_md5):
    world = make_world()
    world.service.processing, world.service.gives_md5 = 600.0, gives_md5
    world.write("0")
    world.scan_and_send()
    assert world.row("0").state is State.STORED
    asset = world.service.assets[world.row("0").assetid]
    asset.folder, asset.processed_at, asset.indexed_at = "F2", 0.0, 0.0
    for folder in (first, {FOLDER: "F2", "F2": FOLDER}[first]):
        world.site.auditor.audit(folder)
    assert (world.row("0").state, world.row("0").asset_folder) == (State.STORED, "F2" if gives_md5 else FOLDER)
    world.live(120)
    assert world.row("0").state is (State.VERIFIED if gives_md5 else State.BLOCKED)


def test_agreed_folder_is_fine_only_there(mirrored):
    world = mirrored()
    asset = world.service.assets[world.row("1").assetid]
    asset.folder = "F2"
    audit(world)
    drift(world)
    world.ledger.metadata_drift.settle([world.row("1")])
    drift(world)
    asset.folder = "F3"
    world.clock.advance(60)
    world.site.auditor.audit("F3")
    asset.folder = "F2"
    world.clock.advance(60)
    result = world.site.auditor.audit("F2")
    assert (result.fine, result.elsewhere) == (1, 0)


def test_blocked_asset_is_known_when_moved_on(make_world):
    world = make_world()
    world.service.gives_md5 = False
    world.write("0")
    world.scan_and_send()
    asset = world.service.assets[world.row("0").assetid]
    asset.folder = "F2"
    world.live(120)
    assert (world.row("0").state, world.row("0").asset_folder) == (State.BLOCKED, "F2")
    asset.folder = "F3"
    world.clock.advance(60)
    world.site.auditor.audit("F3")
    assert (world.row("0").state, world.row("0").asset_folder) == (State.BLOCKED, "F3")


def test_moved_asset_without_md5_is_unknown(make_world):
    world = make_world()
    world.service.gives_md5 = False
    lose(world, "lost_before")
    # As of a large file that was not read to its end.
    world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET md5 = NULL"))
    asset = world.service.put(b"some content", "a.jpg")
    world.ledger.decisions.resolve_as_asset(world.row("a.jpg"), world.service._shown(asset), world.clock.now())
    assert world.row("a.jpg").state is State.STORED
    asset.folder = "F2"
    world.site.auditor.audit("F2")
    assert world.row("a.jpg").asset_folder == FOLDER


@pytest.fixture
def after_outage(world):
    """An upload in doubt whose next look-up is minutes away; no look-up has shown its asset yet."""
    lose(world, "lost_before")
    attempt = world.ledger.doubts.of(world.row("a.jpg").id)
    world.ledger.doubts.unanswered([attempt.id], (), world.clock.now() + 800, "the service did not answer")
    return world


@pytest.mark.parametrize("gives_md5", [True, False])
def test_doubt_seen_by_audit_is_decided_next(after_outage, gives_md5):
    world = after_outage
    world.service.gives_md5 = gives_md5
    asset = world.service.put(b"some content", "a.jpg")
    audit(world)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (State.IN_DOUBT, None)
    assert world.look_up() == 1
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (State.STORED, asset.id)
    assert why(world) == set()


def test_doubt_renamed_by_service_is_seen(after_outage):
    world = after_outage
    world.service.put(b"some content", "of a workflow.jpg")
    audit(world)
    world.site.resolver.step()
    assert world.row("a.jpg").state is State.STORED


@pytest.mark.parametrize("gives_md5", [True, False])
def test_unequal_asset_makes_no_look_due(after_outage, gives_md5):
    world = after_outage
    world.service.gives_md5 = gives_md5
    world.service.put(b"other", "a.jpg")
    world.service.put(b"some content", "a.jpg", folder="F2")
    # Its size is equal, but not its digest; without one, its name decides.
    world.service.put(b"SOME CONTENT", "a.jpg" if gives_md5 else "b.jpg")
    audit(world)
    world.site.auditor.audit("F2")
    assert world.look_up() == 0
    assert world.ledger.doubts.next_look() > world.clock.now() + 700


def test_doubt_left_to_person_stays_so(after_outage):
    world = after_outage
    world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET state = 'blocked', reason = 'undecidable'"))
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET name_released = 1"))
    world.service.put(b"some content", "a.jpg")
    audit(world)
    assert world.look_up() == 0
    attempt = world.ledger.doubts.of(world.row("a.jpg").id)
    assert (world.row("a.jpg").state, attempt.look_at > world.clock.now() + 700) == (State.BLOCKED, True)


def test_trashed_asset_of_a_touched_file_is_named(mirrored):
    """A trashed asset vanishes from searches; the touched file takes over the earlier version, and is read back."""
    world = mirrored()
    asset = world.row("1").assetid
    del world.service.assets[asset]
    world.write("1", b"content 1", mtime=world.clock.now() - 5000)
    world.scan_and_send()
    world.live(1500)
    assert (world.row("1").state, world.posted().count("1")) == (State.BLOCKED, 1)
    (found,) = world.ledger.reports.findings()
    assert (found.why, found.path, found.assetid) == ("missing", b"1", asset)


def test_new_version_of_an_asset_has_its_own_sentence(mirrored):
    world = mirrored()
    asset = world.row("1").assetid
    world.service.assets[asset].content = b"retouched by hand"
    assert audit(world)["different"] == 1
    assert world.row("1").detail.startswith(f"the asset {asset} has a new version in the service: its MD5")
    world.ask(Retry((b"1",)))
    world.live(60)
    assert world.row("1").detail.startswith(f"the asset {asset} has a new version in the service: its MD5")
