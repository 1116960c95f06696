"""`assetsync example`: print the example configuration or write the systemd units of the installed package.

Their contents are left to the files themselves; only the path of the program is replaced.
"""

import os
from pathlib import Path

import click

import assetsync
from assetsync.cli.entry import program
from assetsync.cli.output import note, write, write_file
from assetsync.errors import UsageError
from assetsync.text import printable

# The path of the program in the units; it is replaced by the path of the running installation.
_PROGRAM = "/opt/assetsync/bin/assetsync"
_UNITS = ("assetsync@.service", "assetsync-reconcile@.service", "assetsync-reconcile@.timer")


@click.group("example")
def command() -> None:
    """Print an example configuration, or write the systemd units.

    \b
    Examples:
      assetsync example config > /etc/assetsync/hq.yaml
      assetsync example units /etc/systemd/system
    """


@command.command("config")
def config() -> None:
    """Print a configuration with all keys, their meanings and their defaults.

    \b
    Example:
      assetsync example config > /etc/assetsync/hq.yaml
    """
    write(shared("config.example.yaml").read_text("utf-8").rstrip("\n"))


@command.command("units")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing units.")
def units(folder: Path, *, force: bool) -> None:
    """Write the systemd units into FOLDER: for the daemon, and for one pass with its timer; each site is an instance.

    The units start the program that writes them. Afterwards run: systemctl daemon-reload && systemctl enable --now
    assetsync@hq

    \b
    Examples:
      assetsync example units /etc/systemd/system
      assetsync example units /etc/systemd/system --force
    """
    # Path.exists raises an error for a folder that is closed to this user; writing there reports that.
    there = [name for name in _UNITS if os.path.exists(folder / name)]  # noqa: PTH110
    if there and not force:
        names = ", ".join(there)
        raise UsageError(f"{printable(bytes(folder))} has {names} already", hint="--force replaces them")
    for name in _UNITS:
        text = shared(f"systemd/{name}").read_text("utf-8")
        target = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_file(target, text.replace(_PROGRAM, str(program())), 0o644, force=True)
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}", hint="run it as root") from error
        write(str(target))
    if not program().exists():
        note(f"{program()}, which the units start, is not there")


def shared(name: str) -> Path:
    """Return the path of a file that comes with the program: inside the package, or beside it in a clone.

    Raise UsageError if the file is in neither place.
    """
    package = Path(assetsync.__file__).parent
    for place in (package / "share", package.parent):
        if (place / name).is_file():
            return place / name
    raise UsageError(f"{name} did not come with this installation", hint="install the wheel, or a clone")
