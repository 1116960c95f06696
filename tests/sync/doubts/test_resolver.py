"""Lost answers: one file version is one asset, whatever the service does."""

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import pytest

from assetsync.core.backoff import LONGEST
from assetsync.core.doubt_grace import SLOW_GRACE
from assetsync.errors import BadAnswer, ServiceUnreachable
from assetsync.model import State
from assetsync.service.multipart import closing
from assetsync.service.search import like_pattern
from assetsync.sync.doubts import candidates
from assetsync.sync.lookup_gates import Failure
from assetsync.sync.requests.decisions import Resolve
from tests.sync.conftest import chunked, die_sending, lose, show_one
from tests.world import PROBE

VERIFIED, BLOCKED, QUEUED, IN_DOUBT = State.VERIFIED, State.BLOCKED, State.QUEUED, State.IN_DOUBT
GRACE = 20


def whys(world) -> list[tuple[str, str]]:
    return sorted((world.service.assets[o.assetid].content.decode("latin-1"), o.why) for o in world.orphans())


@pytest.mark.parametrize("gives_md5", [True, False])
@pytest.mark.parametrize("processing", [0.0, 90.0])
def test_lost_answer_is_found_and_not_resent(world, gives_md5, processing):
    world.service.gives_md5 = gives_md5
    world.service.processing = processing
    lose(world, "lost_after")
    assert world.row("a.jpg").state is IN_DOUBT
    world.live(150)
    assert world.row("a.jpg").state is VERIFIED
    assert (len(world.service.posts), len(world.service.assets), world.orphans()) == (1, 1, [])


def test_lost_upload_is_resent_after_grace(world, clock):
    lose(world, "lost_before")
    began = clock.steady()
    while len(world.service.posts) == 1:
        assert clock.steady() - began < 2 * GRACE
        world.live(1)
    assert clock.steady() - began >= GRACE
    world.live(60)
    assert world.row("a.jpg").state is VERIFIED
    assert (len(world.service.posts), len(world.service.assets)) == (2, 1)


def test_look_ups_in_all_folders_take_a_part_of_a_round(make_world, clock):
    """Each search in all folders takes a quarter of the time that a round may use for them."""
    many = 8
    world = make_world(folders=[{"path": f"{number}", "destfolderid": f"F{number}"} for number in range(many)])
    for number in range(many):
        lose(world, "lost_before", path=f"{number}/a{number}.jpg", content=f"{number}".encode())
        world.site.gates.checked()
    assert set(world.states().values()) == {IN_DOUBT}
    asked = []

    def take_long(request) -> None:
        if request.folderid is None and request.dbdirect and request.searchfor != PROBE:
            asked.append(clock.steady())
            clock.advance(GRACE / 6 / 4)

    world.service.during_search = take_long
    step, rounds = world.site.resolver.step, []

    def noted() -> int:
        before = len(asked)
        answers = step()
        rounds.append(len(asked) - before)
        return answers

    world.site.resolver.step = noted
    world.live(6 * GRACE)
    # Each doubt takes two searches, and a round may use the time of four.
    assert 2 < max(rounds) <= 6
    assert len(world.service.posts) == 2 * many
    assert set(world.states().values()) == {VERIFIED}


def test_late_arrival_is_found_within_grace(world):
    lose(world, "lost_before")
    world.live(GRACE / 2)
    world.service.put(b"some content", "a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("sent", ["a.jpg", "日.jpg"], ids=["other_name", "name_that_may_return_as_any"])
@pytest.mark.parametrize(("fault", "posts"), [("lost_after", 1), ("lost_before", 2)])
def test_older_asset_of_another_file_is_left_to_it(world, clock, fault, posts, sent):
    """After its disk was rolled back, the ledger does not know the assets of files that it sends again."""
    other = world.service.put(b"some content", "other.jpg")
    world.service.processing = 3.0
    for name in (sent, "other.jpg"):
        world.write(name, b"some content")
    world.scan()
    later = "UPDATE files SET due_at = ? WHERE path = ?"
    world.ledger.store.write(lambda conn: conn.execute(later, (clock.now() + 30, b"other.jpg")))
    world.service.script.append(fault)
    world.live(20 * GRACE)
    assert set(world.states().values()) == {VERIFIED}
    assert (world.row("other.jpg").assetid, len(world.service.posts)) == (other.id, posts)


def test_older_asset_hides_no_unprocessed_one(world, clock):
    """A release shows unprocessed assets only on request, and renames uploads."""
    world.service.put(b"some content", "other.jpg")
    world.service.renames = True
    world.service.processing = 5.0 * GRACE
    matches = world.service._matches
    world.service._matches = lambda asset, request: (
        (asset.processed_at <= clock.now() or request.available == "0") and matches(asset, request)
    )
    for name in ("a.jpg", "other.jpg"):
        world.write(name, b"some content")
    world.scan()
    later = "UPDATE files SET due_at = ? WHERE path = ?"
    world.ledger.store.write(lambda conn: conn.execute(later, (clock.now() + 30, b"other.jpg")))
    world.service.script.append("lost_after")
    world.live(20 * GRACE)
    assert set(world.states().values()) == {VERIFIED}
    assert (world.posted(), len(world.service.assets)) == (["a.jpg"], 2)


def test_time_alone_resends_no_hung_upload(world):
    lose(world, "lost_before")
    world.live(3)
    world.service.down = True
    world.live(600)
    world.service.down = False
    assert len(world.service.posts) == 1
    world.live(GRACE * 0.8)
    assert len(world.service.posts) == 1
    world.service.put(b"some content", "a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("seconds", [1, 4, 15, 100])
def test_slow_lookups_delay_the_verdict(world, clock, seconds):
    lose(world, "lost_before")
    world.service.during_search = lambda _request: clock.advance(seconds)
    began = clock.steady()
    while len(world.service.posts) == 1:
        assert clock.steady() - began < 2 * GRACE + 3 * seconds * (SLOW_GRACE + 4)
        world.live(1)
    assert clock.steady() - began >= GRACE + seconds * SLOW_GRACE
    world.service.during_search = lambda _request: None
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts), len(world.service.assets)) == (VERIFIED, 2, 1)


def test_hung_lookup_restarts_the_grace(world, clock):
    lose(world, "lost_before")
    world.live(GRACE * 0.8)
    world.service.during_search = _once(world, lambda _request: clock.advance(10 * GRACE))
    hung = clock.steady() + 10 * GRACE
    while clock.steady() < hung:
        world.live(1)
    world.live(GRACE * 0.8)
    assert len(world.service.posts) == 1
    world.live(GRACE * 1.5)
    assert len(world.service.posts) == 2


@pytest.fixture
def of_folders(make_world):
    """Give a world with a doubt in each of some folders, whose uploads never arrived."""

    def make(count: int, grace: int = GRACE):
        folders = [f"F{number}" for number in range(count)]
        mapped = [{"path": folder, "destfolderid": folder} for folder in folders]
        world = make_world(folders=mapped, upload={"doubt_grace": f"{grace}s"})
        for folder in folders:
            world.write(f"{folder}/{folder}.jpg", folder[::-1].encode())
            world.service.script.append("lost_before")
        world.scan()
        # One after the other fails, and sending pauses in between.
        while len(world.service.posts) < count:
            world.site.gates.checked()
            world.send()
        world.site.gates.checked()
        return world

    return make


