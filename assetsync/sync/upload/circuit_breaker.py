"""The gate before every POST: open, half open after trouble, or shut while the service is down.

One failure shuts it for all workers, so that an outage costs one probe at a time and not one failure per file. The
probe is a look-up, never an upload; after it the gate lets one POST through and opens when that one was answered. A
service that answers look-ups and no POST is asked less and less often, as one that answers nothing.
Who probes and when the program gives up is the caller's.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from assetsync.core.backoff import delay


@dataclass(frozen=True, slots=True)
class Pause:
    """Why and since when (steady seconds) nothing is sent; `probes` counts what was tried since and failed."""

    reason: str
    detail: str
    since: float
    next_probe: float
    probes: int = 0


class CircuitBreaker:
    """Shared by all workers; every time is on the steady clock."""

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
        """Whether look-ups get answers, so that doubts can be resolved also while nothing is sent."""

    @property
    def pause(self) -> Pause | None:
        """The trouble at hand, or None."""
        return self._pause

    @property
    def standing(self) -> Pause | None:
        """The trouble that is not known to be over: also while the one POST after a probe has yet to show it."""
        # What is sent long after is no trial of that: the next trouble would be another one.
        on_trial = self._half_open and self._inside and not self._is_past(self._entered)
        return self._pause or (self._ended if on_trial else None)

    def enter(self) -> bool:
        """Ask to send one file; whoever is let in must `leave`."""
        with self._lock:
            if self._pause is not None or (self._half_open and self._inside):
                return False
            self._inside += 1
            self._entered = self._steady()
            return True

    def leave(self) -> None:
        """Say that the file is done with, however it ended."""
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
        """Shut the gate; True when the trouble is new, so that its beginning is reported once.

        What counts as a failure to get through is a probe (`probed`) and the one POST after it: the many that were on
        their way when the trouble began are one failure. `looking`: it was a look-up that was not answered.
        """
        with self._lock:
            self.looks_answered = not (probed or looking)
            now = self._steady()
            was_open = self._pause is None
            # For as long as the POST on trial has hung, nothing was answered.
            quiet_until = self._entered if self._inside else now
            if was_open and self._is_past(quiet_until):
                # It answered for so long that this is another trouble.
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
        """Whether all was answered for so long that what was before is over."""
        return until - self._answered > 2 * self._longest

    def probe_due(self) -> bool:
        """Whether a look-up should be tried now."""
        pause = self._pause
        return pause is not None and self._steady() >= pause.next_probe

    def answered(self) -> Pause | None:
        """Say that a look-up was answered: one POST may go. Gives the pause that ended."""
        with self._lock:
            ended, self._pause = self._pause, None
            self._ended = ended or self._ended
            self.looks_answered = True
            self._answered = self._steady()
            return ended

    def worked(self) -> None:
        """Say that a POST was answered in the interface's form: all may go."""
        if self._half_open:
            with self._lock:
                self._half_open = self._pause is not None
                if self._pause is None:
                    self._since, self._failed = None, 0
