"""`assetsync files`: list the files of the ledger, one line a path. `fileview` holds the fields of a line."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import click

from assetsync.cli.fileview import as_object, error_of
from assetsync.cli.options import known_folders, topmost, with_config, with_json
from assetsync.cli.output import note as tell
from assetsync.cli.output import write, write_json
from assetsync.config import SiteConfig
from assetsync.errors import UnknownPath
from assetsync.ledger.rows import FileRow
from assetsync.ledger.view import LedgerView, view_ledger
from assetsync.model import State
from assetsync.text import printable

_REST = (State.SUPERSEDED, State.GONE)


@click.command("files")
@with_config
@click.option(
    "--state",
    type=click.Choice([str(state) for state in State]),
    metavar="STATE",
    help=f"Only files in this state: {', '.join(State)}.",
)
@click.option("--reason", metavar="WORD", help="Only files with this reason, such as sidecar or empty_file.")
@click.option("--all", "history", is_flag=True, help="Earlier versions and vanished files too.")
@with_json("Print one object a line.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(
    config: SiteConfig, paths: tuple[str, ...], *, state: str | None, reason: str | None, history: bool, as_json: bool
) -> None:
    """List the files that the ledger knows, one line a path in the order of their bytes.

    PATH leaves those of this file, or below this folder; it is relative to the root, or absolute, an odd name as it
    is shown here. One that the ledger knows nothing of is exit 2.

    With --json each line holds path, state, assetid, destfolderid, size, md5, error, attempts, uploaded_at and
    verified_at; path_base64 too where a path is no UTF-8.

    \b
    Examples:
      assetsync files --config hq.yaml
      assetsync files --config hq.yaml --state blocked --reason sidecar
      assetsync files --config hq.yaml photos/2026 docs/letter.pdf
      assetsync files --config hq.yaml --json --all | jq -r 'select(.assetid) | .assetid'
    """
    wanted = None if state is None else State(state)
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        holds = ledger.reports.holds(time.time())
        none = True
        for row in chosen(ledger, config, paths, wanted, history=history or wanted in _REST):
            if reason is not None and row.reason != reason:
                continue
            none = False
            if as_json:
                write_json(as_object(row, holds))
                continue
            error = error_of(row, holds)
            note = f"  ({printable(error)})" if error else ""
            write(f"{row.state:<10}  {row.assetid or '-':<32}  {printable(row.path)}{note}")
        if none:
            tell(_none_told(is_chosen=bool(paths or state or reason), history=history))


def _none_told(*, is_chosen: bool, history: bool) -> str:
    if not is_chosen:
        return "the ledger knows no file yet"
    return "no file is so, nor was" if history else "no file is so: --all lists what was"


def chosen(
    ledger: LedgerView, config: SiteConfig, paths: Sequence[str], state: State | None, *, history: bool
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
