"""Decode and scan one JSON answer value by value, in a sliding window that never holds the whole text.

`records` interprets the values.
"""

import codecs
import json
import re
from collections.abc import Iterable
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
_BLANKS = " \t\r\n\f\v"
_BLANK = re.compile(f"[{_BLANKS}]*")
_WHOLE_ROW = re.compile(r'(?=[,\]])|\[(?:[^"\[\]]|"(?:[^"\\]|\\.)*+")*+\]', re.DOTALL)
# strict=False accepts raw control characters, which occur in names and keywords (observed).
# NaN and the infinities are not JSON, and no consumer expects them: they become None.
_scan = json.JSONDecoder(strict=False, parse_constant=lambda _name: None).raw_decode


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
        self._ended = False

    def peek(self) -> str:
        """Skip blanks and return the next character without taking it; "" at the end."""
        while True:
            found = self._window[self._at : self._at + 1]
            # Most rows begin without a blank: no match is needed for them.
            if found.strip(_BLANKS):
                return found
            self._at = cast("re.Match[str]", _BLANK.match(self._window, self._at)).end()
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._grow():
                return ""

    def takes(self, expected: str) -> bool:
        """Take the next character that is not blank if it is the expected character; return whether it is."""
        if self.peek() != expected:
            return False
        self._at += 1
        return True

    def take(self, expected: str) -> None:
        """Take the next character that is not blank; raises BadAnswer if it is not the expected character."""
        if not self.takes(expected):
            found = self.peek()
            raise cut() if found == "" else BadAnswer(f"the search answer has {found!r} where {expected!r} belongs")

    def match(self, pattern: re.Pattern[str], reach: int) -> re.Match[str] | None:
        """Take the text that matches the pattern at the current position, within `reach` characters."""
        while len(self._window) - self._at < reach and self._grow():
            continue
        match = pattern.match(self._window, self._at, self._at + reach)
        if match is not None:
            self._at = match.end()
        return match

    def value(self, limit: int = VALUE_LIMIT, *, is_row: bool = False) -> object:
        """Take one JSON value; raises BadAnswer if it is cut, malformed or longer than `limit` characters.

        With `is_row`, return None for a missing value, and for a flat list that is complete but cannot be parsed.
        """
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
                if is_row and (whole := _WHOLE_ROW.match(self._window, self._at)):
                    self._at = whole.end()
                    return None
            else:
                # A number that ends at the window's end may continue.
                if end < len(self._window) or not isinstance(value, (int, float)) or self._ended:
                    self._at = end
                    return value
            if len(self._window) - self._at > limit:
                raise BadAnswer(f"the search answer has a value longer than {limit} characters, or is no JSON")
            if not self._grow(double=True):
                raise self._unfinished()

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

    def _unfinished(self) -> BadAnswer:
        """Return the error for the rest of the answer, which is a cut value or none."""
        if self._window[self._at] in '[{"' or self._window[self._at :].isalnum():
            return cut()
        return BadAnswer("the search answer is not sound JSON")

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
        self._window, self._at = "".join(parts), 0
        return length > before


def cut() -> BadAnswer:
    """Return the error for an answer that stops before its end."""
    return BadAnswer("the search answer was cut before its end", hint="it is asked again later")
