"""Start scans, indexing, verifying and audits at the configured times, by APScheduler.

A job only requests work from `work`. The ledger knows what is due, so a missed or interrupted run loses nothing. An
overdue job runs once.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

import structlog
from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.executors.debug import DebugExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from assetsync.config.models import Schedule as Times
from assetsync.config.schedule import Cron, Interval, cron
from assetsync.daemon.work import Work
from assetsync.ledger.runs import JOBS
from assetsync.model import Clock

log = structlog.get_logger(__name__)

_JUMP = 5.0
"""Seconds that the wall clock may drift from the steady clock: less is an NTP step, or a process that was stopped."""


_NIGHTLY = cron("30 3 * * *")
"""When a part of the folders is audited each night, if audits are on."""


class SystemZone(tzinfo):
    """Local time by the rules of the C library, so that every `TZ` that it understands works.

    The time zone database has no zone for a `TZ` that contains its rule.
    """

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return how far local time is ahead of UTC at `dt`."""
        if dt is None:
            return None
        naive = dt.replace(tzinfo=None)
        # Not `astimezone().utcoffset()`: of a time that the clock leaves out, releases of Python say different ones.
        return naive - datetime.fromtimestamp(naive.timestamp(), UTC).replace(tzinfo=None)

    def dst(self, _dt: datetime | None) -> timedelta | None:
        """Return None: `fromutc` below asks the system instead."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return the system's name of local time at `dt`."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Return the local time; `fold` is 1 for the second of two equal times when the clock goes back."""
        local = dt.replace(tzinfo=UTC).astimezone()
        naive = local.replace(tzinfo=None, fold=0)
        return naive.replace(tzinfo=self, fold=int(self.utcoffset(naive) != local.utcoffset()))


_ZONE = SystemZone()


class Schedule:
    """The site's jobs; `failed` receives the unexpected exception of a job."""

    def __init__(self, times: Times, work: Work, clock: Clock, *, failed: Callable[[BaseException], None]) -> None:
        self._clock = clock
        self._ahead = clock.now() - clock.steady()
        self._scheduler = BackgroundScheduler(
            timezone=_ZONE,
            # The jobs take a moment: no thread of a pool, which a limit of tasks may refuse, runs them.
            executors={"default": DebugExecutor()},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            daemon=True,
        )
        self._scheduler.add_listener(lambda event: failed(event.exception), EVENT_JOB_ERROR)
        self._jobs: list[Job] = []
        jobs = {
            "rescan": (times.rescan, work.want_scan),
            "index": (times.index, work.read_back.want_index),
            "verify": (times.verify, work.read_back.want_verify),
            "audit": (times.audit, work.read_back.want_audit),
            "nightly_audit": (times.audit and _NIGHTLY, work.read_back.want_nightly_audit),
        }
        for name, (when, job) in jobs.items():
            trigger = trigger_of(when)
            if trigger is not None:
                first = _first(name, trigger, work)
                added = self._scheduler.add_job(job, _FromNow(trigger), id=name, name=name, next_run_time=first)
                self._jobs.append(added)

    def start(self) -> None:
        """Start the scheduler; jobs run at their times, overdue jobs at once."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop the scheduler and wait for running jobs."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def correct_clock_jump(self) -> None:
        """Correct the next run of each job after a jump of the wall clock; call this every few seconds.

        After a jump back, a job would wait for the whole jump; instead it starts no later than if it had run just now.
        After a jump ahead, overdue jobs start now.
        """
        ahead = self._clock.now() - self._clock.steady()
        jump = ahead - self._ahead
        if abs(jump) <= _JUMP:
            # `_ahead` stays as it was at the last jump, so that many small steps add up to a jump.
            return
        self._ahead = ahead
        said = "the clock was set back" if jump < 0 else "the clock was set forward"
        log.warning(said, seconds=round(abs(jump)))
        for job in self._jobs:
            anew = _after(job.trigger, None)
            # Otherwise the scheduler itself may be moving it on right now.
            if anew is not None and anew < job.next_run_time:
                job.modify(next_run_time=anew)
        self._scheduler.wakeup()

    def next_runs(self) -> dict[str, float]:
        """Return the next start of each job, in seconds since the epoch, without nightly jobs and jobs that are off.

        Any thread may call this: it waits for no lock of the scheduler.
        """
        return {
            job.id: due.timestamp() for job in self._jobs if job.id in JOBS and (due := job.next_run_time) is not None
        }


class _FromNow(BaseTrigger):  # type: ignore[misc] # APScheduler has no types
    """The times of another trigger, without those that were missed.

    APScheduler asks for each time between the last run and now, under its lock, to run the job once for all of them.
    After a jump of the clock there are millions.
    """

    __slots__ = ("_trigger",)

    def __init__(self, trigger: BaseTrigger) -> None:
        self._trigger = trigger

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the first time after both the previous time and now."""
        since = now if previous_fire_time is None else max(previous_fire_time, now)
        following: datetime | None = self._trigger.get_next_fire_time(since, now)
        return following


def _first(name: str, trigger: BaseTrigger, work: Work) -> datetime | None:
    """Return the first run, counted from the last run of the job; a time in the past starts the job at once.

    A run that was due while no daemon ran thus starts now. A rescan is not counted: each start scans anyway.
    """
    last = None if name == "rescan" else work.read_back.last(name)
    return _after(trigger, last)


def next_run(times: Interval | Cron | None, last: float | None) -> float | None:
    """Return when a job starts next; None if it is off.

    `last` is its last run, None for never. Times are in seconds since the epoch.
    """
    trigger = trigger_of(times)
    if trigger is None:
        return None
    following = _after(trigger, last)
    return None if following is None else following.timestamp()


def _after(trigger: BaseTrigger, last: float | None) -> datetime | None:
    now = datetime.now().astimezone()
    # A time later than now comes from a clock that was set back since.
    since = now if last is None else min(datetime.fromtimestamp(last).astimezone(), now)
    following: datetime | None = trigger.get_next_fire_time(since, now)
    return following


def trigger_of(times: Interval | Cron | None) -> BaseTrigger | None:
    """Return the trigger of an interval or a cron line; None if the job is off."""
    if times is None:
        return None
    if isinstance(times, Interval):
        return IntervalTrigger(seconds=max(1, round(times.seconds)), timezone=_ZONE)
    triggers = [CronTrigger(**fields, timezone=_ZONE) for fields in times.triggers()]
    return triggers[0] if len(triggers) == 1 else OrTrigger(triggers)
