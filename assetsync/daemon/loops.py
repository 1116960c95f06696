"""A thread that repeats one step, reports that it is alive, and ends the program when it fails.

Trouble with the ledger's disk is not a failure of the program: it is said once, waited for, and said once when it ends.
"""

import threading
from collections.abc import Callable

import structlog

from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.model import Clock

log = structlog.get_logger(__name__)

_LEDGER_PAUSE = 5.0


class Pulse:
    """Until when each loop has promised to report again; the watchdog is fed only while all keep their word."""

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def beat(self, name: str, within: float = 0.0) -> None:
        """Report that a loop is alive, and again within the limit or, for a call that may be silent, `within`."""
        with self._lock:
            self._until[name] = self._clock.steady() + max(self._limit, within)

    def extend(self, name: str, within: float) -> None:
        """As `beat`, for a thread that may be no loop: only what is expected at all is put off."""
        with self._lock:
            if name in self._until:
                self._until[name] = self._clock.steady() + max(self._limit, within)

    def forget(self, name: str) -> None:
        """Expect nothing more of a loop that ended."""
        with self._lock:
            self._until.pop(name, None)

    def late(self) -> list[str]:
        """Give the loops that have missed their time."""
        now = self._clock.steady()
        with self._lock:
            return sorted(name for name, until in self._until.items() if now > until)


class Loop(threading.Thread):
    """Calls `step` until the clock's stop; `step` gives the seconds to wait before it is called again.

    `failed` gets an exception that nobody foresaw; the program is to end then.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        clock: Clock,
        pulse: Pulse,
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._clock = clock
        self._pulse = pulse
        self._failed = failed
        self._ledger_trouble: str | None = None

    @property
    def ledger_trouble(self) -> str | None:
        """Why the loop waits for the ledger; None when it does not."""
        return self._ledger_trouble

    def run(self) -> None:
        """Repeat the step."""
        try:
            pause = 0.0
            while not self._clock.wait(pause):
                self._pulse.beat(self.name)
                pause = self._guarded()
                self._pulse.beat(self.name, 2 * pause)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which ends the program with it
            self._failed(error)
        finally:
            self._pulse.forget(self.name)

    def _guarded(self) -> float:
        try:
            pause = self._step()
        except LedgerDamaged:
            raise
        except LedgerError as error:
            if self._ledger_trouble is None:
                log.warning("waiting for the ledger", loop=self.name, detail=str(error))
            self._ledger_trouble = str(error)
            return _LEDGER_PAUSE
        if self._ledger_trouble is not None:
            log.warning("the ledger can be used again", loop=self.name)
            self._ledger_trouble = None
        return pause
