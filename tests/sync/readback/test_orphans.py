"""What is listed for removal: never the last copy of a file, nor what somebody else has made of an asset."""

import pytest

from assetsync.model import State

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
def test_a_copy_is_listed_no_longer_when_it_is_the_last(mirrored, is_known):
    world = mirrored()
    copy = world.service.put(b"content A", "a.jpg")
    if is_known:
        audit(world)
        assert listed(world) == {("doubled", copy.id)}
    delete(world, "a.jpg")
    audit(world)
    assert (listed(world), found(world)) == (set(), {"missing"})


def test_a_copy_is_not_listed_while_a_person_is_asked_about_what_is_missing(mirrored):
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


def test_a_copy_is_not_listed_while_the_asset_that_is_gone_is_looked_for_again(mirrored):
    world = mirrored()
    world.service.put(b"content A", "a.jpg")
    audit(world)
    delete(world, "a.jpg")
    audit(world)
    world.ledger.repair.retry(world.row("a.jpg"), world.clock.now())
    assert (world.row("a.jpg").state, listed(world)) == (State.STORED, set())


def test_a_copy_is_not_listed_while_one_of_two_equal_files_lacks_its_asset(mirrored):
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


def test_a_copy_is_listed_again_when_the_asset_is_back_from_the_trash(mirrored):
    world = mirrored()
    copy = world.service.put(b"content A", "a.jpg")
    asset = world.service.assets.pop(world.row("a.jpg").assetid)
    audit(world)
    world.service.assets[asset.id] = asset
    world.ledger.repair.retry(world.row("a.jpg"), world.clock.now())
    world.live(60)
    assert world.row("a.jpg").state is State.VERIFIED
    audit(world)
    assert listed(world) == {("doubled", copy.id)}


def test_a_copy_is_not_listed_when_its_file_is_gone_and_its_asset_too(mirrored):
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
def test_what_somebody_has_put_in_the_place_of_an_asset_is_not_listed_when_its_file_is_history(theirs, how):
    if how == "changed":
        theirs.write("a.jpg", b"content B, of the tree")
    else:
        (theirs.root / "a.jpg").unlink()
    theirs.scan_and_send()
    theirs.live(5)
    audit(theirs)
    assert listed(theirs) == set()


def test_what_somebody_has_put_in_the_place_of_an_asset_is_nobodys_once_its_file_was_sent_again(theirs):
    assetid = theirs.row("a.jpg").assetid
    theirs.ledger.repair.send_again(theirs.row("a.jpg"), theirs.clock.now())
    theirs.live(5)
    assert (theirs.row("a.jpg").state, listed(theirs)) == (State.VERIFIED, set())
    audit(theirs)
    assert [(o.why, o.assetid, o.size) for o in theirs.orphans()] == [("unknown", assetid, len(b"their version"))]


def test_an_upload_that_was_never_read_back_equal_is_listed_when_it_was_replaced(make_world):
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
