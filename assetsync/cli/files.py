"""`assetsync files`: one line a path."""

import time
from contextlib import closing

import click

from assetsync.cli.fileview import as_object, error_of
from assetsync.cli.given import with_config, with_json
from assetsync.cli.output import write, write_json
from assetsync.config import SiteConfig
from assetsync.ledger.ledger import read_ledger
from assetsync.model import State
from assetsync.shown import printable

_REST = (State.SUPERSEDED, State.GONE)


@click.command("files")
@with_config
@click.option(
    "--state",
    type=click.Choice([str(state) for state in State]),
    metavar="STATE",
    help=f"Only files in this state: {', '.join(State)}.",
)
@click.option("--all", "history", is_flag=True, help="Earlier versions and vanished files too.")
@with_json("Print one object a line.")
def command(config: SiteConfig, *, state: str | None, history: bool, as_json: bool) -> None:
    """List the files that the ledger knows, one line a path in the order of their bytes.

    With --json each line holds path, state, assetid, destfolderid, size, md5, error, attempts, uploaded_at and
    verified_at; path_base64 too where a path is no UTF-8.

    \b
    Examples:
      assetsync files --config hq.yaml
      assetsync files --config hq.yaml --state blocked
      assetsync files --config hq.yaml --json --all | jq -r 'select(.assetid) | .assetid'
    """
    wanted = None if state is None else State(state)
    with closing(read_ledger(config.ledger)) as ledger:
        holds = ledger.reports.holds(time.time())
        for row in ledger.reports.files(wanted, history=history or wanted in _REST):
            if as_json:
                write_json(as_object(row, holds))
                continue
            error = error_of(row, holds)
            note = f"  ({printable(error)})" if error else ""
            write(f"{row.state:<10}  {row.assetid or '-':<32}  {printable(row.path)}{note}")
