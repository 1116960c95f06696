"""Read back and findable: what `verified` means, and what keeps a file from it."""

import pytest
from structlog.testing import capture_logs

from assetsync.errors import ServiceUnreachable
from assetsync.model import State
from assetsync.sync.context import NullMeter
from assetsync.sync.readback import verifier
from assetsync.sync.requests.retry import Retry
from tests.world import PROBE

VERIFIED, STORED, BLOCKED, IN_DOUBT = State.VERIFIED, State.STORED, State.BLOCKED, State.IN_DOUBT


@pytest.fixture
def sent(make_world):
    """Make a world with files `0`, `1`, … just sent."""

    def make(count: int = 1, *, service: dict | None = None, **said):
        world = make_world(**said)
        for name, value in (service or {}).items():
            setattr(world.service, name, value)
        for number in range(count):
            world.write(f"{number}", f"content {number}".encode())
        world.scan_and_send()
        return world

    return make


def test_unfindable_asset_is_not_verified(sent):
    world = sent(service={"index_lag": 30.0, "index_call": "noop"}, schedule={"index": "20s"})
    world.live(28)
    assert (world.row("0").state, world.row("0").detail) == (STORED, "stored, and not findable through the index yet")
    assert world.shown("0").shown_at is not None
    world.live(30)
    assert (world.row("0").state, world.row("0").detail) == (VERIFIED, None)
    assert world.shown("0").findable_at is not None


def test_assets_listed_with_others_are_searched_for_next(sent, monkeypatch):
    """The index shows most of many assets; for those that it does not show, the folder is listed with all of them."""
    monkeypatch.setattr(verifier, "BATCH", 10)
    world = sent(30, service={"index_lag": None, "index_call": "noop"})
    world.clock.advance(400)
    looked_for_first = {row.assetid for row in world.ledger.read_back.to_verify(world.clock.now(), 7)}
    for asset in world.service.assets.values():
        asset.indexed_at = None if asset.id in looked_for_first else world.clock.now()
    steps = 0
    while world.site.verifier.step().looked:
        steps += 1
    assert [row.state for row in world.ledger.reports.files()].count(VERIFIED) == 23
    assert steps <= 4, "the number of steps"


def rounds_of(world, count: int) -> list[int]:
    """Read back what is due, as often as anything is due again; gives how often each of these rounds lists a folder."""
    listings = []
    for _ in range(count):
        world.service.searches.clear()
        while world.site.verifier.step().looked:
            # Each step takes a moment, and an answer of the index, too.
            world.clock.advance(2)
        listings.append(sum(request.searchfor == "%" for request in world.service.searches))
        world.clock.advance(300)
    return listings


@pytest.mark.parametrize("files", [60, 120])
def test_round_lists_folder_once_without_index(sent, monkeypatch, files):
    """The service stores all files, and its index shows none of them for hours."""
    monkeypatch.setattr(verifier, "BATCH", 10)
    world = sent(files, service={"index_lag": None, "index_call": "noop"})
    world.clock.advance(1200)
    assert rounds_of(world, 4) == [1, 1, 1, 1]
    assert {row.detail for row in world.ledger.reports.files()} == {"stored, and not findable through the index yet"}
    assert sum(map(len, world.site.verifier._listed.values())) == 0
    for asset in world.service.assets.values():
        asset.indexed_at = world.clock.now()
    assert rounds_of(world, 1) == [0]
    assert set(world.states().values()) == {VERIFIED}


def test_asset_lost_after_its_listing_is_doubted(sent, monkeypatch):
    monkeypatch.setattr(verifier, "BATCH", 10)
    world = sent(20, service={"index_lag": None, "index_call": "noop"})
    world.clock.advance(1200)
    world.site.verifier.step()
    world.service.assets.clear()
    world.live(1300, tick=5)
    assert set(world.states().values()) == {BLOCKED}


@pytest.mark.parametrize("said", [{"schedule": {"index": "off"}}, {"policy": {"verified_when": "stored"}}])
def test_without_index_stored_is_verified(sent, said):
    world = sent(service={"index_lag": None}, **said)
    world.live(5)
    assert (world.row("0").state, world.shown("0").findable_at) == (VERIFIED, None)
    assert world.service.indexed == []


