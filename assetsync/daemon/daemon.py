"""Build the parts of a site, run them until a stop or a reload, and shut them down.

The main thread handles signals, the watchdog and the status line. Each loop does one kind of work. The schedule only
starts work; the ledger knows what is due. An unexpected error ends the process: a restart is safe by design.

At a stop, uploads in flight have `_STOP_PATIENCE` seconds to end. Then they are cut, and each of them is recorded as
unsent or in doubt. A reload is a stop after which `cli.commands.run` starts a daemon with the new configuration.

The steps of the loops are in `work` and `readback`. Receiving signals, and ending a process that hangs at a stop, are
left to `systemd`.
"""

import os
import random
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeVar

import structlog
from pydantic import SecretStr

from assetsync import __version__
from assetsync.app import Site, build
from assetsync.clock import SystemClock
from assetsync.config.models import SiteConfig
from assetsync.core.notices import Problem
from assetsync.daemon.loops import Loop, Pulse
from assetsync.daemon.schedule import Schedule, next_run
from assetsync.daemon.systemd import RELOAD, STOP, Notifier, Signals
from assetsync.daemon.work import Work
from assetsync.errors import (
    ConfigError,
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    LedgerUnwritable,
    OutOfResources,
    ends_for_good,
)
from assetsync.ledger.ledger import Ledger, open_ledger
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import DAEMON, LastHolder, PageAddress, Pause, Refusal
from assetsync.log import log_uncaught, redact
from assetsync.model import NextTry
from assetsync.notify.heartbeat import LEDGER, Vitals, heartbeat_of
from assetsync.notify.notifications import Notifications, current_problems
from assetsync.parts import make_service
from assetsync.status.board import Board
from assetsync.status.metrics import Metrics
from assetsync.status.sentences import failure, headline
from assetsync.status.server import Server
from assetsync.status.site_status import Live
from assetsync.sync.context import Heartbeat
from assetsync.sync.runtime_state import RuntimeState
from assetsync.sync.upload.next_try import Waits, next_try
from assetsync.text import runnable

log = structlog.get_logger(__name__)


T = TypeVar("T")

_LIMIT = 15.0
_STOP_PATIENCE = 30.0
_SEARCH_PATIENCE = 1.5
_CUT_PATIENCE = 3.0
_TICK = 0.25
_NOTIFY_PATIENCE = 5.0
_LAST_PATIENCE = 40.0  # longer than a command or an answer may take
_STATUS_EVERY = 10.0
_SIGN_OF_LIFE_EVERY = 60.0
_HALTED = 1.0  # a wait that is so much longer shows SIGSTOP, or a machine that slept
_LEDGER_PAUSE = 2.0
_RESTARTED = "systemd restarts it; the next start looks up what was open"
_WAITS_FOR_A_PERSON = "systemd does not restart it: a person must look, then `systemctl restart assetsync@SITE`"
_HANGS = "systemd restarts the daemon at the end of WatchdogSec, unless the loop goes on before"
_STATUS_PATIENCE = 0.5
_VITALS_PATIENCE = 30.0


class Configured(NamedTuple):
    """A configuration, and the key that it names."""

    config: SiteConfig
    key: SecretStr


class Ended(StrEnum):
    """Why a daemon ended without a successor."""

    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


