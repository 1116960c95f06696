"""`assetsync check`: print the findings and set the exit code. The checks themselves are left to `findings`."""

import os
from pathlib import Path

import click

from assetsync.cli.check_notify import look_at_notify
from assetsync.cli.entry import NO_SERVICE, OK, USAGE
from assetsync.cli.finding import Finding, Level, Where
from assetsync.cli.findings import look
from assetsync.cli.options import CONFIG_HELP, with_json
from assetsync.cli.output import write, write_json
from assetsync.config import load_config
from assetsync.errors import ConfigError
from assetsync.log import redact
from assetsync.text import printable

_SIGNS = {Level.OK: "ok     ", Level.WARNING: "warning", Level.ERROR: "error  "}


@click.command("check")
@click.option(
    "--config", "-c", "path", required=True, metavar="FILE", type=click.Path(path_type=Path), help=CONFIG_HELP
)
@click.option("--notify", is_flag=True, help="Send a test message to notify.webhook and notify.command too.")
@with_json("Print one object.")
def command(path: Path, *, notify: bool, as_json: bool) -> int:
    """Try everything that a run needs, and say for each finding what mends it; changes nothing.

    Looks at the configuration, the API key, the tree and its folders, the limits of the watcher, the ledger, and asks
    the service for a name that no asset has in each mapped folder. Exit 0 when a run can begin, 2 or 3 when not.

    \b
    Examples:
      assetsync check --config /etc/assetsync/hq.yaml
      assetsync check --config hq.yaml --notify      # does a message reach you?
      assetsync check --config hq.yaml --json | jq '.findings[] | select(.level != "ok")'
    """
    try:
        # Read the file only once: it may be a pipe.
        config = load_config(path, os.environ)
    except ConfigError as error:
        found = [Finding("configuration", Level.ERROR, mistake) for mistake in error.mistakes]
    else:
        found = [*look(path, config), *look_at_notify(config, send=notify)]
    errors = {finding.where for finding in found if finding.level is Level.ERROR}
    if as_json:
        findings = [
            {
                "what": finding.what,
                "level": str(finding.level),
                "message": redact(finding.message),
                "fix": finding.fix and redact(finding.fix),
            }
            for finding in found
        ]
        write_json({"ok": not errors, "findings": findings})
    else:
        for finding in found:
            write(f"{_SIGNS[finding.level]}  {finding.what}: {printable(redact(finding.message))}")
            if finding.fix is not None:
                write(f"         fix: {printable(redact(finding.fix))}")
    if Where.HERE in errors:
        return USAGE
    return NO_SERVICE if errors else OK