def test_unprocessed_asset_waits(sent):
    world = sent(service={"processing": 40.0}, schedule={"index": "20s"})
    world.live(35)
    assert (world.row("0").state, world.row("0").detail) == (STORED, "the service has not processed it yet")
    world.live(40)
    assert world.row("0").state is VERIFIED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda asset: setattr(asset, "content", b"CONTENT 0"), "its MD5 in the service is"),
        (lambda asset: setattr(asset, "content", b"short"), "its MD5 in the service is"),
    ],
)
def test_wrong_asset_blocks_its_file(sent, change, says):
    world = sent()
    change(next(iter(world.service.assets.values())))
    world.live(3)
    row = world.row("0")
    assert (row.state, row.reason) == (BLOCKED, "different")
    assert says in row.detail
    assert "--send-again" in row.detail
    assert len(world.service.posts) == 1


def test_index_shows_asset_in_other_folder(sent):
    world = sent()
    next(iter(world.service.assets.values())).folder = "F9"
    world.live(3)
    assert "folder F9" in world.row("0").detail


def live_while_stored(world) -> None:
    until = world.clock.steady() + 800
    while world.row("0").state is STORED and world.clock.steady() < until:
        world.live(1)


def test_never_shown_id_is_blocked_at_last(sent):
    world = sent()
    hidden = world.service.assets.popitem()[1]
    world.live(660)
    assert (world.row("0").state, world.row("0").detail) == (STORED, "the service does not show it yet")
    live_while_stored(world)
    assert (world.row("0").state, world.row("0").assetid) == (IN_DOUBT, hidden.id)
    world.live(60)
    row = world.row("0")
    assert (row.state, len(world.service.posts)) == (BLOCKED, 1)
    assert hidden.id in row.detail


def test_id_shown_after_doubt_is_verified(sent):
    world = sent()
    assetid, hidden = world.service.assets.popitem()
    live_while_stored(world)
    assert world.row("0").state is IN_DOUBT
    world.service.assets[assetid] = hidden
    world.live(30)
    assert (world.row("0").state, world.row("0").assetid, len(world.service.posts)) == (VERIFIED, assetid, 1)


def test_outage_does_not_count_to_ten_minutes(sent):
    world = sent()
    assetid, hidden = world.service.assets.popitem()
    world.live(100)
    world.service.down = True
    world.live(1200, tick=5)
    world.service.down = False
    world.live(300)
    assert world.row("0").state is STORED
    world.service.assets[assetid] = hidden
    world.live(120)
    assert world.row("0").state is VERIFIED


def test_lost_adopted_asset_is_not_resent(make_world):
    world = make_world()
    theirs = world.service.put(b"content", "theirs")
    world.write("a", b"content")
    world.scan_and_send()
    assert world.row("a").assetid == theirs.id
    world.service.assets.clear()
    world.live(700)
    assert (world.row("a").state, world.row("a").reason, world.service.posts) == (BLOCKED, "unseen", [])


def test_a_hundred_files_cost_one_call(sent):
    world = sent(100)
    world.service.searches.clear()
    verified = world.site.verifier.step()
    assert (verified.looked, verified.confirmed, len(world.service.searches)) == (100, 100, 1)


@pytest.mark.parametrize(
    "service",
    [
        pytest.param({}, id="all are findable"),
        pytest.param({"index_lag": None}, id="none is findable"),
        pytest.param({"index_lag": None, "processing": 1e6}, id="none is processed"),
        pytest.param({"assets": {}}, id="none is shown"),
    ],
)
@pytest.mark.parametrize("waited", [0, 100])
def test_a_step_is_one_commit(sent, clock, service, waited):
    world = sent(20, upload={"workers": "4"})
    commits = world.ledger.store._commits
    for name, value in service.items():
        setattr(world.service, name, value)
    if service:
        for asset in world.service.assets.values():
            asset.indexed_at, asset.processed_at = None, clock.now() + world.service.processing - 1
    clock.advance(waited)
    # The first asset whose name is read back is recorded for its folder.
    world.ledger.folder_listings.named("F1", kept=True)
    world.site.verifier._names["F1"] = True
    before = commits.count
    assert world.site.verifier.step().looked == 20
    assert commits.count - before == 1


