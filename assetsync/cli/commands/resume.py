"""`assetsync resume`: release brakes after a person has looked. `sync.requests.decisions` carries it out."""

import click

from assetsync.cli.operator import act
from assetsync.cli.options import with_config, with_json
from assetsync.config import SiteConfig
from assetsync.sync.requests.decisions import Resume

_MOST_DIGITS = 18  # a longer number may not fit into 64 bits


def _number(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value)):
        raise click.BadParameter(f"{value[:40]!r} is no number of a brake: give one as `assetsync status` shows it")
    return int(value)


@click.command("resume")
@with_config
@with_json("Print one object: done, request, message.")
@click.argument("brake", metavar="[ID]", callback=_number, required=False)
def command(config: SiteConfig, brake: int | None, *, as_json: bool) -> None:
    """Release the brake with this number, or all brakes, because the change that pulled them is intended.

    `assetsync status` lists the brakes. Beside a daemon, the daemon carries this out.

    \b
    Examples:
      assetsync resume --config hq.yaml 3
      assetsync resume --config hq.yaml
    """
    act(config, Resume(brake), as_json=as_json)
