"""Receive signals in the main thread, when it waits for them.

A handler that sets an event, logs or reads a file would run between any two steps of the main thread, while that thread
may hold locks. So Python writes the signal's number to a socket, and the main thread reads the number from it. The
reaction to a signal is left to `daemon`.
"""

import select
import signal
import socket
from types import FrameType

STOP = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD = frozenset({signal.SIGHUP})


class Signals:
    """The signals since the last `wait`; made once for a process."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def take(self) -> None:
        """Receive SIGTERM, SIGINT and SIGHUP from now on; only the main thread may call this."""
        for number in STOP | RELOAD:
            signal.signal(number, _nothing)
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)

    def nudge(self) -> None:
        """End the current or next `wait` at once; any thread may call this."""
        try:
            self._writing.send(b"\0")
        except BlockingIOError:
            # The socket is full of unread bytes, so the next wait returns at once anyway.
            return

    def wait(self, patience: float) -> frozenset[int]:
        """Return the numbers of the signals received, after waiting up to `patience` seconds for the first."""
        select.select([self._reading], [], [], max(0.0, patience))
        try:
            return frozenset(self._reading.recv(4096)) - {0}
        except BlockingIOError:
            return frozenset()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: without a handler the signal would end the process."""
