"""Write values and texts: JSON lines, plain-text tables, sentences on stderr, and files in one step.

Results go to stdout, everything else to stderr. Text from outside is escaped, so that it has no effect on a terminal.
Each command chooses the values that it prints.
"""

import json
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TextIO, TypeVar

import click

from assetsync.errors import OutputError, UsageError
from assetsync.journal import in_journal
from assetsync.text import ACTIVE, columns, printable, runnable

T = TypeVar("T")

LISTED = 50
"""The most entries that a list shows on a terminal, unless --limit is given."""

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r")
# Some spreadsheets end a cell at a semicolon; the text behind it may then start a formula.
_CELL_IN_CELL = re.compile(";(?=[ \"']*[=+@\uff1d\uff0b\uff0d\uff20-])")


def write_json(value: Mapping[str, object]) -> None:
    """Write one object as one line of JSON; escape terminal control characters.

    If stdout is not UTF-8, every character outside ASCII is escaped.
    """
    # Python would escape a character that the encoding lacks as \xe9 or \U0001f600, which is not JSON.
    ascii_only = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    try:
        line = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    except ValueError:
        # An answer may hold a number that is too large for JSON's readers (1e999).
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in value.items()}
        line = json.dumps(finite, ensure_ascii=ascii_only)
    # These characters occur only inside strings, where JSON reads the escape as the same character.
    write_data(ACTIVE.sub(lambda found: f"\\u{ord(found.group()):04x}", line))


def write(text: str = "") -> None:
    """Write a line of a result; the commands in it name the configuration."""
    write_data(runnable(text))


def write_data(text: str) -> None:
    """Write a line of data as it is: a name in it may look like a command."""
    with writing():
        click.echo(_without_secrets(text))


def write_parts(*parts: str, between: str = "  ") -> None:
    """Write a line of several parts as they are; on a terminal, a part that does not fit begins a line of its own.

    So a path or an id is never broken by the edge of the terminal where it would fit into a line.
    """
    if not sys.stdout.isatty():
        write_data(between.join(parts))
        return
    room = shutil.get_terminal_size().columns
    line, *rest = parts
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    for part in rest:
        if sum(map(columns, click.unstyle(line + between + part))) <= room:
            line += between + part
        else:
            write_data((line + between).rstrip())
            line = indent + part
    write_data(line)


def coloured(text: str, colour: str) -> str:
    """Return a text in this colour, unless $NO_COLOR (no-color.org) or $TERM is against it.

    `write` leaves the colour out if stdout is no terminal.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, fg=colour)


def first_of(found: Iterable[T], limit: int, *, as_json: bool = False, empty: str | None = None) -> Iterator[T]:
    """Yield the first `limit` of a list, or all for 0; then write whether there are more, without reading them.

    For an empty list write `empty`. As JSON, yield all and write nothing.
    """
    rest = iter(found)
    count = 0
    for count, item in enumerate(islice(rest, None if as_json else limit or None), 1):  # noqa: B007 - used after it
        yield item
    if as_json:
        return
    if next(rest, None) is not None:
        write("and more: --limit 0 lists all")
    elif not count and empty is not None:
        write(empty)


class ReaderGone(Exception):
    """The reader of stdout has closed it, which is not an error."""


@contextmanager
def writing() -> Iterator[None]:
    """Translate errors of writing to stdout: raise ReaderGone for a closed pipe, else OutputError (disk full)."""
    try:
        yield
    except BrokenPipeError as error:
        # Not BrokenPipeError itself: click would catch it and exit with a code of its own.
        raise ReaderGone from error
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: Exception) -> OutputError:
    """Return the error that reports why stdout cannot be written."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    return OutputError(f"the output cannot be written ({reason})", hint="is its disk full?")


@contextmanager
def telling() -> Iterator[None]:
    """Ignore errors of writing to stderr (disk full, reader gone): no command ends and no exit code changes."""
    try:
        yield
    except OSError:
        give_up(sys.stderr)


def give_up(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: the interpreter flushes it once more at exit, and a failure changes the code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def making_temporary(hint: str = "set $TMPDIR to a folder that can be written") -> Iterator[None]:
    """Translate errors of making a temporary folder, as on a full or read-only disk: raise UsageError."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"no temporary folder can be made ({error.strerror})", hint=hint) from error


def note(text: str) -> None:
    """Write a line that is not a result to stderr."""
    _tell("", text)


def complain(sentence: str) -> None:
    """Write an error to stderr, each of its lines as one."""
    for line in sentence.split("\n"):
        _tell(f"{_priority(3)}Error: ", line)


def warn(sentence: str) -> None:
    """Write a warning to stderr."""
    _tell(f"{_priority(4)}Warning: ", sentence)


def _tell(before: str, text: str) -> None:
    line, log = before + printable(_without_secrets(runnable(text))), sys.modules.get("assetsync.log")
    # A process that failed ends in any case, although nobody reads its log.
    if log is None or not log.write_beside_log(line):
        with telling():
            click.echo(line, err=True)


def _priority(number: int) -> str:
    """Return the priority that systemd's journal reads in front of a line, nothing on any other stderr."""
    return f"<{number}>" if in_journal(sys.stderr) else ""


def _without_secrets(text: str) -> str:
    """Return the text with the known secrets redacted: an answer of the service may quote the key."""
    log = sys.modules.get("assetsync.log")
    # No secret is registered before `assetsync.log`, which keeps them, is loaded.
    return log.redact(text) if log is not None else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """Return the lines of a table, each column as wide as its widest cell; for a bounded number of rows."""
    all_rows = [head, *rows]
    widths = [max(len(row[column]) for row in all_rows) for column in range(len(head))]
    for row in all_rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def csv_cell(value: object) -> str:
    """Return a value for a CSV file, without control characters and without what a spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    text = str(value)
    if text.isalnum():
        # A short cut for ids, digests and states: half of all cells.
        return text
    text = _CELL_IN_CELL.sub(r"\\x3b", text)
    # Test the first character before it is escaped: escaping turns a tab into a backslash.
    return f"'{printable(text)}" if text.lstrip(" ").startswith(_FORMULA) else printable(text)


def write_file(path: Path, text: str, mode: int, *, force: bool) -> None:
    """Write the file in one step; raise FileExistsError if the path is taken, unless `force` replaces it.

    A file that replaces another one keeps its owner, as far as this user may give files away.
    """
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            if force and path.exists():
                before = path.stat()
                with suppress(PermissionError):
                    os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, mode)
            file.write(text)
            file.flush()
            os.fsync(fd)
        if force:
            temporary.replace(path)
        else:
            # A link fails where a rename would replace a file that appeared meanwhile.
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
