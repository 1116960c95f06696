"""The options and arguments that most commands share: the configuration, `--json`, and paths of the site.

Reading and checking the configuration is left to `config`.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assetsync.cli.output import LISTED, note
from assetsync.config.outline import Outline, digest_of, ledger_named, may_hold_key
from assetsync.config.source import read_configuration
from assetsync.config.values import duration
from assetsync.errors import ConfigError, LedgerError, LedgerMissing, UsageError
from assetsync.ledger.file.database import holder_of
from assetsync.ledger.file.facts import OUTLINE
from assetsync.ledger.file.ledger_files import real
from assetsync.ledger.reports import LedgerView, view_ledger
from assetsync.text import name_configuration, printable

if TYPE_CHECKING:
    from assetsync.config.models import SiteConfig

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
# The characters that `printable` writes in place of those that are unsafe in a terminal.
_SHOWN_ODDLY = re.compile(r"[\\\ufffd]")


CONFIGURATIONS = Path("/etc/assetsync")
"""The folder with the configurations of a server, one file a site; the systemd units read them there."""

UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"))
"""The folders in which `systemd/README.md` and the Debian package install the units."""

CONFIG_VARIABLE = "ASSETSYNC_CONFIG"
_SITE = "assetsync.site"
_ALL = "assetsync.all"
_MISTAKES = "assetsync.mistakes"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def configurations(folder: Path) -> list[Path]:
    """Return the configurations of a folder, sorted, without hidden files, which editors leave. Raise OSError.

    A link that leads nowhere is one of them: its site must not be forgotten.
    """
    found = (entry for entry in folder.iterdir() if entry.suffix == ".yaml" and not entry.name.startswith("."))
    return sorted(path for path in found if path.is_file() or path.is_symlink())


def _of_the_server() -> list[Path]:
    try:
        return configurations(CONFIGURATIONS)
    except OSError:
        # No folder is the same as an empty one; one that this user may not list has none to choose from.
        return []


def _note_site(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter("write the name of a site, such as hq")
    ctx.meta[_SITE] = value


def _path(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path:
    """Return the configuration that the command line, the environment or the server's folder names."""
    site: str | None = ctx.meta.get(_SITE)
    if value is not None and site is not None:
        raise click.UsageError("--config and --site name the same thing: leave one of them out")
    path = value or (None if site is None else CONFIGURATIONS / f"{site}.yaml") or _usual(os.environ)
    if path is None:
        known = ", ".join(file.stem for file in _of_the_server())
        more = f"; {CONFIGURATIONS} has {known}" if known else ""
        raise click.UsageError(f"Missing option '--config' / '-c', or --site NAME, or ${CONFIG_VARIABLE}{more}")
    if _is_file(path):
        name_configuration(option_for(path, os.environ), unit_for(path))
    return path


def _is_file(path: Path) -> bool:
    # Path.is_file raises an error for a folder that is closed to this user: reading the file reports that.
    return os.path.isfile(path)  # noqa: PTH113


