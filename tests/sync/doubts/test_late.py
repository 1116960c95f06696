"""Absence counts late: where look-ups may be old, and where a proxy gave up before the service had stored."""

import sqlite3
from contextlib import closing

import pytest

from assetsync.core.doubt_grace import STORED_BY_NOW
from assetsync.core.outcome import Reply
from assetsync.errors import BadAnswer, ServiceRefused
from assetsync.ledger.file.integrity import CLEAN_STOP
from assetsync.model import State
from assetsync.service.search import like_pattern
from tests.sync.conftest import die_sending, lose

VERIFIED, IN_DOUBT = State.VERIFIED, State.IN_DOUBT
GRACE = 20
LAG = 4 * GRACE
BODY = b"some content"
NO_ID = b"<Response><responsecode>0</responsecode></Response>"


@pytest.fixture
def lagging(make_world):
    """Give a world that takes look-ups for as old as they may be without a word in the configuration."""
    return make_world(upload={"lookup_lag": None})


def until_sent(world, posts: int, most: float) -> float:
    """Let the world live until so many uploads were sent; gives the seconds, `most` where they were not."""
    began = world.clock.steady()
    while len(world.service.posts) < posts and world.clock.steady() - began < most:
        world.live(1)
    return world.clock.steady() - began


def send_another(world, name: str = "b.jpg") -> None:
    world.site.gates.checked()
    world.site.resolver.step()
    world.write(name, name.encode())
    world.scan_and_send()


def in_runs(world, *, seconds: float, between: float, runs: int, reboots: bool = False) -> None:
    """Let the world live for so long at a time, each time as another process, or in another boot."""
    for _ in range(runs):
        world.close()
        if reboots:
            world.clock.reboot()
        world.restart()
        world.scan()
        world.live(seconds)
        world.clock.advance(between)


def test_a_replica_behind_the_grace_proves_nothing(lagging):
    lagging.service.shows_as_of = lambda now: now - 3 * GRACE
    lose(lagging, "lost_after")
    lagging.live(10 * GRACE)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (VERIFIED, 1)


def test_a_replica_behind_a_newer_upload_proves_nothing(lagging):
    send_another(lagging, "old.jpg")
    lagging.live(4 * GRACE)
    lagging.service.shows_as_of = lambda now: now - 3 * GRACE
    lose(lagging, "lost_after")
    send_another(lagging)
    lagging.live(10 * GRACE)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (VERIFIED, 3)


def test_a_database_that_stands_still_proves_nothing(lagging, clock):
    send_another(lagging)
    still = clock.now()
    clock.advance(1)
    lose(lagging, "lost_after")
    lagging.service.shows_as_of = lambda now: still if now < still + LAG else now
    lagging.live(10 * GRACE)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (VERIFIED, 2)


def test_without_a_newer_upload_absence_takes_the_lag(lagging):
    lose(lagging, "lost_before")
    assert LAG + GRACE <= until_sent(lagging, 2, 1000) <= LAG + 2 * GRACE


def test_a_newer_upload_keeps_the_grace_short(lagging):
    lose(lagging, "lost_before")
    send_another(lagging)
    assert GRACE <= until_sent(lagging, 3, 1000) <= 2 * GRACE


def test_a_newer_upload_that_comes_later_shortens_it(lagging):
    lose(lagging, "lost_before")
    lagging.live(GRACE * 1.5)
    send_another(lagging)
    assert GRACE <= until_sent(lagging, 3, 1000) <= 2 * GRACE


def test_an_upload_accepted_meanwhile_is_not_newer(lagging):
    lagging.service.put(b"there", "there")
    lagging.clock.advance(2 * LAG)
    lagging.write("b.jpg", b"b.jpg")
    lagging.write("a.jpg", BODY)

    def another(_request) -> None:
        lagging.service.during_upload = lambda _request: None
        lagging.site.uploader.step()

    lagging.service.during_upload = another
    lagging.service.script.extend(["lost_before", "accept"])
    lagging.scan_and_send()
    assert sorted(lagging.states().values()) == [IN_DOUBT, State.STORED]
    assert until_sent(lagging, 3, 1000) >= LAG + GRACE


def test_a_sample_deleted_in_the_service_costs_time_only(lagging):
    lagging.ledger.folder_listings.made("F1")
    lose(lagging, "lost_before")
    send_another(lagging)
    lagging.service.assets.clear()
    assert LAG + GRACE <= until_sent(lagging, 3, 1000) <= LAG + 2 * GRACE