def stays_unprocessed(world, folder: str) -> None:
    """Let an asset of the name be there that is not processed: the doubt of the folder goes on."""
    world.service.processing = 1e9
    world.service.put(b"x", f"{folder}.jpg", folder)
    world.service.processing = 0


def sent_to(world, folder: str) -> int:
    return sum(post.destfolderid == folder for post in world.service.posts)


def test_many_folders_do_not_starve_one_doubt(of_folders, clock):
    world = of_folders(8)
    # A round takes longer than the gap that there may be, each of its look-ups a tenth of that.
    world.service.during_search = lambda _request: clock.advance(GRACE / 2 / 10)
    began = clock.steady()
    # The last of all is the look into all folders, once for each.
    most = 2 * GRACE + 8 * 3 * GRACE / 20 * (SLOW_GRACE + 4) + 2 * 8 * GRACE / 20
    while len(world.service.posts) < 16:
        assert clock.steady() - began < most
        world.live(1)
    world.service.during_search = lambda _request: None
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    assert (len(world.service.posts), len(world.service.assets)) == (16, 8)


def fail_for(world, folders: Collection[str], *, after: float = 0.0) -> None:
    """Let the look-ups of some folders fail, after so many seconds; a probe is answered."""

    def fail(request) -> None:
        if request.folderid in folders and request.searchfor != "assetsync-probe":
            world.clock.advance(after)
            raise BadAnswer("an answer that nothing can be made of", hint="look there")

    world.service.during_search = fail


def test_failing_folder_delays_no_other_doubt(of_folders, clock):
    """Its searches become rare, and its doubt is decided after it answers again."""
    world = of_folders(3)
    fail_for(world, ["F0"])
    began = clock.steady()
    while sent_to(world, "F1") == 1 or sent_to(world, "F2") == 1:
        assert clock.steady() - began < 3 * GRACE
        world.live(1)
    world.service.searches.clear()
    world.live(3000)
    assert (world.row("F0/F0.jpg").state, sent_to(world, "F0")) == (IN_DOUBT, 1)
    assert len(world.service.searches) < 30
    assert "an answer that nothing can be made of" in world.row("F0/F0.jpg").detail
    assert world.site.gates.closed is None
    world.service.during_search = lambda _request: None
    world.live(300 + 2 * GRACE)
    assert (set(world.states().values()), sent_to(world, "F0")) == ({VERIFIED}, 2)
    world.live(1)
    assert "F0" not in world.site.resolver._lookup_gates


@pytest.mark.parametrize(
    ("grace", "failing", "after", "within"),
    [(20, 7, 0, 60 * 20), (120, 4, 310, 4 * 3600), (300, 1, 310, 4 * 3600)],
    ids=["many_at_once", "four_that_time_out", "one_and_a_long_grace"],
)
def test_failed_lookups_keep_the_others_grace(of_folders, clock, grace, failing, after, within):
    world = of_folders(failing + 1, grace=grace)
    fail_for(world, [f"F{number}" for number in range(failing)], after=after)
    last = f"F{failing}"
    began = clock.steady()
    while sent_to(world, last) == 1:
        assert clock.steady() - began < within
        world.live(1)
    assert clock.steady() - began >= grace


def test_failing_folders_wait_together(of_folders, clock):
    world = of_folders(3, grace=120)
    fail_for(world, ["F0", "F1"], after=310)
    for folder in ["F0", "F1"] * 9:
        world.site.resolver._lookup_gates.failed(folder, Failure(ServiceUnreachable("no answer"), is_passing=False))
    now = clock.now()
    for folder, look_at in (("F0", now), ("F1", now + 310 + 80)):
        sql = f"UPDATE attempts SET look_at = {look_at} WHERE destfolderid = '{folder}'"
        world.ledger.store.write(lambda conn, sql=sql: conn.execute(sql))
    began = clock.steady()
    while sent_to(world, "F2") == 1:
        assert clock.steady() - began < 7200
        world.live(1)


def test_flapping_folder_pauses_nothing(of_folders, clock):
    world = of_folders(2)
    stays_unprocessed(world, "F0")
    rounds = []

    def fail(request) -> None:
        if request.folderid == "F0" and request.searchfor not in {"assetsync-probe", "%"}:
            rounds.append(clock.steady())
            if len(rounds) % 2 == 0:
                raise BadAnswer("an answer that nothing can be made of", hint="look there")

    world.service.during_search = fail
    began = clock.steady()
    while sent_to(world, "F1") == 1:
        assert clock.steady() - began < 3 * GRACE
        assert world.site.gates.closed is None
        world.live(1)


def test_retry_after_is_obeyed_for_one_folder(of_folders, clock):
    world = of_folders(1)
    asked = []

    def fail(request) -> None:
        if request.searchfor != "assetsync-probe":
            asked.append(clock.steady())
            raise BadAnswer("too many requests", hint="wait", retry_after=200.0)

    world.service.during_search = fail
    world.live(650)
    assert [round(later - earlier, -1) for earlier, later in pairwise(asked)] == [200, 200, 200]


def test_outage_after_folder_failure_is_seen(of_folders):
    world = of_folders(1)
    fail_for(world, ["F0"])
    world.live(60)
    assert world.site.gates.closed is None
    world.service.down = True
    world.live(60)
    assert world.site.gates.closed.reason == "unreachable"


def test_failed_folder_is_last_until_answered(of_folders):
    world = of_folders(2)
    fail_for(world, ["F0"])
    world.live(200)
    world.service.during_search = lambda _request: None
    stays_unprocessed(world, "F0")
    world.live(310)
    assert world.row("F0/F0.jpg").state is IN_DOUBT
    # Answered once, it is again as if it had never failed: one failure puts it off by seconds.
    fail_for(world, ["F0"])
    world.live(GRACE / 4 + 1)
    world.service.during_search = lambda _request: None
    world.service.searches.clear()
    world.live(10)
    assert "F0" in [request.folderid for request in world.service.searches if request.searchfor == "%"]


def test_refused_key_outranks_folder_failure(of_folders):
    world = of_folders(1)
    fail_for(world, ["F0"])
    world.live(60)
    assert world.site.gates.closed is None
    world.service.key_refused = True
    world.service.during_search = lambda _request: None
    world.live(60)
    assert world.site.gates.closed.reason == "key_refused"


def test_one_failed_folder_is_tried_per_round(of_folders):
    world = of_folders(3)
    for folder in ("F0", "F1", "F2"):
        stays_unprocessed(world, folder)
    fail_for(world, ["F0", "F1"])
    world.live(60)
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET look_at = 0"))
    world.service.searches.clear()
    world.site.resolver.step()
    asked = {request.folderid for request in world.service.searches if request.searchfor != "assetsync-probe"}
    assert len(asked) == 2
    assert "F2" in asked


def test_first_failure_does_not_end_the_round(of_folders):
    world = of_folders(2)
    fail_for(world, ["F0"])
    world.service.put(b"1F", "F1.jpg", "F1")
    assert world.look_up() == 1
    assert (world.row("F0/F0.jpg").state, world.row("F1/F1.jpg").state) == (IN_DOUBT, State.STORED)


