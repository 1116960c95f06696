"""The daemon: builds a site's parts, keeps them going until it is told to stop, and takes them apart again.

Main thread: signals, the watchdog, the line of status. Each loop does one kind of work; the schedule only starts work,
what is due is in the ledger. An error that nobody foresaw ends the process: a restart is safe by design.
"""

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import structlog
from pydantic import SecretStr

from assetsync.app import Site, build, make_service
from assetsync.clock import SystemClock
from assetsync.config.models import SiteConfig
from assetsync.core.notices import Teller
from assetsync.daemon.heartbeat import HeartbeatService
from assetsync.daemon.loops import Loop, Pulse
from assetsync.daemon.runtime_info import RuntimeInfo
from assetsync.daemon.schedule import Schedule
from assetsync.daemon.signals import RELOAD, STOP, Signals
from assetsync.daemon.systemd import Notifier
from assetsync.daemon.work import Work
from assetsync.errors import LedgerBusy, LedgerDamaged, LedgerError, LedgerUnwritable
from assetsync.ledger.ledger import Ledger, open_ledger
from assetsync.ledger.runs import Refusal
from assetsync.log import log_uncaught, redact
from assetsync.notify.facts import Facts
from assetsync.notify.news import News, Outlet, senders
from assetsync.status.board import Board
from assetsync.status.metrics import Metrics
from assetsync.status.sentences import verdict
from assetsync.status.server import Server
from assetsync.sync.runtime_state import RuntimeState

log = structlog.get_logger(__name__)

T = TypeVar("T")

_LIMIT = 15.0
_STOP_PATIENCE = 30.0
_CUT_PATIENCE = 5.0
_TELL_PATIENCE = 5.0
_STATUS_EVERY = 10.0
_LEDGER_PAUSE = 2.0
_STATUS_PATIENCE = 0.5


class Ended(StrEnum):
    """Why a daemon came to its end."""

    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    RELOADED = "reloaded"


@dataclass(slots=True)
class _Failure:
    error: BaseException | None = None


