"""A service whose listings lie: folders spelled otherwise, pages that slip, capped lists, and `[]` without rights.

The ledger is lost or restored, so that only listings show what is there. Nothing is sent a second time.
"""

from collections import Counter
from dataclasses import replace

import pytest

from assetsync.model import SearchRequest, State
from assetsync.sandbox import FaultKind, FaultRule
from assetsync.sync import observer
from tests.world import World

from .conftest import FOLDER, Place

COUNT = 14
ROWS = 25
"""Rows of a page, or of a capped list: the least that is not taken for the last page."""
GRACE = 20.0
"""Seconds of the grace of a doubt in the world."""
LONG = 120
"""Files of a folder whose list may be capped although it states no total: more than `observer.LONG` is here."""


@pytest.fixture(autouse=True)
def _a_hundred_rows_are_many(monkeypatch):
    """Let lists of 100 rows be long, and not of 500, which take five times as long to send."""
    monkeypatch.setattr(observer, "LONG", 100)


def fill(place: Place, count: int = COUNT) -> None:
    for number in range(count):
        place.write(f"photos/{number}.jpg", f"content {number:04}".encode() * (1 + number % 3))


def lose_ledger(place: Place) -> None:
    place.ledger.unlink()


def expect_adopted(place: Place, count: int = COUNT) -> None:
    """Expect that a run with a new ledger sends nothing and takes over everything."""
    report = place.reconcile()
    assert len(place.sandbox.assets()) == count
    assert (report.in_sync, report.uploaded, report.adopted) == (True, 0, count)
    assert set(place.states().values()) == {State.VERIFIED}
    assert place.orphans() == []


def test_folder_in_other_case_adopts_hand_filled_folder(place):
    """The configuration has the id in small letters, and the service shows its own spelling."""
    hands = Place(place.folder / "by-hand", place.sandbox)
    for each in (place, hands):
        fill(each, 50)
    assert hands.reconcile().uploaded == 50
    place.sandbox.set_faults(FaultRule(kind=FaultKind.FOLDER_CASE))
    expect_adopted(place, 50)


@pytest.mark.parametrize("kind", [FaultKind.FOLDER_CASE, FaultKind.FOLDER_EMPTY, FaultKind.FOLDER_MISSING])
def test_lost_ledger_with_unusual_folder_id_sends_nothing(place, kind):
    fill(place)
    assert place.reconcile().in_sync
    lose_ledger(place)
    place.sandbox.set_faults(FaultRule(kind=kind))
    expect_adopted(place)


def test_folder_id_in_other_case_is_the_same_mapping(place):
    """Somebody writes the id in the configuration anew, in small letters."""
    fill(place)
    assert place.reconcile().in_sync
    place.config.write_text(place.config.read_text().replace(FOLDER, FOLDER.lower()))
    place.sandbox.set_faults(FaultRule(kind=FaultKind.FOLDER_CASE))
    place.write("photos/new.jpg", b"a new file")
    report = place.reconcile()
    assert (report.in_sync, report.braked, report.uploaded, len(place.sandbox.assets())) == (True, 0, 1, COUNT + 1)


@pytest.mark.parametrize("also", [(), (FaultKind.FOLDER_EMPTY,)], ids=["named", "unnamed"])
def test_listing_of_another_folder_holds_the_folder(place, also):
    """An empty id counts as the folder's only where a folder that does not exist shows nothing."""
    fill(place)
    assert place.reconcile().in_sync
    lose_ledger(place)
    place.sandbox.create_folder("other", "OTHER")
    other = Place(place.folder / "other", place.sandbox)
    other.write("another.jpg", b"another file")
    other.config.write_text(other.config.read_text().replace(FOLDER, "OTHER"))
    assert other.reconcile().in_sync
    kinds = (FaultKind.OTHER_FOLDER, FaultKind.UNKNOWN_FOLDER_LISTED, *also)
    place.sandbox.set_faults(*(FaultRule(kind=kind) for kind in kinds))
    report = place.reconcile(wait=0)
    assert (report.uploaded, report.adopted, len(place.sandbox.assets())) == (0, 0, COUNT + 1)
    place.sandbox.set_faults()
    expect_adopted_beside(place, 1)


