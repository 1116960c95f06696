"""The folders of the service in the ledger: what their listings prove, and how their ids are spelled."""

import pytest

from assetsync.model import State

OLD, NEW = "ab12CD", "AB12cd"


def folders(**said):
    return [{"path": path, "destfolderid": folder} for path, folder in said.items()]


def test_case_of_a_folder_id_is_no_other_mapping(make_world):
    """Every row, fact and brake goes on under the new spelling, and nothing is sent again."""
    world = make_world(folders=folders(p=OLD, q="F2"))
    for number in range(3):
        world.write(f"p/{number}.jpg", b"%d" % number)
    world.scan_and_send()
    world.live(90)
    world.site.auditor.audit(OLD)
    world.service.put(b"a stranger", "stranger.jpg", OLD)
    world.ledger.folder_listings.again(OLD)
    world.write("p/3.jpg", b"3")
    world.scan_and_send()
    for asset in world.service.assets.values():
        asset.folder = NEW
    world.restart(folders=folders(p=NEW, q="F2"))
    world.scan_and_send()
    world.live(90)
    assert (world.ledger.reports.brakes(), len(world.posted())) == ([], 4)
    assert set(world.states().values()) == {State.VERIFIED}
    assert {row.destfolderid for row in world.ledger.reports.files()} == {NEW}
    assert world.ledger.audits.last_at(NEW) is not None
    spelled = "SELECT DISTINCT folder_id FROM unowned UNION SELECT destfolderid FROM attempts"
    assert world.ledger.store.column(spelled) == [NEW]
    assert world.ledger.store.column("SELECT destfolderid FROM folders ORDER BY 1") == [NEW]


def test_brake_is_released_under_the_new_spelling(make_world):
    world = make_world(folders=folders(p=OLD))
    for number in range(20):
        world.write(f"p/{number}.jpg", b"%d" % number)
    world.scan_and_send()
    world.live(90)
    for assetid in [*world.service.assets][1:]:
        del world.service.assets[assetid]
    assert world.site.auditor.audit(OLD).braked
    for asset in world.service.assets.values():
        asset.folder = NEW
    world.restart(folders=folders(p=NEW))
    (brake,) = world.ledger.reports.brakes()
    world.ledger.resume(brake.id, world.clock.now())
    world.clock.advance(60)
    assert (brake.subject, world.site.auditor.audit(NEW).braked) == (NEW, False)


def test_mappings_of_one_folder_have_one_spelling(make_world):
    config = make_world(folders=folders(p=OLD, q=NEW)).config()
    assert [folder.destfolderid for folder in config.folders] == [OLD, OLD]


@pytest.mark.parametrize("name", ["a.jpg", "other.jpg"])
def test_adopted_asset_shows_whether_names_are_kept(world, name):
    world.service.put(b"by hand", name)
    world.write("a.jpg", b"by hand")
    world.scan_and_send()
    assert world.row("a.jpg").id_from == "adopted"
    assert world.ledger.folder_listings.keeps_names("F1") is (name == "a.jpg")
