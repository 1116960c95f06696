"""`assetsync index`: searchIndex by hand (interface section 4.2). The calls are left to `service.index`."""

import sys

import click

from assetsync.cli.operator import open_service
from assetsync.cli.options import with_config, with_json
from assetsync.cli.output import note, write, write_json
from assetsync.cli.show_request import show_call, with_explain
from assetsync.config import SiteConfig
from assetsync.errors import UsageError
from assetsync.service.index import EVERYTHING, batches, index_call
from assetsync.text import printable

_COST = (
    "`index all` rebuilds the whole index of the service: on a large installation that takes hours, and searches find"
    " little until it is done. Some releases throw the index away at any call, even for one id."
)


@click.command("index")
@with_config
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before `index all` on a terminal.")
@with_json("Print one object: responsecode and message.")
@with_explain
@click.argument("assetids", nargs=-1, required=True, metavar="ID...|all")
def command(config: SiteConfig, assetids: tuple[str, ...], *, yes: bool, as_json: bool, explain: bool) -> None:
    """Ask the service to index these assets, or all assets; needs no ledger.

    Ids are separated by spaces or commas; many ids need several calls. A success only means that the service accepted
    the call (observed). `assetsync search` shows what can be found.

    \b
    Examples:
      assetsync index --config hq.yaml 5D1C61E5A4E24E4E8F2D62B2E1A1B0C9
      assetsync index --config hq.yaml $(jq -r .assetid files.json)
      assetsync index --config hq.yaml all --yes
    """
    ids = [assetid.strip() for given in assetids for assetid in given.split(",") if assetid.strip()]
    everything = any(assetid.lower() == EVERYTHING for assetid in ids)
    if everything and len(ids) > 1:
        raise UsageError("`all` cannot be combined with ids", hint="give ids, or all")
    calls = [[EVERYTHING]] if everything else list(batches(ids))
    if not calls:
        raise UsageError("no ids to index", hint="give at least one asset id")
    if explain:
        for batch in calls:
            show_call(config, index_call(batch), as_json=as_json)
        return
    if everything:
        note(_COST)
        # No question in a script: its author has decided already.
        if not yes and sys.stdin.isatty():
            click.confirm("Go on?", abort=True, err=True)
    with open_service(config) as service:
        messages = [service.index(batch) for batch in calls]
    if as_json:
        write_json({"responsecode": "0", "message": messages[-1]})
    else:
        write(printable(messages[-1]))
