"""Write log events to stderr, one event a line, in the same form for our own events and those of libraries.

By default, lines are coloured on a terminal, plain in systemd's journal, and JSON anywhere else. In the journal each
line carries its priority (sd-daemon(3)), so that `journalctl -p err` selects errors. No line contains a registered
secret, whether from a value, an argument, an address or a traceback: `redact` replaces it. No caller waits for a reader
that does not read, or longer than a second for a disk: lines are kept up to a limit, and then dropped and counted. The
choice of events is left to the callers.
"""

import base64
import errno
import inspect
import json
import logging
import os
import re
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NamedTuple, TextIO
from urllib.parse import quote, quote_plus, unquote, urlsplit

import structlog
from pydantic import SecretStr
from structlog.types import EventDict, WrappedLogger

from assetsync.journal import in_journal
from assetsync.text import ACTIVE, printable, runnable

REPLACEMENT = "[key]"
# Below a warning these libraries log too much: httpx logs every address, the scheduler every run.
_ONLY_WARNINGS = ("httpx", "httpcore", "apscheduler", "watchdog", "uvicorn.access", "asyncio")
_TO_JSON = json.JSONEncoder(ensure_ascii=False)
_NOT_IN_JSON_LINE = re.compile(ACTIVE.pattern[:-1] + "\\ud800-\\udfff]")
_LEAST_FRAGMENT = 6
_PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""The priorities of syslog(3) for each level."""

_APART = ("event", "level", "timestamp", "logger", "exception", "stack")
_PLAIN_VALUE = re.compile(r"[^\s\"=]+")
_LEAST_PATH = 16
# A shorter password (`x`) stays in the log: redacting it everywhere would make lines unreadable.
_LEAST_PASSWORD = 4

_MOST_KEPT = 1024 * 1024
"""Bytes of lines that are kept for a reader that does not read."""

_UNREAD_SECONDS = 10.0
"""Seconds after which lines that nobody reads are reported."""

_LAST_PATIENCE = 0.5
"""Seconds that the end of the process gives the reader to read what was kept."""

_DISK_PATIENCE = 1.0
"""Seconds that a line waits for the disk of a log file."""


class _Secrets:
    """The registered secrets, in every form in which they may appear."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, secret: str) -> None:
        forms = self._forms | {form for form in _forms_of(secret) if form}
        # The longest form first, so that no shorter form matches inside a longer form and leaves its rest.
        longest_first = sorted(forms, key=len, reverse=True)
        self._forms = forms
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def in_text(self, text: str) -> bool:
        return self._pattern is not None and self._pattern.search(text) is not None

    def redact(self, text: str) -> str:
        return self._pattern.sub(REPLACEMENT, text) if self._pattern else text


def _forms_of(secret: str) -> Iterable[str]:
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), encoded)
    for escaped in (json.dumps(secret)[1:-1], repr(secret)[1:-1]):
        yield escaped
        yield json.dumps(escaped)[1:-1]
    data = secret.encode()
    yield data.hex()
    yield data.hex().upper()
    # Inside a longer text (`user:key` of basic authentication) the same bytes have three base64 encodings, depending on
    # their position. Characters at the ends that also depend on neighbouring bytes are left out.
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        if last - first >= _LEAST_FRAGMENT:
            yield whole[first:last]
            yield whole[first:last].replace("+", "-").replace("/", "_")


_SECRETS = _Secrets()


def register_secret(secret: SecretStr) -> None:
    """Redact this secret in every line from now on: plain, URL-encoded, escaped, in hexadecimal and in base64."""
    _SECRETS.add(secret.get_secret_value())


def register_password(address: str) -> None:
    """Redact the password of an address in every line, as written in the address and as sent (percent-decoded)."""
    password = urlsplit(address).password or ""
    for form in {password, unquote(password)}:
        if len(form) >= _LEAST_PASSWORD:
            _SECRETS.add(form)