def _usual(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration for a command that names none; None if there is none, or more than one."""
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    found = _of_the_server()
    return found[0] if len(found) == 1 else None


def option_for(path: Path, environ: Mapping[str, str]) -> str:
    """Return the option that makes a command with this environment read this configuration.

    It is "" only where $ASSETSYNC_CONFIG names the file.
    """
    site = _site_of(path)
    if site is not None:
        return f"--site {site}"
    chosen = Path(environ.get(CONFIG_VARIABLE, ""))
    return "" if _is_file(chosen) and chosen.samefile(path) else f"--config {shlex.quote(str(path.absolute()))}"


def unit_for(path: Path) -> str:
    """Return the unit of the daemon that systemd runs with this configuration; "" if no unit is installed for it."""
    site = _site_of(path)
    installed = any((folder / "assetsync@.service").exists() for folder in UNITS)
    return f"assetsync@{site}" if site is not None and installed else ""


def _site_of(path: Path) -> str | None:
    """Return the name by which `--site` finds this configuration; None if it lies elsewhere."""
    path = path.absolute()
    is_site = path.parent == CONFIGURATIONS and path.suffix == ".yaml" and _NAME.fullmatch(path.stem)
    return path.stem if is_site else None


def _load(ctx: click.Context, param: click.Parameter, value: Path | None) -> "SiteConfig":
    from assetsync.config.load import load_config  # noqa: PLC0415 - slow to load; a command that reads does without

    return load_config(_path(ctx, param, value), os.environ)


def read_outline(path: Path, environ: Mapping[str, str]) -> Outline:
    """Return the outline of a configuration as its ledger records it, if the file is the same since it was checked.

    Else check the file as `config.load_config` does. Raise ConfigError.
    """
    data = read_configuration(path)
    ledger = ledger_named(data)
    if ledger is not None and not may_hold_key(data, environ):
        # A ledger that cannot be read is reported when the command reads it, a mistake of the configuration before.
        with suppress(LedgerError, OSError), closing(view_ledger(ledger)) as view:
            record = view.reports.fact(OUTLINE)
            if record is not None and (outline := Outline.recorded(record, digest_of(data))) is not None:
                return outline
    from assetsync.config.load import parse_config  # noqa: PLC0415 - as above

    return parse_config(data, str(path), environ).outline


def outline_in_use(path: Path) -> Outline | None:
    """Return the outline with which a process goes on that holds the ledger which a broken configuration names.

    Return None if no process does, or if the configuration cannot be read or names no ledger.
    """
    with suppress(ConfigError, LedgerError, OSError):
        ledger = ledger_named(read_configuration(path))
        if ledger is not None and holder_of(real(ledger)).sends:
            with closing(view_ledger(ledger)) as view:
                record = view.reports.fact(OUTLINE)
                return None if record is None else Outline.recorded(record, None)
    return None


def _read_outline(ctx: click.Context, param: click.Parameter, value: Path | None) -> Outline:
    return read_outline(_path(ctx, param, value), os.environ)


def _note_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta[_ALL] = value


def _read_unless_all(ctx: click.Context, param: click.Parameter, value: Path | None) -> Outline | None:
    if not ctx.meta[_ALL]:
        path = _path(ctx, param, value)
        try:
            return read_outline(path, os.environ)
        except ConfigError as error:
            ctx.meta[_MISTAKES] = error
            outline = outline_in_use(path)
            if outline is None:
                raise
            return outline
    if value is not None or ctx.meta.get(_SITE) is not None:
        raise click.UsageError("--all shows every site: leave out --config and --site")
    return None


def raise_mistakes() -> None:
    """Raise the ConfigError of the configuration in whose place this command shows the one in use, if it has any."""
    error: ConfigError | None = click.get_current_context().meta.get(_MISTAKES)
    if error is not None:
        note("a process goes on with the old configuration, because this one has mistakes:")
        raise error


def _with_site(name: str, callback: Callable[[click.Context, click.Parameter, Path | None], object]) -> Decorator:
    config = click.option(
        "--config",
        "-c",
        name,
        metavar="FILE",
        type=click.Path(path_type=Path),
        callback=callback,
        help=f"The configuration of the site; else ${CONFIG_VARIABLE}, or the only one in {CONFIGURATIONS}.",
    )
    site = click.option(
        "--site",
        metavar="NAME",
        expose_value=False,
        is_eager=True,
        callback=_note_site,
        help=f"The same as --config {CONFIGURATIONS}/NAME.yaml.",
    )
    return lambda command_function: config(site(command_function))


with_config = _with_site("config", _load)
"""Add the options that name the configuration, which is read; mistakes in it raise ConfigError."""

with_outline = _with_site("config", _read_outline)
"""Add the same options, for a command that only reads the ledger: it gets the outline of the configuration."""


def with_outline_or_all(command_function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options and `--all`, with which the outline is None: the command reads all of the server.

    In place of a broken configuration, the command gets the outline that a process goes on with; `raise_mistakes` then
    reports the mistakes.
    """
    every = click.option(
        "--all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_all,
        help=f"Show every configuration of {CONFIGURATIONS}, one line each, the worst first.",
    )
    return _with_site("config", _read_unless_all)(every(command_function))


with_config_path = _with_site("path", _path)
"""Add the same options; the command reads the file itself."""


def with_json(help_text: str) -> Decorator:
    """Return the option `--json` with this help text."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def _limit(_ctx: click.Context, _param: click.Parameter, value: int | None) -> int:
    # A file or another program is given the whole list.
    return value if value is not None else LISTED if sys.stdout.isatty() else 0


with_limit = click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    callback=_limit,
    help=f"List at most N, 0 for all; by default {LISTED} on a terminal, else all. --json lists all.",
)
"""Add the option that limits a list for people; 0 is no limit."""


def seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """Return a duration of the command line in seconds; a callback for an option."""
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter("write a number and its unit, such as 0s, 200ms, 30s, 5m or 1h") from error


def _relative(config: "Outline | SiteConfig", given: str, *, folders: bool) -> bytes:
    """Return a path of the command line relative to the root, and with `folders` b"" for the root itself.

    An absolute path under which the ledger records an upload by hand is returned as it is recorded, even below the
    root: a relative path names the file of the tree. Raise UsageError for a path outside the root.
    """
    path, root = os.fsencode(given), bytes(config.root)
    if path.startswith(b"/"):
        recorded = _recorded_by_hand(config, path)
        if recorded is not None:
            return recorded
        # Resolve only the folder: links may lead to the root, but the file itself may be a link.
        folder, name = os.path.split(path)
        resolved = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - names are bytes here
        real = os.path.realpath(root)
        is_root = os.path.realpath(path) == real
        path = b"." if is_root else _below(os.path.normpath(path), root) or _below(resolved, real) or b".."
    else:
        path = os.path.normpath(path)
    if path == b".." or path.startswith(b"../") or (path == b"." and not folders):
        raise UsageError(
            f"{printable(given)!r} names no file below the root {printable(root)}",
            hint="give a path relative to the root, or an absolute one",
        )
    return b"" if path == b"." else path


def _recorded_by_hand(config: "Outline | SiteConfig", given: bytes) -> bytes | None:
    """Return the absolute path of the ledger that equals or prints as an absolute path; None if there is none."""
    try:
        with closing(view_ledger(config.ledger, site=config.site)) as ledger:
            for path in (os.path.normpath(given), os.path.realpath(given)):
                recorded = _shown_so(ledger, path, folders=False)
                if ledger.reports.of_path(recorded):
                    return recorded
    except LedgerMissing:
        pass
    return None


def known_path(config: "Outline | SiteConfig", given: str) -> bytes:
    """Return the path of a file, relative to the root or as an upload by hand is recorded.

    A name that is not UTF-8 or holds control characters cannot be typed: a path as `files`, the page and the log print
    it is accepted, too. Raise UsageError for a path outside the root, and if several paths print alike.
    """
    return _known(config, [_relative(config, given, folders=False)], folders=False)[0]


def known_folders(config: "Outline | SiteConfig", given: Iterable[str]) -> list[bytes]:
    """Return paths of files or folders as `known_path` does, and b"" for the root itself."""
    return _known(config, [_relative(config, path, folders=True) for path in given], folders=True)


def _known(config: "Outline | SiteConfig", wanted: list[bytes], *, folders: bool) -> list[bytes]:
    if not any(_SHOWN_ODDLY.search(os.fsdecode(path)) for path in wanted):
        return wanted
    try:
        with closing(view_ledger(config.ledger, site=config.site)) as ledger:
            return [_shown_so(ledger, path, folders=folders) for path in wanted]
    except LedgerMissing:
        return wanted


def _shown_so(ledger: LedgerView, wanted: bytes, *, folders: bool) -> bytes:
    """Return the path of the ledger that prints as `wanted` is written, or `wanted` if there is none.

    With `folders`, a folder above a file of the ledger counts too. Raise UsageError if several paths print alike.
    """
    shown = os.fsdecode(wanted)
    odd = _SHOWN_ODDLY.search(shown)
    if odd is None or next(ledger.reports.files(history=True, under=wanted), None) is not None:
        return wanted
    above = os.fsencode(shown[: odd.start()].rpartition("/")[0])
    depth = shown.count("/") + 1
    alike = set()
    for row in ledger.reports.files(history=True, under=above or None):
        path = b"/".join(row.path.split(b"/")[:depth]) if folders else row.path
        if printable(path) == shown:
            alike.add(path)
    if len(alike) > 1:
        raise UsageError(f"{len(alike)} files are shown as {shown}", hint="rename them on disk so that they differ")
    return alike.pop() if alike else wanted


def topmost(paths: Iterable[bytes]) -> list[bytes]:
    """Return the paths that are not below another of the paths, sorted; b"" is the root, above all others."""
    known = sorted(set(paths))
    return [b""] if b"" in known else [path for path in known if not any(path.startswith(top + b"/") for top in known)]


def _below(path: bytes, root: bytes) -> bytes | None:
    prefix = root.rstrip(b"/") + b"/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None
