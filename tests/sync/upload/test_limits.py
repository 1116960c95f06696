"""Folders whose uploads fail slow down, and leave the others alone."""

import pytest

from assetsync.core.outcome import Reply
from assetsync.errors import LedgerError
from assetsync.model import Answer, Outcome, Sent, SentExtent, State
from assetsync.status.sentences import headline
from assetsync.status.site_status import read_status
from assetsync.sync.requests.retry import Retry
from assetsync.sync.upload.queue import Step
from assetsync.sync.upload.uploader import Uploader

FOLDERS = ("F0", "F1", "F2", "F3")  # F3 accepts uploads
ERROR = Reply(500, "text/html", b"<html>Internal Server Error</html>", is_delimited=True)


@pytest.fixture
def world(make_world):
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in FOLDERS])
    fill(world, "F3", 1)
    world.send()
    return world


def fill(world, folder: str, count: int) -> None:
    for number in range(count):
        world.write(f"{folder}/{number}", f"{folder} {number}".encode())
    world.scan()


def fail_in(world, *folders: str, how: Reply | str = ERROR) -> None:
    """Let every upload into these folders fail."""

    def fail(request) -> None:
        if request.destfolderid in folders:
            world.service.script.append(how)

    world.service.before_upload = fail


def doubts(world) -> dict[str, int]:
    return {folder: each.doubts for folder, each in world.ledger.doubts.by_folder().items()}


def sent(world, folder: str) -> int:
    """Count the uploads into a folder, apart from that of the fixture."""
    return sum(request.destfolderid == folder for request in world.service.posts[1:])


# Limits on doubts.


FAILED = Sent(Outcome(Answer.DOUBT, reason="http_status", detail="500", answered=True), SentExtent.ALL, 1, "md5")
LOST = Sent(Outcome(Answer.DOUBT, reason="no_answer", detail="reset"), SentExtent.ALL, 1, "md5")


def lose(world, row) -> None:
    """End a taken upload without an answer, and let the next one pass."""
    world.site.gates.leave()
    world.site.uploads.selection.release(row)
    world.site.gates.ended(row.destfolderid, LOST)
    world.site.gates.checked()


def test_new_folder_has_one_doubt_at_a_time(world):
    fill(world, "F0", 5)
    fail_in(world, "F0")
    world.live(15)
    assert (doubts(world), sent(world, "F0")) == ({"F0": 1}, 1)


def test_workers_send_one_file_into_new_folder(world):
    """A folder that accepted nothing gets one upload, however many workers are free."""
    fill(world, "F0", 3)
    selection = world.site.uploads.selection
    row = selection.take()
    assert row.destfolderid == "F0"
    assert selection.take() is Step.IDLE
    world.site.gates.accepted("F0")
    assert selection.take().destfolderid == "F0"


def test_other_folder_follows_a_lost_upload(world):
    """Its folder has the fewest waiting files and the oldest one: it would have both turns."""
    for folder, count in (("F0", 3), ("F3", 9)):
        for number in range(1, count):
            world.write(f"{folder}/{number}", f"{folder} {number}".encode())
    world.scan()
    selection = world.site.uploads.selection
    lost = selection.take()
    assert lost.destfolderid == "F0"
    lose(world, lost)
    assert selection.take().destfolderid == "F3"


def test_only_folder_goes_on_after_a_lost_upload(world):
    fill(world, "F0", 3)
    selection = world.site.uploads.selection
    lost = selection.take()
    lose(world, lost)
    assert selection.take().destfolderid == "F0"


def test_only_folder_goes_on_at_its_limit(make_world, monkeypatch):
    """At three of four doubts only the newest files are taken, and a lost upload lets other folders go first.

    That none of another folder is found says nothing of this one.
    """
    world = make_world(upload={"workers": "1"})
    fewest = world.ledger.queue_folders.fewest
    monkeypatch.setattr(
        world.ledger.queue_folders, "fewest", lambda *given: (world.clock.advance(0.001), fewest(*given))[1]
    )
    for number in range(5):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    for _ in range(3):
        world.service.script.append("lost_before")
        assert world.site.uploader.step() is Step.WORKED
        world.site.gates.checked()
    assert world.ledger.doubts.count() == 3
    assert world.site.gates.doubts.anew().held_for_waiting
    world.clock.advance(1)
    assert world.site.uploader.step() is Step.WORKED