def test_old_failure_delays_no_new_answer(of_folders):
    world = of_folders(2)
    for folder in ("F0", "F1"):
        stays_unprocessed(world, folder)
    fail_for(world, ["F0"])
    world.live(60)
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET look_at = 0"))
    world.service.searches.clear()
    world.site.resolver.step()
    folders = [request.folderid for request in world.service.searches if request.searchfor != "assetsync-probe"]
    assert folders[0] == "F1"
    assert folders[-1] == "F0"


def test_slow_folder_delays_no_quick_one(of_folders, clock):
    world = of_folders(2)
    stays_unprocessed(world, "F0")
    world.service.during_search = lambda request: clock.advance(GRACE / 4 if request.folderid == "F0" else 0)
    began = clock.steady()
    while sent_to(world, "F1") == 1:
        assert clock.steady() - began < 2 * GRACE + 3 * GRACE / 4 * (SLOW_GRACE + 4)
        world.live(1)


@pytest.mark.parametrize("later", [1, 10, 25, 40])
def test_doubts_of_one_folder_delay_no_other(world, clock, later):
    world.service.during_search = lambda _request: clock.advance(7)
    for name in ("a", "b", "c"):
        lose(world, "lost_before", path=name, content=name.encode())
        world.site.gates.checked()
    # It has its own round of look-ups, which takes another time.
    world.live(later)
    lose(world, "lost_before", path="d", content=b"d")
    world.site.gates.checked()
    began = clock.steady()
    while len(world.service.posts) < 8:
        # While all folders are looked into for the first three, the grace of the fourth has a gap, once.
        assert clock.steady() - began < 2 * (2 * GRACE + 7 * 6 * (SLOW_GRACE + 4))
        world.live(1)


@pytest.mark.parametrize("seconds", [3, 8])
def test_name_lookup_does_not_delay_a_listing(world, clock, seconds):
    """A listing takes long, and other doubts are looked up by name: the doubt that needs the listing ends in time."""
    # Equal content, and the asset has the name of what a person is asked about: the second waits for that.
    for name, content in (("x.jpg", b"some content"), ("日.jpg", b"some content"), ("c.jpg", b"other")):
        lose(world, "lost_before", path=name, content=content)
        world.site.gates.checked()
        if name == "x.jpg":
            world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET name_released = 1"))
            world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET state = 'blocked'"))
    world.service.put(b"some content", "x.jpg")
    world.service.during_search = lambda request: clock.advance(seconds if request.searchfor == "%" else 0.05)
    looked = world.ledger.doubts.looked
    # A commit takes a while, so that they are not due at the very same time.
    world.ledger.doubts.looked = lambda *values: (looked(*values), clock.advance(0.3))
    began = clock.steady()
    while len(world.service.posts) == 3:
        assert clock.steady() - began < 3 * GRACE + 2 * seconds * (SLOW_GRACE + 4)
        world.site.gates.checked()
        world.site.resolver.step()
        world.send()
        due = world.ledger.doubts.next_look() or 0.0
        clock.advance(min(1.0, max(0.05, due - clock.now())))
    assert world.service.posts[-1].filename == "c.jpg"


@pytest.mark.parametrize("hangs", [GRACE * 0.8, GRACE * 3, GRACE * 30])
def test_silent_folder_waits_its_whole_grace(of_folders, clock, hangs):
    """Searches of one folder hang for a while; its grace begins anew with the first answer."""
    world = of_folders(2)
    stays_unprocessed(world, "F0")
    world.live(GRACE / 2)

    def hang(request) -> None:
        if request.folderid == "F1":
            raise ServiceUnreachable("no answer", hint="")

    world.service.during_search = hang
    world.live(hangs)
    assert sent_to(world, "F1") == 1
    world.service.during_search = lambda _request: None
    began = clock.steady()
    while sent_to(world, "F1") == 1:
        # A probe of the service comes once a minute at least.
        assert clock.steady() - began < 3 * GRACE + 60
        world.live(1)
    assert clock.steady() - began >= GRACE


def test_restart_keeps_the_slow_allowance(world, clock):
    lose(world, "lost_before")
    world.service.during_search = lambda _request: clock.advance(GRACE / 4)
    began = clock.steady()
    while clock.steady() - began < GRACE + 3 * GRACE / 4 * SLOW_GRACE / 2:
        world.live(1)
    world.restart()
    # At once, with quick look-ups: the grace would be over if it were not for the gaps that it had let pass.
    world.service.during_search = lambda _request: None
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET look_at = 0"))
    world.live(GRACE / 2)
    assert len(world.service.posts) == 1


@pytest.mark.parametrize("later", [0, GRACE / 2])
def test_equal_doubt_waits_after_takeover(world, clock, later):
    """Two files of equal content are in doubt, and one takes the asset: the other waits for its own whole grace."""
    # Both come back under one name, so that either may take what there is.
    world.write("日.jpg", b"same")
    world.write("月.jpg", b"same")
    world.service.script.extend(["lost_before", "lost_before"])
    world.scan()

    def second(_request) -> None:
        world.service.during_upload = lambda _request: None
        world.site.uploader.step()
        began = clock.steady()
        while clock.steady() - began < GRACE - 1:
            world.site.gates.checked()
            world.site.resolver.step()
            clock.advance(1)
        world.service.put(b"same", "?.jpg")

    world.service.during_upload = second
    world.site.uploader.step()
    clock.advance(4.5)
    for _ in range(4):
        world.site.gates.checked()
        world.site.resolver.step()
        clock.advance(1)
    # What the first had sent comes within its own grace, at once or after some more rounds.
    world.live(later)
    world.service.put(b"same", "?.jpg")
    world.live(120)
    assert (len(world.service.posts), len(world.service.assets)) == (2, 2)
    assert set(world.states().values()) == {VERIFIED}


@pytest.fixture
def hashed(monkeypatch) -> list[list[int]]:
    """The lengths of beginnings that were hashed, a list for each time that a file was read for it."""
    read: list[list[int]] = []
    digests = candidates.prefix_digests
    monkeypatch.setattr(
        candidates, "prefix_digests", lambda *args, **said: read.append(args[1]) or digests(*args, **said)
    )
    return read


def test_possible_cut_is_hashed_once(world, hashed):
    lose(world, "lost_before", content=b"some content")
    world.service.put(b"other", "a.jpg")
    world.live(GRACE * 0.8)
    assert (len(world.service.searches) > 6, hashed) == (True, [[5]])
    world.service.put(b"some con", "a.jpg")
    world.live(GRACE)
    assert hashed == [[5], [8]]
    assert ("some con", "damaged") in whys(world)


def test_beginnings_of_two_files_are_separate(of_folders, hashed):
    world = of_folders(2)
    for folder in ("F0", "F1"):
        world.service.put(b"0", f"{folder}.jpg", folder)
    world.live(GRACE / 2)
    assert hashed == [[1], [1]]
    assert whys(world) == [("0", "damaged"), ("0", "suspected")]


