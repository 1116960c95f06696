"""What is written down for those who only see the ledger: when, and how seldom."""

import re

import pytest
from structlog.testing import capture_logs

from assetsync.core.gate import Met, Trouble
from assetsync.core.notices import AT_ONCE, Kind, NoticeTracker
from assetsync.errors import RootElsewhere, RootMissing
from assetsync.ledger.runs import HeldUp, Pause, Unsettled
from assetsync.notify.notifications import current_problems
from assetsync.status.sentences import headline
from assetsync.status.site_status import read_status


@pytest.fixture
def settling(make_world):
    """A world whose files rest for long, scanned once."""
    world = make_world(watch={"settle": "20h"})
    # Ahead of the disk by a day: files are written now.
    world.clock.set_now(world.clock.now() - 86_400)
    world.scan()
    return world


def look(world, *names: str) -> None:
    for name in names:
        world.write(name)
        world.site.single_looks.look(name.encode())


def noted(world) -> Unsettled:
    return world.ledger.runs.unsettled()


def test_first_settling_file_is_noted_at_once(settling, clock):
    look(settling, "a")
    settling.site.runtime_state.note()
    assert noted(settling) == Unsettled(1)
    commits = settling.ledger.store._commits.count
    for number in range(40):
        look(settling, f"{number}")
        settling.site.runtime_state.note()
    assert (noted(settling), settling.ledger.store._commits.count) == (Unsettled(1), commits)
    clock.advance(6)
    settling.site.runtime_state.note()
    assert (noted(settling), settling.ledger.store._commits.count) == (Unsettled(41), commits + 1)


def test_that_none_is_left_is_noted_at_once(settling):
    look(settling, "a", "b")
    settling.site.runtime_state.note()
    for path in (b"a", b"b"):
        settling.site.settling.forget(path)
        settling.site.runtime_state.looked()
    assert noted(settling) == Unsettled()


def test_dry_run_records_no_settling_files(settling):
    settling.write("a")
    settling.site.rescan.dry_run()
    assert noted(settling) == Unsettled()
    settling.scan()
    assert noted(settling) == Unsettled(1)


def test_earlier_state_is_kept_until_full_scan(settling, clock):
    settling.write("a")
    settling.scan()
    settling.restart()
    settling.site.runtime_state.note()
    assert noted(settling) == Unsettled(1)
    clock.stopped = True
    settling.scan()
    assert noted(settling) == Unsettled(1)
    clock.stopped = False
    (settling.root / "a").unlink()
    settling.scan()
    assert noted(settling) == Unsettled()


def test_overflow_is_kept_until_a_full_scan(settling):
    settling.site.settling.overflowed = True
    settling.site.runtime_state.note()
    assert noted(settling) == Unsettled(0, overflowed=True)
    settling.site.settling.overflowed = False
    settling.site.runtime_state.begin_scan()
    settling.site.runtime_state.note()
    assert noted(settling) == Unsettled(0, overflowed=True)
    settling.site.runtime_state.end_scan(finished=True)
    assert noted(settling) == Unsettled()


def test_resting_file_is_pending_until_queued(settling, clock):
    settling.write("a")
    settling.write("b/c")
    settling.scan()
    clock.advance(21 * 3600)
    said = []

    def between_folders(_files: int) -> None:
        settling.site.runtime_state.note()
        settling.site.runtime_state.looked()
        said.append(noted(settling).count + len(settling.states()))

    settling.site.rescan.run(seen=between_folders)
    assert set(said) == {2}
    assert (noted(settling), len(settling.states())) == (Unsettled(), 2)


