"""First contact: what lies in a folder is compared before anything is sent, or waited for until it can be."""

from dataclasses import replace

import pytest

from assetsync.errors import ServiceUnreachable
from assetsync.ledger.folders import Hold
from assetsync.model import State
from assetsync.reconcile import Reconciler
from assetsync.sync.upload.folder_listing import Unlisted
from tests.world import PROBE

DAY = 24 * 3600.0


class CachedFolder:
    """Nobody who watches."""

    def phase(self, name: str, total: int | None = None) -> None:
        pass

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        pass


def working_on(world, content: bytes, name: str, seconds: float = 600.0):
    world.service.processing = seconds
    asset = world.service.put(content, name)
    world.service.processing = 0.0
    return asset


def test_folder_is_listed_once_before_posts(world):
    for number in range(3):
        world.write(f"{number}", f"{number}".encode())
    world.scan_and_send()
    listings = [search for search in world.service.searches if search.searchfor == "%"]
    assert [search.available for search in listings] == 2 * ["0", None], "empty, and once more with the first file"
    world.write("later", b"later")
    world.scan_and_send()
    assert [search for search in world.service.searches if search.searchfor == "%"] == listings


def test_lost_answer_lets_no_second_file_go(world):
    """The ledger is lost, and the folder that holds both files shows nothing for a while."""
    for name in ("a.jpg", "b.jpg"):
        world.write(name, name.encode())
    world.scan()
    world.live(60)
    world.close()
    for ending in ("", "-wal", "-shm"):
        world.ledger_path.with_name(world.ledger_path.name + ending).unlink(missing_ok=True)
    world.service.posts.clear()
    world.service.unseen = {"F1"}
    world.service.script.append("lost_after")
    world.scan()
    world.live(15)
    assert len(world.posted()) == 1
    world.service.unseen = set()
    world.live(60)
    assert (len(world.posted()), set(world.states().values())) == (1, {State.VERIFIED})


def test_file_waits_for_namesake_of_folded_blanks(world):
    world.service.folds_blanks = True
    working_on(world, b"film", "a  film.mp4")
    world.write("a  film.mp4", b"film")
    world.scan_and_send()
    assert world.posted() == []


def test_file_waits_for_processing_namesake(world):
    asset = working_on(world, b"film", "film.mp4")
    world.write("film.mp4", b"film")
    world.write("other.mp4", b"another")
    world.scan_and_send()
    assert world.posted() == ["other.mp4"]
    assert asset.id in (world.row("film.mp4").detail or "")
    world.live(700)
    assert (world.row("film.mp4").assetid, world.posted()) == (asset.id, ["other.mp4"])


def test_file_is_sent_after_unequal_namesake(world):
    working_on(world, b"a stranger", "film.mp4")
    world.write("film.mp4", b"film")
    world.scan()
    world.live(700)
    assert world.posted() == ["film.mp4"]
    assert world.states() == {"film.mp4": State.VERIFIED}


@pytest.mark.parametrize(("shown", "waits"), [("FILM.MP4", True), ("film?.mp4", False), ("my film.mp4", False)])
def test_only_a_possible_name_is_waited_for(world, shown, waits):
    working_on(world, b"film", shown)
    world.write("film.mp4", b"film")
    world.scan_and_send()
    assert world.posted() == ([] if waits else ["film.mp4"])


def test_non_ascii_name_waits_in_service_form(world):
    working_on(world, b"film", "f?lm.mp4")
    world.write("f\u0131lm.mp4", b"film")
    world.scan_and_send()
    assert world.posted() == []


def test_a_restart_goes_on_waiting(world):
    working_on(world, b"film", "film.mp4")
    world.write("film.mp4", b"film")
    world.scan_and_send()
    world.restart()
    world.clock.advance(61)
    world.send()
    assert world.posted() == []
    world.live(700)
    assert world.posted() == []
    assert world.states() == {"film.mp4": State.VERIFIED}


def test_removed_asset_is_not_waited_for(world):
    asset = working_on(world, b"film", "film.mp4")
    world.write("film.mp4", b"film")
    world.scan_and_send()
    del world.service.assets[asset.id]
    world.live(130)
    assert world.posted() == ["film.mp4"]


