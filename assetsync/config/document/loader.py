"""Read YAML so that every scalar stays the text that was written, and every mistake has its line.

YAML's own types are a trap: `NO` would become false, `012` ten, `12:30` seven hundred and fifty. Here a document is
texts, lists and mappings, nothing else. Constructs that make a text stand for another (aliases, merge keys, tags, a key
given twice) are problems. Problems never quote the document and never repeat the library's messages, which quote it.

The meaning of the keys, and reading the file, are left to the caller.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import yaml

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"
Path: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 16
_NONE_WORDS = frozenset({"", "~", "null", "Null", "NULL"})
# The C parser is fifteen times as fast; if PyYAML was built without it, the Python parser yields the same events.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# Characters that YAML does not accept; a byte order mark is allowed at the very beginning only. The set lists the
# forbidden characters because a set of the allowed ones, up to U+10FFFF, takes 5 ms to compile.
_NOT_YAML = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x84\\x86-\\x9f\\ud800-\\udfff\\ufeff\\ufffe\\uffff]")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class Problem(NamedTuple):
    """A mistake in a document: problem, fix (`hint`) and place; line and column count from 1, 0 = unknown."""

    path: Path
    problem: str
    hint: str
    line: int = 0
    column: int = 0


class Mark(NamedTuple):
    """A place in a document; both count from 1."""

    line: int
    column: int


class Document(NamedTuple):
    """The value of a document, the place of each key and list item, and the YAML constructs that are refused here."""

    value: Plain
    marks: dict[Path, Mark]
    problems: tuple[Problem, ...]

    def mark(self, path: Path) -> Mark:
        """Return the place of `path`, or of the nearest enclosing entry if there is nothing at `path` itself."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, Mark(1, 1))


class NotPlain(Exception):
    """The bytes cannot be read as a document at all; `problem` has the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.problem)
        self.problem = problem


def load(data: bytes, *, none_words: bool) -> Document:
    """Read a YAML document.

    With `none_words`, an unquoted empty value, `null` or `~` is None; without, it is the text that was written. An
    empty document has the value None. Raise NotPlain if the bytes are not UTF-8 or not YAML; all other mistakes are
    listed in the document.
    """
    text = _decode(data)
    try:
        return _Builder(none_words=none_words).build(text)
    except yaml.YAMLError as exc:
        # Not chained: the library's message shows the line, and a traceback would show the message.
        marks = (exc.problem_mark, exc.context_mark) if isinstance(exc, yaml.MarkedYAMLError) else ()
        raise NotPlain(_syntax(text, *((mark.line, mark.column) for mark in marks if mark))) from None


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - data.rfind(b"\n", 0, exc.start)
        raise NotPlain(Problem((), "it is not UTF-8", "save the file as UTF-8", line, column)) from exc
    bad = _NOT_YAML.search(text)
    if bad:
        before = list(_LINE_END.finditer(text, 0, bad.start()))
        column = bad.start() - (before[-1].end() if before else 0) + 1
        problem = f"the character U+{ord(bad.group()):04X} is not allowed in a YAML file"
        hint = 'remove it, or write it with an escape such as "\\u0007" inside double quotes'
        raise NotPlain(Problem((), problem, hint, len(before) + 1, column))
    return text


def _syntax(text: str, *places: tuple[int, int]) -> Problem:
    """Word a syntax error by its usual cause.

    The cause shows in the character where the error was found, the first of `places` (line and column), or in the
    character at the second, where the enclosing construct began.
    """
    lines = _LINE_END.split(text)
    characters = [lines[line][column : column + 1] if line < len(lines) else "" for line, column in places]
    (line, column), here = (places[0], characters[0]) if places else ((0, 0), "")
    if len(places) > 1 and places[1][0] < line and characters[1] in set("[{\"'"):
        # The mistake is in the earlier line, where the construct began.
        line, column = places[1]
        hint = f"the {characters[1]} here is not closed, or there is a mistake before its end"
        return Problem((), "this is not YAML", hint, line + 1, column + 1)
    if here == "\t":
        hint = "indent with spaces; a tab is not allowed here"
    elif here == ":":
        hint = "put quotes around a text that holds a colon and a space"
    elif here in {"@", "`", "%", "*", "&", "!", "|", ">", "{", "[", "}", "]", ","} and here:
        hint = f"a text with {here} here needs quotes around it, and every bracket and quote its partner"
    else:
        hint = "look for a missing colon, quote or bracket, or an indentation that does not line up, here or just above"
    return Problem((), "this is not YAML", hint, line + 1, column + 1)


class _TooDeep(Exception):
    """The document is nested deeper than any valid document."""


class _Builder:
    """A builder of a Document from the parser's events."""

    def __init__(self, *, none_words: bool) -> None:
        self._none_words = none_words
        self._marks: dict[Path, Mark] = {}
        self._problems: list[Problem] = []

    def build(self, text: str) -> Document:
        """Read all of `text`."""
        events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_LOADER))
        value: Plain = None
        documents = 0
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._wrong(event, (), "a second document begins here", "keep one document in one file")
                        break
                elif isinstance(event, yaml.NodeEvent):
                    self._marks[()] = _mark(event)
                    value = self._node(event, events, ())
        except _TooDeep:
            value = None
        return Document(value, self._marks, tuple(self._problems))

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], path: Path) -> Plain:
        if len(path) > MAX_DEPTH:
            self._wrong(event, path[:MAX_DEPTH], f"it is nested more than {MAX_DEPTH} deep", "reduce the nesting")
            raise _TooDeep
        if isinstance(event, yaml.AliasEvent):
            self._wrong(
                event, path, "aliases (*name) are not supported", "write the value out, or put quotes around it"
            )
            return None
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent), "the parser yields nothing else here"
        if event.anchor is not None:
            self._wrong(event, path, "anchors (&name) are not supported", "remove it, or put quotes around the value")
        if event.tag is not None:
            self._wrong(event, path, "tags (!name) are not supported", "remove it, or put quotes around the value")
        if isinstance(event, yaml.ScalarEvent):
            return None if self._none_words and not event.style and event.value in _NONE_WORDS else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Plain] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                here = (*path, len(items))
                self._marks[here] = _mark(event)
                items.append(self._node(event, events, here))
            return items
        return self._mapping(events, path)

    def _mapping(self, events: Iterator[yaml.Event], path: Path) -> Plain:
        values: dict[str, Plain] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent):
                key = event.value
                if event.anchor is not None or event.tag is not None:
                    self._wrong(event, (*path, key), "anchors and tags on a key are not supported", "remove it")
                if key == "<<" and not event.style:
                    self._wrong(event, (*path, key), "merge keys (<<) are not supported", "write the values out")
            else:
                self._wrong(event, path, "a key must be a plain word", "write `name: value`")
                self._node(event, events, (*path, ""))
                key = ""
            here = (*path, key)
            twice = self._marks.get(here) if key in values else None
            if twice:
                self._wrong(event, here, f"this key is repeated, first in line {twice.line}", "remove one of the two")
            else:
                self._marks[here] = _mark(event)
            value = self._node(next(events), events, here)
            if not twice:
                values[key] = value
        return values

    def _wrong(self, event: yaml.Event, path: Path, problem: str, hint: str) -> None:
        self._problems.append(Problem(path, problem, hint, *_mark(event)))


def _mark(event: yaml.Event) -> Mark:
    assert event.start_mark is not None, "the parser marks every event"
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)