def test_hash_of_ended_doubt_is_dropped(of_folders, clock, hashed):
    world = of_folders(2)
    for folder in ("F0", "F1"):
        world.service.put(b"x", f"{folder}.jpg", folder)
    world.live(GRACE / 4)
    assert world.site.resolver._candidates._prefixes.keys() == {1, 2}
    world.ledger.decisions.resolve_as_absent(world.row("F1/F1.jpg"), clock.now())
    world.live(GRACE / 2)
    assert world.site.resolver._candidates._prefixes.keys() == {1}
    assert world.site.resolver._paces.keys() == {("F0", True)}


def test_doubt_is_due_after_clock_is_set_back(world, clock):
    lose(world, "lost_before")
    clock.set_now(clock.now() - LONGEST - 1)
    assert world.look_up() == 1


def test_reboot_and_clock_jump_keep_the_grace(world, clock):
    lose(world, "lost_before")
    world.live(GRACE * 0.8)
    world.close()
    clock.reboot()
    clock.set_now(clock.now() + 10_000)
    world.live(GRACE * 0.8)
    assert len(world.service.posts) == 1
    clock.set_now(clock.now() - 50_000)
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)


SMALL = b"0123456789" * 10


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        (SMALL, 1),
        (SMALL, 99),
        (SMALL, 105),
        (SMALL, 100 + len(closing("assetsync" + "0" * 32)) - 1),
        (chunked(9 * 2**20), 5 * 2**20 + 7),
    ],
    ids=["one_byte", "almost_all", "into_the_boundary", "almost_all_of_the_boundary", "large"],
)
def test_cut_upload_is_found_and_resent(world, content, stored):
    lose(world, ("cut", stored), content=content)
    damaged = next(iter(world.service.assets))
    world.live(60)
    assert world.row("a.jpg").state is VERIFIED
    assert world.service.assets[world.row("a.jpg").assetid].content == content
    assert len(world.service.posts) == 2
    assert [(o.assetid, o.why, o.path) for o in world.orphans()] == [(damaged, "damaged", b"a.jpg")]


def test_whole_asset_of_rival_is_no_own_cut(world, clock):
    lose(world, "lost_after", content=b"bytes", path="月.txt")
    (stored,) = world.service.assets.values()
    # It comes back under a name that may be either's.
    stored.name = "?.txt"
    world.restart()
    lose(world, "lost_after", content=b"bytes and more", path="日.txt")
    (other,) = set(world.service.assets) - {stored.id}
    hidden = world.service.assets.pop(other)
    later = clock.now() + 30
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET look_at = ? WHERE id = 1", (later,)))
    world.live(10)
    assert (len(world.service.posts), whys(world)) == (2, [])
    world.service.assets[other] = hidden
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    assert (len(world.service.posts), whys(world)) == (2, [])


def two_in_doubt(world, first: object, of_second: bytes, second: object) -> str:
    """Lose two uploads whose names the service gives back alike; gives what the first, of `bytes`, has left."""
    lose(world, first, content=b"bytes", path="月.txt")
    (left,) = world.service.assets.values()
    left.name = "?.txt"
    # No listing shows what the first has left before the second is sent.
    world.ledger.folder_listings.made("F1")
    world.restart()
    lose(world, second, content=of_second, path="日.txt")
    return left.id


def test_cut_of_rival_is_no_own_cut(world, clock):
    left = two_in_doubt(world, ("cut", 3), b"bytes and more", "lost_after")
    (other,) = set(world.service.assets) - {left}
    hidden = world.service.assets.pop(other)
    later = clock.now() + 30
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET look_at = ? WHERE id = 1", (later,)))
    world.live(10)
    assert (len(world.service.posts), whys(world)) == (2, [("byt", "suspected")])
    world.service.assets[other] = hidden
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    assert (len(world.service.posts), whys(world)) == (3, [("byt", "damaged")])


@pytest.mark.parametrize(("content", "sent_early"), [(b"other bytes", ["月.txt"]), (b"bytes and more", [])])
def test_beginning_proves_its_own_cut(world, content, sent_early):
    two_in_doubt(world, ("cut", 3), content, "lost_before")
    world.live(GRACE / 2)
    assert world.posted()[2:] == sent_early
    # Where it may be either's, both wait out the grace.
    world.live(2 * GRACE)
    assert sorted(world.posted()[2:]) == ["日.txt", "月.txt"]
    assert whys(world) == [("byt", "damaged" if sent_early else "suspected")]


def test_beginning_without_folder_is_no_cut(world, monkeypatch):
    two_in_doubt(world, ("cut", 3), b"bytes and more", "lost_before")
    shown = world.service._shown
    monkeypatch.setattr(world.service, "_shown", lambda asset: replace(shown(asset), folder_id=""))
    world.live(GRACE / 2)
    assert len(world.service.posts) == 2


def test_unprocessed_asset_may_be_whole(world, clock):
    world.service.processing = 90
    lose(world, "lost_after", content=SMALL)
    world.service.put(SMALL[:7], "a.jpg")
    cut = list(world.service.assets.values())[-1]
    cut.processed_at = clock.now()
    world.live(120)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("word", ["resolve_as_absent", "send_again"])
def test_leftover_of_ended_attempt_is_no_cut(world, clock, word):
    lose(world, ("cut", 4))
    getattr(world.ledger.decisions, word)(world.row("a.jpg"), clock.now())
    world.service.script.append("lost_before")
    began = clock.steady()
    while len(world.service.posts) == 1:
        assert clock.steady() - began < 2 * GRACE
        world.live(0.5)
    world.live(GRACE / 2)
    assert world.row("a.jpg").state is IN_DOUBT
    world.service.put(b"some content", "a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)
    assert whys(world) == [("some", "suspected")]


def sent_again(world, clock, *answers: str):
    """Send a verified file again as a person has asked for it; gives the asset that is to be replaced."""
    world.write("a.jpg", b"some content")
    world.scan_and_send()
    world.live(3)
    (first,) = world.service.assets.values()
    world.service.script.extend(answers)
    world.ledger.decisions.send_again(world.row("a.jpg"), clock.now())
    world.live(GRACE / 2)
    assert len(world.service.posts) == 2
    return first


def test_replaced_asset_ends_no_resend(world, clock):
    first = sent_again(world, clock, "lost_before")
    world.live(2 * GRACE)
    row = world.row("a.jpg")
    assert (row.state, len(world.service.posts), row.assetid != first.id) == (VERIFIED, 3, True)
    assert whys(world) == [("some content", "replaced")]


def test_resend_refused_as_copy_keeps_asset(world, clock):
    sent_again(world, clock, "duplicate")
    world.live(2 * GRACE)
    assert (world.row("a.jpg").state, len(world.service.posts), world.orphans()) == (VERIFIED, 2, [])


def test_cut_with_the_whole_file_is_no_damage(world):
    lose(world, ("cut", len(SMALL)), content=SMALL)
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts), world.orphans()) == (VERIFIED, 1, [])


def test_unexplained_namesake_is_suspected(world):
    lose(world, "lost_before")
    world.service.put(b"somebody else's", "A.JPG")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)
    assert whys(world) == [("somebody else's", "suspected")]