def test_stuck_namesake_is_a_manual_decision(world):
    asset = working_on(world, b"film", "film.mp4", 1000 * DAY)
    world.write("film.mp4", b"film")
    world.scan_and_send()
    world.clock.advance(DAY + 1)
    world.send()
    row = world.row("film.mp4")
    assert (row.state, row.reason) == (State.BLOCKED, "unprocessed")
    assert asset.id in (row.detail or "")
    world.ledger.decisions.send_again(row, world.clock.now())
    world.send()
    assert world.posted() == ["film.mp4"]


def test_stuck_namesake_is_retried_each_run(world):
    asset = working_on(world, b"film", "film.mp4", 3 * DAY)
    world.write("film.mp4", b"film")
    world.scan_and_send()
    world.clock.advance(DAY + 1)
    world.send()
    for blocked in (1, 1, 0):
        report = Reconciler(world.site, wait=0, adopt=False, progress=CachedFolder()).run()
        assert report.blocked == blocked
        world.clock.advance(DAY)
    assert (world.row("film.mp4").assetid, world.posted()) == (asset.id, [])


def test_unsent_retry_waits_like_a_first_try(world):
    world.write("film.mp4", b"film")
    world.service.script.append("unreachable")
    world.scan_and_send()
    assert (world.row("film.mp4").state, world.row("film.mp4").attempts) == (State.QUEUED, 1)
    working_on(world, b"film", "film.mp4")
    world.ledger.folder_listings.again("F1")
    world.live(700)
    assert world.states() == {"film.mp4": State.VERIFIED}
    assert len(world.service.assets) == 1


def test_manual_absence_outranks_processing(world):
    world.write("film.mp4", b"film")
    world.service.script.append("lost_before")
    world.scan_and_send()
    working_on(world, b"film of a stranger", "film.mp4")
    world.ledger.decisions.resolve_as_absent(world.row("film.mp4"), world.clock.now())
    world.live(5)
    assert world.posted() == ["film.mp4", "film.mp4"]


@pytest.fixture
def audited(make_world):
    """Make a world in which hand-made assets `by hand 0`, `by hand 1`, … are known to an audit, and files are not."""

    def make(count: int = 1):
        world = make_world()
        world.service.put(b"there", "there")
        world.write("keep.jpg", b"other")
        world.scan_and_send()
        world.live(5)
        for number in range(count):
            world.service.put(f"by hand {number}".encode(), f"{number}.jpg")
        audit(world)
        return world

    return make


def audit(world):
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.clock.advance(60)


def by_hand(world, number: int = 0):
    return next(asset for asset in world.service.assets.values() if asset.content == f"by hand {number}".encode())


def put_into_the_tree(world, count: int = 1) -> None:
    for number in range(count):
        world.write(f"{number}.jpg", f"by hand {number}".encode())
    world.scan_and_send()
    world.live(5)


def listings(world):
    return len([search for search in world.service.searches if search.searchfor == "%" and search.available is None])


def test_asset_missed_by_audit_is_not_adopted(audited):
    world = audited()
    del world.service.assets[by_hand(world).id]
    audit(world)
    put_into_the_tree(world)
    assert (world.posted(), world.row("0.jpg").state) == (["keep.jpg", "0.jpg"], State.VERIFIED)


def test_missed_namesake_requires_no_question(audited):
    world = audited()
    world.ledger.store.write(lambda conn: conn.execute("UPDATE assets SET md5 = NULL"))
    del world.service.assets[by_hand(world).id]
    audit(world)
    put_into_the_tree(world)
    assert (world.posted(), world.row("0.jpg").state) == (["keep.jpg", "0.jpg"], State.VERIFIED)


def test_asset_processed_in_audit_is_adopted(audited):
    world = audited()
    asset = by_hand(world)
    asset.processed_at = world.clock.now() + 90
    audit(world)
    put_into_the_tree(world)
    assert (world.row("0.jpg").assetid, world.posted()) == (asset.id, ["keep.jpg"])


def test_reprocessed_asset_is_waited_for(audited):
    world = audited()
    asset = by_hand(world)
    asset.processed_at = world.clock.now() + 600
    audit(world)
    put_into_the_tree(world)
    assert world.posted() == ["keep.jpg"]
    world.live(900)
    assert (world.row("0.jpg").assetid, world.posted()) == (asset.id, ["keep.jpg"])


def test_clock_setback_hides_no_met_asset(audited):
    world = audited()
    asset = by_hand(world)
    asset.processed_at = asset.indexed_at = 0.0
    world.clock.set_now(world.clock.now() - DAY)
    world.ledger.assets.record([world.service._shown(asset)], 1, world.clock.now())
    put_into_the_tree(world)
    assert (world.row("0.jpg").assetid, world.posted()) == (asset.id, ["keep.jpg"])