@pytest.mark.parametrize(("after", "reason", "goes_on"), [
    (100, "unreachable", True), (130, "unreachable", False), (100, "no_answer", False),
])  # fmt: skip
def test_outage_goes_on_after_a_restart(world, clock, after, reason, goes_on):
    """A run an hour, or a reload, begins in the outage that the process before met."""
    world.site.gates.failed(Trouble("unreachable", "no answer"))
    world.site.runtime_state.note()
    began = world.ledger.runs.recorded(Pause).since
    clock.advance(3600)
    world.site.runtime_state.end()
    world.restart()
    for _ in range(after // 10):
        world.site.runtime_state.note()
        clock.advance(10)
    world.site.gates.failed(Trouble(reason, "no answer"))
    world.site.runtime_state.note()
    assert (world.ledger.runs.recorded(Pause).since == began) is goes_on
    world.site.runtime_state.end()
    assert (world.ledger.runs.recorded(Pause).since == began) is goes_on


@pytest.mark.parametrize("is_braked", [False, True])
def test_answered_check_ends_outage_under_a_brake(world, is_braked):
    """No POST can show that the service answers again while a brake, or the window, lets none through."""
    world.write("a")
    world.scan()
    world.site.gates.failed(Trouble("unreachable", "no answer"))
    world.site.runtime_state.note()
    if is_braked:
        world.ledger.pull_brake("vanished", "site", "many files are gone", 9, world.clock.now())
    world.site.gates.checked()
    world.clock.advance(60)
    world.site.runtime_state.note()
    assert (world.ledger.runs.recorded(Pause) is None) is is_braked


def test_run_without_trouble_ends_an_earlier_outage(world):
    world.site.gates.failed(Trouble("unreachable", "no answer"))
    world.site.runtime_state.end()
    world.restart()
    world.site.runtime_state.note()
    world.site.runtime_state.end()
    assert world.ledger.runs.recorded(Pause) is None


def test_overflow_is_reported_during_a_scan(settling, clock):
    settling.site.settling.overflowed = True
    settling.site.runtime_state.note()
    clock.stopped = True
    settling.site.rescan.run(seen=lambda _files: settling.site.runtime_state.note())
    assert noted(settling) == Unsettled(0, overflowed=True)
    clock.stopped = False
    settling.site.rescan.run(seen=lambda _files: settling.site.runtime_state.note())
    assert noted(settling) == Unsettled()


@pytest.mark.parametrize("what", ["missing", "elsewhere"])
def test_unscanned_root_is_not_in_sync(world, what):
    world.write("a")
    world.scan_and_send()
    world.live(200)
    assert read_status(world.config().outline, world.ledger, world.clock.now()).in_sync
    if what == "missing":
        world.root.rename(world.base / "away")
    else:
        (world.base / "other").mkdir()
        world.restart(root=str(world.base / "other"))
    with pytest.raises((RootMissing, RootElsewhere)) as caught:
        world.scan()
    if what == "missing":
        world.site.root_identity.missing(str(caught.value))
    world.ledger.resume(None, world.clock.now())
    assert not read_status(world.config().outline, world.ledger, world.clock.now()).in_sync


def test_pause_is_recorded_once_with_its_end(world):
    runtime_state, gates = world.site.runtime_state, world.site.gates
    runtime_state.note()
    gates.failed(Trouble("unreachable", "nothing answers"))
    runtime_state.note()
    commits = world.ledger.store._commits.count
    runtime_state.note()
    assert world.ledger.store._commits.count == commits
    pause = world.ledger.runs.recorded(Pause)
    assert (pause.start, pause.reason, pause.detail, pause.ended) == (
        world.ledger.start_no, "unreachable", "nothing answers", None,
    )  # fmt: skip
    gates.checked()
    gates.answered()
    runtime_state.note()
    assert world.ledger.runs.recorded(Pause) is None


def test_failing_trials_are_no_end_of_a_pause(world, clock):
    """Searches are answered, and no upload is: the log has one line when that begins, and one when it ends."""
    world.write("a")
    world.scan()
    runtime_state, gates = world.site.runtime_state, world.site.gates
    gates.failed(Trouble("http_status", "503"))
    with capture_logs() as logs:
        runtime_state.note()
        for _ in range(5):
            clock.advance(60)
            assert world.site.gates.check()
            runtime_state.note()
            # Uploads in doubt keep the next POST back.
            clock.advance(200)
            runtime_state.note()
            assert gates.enter()
            gates.failed(Trouble("http_status", "503"))
            gates.leave()
        assert logs == []
        assert world.site.gates.check()
        gates.answered()
        runtime_state.note()
    assert [(log["event"], log["after"]) for log in logs] == [("the service answers again", 1300)]


@pytest.fixture
def losing(world):
    """A site whose uploads are stored, while their answers are lost and searches are answered."""
    world.service.script.extend(["lost_after"] * 200)
    for number in range(100):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    world.live(2)
    world.site.runtime_state.note()
    world.live(240)
    world.site.runtime_state.note()
    return world


def test_lost_answers_are_no_silent_service(losing):
    said = headline(read_status(losing.config().outline, losing.ledger, losing.clock.now()))
    assert re.match(r"Paused for [34] min \(answers to uploads are lost; \d+ files arrived\); ", said)


def test_alert_counts_what_arrived(losing):
    pause = losing.site.gates.ongoing
    problems = current_problems(losing.ledger, pause, None, (), losing.clock.now())
    outage = [problem for problem in problems if problem.kind is Kind.OUTAGE]
    (notice,) = NoticeTracker("hq").step(outage, losing.clock.now(), losing.clock.steady(), AT_ONCE)
    said = r"hq: answers to uploads are lost for \d min: \d+ files arrived since; connection reset; "
    assert re.match(said, notice.text)
    assert "nothing is sent" not in notice.text


def test_silent_service_is_unreachable_again(losing):
    losing.service.down = True
    losing.live(60)
    losing.site.runtime_state.note()
    said = headline(read_status(losing.config().outline, losing.ledger, losing.clock.now()))
    assert "(the service cannot be reached)" in said


LACK, OUTAGE = ("sending paused", "sending resumed"), ("sending paused", "the service answers again")


@pytest.mark.parametrize(
    ("lack", "outage", "ends"),
    [
        (10, (0, 100), [(45, LACK), (100, OUTAGE)]),
        (10, (0, 20), [(20, OUTAGE), (20, LACK)]),
        (0, (10, 20), [(20, OUTAGE), (20, LACK)]),
        (0, (10, 100), [(35, LACK), (100, OUTAGE)]),
        (0, (0, 5), [(5, OUTAGE), (5, LACK)]),
    ],
)
def test_outage_and_lack_have_one_end_each(world, lack, outage, ends):
    """An accepted upload ends both, if the lack has lasted for its five seconds."""
    world.write("a")
    world.scan()
    gates, logged = world.site.gates, []
    for second in range(160):
        with capture_logs() as logs:
            if second == outage[0]:
                gates.failed(Trouble("unreachable", "down"))
            if second == lack:
                gates.lacks("no descriptor")
            if second == outage[1]:
                gates.checked()
                gates.answered()
            world.site.runtime_state.note()
        logged += [(second, log["event"]) for log in logs]
        world.clock.advance(1)
    assert sum(event == "sending paused" for _, event in logged) == 2
    assert sorted(each for each in logged if each[1] != "sending paused") == sorted((at, end) for at, (_, end) in ends)
    assert world.ledger.runs.recorded(Pause) is None


def test_each_pause_between_two_notes_has_one_end(world):
    gates = world.site.gates
    with capture_logs() as logs:
        for _ in range(2):
            gates.failed(Trouble("key_refused", "no"))
            gates.checked()
            gates.answered()
            for _ in range(2):
                world.site.runtime_state.note()
            world.clock.advance(1)
    events = [log["event"] for log in logs]
    assert events == ["sending paused", "the service accepts the API key"] * 2


def test_answered_check_at_exit_ends_the_pause(world):
    world.site.gates.failed(Trouble("unreachable", "down", met_by=Met.LOOKUP))
    world.site.runtime_state.note()
    assert world.site.gates.check()
    with capture_logs() as logs:
        world.site.runtime_state.end()
    assert world.ledger.runs.recorded(Pause) is None
    assert [log["event"] for log in logs] == ["the service answers again"]


def test_pause_at_exit_is_forgotten_at_start(world, clock):
    world.site.gates.failed(Trouble("key_refused", "the key is not valid"))
    clock.advance(30)
    world.site.runtime_state.end()
    pause = world.ledger.runs.recorded(Pause)
    assert (pause.reason, pause.ended - pause.since) == ("key_refused", pytest.approx(30))
    world.restart()
    world.site.runtime_state.note()
    assert world.ledger.runs.at_hand(Pause) is None
    clock.advance(121)
    world.site.runtime_state.note()
    assert world.ledger.runs.recorded(Pause) is None


# Uploads in doubt that stop sending.


@pytest.fixture
def doubtful(make_world):
    """A world with two folders; into one of them no upload arrives any more."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F0", "F1")])
    world.write("F1/there")
    world.scan_and_send()
    world.service.loses = lambda _size: True
    for number in range(9):
        world.write(f"F0/{number}", b"%d" % number)
    world.scan_and_send()
    return world


def held_up(world):
    world.site.runtime_state.note()
    return world.ledger.runs.at_hand(HeldUp)


def test_doubts_that_stop_sending_are_recorded(doubtful, clock):
    began = clock.now()
    assert held_up(doubtful) == (doubtful.ledger.start_no, began, ("F0",), True, began + 20)


def test_folder_that_waits_is_recorded(doubtful):
    doubtful.write("F1/a", b"a")
    doubtful.scan()
    found = held_up(doubtful)
    assert (found.folders, found.everything) == (("F0",), False)


def test_stop_by_doubts_is_logged_at_both_ends(doubtful, clock):
    with capture_logs() as logged:
        for _ in range(6):
            doubtful.live(10)
            assert held_up(doubtful).everything
        doubtful.service.loses = lambda _size: False
        doubtful.live(120)
        clock.advance(60)
        assert held_up(doubtful) is None
    events = [line["event"] for line in logged if "uploads in doubt" in line["event"]]
    assert events == ["uploads in doubt stop sending", "uploads in doubt no longer stop sending"]


def test_decided_doubt_ends_no_stop(doubtful):
    since = held_up(doubtful).since
    doubtful.live(25)  # one is decided, and the next file takes its place
    assert held_up(doubtful).since == since


def test_steady_stop_by_doubts_is_written_once(doubtful, clock):
    held_up(doubtful)
    commits = doubtful.ledger.store._commits.count
    for _ in range(3):
        clock.advance(6)
        held_up(doubtful)
    assert doubtful.ledger.store._commits.count == commits
