"""Jobs start work at their times, and an index that a call wiped is not touched again."""

import time
from datetime import UTC, datetime

import pytest

from assetsync.config.schedule import Interval, cron
from assetsync.daemon.reading import AUDIT_FROM
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


def test_an_interval_fires_after_it_and_off_never():
    trigger = trigger_of(Interval(60.0))
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert (trigger.get_next_fire_time(now, now) - now).total_seconds() == 60
    assert trigger_of(None) is None


def test_an_index_call_that_wipes_the_index_is_the_last_one(tmp_path):
    settings = SandboxSettings(api_key=KEY, folders={FOLDER: "photos"}, index_mode="adds", self_index=False)
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
def test_a_restart_does_not_begin_a_wait_anew(make_world, job, ended, waits):
    world = make_world(schedule={"index": "5m", "verify": "5m", "audit": "off", "rescan": "off"})
    asked = []
    work = Work(world.site)
    work.reading.want_index = work.reading.want_verify = lambda: asked.append(time.time())
    now = time.time()
    if ended is not None:
        world.ledger.runs.ended(job, now + ended, 1.0)
    schedule = Schedule(world.config().schedule, work, failed=pytest.fail)
    schedule.start()
    try:
        deadline = time.monotonic() + 5
        while not asked and not waits and time.monotonic() < deadline:
            time.sleep(0.01)
        assert bool(asked) is (waits == 0)
        assert schedule.next_runs()[job] == pytest.approx(now + (waits or 300), abs=5)
    finally:
        schedule.stop()


def test_an_audit_whose_time_passed_while_no_daemon_ran_is_made_at_the_next_start(make):
    running = make(schedule="{index: off, verify: 1s, audit: 1h}").start()
    running.until(lambda: running.events("scanned"))
    assert running.stop() == 0
    ledger = open_ledger(running.ledger)
    ledger.set_fact(AUDIT_FROM, repr(time.time() - 7200))
    ledger.close()
    running.start()
    running.until(lambda: running.events("audited"))
    assert running.stop() == 0