def test_equal_asset_met_by_audit_is_adopted(audited):
    world = audited()
    kept = world.service.put(b"by hand 0", "copy.jpg")
    audit(world)
    del world.service.assets[by_hand(world).id]
    audit(world)
    before = listings(world)
    put_into_the_tree(world)
    assert (world.row("0.jpg").assetid, world.posted(), listings(world)) == (kept.id, ["keep.jpg"], before)


def test_missed_assets_share_one_new_listing(audited):
    world = audited(8)
    for number in range(8):
        del world.service.assets[by_hand(world, number).id]
    audit(world)
    before = listings(world)
    put_into_the_tree(world, 8)
    assert set(world.states().values()) == {State.VERIFIED}
    assert (len(world.posted()), listings(world)) == (9, before + 1)


def test_file_waits_for_the_repeated_listing(audited):
    world = audited()
    del world.service.assets[by_hand(world).id]
    audit(world)
    world.write("0.jpg", b"by hand 0")
    world.scan()
    world.fail_for("F1", listings_only=True)
    world.live(5)
    assert world.posted() == ["keep.jpg"]
    world.service.during_search = lambda _request: None
    world.live(900, tick=5)
    assert world.posted() == ["keep.jpg", "0.jpg"]


def test_asset_met_during_listing_is_adopted(audited):
    world = audited()
    asset = by_hand(world)
    asset.processed_at = world.clock.now() + 90
    audit(world)
    contacts, doubts = world.ledger.folder_listings, world.ledger.doubts
    missed = contacts.missed("F1", 10)
    assert missed.keys() == {asset.id}
    world.ledger.assets.record([world.service._shown(asset)], doubts.newest_attempt(), world.clock.now())
    contacts.not_there(missed)
    assert contacts.missed("F1", 10) == {}
    put_into_the_tree(world)
    assert (world.row("0.jpg").assetid, world.posted()) == (asset.id, ["keep.jpg"])


def test_relisting_request_outlasts_a_worker(make_world):
    """A folder is to be listed again while a worker lists it: the request outlives that listing."""
    world = make_world()
    world.service.put(b"there", "there")
    contact = world.site.folder_listing

    def ask_and_come_by(_request) -> None:
        world.service.during_search = lambda _request: None
        world.ledger.folder_listings.again("F1")
        with pytest.raises(Unlisted):
            contact.ensure("F1")

    world.service.during_search = ask_and_come_by
    contact.ensure("F1")
    before = len(world.service.searches)
    contact.ensure("F1")
    assert len(world.service.searches) > before
    assert not world.ledger.folder_listings.needed("F1")
    before = len(world.service.searches)
    contact.ensure("F1")
    assert len(world.service.searches) == before


def test_relisting_lets_no_second_first_file_in(world):
    """The folder is listed again while the first file is sent, and a worker has taken another file before."""
    for path in ("first.jpg", "second.jpg"):
        world.write(path, path.encode())
    listing, refused = world.site.folder_listing, []

    def list_again(request) -> None:
        world.service.during_upload = lambda _request: None
        world.ledger.folder_listings.again("F1")
        listing.ensure("F1")
        other = "first.jpg" if request.filename == "second.jpg" else "second.jpg"
        with pytest.raises(Unlisted):
            listing.shows_of(world.row(other))
        refused.append(other)

    world.service.during_upload = list_again
    world.scan_and_send()
    assert len(refused) == 1


def test_relisting_request_outlasts_a_restart(make_world):
    world = make_world()
    world.service.during_search = lambda _request: world.ledger.folder_listings.again("F1")
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    assert world.ledger.folder_listings.needed("F1")


def test_settled_version_is_not_missed(make_world):
    world = make_world()
    world.write("a.jpg", b"content A")
    world.write("b.jpg", b"content B")
    world.scan_and_send()
    world.live(5)
    assetid = world.row("a.jpg").assetid
    (world.root / "a.jpg").unlink()
    world.scan()
    shown = world.service._shown(world.service.assets[assetid])
    world.ledger.assets.record([shown], world.ledger.doubts.newest_attempt(), world.clock.now())
    audit(world)
    assert not world.ledger.equal_content.is_missed(assetid)
    assert world.ledger.folder_listings.missed("F1", 10) == {}