def test_a_failed_answer_decides_nothing(sent):
    world = sent()
    world.service.down = True
    with pytest.raises(ServiceUnreachable):
        world.site.verifier.step()
    assert world.row("0").state is STORED


def test_renamed_asset_is_found_by_id(sent):
    world = sent(service={"index_lag": None}, schedule={"index": "off"})
    next(iter(world.service.assets.values())).name = "renamed by a workflow"
    world.live(3)
    assert world.row("0").state is VERIFIED


@pytest.mark.parametrize("is_moved_back", [True, False])
def test_misplaced_asset_is_asked_about(sent, is_moved_back):
    world = sent()
    asset = next(iter(world.service.assets.values()))
    asset.folder = "F2"
    world.live(3)
    row = world.row("0")
    assert (row.state, row.reason) == (State.BLOCKED, "different")
    assert "move it there, or let it lie, and `assetsync retry PATH`" in row.detail
    assert "--send-again" not in row.detail
    asset.folder = "F1" if is_moved_back else "F2"
    world.ledger.decisions.retry(row, world.clock.now())
    world.live(3)
    world.site.drift.step()
    row = world.row("0")
    assert (row.state, row.asset_folder, row.drift is None) == (VERIFIED, asset.folder, is_moved_back)


def test_asset_moved_after_readback_is_kept(sent):
    world = sent()
    world.live(3)
    next(iter(world.service.assets.values())).folder = "F2"
    world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET state = 'blocked', reason = 'different'"))
    world.ledger.decisions.retry(world.row("0"), world.clock.now())
    world.live(3)
    world.site.drift.step()
    row = world.row("0")
    assert (row.state, row.asset_folder, row.drift) == (VERIFIED, "F2", "it lies in another folder of the service: F2")


def test_file_changed_in_readback_keeps_state(sent):
    world = sent()

    def change(_request) -> None:
        world.service.during_search = lambda _request: None
        world.write("0", b"changed meanwhile")
        world.site.intake.look(b"0")

    world.service.during_search = change
    world.site.verifier.step()
    assert world.history("0") == [State.QUEUED, State.SUPERSEDED]


def test_asset_of_unmapped_file_is_verified(sent):
    world = sent(service={"index_lag": 60.0})
    world.restart(folders=[{"path": "elsewhere", "destfolderid": "F1"}])
    world.scan()
    world.live(90)
    assert [row.state for row in world.ledger.reports.files(history=True)] == [VERIFIED]


@pytest.fixture
def adopted(make_world):
    """Make a world whose file `a.jpg` has adopted one of some equal assets that lay in its folder."""

    def make(count: int = 2):
        world = make_world()
        assets = [world.service.put(b"content A", name) for name in ("a.jpg", "copy.jpg")[:count]]
        world.write("keep.jpg", b"other")
        world.write("a.jpg", b"content A")
        world.scan_and_send()
        assert (world.row("a.jpg").assetid, world.posted()) == (assets[0].id, ["keep.jpg"])
        return world, assets

    return make


def retry(world) -> str:
    return world.ask(Retry((b"a.jpg",)))


def unseen(world):
    """Let the file's asset not be shown for so long that the file is blocked; gives the asset."""
    gone = world.service.assets.pop(world.row("a.jpg").assetid)
    world.live(700)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "unseen")
    return gone


def test_unseen_adopted_asset_is_called_found(adopted):
    world, (first, _) = adopted()
    unseen(world)
    assert world.row("a.jpg").detail == (
        f"the asset {first.id} was found in the service, which has not shown it for 10 minutes"
    )


def test_retry_adopts_a_kept_equal_asset(adopted):
    world, (_, kept) = adopted()
    unseen(world)
    assert retry(world) == "1 to be read back again"
    world.live(10)
    row = world.row("a.jpg")
    assert (row.state, row.assetid, world.posted()) == (VERIFIED, kept.id, ["keep.jpg"])