def test_late_twin_is_listed_as_doubled(world):
    lose(world, "lost_before")
    for _ in range(2):
        world.service.put(b"some content", "a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)
    assert whys(world) == [("some content", "doubled")]


def test_day_long_processing_needs_a_person(world, clock):
    world.service.processing = 10**9
    lose(world, "lost_after")
    world.live(3600, tick=30)
    assert world.row("a.jpg").state is IN_DOUBT
    clock.advance(24 * 3600)
    world.live(120, tick=10)
    row = world.row("a.jpg")
    assert (row.state, row.reason, len(world.service.posts)) == (BLOCKED, "undecidable", 1)
    assert "24 hours" in row.detail


def test_file_lost_five_times_is_blocked(world):
    show_one(world)
    lose(world, *["lost_before"] * 20)
    world.live(1200)
    row = world.row("a.jpg")
    assert (row.state, row.absences, len(world.service.posts)) == (BLOCKED, 4, 5)
    assert "5th time" in row.detail


def test_doubt_follows_the_renamed_file(world):
    lose(world, "lost_before")
    (world.root / "a.jpg").rename(world.root / "b.jpg")
    world.scan()
    world.site.gates.checked()
    world.send()
    world.scan()
    assert world.states() == {"b.jpg": IN_DOUBT}
    world.service.put(b"some content", "a.jpg")
    world.live(60)
    assert (world.row("b.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


def test_renamed_blocked_doubt_is_not_sent(world, clock):
    world.service.processing = 10**9
    lose(world, "lost_after")
    world.live(5)
    clock.advance(25 * 3600)
    world.live(100, tick=10)
    assert world.row("a.jpg").state is BLOCKED
    (world.root / "a.jpg").rename(world.root / "b.jpg")
    world.scan_and_send()
    world.scan()
    assert (world.states(), len(world.service.posts)) == ({"b.jpg": BLOCKED}, 1)


def test_old_version_is_resolved_first(world):
    lose(world, "lost_before")
    world.write("a.jpg", b"new content")
    world.scan()
    world.site.gates.checked()
    assert world.send() == 0
    world.live(60)
    assert (world.history("a.jpg"), world.service.contents) == ([VERIFIED, State.SUPERSEDED], [b"new content"])


def test_crash_while_sending_makes_no_copy(world):
    die_sending(world, b"content", arrived=True)
    assert world.row("a.jpg").state is IN_DOUBT
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


def test_crash_amid_large_file_rehashes_it(world):
    content = chunked(9 * 2**20)
    lose(world, "lost_before", content=content, path="big")
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET md5 = NULL, bytes_sent_md5 = NULL"))
    world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET md5 = NULL"))
    world.service.put(content, "something else entirely")
    world.live(60)
    assert (world.row("big").state, len(world.service.posts)) == (VERIFIED, 1)


def lose_and_move(world, *, to: str = "F9", **said) -> str:
    """Lose the answer to an upload, and move what it stored; gives the asset's id."""
    lose(world, "lost_after", **said)
    (asset,) = world.service.assets.values()
    asset.folder = to
    return asset.id


@pytest.mark.parametrize("gives_md5", [True, False])
@pytest.mark.parametrize("processing", [0.0, 90.0])
@pytest.mark.parametrize("looked_first", [0.0, GRACE / 2])
def test_asset_moved_in_doubt_is_asked_about(world, clock, gives_md5, processing, looked_first):
    """The asset is found in another folder: a person decides, and the file keeps that folder."""
    world.service.gives_md5 = gives_md5
    world.service.processing = processing
    lose(world, "lost_after")
    world.service.down = True
    world.live(looked_first)
    world.service.down = False
    (asset,) = world.service.assets.values()
    asset.folder = "F9"
    world.live(300)
    row = world.row("a.jpg")
    assert (row.state, row.reason, len(world.service.posts)) == (BLOCKED, "undecidable", 1)
    assert f"{asset.id}, is in folder F9" in row.detail
    world.ask(Resolve(b"a.jpg", asset.id))
    world.live(300)
    row = world.row("a.jpg")
    assert (row.state, row.assetid, row.asset_folder) == (VERIFIED, asset.id, "F9")
    assert len(world.service.posts) == 1


def test_file_declared_unmoved_is_sent_once(world, clock):
    lose_and_move(world)
    world.live(120)
    world.service.script.append("lost_before")
    world.ask(Resolve(b"a.jpg", None))
    world.live(120)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 3)


@pytest.mark.parametrize(
    ("content", "name"), [(b"same name", "a.jpg"), (b"some content", "b.jpg")], ids=["another's bytes", "another name"]
)
def test_unequal_namesake_delays_no_resend(world, content, name):
    lose(world, "lost_before")
    world.service.put(content, name, "F9")
    world.live(120)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)


def test_asset_of_other_file_is_no_moved_one(make_world):
    folders = [{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}]
    world = make_world(folders=folders)
    world.write("a/x.jpg", b"some content")
    world.scan_and_send()
    world.live(5)
    lose(world, "lost_before", path="b/x.jpg")
    world.live(120)
    assert (world.states()["b/x.jpg"], len(world.service.posts)) == (VERIFIED, 3)


def test_failed_global_lookup_sends_nothing(world):
    lose_and_move(world)
    search = world.service.search
    world.service.search = lambda request: search(request) if request.folderid else _fails()
    world.live(600)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (IN_DOUBT, 1)
    world.service.search = search
    world.live(600)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (BLOCKED, 1)


@pytest.mark.parametrize("is_answered", [False, True], ids=["no answer", "asset never processed"])
def test_doubt_after_its_grace_is_looked_up_in_pauses(world, is_answered):
    """The grace is over: nothing but the search of all folders keeps the file in doubt."""
    identity = lose_and_move(world)
    world.service.assets[identity].processed_at = 1e12
    search = world.service.search
    world.service.search = lambda request: search(request) if request.folderid or is_answered else _fails()
    world.live(3 * GRACE)
    looks = world.ledger.doubts.of(world.row("a.jpg").id).looks
    world.live(3 * GRACE, tick=0.25)
    # Half of the longest gap, which is half of the grace.
    assert world.ledger.doubts.of(world.row("a.jpg").id).looks - looks <= 3 * GRACE / (GRACE / 4)
    assert world.row("a.jpg").state is IN_DOUBT


def test_unprocessed_moved_asset_is_asked_about(world):
    world.service.processing = 90.0
    matches = world.service._matches
    world.service._matches = lambda asset, request: (
        (asset.processed_at <= world.clock.now()) == (request.available != "0") and matches(asset, request)
    )
    lose_and_move(world)
    world.live(300)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (BLOCKED, 1)


def test_name_with_capitals_is_found_in_old_releases(world):
    """They compare the pattern with the name in small letters, and tell capitals apart."""
    matches = world.service._matches

    def old(asset, request) -> bool:
        like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in request.searchfor)
        return matches(asset, request) and (not request.dbdirect or bool(re.fullmatch(like, asset.name.lower())))

    world.service._matches = old
    lose_and_move(world, path="IMG.JPG")
    world.live(300)
    assert (world.row("IMG.JPG").state, len(world.service.posts)) == (BLOCKED, 1)


def test_asset_that_the_listing_lacks_is_found(world):
    lose(world, "lost_before")
    world.live(3)
    world.service.put(b"some content", "a.jpg")
    matches = world.service._matches
    world.service._matches = lambda asset, request: request.searchfor != "%" and matches(asset, request)
    world.live(3 * GRACE)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("fails", ["a.jpg", "%", "%.jpg"], ids=["by its name", "all", "by its ending"])