def expect_adopted_beside(place: Place, others: int) -> None:
    report = place.reconcile()
    assert (report.in_sync, report.adopted, len(place.sandbox.assets())) == (True, COUNT, COUNT + others)


def test_capped_listing_with_total_sends_nothing(place):
    fill(place, 2 * ROWS)
    assert place.reconcile().in_sync
    lose_ledger(place)
    place.sandbox.set_faults(FaultRule(kind=FaultKind.CAPPED, rows=ROWS))
    expect_adopted(place, 2 * ROWS)


def put_files(world: World, names: list[str], *, one_size: bool = False) -> None:
    """Put files into the tree and, as an earlier ledger did, into the service."""
    for number, path in enumerate(names):
        content = f"content {number:06}".encode().ljust(20 if one_size else 20 + number, b".")
        world.write(path, content)
        world.service.put(content, path.rpartition("/")[2])


def expect_nothing_sent(world: World, seconds: float = 600.0) -> None:
    world.scan()
    world.live(seconds, tick=5.0)
    assert world.posted() == []
    assert set(world.states().values()) == {State.VERIFIED}


@pytest.mark.parametrize("states_total", [False, True], ids=["no_total", "total"])
@pytest.mark.parametrize("one_size", [False, True], ids=["sizes", "one_size"])
def test_pages_without_order_send_nothing(world, one_size, states_total):
    """Ten files of each name change places between the pages; in one size, no order tells them apart."""
    put_files(world, [f"{copy}/{number}.jpg" for number in range(10) for copy in range(10)], one_size=one_size)
    world.service.page, world.service.is_unordered, world.service.honours_available = ROWS, True, True
    # A name that comes twice makes up for one that is left out: the number of rows is right.
    world.service.states_total = states_total
    expect_nothing_sent(world)


def test_assets_deleted_between_pages_send_nothing(world):
    names = [f"{number:03}.jpg" for number in range(60)]
    strangers = [world.service.put(f"stranger {number}".encode(), f"000 {number}.jpg").id for number in range(3)]
    put_files(world, names)
    world.service.page, world.service.honours_available = ROWS, True

    def delete(request: SearchRequest) -> None:
        if request.searchfor == "%" and (request.startrow or 1) > ROWS:
            for stranger in strangers:
                world.service.assets.pop(stranger, None)

    world.service.during_search = delete
    expect_nothing_sent(world)


def test_long_capped_listing_without_total_sends_nothing(world):
    put_files(world, [f"{number:04}.jpg" for number in range(LONG)])
    world.service.cap = LONG - 10
    expect_nothing_sent(world)


def test_capped_listing_of_one_size_sends_nothing(world):
    """Scans are of one size; few files were sent when the next scan ends."""
    put_files(world, [f"{number:04}.jpg" for number in range(LONG)], one_size=True)
    world.service.cap = LONG - 10
    world.scan()
    world.site.uploader.step()
    world.clock.advance(60)
    expect_nothing_sent(world)


def test_broad_name_waits_for_the_end_of_the_scan(world):
    """No search by name shows whether the long listing lacks the file."""
    put_files(world, ["日.jpg", *(f"{number:04}.jpg" for number in range(LONG))])
    world.service.cap = LONG - 10
    world.hint("日.jpg")
    world.site.uploader.step()
    assert world.posted() == []
    assert "may have been cut" in (world.row("日.jpg").detail or "")
    world.scan()
    world.live(10.0, tick=5.0)
    assert world.posted() == []
    assert len([search for search in world.service.searches if search.searchfor == "%.jpg"]) <= 8


def test_restart_lists_capped_folder_again(world):
    """Files of the listing were taken over before the restart; what it lacks comes later."""
    names = [f"{number:04}.jpg" for number in range(LONG + 20)]
    put_files(world, names)
    later = {name: (world.root / name).read_bytes() for name in names[10:]}
    for name in later:
        (world.root / name).unlink()
    world.service.cap = LONG - 10
    world.scan()
    world.live(60.0, tick=5.0)
    assert set(world.states().values()) == {State.VERIFIED}
    world.restart()
    for name in names[-40:]:
        world.write(name, later[name])
    expect_nothing_sent(world)