@pytest.mark.parametrize("error", [BadAnswer, ServiceRefused])
def test_a_sample_that_cannot_be_asked_for_costs_time_only(lagging, error):
    lose(lagging, "lost_before")
    send_another(lagging)

    def fail(request) -> None:
        if request.dbdirect and request.searchfor == like_pattern("b.jpg"):
            raise error("no answer")

    lagging.service.during_search = fail
    assert LAG + GRACE <= until_sent(lagging, 3, 1000) <= LAG + 2 * GRACE


def test_a_name_without_letters_is_no_sample(lagging):
    lose(lagging, "lost_before")
    send_another(lagging, "写真.jpg")
    assert LAG + GRACE <= until_sent(lagging, 3, 1000) <= LAG + 2 * GRACE


def test_a_sample_is_asked_for_once_a_round(make_world):
    folders = [{"path": folder, "destfolderid": folder} for folder in ("F1", "F2", "F3")]
    world = make_world(upload={"lookup_lag": None, "workers": "8"}, folders=folders)
    for number in range(6):
        lose(world, "lost_before", path=f"F{number % 3 + 1}/{number}.jpg", content=b"%d" % number)
        world.site.gates.checked()
    send_another(world, "F1/sample.jpg")
    world.clock.advance(5)
    world.service.searches.clear()
    world.site.resolver.step()
    asked = [request.searchfor for request in world.service.searches]
    assert (asked.count("sample.jpg"), asked.count("%")) == (1, 6)


def test_short_runs_far_apart_end_a_doubt(lagging):
    lose(lagging, "lost_before")
    in_runs(lagging, seconds=2 * GRACE, between=STORED_BY_NOW, runs=2)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (VERIFIED, 2)


def test_a_reboot_begins_the_lag_anew(lagging, clock):
    lose(lagging, "lost_before")
    lagging.live(LAG)
    lagging.close()
    clock.reboot()
    clock.advance(LAG)
    assert until_sent(lagging, 2, 1000) >= LAG + GRACE


def test_runs_in_other_boots_end_a_doubt(lagging):
    lose(lagging, "lost_before")
    in_runs(lagging, seconds=2 * GRACE, between=STORED_BY_NOW, runs=2, reboots=True)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (VERIFIED, 2)


@pytest.mark.parametrize("between", [STORED_BY_NOW / 2 - 120, -STORED_BY_NOW])
def test_too_young_for_other_boots_decides_nothing(lagging, between):
    lose(lagging, "lost_before")
    in_runs(lagging, seconds=2 * GRACE, between=0, runs=1, reboots=True)
    lagging.clock.set_now(lagging.clock.now() + between)
    in_runs(lagging, seconds=2 * GRACE, between=0, runs=1, reboots=True)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (IN_DOUBT, 1)


def test_jump_within_a_boot_decides_nothing(lagging):
    lose(lagging, "lost_before")
    lagging.live(3)
    lagging.clock.set_now(lagging.clock.now() + 10 * STORED_BY_NOW)
    lagging.live(2 * GRACE)
    assert (lagging.row("a.jpg").state, len(lagging.service.posts)) == (IN_DOUBT, 1)


def test_a_sample_older_than_a_gap_is_none(lagging):
    lose(lagging, "lost_before")
    send_another(lagging)
    lagging.live(3)
    lagging.service.down = True
    lagging.live(2 * GRACE)
    lagging.service.down = False
    assert LAG + GRACE <= until_sent(lagging, 3, 1000) <= LAG + 2 * GRACE + 60


def test_next_process_keeps_the_control_sample(lagging):
    lose(lagging, "lost_before")
    send_another(lagging)
    lagging.live(3)
    lagging.restart()
    lagging.scan()
    assert until_sent(lagging, 3, 1000) <= 2 * GRACE


def test_next_process_goes_on_with_the_lag(lagging):
    lose(lagging, "lost_before")
    lagging.live(LAG)
    lagging.restart()
    lagging.scan()
    assert until_sent(lagging, 2, 1000) <= 2 * GRACE


def test_who_gave_an_equal_its_asset_waits_as_long(world):
    """The slower of two equal uploads waits for its own time, though the other one took the asset."""
    # Both come back under one name, so that either may take what there is.
    for path in ("日.jpg", "月.jpg"):
        world.write(path, b"same")
    world.scan()
    world.service.script.extend(["lost_before", "lost_before"])
    world.service.during_upload = lambda _request: world.clock.advance(60)
    world.site.uploader.step()
    world.service.during_upload = lambda _request: None
    world.site.gates.checked()
    world.site.uploader.step()
    world.site.gates.checked()
    world.service.put(b"same", "?.jpg")
    assert until_sent(world, 3, 250) == 250
    world.service.put(b"same", "?.jpg")
    world.live(60)
    assert set(world.states().values()) == {VERIFIED}
    assert len(world.service.posts) == 2


