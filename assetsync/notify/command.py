"""Deliver a notice to a program of the administrator (`notify.command`).

The program runs without a shell and inherits no secret and no connection of this process. Its output goes to stderr.
Retries are left to `channel`, the text of a notice to `core.notices`.
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
"""Seconds after which the program is killed, with its process group."""

# The key, the folder that holds it, and the variables of systemd: the program must not get these.
_OURS = frozenset(
    ("ASSETSYNC_API_KEY", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS")
)


def encoded(notice: Notice) -> bytes:
    """Return a notice as one line of JSON, the same for every channel."""
    value = {
        "site": notice.site,
        "event": str(notice.kind),
        "over": notice.is_over,
        "text": redact(notice.text),
        "count": notice.count,
        "new": notice.new,
        "names": [redact(name) for name in notice.names],
        "time": datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


class Command:
    """A program that runs once for each notice, with the notice on its stdin."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], *, patience: float = PATIENCE) -> None:
        self._argv = list(argv)
        self._environ = {name: value for name, value in environ.items() if name not in _OURS and redact(value) == value}
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, notice: Notice) -> None:
        """Run the program. Raises Undelivered if it cannot be run, fails or takes too long."""
        subject = {"ASSETSYNC_SITE": notice.site, "ASSETSYNC_EVENT": str(notice.kind)}
        try:
            process = subprocess.Popen(  # noqa: S603 - the configuration's own words, and no shell
                self._argv,
                stdin=subprocess.PIPE,
                stdout=_stderr(),
                stderr=_stderr(),
                env=self._environ | subject,
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
        """Kill a running program, which must not outlive this process. Any thread may call this."""
        process = self._process
        if process is not None and process.poll() is None:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The program leads a process group of its own, which exists until the program has been waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL
