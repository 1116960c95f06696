"""Jobs start work at their times, and an index that a call wiped is not touched again."""

import json
import threading
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import apscheduler.schedulers.base
import apscheduler.triggers.interval
import pytest

from assetsync.clock import SystemClock
from assetsync.config.schedule import Interval, cron
from assetsync.daemon import schedule as schedule_module
from assetsync.daemon.schedule import Schedule, trigger_of
from assetsync.daemon.work import Work
from assetsync.ledger.ledger import open_ledger
from assetsync.sandbox import FaultKind, FaultRule, Sandbox, SandboxSettings

from ..running import FOLDER, KEY, Running  # noqa: TID252 - the tests are no package of their own


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("0 3 * * sun", "2026-11-21T12:00", "2026-11-22T03:00"),
        ("0 3 * * 0", "2026-11-21T12:00", "2026-11-22T03:00"),
        ("0 3 * * 7", "2026-11-21T12:00", "2026-11-22T03:00"),
        ("30 4 * * 1", "2026-11-21T12:00", "2026-11-23T04:30"),
        ("0 0 1 * 1", "2026-11-21T12:00", "2026-11-23T00:00"),
    ],
)
def test_a_cron_line_fires_when_cron_would(line, after, expected):
    trigger = trigger_of(cron(line))
    zone = datetime.now().astimezone().tzinfo
    fires = trigger.get_next_fire_time(None, datetime.fromisoformat(after).replace(tzinfo=zone))
    assert fires.strftime("%Y-%m-%dT%H:%M") == expected


def test_interval_fires_and_off_never_does():
    trigger = trigger_of(Interval(60.0))
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert (trigger.get_next_fire_time(now, now) - now).total_seconds() == 60
    assert trigger_of(None) is None


def test_index_wipe_ends_further_index_calls(tmp_path):
    """A call empties the index: no other call follows, and files count as verified without it."""
    settings = SandboxSettings(
        dialect="observed", api_key=KEY, folders={FOLDER: "photos"}, index_mode="adds", self_index=False
    )
    with Sandbox(settings) as sandbox:
        running = Running(tmp_path, sandbox).start()
        try:
            for number in range(6):
                (running.photos / f"{number}.txt").write_bytes(bytes([number]))
            running.until_verified(6)
            sandbox.set_faults(FaultRule(kind=FaultKind.INDEX_WIPES))
            (running.photos / "6.txt").write_bytes(bytes([6]))
            running.until(lambda: running.events("indexing stopped"))
            calls = len(running.events("asked for indexing"))
            (running.photos / "7.txt").write_bytes(bytes([7]))
            # Where the index is not asked any more, stored is enough.
            running.until_verified(8)
            assert len(running.events("asked for indexing")) == calls
            assert len(running.events("indexing stopped")) == 1
            assert running.stop() == 0
        finally:
            running.process.kill()


@pytest.mark.parametrize(
    ("ended", "waits"),
    [(None, 300), (-60, 240), (-3600, 0), (9000, 300)],
    ids=["never", "a_minute_ago", "an_hour_ago", "by_a_clock_set_back"],
)
@pytest.mark.parametrize("job", ["index", "verify"])
def test_restart_keeps_the_elapsed_wait(make_world, job, ended, waits):
    """A job that ended before the restart runs once the rest of its interval is over."""
    world = make_world(schedule={"index": "5m", "verify": "5m", "audit": "off", "rescan": "off"})
    asked = []
    work = Work(world.site)
    work.read_back.want_index = work.read_back.want_verify = lambda: asked.append(time.time())
    now = time.time()
    if ended is not None:
        world.ledger.runs.ended(job, now + ended, 1.0)
    schedule = Schedule(world.config().schedule, work, world.clock, failed=pytest.fail)
    schedule.start()
    try:
        deadline = time.monotonic() + 30
        while not asked and not waits and time.monotonic() < deadline:
            time.sleep(0.01)
        assert bool(asked) is (waits == 0)
        while schedule.next_runs()[job] <= now and time.monotonic() < deadline:
            time.sleep(0.01)
        assert schedule.next_runs()[job] == pytest.approx(now + (waits or 300), abs=25)
    finally:
        schedule.stop()