def test_failed_global_lookup_delays_own_doubt(world, fails):
    """The search that fails is by name or of an ending; doubts that need another search are decided."""
    others = {"a.jpg": ["a.jpg"], "%": ["写.jpg", "真.jpg"], "%.jpg": ["写.jpg"]}[fails]
    for name in (*others, "b.jpg"):
        lose(world, "lost_before", path=name, content=name.encode())
        world.site.gates.checked()

    def fail(request) -> None:
        if request.folderid is None and request.dbdirect and request.searchfor == fails:
            world.clock.advance(5)
            raise ServiceUnreachable("no answer in time")

    world.service.during_search = fail
    world.live(600)
    assert world.states() == dict.fromkeys(others, IN_DOUBT) | {"b.jpg": VERIFIED}
    assert "the other folders cannot be searched" in world.row(others[0]).detail
    world.service.during_search = lambda _request: None
    world.live(300)
    assert set(world.states().values()) == {VERIFIED}


@pytest.mark.parametrize("name", ["фото.jpg", "写真"])
def test_non_ascii_names_share_one_listing(world, name):
    for number in range(3):
        lose(world, "lost_before", path=f"{number}{name}", content=b"%d" % number)
        world.site.gates.checked()
    world.live(GRACE * 0.8)
    world.service.searches.clear()
    world.live(60)
    everywhere = [request for request in world.service.searches if request.folderid is None and request.dbdirect]
    assert [request.searchfor for request in everywhere if request.searchfor == "%"] == ["%", "%"]
    assert set(world.states().values()) == {VERIFIED}


def test_asset_moved_back_is_not_resent(world):
    identity = lose_and_move(world)

    def back(request) -> None:
        if request.folderid is None and request.dbdirect and request.searchfor == "a.jpg":
            world.service.assets[identity].folder = "F1"

    world.service.during_search = back
    world.live(120)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize("gives_md5", [True, False])
