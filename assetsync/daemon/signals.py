"""Signals as something that the main thread waits for: no handler runs in the midst of other work.

A handler that sets an event, logs or reads a file would do so between any two steps of the main thread, with the locks
that it holds just then. So the number of the signal goes through a socket, and the main thread reads it there.
"""

import select
import signal
import socket
from types import FrameType

STOP = frozenset({signal.SIGTERM, signal.SIGINT})
RELOAD = frozenset({signal.SIGHUP})


class Signals:
    """What came since the last `wait`; made once for a process."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)

    def take(self) -> None:
        """Have SIGTERM, SIGINT and SIGHUP come here from now on; only the main thread may do so."""
        for number in STOP | RELOAD:
            signal.signal(number, _nothing)
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)

    def nudge(self) -> None:
        """Let a `wait` return before its time; from any thread."""
        try:
            self._writing.send(b"\0")
        except BlockingIOError:
            # Full of what nobody has read yet: the next wait returns at once as it is.
            return

    def wait(self, patience: float) -> frozenset[int]:
        """Give the numbers of the signals that came, waiting up to `patience` seconds for the first."""
        select.select([self._reading], [], [], max(0.0, patience))
        try:
            return frozenset(self._reading.recv(4096)) - {0}
        except BlockingIOError:
            return frozenset()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Stand in for a handler: without one, the signal would end the process."""
