"""`assetsync files`: list the files of the ledger, one line a path, and the fields that other commands show too."""

import fnmatch
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import click

from assetsync.cli.options import known_folders, topmost, with_json, with_limit, with_outline
from assetsync.cli.output import first_of, note, write_data, write_json, write_parts
from assetsync.config.outline import Outline
from assetsync.errors import UnknownPath
from assetsync.ledger.folders import Hold
from assetsync.ledger.metadata_drift import drift_of
from assetsync.ledger.reports import Finding, LedgerView, view_ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import State
from assetsync.status.file_sentences import error_of
from assetsync.status.sentences import about, step_of_each
from assetsync.text import folded, moment, printable, runnable

FILE_KEYS = (
    "path",
    "state",
    "assetid",
    "destfolderid",
    "size",
    "md5",
    "error",
    "attempts",
    "uploaded_at",
    "verified_at",
)


def named(path: bytes | None, name: str | None) -> str:
    """Return the path of an asset; for an asset without a known path, a dash and its name in the service."""
    if path is not None:
        return printable(path)
    return f"-  {printable(name)}" if name else "-"


def as_object(row: FileRow, holds: dict[str, Hold]) -> dict[str, object]:
    """Return a version with the keys of `files --json`."""
    error = error_of(row, holds)
    hold = holds.get(row.destfolderid) if row.state is State.QUEUED else None
    return Finding.of(row, hold.reason if hold else row.reason, error or row.detail).as_object() | {
        "error": error,
        "attempts": row.attempts,
        "uploaded_at": moment(row.uploaded_at),
        "verified_at": moment(row.verified_at),
    }


def more_of(row: FileRow) -> dict[str, object]:
    """Return the keys of a version that `export` and `explain` add to those of `files --json`."""
    return {
        "wanted": row.wanted,
        "mtime": moment(row.mtime_ns / 1e9),
        "filetype": row.filetype,
        "queued_at": moment(row.queued_at),
        "metadata_drift": drift_of(row),
    }


_REST = (State.SUPERSEDED, State.GONE)


@click.command("files")
@with_outline
@click.option(
    "--state",
    type=click.Choice([str(state) for state in State]),
    metavar="STATE",
    help=f"Only files in this state: {', '.join(State)}.",
)
@click.option("--reason", metavar="WORD", help="Only files with this reason, such as sidecar or empty_file.")
@click.option(
    "--name",
    metavar="GLOB",
    help="Only files whose name, or with a slash whose path, matches, such as 'IMG_00*.jpg'; case does not matter.",
)
@click.option("--all", "history", is_flag=True, help="Also list earlier versions and vanished files.")
@with_limit
@with_json("Print one object a line.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(  # noqa: PLR0913 - one for each option
    config: Outline,
    paths: tuple[str, ...],
    *,
    state: str | None,
    reason: str | None,
    name: str | None,
    history: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the files of the ledger with their states and asset ids, sorted by the bytes of their paths.

    With PATH, list only this file, or the files below this folder. PATH is relative to the root, or absolute. A name
    with escaped characters may be written as it is shown here. The command exits with 2 if the ledger does not know
    PATH.

    With --state blocked the files are listed by reason, below their number and what helps; --limit counts for each
    reason.

    With --json each line has path, state, assetid, destfolderid, size, md5, reason, detail, error, attempts,
    uploaded_at and verified_at, and path_base64 if the path is not UTF-8.

    \b
    Examples:
      assetsync files --config hq.yaml
      assetsync files --config hq.yaml --state blocked --reason sidecar
      assetsync files --config hq.yaml photos/2026 docs/letter.pdf
      assetsync files --config hq.yaml --name 'IMG_00*'
      assetsync files --config hq.yaml --json --all | jq -r 'select(.assetid) | .assetid'
    """
    wanted = None if state is None else State(state)
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        holds = ledger.reports.holds(time.time())

        def found() -> Iterator[FileRow]:
            rows = chosen(ledger, config, paths, wanted, history=history or wanted in _REST)
            rows = (row for row in rows if reason is None or row.reason == reason)
            return rows if name is None else filter(_named_like(name), rows)

        if next(found(), None) is None:
            note(_none(chosen=bool(paths or state or reason or name), history=history))
        elif as_json:
            for row in found():
                write_json(as_object(row, holds))
        elif wanted is State.BLOCKED:
            for word, count in Counter(row.reason for row in found()).most_common():
                words = (word or "blocked").replace("_", " ")
                write_data(f"{count:,} {words}: {runnable(step_of_each(word))}")
                for row in first_of((row for row in found() if row.reason == word), limit):
                    _write(row, holds)
        else:
            for row in first_of(found(), limit):
                _write(row, holds)


def _none(*, chosen: bool, history: bool) -> str:
    if not chosen:
        return "the ledger knows no file yet"
    return "no file or earlier version matches" if history else "no file matches: --all also searches earlier versions"


def _write(row: FileRow, holds: dict[str, Hold]) -> None:
    error = error_of(row, holds)
    shown = [f"({runnable(about(row, error))})"] if error else []
    write_parts(f"{row.state:<10}  {row.assetid or '-':<32}", printable(row.path), *shown)


def _named_like(glob: str) -> Callable[[FileRow], bool]:
    """Return whether a file's name, or its path if there is a slash in it, matches a shell pattern."""
    pattern = re.compile(fnmatch.translate(folded(glob)))
    has_folder = "/" in glob
    return lambda row: bool(pattern.match(folded(row.path if has_folder else row.path.rpartition(b"/")[2])))


def chosen(
    ledger: LedgerView, config: Outline, paths: Sequence[str], state: State | None, *, history: bool
) -> Iterator[FileRow]:
    """Yield the rows of these paths and of all below them, each once; without paths, all rows.

    Before the first row, raise UsageError for a path outside the site, and UnknownPath for one that the ledger does not
    know.
    """
    given = known_folders(config, paths)
    for path in filter(None, given):
        if next(ledger.reports.files(history=True, under=path), None) is None:
            raise UnknownPath(printable(path))
    for top in topmost(given) or [b""]:
        yield from ledger.reports.files(state, history=history, under=top or None)