def test_pause_of_a_folder_holds_prepared_files(world):
    """Files that were prepared before their folder's pause began are not sent in it.

    With one worker: another one may have recorded its intent already when the pause begins.
    """
    fill(world, "F3", 60)
    late, failing, upload = [], world.site.gates, world.service._upload

    def fail(_request) -> None:
        if len(world.service.posts) >= 20:
            world.service.script.append(ERROR)

    def watched(request, body, what):
        late.extend([request.filename] * ("F3" in failing.held()))
        return upload(request, body, what)

    world.service.before_upload, world.service._upload = fail, watched
    Uploader(world.site.uploads, workers=1).run(lambda: True)
    assert "F3" in failing.held()
    assert late == []


def test_slow_asset_stops_no_folder(world):
    """A doubt that lasts because the service works on the asset holds its folder for a while, not for hours."""
    fill(world, "F0", 1)
    world.live(5)
    world.clock.advance(1200)
    fill(world, "F1", 1)
    world.live(5)
    world.service.processing = 36_000.0
    world.write("F0/video", b"video")
    world.service.script.append("lost_after")
    world.scan_and_send()
    world.service.processing = 0.0
    for number in range(3):
        world.write(f"F0/photo{number}", b"photo%d" % number)
    world.scan()
    for number in range(4):
        world.write(f"F1/more{number}", b"more%d" % number)
        world.scan()
        world.live(600, tick=20)
    assert {request.filename for request in world.service.posts} >= {f"photo{number}" for number in range(3)}


def test_longer_span_counts_earlier_uploads(world, clock):
    fill(world, "F0", 1)
    world.send()
    accepted = world.site.gates.doubts
    clock.advance(1000)
    assert [accepted.accepted_within(seconds)["F0"] for seconds in (3000, 600, 3000)] == [1, 0, 1]


def test_decided_doubt_frees_its_folder(world):
    fill(world, "F0", 2)
    fail_in(world, "F0")
    world.live(25)
    world.service.before_upload = lambda _request: None
    world.live(100)
    assert set(world.states().values()) == {State.VERIFIED}


def test_folder_that_accepts_has_more_doubts(world):
    fill(world, "F0", 20)
    fail_in(world, "F0")
    world.site.gates.accepted("F0")
    world.live(15)
    assert doubts(world)["F0"] > 1


def test_accepted_uploads_of_earlier_process_count(world):
    fill(world, "F0", 1)
    world.send()
    world.restart()
    fill(world, "F0", 20)
    fail_in(world, "F0")
    world.live(15)
    assert doubts(world)["F0"] > 1


def test_accepted_uploads_expire(world, clock):
    fill(world, "F0", 1)
    world.send()
    clock.advance(700)
    world.write("F3/newer", b"newer")
    world.scan_and_send()
    fill(world, "F0", 20)
    fail_in(world, "F0")
    world.live(15)
    assert doubts(world) == {"F0": 1}


def test_failing_folder_leaves_others_alone(world):
    for folder in FOLDERS:
        fill(world, folder, 20)
    fail_in(world, "F0")
    world.live(15)
    assert [sent(world, folder) for folder in FOLDERS] == [1, 20, 20, 19]


def test_prepared_file_waits_for_a_doubt(world):
    fill(world, "F0", 20)
    fail_in(world, "F0")
    world.site.uploader.run(lambda: True)
    # Those of the two workers.
    assert doubts(world)["F0"] <= 2


