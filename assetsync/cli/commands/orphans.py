"""`assetsync orphans`: list the assets in the service that have no file. The ledger decides which these are."""

import time
from contextlib import closing

import click

from assetsync.cli.commands.files import named
from assetsync.cli.options import with_json, with_limit, with_outline
from assetsync.cli.output import first_of, write_json, write_parts
from assetsync.config.outline import Outline
from assetsync.ledger.reports import view_ledger
from assetsync.text import moment, span

_GONE_FOR = 7 * 24 * 3600.0


@click.command("orphans")
@with_outline
@click.option("--all", "recent", is_flag=True, help="Also list assets of files that were deleted within the last week.")
@with_limit
@with_json("Print one object a line.")
def command(config: Outline, *, recent: bool, limit: int, as_json: bool) -> None:
    """List assets in the service that belong to no file, for a person to delete: the interface cannot delete.

    The reason is replaced (a newer version was sent), deleted (the file is gone for a week), damaged (proven to be a
    cut upload), suspected (perhaps a cut upload), doubled (a copy) or unknown (never sent by this ledger). If no path
    is known (-), the asset's name in the service follows.

    \b
    Examples:
      assetsync orphans --config hq.yaml
      assetsync orphans --config hq.yaml --all     # what was deleted just now, too
      assetsync orphans --config hq.yaml --json | jq -r 'select(.reason == "damaged") | .assetid'
    """
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        now = time.time()
        orphans = ledger.reports.orphans(now if recent else now - _GONE_FOR)
        for orphan in first_of(orphans, limit, as_json=as_json, empty="no orphans"):
            if as_json:
                more = {"why": orphan.why, "name": orphan.name, "since": moment(orphan.since)}
                write_json(orphan.as_object() | more)
            else:
                age = f", {span(now - orphan.since)} ago" if recent and orphan.since is not None else ""
                write_parts(f"{orphan.why:<9}  {orphan.assetid:<32}", f"{named(orphan.path, orphan.name)}{age}")
