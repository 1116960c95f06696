"""Times, sizes and numbers as a person reads them, the same in every command, on the page and in the journal."""

import base64
import re
from datetime import UTC, datetime

_UNITS = ("bytes", "KB", "MB", "GB", "TB")
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def moment(seconds: float | None) -> str | None:
    """Give a time as RFC 3339 in UTC, to the millisecond; None stays None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hour(seconds: float, now: float) -> str:
    """Give a time of the last 24 hours as `23:45 UTC`; of any other, the day comes first."""
    day = "" if 0 <= now - seconds < _SPANS[0][0] else "%Y-%m-%d "
    return datetime.fromtimestamp(seconds, UTC).strftime(f"{day}%H:%M UTC")


def on_the_wall(seconds: float) -> str:
    """Give a time as the machine's own clock shows it, such as `19:00 CET`: hours of the configuration are local."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%H:%M %Z}"


def amount(size: float) -> str:
    """Give a number of bytes for a person: `3.4 MB`."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:  # noqa: PLR2004 - as the configuration counts: 1 MB is 10^6 bytes
            return f"{size:,.0f} {unit}" if unit == _UNITS[0] else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes all")


def plural(count: int, thing: str) -> str:
    """Give a number of things in words; `thing` in the singular, of a word that takes an s."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def files(count: int) -> str:
    """Give a number of files in words."""
    return plural(count, "file")


def span(seconds: float) -> str:
    """Give a length of time for a person, in its largest unit: `40 s`, `12 min`, `3 h`, `9 d`."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length):,} {unit}"
    return f"{max(0, int(seconds))} s"


_SURROGATE = re.compile("[\\ud800-\\udfff]")
# What moves the cursor, breaks a line or turns the writing round, so that one name could be shown as another.
ACTIVE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")


def decoded(name: bytes | str) -> str:
    """Give a name as text, with U+FFFD for each byte that is not UTF-8."""
    text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
    return _SURROGATE.sub("\ufffd", text)


def printable(name: bytes | str) -> str:
    r"""Give a text that can stand in a terminal, a log or a CSV line without doing anything there.

    Bytes that are not UTF-8 become U+FFFD; control characters and those that turn the direction of writing are written
    as escapes (`\n`, `\x1b`, `\u202e`).
    """
    if isinstance(name, str) and name.isprintable():
        # Most are, and this is three times as fast.
        return name
    return ACTIVE.sub(_escape, decoded(name))


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def relative_text(path: bytes) -> tuple[str, str | None]:
    """Give a path for `--json`: as text, and where that cannot be turned back into the bytes, as base64 too."""
    try:
        return path.decode("utf-8"), None
    except UnicodeDecodeError:
        return decoded(path), base64.b64encode(path).decode("ascii")
