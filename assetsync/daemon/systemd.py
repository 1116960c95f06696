"""Receive signals, and report the state of the daemon to systemd (sd_notify).

When to report, and the reaction to a signal, are left to `daemon` and `cli.run`.
"""

import os
import select
import signal
import socket
from types import FrameType

import structlog

log = structlog.get_logger(__name__)

_LONGEST_START = 30 * 60.0


class Notifier:
    """The sender to the socket in $NOTIFY_SOCKET; without that variable it sends nothing.

    `watchdog` is the watchdog's time-out in seconds; None without a watchdog for this process.
    """

    def __init__(self, environ: dict[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        micro = environ.get("WATCHDOG_USEC", "")
        self._unheard = False
        for_us = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self.watchdog = int(micro) / 1e6 if micro.isdigit() and for_us else None

    def beginning(self) -> None:
        """Ask for half an hour to start: a large ledger is checked, and migrated after an update."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(_LONGEST_START * 1e6)}")

    def ready(self) -> None:
        """Report that the start is over: the threads run, or the daemon waits for the ledger's disk."""
        self._send("READY=1")

    def reloading(self, steady: float) -> None:
        """Report a reload of the configuration; `steady` is sent as MONOTONIC_USEC, in seconds here."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(steady * 1e6)}")

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def status(self, line: str) -> None:
        """Send the line that `systemctl status` shows."""
        self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.connect(self._address)
                channel.send(message.encode())
        except OSError as error:
            # A failed report must not end the daemon. Without the watchdog's messages systemd restarts it anyway.
            if not self._unheard:
                log.warning("systemd cannot be notified", detail=error.strerror or type(error).__name__)
            self._unheard = True
        else:
            self._unheard = False


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
