"""The text of one JSON answer as a window that slides over its bytes: decoded, scanned value by value, never whole.

What the values mean is left to `recordset`.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import cast

from assetsync.errors import BadAnswer

VALUE_LIMIT = 1024 * 1024
"""Characters that one value (a row, a name) may have; beyond it the answer is given up."""

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
# An answer may name any codec that Python knows, some of which inflate or execute: only these are taken.
_CODECS = {
    "iso-8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "latin-1": "iso-8859-1",
    "us-ascii": "ascii",
    "iso-8859-15": "iso-8859-15",
    "windows-1252": "cp1252",
    "utf-8": "utf-8-sig",
    "utf8": "utf-8-sig",
}
_BLANK = re.compile(r"[ \t\r\n\f\v]*")
_WHOLE_ROW = re.compile(r'\[(?:[^"\[\]]|"(?:[^"\\]|\\.)*+")*+\]', re.DOTALL)
# Control characters stand raw in names and keywords (observed): strict=False takes them.
# NaN and the infinities are no JSON, and nothing behind here expects them.
_scan = json.JSONDecoder(strict=False, parse_constant=lambda _name: None).raw_decode


class _Malformed:
    """Stands for a value that is there to its end but cannot be read."""


MALFORMED = _Malformed()


def charset_of(content_type: str) -> str:
    """Name the codec of an answer: ISO-8859-1 is what was seen, UTF-8 is what JSON says by itself."""
    match = _CHARSET.search(content_type)
    return _CODECS.get(match[1].lower(), "utf-8-sig") if match else "utf-8-sig"


class SlidingText:
    """Decodes chunks of bytes as they are needed and forgets what has been read."""

    def __init__(self, chunks: Iterable[bytes], charset: str) -> None:
        self._chunks = iter(chunks)
        self._decoder = codecs.getincrementaldecoder(charset)(errors="replace")
        self._window = ""
        self._at = 0
        self._forgotten = 0
        self._ended = False

    @property
    def position(self) -> int:
        """Characters taken so far."""
        return self._forgotten + self._at

    def peek(self) -> str:
        """Give the next character that is not blank without taking it; empty at the end."""
        while True:
            self._at = cast("re.Match[str]", _BLANK.match(self._window, self._at)).end()
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._grow():
                return ""

    def take(self, expected: str) -> None:
        """Take the next character that is not blank; raises BadAnswer unless it is the expected one."""
        found = self.peek()
        if found != expected:
            raise cut() if found == "" else BadAnswer(f"the search answer has {found!r} where {expected!r} belongs")
        self._at += 1

    def match(self, pattern: re.Pattern[str], reach: int) -> re.Match[str] | None:
        """Take what the pattern matches from here, looking at most `reach` characters far."""
        while len(self._window) - self._at < reach and self._grow():
            continue
        match = pattern.match(self._window, self._at, self._at + reach)
        if match is not None:
            self._at = match.end()
        return match

    def value(self, limit: int = VALUE_LIMIT) -> object:
        """Take one JSON value; raises BadAnswer for one that is cut, malformed or too long."""
        value = self._value(limit, may_be_malformed=False)
        if value is MALFORMED:
            raise BadAnswer("the search answer is not sound JSON")
        return value

    def rows(self) -> Iterator[object]:
        """Take the rows that stand whole in the window, each with the comma after it: the fast way through many."""
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
        """Take one row; gives MALFORMED for a flat list that ends but cannot be read."""
        return self._value(VALUE_LIMIT, may_be_malformed=True)

    def rest(self, limit: int) -> str:
        """Take all that is left; raises BadAnswer when it is longer than `limit` characters."""
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
                # Cut by the window's end, or malformed: only a row that is seen to end is the latter.
                if may_be_malformed and (whole := _WHOLE_ROW.match(self._window, self._at)):
                    self._at = whole.end()
                    return MALFORMED
            else:
                # A number that ends where the window ends may go on.
                if end < len(self._window) or not isinstance(value, (int, float)) or self._ended:
                    self._at = end
                    return value
            if len(self._window) - self._at > limit:
                raise BadAnswer(f"the search answer has a value longer than {limit} characters, or is no JSON")
            if not self._grow(double=True):
                return self._unfinished()

    def _unfinished(self) -> object:
        """Tell a value that the answer's end cuts from one that never was one."""
        if self._window[self._at] in '[{"' or self._window[self._at :].isalnum():
            raise cut()
        return MALFORMED

    def _grow(self, *, double: bool = False) -> bool:
        """Read at least one more chunk, or as much again as there is; False when there is no more."""
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
    """Make the error for an answer that stops before its end."""
    return BadAnswer("the search answer was cut before its end", hint="it is asked again later")