def register_address(address: str) -> None:
    """Redact an address that is a secret in every line: whole, its path, both without the query, and its password."""
    rest = address.partition("://")[2].partition("/")[2]
    base, path = address.partition("?")[0], rest.partition("?")[0]
    # A shorter path may be a word (`/assetsync`, `/blocked`) that the page and its JSON contain themselves.
    for secret in (address, *[base] * bool(path), *(part for part in (rest, path) if len(part) >= _LEAST_PATH)):
        _SECRETS.add(secret)
    register_password(address)


def redact(text: str) -> str:
    """Replace every registered secret in a text by `[key]`, for texts that are shown or stored outside the log."""
    return _SECRETS.redact(text)


class UnreadLog(NamedTuple):
    """For how many seconds the log's reader has been behind, how many lines were dropped meanwhile, and why."""

    seconds: float
    dropped: int
    detail: str


class _DiskWriter:
    """Writes to a file in a thread of its own, because nothing shows beforehand that its disk hangs."""

    def __init__(self, fd: int) -> None:
        self._asked: SimpleQueue[bytes] = SimpleQueue()
        self._done: SimpleQueue[int | OSError] = SimpleQueue()
        self._hangs = False
        threading.Thread(target=self._write, args=(fd,), name="log", daemon=True).start()

    def write(self, data: bytes) -> int:
        """Return how many bytes were written, or raise the OSError of the write.

        Raise BlockingIOError if the disk hangs: the data of the next call must begin with the same bytes, which may
        have been written by then. That call does not wait.
        """
        if not self._hangs:
            self._asked.put(data)
        try:
            done = self._done.get(timeout=0.0 if self._hangs else _DISK_PATIENCE)
        except Empty:
            self._hangs = True
            raise BlockingIOError(errno.EAGAIN, "its disk does not answer") from None
        self._hangs = False
        if isinstance(done, OSError):
            raise done
        return done

    def _write(self, fd: int) -> None:
        while True:
            try:
                self._done.put(os.write(fd, self._asked.get()))
            except OSError as error:
                self._done.put(error)


class _Output:
    """The stream that takes the lines. No line waits for its reader: what it does not take is kept, up to a limit."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stream: TextIO | None = None
        self._write: Callable[[bytes], int] | None = None
        self._poll = select.poll()
        self._kept = bytearray()
        self._kept_since = 0.0
        self._dropped = 0
        self._detail = ""

    def use(self, stream: TextIO) -> None:
        """Write to this stream from now on; what was kept for the same stream stays kept."""
        with self._lock:
            if stream is self._stream:
                return
            self._stream, self._write, self._poll = stream, None, select.poll()
            self._kept.clear()
            if stream.isatty():
                # A progress bar may stand between, and a person reads.
                return
            with suppress(OSError, ValueError):
                fd = stream.fileno()
                self._poll.register(fd, select.POLLOUT)
                self._write = partial(os.write, fd)
                with suppress(RuntimeError):  # no thread can be started
                    if stat.S_ISREG(os.fstat(fd).st_mode):
                        self._write = _DiskWriter(fd).write

    def waits_for(self, stream: TextIO) -> bool:
        """Return whether lines that this stream does not take are kept, so that no caller waits for its reader."""
        return stream is self._stream and self._write is not None

    def put(self, line: str) -> None:
        """Write a line after those that were kept. Keep it if there is no room, drop it if too much is kept."""
        with self._lock:
            stream = self._stream
            if stream is None or stream.closed:
                return
            if self._write is None:
                stream.write(f"{line}\n")
                stream.flush()
                return
            self.write_kept()
            data = f"{line}\n".encode(stream.encoding or "utf-8", stream.errors or "backslashreplace")
            if not self._kept:
                self._kept_since = time.monotonic()
            elif len(self._kept) + len(data) > _MOST_KEPT:
                self._dropped += 1
                return
            self._kept += data
            self.write_kept()

    def write_kept(self, patience: float = 0.0) -> None:
        """Write what the stream takes within `patience` seconds; once nothing is kept, log how many lines were dropped.

        A pipe or socket that poll(2) reports as writable takes PIPE_BUF bytes without a wait.
        """
        with self._lock:
            if self._write is None or self._stream is None or self._stream.closed:
                return
            until = time.monotonic() + patience
            self._detail = "its reader does not read"
            try:
                while self._kept and self._poll.poll(max(0.0, until - time.monotonic()) * 1000):
                    del self._kept[: self._write(bytes(self._kept[: select.PIPE_BUF]))]
            except OSError as error:
                self._detail = error.strerror or type(error).__name__
            if self._dropped and not self._kept:
                dropped, self._dropped = self._dropped, 0
                structlog.get_logger(__name__).warning("log lines were dropped", lines=dropped)

    def unread(self) -> UnreadLog | None:
        """Return how far the reader is behind; None if it reads."""
        with self._lock:
            self.write_kept()
            seconds = time.monotonic() - self._kept_since if self._kept else 0.0
            return UnreadLog(seconds, self._dropped, self._detail) if seconds >= _UNREAD_SECONDS else None


_OUTPUT = _Output()


def write_beside_log(line: str) -> bool:
    """Write a line that is no event to stderr, as the log writes there; return False if the log writes elsewhere."""
    if not _OUTPUT.waits_for(sys.stderr):
        return False
    _OUTPUT.put(line)
    return True


def unread_log() -> UnreadLog | None:
    """Write to the log what was kept for its reader, and return how far the reader is behind; None if it reads."""
    return _OUTPUT.unread()


def _naming(site: str) -> structlog.types.Processor:
    """Return a processor that adds the site to every event, including those of libraries: sites may share a journal."""

    def name(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        event.setdefault("site", site)
        return event

    return name


def _name_configuration(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Let the commands in a fix or a detail name the configuration, so that they run as they are logged."""
    for key in ("fix", "detail"):
        if isinstance(event.get(key), str):
            event[key] = runnable(event[key])
    return event


