"""Deliver messages to one receiver in a thread of its own, so that a hanging receiver blocks nothing else.

Messages wait in a queue of bounded length. A message that cannot be delivered is retried for a day, less and less
often, then given up. The log reports the begin and the end of a failure, and each message that is given up. Sending
itself is left to the `send` function.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from assetsync.core.notices import Notice

log = structlog.get_logger(__name__)

MOST = 20
"""The most messages that wait in a queue; beyond it the oldest is given up."""

_PAUSES = (10.0, 30.0, 60.0, 300.0, 900.0)
_LONGEST = 24 * 3600.0


class Undelivered(Exception):
    """A message could not be delivered; the text is the reason, without secrets."""


class Channel(threading.Thread):
    """A thread that delivers messages by `send`, which raises Undelivered; `failed` receives unexpected exceptions."""

    def __init__(
        self,
        name: str,
        send: Callable[[Notice], None],
        *,
        failed: Callable[[BaseException], None],
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        super().__init__(name=f"notify-{name}", daemon=True)
        self._called = name
        self._send = send
        self._failed = failed
        self._pauses = pauses
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Notice]] = deque()
        self._closing = False
        self._fails = 0
        self._given_up = 0

    @property
    def idle(self) -> bool:
        """Whether every message was delivered or given up."""
        return not self._waiting

    def post(self, notice: Notice) -> None:
        """Queue a message for delivery; never blocks."""
        oldest = None
        with self._changed:
            if len(self._waiting) >= MOST:
                _, oldest = self._waiting.popleft()
                self._given_up += 1
            self._waiting.append((time.monotonic(), notice))
            self._changed.notify_all()
        if oldest is not None:
            self._say_given_up(oldest)

    def finish(self) -> None:
        """Deliver the waiting messages, then end the thread; end it also at the next failure."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run(self) -> None:
        """Deliver messages until `finish`."""
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 - passed to `failed`, which decides whether the program ends
            self._failed(error)

    def _step(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return False
            posted, notice = self._waiting[0]
        try:
            self._send(notice)
        except Undelivered as error:
            return self._failing(posted, notice, str(error))
        if self._fails:
            log.warning("messages are delivered again", channel=self._called, given_up=self._given_up)
        self._fails = self._given_up = 0
        self._done(notice)
        return True

    def _failing(self, posted: float, notice: Notice, why: str) -> bool:
        if not self._fails:
            log.warning("a message cannot be delivered", channel=self._called, about=str(notice.kind), detail=why)
        pause = self._pauses[min(self._fails, len(self._pauses) - 1)]
        self._fails += 1
        if time.monotonic() - posted > _LONGEST:
            self._given_up += 1
            self._done(notice)
            self._say_given_up(notice)
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause)
            # After `finish` there is no retry. Undelivered messages are not recorded as sent, so they are sent again.
            return not self._closing

    def _say_given_up(self, notice: Notice) -> None:
        # The message now counts as delivered, so the log must keep its text.
        log.error("a message is given up", channel=self._called, about=str(notice.kind), text=notice.text)

    def _done(self, notice: Notice) -> None:
        with self._changed:
            # The queue may have overflowed during the delivery and dropped this message.
            if self._waiting and self._waiting[0][1] is notice:
                self._waiting.popleft()
