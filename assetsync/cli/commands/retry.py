"""`assetsync retry`: unblock files, or send the given files again. `sync.requests.retry` carries it out."""

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, topmost, with_config, with_json
from assetsync.config import SiteConfig
from assetsync.errors import UsageError
from assetsync.sync.requests.retry import Retry, SendAgainWithoutMetadata, SendWithoutMetadata, SendWithoutSidecar


@click.command("retry")
@with_config
@click.option(
    "--send-again",
    is_flag=True,
    help="Upload these files again, even if an asset is known. The old asset stays: the interface cannot delete.",
)
@click.option(
    "--reason",
    metavar="WORD",
    help="Only files that are blocked for this reason, such as sidecar. --send-again needs paths, except with"
    " missing and never_processed.",
)
@click.option(
    "--without-sidecar",
    is_flag=True,
    help="Send these files without sidecars of their own, which `sidecars: required` makes them wait for.",
)
@click.option(
    "--without-metadata",
    is_flag=True,
    help="Send these files without metadata: with --send-again those that were sent, else those that wait because of a"
    " new metadata field.",
)
@with_json("Print one object: done, request, message.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(
    config: SiteConfig,
    paths: tuple[str, ...],
    *,
    send_again: bool,
    reason: str | None,
    without_sidecar: bool,
    without_metadata: bool,
    as_json: bool,
) -> None:
    """Retry files that are blocked or in doubt: these files, the files below these folders, or all.

    A file with a known asset is read back again. A file in doubt is looked up again. Other files are sent again. An
    empty file stays blocked, because the service refuses it. A file whose adopted asset is gone adopts another equal
    asset of the folder. Beside a daemon, the daemon carries this out. PATH is relative to the root, or absolute.

    \b
    Examples:
      assetsync retry --config hq.yaml
      assetsync retry --config hq.yaml photos/harbour.jpg
      assetsync retry --config hq.yaml photos/2026
      assetsync retry --config hq.yaml --send-again photos/harbour.jpg
      assetsync retry --config hq.yaml --send-again --reason missing     # all that an audit missed
      assetsync retry --config hq.yaml --without-sidecar photos/harbour.jpg
      assetsync retry --config hq.yaml --send-again --without-metadata texts/plan.pdf
    """
    if without_sidecar and (send_again or reason is not None or without_metadata):
        raise UsageError("--without-sidecar goes with no other option", hint="run a command for each of them")
    if without_metadata and reason is not None and not send_again:
        raise UsageError("--without-metadata needs --send-again beside --reason", hint="name the files by their paths")
    wanted = topmost(known_folders(config, paths))
    if without_sidecar:
        act(config, SendWithoutSidecar(tuple(wanted)), as_json=as_json)
        return
    if without_metadata:
        again = SendAgainWithoutMetadata(tuple(wanted), send_again, reason)
        act(config, again if send_again else SendWithoutMetadata(tuple(wanted)), as_json=as_json)
        return
    act(config, Retry(tuple(wanted), send_again, reason), as_json=as_json)