def test_kept_asset_serves_one_equal_file(adopted):
    world, (first, second) = adopted()
    world.write("b.jpg", b"content A")
    world.scan_and_send()
    assert world.row("b.jpg").assetid == second.id
    for asset in (first, second):
        del world.service.assets[asset.id]
    world.live(700)
    kept = world.service.put(b"content A", "kept.jpg")
    world.site.auditor.audit("F1")
    world.ask(Retry())
    world.live(60)
    assert sorted(world.row(path).assetid for path in ("a.jpg", "b.jpg")) == [second.id, kept.id]
    assert world.posted() == ["keep.jpg"]


def test_retry_adopts_an_asset_met_by_audit(adopted):
    world, _ = adopted(1)
    unseen(world)
    came = world.service.put(b"content A", "another.jpg")
    world.site.auditor.audit("F1")
    retry(world)
    world.live(10)
    assert (world.row("a.jpg").assetid, world.posted()) == (came.id, ["keep.jpg"])


def test_only_explicit_retry_resends_known_id(adopted):
    world, _ = adopted(1)
    unseen(world)
    assert retry(world) == "1 to be read back again"
    world.live(10)
    assert world.posted() == ["keep.jpg"]
    world.ask(Retry((b"a.jpg",), send_again=True))
    world.live(10)
    assert (world.row("a.jpg").state, world.posted()) == (VERIFIED, ["keep.jpg", "a.jpg"])


def test_retry_adopts_the_returned_asset(adopted):
    world, _ = adopted(1)
    gone = unseen(world)
    world.service.assets[gone.id] = gone
    retry(world)
    world.live(10)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid, world.posted()) == (VERIFIED, gone.id, ["keep.jpg"])


def test_retry_sends_nothing_for_moved_asset(adopted):
    world, _ = adopted(1)
    gone = unseen(world)
    world.service.assets[gone.id] = gone
    gone.folder, gone.indexed_at = "F2", None
    assert retry(world) == "1 to be read back again"
    world.live(60)
    assert (world.row("a.jpg").assetid, world.posted()) == (gone.id, ["keep.jpg"])


def test_retry_sends_nothing_without_an_answer(adopted):
    world, _ = adopted(1)
    unseen(world)
    world.service.down = True
    assert retry(world) == "1 to be read back again"
    world.service.down = False
    world.live(10)
    assert (world.row("a.jpg").state, world.posted()) == (STORED, ["keep.jpg"])


def test_retry_sends_nothing_without_a_listing(adopted):
    world, (_, kept) = adopted()
    unseen(world)
    world.fail_for("F1", listings_only=True)
    retry(world)
    world.live(10)
    assert world.posted() == ["keep.jpg"]
    world.service.during_search = lambda _request: None
    world.live(900, tick=5)
    assert (world.row("a.jpg").assetid, world.posted()) == (kept.id, ["keep.jpg"])


def test_unfinished_retry_resumes_at_start(adopted):
    world, (_, kept) = adopted()
    unseen(world)
    retry(world)
    world.restart()
    world.live(10)
    assert (world.row("a.jpg").assetid, world.posted()) == (kept.id, ["keep.jpg"])


def test_retry_of_missed_asset_adopts_equal(adopted):
    world, (first, kept) = adopted()
    world.live(5)
    world.clock.advance(60)
    del world.service.assets[first.id]
    world.site.auditor.audit("F1")
    assert world.row("a.jpg").reason == "missing"
    retry(world)
    world.live(10)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (VERIFIED, kept.id)
    assert world.posted() == ["keep.jpg"]


def test_retry_of_missed_asset_looks_it_up(adopted):
    world, (first,) = adopted(1)
    world.live(5)
    world.clock.advance(60)
    gone = world.service.assets.pop(first.id)
    world.site.auditor.audit("F1")
    assert retry(world) == "1 missing, to be looked for again"
    world.live(60)
    world.service.assets[gone.id] = gone
    world.live(60)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid, world.posted()) == (VERIFIED, gone.id, ["keep.jpg"])


