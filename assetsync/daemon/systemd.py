"""Tells systemd how the daemon is (sd_notify): ready, stopping, alive, and a line of status."""

import os
import socket

import structlog

log = structlog.get_logger(__name__)

_LONGEST_START = 30 * 60.0


class Notifier:
    """Speaks to the socket that systemd named in $NOTIFY_SOCKET; without one it is silent."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        micro = environ.get("WATCHDOG_USEC", "")
        self._unheard = False
        for_us = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self.watchdog = int(micro) / 1e6 if micro.isdigit() and for_us else None

    def beginning(self) -> None:
        """Ask for half an hour to begin in: a large ledger is looked through, and migrated after an update."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(_LONGEST_START * 1e6)}")

    def ready(self) -> None:
        """Say that the site is open and the threads run."""
        self._send("READY=1")

    def reloading(self, steady: float) -> None:
        """Say that the configuration is read again; `steady` is in seconds of the monotonic clock."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(steady * 1e6)}")

    def stopping(self) -> None:
        """Say that the daemon is on its way out."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Every loop has reported in time."""
        self._send("WATCHDOG=1")

    def status(self, line: str) -> None:
        """Give the line that `systemctl status` shows."""
        self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.connect(self._address)
                channel.send(message.encode())
        except OSError as error:
            # To tell how the daemon is must not end it; systemd restarts one that it does not hear of in time.
            if not self._unheard:
                log.warning("systemd cannot be told", detail=error.strerror or type(error).__name__)
            self._unheard = True
        else:
            self._unheard = False