@pytest.fixture
def ignoring(world):
    """Give a world whose service shows all folders, whichever it is asked for; the mapped one is not empty."""
    world.service.put(b"there", "there")
    matches = world.service._matches
    world.service._matches = lambda asset, request: matches(asset, replace(request, folderid=None))
    return world


def test_unprocessed_assets_of_other_folders_hold_nothing_up(ignoring):
    ignoring.service.processing = 1e9
    ignoring.service.put(b"film", "film.mp4", "F9")
    ignoring.service.processing = 0.0
    ignoring.write("film.mp4", b"film")
    ignoring.scan_and_send()
    assert ignoring.posted() == ["film.mp4"]


def test_assets_of_other_folders_are_not_noted(ignoring):
    """What is noted would be taken for what lay in this folder: a stranger of it, or ours that was moved there."""
    ignoring.service.put(b"a stranger", "stranger.mp4", "F9")
    ignoring.write("film.mp4", b"film")
    ignoring.scan_and_send()
    assert ignoring.ledger.store.column("SELECT name FROM unowned") == ["there"]
    ignoring.live(60)
    (ours,) = (asset for asset in ignoring.service.assets.values() if asset.name == "film.mp4")
    ours.folder = "F9"
    ignoring.ledger.folder_listings.again("F1")
    ignoring.write("next.mp4", b"next")
    ignoring.scan_and_send()
    assert ignoring.row("film.mp4").asset_folder == "F1"


# A folder that cannot be listed is tried again soon, whatever its last try took.


@pytest.fixture
def held(make_world):
    """A world with a folder that is held for half an hour, because its listing took five minutes to fail."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    world.write("F1/a")
    world.fail_for("F1", listings_only=True, takes=300.0)
    world.scan_and_send()
    assert world.ledger.reports.holds(world.clock.now())["F1"].until > world.clock.now() + 1000
    return world


def test_hold_ends_with_the_first_good_listing(held):
    held.site.folder_listing.try_held()
    assert "F1" in held.ledger.reports.holds(held.clock.now())
    held.service.during_search = lambda _request: None
    held.clock.advance(25)
    held.site.folder_listing.try_held()
    assert held.ledger.reports.holds(held.clock.now()) == {}
    held.send()
    assert held.posted() == ["a"]


def test_held_folder_is_tried_every_ten_seconds(held):
    asked = held.fail_for("F1", listings_only=True)
    for _ in range(3):
        held.site.folder_listing.try_held()
        held.clock.advance(5)
    assert len(set(asked)) == 2


def test_recovered_folder_of_many_is_tried_within_a_minute(make_world):
    """Thirty folders hang, each for as long as it is waited for, and one of them answers again."""
    names = [f"F{number}" for number in range(30)]
    world = make_world(folders=[{"path": name, "destfolderid": name} for name in names])
    for name in names:
        until = world.clock.now() + 3000
        world.ledger.queue.hold_folder(name, Hold("unlisted", "why", world.clock.now(), until))

    def hang(request) -> None:
        if request.folderid != recovered:
            world.clock.advance(request.patience)
            raise ServiceUnreachable("the service did not answer in time")

    world.service.during_search, recovered = hang, None
    for _ in range(40):
        world.site.folder_listing.try_held()
        world.clock.advance(0.25)
    recovered, began = "F13", world.clock.steady()
    while "F13" in world.ledger.reports.holds(world.clock.now()):
        world.site.folder_listing.try_held()
        world.clock.advance(0.25)
    assert world.clock.steady() - began < 60


def test_endless_listing_of_a_held_folder_is_given_up(held):
    held.service.during_search = lambda request: held.clock.advance(16 * (request.searchfor == "%"))
    held.service.put(b"there", "there", "F1")
    held.site.folder_listing.try_held()
    assert "F1" in held.ledger.reports.holds(held.clock.now())
    assert held.service.searches[-1].patience == 15


def test_slow_try_of_a_held_folder_delays_the_next(held):
    held.service.during_search = lambda request: held.clock.advance(16 * (request.searchfor == "%"))
    held.service.put(b"there", "there", "F1")
    tried = []
    for seconds in (0, 20, 10):
        held.clock.advance(seconds)
        before = len(held.service.searches)
        held.site.folder_listing.try_held()
        tried.append(len(held.service.searches) > before)
    assert tried == [True, False, True]


def test_slow_listing_of_the_past_holds_no_listed_folder(held):
    """A worker's listing that hangs from before the folder was listed anew does not hold it again."""
    held.clock.advance(3601)
    being_listed = []

    def fail_late(request) -> None:
        if request.folderid == "F1" and request.searchfor == "%":
            held.service.during_search = lambda _request: None
            held.clock.advance(1)
            held.ledger.queue.hold_folder("F1", Hold("unlisted", "why", held.clock.now(), held.clock.now() + 60))
            being_listed.append([*held.site.folder_listing.closed(())])
            held.site.folder_listing.try_held()
            being_listed.append([*held.site.folder_listing.closed(())])
            raise ServiceUnreachable("the service did not answer in time")

    held.service.during_search = fail_late
    held.send()
    assert held.ledger.reports.holds(held.clock.now()) == {}
    assert being_listed == [["F1"], []]


