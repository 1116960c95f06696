"""`assetsync resume`: release a brake after a person has looked."""

import click

from assetsync.cli.acting import act
from assetsync.cli.given import with_config, with_json
from assetsync.config import SiteConfig


@click.command("resume")
@with_config
@with_json("Print one object: done, request, message.")
@click.argument("brake", metavar="[ID]", type=click.IntRange(1, 2**62), required=False)
def command(config: SiteConfig, brake: int | None, *, as_json: bool) -> None:
    """Release the brake with this number, or all: what they saw is meant.

    `assetsync status` lists them. Beside a daemon the daemon does it.

    \b
    Examples:
      assetsync resume --config hq.yaml 3
      assetsync resume --config hq.yaml
    """
    act(config, "resume", {"id": brake}).show(as_json=as_json)
