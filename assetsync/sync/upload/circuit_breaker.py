"""Pause all uploads while the service does not answer: a circuit breaker.

An upload that is not answered opens the breaker for all workers, so that an outage costs one health check at a time and
not one failure per file. Answered failures into several folders one after the other open it, too. A health check is a
look-up, never an upload. After an answered health check the breaker is half open: it lets one POST through, and closes
when that POST is answered. If the service answers look-ups but no POST, or nothing at all, the pauses between health
checks grow. Making the health check, and giving up, is left to the caller.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from assetsync.core.backoff import delay

_FOLDERS_IN_A_ROW = 3
_LONGEST_CHECK_PAUSE = 15.0
"""After a failed health check: with its patience, it takes half a minute at most to see that the service answers again.
"""

RESUMES = "tried again at least every minute, and sending resumes by itself"
"""What follows a pause, for the log."""

_REST = 30.0
"""Seconds after an answered health check at whose end the trouble is over, if it needs no trial."""
_TRIAL_REST = 900.0
"""The same if files wait and the trouble began with a POST: only a POST shows its end, and it may wait for doubts."""


@dataclass(frozen=True, slots=True)
class CircuitPause:
    """Why nothing is sent, and since when (steady seconds); `failed_checks` counts the failed tries since then.

    `loses_answers`: the last failure was an upload that was sent, so that the file may have arrived.
    """

    reason: str
    detail: str
    since: float
    next_check: float
    failed_checks: int = 0
    loses_answers: bool = False


class _State(StrEnum):
    """What passes: every file, no file, or one file at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class CircuitBreaker:
    """Circuit breaker shared by all workers; every time is on the steady clock."""

    def __init__(self, steady: Callable[[], float], chance: Callable[[], float], *, longest: float = 60.0) -> None:
        self._steady = steady
        self._chance = chance
        self._longest = longest
        self._lock = threading.Lock()
        self._state = _State.CLOSED
        # While open the current pause, while half open the one that ended. Set before the state: readers have no lock.
        self._last: CircuitPause | None = None
        self._answered = 0.0
        self._needs_trial = False
        self._inside = 0
        # How many of them began before the last answered health check: they may hang with what hung then.
        self._inside_before = 0
        self._entered = 0.0
        # Folders into which POSTs failed, though answered, since one did not fail.
        self._failed_in: set[str] = set()
        self.lookups_answered = True
        """Whether look-ups are answered, so that doubts can be resolved although nothing is sent."""

    @property
    def pause(self) -> CircuitPause | None:
        """The current pause, or None."""
        return self._last if self._state is _State.OPEN else None

    @property
    def latest(self) -> CircuitPause | None:
        """The pause that began last, over or not; None if there was none."""
        return self._last

    @property
    def ongoing(self) -> CircuitPause | None:
        """The pause that is not known to be over: also for a while after a health check, and during the trial POST.

        A failure in that time is the same trouble. A POST that began later is no trial: its failure is a new trouble.
        """
        until = self._entered if self._is_on_trial() else self._steady()
        return self._last if self._state is _State.OPEN or self._is_soon(until) else None

    @property
    def awaits_trial(self) -> bool:
        """Whether only a POST can show that the trouble is over."""
        return self._state is _State.HALF_OPEN and self._needs_trial

    def nothing_to_send(self) -> None:
        """Record that no file can be sent, so that an answered health check shows the end of the trouble."""
        self._needs_trial = False

    def enter(self) -> bool:
        """Return whether one file may be sent; the caller must call `leave` after True."""
        with self._lock:
            if self._state is _State.OPEN or self._is_on_trial():
                return False
            self._inside += 1
            self._entered = self._steady()
            return True

    def leave(self) -> None:
        """Record that the work on a file has ended, with any result."""
        with self._lock:
            self._inside -= 1
            self._inside_before = min(self._inside_before, self._inside)

    def _is_on_trial(self) -> bool:
        return self._state is _State.HALF_OPEN and self._inside > self._inside_before

    def trouble(
        self,
        reason: str,
        detail: str,
        retry_after: float | None = None,
        *,
        by_check: bool = False,
        by_lookup: bool = False,
        loses_answers: bool = False,
    ) -> bool:
        """Open the breaker; return True if the trouble is new, so that its beginning is reported once.

        Failed health checks (`by_check`) and failed trial POSTs make the next pause longer. The POSTs that were in
        flight when the trouble began do not. `by_lookup`: the failure was a look-up without an answer;
        `loses_answers`: it was an upload that may have arrived.
        """
        with self._lock:
            self.lookups_answered = not (by_check or by_lookup)
            now = self._steady()
            # While a POST hangs, nothing is answered: count answered time only up to its start.
            on_trial = self._is_soon(self._entered if self._inside else now)
            last = self._last if self._state is _State.OPEN or on_trial else None
            since, failed = (now, 0) if last is None else (last.since, last.failed_checks)
            if not (by_check or by_lookup):
                self._needs_trial = True
            elif last is None:
                self._needs_trial = False
            if by_check or on_trial:
                failed += 1
            longest = min(self._longest, _LONGEST_CHECK_PAUSE) if by_check else self._longest
            wait = delay(failed, self._chance(), longest=longest) if failed else 0.0
            due = now + max(wait, retry_after or 0.0)
            if self.pause is not None and not by_check:
                due = max(self.pause.next_check, now + (retry_after or 0.0))
            self._last, self._state = CircuitPause(reason, detail, since, due, failed, loses_answers), _State.OPEN
            return last is None

    def _is_soon(self, until: float) -> bool:
        """Return whether `until` is soon after the health check that made the breaker half open.

        If the service answered for longer, the trouble is over.
        """
        rest = _TRIAL_REST if self._needs_trial else _REST
        return self._state is _State.HALF_OPEN and until - self._answered <= rest

    def check_due(self) -> bool:
        """Return whether a health check is due."""
        pause = self.pause
        return pause is not None and self._steady() >= pause.next_check

    def health_check_answered(self) -> CircuitPause | None:
        """Record an answered health check, so that one POST may pass; return the pause that ended."""
        with self._lock:
            ended = self.pause
            if ended is not None:
                self._state = _State.HALF_OPEN
            self._inside_before = self._inside
            self.lookups_answered = True
            self._answered = self._steady()
            return ended

    def post_answered(self) -> None:
        """Record that a POST was answered in the interface's form: close the breaker, unless it has opened again."""
        self._failed_in.clear()
        self._close()

    def post_failed(self, destfolderid: str) -> bool:
        """Record that a POST was answered and failed.

        Return True if POSTs into three folders failed without a success between them: the service fails, not the
        folder.
        """
        self._failed_in.add(destfolderid)
        if len(self._failed_in) >= _FOLDERS_IN_A_ROW:
            return True
        self._close()
        return False

    def _close(self) -> None:
        with self._lock:
            if self._state is _State.HALF_OPEN:
                self._state = _State.CLOSED