def test_unread_doubts_are_counted_before_the_next_file(world, monkeypatch):
    """The ledger cannot be read right after a result is recorded: the result counts all the same."""
    fill(world, "F0", 1)
    by_folder, failures = world.ledger.doubts.by_folder, []

    def fail_once():
        if world.row("F0/0").state is State.IN_DOUBT and not failures:
            failures.append(LedgerError("disk I/O error"))
            raise failures[0]
        return by_folder()

    monkeypatch.setattr(world.ledger.doubts, "by_folder", fail_once)
    world.service.script.append("lost_before")
    world.send()
    assert failures
    assert world.site.gates.closed is not None
    assert world.site.uploads.selection.take() is Step.PAUSED
    assert world.site.gates.held() == {"F0"}


def test_accepted_uploads_are_counted_by_folder(world, clock):
    fill(world, "F0", 2)
    world.send()
    accepted = world.site.gates.doubts
    assert accepted.accepted_within(600) == {"F0": 2, "F3": 1}
    accepted.add_accepted("F1")
    assert accepted.accepted_within(600) == {"F0": 2, "F1": 1, "F3": 1}
    clock.advance(700)
    assert accepted.accepted_within(600) == {}


# Answered failures.


def test_answered_failure_pauses_no_other_folder(world):
    fill(world, "F0", 1)
    world.service.script.append(ERROR)
    world.send()
    assert world.site.gates.closed is None
    assert world.row("F0/0").state is State.IN_DOUBT


def test_lost_answer_pauses_sending(world):
    fill(world, "F0", 1)
    world.service.script.append("lost_before")
    world.send()
    assert world.site.gates.closed is not None


@pytest.mark.parametrize(("folders", "is_paused"), [(("F0", "F1"), False), (("F0", "F1", "F2"), True)])
def test_three_failing_folders_pause_sending(world, folders, is_paused):
    for folder in folders:
        fill(world, folder, 1)
    fail_in(world, *folders)
    world.send()
    assert (world.site.gates.closed is not None) is is_paused


def test_success_between_failures_pauses_nothing(world):
    for folder in ("F0", "F1", "F2"):
        fill(world, folder, 1)
    world.service.script.extend([ERROR, "accept", ERROR])
    world.send()
    fill(world, "F3", 2)
    world.service.script.append(ERROR)
    world.send()
    assert len(world.service.posts) == 5
    assert world.site.gates.closed is None


def test_failures_in_three_folders_pause_longer_each_time(world, clock):
    gates, waits = world.site.gates, []
    for _ in range(4):
        for folder in ("F0", "F1", "F2"):
            gates.ended(folder, FAILED)
        waits.append(gates.closed.until - clock.steady())
        clock.advance(waits[-1])
        gates.checked()
    assert waits[0] == 0 < waits[1] < waits[2] < waits[3]
    gates.answered()
    gates.ended("F3", FAILED)
    assert gates.closed is None


def test_paused_folder_takes_no_file(world):
    for folder in ("F0", "F1"):
        fill(world, folder, 9)
        world.site.gates.accepted(folder)
    fail_in(world, "F0")
    steps = [world.site.uploader.step() for _ in range(18)]
    assert (sent(world, "F0"), sent(world, "F1")) == (4, 9)
    assert steps.count(Step.IDLE) == 5


PAGE = b"<html><h1>413 Request Entity Too Large</h1></html>"
TOO_LARGE = Reply(413, "text/html", PAGE, is_delimited=True)
LIMIT = 1000
DAY = 24 * 3600.0


def behind_proxy(world, limit: int = LIMIT) -> None:
    """Let a proxy refuse each upload above a size in bytes."""

    def refuse(request) -> None:
        if (world.root / "F3" / request.filename).stat().st_size > limit:
            world.service.script.append(TOO_LARGE)

    world.service.before_upload = refuse


@pytest.fixture
def limited(world):
    """A world behind a proxy, with one file that it refuses and five that it does not."""
    behind_proxy(world)
    world.write("F3/large", b"x" * 2000)
    world.scan_and_send()
    for number in range(5):
        world.write(f"F3/small{number}", b"%d" % number * 900)
    world.scan_and_send()
    return world