def test_leftover_of_waived_upload_is_not_moved(make_world, gives_md5):
    world = make_world(folders=[{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    world.service.gives_md5 = gives_md5
    lose(world, "lost_before", path="b/x.jpg")
    world.live(60)
    # It comes to light late, beside the second one.
    world.service.put(b"some content", "x.jpg", "F2")
    lose(world, "lost_before", path="a/x.jpg")
    world.live(120)
    assert (set(world.states().values()), len(world.service.posts)) == ({VERIFIED}, 4)


@pytest.mark.parametrize("processing", [0.0, 2 * GRACE])
def test_move_onto_namesake_is_not_resent(make_world, processing):
    """The asset of a doubt was moved into a folder where a doubt of the same name was lost: a person is asked."""
    world = make_world(folders=[{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    world.write("b/other.jpg")
    world.scan_and_send()
    world.service.processing = processing
    lose(world, "lost_after", path="a/x.jpg")
    world.site.gates.checked()
    lose(world, "lost_before", path="b/x.jpg", content=b"a longer one, whose digest nobody knows")
    (world.root / "b/x.jpg").unlink()
    forget = "UPDATE {} SET md5 = NULL WHERE size = 39"
    for table in ("files", "attempts"):
        world.ledger.store.write(lambda conn, table=table: conn.execute(forget.format(table)))
    assert len(world.service.posts) == 3
    asset = list(world.service.assets.values())[-1]
    asset.folder = "F2"
    world.live(300)
    row = world.row("a/x.jpg")
    assert (row.state, row.reason) == (BLOCKED, "undecidable")
    assert f"{asset.id}, is in folder F2" in row.detail
    assert [post.filename for post in world.service.posts].count("x.jpg") == 2


def _fails():
    raise ServiceUnreachable("no answer within 60 s")


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_refused_copy_is_adopted_in_place(world, where):
    theirs = world.service.put(b"some content", "theirs", "F1" if where == "here" else "F9")
    world.ledger.folder_listings.made("F1")
    lose(world, "duplicate")
    world.live(60)
    row = world.row("a.jpg")
    assert (row.state, row.assetid, row.asset_folder) == (VERIFIED, theirs.id, theirs.folder)
    # It is not ours: when it was uploaded, and what it was told, we do not know.
    assert row.uploaded_at is None
    assert (len(world.service.posts), len(world.service.assets)) == (1, 1)
    while world.site.drift.step():
        pass
    assert world.row("a.jpg").drift == (None if where == "here" else "it lies in another folder of the service: F9")


def test_refused_copy_of_other_content_blocks(world):
    world.write("first", b"some content")
    world.scan_and_send()
    world.live(3)
    lose(world, "duplicate")
    world.live(60)
    row = world.row("a.jpg")
    assert (row.state, row.reason) == (BLOCKED, "refused_as_duplicate")
    assert f"{world.row('first').assetid} in folder F1" in row.detail
    world.live(600)
    assert len(world.service.posts) == 2


def test_refused_copy_is_no_former_version(world):
    world.service.gives_md5 = False
    world.write("a.jpg", b"some CONTENT")
    world.scan_and_send()
    world.live(3)
    lose(world, "duplicate")
    world.live(60)
    row = world.row("a.jpg")
    assert (row.state, row.reason, row.assetid) == (BLOCKED, "refused_as_duplicate", None)


def test_copy_is_adopted_despite_a_namesake(world):
    theirs = world.service.put(b"some content", "b.jpg", "F1")
    world.ledger.folder_listings.made("F1")
    lose(world, "duplicate", content=b"of which no look-up shows a copy", path="b.jpg")
    lose(world, "duplicate", path="a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (VERIFIED, theirs.id)


def test_refused_copy_is_no_doubts_leftover(make_world):
    folders = [{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F1"}]
    world = make_world(folders=[*folders, {"path": "c", "destfolderid": "F2"}])
    world.service.gives_md5 = False
    lose(world, "lost_after", content=b"other", path="c/x.txt")
    lose(world, "duplicate", content=b"bytes", path="b/x.txt")
    world.live(600)
    assert world.states()["c/x.txt"] == State.VERIFIED
    assert world.row("c/x.txt").assetid in {asset.id for asset in world.service.assets.values()}
    assert (world.row("b/x.txt").state, world.row("b/x.txt").assetid) == (BLOCKED, None)
    assert len(world.service.posts) == 2


def test_unseen_refused_copy_is_blocked(world):
    lose(world, "duplicate")
    world.live(120)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (BLOCKED, 1)


def test_equal_files_in_doubt_share_no_asset(world):
    for path in ("a.jpg", "b.jpg"):
        world.write(path, b"same")
    world.service.script.extend(["lost_after", "lost_before"])
    world.scan()
    for _ in range(2):
        world.site.gates.checked()
        world.send()
    world.live(90)
    assert world.states() == {"a.jpg": VERIFIED, "b.jpg": VERIFIED}
    assert (len(world.service.posts), world.service.contents, world.orphans()) == (3, [b"same"] * 2, [])


def test_adopted_asset_goes_to_its_named_upload(world):
    lose(world, "lost_before", path="x/a.jpg")
    theirs = world.service.put(b"some content", "a.jpg", assetid="NAMED")
    world.live(3)
    assert world.row("x/a.jpg").assetid == theirs.id
    world.service.script.append(("id", "NAMED"))
    world.write("y/b.jpg", b"some content")
    world.scan_and_send()
    assert world.row("y/b.jpg").assetid == "NAMED"
    assert world.row("x/a.jpg").state is IN_DOUBT
    world.live(90)
    assert set(world.states().values()) == {VERIFIED}
    assert world.row("x/a.jpg").assetid != world.row("y/b.jpg").assetid


def test_doubts_of_a_folder_share_one_listing(world):
    world.restart(upload={"workers": "16", "doubt_grace": "20s"})
    for number in range(40):
        world.write(f"{number}", f"{number}".encode())
    world.scan()
    world.service.script.extend(["lost_after"] * 40)
    for _ in range(40):
        world.site.gates.checked()
        world.site.uploader.step()
    world.service.searches.clear()
    assert world.look_up() == 40
    # The listing, without and with what is processed, and each time the call that tells whether it was cut to a page.
    assert [search.startrow for search in world.service.searches] == [1, 2, 1, 2]
    assert world.ledger.doubts.count() == 0


@pytest.fixture
def large_folder(make_world, clock):
    """Give a world with a verified file and a doubt, in a folder whose listing takes a second.

    The times of the listings are in `listed`, on the steady clock.
    """

    def make(name: str = "a.jpg"):
        world = make_world(upload={"doubt_grace": "2m"}, service={"read_timeout": "5s"})
        world.write("known.jpg", b"known")
        world.scan()
        world.live(60)
        assert world.row("known.jpg").state is VERIFIED
        world.listed = []

        def take(request) -> None:
            is_first_page = request.available != "0" and request.startrow in (None, 1)
            if request.folderid is not None and request.searchfor == "%" and is_first_page:
                world.listed.append(clock.steady())
                clock.advance(1.0)

        world.service.during_search = take
        lose(world, "lost_before", path=name)
        world.site.gates.checked()
        # The folder was listed before the upload.
        world.listed.clear()
        return world

    return make


def test_large_folder_is_seldom_listed(large_folder, clock):
    """A listing begins the grace and another ends it; searches by name continue it in between."""
    world, began = large_folder(), clock.steady()
    while len(world.service.posts) == 2:
        assert clock.steady() - began < 2 * 120
        world.live(1)
    assert world.listed[-1] - world.listed[0] >= 120
    assert min(after - before for before, after in pairwise(world.listed)) >= 30
    assert len(world.listed) <= 6


def test_doubt_of_large_folder_is_found_by_name(large_folder):
    world = large_folder()
    world.live(5)
    lose(world, "lost_after", path="b.jpg", content=b"other content")
    world.live(5)
    assert world.row("b.jpg").state is not IN_DOUBT
    assert len(world.listed) == 1


def test_empty_answers_continue_no_grace(large_folder, clock):
    """The service shows nothing of ours between two listings, and stores an upload after it is itself again."""
    world = large_folder()
    world.live(31)
    began, shown = clock.steady(), dict(world.service.assets)
    world.service.assets.clear()
    world.live(80)
    world.service.assets.update(shown)
    while len(world.service.posts) == 2:
        world.live(1)
    assert clock.steady() - began >= 80 + 120


def test_asset_of_the_name_lets_a_large_folder_be_listed(large_folder):
    """The listing judges the asset, and records its first sight."""
    world = large_folder()
    world.live(1)
    world.service.put(b"another content", "a.jpg")
    world.live(10)
    assert len(world.listed) > 1
    assert world.row("a.jpg").state is IN_DOUBT


@pytest.mark.parametrize("name", ["日月.jpg", "日.jpg"])
def test_folder_of_broad_names_is_listed(large_folder, name):
    """A search for such a name would show as much as a listing, and each asset may be the upload."""
    world = large_folder(name)
    world.live(60)
    assert len(world.listed) > 3
    assert not any(search.searchfor == like_pattern(name) for search in world.service.searches)
    assert world.row(name).state is IN_DOUBT


def test_doubt_found_by_name_lists_no_folder(world):
    """An older doubt of the folder waits for its own time."""
    lose(world, "lost_before")
    world.live(3)
    world.site.resolver.step()
    world.site.gates.checked()
    lose(world, "lost_after", path="b.jpg", content=b"other content")
    world.service.searches.clear()
    assert world.look_up() == 1
    assert [request.searchfor for request in world.service.searches] == ["b.jpg"]
    assert world.states() == {"a.jpg": IN_DOUBT, "b.jpg": State.STORED}


def test_trouble_in_a_round_decides_nothing(world):
    lose(world, "lost_after")
    world.service.down = True
    with pytest.raises(ServiceUnreachable):
        world.site.resolver.step()
    assert world.row("a.jpg").state is IN_DOUBT
    assert world.look_up() == 0


def test_manual_resolution_outlasts_a_lookup(world, clock):
    lose(world, "lost_after")
    world.service.during_search = lambda _request: world.ledger.decisions.resolve_as_absent(
        world.row("a.jpg"), clock.now()
    )
    world.service.during_search = _once(world, world.service.during_search)
    world.site.resolver.step()
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (QUEUED, None)


def _once(world, act):
    def run(request) -> None:
        world.service.during_search = lambda _request: None
        act(request)

    return run


def test_beginning_is_no_cut_after_acceptance(world):
    # Moved before it was ever read back, while somebody uploads what the file was before.
    world.service.index_lag = None
    world.write("log.csv", b"line 1\nline 2\n")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    asset.folder = "ARCHIVE"
    world.service.put(b"line 1\n", "log.csv")
    world.live(1500, tick=2)
    assert (world.row("log.csv").state, len(world.service.posts)) == (BLOCKED, 1)


def test_unverified_moved_asset_is_named_by_id(world, clock):
    world.service.index_lag = None
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    (asset,) = world.service.assets.values()
    asset.folder = "ARCHIVE"
    world.live(1500, tick=2)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "different")
    world.ask(Resolve(b"a.jpg", asset.id))
    assert (world.row("a.jpg").state, world.row("a.jpg").asset_folder) == (State.STORED, "ARCHIVE")


def test_copy_of_a_manual_doubt_is_manual_too(world):
    world.service.processing = 1e9
    lose(world, "lost_after", path="b.jpg")
    world.live(25 * 3600, tick=600)
    assert world.row("b.jpg").state is BLOCKED
    (asset,) = world.service.assets.values()
    asset.processed_at = world.clock.now()
    lose(world, "duplicate", path="a.jpg")
    world.live(GRACE / 2)
    assert world.row("a.jpg").state is IN_DOUBT
    world.live(2 * GRACE)
    assert (world.row("a.jpg").state, world.row("a.jpg").reason) == (BLOCKED, "refused_as_duplicate")
    assert f"{asset.id}, may belong to another upload that an operator must decide" in world.row("a.jpg").detail


def _fail_everywhere(world, names: Collection[str]) -> list[str]:
    """Let looks into all folders fail for these names, and for all where there are none; gives what was asked for."""
    asked: list[str] = []

    def fail(request) -> None:
        if request.folderid is None and request.dbdirect:
            asked.append(request.searchfor)
            if not names or request.searchfor in names:
                raise ServiceUnreachable("no answer in time")

    world.service.during_search = fail
    return asked


def test_failed_global_lookup_ends_the_round(world):
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        lose(world, "lost_before", path=name, content=name.encode())
        world.site.gates.checked()
    asked = _fail_everywhere(world, ())
    world.live(GRACE * 2)
    assert set(world.states().values()) == {IN_DOUBT}
    asked.clear()
    world.clock.advance(GRACE / 4)
    assert world.look_up() == 3
    assert len(asked) == 1


def test_asset_in_own_folder_ends_the_lookup(world):
    lose(world, "lost_before")
    world.live(GRACE)
    assert world.row("a.jpg").state is IN_DOUBT
    world.service.put(b"some content", "a.jpg")
    asked = _fail_everywhere(world, ())
    world.live(GRACE / 2)
    assert (world.row("a.jpg").state, asked) == (VERIFIED, [])


@pytest.mark.parametrize(
    ("name", "folder", "index_lag"),
    [("b.jpg", "F9", 0.0), ("b.jpg", "F1", None), ("a.jpg", "F9", None)],
    ids=["by its id", "in its folder", "by its name"],
)
def test_named_asset_is_found_in_each_way(world, clock, name, folder, index_lag):
    lose(world, "lost_before")
    world.service.index_lag = index_lag
    asset = world.service.put(b"some content", name, folder)
    world.ask(Resolve(b"a.jpg", asset.id))
    assert (world.row("a.jpg").state, world.row("a.jpg").assetid) == (State.STORED, asset.id)


def test_repeated_failure_delays_no_other(world):
    for name in ("a.jpg", "b.jpg"):
        lose(world, "lost_before", path=name, content=name.encode())
        world.site.gates.checked()
    _fail_everywhere(world, ())
    world.live(GRACE * 4)
    _fail_everywhere(world, ("a.jpg",))
    world.live(600)
    assert world.states() == {"a.jpg": IN_DOUBT, "b.jpg": VERIFIED}


@pytest.mark.parametrize(
    ("gives_md5", "content"), [(False, b"a longer one"), (True, b"some content"), (False, b"some content")]
)
def test_move_onto_old_absence_is_not_resent(make_world, gives_md5, content):
    world = make_world(folders=[{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    world.service.gives_md5 = gives_md5
    lose(world, "lost_before", path="b/x.jpg", content=content)
    world.live(60)
    assert sent_to(world, "F2") == 2
    world.clock.advance(365 * 86_400)
    lose(world, "lost_after", path="a/x.jpg", content=b"some content")
    list(world.service.assets.values())[-1].folder = "F2"
    world.live(200)
    assert (sent_to(world, "F1"), world.row("a/x.jpg").reason) == (1, "undecidable")


def test_move_onto_new_absence_is_not_resent(make_world):
    world = make_world(folders=[{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    world.service.gives_md5 = False
    lose(world, "lost_before", path="b/x.jpg", content=b"quite another and longer content")
    world.live(60)
    lose(world, "lost_after", path="a/x.jpg", content=b"some content")
    list(world.service.assets.values())[-1].folder = "F2"
    world.live(200)
    assert (sent_to(world, "F1"), world.row("a/x.jpg").reason) == (1, "undecidable")


@pytest.fixture
def three_lost(world):
    """Give a world with three doubts in one folder, whose uploads were stored, and of which nothing was looked up."""
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        lose(world, "lost_after", path=name, content=name.encode())
        world.site.gates.checked()
    return world


def _fail_when(world, fails) -> list[str]:
    """Let the searches fail for which `fails` says so, but no probe; return what was asked for."""
    asked: list[str] = []

    def fail(request) -> None:
        asked.append(request.searchfor)
        if request.searchfor != "assetsync-probe" and fails(request):
            raise BadAnswer("the search failed", hint="try again")

    world.service.during_search = fail
    return asked


def test_failed_look_up_leaves_others_decided(three_lost):
    _fail_when(three_lost, lambda request: request.searchfor in ("a.jpg", "%"))
    assert three_lost.look_up() == 2
    assert three_lost.states() == {"a.jpg": IN_DOUBT, "b.jpg": State.STORED, "c.jpg": State.STORED}
    assert three_lost.site.gates.closed is None


def test_search_that_fails_once_is_repeated(three_lost):
    failed: set[str] = set()
    _fail_when(three_lost, lambda request: request.searchfor not in failed and not failed.add(request.searchfor))
    assert three_lost.look_up() == 3
    assert set(three_lost.states().values()) == {State.STORED}


def test_listing_answers_for_failed_names(world):
    lose(world, "lost_before")
    _fail_when(world, lambda request: request.searchfor == "a.jpg" and request.folderid is not None)
    world.live(2 * GRACE + 5)
    assert len(world.service.posts) == 2


def test_doubts_that_were_partly_answered_wait_shortly(three_lost, clock):
    _fail_when(three_lost, lambda request: request.searchfor in ("a.jpg", "%"))
    three_lost.site.resolver.step()
    three_lost.service.during_search = lambda _request: None
    clock.advance(GRACE / 8)
    assert three_lost.look_up() == 1
    assert three_lost.row("a.jpg").state is State.STORED


def test_old_doubt_is_searched_while_listings_fail(world):
    """Searches for a newer doubt are answered, so that the folder is never in backoff."""
    lose(world, "lost_before")
    world.live(3)
    _fail_when(world, lambda request: request.searchfor == "%")
    lose(world, "lost_before", path="b.jpg", content=b"other content")
    world.live(5)
    world.service.put(b"some content", "a.jpg")
    world.live(20 * GRACE)
    assert world.states() == {"a.jpg": VERIFIED, "b.jpg": IN_DOUBT}


@pytest.mark.parametrize("available", [None, "0"])
def test_unanswered_listing_counts_for_no_grace(world, available):
    lose(world, "lost_before")
    _fail_when(world, lambda request: request.searchfor == "%" and request.available == available)
    world.live(30 * GRACE)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (IN_DOUBT, 1)
    assert world.ledger.doubts.of(world.row("a.jpg").id).looked is None


def test_folder_that_is_partly_answered_is_left_alone(world):
    lose(world, "lost_before")
    asked = _fail_when(world, lambda request: request.searchfor == "%")
    world.live(60 * GRACE)
    asked.clear()
    world.live(3000)
    assert len(asked) < 60


def test_slow_failure_is_not_repeated(of_folders, clock):
    world = of_folders(2)
    asked: list[str] = []

    def hang(request) -> None:
        if request.folderid == "F0":
            asked.append(request.searchfor)
            clock.advance(60)
            raise ServiceUnreachable("no answer in time")

    world.service.during_search = hang
    world.site.resolver.step()
    assert asked == ["%"]


@pytest.mark.parametrize("each", [2, 3, 4])
def test_failures_in_step_with_rounds_stop_nothing(of_folders, each):
    world = of_folders(3)
    searches: list[object] = []

    def fail(request) -> None:
        searches.append(request)
        if len(searches) % each == 0:
            raise BadAnswer("the search failed", hint="try again")

    world.service.during_search = fail
    world.live(10 * GRACE)
    assert set(world.states().values()) == {VERIFIED}
    assert (len(world.service.posts), len(world.service.assets)) == (6, 3)
