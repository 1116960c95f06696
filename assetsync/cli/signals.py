"""End a command at a safe point on a signal. Each command decides where that is and what it reports."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from assetsync.cli.entry import INTERRUPTED


@contextmanager
def stopping(stop: threading.Event, ends: Sequence[Callable[[], None]], *, patience: float) -> Iterator[None]:
    """Set `stop` on the first signal (SIGINT, SIGTERM, SIGHUP); end the process at once on the second.

    After the first signal and `patience` seconds, call each of `ends`: they end what the command may be waiting for, so
    that a service that hangs does not hold it up.
    """
    heard: list[int] = []

    def heed(number: int, _frame: FrameType | None) -> None:
        if heard:
            os._exit(INTERRUPTED)
        heard.append(number)
        # Not in the handler: the thread that it interrupts may hold the locks that `finish` takes.
        threading.Thread(target=finish, daemon=True).start()

    def finish() -> None:
        stop.set()
        # Only after `stop` is set: code that appends to `ends` checks `stop` afterwards.
        for end in list(ends):
            timer = threading.Timer(patience, end)
            timer.daemon = True
            timer.start()

    # SIGHUP: the terminal was closed. nohup ignores it, so that the command goes on; leave it ignored then.
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    before = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM, *hang_up)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
