"""Stop uploads while the service does not answer: a circuit breaker before every POST.

One failure opens the breaker for all workers, so that an outage costs one health check at a time and not one failure
per file. A health check is a look-up, never an upload. After an answered health check the breaker is half open: it lets
one POST through, and closes when that POST is answered. If the service answers look-ups but no POST, or nothing at all,
the pauses between health checks grow.

Making the health check, and giving up, is left to the caller.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from assetsync.core.backoff import delay


@dataclass(frozen=True, slots=True)
class Pause:
    """Why nothing is sent, and since when (steady seconds); `probes` counts the failed tries since then."""

    reason: str
    detail: str
    since: float
    next_probe: float
    probes: int = 0


class CircuitBreaker:
    """Circuit breaker shared by all workers; every time is on the steady clock."""

    def __init__(self, steady: Callable[[], float], chance: Callable[[], float], *, longest: float = 60.0) -> None:
        self._steady = steady
        self._chance = chance
        self._longest = longest
        self._lock = threading.Lock()
        self._pause: Pause | None = None
        self._half_open = False
        self._inside = 0
        self._since: float | None = None
        self._failed = 0
        self._answered = 0.0
        self._entered = 0.0
        self._ended: Pause | None = None
        self.looks_answered = True
        """Whether look-ups are answered, so that doubts can be resolved although nothing is sent."""

    @property
    def pause(self) -> Pause | None:
        """The current pause, or None."""
        return self._pause

    @property
    def standing(self) -> Pause | None:
        """The pause that is not known to be over: also while the trial POST after a health check is in flight."""
        # A POST that began long after the health check is no trial: a failure of it is a new trouble.
        on_trial = self._half_open and self._inside and not self._is_past(self._entered)
        return self._pause or (self._ended if on_trial else None)

    def enter(self) -> bool:
        """Return whether one file may be sent; the caller must call `leave` after True."""
        with self._lock:
            if self._pause is not None or (self._half_open and self._inside):
                return False
            self._inside += 1
            self._entered = self._steady()
            return True

    def leave(self) -> None:
        """Record that the work on a file has ended, with any result."""
        with self._lock:
            self._inside -= 1

    def trouble(
        self,
        reason: str,
        detail: str,
        retry_after: float | None = None,
        *,
        probed: bool = False,
        looking: bool = False,
    ) -> bool:
        """Open the breaker; return True if the trouble is new, so that its beginning is reported once.

        Failed health checks (`probed`) and failed trial POSTs make the next pause longer. The POSTs in flight when the
        trouble began do not. `looking`: the failure was a look-up without an answer.
        """
        with self._lock:
            self.looks_answered = not (probed or looking)
            now = self._steady()
            was_open = self._pause is None
            # While a POST hangs, nothing is answered: count answered time only up to its start.
            quiet_until = self._entered if self._inside else now
            if was_open and self._is_past(quiet_until):
                # The service answered for so long that this is a new trouble.
                self._since, self._failed = None, 0
            began = self._since is None
            self._since = now if self._since is None else self._since
            self._failed += probed or (was_open and not began)
            wait = delay(self._failed, self._chance(), longest=self._longest) if self._failed else 0.0
            due = now + max(wait, retry_after or 0.0)
            if self._pause is not None and not probed:
                due = max(self._pause.next_probe, now + (retry_after or 0.0))
            self._pause = Pause(reason, detail, self._since, due, self._failed)
            self._half_open = True
            return began

    def _is_past(self, until: float) -> bool:
        """Return whether the last pause ended so long before `until` that its trouble is over."""
        return until - self._answered > 2 * self._longest

    def probe_due(self) -> bool:
        """Return whether a health check is due."""
        pause = self._pause
        return pause is not None and self._steady() >= pause.next_probe

    def answered(self) -> Pause | None:
        """Record an answered health check, so that one POST may pass; return the pause that ended."""
        with self._lock:
            ended, self._pause = self._pause, None
            self._ended = ended or self._ended
            self.looks_answered = True
            self._answered = self._steady()
            return ended

    def worked(self) -> None:
        """Record that a POST was answered in the interface's form: close the breaker, unless it has opened again."""
        if self._half_open:
            with self._lock:
                self._half_open = self._pause is not None
                if self._pause is None:
                    self._since, self._failed = None, 0
