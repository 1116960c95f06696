"""Deliver notices to one receiver in a thread of its own, so that a hanging receiver blocks nothing else.

A notice that cannot be delivered is retried for a day, less and less often, then given up. Sending itself is left to
the `send` function.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import chain, repeat

import structlog

from assetsync.core.notices import Notice

log = structlog.get_logger(__name__)

_PAUSES = (10.0, 30.0, 60.0, 300.0, 900.0)
_LONGEST = 24 * 3600.0


class Undelivered(Exception):
    """A notice could not be delivered; the text is the reason, without secrets."""


class Channel(threading.Thread):
    """A thread that delivers notices by `send`, which raises Undelivered; `failed` receives unexpected exceptions."""

    def __init__(self, name: str, send: Callable[[Notice], None], failed: Callable[[BaseException], None]) -> None:
        super().__init__(name=f"notify-{name}", daemon=True)
        self._channel = name
        self._send = send
        self._failed = failed
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Notice]] = deque()
        self._closing = False

    @property
    def is_idle(self) -> bool:
        """Whether every notice was delivered or given up."""
        return not self._waiting

    def post(self, notice: Notice) -> None:
        """Queue a notice for delivery; never blocks."""
        with self._changed:
            self._waiting.append((time.monotonic(), notice))
            self._changed.notify_all()

    def finish(self) -> None:
        """Deliver the waiting notices, then end the thread; end it also at the next failure."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run(self) -> None:
        """Deliver notices until `finish`."""
        try:
            while self._wait_for_notice() and self._deliver(*self._waiting[0]):
                self._waiting.popleft()
        except BaseException as error:  # noqa: BLE001 - passed to `failed`, which decides whether the program ends
            self._failed(error)

    def _wait_for_notice(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return bool(self._waiting)

    def _deliver(self, posted: float, notice: Notice) -> bool:
        """Return True once the notice is delivered or given up, False after a failure while closing."""
        about = {"channel": self._channel, "about": str(notice.kind)}
        for tries, pause in enumerate(chain(_PAUSES, repeat(_PAUSES[-1]))):
            try:
                self._send(notice)
            except Undelivered as error:
                detail = str(error)
            else:
                if tries:
                    log.warning("a notice is delivered after retries", **about, retries=tries)
                return True
            if not tries:
                log.warning("a notice cannot be delivered", **about, detail=detail)
            if time.monotonic() - posted > _LONGEST:
                # The notice now counts as delivered, so the log must keep its text.
                log.error("a notice is given up", **about, text=notice.text)
                return True
            with self._changed:
                if self._changed.wait_for(lambda: self._closing, pause):
                    # It is not recorded as reported, so the next start sends it again.
                    return False
        raise AssertionError("the pauses have no end")