@pytest.mark.parametrize("was_sent", [True, False])
def test_missing_asset_stays_so_during_lookup(adopted, was_sent):
    """An asset that a retry looks for again counts as missing until it is found, and is blocked again otherwise."""
    world, _ = adopted(1)
    path = "a.jpg"
    if was_sent:
        path = "b.jpg"
        world.write(path, b"content B")
        world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    del world.service.assets[world.row(path).assetid]
    world.site.auditor.audit("F1")
    assert world.ask(Retry((path.encode(),))) == "1 missing, to be looked for again"
    world.live(60)
    assert (world.row(path).state, world.row(path).detail) == (STORED, "missing, and looked for again")
    world.live(2000, tick=2)
    row = world.row(path)
    assert (row.state, row.reason) == (BLOCKED, "missing")
    posted = len(world.service.posts)
    world.ask(Retry((path.encode(),), send_again=True))
    world.live(60)
    assert (world.row(path).state, world.row(path).reason) == (VERIFIED, None)
    assert len(world.service.posts) == posted + 1


def moved_before_it_was_read_back(make_world):
    """Give a world whose only asset was moved before it was ever read back, and that the index does not show."""
    world = make_world()
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    asset.folder = "ARCHIVE"
    return world


def test_failed_global_lookup_doubts_no_id(make_world):
    """A search of all folders that fails proves nothing; it is repeated, and judged once it is answered."""
    world = moved_before_it_was_read_back(make_world)
    asked = []

    def fail(request) -> None:
        if request.folderid is None and request.dbdirect:
            asked.append(request.searchfor)
            raise ServiceUnreachable("no answer in time")

    world.service.during_search = fail
    world.live(800, tick=2)
    assert "cannot be looked up in all folders" in world.row("a.jpg").detail
    world.live(760, tick=2)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (STORED, 1)
    assert 1 < len(asked) < 20
    world.service.during_search = lambda _request: None
    world.live(900, tick=2)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "different")


@pytest.fixture
def unseen_for_long(sent, monkeypatch):
    """Make a world whose folder has not shown any of 30 assets for so long that they are due in all folders.

    Gives what is searched for in all folders; each such search takes `takes` seconds, and those in `failing` fail.
    """

    def make(takes: float, failing: set[str]):
        monkeypatch.setattr(verifier, "BATCH", 10)
        world = sent(30, service={"index_lag": None, "index_call": "noop"})
        world.service.assets.clear()
        asked: list[str] = []

        def look(request) -> None:
            if request.folderid is None and request.dbdirect and request.searchfor != PROBE:
                asked.append(request.searchfor)
                world.clock.advance(takes)
                if request.searchfor in failing:
                    raise ServiceUnreachable("no answer in time")

        world.service.during_search = look
        world.clock.advance(100)
        while not asked:
            world.site.verifier.step()
            world.clock.advance(0 if asked else 10)
        return world, asked

    return make


def names_in(world, state: State) -> set[str]:
    return {name for name, each in world.states().items() if each is state}


def test_hanging_search_is_tried_once_a_step(unseen_for_long):
    world, asked = unseen_for_long(300.0, {f"{number}" for number in range(30)})
    assert len(asked) == 1
    rows = list(world.ledger.reports.files())
    is_left = [row for row in rows if "cannot be looked up in all folders" in row.detail]
    assert len(is_left) == 30
    assert {round(row.due_at - world.clock.now()) for row in is_left} == {60}


def test_look_ups_in_all_folders_end_after_minute(unseen_for_long):
    world, asked = unseen_for_long(25.0, set())
    # Each asset costs two searches, because some releases show unprocessed assets only on request.
    assert (len(asked), len(names_in(world, IN_DOUBT))) == (4, 2)
    left = world.row(min(names_in(world, STORED)))
    assert left.detail == "its folder does not show it; it is looked up in all folders next"
    for _ in range(14):
        world.site.verifier.step()
    assert (len(asked), len(names_in(world, IN_DOUBT))) == (60, 30)


def test_failing_search_does_not_hold_up_others(unseen_for_long):
    """Two searches never succeed; each step ends with one of them."""
    world, _ = unseen_for_long(1.0, {"0", "1"})
    for _ in range(4):
        world.clock.advance(61)
        world.site.verifier.step()
    assert names_in(world, STORED) == {"0", "1"}


