"""Logging: one event a line on stderr, the same for our own events and for those of the libraries.

Lines are JSON where nobody watches a terminal. No line ever holds a registered secret, whatever brought it there: a
value, an argument, an address, a traceback. What is logged, and when, is left to the caller.
"""

import base64
import json
import logging
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, TextIO
from urllib.parse import quote, quote_plus, unquote, urlsplit

import structlog
from pydantic import SecretStr
from structlog.types import EventDict, WrappedLogger

from assetsync.shown import ACTIVE, printable

REPLACEMENT = "[key]"
# Chatty below a warning: httpx writes every address it calls, the scheduler every run.
_ONLY_WARNINGS = ("httpx", "httpcore", "apscheduler", "watchdog", "uvicorn.access", "asyncio")
_NOT_IN_JSON_LINE = re.compile(ACTIVE.pattern[:-1] + "\\ud800-\\udfff]")
_LEAST_FRAGMENT = 6
# Without a shorter one (`x`), no line could be read any more.
_LEAST_PASSWORD = 4


class _Secrets:
    """The registered secrets, in every form in which they might turn up."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, secret: str) -> None:
        forms = self._forms | {form for form in _forms_of(secret) if form}
        # The longest first, so that no form leaves the rest of a longer one behind.
        longest_first = sorted(forms, key=len, reverse=True)
        self._forms = forms
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

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
    # Inside a longer text (`user:key` of basic authentication) the same bytes have three encodings by their position;
    # the characters at either end that also depend on the neighbours are left out.
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        if last - first >= _LEAST_FRAGMENT:
            yield whole[first:last]
            yield whole[first:last].replace("+", "-").replace("/", "_")


_SECRETS = _Secrets()


def register_secret(secret: SecretStr) -> None:
    """Keep this secret out of every line from now on, plain, URL-encoded, escaped or in base64."""
    _SECRETS.add(secret.get_secret_value())


def register_password(address: str) -> None:
    """Keep the password that stands in an address out of every line, as it stands there and as it is sent."""
    password = urlsplit(address).password or ""
    for form in {password, unquote(password)}:
        if len(form) >= _LEAST_PASSWORD:
            _SECRETS.add(form)


def redact(text: str) -> str:
    """Replace every registered secret in a text by `[key]`; for what is shown or stored elsewhere than in the log."""
    return _SECRETS.redact(text)


def _naming(site: str) -> structlog.types.Processor:
    """Put the site into every event, foreign ones included: many sites may share one journal."""

    def name(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        event.setdefault("site", site)
        return event

    return name


def configure_logging(
    format: str = "auto",  # noqa: A002 - the name of the key in the configuration
    level: str = "info",
    secrets: Iterable[SecretStr] = (),
    *,
    stream: TextIO | None = None,
    site: str | None = None,
) -> None:
    """Send all events from `level` on to stderr, as `console`, `json`, or `auto`: JSON unless stderr is a terminal."""
    for secret in secrets:
        register_secret(secret)
    out = stream or sys.stderr
    as_json = format == "json" or (format == "auto" and not out.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        *([] if site is None else [_naming(site)]),
    ]
    render: structlog.types.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
    chain: list[structlog.types.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        _redact_event,
        *([] if as_json else [_escape_event]),
        _line(render, as_json=as_json),
    ]
    handler = _Handler(out)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=chain))
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=threshold, force=True)
    for name in _ONLY_WARNINGS:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        cache_logger_on_first_use=False,
    )


def log_uncaught() -> None:
    """Log what nobody caught, in any thread, in place of the interpreter's own traceback, which knows no secrets."""
    log = structlog.stdlib.get_logger("assetsync")

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            log.critical("unexpected error", exc_info=args.exc_value, thread=args.thread and args.thread.name)

    def in_main(_kind: object, error: BaseException, _trace: object) -> None:
        log.critical("unexpected error", exc_info=error)

    threading.excepthook = in_thread
    sys.excepthook = in_main


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines; a record that cannot be formatted is named by its place alone, never with its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        error = sys.exc_info()[0]
        if error is not None and issubclass(error, OSError | ValueError) and self.stream.closed:
            return
        line = f"a log record of {record.name} ({record.filename}:{record.lineno}) cannot be written"
        sys.stderr.write(f"{line}: {error.__name__ if error else 'unknown reason'}\n")


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {_SECRETS.redact(str(name)): _redacted(value) for name, value in event.items()}


def _redacted(value: Any) -> Any:
    """Redact a value and what is in it; what is no text and no container is left to the finished line."""
    if isinstance(value, str):
        return _SECRETS.redact(value)
    if isinstance(value, bytes):
        return _SECRETS.redact(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Mapping):
        return {
            _redacted(name) if isinstance(name, str | bytes) else name: _redacted(item) for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_redacted(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else _SECRETS.redact(str(value))


def _escape_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape what would break the line; a traceback keeps its lines, indented so that none passes for an event."""
    shown = {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
    for name in {"exception", "stack"} & event.keys():
        shown[name] = "\n".join(f"    {printable(line)}" for line in str(event[name]).split("\n"))
    return shown


def _line(render: structlog.types.Processor, *, as_json: bool) -> structlog.types.Processor:
    """Render the event, then look through the finished line once more."""

    def finished(logger: WrappedLogger, method: str, event: EventDict) -> str:
        line = str(render(logger, method, event))
        if as_json:
            # JSON allows these in a string; a terminal or a reader of lines does not.
            line = _NOT_IN_JSON_LINE.sub(lambda found: f"\\u{ord(found.group()):04x}", line)
        return _SECRETS.redact(line)

    return finished
