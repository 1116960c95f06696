"""What a process under way writes down for those who only see its ledger: pauses, and files that are not at rest yet.

In few commits: a change is written once it is a few seconds old, its beginning and its end at the next `note`.
"""

import threading

from assetsync.ledger.runs import Pause, Unsettled
from assetsync.log import redact
from assetsync.sync.context import Context
from assetsync.sync.intake.settling import Settling
from assetsync.sync.upload.circuit_breaker import CircuitBreaker

_EVERY = 5.0


class RuntimeState:
    """Notes for one site; `note` and `end` are for one thread, the others for any."""

    def __init__(self, context: Context, circuit_breaker: CircuitBreaker, settling: Settling) -> None:
        self._clock = context.clock
        self._runs = context.ledger.runs
        self._start = context.ledger.start_no
        self._circuit_breaker = circuit_breaker
        self._settling = settling
        self._paused: tuple[float, str] | None = None
        # What an earlier process left is not this one's pause.
        self._inherits = True
        self._unsettled: Unsettled | None = None
        self._unsettled_at = 0.0
        self._scanning = False
        self._had_overflowed = False
        self._lock = threading.Lock()

    def begin_scan(self) -> None:
        """Hear that a scan begins: until its end nobody knows whether all that settles has found room."""
        self._scanning = True
        self._had_overflowed, self._settling.overflowed = self._settling.overflowed, False

    def end_scan(self, *, finished: bool) -> None:
        """Hear that a scan ended: what settles is known from the first one on that was `finished`."""
        self._settling.overflowed |= self._had_overflowed and not finished
        self._scanning = False
        if finished and self._unsettled is None:
            self._unsettled = self._runs.unsettled()
        self._note_unsettled(at_once=True)

    def looked(self) -> None:
        """Hear that files were looked at again: what a reader must not miss is that none is left. As `note`."""
        if not len(self._settling):
            self._note_unsettled(at_once=True)

    def note(self) -> None:
        """Write down what has changed. Raises LedgerError, and then it is tried again."""
        self._note_pause()
        self._note_unsettled(at_once=False)

    def end(self) -> None:
        """Write down how things stand at the end of the process: what it was paused for has ended it. As `note`."""
        self._note_pause()
        if self._paused is not None:
            self._runs.note_pause(self._pause(ended=self._clock.now()))
        self._note_unsettled(at_once=True)

    def _note_pause(self) -> None:
        pause = self._circuit_breaker.standing
        found = None if pause is None else (pause.since, pause.reason)
        if self._inherits and found is None and self._runs.pause() is None:
            self._inherits = False
        if found == self._paused and not self._inherits:
            return
        self._runs.note_pause(self._pause())
        self._paused = found
        self._inherits = False

    def _pause(self, ended: float | None = None) -> Pause | None:
        pause = self._circuit_breaker.standing
        if pause is None:
            return None
        since = self._clock.now() - (self._clock.steady() - pause.since)
        return Pause(self._start, since, pause.reason, redact(pause.detail), ended)

    def _note_unsettled(self, *, at_once: bool) -> None:
        with self._lock:
            noted, found = self._unsettled, Unsettled(len(self._settling), self._settling.overflowed)
            if noted is None or found == noted:
                return
            if self._scanning and noted.overflowed:
                # The scan has yet to meet what found no room.
                return
            goes_on = found.count and noted.count and found.overflowed == noted.overflowed
            if goes_on and not at_once and self._clock.steady() - self._unsettled_at < _EVERY:
                return
            self._runs.note_unsettled(found)
            self._unsettled, self._unsettled_at = found, self._clock.steady()
