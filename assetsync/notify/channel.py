"""One way to the outside, on a thread of its own: what hangs there hangs alone.

Messages wait in a queue of bounded length. One that cannot be delivered is tried again, less and less often, for a day;
a failure is logged when it begins and when it ends, and each message that is given up. How one is sent is the sender's.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from assetsync.core.notices import Notice

log = structlog.get_logger(__name__)

MOST = 20
"""Messages that wait in a queue; of more the oldest are given up."""

_PAUSES = (10.0, 30.0, 60.0, 300.0, 900.0)
_LONGEST = 24 * 3600.0


class Undelivered(Exception):
    """A message could not be delivered; the text says why, without a secret."""


class Channel(threading.Thread):
    """Delivers messages with `send`, which raises Undelivered; `failed` gets what nobody foresaw."""

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
        """Leave a message to be delivered; never waits."""
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
        """Deliver what waits, and end with it, or with the next failure."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run(self) -> None:
        """Deliver until closed."""
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 - handed on: who built this decides what becomes of the program
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
            # Whoever finishes does not wait for a better time: what is left is not known as told, and told anew.
            return not self._closing

    def _say_given_up(self, notice: Notice) -> None:
        # From here on it counts as told: the log is all that is left of it.
        log.error("a message is given up", channel=self._called, about=str(notice.kind), text=notice.text)

    def _done(self, notice: Notice) -> None:
        with self._changed:
            # The queue may have overflowed meanwhile, and this message with it.
            if self._waiting and self._waiting[0][1] is notice:
                self._waiting.popleft()