def test_audit_missed_while_down_is_made_up(make):
    running = make(schedule="{index: off, verify: 1s, audit: 1h}").start()
    running.until(lambda: running.events("scanned"))
    assert running.stop() == 0
    ledger = open_ledger(running.ledger)
    ledger.set_fact("audit_from", repr(time.time() - 7200))
    ledger.close()
    running.start()
    running.until(lambda: running.events("audited"))
    assert running.stop() == 0


@pytest.mark.parametrize(("audit", "is_made_up"), [("0 3 * * sun", True), ("off", False)])
def test_missed_night_is_made_up(make_world, audit, is_made_up):
    world = make_world(schedule={"index": "off", "verify": "off", "audit": audit, "rescan": "off"})
    asked = threading.Event()
    work = Work(world.site)
    work.read_back.want_nightly_audit = asked.set
    two_nights_ago = time.time() - 2 * 86_400
    world.ledger.set_fact("audit_nightly", json.dumps({"at": two_nights_ago, "folders": []}))
    schedule = Schedule(world.config().schedule, work, world.clock, failed=pytest.fail)
    schedule.start()
    try:
        assert asked.wait(30 if is_made_up else 0.5) is is_made_up
        assert "nightly_audit" not in schedule.next_runs()
    finally:
        schedule.stop()