def test_search_behind_a_held_listing_is_impatient(make_world):
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    world.write("F1/a", b"a")
    world.scan_and_send()
    world.live(60)
    for asset in world.service.assets.values():
        asset.folder = "elsewhere"
    world.write("F1/b", b"b")
    world.scan()
    world.ledger.queue.hold_folder("F1", Hold("unlisted", "why", world.clock.now(), world.clock.now() + 60))
    before = len(world.service.searches)
    world.site.folder_listing.try_held()
    asked = [search for search in world.service.searches[before:] if search.searchfor != PROBE]
    assert [search.searchfor for search in asked] == ["%", "%", "a"]
    assert {search.patience for search in asked} == {15}


# A listing that holds up uploads is reported while it runs.


def holds_during_listing(world, seconds: float, *, fails: bool = False) -> list[dict[str, Hold]]:
    """Send while the listing of F1 takes so long; return the holds that a reader of the ledger sees meanwhile."""
    seen = []

    def slow(request) -> None:
        if request.folderid == "F1" and request.searchfor == "%" and not seen:
            world.clock.advance(seconds)
            world.site.runtime_state.note()
            seen.append(world.ledger.reports.holds(world.clock.now()))
            if fails:
                raise ServiceUnreachable("the service did not answer in time")

    world.service.during_search = slow
    world.send()
    return seen


@pytest.fixture
def unlisted(make_world):
    """A world with a file for a folder that was never listed."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    world.write("F1/a")
    world.scan()
    return world


@pytest.mark.parametrize(("seconds", "reported"), [(29, []), (31, ["F1"])])
def test_slow_listing_is_reported_as_held(unlisted, seconds, reported):
    (seen,) = holds_during_listing(unlisted, seconds)
    assert sorted(seen) == reported
    assert all("has been running since" in hold.detail for hold in seen.values())


def test_end_of_a_slow_listing_ends_its_report(unlisted):
    (seen,) = holds_during_listing(unlisted, 31)
    assert (sorted(seen), unlisted.ledger.reports.holds(unlisted.clock.now())) == (["F1"], {})
    assert unlisted.posted() == ["a"]


def test_failed_slow_listing_is_held_for_its_failure(unlisted):
    (seen,) = holds_during_listing(unlisted, 31, fails=True)
    after = unlisted.ledger.reports.holds(unlisted.clock.now())["F1"]
    assert "did not answer in time" in after.detail
    assert after.detail != seen["F1"].detail


def test_outage_ends_the_report_of_a_slow_listing(unlisted):
    def fail(request) -> None:
        unlisted.clock.advance(31)
        unlisted.site.runtime_state.note()
        seen.update(unlisted.ledger.reports.holds(unlisted.clock.now()))
        raise ServiceUnreachable("the service did not answer in time")

    seen = {}
    unlisted.service.during_search = fail
    unlisted.send()
    assert (sorted(seen), unlisted.ledger.reports.holds(unlisted.clock.now())) == (["F1"], {})
    assert unlisted.site.gates.closed is not None


def test_slow_listing_is_not_made_twice(unlisted):
    asked = []

    def slow(request) -> None:
        if request.folderid == "F1" and request.searchfor == "%":
            asked.append(request.patience)
            unlisted.clock.advance(31)
            unlisted.site.runtime_state.note()
            assert "F1" in unlisted.ledger.reports.holds(unlisted.clock.now())
            unlisted.site.folder_listing.try_held()

    unlisted.service.during_search = slow
    unlisted.send()
    assert asked == [None, None]
