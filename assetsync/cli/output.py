"""How values and texts are written: JSON lines, times, tables of plain text, sentences on stderr.

Results go to stdout, everything else to stderr. Whatever comes from outside is written so that it does nothing to a
terminal; which values a command prints is its own.
"""

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from assetsync.errors import OutputError
from assetsync.text import ACTIVE, amount, files, moment, printable

__all__ = [
    "ReaderGone",
    "amount",
    "complain",
    "csv_cell",
    "files",
    "moment",
    "note",
    "table",
    "telling",
    "unwritten",
    "warn",
    "write",
    "write_json",
    "writing",
]

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r")
# Where a spreadsheet takes the semicolon for the end of a cell, the next one may begin a formula.
_CELL_IN_CELL = re.compile(";(?=[ \"']*[=+@\uff1d\uff0b\uff0d\uff20-])")


def write_json(value: Mapping[str, object]) -> None:
    """Write one object as one line of JSON, what is active in a terminal escaped; outside UTF-8 all but ASCII."""
    # What an encoding does not hold would be escaped as Python does it (\xe9, \U0001f600), which is no JSON.
    ascii_only = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    try:
        line = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    except ValueError:
        # A number of an answer that is too large for JSON's readers (1e999).
        line = json.dumps({name: _finite(item) for name, item in value.items()}, ensure_ascii=ascii_only)
    # Only inside strings can these stand, where JSON reads the escape as the same character.
    _echo(ACTIVE.sub(lambda found: f"\\u{ord(found.group()):04x}", line))


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(text: str = "") -> None:
    """Write a line of a result."""
    _echo(text)


class ReaderGone(Exception):
    """Whoever reads what is written has seen enough: no error of anybody's."""


def _echo(line: str) -> None:
    with writing():
        click.echo(_without_secrets(line))


@contextmanager
def writing() -> Iterator[None]:
    """Tell what ends the writing to stdout: raises ReaderGone, and OutputError for a disk that is full."""
    try:
        yield
    except BrokenPipeError as error:
        # By its own name, because click ends by itself, with another code, where it meets the other.
        raise ReaderGone from error
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: Exception) -> OutputError:
    """Say that stdout cannot be written, and why."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    return OutputError(f"the output cannot be written ({reason})", hint="is its disk full?")


@contextmanager
def telling() -> Iterator[None]:
    """Let what cannot be said on stderr, its disk full or its reader gone, end no command and change no exit code."""
    try:
        yield
    except OSError:
        # Else the interpreter tries once more at its end, and exits with a code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def note(text: str) -> None:
    """Write a line that is no result to stderr."""
    with telling():
        click.echo(printable(_without_secrets(text)), err=True)


def complain(sentence: str) -> None:
    """Write an error to stderr, without the secrets that are known."""
    with telling():
        for line in _without_secrets(sentence).split("\n"):
            click.echo(f"Error: {printable(line)}", err=True)


def warn(sentence: str) -> None:
    """Write a warning to stderr."""
    with telling():
        click.echo(f"Warning: {printable(_without_secrets(sentence))}", err=True)


def _without_secrets(text: str) -> str:
    """Take out the secrets that are known: an answer of the service may quote the key."""
    log = sys.modules.get("assetsync.log")
    # Nothing is registered before the module that keeps the secrets is loaded.
    return log.redact(text) if log is not None else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """Lay rows out in columns as wide as their widest cell, the last one free; for a bounded number of rows."""
    all_rows = [head, *rows]
    widths = [max(len(row[column]) for row in all_rows) for column in range(len(head))]
    for row in all_rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def csv_cell(value: object) -> str:
    """Give a value for a CSV file: no control characters, and nothing that a spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    text = str(value)
    if text.isalnum():
        # Ids, digests and states: half of what is written.
        return text
    text = _CELL_IN_CELL.sub(r"\\x3b", text)
    # By its first character as it comes: escaping turns a tab into a backslash.
    return f"'{printable(text)}" if text.lstrip(" ").startswith(_FORMULA) else printable(text)