class Wall(SystemClock):
    """The machine's clocks, of which the wall clock can be set; what asks `datetime` is told the same."""

    def __init__(self, monkeypatch) -> None:
        super().__init__()
        self.off = 0.0
        wall = self

        class Told(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.fromtimestamp(wall.now(), tz)

        for module in (apscheduler.schedulers.base, apscheduler.triggers.interval, schedule_module):
            monkeypatch.setattr(module, "datetime", Told)

    def now(self) -> float:
        return time.time() + self.off


@pytest.mark.parametrize("jump", [-365 * 86_400.0, 365 * 86_400.0], ids=["back", "on"])
def test_clock_jump_keeps_the_job_rate(make_world, monkeypatch, jump):
    """Jobs of intervals neither stop nor hurry after a jump; a job that the jump made due runs once."""
    world = make_world(schedule={"rescan": "1s", "index": "0 3 * * *", "verify": "1s", "audit": "30d"})
    asked: dict[str, int] = dict.fromkeys(("rescan", "index", "verify", "audit"), 0)

    def count(name: str):
        def counted() -> None:
            asked[name] += 1

        return counted

    work = Work(world.site)
    work.want_scan = count("rescan")
    work.read_back.want_index, work.read_back.want_verify = count("index"), count("verify")
    work.read_back.want_audit = count("audit")
    wall = Wall(monkeypatch)
    wall.off = -jump
    world.ledger.set_fact("audit_from", repr(wall.now()))
    schedule = Schedule(world.config().schedule, work, wall, failed=pytest.fail)
    began = time.monotonic()
    schedule.start()
    try:
        schedule.correct_clock_jump()
        wall.off = 0.0
        schedule.correct_clock_jump()
        time.sleep(2.5)
        while min(asked["rescan"], asked["verify"]) < 1 and time.monotonic() < began + 60:
            time.sleep(0.1)
        for name in ("rescan", "verify"):
            # One a second, and that of the jump.
            assert 1 <= asked[name] <= time.monotonic() - began + 2
        following = schedule.next_runs()
        assert (asked["audit"], asked["index"]) == ((0, 0) if jump < 0 else (1, 1))
        assert following["audit"] == pytest.approx(time.time() + 30 * 86_400, abs=100)
        assert 0 <= following["index"] - time.time() <= 25 * 3600
    finally:
        schedule.stop()


def test_scheduler_skips_times_missed_by_a_jump(make_world, monkeypatch):
    """The clock jumps from 1970 to now shortly before each job is due, and the scheduler sees it first."""
    # The last weekday and day are alternatives: two cron triggers as one.
    lines = {"rescan": "1m", "index": "* * * * *", "verify": "* * 1-31 * 0-6", "audit": "1h"}
    world = make_world(schedule=lines)
    asked: list[str] = []
    work = Work(world.site)
    work.want_scan = lambda: asked.append("rescan")
    work.read_back.want_index, work.read_back.want_verify = (
        lambda: asked.append("index"),
        lambda: asked.append("verify"),
    )
    work.read_back.want_audit = lambda: asked.append("audit")
    wall = Wall(monkeypatch)
    wall.off = 10 * 86_400 + 30.0 - time.time()
    schedule = Schedule(world.config().schedule, work, wall, failed=pytest.fail)
    schedule.start()
    # Far from the next full minute, at which the jobs would be due again.
    wall.off = 10 - time.time() % 60
    schedule._scheduler.wakeup()
    deadline = time.monotonic() + 30
    while len(asked) < len(lines) and time.monotonic() < deadline:
        time.sleep(0.01)
    # Not in a `finally`: this waits for a scheduler that walks.
    assert sorted(asked) == sorted(lines)
    schedule.correct_clock_jump()
    time.sleep(0.5)
    assert sorted(asked) == sorted(lines)
    assert all(0 < due - wall.now() <= 3600 for due in schedule.next_runs().values())
    schedule.stop()


def test_next_runs_wait_for_no_lock(make_world):
    world = make_world(schedule={"rescan": "1h", "index": "5m", "verify": "off", "audit": "off"})
    schedule = Schedule(world.config().schedule, Work(world.site), world.clock, failed=pytest.fail)
    schedule.start()
    try:
        answers: list[dict[str, float]] = []
        reader = threading.Thread(target=lambda: answers.append(schedule.next_runs()), daemon=True)
        with schedule._scheduler._jobstores_lock:
            reader.start()
            reader.join(30)
            assert [sorted(answer) for answer in answers] == [["index", "rescan"]]
    finally:
        schedule.stop()


def test_small_clock_setback_keeps_due_time(make_world, monkeypatch):
    world = make_world(schedule={"rescan": "off", "index": "5m", "verify": "off", "audit": "off"})
    wall = Wall(monkeypatch)
    schedule = Schedule(world.config().schedule, Work(world.site), wall, failed=pytest.fail)
    schedule.start()
    try:
        before = schedule.next_runs()
        wall.off = -4.0
        schedule.correct_clock_jump()
        assert schedule.next_runs() == before
        wall.off = -8.0
        schedule.correct_clock_jump()
        assert schedule.next_runs()["index"] == pytest.approx(before["index"] - 8, abs=2)
    finally:
        schedule.stop()


@pytest.fixture
def set_zone(monkeypatch):
    def set_to(said: str) -> None:
        monkeypatch.setenv("TZ", said)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("said", ["CET-1CEST,M3.5.0,M10.5.0/3", ":Europe/Berlin", "Europe/Berlin"])
@pytest.mark.parametrize("line", ["30 2 * * *", "15 * * * *", "0 3 * * sun"])
def test_cron_line_counts_in_any_time_zone(set_zone, said, line):
    set_zone(said)
    trigger, zone = trigger_of(cron(line)), ZoneInfo("Europe/Berlin")
    for began in ("2026-03-28T12:00:00+00:00", "2026-10-24T12:00:00+00:00"):
        told = trigger_of(cron(line))
        told.timezone = zone
        at = expected = datetime.fromisoformat(began)
        for _ in range(40):
            at, expected = trigger.get_next_fire_time(at, at), told.get_next_fire_time(expected, expected)
            assert at.timestamp() == expected.timestamp()
            assert at.strftime("%H:%M %z") == expected.strftime("%H:%M %z")
            is_left_out = zone.fromutc(expected.astimezone(UTC).replace(tzinfo=zone)).hour != expected.hour
            assert is_left_out or at.tzname() == expected.tzname()


@pytest.mark.parametrize("said", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "Nowhere/Atall"])
def test_schedule_runs_in_any_time_zone(make_world, set_zone, said):
    set_zone(said)
    world = make_world(schedule={"rescan": "1s", "index": "0 3 * * *", "verify": "0 0 1 * 1", "audit": "7d"})
    asked = threading.Event()
    work = Work(world.site)
    work.want_scan = asked.set
    schedule = Schedule(world.config().schedule, work, world.clock, failed=pytest.fail)
    schedule.start()
    try:
        assert asked.wait(60)
        assert time.localtime(schedule.next_runs()["index"])[3:5] == (3, 0)
    finally:
        schedule.stop()
