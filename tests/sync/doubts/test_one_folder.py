"""A folder that the service does not answer for, while it does for others, holds up its own files and no more."""

import threading
import time

import pytest

from assetsync.core.read_back import INDEX_LAG
from assetsync.errors import BadAnswer, ServiceError, ServiceUnreachable
from assetsync.ledger.folders import Hold
from assetsync.model import State
from assetsync.sync.upload.queue import Step

FOLDERS = ("F0", "F1", "F2")
PROBE = "assetsync-probe"
EACH = 5


@pytest.fixture
def world(make_world):
    """Give a world with some files for each of three folders."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in FOLDERS])
    for folder in FOLDERS:
        for number in range(EACH):
            world.write(f"{folder}/{number}", f"{folder} {number}".encode())
    return world


def hang_for(world, folder: str) -> tuple[threading.Event, threading.Event]:
    """Let the look-ups of a folder hang: gives what is set when one does, and what lets them go on."""
    hangs, go_on = threading.Event(), threading.Event()

    def hang(request) -> None:
        if request.folderid == folder:
            hangs.set()
            assert go_on.wait(20)

    world.service.during_search = hang
    return hangs, go_on


def answer(world) -> None:
    world.service.during_search = lambda _request: None


def keep_back(world) -> None:
    """Let the service work for ever on an asset of the name of each file for F0, so that these wait."""
    world.service.processing = 1e9
    for number in range(EACH):
        world.service.put(b"x", str(number), "F0")
    world.service.processing = 0.0
    world.scan()
    world.live(30)


def sent(world) -> dict[str, int]:
    return {folder: sum(post.destfolderid == folder for post in world.service.posts) for folder in FOLDERS}


def held(world) -> list[str]:
    return list(world.ledger.reports.holds(world.clock.now()))


@pytest.mark.parametrize("probes", [False, True], ids=["probes_are_answered", "nothing_is"])
@pytest.mark.parametrize("failing", [("F0",), ("F1",), ("F0", "F1")], ids="-".join)
def test_unlistable_folder_is_held_alone(world, failing, probes):
    asked = world.fail_for(*failing, probes=probes)
    world.scan()
    world.live(120)
    assert sent(world) == {folder: 0 if folder in failing else EACH for folder in FOLDERS}
    assert (sorted(held(world)), world.site.gates.closed) == (sorted(failing), None)
    asked.clear()
    world.live(3600, tick=5.0)
    # One look-up of each in five minutes, and where a probe fails with it, that too.
    assert len(asked) <= len(failing) * (1 + probes) * 13
    answer(world)
    world.live(310 + 60)
    assert (set(world.states().values()), held(world)) == ({State.VERIFIED}, [])
    assert sent(world) == dict.fromkeys(FOLDERS, EACH)


def test_unlistable_folder_keeps_its_reason(world, clock):
    world.fail_for("F0")
    world.scan_and_send()
    why = "it is listed before anything is sent there, and that fails: the service did not answer in time"
    for now in (clock.now(), clock.now() + 1000):
        assert {folder: hold.detail for folder, hold in world.ledger.reports.holds(now).items()} == {"F0": why}


def test_unlistable_folder_obeys_retry_after(world):
    asked = world.fail_for("F0", retry_after=200.0)
    world.scan()
    world.live(190)
    assert len(asked) == 1
    world.live(20)
    assert len(asked) == 2


def test_unlistable_folder_waits_an_hour_at_most(world, clock):
    """The first listing that is answered ends the wait."""
    world.fail_for("F0", retry_after=3600.0)
    world.scan()
    world.send()
    assert world.ledger.reports.holds(clock.now())["F0"].until == clock.now() + 3600
    answer(world)
    clock.advance(60)
    world.site.folder_listing.try_held()
    assert held(world) == []


def test_failure_of_all_folders_pauses_site(world):
    world.fail_for(*FOLDERS, probes=True)
    world.scan()
    world.live(60)
    assert (world.site.gates.closed.reason, held(world)) == ("unreachable", [])
    answer(world)
    world.live(120)
    assert set(world.states().values()) == {State.VERIFIED}


def test_release_lists_a_folder_at_once(world, clock):
    world.fail_for("F0")
    world.scan()
    world.live(600)
    answer(world)
    world.ledger.queue.release_folders(clock.now())
    world.live(5)
    assert sent(world)["F0"] == EACH


def test_slow_listing_delays_no_other_folder(world):
    listing, go_on = hang_for(world, "F0")
    world.scan()
    hanging = threading.Thread(target=world.site.uploader.step)
    hanging.start()
    assert listing.wait(20)
    began = time.monotonic()
    world.send()
    assert (sent(world), world.site.uploader.step()) == ({"F0": 0, "F1": EACH, "F2": EACH}, Step.IDLE)
    assert time.monotonic() - began < 15
    go_on.set()
    hanging.join()
    world.send()
    assert sent(world) == dict.fromkeys(FOLDERS, EACH)


def test_failed_second_listing_holds_folder(world):
    keep_back(world)
    asked = world.fail_for("F0")
    world.live(60)
    assert (held(world), len(asked) > 0) == (["F0"], True)
    asked.clear()
    world.live(3600)
    assert 10 <= len(asked) <= 16
    assert sent(world) == {"F0": 0, "F1": EACH, "F2": EACH}


def test_files_awaiting_a_listing_are_postponed(world):
    keep_back(world)
    listing, go_on = hang_for(world, "F0")
    world.clock.advance(60)
    # A folder that accepted none would take one file at a time.
    world.site.gates.doubts.anew()
    world.site.gates.accepted("F0")
    hanging = threading.Thread(target=world.site.uploader.step)
    hanging.start()
    assert listing.wait(20)
    assert world.send() == EACH - 1
    details = [world.row(f"F0/{number}").detail for number in range(EACH)]
    assert details.count("waits until its folder of the service has been listed") == EACH - 1
    go_on.set()
    hanging.join()


@pytest.mark.parametrize("indexed", [True, False])
def test_unreadable_folder_delays_no_other(make_world, indexed):
    """Assets of the folder are looked for every five minutes; those of the others are verified."""
    policy = {"verified_when": "findable" if indexed else "stored"}
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in FOLDERS], policy=policy)
    world.service.index_lag = None
    for folder in FOLDERS:
        world.write(f"{folder}/a", folder.encode())
    world.scan_and_send()
    asked = world.fail_for("F0")
    world.live(300)
    assert [world.row(f"{folder}/a").state for folder in FOLDERS] == [State.STORED, State.VERIFIED, State.VERIFIED]
    assert world.row("F0/a").detail == "cannot be read back: the service did not answer in time"
    assert world.site.gates.closed is None
    asked.clear()
    world.live(3600)
    assert 10 <= len(asked) <= 13
    answer(world)
    world.live(400)
    assert (set(world.states().values()), len(world.service.posts)) == ({State.VERIFIED}, 3)


def test_index_verifies_without_a_listing(world):
    world.scan_and_send()
    world.fail_for("F0")
    first = world.row("F0/0").assetid
    for asset in world.service.assets.values():
        if asset.folder == "F0" and asset.id != first:
            asset.indexed_at = None
    world.live(30)
    states = [world.row(f"F0/{number}").state for number in range(EACH)]
    assert states == [State.VERIFIED] + [State.STORED] * (EACH - 1)


def test_outage_decides_nothing_in_readback(world):
    world.scan_and_send()
    world.service.index_lag = None
    for asset in world.service.assets.values():
        asset.indexed_at = None
    before = [world.row(f"F0/{number}") for number in range(EACH)]
    world.clock.advance(INDEX_LAG)
    world.fail_for(*FOLDERS, probes=True)
    with pytest.raises(ServiceError):
        world.site.verifier.step()
    assert [world.row(f"F0/{number}") for number in range(EACH)] == before


def test_silent_folder_prolongs_no_pause(world):
    def fail(request) -> None:
        if request.folderid == "F0":
            raise BadAnswer("an answer that nothing can be made of", hint="look there")

    world.service.during_search = fail
    world.service.down = True
    world.scan()
    world.live(60)
    assert world.site.gates.closed is not None
    world.service.down = False
    world.live(120)
    assert (world.site.gates.closed, sent(world)) == (None, {"F0": 0, "F1": EACH, "F2": EACH})


TIMEOUT = 300.0


def test_slow_listings_leave_time_to_others(world, clock):
    world.fail_for("F0", "F1", takes=TIMEOUT)
    world.scan()
    for _ in range(4):
        world.site.uploader.step()
    assert sent(world)["F2"] > 0
    began, spent = clock.steady(), 0.0
    while clock.steady() - began < 6 * 3600:
        before = clock.steady()
        world.site.uploader.step()
        spent += clock.steady() - before
        clock.advance(1)
    assert spent < 0.4 * (clock.steady() - began)


def test_readback_finishes_despite_timeouts(world):
    world.service.index_lag = None
    world.scan_and_send()
    asked = world.fail_for("F0", "F1", takes=TIMEOUT)
    world.clock.advance(70)
    for _ in range(10):
        if not world.site.verifier.step().looked:
            break
    else:
        pytest.fail("there is always more to look at")
    assert len(asked) == 2


def test_names_verify_without_a_listing(make_world):
    world = make_world(policy={"verified_when": "stored"})
    for name in "abcdefgh":
        world.write(name, name.encode())
    world.scan_and_send()
    del world.service.assets[world.row("h").assetid]
    world.fail_for("F1", listings_only=True)
    world.live(700)
    states = [world.row(name).state for name in "abcdefgh"]
    assert states == [State.VERIFIED] * 7 + [State.STORED]


def test_clock_setback_prolongs_no_hold(world, clock):
    world.fail_for("F0")
    world.scan_and_send()
    answer(world)
    clock.set_now(clock.now() - 30 * 86_400)
    world.live(60)
    assert sent(world)["F0"] == EACH


def test_unknown_folder_block_ends_later(world, clock):
    world.write("F0/late", b"late")
    world.service.processing = 1e9
    world.service.put(b"x", "late", "F0")
    world.service.processing = 0.0
    world.service.script.append("unknown_folder")
    world.scan_and_send()
    assert list(world.states().values()).count(State.BLOCKED) == 1
    world.fail_for("F0")
    world.live(700)
    answer(world)
    for asset in world.service.assets.values():
        asset.processed_at = 0.0
    world.live(2000, tick=5)
    assert set(world.states().values()) == {State.VERIFIED}


def test_folder_without_files_is_not_held(world):
    world.write("F0/empty", b"")
    world.fail_for("F0")
    world.scan_and_send()
    assert held(world) == ["F0"]
    for number in range(EACH):
        (world.root / f"F0/{number}").unlink()
    world.scan()
    assert (held(world), world.ledger.reports.unlisted()) == ([], {})


def test_takeover_ends_the_folder_hold(world, clock):
    world.fail_for("F0")
    world.scan_and_send()
    answer(world)
    for number in range(EACH):
        world.service.put(f"F0 {number}".encode(), f"by hand {number}", "F0")
    world.live(30)
    assert (sent(world)["F0"], held(world)) == (0, [])
    rows = world.ledger.store.rows("SELECT hold_until FROM folders WHERE destfolderid = 'F0'")
    assert [row[0] for row in rows] == [None]


def test_ended_upload_keeps_its_folder_held(world, clock):
    world.scan_and_send()
    row = world.row("F0/0")
    hold = Hold("unlisted", "why", clock.now(), clock.now() + 200)
    world.ledger.queue.hold_folder("F0", hold)
    world.write("F0/0", b"another")
    world.ledger.queue.release_folders(clock.now())
    world.service.during_upload = lambda _request: world.ledger.queue.hold_folder("F0", hold)
    world.scan_and_send()
    assert world.row("F0/0").assetid != row.assetid
    rows = world.ledger.store.rows("SELECT hold_until FROM folders WHERE destfolderid = 'F0'")
    assert [found[0] for found in rows] == [clock.now() + 200]


def test_folder_being_listed_delays_no_other(make_world):
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F0", "F1")])
    for number in range(200):
        world.write(f"F0/{number}", f"F0 {number}".encode())
    world.scan()
    world.write("F1/a", b"F1")
    world.scan()
    listing, go_on = hang_for(world, "F0")
    hanging = threading.Thread(target=world.site.uploader.step)
    hanging.start()
    assert listing.wait(20)
    world.send()
    assert world.row("F1/a").state is State.STORED
    go_on.set()
    hanging.join()


def test_failed_listing_limits_names_per_step(make_world, clock):
    """The listing of a folder times out: each step looks up at most five names in its place."""
    world = make_world(policy={"verified_when": "stored"})
    for number in range(90):
        world.write(f"{number:02}", str(number).encode())
    world.scan_and_send()

    def slow(request) -> None:
        if request.searchfor != PROBE:
            clock.advance(TIMEOUT if request.searchfor == "%" else 60)
        if request.searchfor == "%":
            raise ServiceUnreachable("the service did not answer in time")

    world.service.during_search = slow
    for _ in range(4):
        clock.advance(1600)
        began = clock.steady()
        world.site.verifier.step()
        assert clock.steady() - began <= TIMEOUT + 5 * 60
    assert list(world.states().values()).count(State.VERIFIED) == 10


@pytest.mark.parametrize("failing", [True, False])
def test_hourly_readback_finishes_as_well(make_world, failing):
    world = make_world(schedule={"verify": "1h", "index": "60s"})
    world.service.index_lag, world.service.index_call = None, "noop"
    world.write("a")
    world.scan_and_send()
    if failing:
        world.fail_for("F1", takes=TIMEOUT)
    world.clock.advance(4000)
    assert [world.site.verifier.step().looked for _ in range(3)] == [1, 0, 0]


def test_accepting_folder_is_not_held(world):
    """A folder whose look-ups failed is released by an accepted upload."""
    world.service.processing = 1e9
    world.service.put(b"x", "0", "F0")
    world.service.processing = 0.0
    world.scan()
    world.live(30)
    world.fail_for("F0")
    world.live(90)
    assert held(world) == ["F0"]
    answer(world)
    (world.root / "F0/0").unlink()
    world.scan()
    world.live(600)
    world.write("F0/new", b"new")
    world.scan_and_send()
    world.write("F0/newer", b"newer")
    world.scan()
    assert held(world) == []


def lose_in(world, folder: str) -> None:
    """Let every upload into a folder be lost on its way."""

    def lose(request) -> None:
        if request.destfolderid == folder:
            world.service.script.append("lost_before")

    world.service.before_upload = lose


@pytest.mark.parametrize("looked_up", [True, False], ids=["its_doubts_are_looked_up", "and_not_even_looked_up"])
def test_folder_losing_uploads_delays_no_other(make_world, looked_up):
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F0", "F1")])
    for number in range(50):
        world.write(f"F0/{number}", f"F0 {number}".encode())
    world.scan()
    lose_in(world, "F0")
    world.live(5)
    if not looked_up:
        world.fail_for("F0")
    for number in range(10):
        world.write(f"F1/{number}", f"F1 {number}".encode())
    world.scan()
    world.live(120)
    assert sum(world.row(f"F1/{number}").state is State.VERIFIED for number in range(10)) == 10
    # So many are in doubt at once, and with a folder more the site is not stopped for it.
    workers = world.config().upload.workers
    assert world.ledger.doubts.count() <= 3 * workers


def test_listing_that_failed_is_tried_soon(world):
    world.fail_for("F0", times=6)
    world.scan()
    world.live(5)
    assert (sent(world), held(world)) == (dict.fromkeys(FOLDERS, EACH), [])
