"""`assetsync orphans`: list the assets in the service that have no file. The ledger decides which these are."""

import time
from contextlib import closing

import click

from assetsync.cli.files import named
from assetsync.cli.options import with_config, with_json
from assetsync.cli.output import write, write_json
from assetsync.config import SiteConfig
from assetsync.ledger.reports import view_ledger
from assetsync.text import relative_text

KEYS = ("assetid", "path", "destfolderid", "size", "md5", "why", "name")
_GONE_FOR = 7 * 24 * 3600.0


@click.command("orphans")
@with_config
@with_json("Print one object a line.")
def command(config: SiteConfig, *, as_json: bool) -> None:
    """List assets in the service that no file stands behind, for its administrator: assetsync cannot delete.

    WHY is replaced (a newer version was sent), deleted (the file is gone for a week), damaged (a cut upload, proven),
    suspected (perhaps one), doubled (a copy) or unknown (never sent by this ledger). Where no path is known (-), the
    asset's name in the service follows.

    \b
    Examples:
      assetsync orphans --config hq.yaml
      assetsync orphans --config hq.yaml --json | jq -r 'select(.why == "damaged") | .assetid'
    """
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        none = True
        for orphan in ledger.reports.orphans(time.time() - _GONE_FOR):
            none = False
            path = None if orphan.path is None else relative_text(orphan.path)[0]
            if as_json:
                values = (orphan.assetid, path, *orphan[2:])
                write_json(dict(zip(KEYS, values, strict=True)))
            else:
                write(f"{orphan.why:<9}  {orphan.assetid:<32}  {named(orphan.path, orphan.name)}")
        if none and not as_json:
            write("no orphans")
