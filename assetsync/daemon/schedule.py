"""When scans, indexing, verifying and audits are started: APScheduler, driven by the configuration.

A job only starts work and never fails by itself: what is due stands in the ledger, so that a run that was missed or cut
short loses nothing. Jobs that are late run once.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from assetsync.config.models import Schedule as Times
from assetsync.config.schedule import Cron, Interval
from assetsync.daemon.work import Work
from assetsync.model import Clock

log = structlog.get_logger(__name__)

_JUMP = 5.0
"""Seconds by which the wall clock may be off the steady one: less is a step of NTP, or a process that was stopped."""


class SystemZone(tzinfo):
    """Local time by the system's own rules, so that any `TZ` counts that the C library understands.

    A zone of the database of time zones would be none for a `TZ` that spells its rule out.
    """

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Give how far local time is ahead of UTC then."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _dt: datetime | None) -> timedelta | None:
        """Give nothing: what `fromutc` would ask it for is asked of the system."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Give what the system calls the time then."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Give the local time; `fold` tells the second of two equal ones when the clock goes back."""
        local = dt.replace(tzinfo=UTC).astimezone()
        naive = local.replace(tzinfo=None, fold=0)
        return naive.replace(tzinfo=self, fold=int(naive.astimezone().utcoffset() != local.utcoffset()))


_ZONE = SystemZone()


class Schedule:
    """The site's jobs; `failed` gets the exception of one that nobody foresaw."""

    def __init__(self, times: Times, work: Work, clock: Clock, *, failed: Callable[[BaseException], None]) -> None:
        self._clock = clock
        self._ahead = clock.now() - clock.steady()
        self._failed = failed
        self._scheduler = BackgroundScheduler(
            timezone=_ZONE, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}, daemon=True
        )
        self._scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        jobs = {
            "rescan": work.want_scan,
            "index": work.reading.want_index,
            "verify": work.reading.want_verify,
            "audit": work.reading.want_audit,
        }
        for name, job in jobs.items():
            trigger = trigger_of(getattr(times, name))
            if trigger is not None:
                self._scheduler.add_job(job, trigger, id=name, name=name, **_first(name, trigger, work))

    def start(self) -> None:
        """Begin; the first runs come when the times say so."""
        self._scheduler.start()

    def stop(self) -> None:
        """Start nothing more, and wait for what runs."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def heed_clock(self) -> None:
        """Set right what waits for the times of a wall clock that has jumped; to be called every few seconds.

        Set back, a job would wait for as long as the clock was ahead: it starts no later than if it had been done just
        now. Set on, what is overdue starts now, and not first counts every time that it missed.
        """
        ahead = self._clock.now() - self._clock.steady()
        jump = ahead - self._ahead
        if abs(jump) <= _JUMP:
            # Looked at from the last jump on: many small steps are one.
            return
        self._ahead = ahead
        said = "the clock was set back" if jump < 0 else "the clock was set on"
        log.warning(said, seconds=round(abs(jump)))
        for job in self._scheduler.get_jobs():
            now = datetime.now().astimezone()
            due = max(job.next_run_time, now)
            anew = _after(job.trigger, now.timestamp())
            job.modify(next_run_time=due if anew is None else min(due, anew))

    def next_runs(self) -> dict[str, float]:
        """Give when each job starts next, in seconds since the epoch; what is off is left out."""
        return {job.id: job.next_run_time.timestamp() for job in self._scheduler.get_jobs() if job.next_run_time}

    def _on_error(self, event: JobExecutionEvent) -> None:
        self._failed(event.exception)


def _first(name: str, trigger: BaseTrigger, work: Work) -> dict[str, datetime | None]:
    """Count from when it was done last, so that what fell into a time without a daemon has its turn now.

    A scan is made with each start.
    """
    last = None if name == "rescan" else work.reading.last(name)
    following = None if last is None else _after(trigger, last)
    # What is overdue starts now: of the times that it missed, each would be counted, and there may be millions.
    return {} if following is None else {"next_run_time": max(following, datetime.now().astimezone())}


def next_run(times: Interval | Cron | None, last: float | None) -> float | None:
    """Give when a job that was done `last` (seconds since the epoch, as the answer) starts next; None for off."""
    trigger = trigger_of(times)
    if trigger is None:
        return None
    following = _after(trigger, time.time() if last is None else last)
    return None if following is None else following.timestamp()


def _after(trigger: BaseTrigger, last: float) -> datetime | None:
    now = datetime.now().astimezone()
    # Later than now it was by a clock that has since been set back.
    since = min(datetime.fromtimestamp(last).astimezone(), now)
    following: datetime | None = trigger.get_next_fire_time(since, now)
    return following


def trigger_of(times: Interval | Cron | None) -> BaseTrigger | None:
    """Make the trigger of an interval or a cron line; None for off."""
    if times is None:
        return None
    if isinstance(times, Interval):
        return IntervalTrigger(seconds=max(1, round(times.seconds)), timezone=_ZONE)
    triggers = [CronTrigger(**fields, timezone=_ZONE) for fields in times.triggers()]
    return triggers[0] if len(triggers) == 1 else OrTrigger(triggers)
