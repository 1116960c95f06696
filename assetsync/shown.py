"""Texts from outside (names, answers, messages) in a form that does nothing where it is shown.

What is shown where is left to others; so is HTML, which has an escaping of its own.
"""

import base64
import re

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