def test_refused_size_holds_no_other_file(limited):
    assert [limited.row(f"F3/small{n}").state for n in range(5)] == [State.STORED] * 5
    assert limited.site.gates.closures() == ([], [])
    assert limited.row("F3/large").state is State.IN_DOUBT


def test_absent_refused_file_is_blocked_at_once(limited):
    limited.live(60)
    row = limited.row("F3/large")
    assert (row.state, row.reason, row.absences) == (State.BLOCKED, "too_large_for_proxy", 0)
    assert row.detail.startswith("refused by a proxy: 413, 2.0 KB: raise its limit")
    assert limited.posted().count("large") == 1


def test_doubt_names_the_status(limited):
    limited.live(3)
    assert limited.row("F3/large").detail == "refused by a proxy: 413, 2.0 KB; looking for it in the service"


def test_larger_file_is_not_sent(limited):
    limited.write("F3/larger", b"y" * 2001)
    limited.scan_and_send()
    assert limited.row("F3/larger").reason == "too_large_for_proxy"
    assert "larger" not in limited.posted()


def test_unsure_sizes_go_one_at_a_time(limited):
    for number in range(1001, 1005):
        limited.write(f"F3/unsure{number}", b"z" * number)
    limited.scan()
    limited.service.most_in_flight = 0
    first = limited.site.uploads.selection.take()
    assert first.size > 900
    assert limited.site.uploads.selection.take() is Step.IDLE
    limited.write("F3/sure", b"s" * 900)
    limited.scan()
    limited.site.upload_queue.clear()
    assert limited.site.uploads.selection.take().size == 900


def test_smallest_blocked_file_is_tried_daily(limited, clock):
    limited.write("F3/larger", b"y" * 3000)
    limited.scan_and_send()
    limited.live(60)
    clock.advance(DAY)
    limited.live(120)
    assert [limited.posted().count(name) for name in ("large", "larger")] == [2, 0]
    assert {limited.row(f"F3/{name}").state for name in ("large", "larger")} == {State.BLOCKED}


def test_accepted_trial_sends_all(limited, clock):
    limited.write("F3/larger", b"y" * 3000)
    limited.scan_and_send()
    limited.live(60)
    behind_proxy(limited, 10_000)
    clock.advance(DAY)
    limited.live(200)
    assert {limited.row(f"F3/{name}").state for name in ("large", "larger")} == {State.VERIFIED}


def test_retry_by_a_person_is_sent_at_once(limited):
    limited.live(60)
    behind_proxy(limited, 10_000)
    limited.ask(Retry((b"F3/large",)))
    limited.site.size_limit.reload()
    limited.live(200)
    assert limited.row("F3/large").state is State.VERIFIED


def test_refused_size_is_known_after_a_restart(limited):
    limited.live(60)
    limited.restart()
    limited.write("F3/larger", b"y" * 2001)
    limited.scan_and_send()
    assert limited.posted().count("larger") == 0


def test_copy_of_an_asset_needs_no_proxy(world):
    """The asset was uploaded before there was a limit, and nobody owns it."""
    world.service.put(b"e" * 5000, "early", folder="F0")
    world.write("F0/early", b"e" * 5000)
    world.site.size_limit.note_refused(2000)
    world.scan_and_send()
    assert world.row("F0/early").state is State.STORED


@pytest.mark.parametrize("status", [411, 414, 431, 501])
def test_refusing_proxy_pauses_with_its_status(world, status):
    fail_in(world, *FOLDERS, how=Reply(status, "text/html", b"<html>", is_delimited=True))
    fill(world, "F0", 1)
    world.send()
    assert world.site.gates.closed.detail.startswith(f"refused by a proxy: {status};")
    world.live(1200)
    assert world.row("F0/0").absences == 0


def test_headline_names_the_status(world):
    fail_in(world, "F0", how=Reply(411, "text/html", b"<html>", is_delimited=True))
    fill(world, "F0", 1)
    world.send()
    world.site.runtime_state.note()
    status = read_status(world.config().outline, world.ledger, world.clock.now())
    assert "(refused by a proxy: 411)" in headline(status)
