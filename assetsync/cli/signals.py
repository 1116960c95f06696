"""Signals that end a command at a safe point. What that is, and what is said of it, is the command's."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from assetsync.cli.entry import INTERRUPTED


@contextmanager
def stopping(stop: threading.Event, ends: Sequence[Callable[[], None]], *, patience: float) -> Iterator[None]:
    """Set `stop` when a signal comes (SIGINT, SIGTERM, SIGHUP), and end the process at once when a second one does.

    What the command may be waiting for is ended by `ends` after `patience` seconds: a service that hangs must not hold
    it up.
    """
    heard: list[int] = []

    def heed(number: int, _frame: FrameType | None) -> None:
        if heard:
            os._exit(INTERRUPTED)
        heard.append(number)
        # Never by the handler itself: it may have come while its thread holds the very locks that this takes.
        threading.Thread(target=finish, daemon=True).start()

    def finish() -> None:
        stop.set()
        # Only now: who adds an end looks at `stop` after that.
        for end in list(ends):
            timer = threading.Timer(patience, end)
            timer.daemon = True
            timer.start()

    # A terminal that is closed; whoever began it with nohup has said that it shall go on.
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    before = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM, *hang_up)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
