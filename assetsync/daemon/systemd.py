"""Receive signals, end a process that hangs at a stop, and report the state of the daemon to systemd (sd_notify).

When to report, and the reaction to a signal, are left to `daemon` and `cli.commands.run`.
"""

import atexit
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

import structlog

from assetsync import INTERRUPTED

log = structlog.get_logger(__name__)

_LONGEST_START = 30 * 60.0
_LATEST = 9.0
_LATEST_SENDING = 45.0
_AFTER_SENDING = 5.0
_LOOK_AGAIN = 0.25


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

    @property
    def is_used(self) -> bool:
        """Whether systemd started this process as a service that reports its state."""
        return bool(self._address)

    def beginning(self) -> None:
        """Ask for half an hour to start: a large ledger is checked, and migrated after an update."""
        self.extend(_LONGEST_START)

    def ready(self) -> None:
        """Report that the start is over: the threads run, or the daemon waits for the ledger."""
        self._send("READY=1")

    def reloading(self, steady: float) -> None:
        """Report a reload of the configuration; `steady` is sent as MONOTONIC_USEC, in seconds here."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(steady * 1e6)}")

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self._send("STOPPING=1")

    def extend(self, seconds: float) -> None:
        """Ask for so many seconds from now on, for a start or a stop that takes longer than the unit allows."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

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
    """The signals since the last `wait`; made once for a process.

    A thread receives them, because the main thread may be busy for minutes. At the first SIGTERM or SIGINT it reports
    that the process stops. A process that has not ended `_LATEST` seconds later is ended, with the exit code of a stop:
    a restart is safe at any point. While `is_sending` is true it has more time, `_LATEST_SENDING` seconds at most.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._received: SimpleQueue[int] = SimpleQueue()
        self.is_sending: Callable[[], bool] = lambda: False
        self._stop_code = 0
        self._stop_asked = threading.Event()

    @property
    def is_stop_asked(self) -> bool:
        """Whether SIGTERM or SIGINT has arrived."""
        return self._stop_asked.is_set()

    def take(self) -> None:
        """Receive SIGTERM, SIGINT and SIGHUP from now on; only the main thread may call this."""
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        for number in STOP | RELOAD:
            signal.signal(number, _nothing)
        atexit.register(self._leave)
        # Now, because a limit of tasks may allow no thread later. It is another thread than that which receives,
        # because a report may wait for the disk of the log.
        threading.Thread(target=self._end_in_time, name="end", daemon=True).start()
        threading.Thread(target=self._receive, name="signals", daemon=True).start()

    def _leave(self) -> None:
        """Ignore what would kill the process while the interpreter ends, which takes away the handlers of signals.

        SIGTERM and SIGINT are obeyed again unless one has arrived: then the process ends in any case.
        """
        for number in RELOAD | (STOP if self.is_stop_asked else frozenset()):
            signal.signal(number, signal.SIG_IGN)

    def nudge(self) -> None:
        """End the current or next `wait` at once; any thread may call this."""
        self._received.put(0)

    def reload(self) -> None:
        """Let the current or next `wait` return SIGHUP; any thread may call this."""
        self._received.put(signal.SIGHUP)

    def wait(self, patience: float) -> frozenset[int]:
        """Return the numbers of the signals received, after waiting up to `patience` seconds for the first."""
        numbers = set()
        with suppress(Empty):
            numbers.add(self._received.get(timeout=max(0.0, patience)))
            while True:
                numbers.add(self._received.get_nowait())
        return frozenset(numbers - {0})

    def _receive(self) -> None:
        while True:
            for number in self._reading.recv(4096):
                self._received.put(number)
                if number in STOP and not self.is_stop_asked:
                    self._stop_code = INTERRUPTED if number == signal.SIGINT else 0
                    self._stop_asked.set()
                    self._notifier.stopping()
                    log.info("stopping", signal=signal.Signals(number).name)

    def _end_in_time(self) -> None:
        self._stop_asked.wait()
        began = time.monotonic()
        until = began + _LATEST
        while (now := time.monotonic()) < min(until, began + _LATEST_SENDING):
            if self.is_sending():
                # What follows the last upload takes a moment, too.
                until = max(until, now + _AFTER_SENDING)
            time.sleep(_LOOK_AGAIN)
        said = threading.Thread(
            target=log.warning,
            args=("the stop took too long: the process is ended, and the next start looks up what was open",),
            daemon=True,
        )
        with suppress(RuntimeError):  # no thread can be started
            said.start()
            said.join(_LOOK_AGAIN)
        os._exit(self._stop_code)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: without a handler the signal would end the process."""
