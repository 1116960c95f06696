"""Format times, sizes, numbers and names for people, the same in every command, on the page and in the journal.

Sentences are left to the callers.
"""

import base64
import pwd
import re
import unicodedata
from datetime import UTC, datetime

_UNITS = ("bytes", "KB", "MB", "GB", "TB")
# A word in single quotes may be a file name that looks like a command: it is matched first, and left as it is.
_COMMAND = re.compile(
    r"""(?<!\w)'(?:[^'\n]|'\\''|'"'"')*'"""
    r"|\bassetsync (?:doubt (?:list|retry|resolve)|drift (?:list|settle)|run|reconcile|check|status|files|explain|retry"
    r"|audit|orphans|resume|export|search|index|upload)\b(?![^`;\n]* (?:--config|--site|-c)\b)"
)
_DAEMON = re.compile(r"(`?)systemctl (start|restart|reload) assetsync@SITE\1")
_WITHOUT_UNIT = {
    "start": "assetsync run",
    "restart": "stop `assetsync run` and start it again",
    "reload": "send SIGHUP to `assetsync run`",
}
_option = ""
_unit = ""
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def moment(seconds: float | None) -> str | None:
    """Return a time as RFC 3339 in UTC, to the millisecond; return None for None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hour(seconds: float, now: float) -> str:
    """Return a time of the last 24 hours as `23:45 UTC`, any other time with the date before it."""
    day = "" if 0 <= now - seconds < _SPANS[0][0] else "%Y-%m-%d "
    return datetime.fromtimestamp(seconds, UTC).strftime(f"{day}%H:%M UTC")


def on_the_wall(seconds: float) -> str:
    """Return a time in local time, such as `19:00 CET`, because hours in the configuration are local."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%H:%M %Z}"


def local_moment(seconds: float) -> str:
    """Return a time in local time with its date, such as `2026-11-25 18:00 CET`, as people set it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M %Z}"


def amount(size: float) -> str:
    """Return a number of bytes with its unit, such as `3.4 MB`."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:  # noqa: PLR2004 - as the configuration counts: 1 MB is 10^6 bytes
            return f"{size:,.0f} {unit}" if unit == _UNITS[0] else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes all")


def plural(count: int, thing: str) -> str:
    """Return a number of things, such as `3 brakes`; `thing` is the singular of a noun whose plural adds an s."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def files(count: int) -> str:
    """Return a number of files, such as `1 file`."""
    return plural(count, "file")


def span(seconds: float) -> str:
    """Return a length of time in its largest unit, rounded down: `40 s`, `12 min`, `3 h`, `9 d`."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length):,} {unit}"
    return f"{max(0, int(seconds))} s"


def user_name(user: int) -> str:
    """Return the name of a user, or the number if the system has no name for it."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


# What a shell reads as it is.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%")
_SURROGATE = re.compile("[\\ud800-\\udfff]")
# Characters that move the cursor, break a line or change the text direction, so that a name could look like another.
ACTIVE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")


def decoded(name: bytes | str) -> str:
    """Return a name as text, with U+FFFD for each byte that is not UTF-8."""
    text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
    return _SURROGATE.sub("\ufffd", text)


def printable(name: bytes | str) -> str:
    r"""Return a text that is safe to print in a terminal, a log or a CSV line.

    Bytes that are not UTF-8 become U+FFFD. Control characters, and characters that change the text direction, become
    escapes (`\n`, `\x1b`, `\u202e`).
    """
    if isinstance(name, str) and name.isprintable():
        # Most names are printable, and this check is three times as fast.
        return name
    return ACTIVE.sub(_escape, decoded(name))


def named_path(path: bytes) -> str:
    """Return a path relative to the root as it is printed; the root itself is the whole site."""
    return printable(path) if path else "the whole site"


def quoted(path: bytes) -> str:
    """Return a path quoted for a shell command; a path that `printable` changes is for reading only."""
    text = printable(path)
    if text.startswith("-"):
        # A command would take it for an option.
        text = f"./{text}"
    return "'" + text.replace("'", "'\\''") + "'" if set(text) - _PLAIN else text


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def columns(character: str) -> int:
    """Return how many columns of a terminal a character takes: a wide one two, a combining one none."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def relative_text(path: bytes) -> tuple[str, str | None]:
    """Return a path for `--json`: as text, and in base64 if the text does not convert back to the bytes, else None."""
    try:
        return path.decode("utf-8"), None
    except UnicodeDecodeError:
        return decoded(path), base64.b64encode(path).decode("ascii")


def path_keys(path: bytes | None) -> dict[str, object]:
    """Return the keys of a path for `--json`: `path`, and `path_base64` only if the text lacks bytes of the path."""
    text, encoded = (None, None) if path is None else relative_text(path)
    return {"path": text} if encoded is None else {"path": text, "path_base64": encoded}


def name_configuration(option: str, unit: str = "") -> None:
    """Let `runnable` add this option, such as `--site hq`, to the commands that people are shown.

    `unit` is the systemd unit of the daemon, such as `assetsync@hq`; it is "" if none is installed.
    """
    global _option, _unit
    _option, _unit = option, unit


def configuration() -> str:
    """Return the option that `runnable` adds, for a command that is put together of words; "" without one."""
    return _option


def runnable(text: str) -> str:
    """Return a text in which the commands of assetsync name the configuration that this process was given.

    They then run as they are shown, also if the reader pastes them into another terminal. `systemctl start
    assetsync@SITE`, `restart` and `reload` become commands for the unit of this site, or, without a unit, for
    `assetsync run`.
    """
    text = _DAEMON.sub(rf"\1systemctl \2 {_unit}\1" if _unit else lambda found: _WITHOUT_UNIT[found[2]], text)
    if not _option:
        return text
    return _COMMAND.sub(lambda found: found.group() if found.group()[0] == "'" else f"{found.group()} {_option}", text)


def folded(path: bytes | str) -> str:
    """Return a path, or a part of it, as it is compared: as the page shows it, without case, in one form of Unicode."""
    text = printable(path)
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
