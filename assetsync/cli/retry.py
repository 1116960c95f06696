"""`assetsync retry`: unblock files, or send the given files again. `sync.requests` carries it out."""

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, topmost, with_config, with_json
from assetsync.config import SiteConfig


@click.command("retry")
@with_config
@click.option(
    "--send-again",
    is_flag=True,
    help="Upload the given files anew, even if an asset is known: the service cannot delete, so the old one stays.",
)
@click.option(
    "--reason",
    metavar="WORD",
    help="Only files blocked for this reason, such as sidecar. With missing, --send-again takes folders, or all.",
)
@with_json("Print one object: done, request, message.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(config: SiteConfig, paths: tuple[str, ...], *, send_again: bool, reason: str | None, as_json: bool) -> None:
    """Let files that are blocked or in doubt go on where they stand: those given, those below given folders, or all.

    A file with a known asset is read back again, one in doubt is looked up again, others are tried again; an empty one
    stays blocked, as the service refuses it. One whose asset lay in the folder before and is gone takes over
    another equal one of the folder. Beside a daemon the daemon does it. PATH is relative to the root, or absolute.

    \b
    Examples:
      assetsync retry --config hq.yaml
      assetsync retry --config hq.yaml photos/harbour.jpg
      assetsync retry --config hq.yaml photos/2026
      assetsync retry --config hq.yaml --send-again photos/harbour.jpg
      assetsync retry --config hq.yaml --send-again --reason missing     # all that an audit missed
    """
    wanted = topmost(known_folders(config, paths))
    argument: dict[str, object] = {"paths": [path.hex() for path in wanted], "send_again": send_again}
    if reason is not None:
        argument["reason"] = reason
    act(config, "retry", argument).show(as_json=as_json)