class Daemon:
    """The running site of one configuration; a new configuration needs a new daemon.

    `reread` is called on SIGHUP. It returns the configuration of the next daemon, or raises ConfigError: then this one
    stays active.
    """

    def __init__(
        self, configured: Configured, notifier: Notifier, signals: Signals, reread: Callable[[], Configured]
    ) -> None:
        self._config, self._key = configured
        self._notifier = notifier
        self._signals = signals
        self._reread = reread
        self.clock = SystemClock()
        self._end: Ended | Configured = Ended.STOPPED
        self._refused: tuple[float, str] | None = None
        self._page: PageAddress | None = None
        self._vitals: Callable[[], Vitals] = lambda: Vitals(lives=False)
        self._failure: BaseException | None = None
        self._feed_at = 0.0
        self._sign_of_life_at = float("-inf")
        limit = min(_LIMIT, notifier.watchdog / 4) if notifier.watchdog else _LIMIT
        self._pulse = Pulse(self.clock, limit)
        self._limit = limit
        log_uncaught()

    def run(self) -> Ended | Configured:
        """Run until a signal; return the configuration of the next daemon, or why there is none.

        Raise the error that ended a loop, and the errors of `open_ledger`.
        """
        heartbeat = heartbeat_of(self._config, os.environ)
        notifications = Notifications(self._config, os.environ, self.clock, self._failed)
        if heartbeat is not None:
            heartbeat.start(lambda: self._vitals(), self.clock)  # noqa: PLW0108 - it is replaced once the loops exist
        try:
            return self._open(notifications)
        finally:
            self._close(notifications)

    def _open(self, notifications: Notifications) -> Ended | Configured:
        ledger = self._once_usable(lambda: open_ledger(self._config.ledger, site=self._config.site), notifications)
        if ledger is None:
            return self._end
        metrics = Metrics(self._config.site)
        silence = self._config.service.read_timeout + self._config.service.connect_timeout + self._limit
        service = make_service(self._config, self._key, partial(self._pulse.beat, silence))
        try:
            heartbeat = Heartbeat(self._tick, self._pulse.expect)
            chance = random.SystemRandom()
            site = build(self._config, ledger, service, self.clock, chance, heartbeat=heartbeat, meter=metrics)
            self._signals.is_sending = lambda: site.uploads.in_flight > 0
            self._run(site, notifications, metrics, service.end_searches)
        finally:
            try:
                self._close(notifications)
            except LedgerDamaged:
                # The damage was reported where it was found. Here it only means that the notices are sent again.
                log.exception("the sent messages cannot be recorded: the next start may send them again")
            service.close()
            ledger.close()
        if self._failure is not None:
            raise self._failure
        return self._end

    def _close(self, notifications: Notifications) -> None:
        """Deliver the last messages. After an error, repeat for a while what fails, until a signal asks for a stop.

        The next start does not report that this process ended, and there may be none.
        """
        if self._failure is not None and notifications:
            # Uploads in flight may have used up half of TimeoutStopSec.
            self._notifier.extend(_LAST_PATIENCE + 2 * _NOTIFY_PATIENCE)
            notifications.finish(_LAST_PATIENCE)
            until = self.clock.steady() + _LAST_PATIENCE
            while notifications.is_delivering and self.clock.steady() < until and not self._signals.is_stop_asked:
                self._notifier.alive()
                self._signals.wait(_TICK)
        notifications.close(_NOTIFY_PATIENCE)

    def _once_usable(self, begin: Callable[[], T], notifications: Notifications) -> T | None:
        """Return the result of `begin`, which needs the ledger; return None after a stop.

        While the disk is full or fails, wait and retry, as the loops do. systemd and the notification channels get the
        reason. Ending is no alternative: systemd does not restart a process that ended with exit code 2. `begin` can be
        called again after it was done in part.

        Under systemd, wait for another process that holds the ledger, too: a pass or a command may have taken it while
        the daemon was restarted. Nobody gets a message, because that process does the work and reports it.
        """
        waits = False
        while True:
            self._handle_signals(self._signals.wait(_LEDGER_PAUSE if waits else 0.0))
            if self.clock.stop.is_set():
                return None
            try:
                return begin()
            except (LedgerBusy, LedgerUnwritable) as error:
                is_busy = isinstance(error, LedgerBusy)
                if is_busy and not self._notifier.is_used:
                    raise
                if not waits:
                    # The message suffices, without a traceback.
                    say = log.warning if is_busy else log.error
                    say("waiting for the ledger", detail=str(error), next=f"tried again every {_LEDGER_PAUSE:.0f} s")
                    self._notifier.ready()
                waits = True
                if not is_busy:
                    self._vitals = lambda: Vitals(lives=False, failure=LEDGER)
                    notifications.waits_for_ledger(str(error))
                self._notifier.status(f"waiting for the ledger: {error}")
                self._notifier.alive()
            except Exception as error:
                self._failure = self._failure or error
                notifications.ended(error)
                raise

    def _run(
        self, site: Site, notifications: Notifications, metrics: Metrics, end_searches: Callable[[], None]
    ) -> None:
        ledger, lack = site.context.ledger, site.gates.lacks
        work = Work(site, idle=self._limit / 3, reload=self._signals.reload)
        loops = [self._loop(name, step, lack) for name, step in work.steps().items()]

        def look(reported: Collection[str]) -> list[Problem]:
            waiting = next((loop.ledger_trouble for loop in loops if loop.ledger_trouble is not None), None)
            pause, now = site.gates.ongoing, site.context.clock.now()
            reminder = self._config.watch.sidecar_reminder
            return current_problems(ledger, pause, waiting, reported, now, sidecar_reminder=reminder)

        def begin() -> Schedule:
            schedule = Schedule(self._config.schedule, work, self.clock, failed=self._failed)
            notifications.attach(ledger, look)
            self._note_running(ledger)
            # Last, because a retry of `begin` must not start the watcher twice.
            work.begin()
            return schedule

        schedule = self._once_usable(begin, notifications)
        if schedule is None:
            return
        live = partial(self._live, site, work, schedule, self.clock.now())
        following = partial(self._next_try, ledger, schedule)
        board = Board(self._config, ledger, self.clock, metrics, live, next_try=following)
        server = self._once_usable(lambda: self._server(board, ledger), notifications)
        self._vitals = partial(self._look_at_vitals, board, live, loops)
        stops = [schedule.stop] if server is None else [server.stop, schedule.stop]
        loops += [self._loop("notify", notifications.step, lack)] if notifications else []
        loops += [] if server is None else [self._loop("paths", board.index_paths, lack)]
        try:
            for loop in loops:
                loop.start()
            schedule.start()
            if server is not None:
                server.start()
            self._notifier.ready()
            log.info("running", root=str(self._config.root), watch=work.watching.mode)
            self._watch_over(board, ledger, site.runtime_state, schedule, server)
        except Exception as error:
            # An error of the main thread; errors of the loops arrive through `_failed`.
            self._failure = self._failure or error
            raise
        finally:
            self._shut_down(site, work, loops, stops, end_searches)
            board.close()
            if self._failure is not None:
                notifications.ended(self._failure)

    def _live(self, site: Site, work: Work, schedule: Schedule, started_at: float) -> Live:
        """Return the live values; the page's threads call this, so it reads no ledger and does not block."""
        return Live(
            version=__version__,
            started_at=started_at,
            trust=work.watching.trust,
            next_runs=schedule.next_runs(),
            late=tuple(self._pulse.late()),
            settling=len(site.settling),
            adopted=site.context.progress.read().adopted,
            sent=site.context.progress.sent(),
        )

    def _look_at_vitals(self, board: Board, live: Callable[[], Live], loops: Sequence[Loop]) -> Vitals:
        """Return whether all loops report, scans are in time and the key is accepted; and why nothing is mirrored.

        A scan is in time until `late_after` seconds after it was due; the first one has as long from the start.
        """
        try:
            status = board.status(_VITALS_PATIENCE)
        except LedgerError:
            return Vitals(lives=False, failure=LEDGER)
        now, waits = live(), any(loop.ledger_trouble is not None for loop in loops)
        since = max(now.started_at, 0.0 if status.last_scan is None else status.last_scan.at)
        due = next_run(self._config.schedule.rescan, since)
        is_late = due is not None and status.at - due > status.late_after
        return Vitals(not (now.late or is_late or status.key_refused), LEDGER if waits else failure(status))

    def _server(self, board: Board, ledger: Ledger) -> Server | None:
        listen, before = self._config.status.listen, ledger.runs.recorded(PageAddress)
        if listen is None:
            return None
        return Server(listen, board.answers(), board.questions(), kept=0 if before is None else before.port)

    def _next_try(self, ledger: Ledger, schedule: Schedule, row: FileRow) -> NextTry | None:
        """Return the next automatic step for a version, without a look at the tree; the page's threads call this."""
        now, runs = self.clock.now(), schedule.next_runs()
        read_back = min((runs[job] for job in ("index", "verify") if job in runs), default=None)
        brakes, holds, pause = ledger.reports.brakes(), ledger.reports.holds(now), ledger.runs.at_hand(Pause)
        waits = Waits(
            self._config, ledger, now, brakes, holds, sends=True, pause=pause, preview=None,
            next_read_back=lambda: read_back,
        )  # fmt: skip
        return next_try(row, waits)

    def _watch_over(
        self, board: Board, ledger: Ledger, runtime_state: RuntimeState, schedule: Schedule, server: Server | None
    ) -> None:
        """Feed the watchdog while no loop is late; handle signals and clock jumps; update the status line."""
        pause = min(self._limit / 2, 2.0)
        late_before: list[str] = []
        next_status = 0.0
        while not self.clock.stop.is_set():
            began = self.clock.steady()
            self._handle_signals(self._signals.wait(pause))
            if (halted := self.clock.steady() - began - pause) > _HALTED:
                self._pulse.put_off(halted)
            schedule.correct_clock_jump()
            late = self._pulse.late()
            if not late:
                self._notifier.alive()
            elif late != late_before:
                log.error("a loop hangs: the watchdog is not fed", loops=late, next=_HANGS)
            late_before = late
            self._guarded(runtime_state.note)
            self._guarded(lambda: self._note(ledger, server))
            if self.clock.steady() >= next_status:
                next_status = self.clock.steady() + _STATUS_EVERY
                self._guarded(lambda: self._notifier.status(headline(board.status(_STATUS_PATIENCE))))

    def _handle_signals(self, signals: frozenset[int]) -> None:
        if signals & STOP:
            self._end = Ended.INTERRUPTED if signal.SIGINT in signals else Ended.STOPPED
            self.clock.stop.set()
        elif signals & RELOAD:
            try:
                self._end = self._reread()
            except ConfigError as error:
                self._refused = self.clock.now(), redact("; ".join(error.mistakes))
            else:
                self.clock.stop.set()

    def _note_running(self, ledger: Ledger) -> None:
        """Record a sign of life for readers of the ledger, once a minute."""
        if self.clock.steady() >= self._sign_of_life_at:
            ledger.runs.record(LastHolder, LastHolder(DAEMON, self.clock.now()))
            self._sign_of_life_at = self.clock.steady() + _SIGN_OF_LIFE_EVERY

    def _note(self, ledger: Ledger, server: Server | None) -> None:
        """Record a sign of life, a refused reload, and where the page listens or why it cannot, once that is known."""
        self._note_running(ledger)
        if self._refused is not None:
            ledger.runs.record(Refusal, Refusal(ledger.start_no, *self._refused))
            self._refused = None
        listen = self._config.status.listen
        if server is None or listen is None or not server.was_tried:
            return
        page = PageAddress(ledger.start_no, listen.host, server.port or listen.port, server.trouble or "")
        if page != self._page:
            ledger.runs.record(PageAddress, page)
            self._page = page

    def _guarded(self, say: Callable[[], None]) -> None:
        """Run a step that needs the ledger; ignore errors of its disk, as the loops do, except LedgerDamaged.

        The status line reports the error; the next round retries.
        """
        try:
            say()
        except LedgerDamaged:
            raise
        except LedgerError as error:
            self._notifier.status(f"waiting for the ledger: {error}")

    def _shut_down(
        self,
        site: Site,
        work: Work,
        loops: list[Loop],
        stops: Sequence[Callable[[], None]],
        end_searches: Callable[[], None],
    ) -> None:
        """Stop all parts, wait for the loops, and record the end; `stops` stop what runs beside the loops."""
        if isinstance(self._end, Configured):
            self._notifier.reloading(self.clock.steady())
        else:
            # Not in a reload: after STOPPING=1 systemd kills the process at the end of TimeoutStopSec.
            self._notifier.stopping()
        self.clock.stop.set()
        for stop in stops:
            stop()
        work.wake()
        self._join(loops, site, end_searches)
        work.end()
        try:
            site.runtime_state.end()
            self._sign_of_life_at = float("-inf")
            self._note_running(site.context.ledger)
        except LedgerError as error:
            # Harmless: the next start finds out again.
            log.warning("the stop cannot be recorded", detail=str(error), next="the next start finds out what was open")

    def _join(self, loops: list[Loop], site: Site, end_searches: Callable[[], None]) -> None:
        """Wait for all loops, within the unit's TimeoutStopSec; only uploads in flight have the time to end."""
        until = self.clock.steady() + _STOP_PATIENCE
        if _all_ended(loops, self.clock, _SEARCH_PATIENCE):
            return
        # A search that is cut is repeated by the next start.
        end_searches()
        is_over = _all_ended(loops, self.clock, _SEARCH_PATIENCE)
        while not is_over and site.uploads.in_flight and self.clock.steady() < until:
            is_over = _all_ended(loops, self.clock, _TICK)
        if is_over:
            return
        # Cut the uploads in flight and record the cut, so that the next start need not guess.
        site.context.service.close()
        if not _all_ended(loops, self.clock, _CUT_PATIENCE):
            hanging = [loop.name for loop in loops if loop.is_alive()]
            log.warning("stopped while a loop was working", loops=hanging, next="the next start looks up what was open")

    def _loop(self, name: str, step: Callable[[], float], lack: Callable[[OutOfResources], None]) -> Loop:
        return Loop(name, step, clock=self.clock, pulse=self._pulse, failed=self._failed, out_of_resources=lack)

    def _failed(self, error: BaseException) -> None:
        self._failure = self._failure or error
        following = runnable(_WAITS_FOR_A_PERSON) if ends_for_good(self._failure) else _RESTARTED
        log.error("assetsync ends after an unexpected error", exc_info=error, next=following)
        self.clock.stop.set()
        self._signals.nudge()

    def _tick(self) -> bool:
        self._pulse.beat()
        now = self.clock.steady()
        if threading.current_thread() is threading.main_thread() and now >= self._feed_at:
            # It watches all folders before the loops start. At a reload nothing else feeds the watchdog meanwhile.
            self._notifier.alive()
            self._feed_at = now + 1.0
        return self.clock.stop.is_set()


def _all_ended(loops: list[Loop], clock: SystemClock, patience: float) -> bool:
    until = clock.steady() + patience
    for loop in loops:
        # A thread that was never started cannot be joined.
        if loop.is_alive():
            loop.join(max(0.0, until - clock.steady()))
    return not any(loop.is_alive() for loop in loops)
