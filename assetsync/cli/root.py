"""The list of commands. Each is loaded from the module of its name when it is called; its options are defined there.

The summaries of the overview are here too, because reading them from the commands would load every module.
"""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import click

from assetsync import __version__

COMMANDS = {
    "init": "Write a new site's configuration by questions, and check it.",
    "run": "Run the daemon: mirror the site continuously.",
    "reconcile": "Mirror once: scan, upload missing files, resolve doubts, index, verify.",
    "check": "Test the configuration, the tree and the service; change nothing.",
    "status": "Show the site's status, from the ledger alone.",
    "files": "List the files and their states.",
    "explain": "Show why a file is in its state.",
    "retry": "Retry files that are blocked or in doubt.",
    "pause": "Stop uploads for a while.",
    "resume": "Release a brake after a check, or end a pause.",
    "doubt": "List uploads whose answer was lost, look them up, or decide one.",
    "drift": "List metadata that changed after the upload, or mark it as settled.",
    "audit": "Compare the service's folders with the ledger, and list the differences.",
    "orphans": "List assets in the service without a matching file.",
    "export": "Export the ledger as CSV or JSON lines.",
    "search": "Search the service by hand (searchassets).",
    "index": "Request indexing by hand (searchIndex).",
    "upload": "Upload one file by hand.",
    "guide": "Show the guide: tasks, reference, troubleshooting.",
    "schema": "Print the JSON Schema of a --json output, or of the configuration.",
    "example": "Print an example configuration, or write the systemd units.",
    "completion": "Print the completion script for bash, zsh or fish.",
    "sandbox": "Run a local service that implements the interface, for trials.",
    "demo": "Mirror a sample tree into a sandbox.",
}


_OF_THE_SANDBOX = ("sandbox", "demo")
_OF_THE_COMMANDS = ("--config", "--json", "--quiet")


class LazyGroup(click.Group):
    """A click group that knows its commands by name and loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load one command; return None for an unknown name."""
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; raise UsageError with the closest name for a mistyped one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415 - slow to load, and needed only here

            close = get_close_matches(args[0].lower(), COMMANDS, n=1)
            if close:
                raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{close[0]}'?", ctx)
        found = super().resolve_command(ctx, args)
        if "structlog" in sys.modules:
            from assetsync.log import configure_logging  # noqa: PLC0415 - slow to load; a fast command logs nothing

            # Unconfigured, structlog writes to stdout, which is for results alone.
            configure_logging(level="warning")
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command; raise UsageError if one of them belongs behind the command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in _OF_THE_COMMANDS:
                message = f"'{error.option_name}' belongs behind the command: assetsync status --config hq.yaml --json"
                raise click.UsageError(message, ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without loading them; leave out those whose libraries are not installed."""
        absent = () if _has_sandbox() else _OF_THE_SANDBOX
        with formatter.section("Commands"):
            formatter.write_dl([command for command in COMMANDS.items() if command[0] not in absent])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Name the first commands of a new user."""
        trial = "Begin with `assetsync demo`, which needs nothing; then" if _has_sandbox() else "Begin with"
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"{trial} `assetsync init`, which writes the configuration of a site and checks it.")


def _has_sandbox() -> bool:
    """Return whether the libraries of the extra `sandbox` are installed."""
    return all(find_spec(name) is not None for name in ("PIL", "starlette", "uvicorn"))


def _load(name: str) -> click.Command:
    # Nearly every object that an import creates stays alive. Collecting garbage during the import and at exit would
    # take a tenth of the time that `status` runs.
    gc.disable()
    try:
        return cast("click.Command", import_module(f"assetsync.cli.commands.{name}").command)
    finally:
        gc.freeze()
        gc.enable()


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def root() -> None:
    """Mirror a folder tree, one way, into a digital asset management service.

    \b
    Exit codes: 0 all in sync · 1 finished, not all in sync · 2 usage or configuration ·
    3 the service cannot be reached or refuses the key · 4 another instance holds the
    ledger · 70 a defect in assetsync · 130 interrupted
    """