def test_explain_says_why_it_waits(lagging):
    lose(lagging, "lost_before")
    lagging.live(3)
    assert lagging.row("a.jpg").detail == "the service may show an older state than the upload's"


def lose_slowly(world, what) -> None:
    """Lose the answer of an upload that takes a minute."""
    world.service.during_upload = lambda _request: world.clock.advance(60)
    lose(world, what)
    world.service.during_upload = lambda _request: None


def test_an_upload_stored_long_after_a_504_is_found(world):
    lose_slowly(world, "lost_before")
    world.live(280)
    world.service.put(BODY, "a.jpg")
    world.live(60)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 1)


def test_what_left_whole_is_waited_for_five_times_as_long(world):
    lose_slowly(world, "lost_before")
    assert 300 <= until_sent(world, 2, 1000) <= 300 + GRACE


def test_what_left_whole_is_waited_for_as_long_as_answers(make_world):
    world = make_world(service={"read_timeout": "100s"})
    lose(world, "lost_before")
    assert 100 <= until_sent(world, 2, 1000) <= 100 + GRACE


FAILED = Reply(500, "text/html", b"<html>Error</html>", is_delimited=True)


@pytest.mark.parametrize("reply", [FAILED, Reply(429, is_delimited=True), Reply(200, "text/xml", NO_ID)])
def test_answered_upload_waits_the_grace_alone(make_world, reply):
    world = make_world(service={"read_timeout": "100s"})
    lose(world, reply)
    assert GRACE <= until_sent(world, 2, 1000) <= 2 * GRACE


@pytest.mark.parametrize(
    "reply", [Reply(500), Reply(502, is_delimited=True), Reply(200, "text/html", b"<html></html>")]
)
def test_reply_of_a_proxy_waits_as_long_as_answers(make_world, reply):
    world = make_world(service={"read_timeout": "100s"})
    lose(world, reply)
    assert 100 <= until_sent(world, 2, 1000) <= 100 + GRACE


def test_late_500_waits_five_times_as_long(world):
    lose_slowly(world, FAILED)
    assert 300 <= until_sent(world, 2, 1000) <= 300 + GRACE


def test_equal_of_an_unanswered_upload_waits_as_long(make_world):
    """Both come back under one name, so that the answered upload may be stored and the other still to come."""
    world = make_world(service={"read_timeout": "100s"})
    world.service.shows_latin1 = True
    for path in ("日.jpg", "月.jpg"):
        world.write(path, b"same")
    world.scan()
    for what in ("lost_before", FAILED):
        world.service.script.append(what)
        world.site.uploader.step()
        world.site.gates.checked()
    world.service.put(b"same", "日.jpg")
    assert 100 <= until_sent(world, 3, 1000) <= 100 + 2 * GRACE


def test_what_a_crash_left_is_waited_for_as_long_as_answers(make_world):
    world = make_world(service={"read_timeout": "100s"})
    die_sending(world, BODY, arrived=False)
    assert 100 <= until_sent(world, 2, 1000) <= 100 + GRACE


def test_crashed_upload_is_awaited_for_its_time(world):
    die_sending(world, BODY, arrived=False, after=600)
    assert 3000 <= until_sent(world, 2, 4000) <= 3000 + GRACE


def test_crash_with_future_start_waits_the_grace(world):
    die_sending(world, BODY, arrived=False, jump=-86_400)
    assert GRACE <= until_sent(world, 2, 4000) <= 2 * GRACE


@pytest.mark.parametrize("jump", [0, 400 * 86_400])
def test_crash_found_much_later_waits_half_a_day(world, clock, jump):
    die_sending(world, BODY, arrived=False, after=86_400, jump=jump)
    world.live(60)
    clock.advance(STORED_BY_NOW - 120)
    world.live(30)
    assert len(world.service.posts) == 1
    clock.advance(60)
    world.live(2 * GRACE)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)


def test_what_was_cut_is_waited_for_the_grace_alone(make_world):
    world = make_world(service={"read_timeout": "100s"})
    lose_slowly(world, ("cut", len(BODY)))
    for asset in list(world.service.assets):
        del world.service.assets[asset]
    assert GRACE <= until_sent(world, 2, 1000) <= 2 * GRACE


