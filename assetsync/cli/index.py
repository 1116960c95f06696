"""`assetsync index`: searchIndex by hand (interface section 4.2)."""

import sys

import click

from assetsync.cli.acting import open_service
from assetsync.cli.given import with_config, with_json
from assetsync.cli.output import note, write, write_json
from assetsync.config import SiteConfig
from assetsync.errors import UsageError
from assetsync.service.query import checked_id
from assetsync.shown import printable

_COST = (
    "`index all` rebuilds the whole index of the service: on a large installation that takes hours, and searches find"
    " little until it is done. Some releases throw the index away at any call, even for one id."
)


@click.command("index")
@with_config
@click.option("--yes", is_flag=True, help="Do not ask before `index all`.")
@with_json("Print one object: responsecode and message.")
@click.argument("assetids", nargs=-1, required=True, metavar="ID...|all")
def command(config: SiteConfig, assetids: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Ask the service to index these assets, or with the word `all` everything; needs no ledger.

    A success says only that the call was taken (observed): `assetsync search` shows what can be found.

    \b
    Examples:
      assetsync index --config hq.yaml 5D1C61E5A4E24E4E8F2D62B2E1A1B0C9
      assetsync index --config hq.yaml all --yes
    """
    everything = any(assetid.lower() == "all" for assetid in assetids)
    if everything and len(assetids) > 1:
        raise UsageError("`all` stands alone", hint="give ids, or all")
    for assetid in assetids:
        checked_id(assetid)
    if everything and not yes:
        note(_COST)
        if not sys.stdin.isatty():
            raise UsageError(
                "`index all` asks first, and there is no terminal to ask on", hint="say --yes if it is meant"
            )
        click.confirm("Go on?", abort=True, err=True)
    with open_service(config) as service:
        message = service.index(["all"] if everything else assetids)
    if as_json:
        write_json({"responsecode": "0", "message": message})
    else:
        write(printable(message))
