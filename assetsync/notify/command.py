"""A message handed to a program of the administrator's: `notify.command`.

No shell, no standing connection to this process, none of its secrets; what the program writes goes to stderr.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from assetsync.core.notices import Notice
from assetsync.log import redact
from assetsync.notify.channel import Undelivered

PATIENCE = 30.0
"""Seconds after which the program is killed, with everything that it started."""

# The key, the way to it, and systemd's lines to this process, which the program has no business with.
_OURS = frozenset(
    ("ASSETSYNC_API_KEY", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS")
)


def payload(notice: Notice) -> dict[str, object]:
    """Give what is delivered, as an object of JSON; the same for every channel."""
    return {
        "site": notice.site,
        "event": str(notice.kind),
        "over": notice.is_over,
        "text": redact(notice.text),
        "count": notice.count,
        "new": notice.new,
        "names": [redact(name) for name in notice.names],
        "time": _moment(notice.at),
    }


def encoded(notice: Notice) -> bytes:
    """Give what is delivered as one line of JSON."""
    return json.dumps(payload(notice), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


class Command:
    """Runs a program once a message, the message on its stdin."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], *, patience: float = PATIENCE) -> None:
        self._argv = list(argv)
        self._environ = {name: value for name, value in environ.items() if name not in _OURS and redact(value) == value}
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, notice: Notice) -> None:
        """Run the program; raises Undelivered when it cannot be run, fails or takes too long."""
        told = {"ASSETSYNC_SITE": notice.site, "ASSETSYNC_EVENT": str(notice.kind)}
        try:
            process = subprocess.Popen(  # noqa: S603 - the configuration's own words, and no shell
                self._argv,
                stdin=subprocess.PIPE,
                stdout=_stderr(),
                stderr=_stderr(),
                env=self._environ | told,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Undelivered(f"notify.command cannot be run: {reason}") from error
        self._process = process
        try:
            process.communicate(encoded(notice), timeout=self._patience)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            process.wait()
            raise Undelivered(f"notify.command did not end within {self._patience:.0f} s and was killed") from error
        finally:
            self._process = None
        if process.returncode < 0:
            raise Undelivered(f"notify.command was ended by signal {-process.returncode}")
        if process.returncode:
            raise Undelivered(f"notify.command ended with exit code {process.returncode}")

    def cut(self) -> None:
        """Kill the program that runs, if one does: it must not outlive this process. Any thread may call it."""
        process = self._process
        if process is not None and process.poll() is None:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Its session is ended with it; the group is there as long as its leader was not waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