def test_moved_asset_waits_for_the_index(make_world):
    """An asset found in another folder by the database is verified once the index shows it."""
    world = make_world()
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    (asset,) = world.service.assets.values()
    world.service.assets.clear()
    world.site.auditor.audit("F1")
    world.service.assets[asset.id] = asset
    asset.folder, asset.indexed_at, world.service.index_call = "ARCHIVE", None, "noop"
    retry(world)
    world.live(1500, tick=2)
    row = world.row("a.jpg")
    assert (row.state, row.asset_folder, world.shown("a.jpg").findable_at) == (STORED, "ARCHIVE", None)
    asset.indexed_at = world.clock.now()
    world.live(120, tick=2)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


def test_retry_skips_a_copy_missed_by_audit(adopted):
    world, (first, kept) = adopted()
    world.live(5)
    world.clock.advance(60)
    for asset in (first, kept):
        del world.service.assets[asset.id]
    world.site.auditor.audit("F1")
    assert retry(world) == "1 missing, to be looked for again"
    assert world.row("a.jpg").assetid == first.id


def test_adopted_asset_met_by_audit_is_read_back(adopted):
    world, _ = adopted(1)
    gone = unseen(world)
    world.service.assets[gone.id] = gone
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.live(10)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid, world.posted()) == (VERIFIED, gone.id, ["keep.jpg"])


def test_moved_asset_is_searched_by_sent_name(make_world):
    world = moved_before_it_was_read_back(make_world)
    (world.root / "a.jpg").rename(world.root / "b.jpg")
    world.scan_and_send()
    world.live(1500, tick=2)
    row = world.row("b.jpg")
    assert (row.state, row.reason, row.asset_folder) == (BLOCKED, "different", "ARCHIVE")
    assert len(world.service.posts) == 1


def test_asset_found_again_counts_once(world):
    for name in "abcd":
        world.write(name, name.encode())
    world.scan_and_send()
    world.live(150)
    before = world.row("a")
    del world.service.assets[before.assetid]
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.service.put(b"a", "a")
    world.ask(Retry((b"a",)))
    world.live(1500, tick=10)
    found = world.row("a")
    assert (found.state, found.assetid != before.assetid) == (State.VERIFIED, True)
    assert found.uploaded_at == before.uploaded_at
    assert sum(hour.uploads for hour in world.ledger.hourly_stats.last(24, world.clock.now())) == 4


def save_and_step(world, name: str):
    world.write(name, name.encode())
    world.scan_and_send()
    return world.site.verifier.step()


def test_service_without_known_assets_is_audited_once(sent):
    world = sent(3)
    world.live(3)
    assert world.site.pending_audits.folders() == []
    known = dict(world.service.assets)
    world.service.assets.clear()
    assert save_and_step(world, "new").wants_audit
    assert world.site.pending_audits.folders() != []
    world.service.assets.clear()
    assert not save_and_step(world, "newer").wants_audit
    world.service.assets |= known
    assert not save_and_step(world, "newest").wants_audit


def test_one_shown_sample_is_enough(sent):
    world = sent(3)
    world.live(3)
    del world.service.assets[world.row("0").assetid], world.service.assets[world.row("1").assetid]
    assert not save_and_step(world, "new").wants_audit


def test_index_that_is_not_needed_requests_no_audit(sent):
    world = sent(3, policy={"verified_when": "stored"}, service={"index_lag": None})
    world.live(3)
    assert not save_and_step(world, "new").wants_audit


class FindableMeter(NullMeter):
    """A meter that counts assets that became findable."""

    def __init__(self):
        self.count = 0

    def findable(self, _seconds: float) -> None:
        self.count += 1


@pytest.mark.parametrize("shown", [1, 12])
def test_file_shown_by_the_index_is_counted_once(make_world, shown):
    """The folder is listed for the files that the index lacks; due files of the folder are then read back, too."""
    world = make_world()
    world.meter = meter = FindableMeter()
    for number in range(25):
        world.write(f"{number}", f"content {number}".encode())
    world.scan_and_send()
    for asset in list(world.service.assets.values())[shown:]:
        asset.indexed_at = None
    with capture_logs() as logs:
        result = world.site.verifier.step()
    lines = [entry["path"] for entry in logs if entry["event"] == "verified"]
    assert (len(lines), len(set(lines)), meter.count) == (shown, shown, shown)
    assert (result.looked, result.confirmed) == (25, shown)
