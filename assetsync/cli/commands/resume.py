"""`assetsync resume`: release brakes after a person has looked, or end pauses. `sync.requests` carries it out."""

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, with_config, with_json
from assetsync.config import SiteConfig
from assetsync.sync.requests.decisions import Resume
from assetsync.sync.requests.pause import EndPause

_MOST_DIGITS = 18  # a longer number may not fit into 64 bits


def _number(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value)):
        raise click.UsageError(f"{value[:40]!r} is no number of a brake: give one as `assetsync status` shows it")
    return int(value)


@click.command("resume")
@with_config
@with_json("Print one object: done, request, message.")
@click.option("--pause", "ends_pause", is_flag=True, help="End the pause of a path (`.`: the site), or all pauses.")
@click.argument("which", metavar="[ID|PATH]", required=False)
def command(config: SiteConfig, which: str | None, *, ends_pause: bool, as_json: bool) -> None:
    """Release the brake with this number, or all brakes, because the change that pulled them is intended.

    With --pause, end what `assetsync pause` began: the pause of PATH, or all pauses. A brake stays pulled then; without
    --pause, a pause goes on. `assetsync status` lists both. Beside a daemon, the daemon carries this out.

    \b
    Examples:
      assetsync resume --config hq.yaml 3
      assetsync resume --config hq.yaml
      assetsync resume --config hq.yaml --pause
      assetsync resume --config hq.yaml --pause photos/2026
    """
    if ends_pause:
        path = None if which is None else known_folders(config, [which])[0]
        act(config, EndPause(path), as_json=as_json)
    else:
        act(config, Resume(_number(which)), as_json=as_json)