def test_next_process_goes_on_with_the_span(world):
    lose_slowly(world, "lost_before")
    world.live(290)
    world.restart()
    world.scan()
    assert 10 <= until_sent(world, 2, 1000) <= 10 + GRACE


def test_short_runs_in_a_row_end_a_doubt(world):
    lose_slowly(world, "lost_before")
    in_runs(world, seconds=20, between=5, runs=11)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (IN_DOUBT, 1)
    in_runs(world, seconds=20, between=5, runs=3)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)


def with_another_key(world) -> None:
    world.service.account = "another"
    world.restart()


def with_a_gap(world) -> None:
    world.clock.advance(GRACE / 2 + 1)
    world.restart()


def with_another_grace(world) -> None:
    """A gap within which the service may have hung was allowed by the grace before."""
    world.restart(upload={"doubt_grace": f"{GRACE - 1}s"})


def after_a_crash(world) -> None:
    """A copy that was made while a process held the ledger looks the same."""
    world.close()
    with closing(sqlite3.connect(world.ledger_path)) as conn, conn:
        conn.execute("DELETE FROM facts WHERE name = ?", (CLEAN_STOP,))
    world.restart()


def with_an_older_ledger(world) -> None:
    world.close()
    copy = world.ledger_path.read_bytes()
    world.restart()
    world.close()
    world.ledger_path.write_bytes(copy)
    world.restart()
    assert world.ledger.restored


@pytest.mark.parametrize(
    "again", [with_another_key, with_a_gap, with_another_grace, after_a_crash, with_an_older_ledger]
)
def test_span_begins_anew(world, again):
    lose_slowly(world, "lost_before")
    world.live(290)
    again(world)
    world.scan()
    assert 300 <= until_sent(world, 2, 1000) <= 300 + GRACE


def look_up_once(world, *, after: float, reboots: bool = False) -> None:
    """Let the time pass, and a process make a single round of look-ups."""
    world.close()
    world.clock.advance(after)
    if reboots:
        world.clock.reboot()
        world.clock.advance(60)
    world.restart()
    world.scan()
    world.service.searches.clear()
    world.live(1)


@pytest.mark.parametrize("reboots", [False, True])
def test_five_rounds_after_half_a_day_are_enough(lagging, reboots):
    lose_slowly(lagging, "lost_before")
    look_up_once(lagging, after=0)
    look_up_once(lagging, after=STORED_BY_NOW, reboots=reboots)
    for _ in range(3):
        look_up_once(lagging, after=3600, reboots=reboots)
    assert len(lagging.service.posts) == 1
    look_up_once(lagging, after=3600, reboots=reboots)
    asked = {(search.folderid, search.searchfor, search.available) for search in lagging.service.searches}
    assert asked >= {("F1", "%", None), ("F1", "%", "0"), (None, "a.jpg", None), (None, "a.jpg", "0")}
    lagging.live(1)
    assert len(lagging.service.posts) == 2


def test_rounds_within_a_minute_count_once(lagging):
    lose_slowly(lagging, "lost_before")
    look_up_once(lagging, after=0)
    look_up_once(lagging, after=STORED_BY_NOW)
    for _ in range(8):
        look_up_once(lagging, after=25)
    assert len(lagging.service.posts) == 1


def test_rounds_before_half_a_day_count_nothing(lagging):
    lose_slowly(lagging, "lost_before")
    for _ in range(10):
        look_up_once(lagging, after=STORED_BY_NOW / 11)
    assert len(lagging.service.posts) == 1


def test_unanswered_round_does_not_count(lagging):
    lose_slowly(lagging, "lost_before")
    look_up_once(lagging, after=0)
    look_up_once(lagging, after=STORED_BY_NOW)
    lagging.service.during_search = lambda request: _fail() if request.available else None
    for _ in range(5):
        look_up_once(lagging, after=3600)
    assert len(lagging.service.posts) == 1


def _fail() -> None:
    raise BadAnswer("no answer")


def test_after_half_a_day_short_runs_end_a_doubt(world):
    lose_slowly(world, "lost_before")
    in_runs(world, seconds=60, between=STORED_BY_NOW / 2 - 120, runs=2)
    assert len(world.service.posts) == 1
    in_runs(world, seconds=60, between=STORED_BY_NOW / 2, runs=2)
    assert (world.row("a.jpg").state, len(world.service.posts)) == (VERIFIED, 2)
