"""Decode and scan one JSON answer value by value, in a sliding window that never holds the whole text.

`records` interprets the values.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import cast

from assetsync.errors import BadAnswer

VALUE_LIMIT = 1024 * 1024
"""Largest value (a row, a name) in characters; an answer with a longer value raises BadAnswer."""

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
# Only these codecs are accepted: an answer may name any codec of Python, and some of them decompress or execute.
_CODECS = {
    "iso-8859-1": "iso-8859-1", "latin1": "iso-8859-1", "latin-1": "iso-8859-1", "iso-8859-15": "iso-8859-15",
    "us-ascii": "ascii", "windows-1252": "cp1252", "utf-8": "utf-8-sig", "utf8": "utf-8-sig",
}  # fmt: skip
_BLANK = re.compile(r"[ \t\r\n\f\v]*")
_WHOLE_ROW = re.compile(r'\[(?:[^"\[\]]|"(?:[^"\\]|\\.)*+")*+\]', re.DOTALL)
# strict=False accepts raw control characters, which occur in names and keywords (observed).
# NaN and the infinities are not JSON, and no consumer expects them: they become None.
_scan = json.JSONDecoder(strict=False, parse_constant=lambda _name: None).raw_decode


class _Malformed:
    """The type of MALFORMED, a value that is complete but cannot be parsed."""


MALFORMED = _Malformed()


def charset_of(content_type: str) -> str:
    """Return the codec of an answer: ISO-8859-1 was observed, UTF-8 is the default of JSON."""
    match = _CHARSET.search(content_type)
    return _CODECS.get(match[1].lower(), "utf-8-sig") if match else "utf-8-sig"


class SlidingText:
    """A window over an answer that decodes chunks on demand and drops the text already read."""

    def __init__(self, chunks: Iterable[bytes], charset: str) -> None:
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder(charset)(errors="replace")
        self._window = ""
        self._at = 0
        self._forgotten = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The number of characters taken so far."""
        return self._forgotten + self._at

    def peek(self) -> str:
        """Skip blanks and return the next character without taking it; "" at the end."""
        while True:
            self._at = cast("re.Match[str]", _BLANK.match(self._window, self._at)).end()
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._grow():
                return ""

    def take(self, expected: str) -> None:
        """Take the next character that is not blank; raises BadAnswer if it is not the expected character."""
        found = self.peek()
        if found != expected:
            raise cut() if found == "" else BadAnswer(f"the search answer has {found!r} where {expected!r} belongs")
        self._at += 1

    def match(self, pattern: re.Pattern[str], reach: int) -> re.Match[str] | None:
        """Take the text that matches the pattern at the current position, within `reach` characters."""
        while len(self._window) - self._at < reach and self._grow():
            continue
        match = pattern.match(self._window, self._at, self._at + reach)
        if match is not None:
            self._at = match.end()
        return match

    def value(self, limit: int = VALUE_LIMIT) -> object:
        """Take one JSON value; raises BadAnswer if it is cut, malformed or longer than `limit` characters."""
        value = self._value(limit, may_be_malformed=False)
        if value is MALFORMED:
            raise BadAnswer("the search answer is not sound JSON")
        return value

    def rows(self) -> Iterator[object]:
        """Take the rows that are complete in the window, each with the comma after it: the fast path for many rows."""
        window, at, after = self._window, self._at, len(self._window) - 1
        while True:
            try:
                row, end = _scan(window, at)
            except (ValueError, RecursionError):
                return
            if end >= after or window[end] != ",":
                return
            self._at = at = end + 1
            yield row

    def row(self) -> object:
        """Take one row; return MALFORMED for a flat list that is complete but cannot be parsed."""
        return self._value(VALUE_LIMIT, may_be_malformed=True)

    def rest(self, limit: int) -> str:
        """Take the rest of the text; raises BadAnswer if it is longer than `limit` characters."""
        parts = [self._window[self._at :]]
        length = len(parts[0])
        self._window, self._at = "", 0
        while self._grow():
            parts.append(self._window)
            length += len(self._window)
            self._window = ""
            if length > limit:
                raise BadAnswer(f"an answer of this form may have {limit} characters, and this one has more")
        return "".join(parts)

    def _value(self, limit: int, *, may_be_malformed: bool) -> object:
        if self.peek() == "":
            raise cut()
        while True:
            try:
                value, end = _scan(self._window, self._at)
            except RecursionError as exc:
                raise BadAnswer("the search answer is nested too deeply") from exc
            except ValueError:
                # The window's end cuts the value, or the value is malformed. Only a row that ends within the window is
                # certain to be malformed.
                if may_be_malformed and (whole := _WHOLE_ROW.match(self._window, self._at)):
                    self._at = whole.end()
                    return MALFORMED
            else:
                # A number that ends at the window's end may continue.
                if end < len(self._window) or not isinstance(value, (int, float)) or self._ended:
                    self._at = end
                    return value
            if len(self._window) - self._at > limit:
                raise BadAnswer(f"the search answer has a value longer than {limit} characters, or is no JSON")
            if not self._grow(double=True):
                return self._unfinished()

    def _unfinished(self) -> object:
        """Raise BadAnswer if the answer's end cuts a value; return MALFORMED if the text is no value."""
        if self._window[self._at] in '[{"' or self._window[self._at :].isalnum():
            raise cut()
        return MALFORMED

    def _grow(self, *, double: bool = False) -> bool:
        """Read until there is more text, with `double` until the unread text has doubled; return False at the end."""
        wanted = 2 * (len(self._window) - self._at) if double else 1
        parts = [self._window[self._at :]]
        length = len(parts[0])
        before = length
        while not self._ended and (length == before or length < wanted):
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                text = self._decoder.decode(b"", final=True)
            else:
                text = self._decoder.decode(chunk)
            parts.append(text)
            length += len(text)
        self._forgotten += self._at
        self._window, self._at = "".join(parts), 0
        return length > before


def cut() -> BadAnswer:
    """Return the error for an answer that stops before its end."""
    return BadAnswer("the search answer was cut before its end", hint="it is asked again later")
