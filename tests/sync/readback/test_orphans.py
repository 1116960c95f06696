"""What is listed for removal: never the last copy of a file, nor what somebody else has made of an asset."""

import pytest

from assetsync.model import State
from assetsync.sync.requests.retry import Retry

FOLDER = "F1"


@pytest.fixture
def mirrored(make_world):
    """Make a world whose files `a.jpg` and `keep.jpg` are verified, and move it on by a minute."""

    def make(**said):
        world = make_world(**said)
        world.write("a.jpg", b"content A")
        world.write("keep.jpg", b"other")
        world.scan_and_send()
        world.live(5)
        assert set(world.states().values()) == {State.VERIFIED}
        world.clock.advance(60)
        return world

    return make


def audit(world):
    world.site.auditor.audit(FOLDER)
    world.clock.advance(60)


def listed(world):
    return {(orphan.why, orphan.assetid) for orphan in world.orphans()}


def found(world):
    return {finding.why for finding in world.ledger.reports.findings()}


def delete(world, path):
    """Let somebody delete the asset of a file in the service."""
    del world.service.assets[world.row(path).assetid]


@pytest.mark.parametrize("is_known", [True, False])
def test_last_copy_is_no_longer_listed(mirrored, is_known):
    world = mirrored()
    copy = world.service.put(b"content A", "a.jpg")
    if is_known:
        audit(world)
        assert listed(world) == {("doubled", copy.id)}
    delete(world, "a.jpg")
    audit(world)
    assert (listed(world), found(world)) == (set(), {"missing"})


def be_deleted(world):
    (world.root / "a.jpg").unlink()
    world.scan()


def be_replaced(world):
    world.write("a.jpg", b"another content")
    world.scan_and_send()


def be_sent_again(world):
    world.ask(Retry(send_again=True, reason="missing"))


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize(
    ("then", "why"), [(be_deleted, "deleted"), (be_replaced, "replaced"), (be_sent_again, "replaced")]
)
def test_missing_asset_is_listed_once_back(mirrored, then, why, is_elsewhere):
    world = mirrored()
    asset = world.service.assets[world.row("a.jpg").assetid]
    if is_elsewhere:
        asset.folder_id = "not mapped"
        audit(world)
    delete(world, "a.jpg")
    audit(world)
    assert world.row("a.jpg").reason == "missing"
    then(world)
    world.live(60)
    assert listed(world) == set()
    world.clock.advance(60)
    asset.folder_id = FOLDER
    world.service.assets[asset.id] = asset
    audit(world)
    assert listed(world) == {(why, asset.id)}


def test_copy_is_unlisted_during_the_brake(mirrored):
    world = mirrored()
    for number in range(30):
        world.write(f"{number}", f"content {number}".encode())
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    copies = {world.service.put(f"content {number}".encode(), f"{number}").id for number in range(30)}
    audit(world)
    assert listed(world) == {("doubled", copy) for copy in copies}
    for number in range(30):
        delete(world, f"{number}")
    audit(world)
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["missing"]
    assert listed(world) == set()


def test_copy_is_unlisted_during_a_retry(mirrored):
    world = mirrored()
    world.service.put(b"content A", "a.jpg")
    audit(world)
    delete(world, "a.jpg")
    audit(world)
    world.ledger.decisions.retry(world.row("a.jpg"), world.clock.now())
    assert (world.row("a.jpg").state, listed(world)) == (State.STORED, set())


def test_copy_is_unlisted_while_a_twin_is_lost(mirrored):
    world = mirrored()
    world.write("b.jpg", b"content A")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    copy = world.service.put(b"content A", "copy.jpg")
    audit(world)
    assert listed(world) == {("doubled", copy.id)}
    delete(world, "b.jpg")
    audit(world)
    assert listed(world) == set()


def test_copy_is_listed_again_after_restore(mirrored):
    world = mirrored()
    copy = world.service.put(b"content A", "a.jpg")
    asset = world.service.assets.pop(world.row("a.jpg").assetid)
    audit(world)
    world.service.assets[asset.id] = asset
    world.ledger.decisions.retry(world.row("a.jpg"), world.clock.now())
    world.live(60)
    assert world.row("a.jpg").state is State.VERIFIED
    audit(world)
    assert listed(world) == {("doubled", copy.id)}


def test_copy_of_gone_file_is_unlisted(mirrored):
    world = mirrored()
    copy = world.service.put(b"content A", "a.jpg")
    audit(world)
    assetid = world.row("a.jpg").assetid
    (world.root / "a.jpg").unlink()
    world.scan()
    assert listed(world) == {("doubled", copy.id), ("deleted", assetid)}
    del world.service.assets[assetid]
    audit(world)
    assert listed(world) == set()


@pytest.fixture
def theirs(mirrored):
    """A world in which somebody has put a version of their own in the place of `a.jpg`, which an audit has met."""
    world = mirrored()
    world.service.assets[world.row("a.jpg").assetid].content = b"their version"
    audit(world)
    assert world.row("a.jpg").reason == "different"
    return world


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_substitute_in_history_is_unlisted(theirs, how):
    if how == "changed":
        theirs.write("a.jpg", b"content B, of the tree")
    else:
        (theirs.root / "a.jpg").unlink()
    theirs.scan_and_send()
    theirs.live(5)
    audit(theirs)
    assert listed(theirs) == set()


def test_substitute_is_unknown_after_resend(theirs):
    assetid = theirs.row("a.jpg").assetid
    theirs.ledger.decisions.send_again(theirs.row("a.jpg"), theirs.clock.now())
    theirs.live(5)
    assert (theirs.row("a.jpg").state, listed(theirs)) == (State.VERIFIED, set())
    audit(theirs)
    assert [(o.why, o.assetid, o.size) for o in theirs.orphans()] == [("unknown", assetid, len(b"their version"))]


def test_replaced_unverified_upload_is_listed(make_world):
    world = make_world()
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    assetid = world.row("a.jpg").assetid
    world.service.assets[assetid].content = b"broken on the way"
    world.live(5)
    assert world.row("a.jpg").reason == "different"
    world.write("a.jpg", b"content B, of the tree")
    world.scan_and_send()
    world.live(5)
    audit(world)
    assert listed(world) == {("replaced", assetid)}