def configure_logging(
    format: str = "auto",  # noqa: A002 - the name of the key in the configuration
    level: str = "info",
    *,
    stream: TextIO | None = None,
    site: str | None = None,
) -> None:
    """Write all events of at least `level` to stderr, or to `stream`; `site` is added to each event.

    `format` is `console`, `json` or `auto`: `console` on a terminal, plain lines in the journal, else JSON.
    """
    out = stream or sys.stderr
    as_lines = in_journal(out)
    as_json = format == "json" or (format == "auto" and not out.isatty() and not as_lines)
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _name_configuration,
        *([] if site is None else [_naming(site)]),
    ]
    render: structlog.types.Processor = (
        _as_json
        if as_json
        else _plain
        if as_lines
        else structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
    render = _with_priority(render) if as_lines else render
    chain = [_redact_event, *([] if as_json else [_escape_event]), _line(render, as_json=as_json)]
    _OUTPUT.use(out)
    handler = _Handler(chain)
    foreign = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *chain]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=foreign))
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=threshold, force=True)
    for name in _ONLY_WARNINGS:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[*shared, _whole],
        logger_factory=handler.logger,
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        cache_logger_on_first_use=False,
    )


def log_uncaught() -> None:
    """Log uncaught exceptions of any thread, instead of the interpreter's traceback, which is not redacted."""
    log = structlog.stdlib.get_logger("assetsync")

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            log.critical("unexpected error", exc_info=args.exc_value, thread=args.thread and args.thread.name)

    def in_main(_kind: object, error: BaseException, _trace: object) -> None:
        log.critical("unexpected error", exc_info=error)

    threading.excepthook = in_thread
    sys.excepthook = in_main


