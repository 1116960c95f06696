"""`assetsync resume`: release a brake after a person has looked."""

import click

from assetsync.cli.acting import act
from assetsync.cli.given import with_config
from assetsync.cli.output import write
from assetsync.config import SiteConfig


@click.command("resume")
@with_config
@click.argument("brake", metavar="[ID]", type=click.IntRange(1, 2**62), required=False)
def command(config: SiteConfig, brake: int | None) -> None:
    """Release the brake with this number, or all: what they saw is meant.

    `assetsync status` lists them. Beside a daemon the request is left for it.

    \b
    Examples:
      assetsync resume --config hq.yaml 3
      assetsync resume --config hq.yaml
    """
    write(act(config, "resume", {"id": brake}))
