"""Deliver notices to one receiver in a thread of its own, so that a hanging receiver blocks nothing else.

A notice that cannot be delivered is retried for a day, less and less often, then given up. A receiver is the webhook or
a program of the administrator (`notify.channel`), which runs without a shell and inherits no secret and no connection
of this process; its output goes to stderr. The text of a notice is left to `core.notices`.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, repeat

import structlog

from assetsync.core.notices import Notice
from assetsync.log import redact

log = structlog.get_logger(__name__)

_PAUSES = (10.0, 30.0, 60.0, 300.0, 900.0)
_LONGEST = 24 * 3600.0
_LAST_PAUSE = 5.0
_TRIED_AGAIN = "tried again for a day, while this process runs"


class Undelivered(Exception):
    """A notice could not be delivered; the text is the reason, without secrets."""


class Channel(threading.Thread):
    """A thread that delivers notices by `send`, which raises Undelivered; `failed` receives unexpected exceptions."""

    def __init__(self, name: str, send: Callable[[Notice], None], failed: Callable[[BaseException], None]) -> None:
        super().__init__(name=f"notify-{name}", daemon=True)
        self._channel = name
        self._send = send
        self._failed = failed
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Notice]] = deque()
        self._retry_until = math.inf

    @property
    def is_idle(self) -> bool:
        """Whether every notice was delivered or given up."""
        return not self._waiting

    def post(self, notice: Notice) -> None:
        """Queue a notice for delivery; never blocks."""
        with self._changed:
            self._waiting.append((time.monotonic(), notice))
            self._changed.notify_all()

    def finish(self, patience: float = 0.0) -> None:
        """Deliver the waiting notices, then end the thread; end it also at the first failure after `patience` seconds.

        A second call changes the patience.
        """
        with self._changed:
            self._retry_until = time.monotonic() + patience
            self._changed.notify_all()

    def _is_closing(self) -> bool:
        return self._retry_until < math.inf

    def run(self) -> None:
        """Deliver notices until `finish`."""
        try:
            while self._wait_for_notice() and self._deliver(*self._waiting[0]):
                self._waiting.popleft()
        except BaseException as error:  # noqa: BLE001 - passed to `failed`, which decides whether the program ends
            self._failed(error)

    def _wait_for_notice(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing())
            return bool(self._waiting)

    def _deliver(self, posted: float, notice: Notice) -> bool:
        """Return True once the notice is delivered or given up, False after a failure while closing."""
        about = {"channel": self._channel, "about": str(notice.kind)}
        for tries, pause in enumerate(chain(_PAUSES, repeat(_PAUSES[-1]))):
            try:
                self._send(notice)
            except Undelivered as error:
                detail = str(error)
            else:
                if tries:
                    log.warning("a message was delivered after retries", **about, retries=tries)
                return True
            if not tries:
                log.warning("a message cannot be delivered", **about, detail=detail, next=_TRIED_AGAIN)
            if time.monotonic() - posted > _LONGEST:
                # The notice now counts as delivered, so the log must keep its text.
                log.error("a message was not delivered within a day, and is given up", **about, text=notice.text)
                return True
            if not self._waits_for_retry(pause):
                return False
        raise AssertionError("the pauses have no end")

    def _waits_for_retry(self, pause: float) -> bool:
        """Return True after the pause, and False once no retry may follow."""
        with self._changed:
            if not self._changed.wait_for(self._is_closing, pause):
                return True
            # The pause may have been much longer than the patience.
            return not self._changed.wait_for(lambda: time.monotonic() >= self._retry_until, _LAST_PAUSE)


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
        """Run the program. Raise Undelivered if it cannot be run, fails or takes too long."""
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