class _Handler(logging.Handler):
    """The writer of lines: records of libraries, and our own events without a record, which takes a third of the time.

    An event that cannot be formatted is reported by its place in the code, never with its arguments.
    """

    def __init__(self, chain: Sequence[structlog.types.Processor]) -> None:
        super().__init__()
        self._chain = chain

    def logger(self, name: str | None = None) -> "_Logger":
        """Return the logger with a name, by default the calling module's; this is structlog's logger factory."""
        if name is None:
            frame = _calling_frame()
            name = str(frame.f_globals.get("__name__")) if frame else "?"
        return _Logger(name, self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of a library."""
        try:
            _OUTPUT.put(self.format(record))
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as in logging's own handlers: the caller continues
            self._failed(record.name, f"{record.filename}:{record.lineno}")

    def write(self, name: str, event: EventDict) -> None:
        """Write one of our own events."""
        try:
            line: Any = event
            for step in self._chain:
                line = step(None, "", line)
            _OUTPUT.put(line)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as in logging's own handlers: the caller continues
            frame = _calling_frame()
            self._failed(name, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?")

    def flush(self) -> None:
        """Write what was kept; logging calls this at the end of the process."""
        _OUTPUT.write_kept(_LAST_PATIENCE)

    def _failed(self, name: str, place: str) -> None:
        error = sys.exc_info()[0]
        line = printable(_SECRETS.redact(f"a log record of {name} ({place}) cannot be written"))
        _OUTPUT.put(f"{line}: {error.__name__ if error else 'unknown reason'}")


class _Logger:
    """A logger that structlog calls with an event, by the name of the level, which the event already contains."""

    __slots__ = ("_handler", "name")

    def __init__(self, name: str, handler: _Handler) -> None:
        self.name = name
        self._handler = handler

    def write(self, event: EventDict) -> None:
        self._handler.write(self.name, event)

    notset = debug = info = warning = error = critical = write


def _whole(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[EventDict], dict[str, Any]]:
    """Pass the event to the logger as it is; as keyword arguments it would be built again."""
    return (event,), {}


def _calling_frame() -> FrameType | None:
    """Return the frame that logs: the nearest outside structlog and this module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("structlog", __name__)):
        frame = frame.f_back
    return frame


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    texts = list(event)
    for value in event.values():
        if type(value) is str:
            texts.append(value)
        elif value is not None and not isinstance(value, int | float):
            break
    else:
        # If the joined text contains no secret, no part does: one search instead of many replacements.
        if not _SECRETS.in_text("\n".join(texts)):
            return event
    return {_SECRETS.redact(str(name)): _redacted(value) for name, value in event.items()}


def _redacted(value: Any) -> Any:
    """Redact a value and its items; numbers, booleans and None are returned as they are, other objects as text."""
    if isinstance(value, str):
        return _SECRETS.redact(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return _SECRETS.redact(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Mapping):
        return {
            _redacted(name) if isinstance(name, str | bytes) else name: _redacted(item) for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_redacted(item) for item in value]
    return _SECRETS.redact(str(value))


def _escape_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape characters that break the line; a traceback keeps its lines, indented so that none looks like an event."""
    shown = {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
    for name in {"exception", "stack"} & event.keys():
        shown[name] = "\n".join(f"    {printable(line)}" for line in str(event[name]).split("\n"))
    return shown


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _TO_JSON.encode(event)


def _plain(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return an event as `brake pulled  site=hq kind=vanished`; the journal adds the time itself."""
    texts = {
        name: ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, Mapping) else str(value)
        for name, value in event.items()
        if name not in _APART
    }
    fields = [
        f"{name}={text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text, ensure_ascii=False)}"
        for name, text in texts.items()
    ]
    lines = [f"{event.get('event', '')}  {' '.join(fields)}".rstrip()]
    lines += [str(event[name]) for name in ("stack", "exception") if name in event]
    return "\n".join(lines)


def _with_priority(render: structlog.types.Processor) -> structlog.types.Processor:
    """Return a processor that puts the priority of an event in front of each of its lines."""

    def prefixed(logger: WrappedLogger, method: str, event: EventDict) -> str:
        prefix = f"<{_PRIORITIES.get(str(event.get('level')), 6)}>"
        return prefix + str(render(logger, method, event)).replace("\n", f"\n{prefix}")

    return prefixed


def _line(render: structlog.types.Processor, *, as_json: bool) -> structlog.types.Processor:
    """Return a processor that renders an event, escapes a JSON line and redacts the finished line."""

    def finished(logger: WrappedLogger, method: str, event: EventDict) -> str:
        line = str(render(logger, method, event))
        if as_json and not line.isprintable():
            # JSON allows these characters in a string, but they disturb a terminal or a reader of lines.
            line = _NOT_IN_JSON_LINE.sub(lambda found: f"\\u{ord(found.group()):04x}", line)
        return _SECRETS.redact(line)

    return finished