def test_long_listing_costs_no_search_per_file(world):
    """Each of the files is new, and the listing of the folder is whole."""
    for number in range(LONG):
        world.service.put(b"of a person".ljust(20 + number), f"person {number}.jpg")
    for number in range(200):
        world.write(f"{number}.jpg", b"new".ljust(1000 + number))
    world.scan_and_send()
    assert (len(world.posted()), len(world.service.searches) < 90) == (200, True)


def test_broad_names_are_searched_once_per_listing(world):
    for number in range(2 * ROWS):
        world.service.put(b"of a person".ljust(20 + number), f"person {number}.jpg")
    for number in range(10):
        world.write(f"{'日' * (number + 1)}.jpg", f"new {number}".encode())
    world.service.cap, world.service.states_total = ROWS - 1, True
    world.scan()
    world.live(540.0, tick=5.0)
    assert world.posted() == []
    assert "proves nothing" in (world.row("日.jpg").detail or "")
    assert len([search for search in world.service.searches if search.searchfor == "%.jpg"]) <= 20


def lose_folder(world: World) -> None:
    """Upload files, and let a person add one; then the folder shows nothing any more, and has to be listed anew."""
    for number in range(3):
        world.write(f"{number}.jpg", f"ours {number}".encode())
    world.scan()
    world.live(60.0, tick=5.0)
    put_files(world, ["new.jpg"])
    world.service.posts.clear()
    world.ledger.folder_listings.again("F1")


def expect_new_is_held(world: World) -> None:
    world.scan()
    world.live(300.0, tick=5.0)
    assert (world.posted(), world.row("new.jpg").state) == ([], State.QUEUED)
    assert "F1" in world.ledger.reports.holds(world.clock.now())


def test_moved_asset_does_not_explain_empty_listing(world):
    """The key loses the right to the folder after a person moved one of its assets to another."""
    lose_folder(world)
    next(iter(world.service.assets.values())).folder = "F9"
    world.service.unseen = {"F1"}
    expect_new_is_held(world)


def test_unnamed_folder_does_not_explain_empty_listing(world):
    """A search in all folders shows the assets, and names no folder."""
    lose_folder(world)
    shown, matches = world.service._shown, world.service._matches
    world.service._shown = lambda asset: replace(shown(asset), folder_id="")
    world.service._matches = lambda asset, request: not request.folderid and matches(asset, request)
    expect_new_is_held(world)


def test_empty_listing_without_right_sends_one_file(world):
    """The first file shows whether an empty listing can be believed; until then nothing else is sent."""
    put_files(world, [f"{number}.jpg" for number in range(COUNT)])
    world.service.unseen = {"F1"}
    world.scan()
    world.live(600.0, tick=5.0)
    assert len(world.posted()) <= 1
    world.service.unseen = set()
    world.live(7200.0, tick=5.0)
    assert len(world.posted()) <= 1
    assert set(world.states().values()) == {State.VERIFIED}


def test_lost_answers_without_right_send_each_file_once(world):
    """The service stores each upload, no answer arrives, and the folder shows nothing."""
    for number in range(6):
        world.write(f"{number}.jpg", f"content {number}".encode())
    world.service.unseen = {"F1"}
    world.service.script.extend(["lost_after"] * 50)
    world.scan()
    world.live(30 * GRACE, tick=5.0)
    # The oldest is sent again after one grace and after six, as a lone file that is lost on its way must arrive.
    assert sorted(Counter(world.posted()).values()) == [1, 1, 1, 1, 1, 3]
    world.service.unseen = set()
    world.service.script.clear()
    world.live(100 * GRACE, tick=5.0)
    assert (len(world.posted()), set(world.states().values())) == (8, {State.VERIFIED})


def test_lone_file_lost_on_the_way_to_empty_folder_arrives(world):
    world.write("0.jpg", b"content")
    world.service.script.extend(["lost_before"] * 2)
    world.scan()
    world.live(30 * GRACE, tick=5.0)
    assert (len(world.posted()), set(world.states().values())) == (3, {State.VERIFIED})