class Daemon:
    """One site under way, from one configuration; a new configuration is a new daemon.

    `reread` is called when SIGHUP came, and gives the mistakes for which a configuration was refused; none says that
    there is one to go on with.
    """

    def __init__(
        self,
        config: SiteConfig,
        key: SecretStr,
        notifier: Notifier,
        signals: Signals,
        reread: Callable[[], Sequence[str]],
    ) -> None:
        self._config = config
        self._key = key
        self._notifier = notifier
        self._signals = signals
        self._reread = reread
        self.clock = SystemClock()
        self._reloaded = False
        self._interrupted = False
        self._refused: tuple[float, str] | None = None
        self._failure = _Failure()
        limit = min(_LIMIT, notifier.watchdog / 4) if notifier.watchdog else _LIMIT
        self._pulse = Pulse(self.clock, limit)
        self._limit = limit
        log_uncaught()

    def run(self) -> Ended:
        """Run until a signal ends it; raises what ended a loop, and what `open_ledger` raises."""
        outlet = Outlet(senders(self._config, os.environ), failed=self._failed)
        try:
            return self._open(outlet)
        finally:
            outlet.close(_TELL_PATIENCE)

    def _open(self, outlet: Outlet) -> Ended:
        ledger = self._once_usable(lambda: open_ledger(self._config.ledger, site=self._config.site), outlet)
        if ledger is None:
            return self._ended()
        metrics = Metrics(self._config.site)
        service = make_service(self._config, self._key)
        silence = self._config.service.read_timeout + self._config.service.connect_timeout + self._limit
        try:
            alive = HeartbeatService(service, self._alive, silence=silence)
            site = build(self._config, ledger, alive, self.clock, random.SystemRandom(), tick=self._tick, meter=metrics)
            self._run(site, ledger, outlet, metrics)
        finally:
            service.close()
            ledger.close()
        if self._failure.error is not None:
            raise self._failure.error
        return self._ended()

    def _ended(self) -> Ended:
        if self._reloaded:
            return Ended.RELOADED
        return Ended.INTERRUPTED if self._interrupted else Ended.STOPPED

    def _once_usable(self, begin: Callable[[], T], outlet: Outlet) -> T | None:
        """Begin what needs the ledger, waiting for a disk that is full or fails as the loops do; None if told to stop.

        Whoever watches the process hears that it waits: what ends with exit code 2 is not started again. `begin` may
        have done a part of it before.
        """
        waits = False
        # Nobody can say what was told before.
        teller = Teller(self._config.site)
        while not self.clock.stop.is_set():
            try:
                begun = begin()
            except LedgerBusy:
                raise
            except LedgerUnwritable as error:
                if not waits:
                    log.error("waiting for the ledger", detail=str(error))  # noqa: TRY400 - its sentence tells all
                    self._notifier.ready()
                waits = True
                outlet.waits(teller, str(error), self.clock)
                self._notifier.status(f"waiting for the ledger: {error}")
                self._notifier.alive()
                self._heed(self._signals.wait(_LEDGER_PAUSE))
            except Exception as error:
                outlet.ended(teller, error, self.clock)
                raise
            else:
                outlet.waits(teller, None, self.clock)
                return begun
        return None

    def _run(self, site: Site, ledger: Ledger, outlet: Outlet, metrics: Metrics) -> None:
        work = Work(site, idle=self._limit / 3)
        loops = [self._loop(f"send-{n}", work.send) for n in range(self._config.upload.workers)]
        others = {"look": work.look, "scan": work.scan, "tend": work.tend, "read-back": work.reading.step}
        loops += [self._loop(name, step) for name, step in others.items()]
        facts = Facts(ledger, self.clock, pause=lambda: site.circuit_breaker.standing, waiting=lambda: _waiting(loops))

        def begin() -> tuple[Schedule, News]:
            schedule = Schedule(self._config.schedule, work, self.clock, failed=self._failed)
            news = News(self._config.site, ledger, self.clock, facts, outlet)
            # At last: what it begins to watch with is begun once.
            work.begin()
            return schedule, news

        begun = self._once_usable(begin, outlet)
        if begun is None:
            return
        schedule, news = begun
        board = Board(self._config, ledger, self.clock, metrics, RuntimeInfo(site, work, schedule, self._pulse))
        listen = self._config.status.listen
        server = None if listen is None else Server(listen, board.answers())
        loops += [self._loop("news", news.step)] if outlet else []
        try:
            for loop in loops:
                loop.start()
            schedule.start()
            if server is not None:
                server.start()
            self._notifier.ready()
            log.info("running", root=str(self._config.root), watch=work.watching.mode)
            self._watch_over(board, ledger, site.runtime_state, schedule)
        except Exception as error:
            # Of this thread's own: what ends a loop comes by `_failed`.
            self._failure.error = self._failure.error or error
            raise
        finally:
            if self._reloaded:
                self._notifier.reloading(self.clock.steady())
            else:
                # Whoever says this is given TimeoutStopSec, and then killed: a reload must not.
                self._notifier.stopping()
            self.clock.stop.set()
            if server is not None:
                server.stop()
            schedule.stop()
            work.wake()
            self._join(loops, site)
            work.end()
            self._note_end(site.runtime_state)
            self._last_words(news, outlet)

    def _last_words(self, news: News, outlet: Outlet) -> None:
        """Tell of the end if it is an error's, and write down what was told."""
        if self._failure.error is not None:
            news.ended(self._failure.error)
        if not outlet.close(_TELL_PATIENCE):
            log.warning("messages are left undelivered: the next start tells them")
        try:
            news.keep()
        except LedgerDamaged:
            # Said where it was found first; here it only means that the messages are told once more.
            log.exception("what was told cannot be written down")

    def _note_end(self, runtime_state: RuntimeState) -> None:
        try:
            runtime_state.end()
        except LedgerError as error:
            # Of no harm: the next start finds out anew.
            log.warning("how it ended cannot be written down", detail=str(error))

    def _watch_over(self, board: Board, ledger: Ledger, runtime_state: RuntimeState, schedule: Schedule) -> None:
        """Feed the watchdog while every loop keeps its word, and heed the clock, until the stop."""
        pause = min(self._limit / 2, 2.0)
        late_before: list[str] = []
        next_status = 0.0
        while not self.clock.stop.is_set():
            self._heed(self._signals.wait(pause))
            schedule.heed_clock()
            late = self._pulse.late()
            if not late:
                self._notifier.alive()
            elif late != late_before:
                log.error("a loop hangs: the watchdog is not fed", loops=late)
            late_before = late
            self._guarded(runtime_state.note)
            self._guarded(lambda: self._note_refusal(ledger))
            if self.clock.steady() >= next_status:
                next_status = self.clock.steady() + _STATUS_EVERY
                self._guarded(lambda: self._notifier.status(verdict(board.standing(_STATUS_PATIENCE))))

    def _heed(self, signals: frozenset[int]) -> None:
        if signals & STOP:
            self._interrupted = signal.SIGINT in signals
            self.clock.stop.set()
        elif signals & RELOAD:
            mistakes = self._reread()
            if mistakes:
                self._refused = self.clock.now(), redact("; ".join(mistakes))
            else:
                self._reloaded = True
                self.clock.stop.set()

    def _note_refusal(self, ledger: Ledger) -> None:
        if self._refused is not None:
            ledger.runs.note_refusal(Refusal(ledger.start_no, *self._refused))
            self._refused = None

    def _guarded(self, say: Callable[[], None]) -> None:
        """Do what needs the ledger; trouble with its disk is waited for, as the loops do."""
        try:
            say()
        except LedgerDamaged:
            raise
        except LedgerError as error:
            self._notifier.status(f"waiting for the ledger: {error}")

    def _join(self, loops: list[Loop], site: Site) -> None:
        """Wait for the loops, together no longer than the unit's TimeoutStopSec allows."""
        if _all_ended(loops, self.clock, _STOP_PATIENCE):
            return
        # What is still on its way is cut, and recorded as cut: the next start need not guess.
        site.context.service.close()
        if not _all_ended(loops, self.clock, _CUT_PATIENCE):
            hanging = [loop.name for loop in loops if loop.is_alive()]
            log.warning("not waited for any longer: what is open is looked up by the next start", loops=hanging)

    def _loop(self, name: str, step: Callable[[], float]) -> Loop:
        return Loop(name, step, clock=self.clock, pulse=self._pulse, failed=self._failed)

    def _failed(self, error: BaseException) -> None:
        log.error("assetsync ends because of an unforeseen error", exc_info=error)
        self._failure.error = self._failure.error or error
        self.clock.stop.set()
        self._signals.nudge()

    def _alive(self, seconds: float) -> None:
        self._pulse.extend(threading.current_thread().name, seconds)

    def _tick(self) -> bool:
        self._pulse.extend(threading.current_thread().name, 0.0)
        return self.clock.stop.is_set()


def _waiting(loops: list[Loop]) -> str | None:
    return next((loop.ledger_trouble for loop in loops if loop.ledger_trouble is not None), None)


def _all_ended(loops: list[Loop], clock: SystemClock, patience: float) -> bool:
    until = clock.steady() + patience
    for loop in loops:
        # One that was never started has nothing to be waited for, and cannot be.
        if loop.is_alive():
            loop.join(max(0.0, until - clock.steady()))
    return not any(loop.is_alive() for loop in loops)
