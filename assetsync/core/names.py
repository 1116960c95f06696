"""Names of files, which are bytes, as texts: the one that is sent, and those that are shown.

Pure. How a name is framed in a request (`"` as `%22`) is left to `service.multipart`, escaping for HTML to the page.
`printable` and `relative_text` come from `shown`, below everything that shows a name.
"""

import re

from assetsync.shown import decoded, printable, relative_text

__all__ = ["MAX_SENT", "printable", "relative_text", "sent_name", "shown_text"]

MAX_SENT = 240
_LONGEST_ENDING = 32
_STAND_IN = "unnamed"
# What breaks a path, a header or a line, and what the service loses silently: with a character outside the basic plane
# it answers success and stores nothing (observed). Surrogates stand for bytes that are not UTF-8.
_NOT_SENT = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f/\\\\\\u2028\\u2029\\ud800-\\udfff\\ufffe\\uffff\\U00010000-\\U0010ffff]"
)
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")


def sent_name(name: bytes) -> str:
    """Give the name under which a file is sent: like its own, but such that the service keeps it (observed "Names").

    At most 240 characters, the ending kept. Two Unicode forms of a name stay two names.
    """
    safe = _NOT_SENT.sub("_", name.decode("utf-8", "surrogateescape"))
    if _framed_length(safe) > MAX_SENT:
        stem, dot, ending = safe.rpartition(".")
        kept = dot + ending if stem and len(ending) <= _LONGEST_ENDING else ""
        stem = safe.removesuffix(kept)[:MAX_SENT]
        while _framed_length(stem + kept) > MAX_SENT:
            stem = stem[:-1]
        safe = stem + kept
    return safe if safe.strip(". ") else _STAND_IN


def _framed_length(name: str) -> int:
    """Count the characters that the service will see: a quote is sent as `%22` and stays so (observed "Names")."""
    return len(name) + 2 * name.count('"')


def shown_text(name: bytes) -> str:
    """Give a name as text for metadata: bytes that are not UTF-8 as U+FFFD, control characters as `_`."""
    return _CONTROL.sub("_", decoded(name))
