"""`assetsync init`: ask for what a new site needs, write its configuration and key file, and check them.

Values are quoted, files appear whole, and nothing is overwritten unasked.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from assetsync.app import make_service
from assetsync.cli.check import command as check
from assetsync.cli.operator import read_key
from assetsync.cli.options import CONFIGURATIONS
from assetsync.cli.output import note, warn, write
from assetsync.config import KEY_VARIABLE, SiteConfig, load_config
from assetsync.errors import ServiceError, UsageError
from assetsync.model import SearchRequest
from assetsync.sync.folder_backoff import probe
from assetsync.text import printable


class Answers(NamedTuple):
    """What a person decides about a new site; `folders` has the destfolderid for each path below root."""

    site: str
    root: Path
    base_url: str
    upload_url: str
    folders: Mapping[str, str]


def configuration(answers: Answers, key_file: Path) -> str:
    """Return the text of the configuration, with a short comment for each part."""
    folders = "".join(
        f"  - path: {_quoted(path)}\n    destfolderid: {_quoted(folder)}\n" for path, folder in answers.folders.items()
    )
    return f"""\
# The configuration of one site. `assetsync example config` shows every other setting with its default.

# Names the site in the ledger, the log and the metrics.
site: {_quoted(answers.site)}

# The folder to mirror. assetsync never writes into it.
root: {_quoted(str(answers.root))}

service:
  # Where the service is installed.
  base_url: {_quoted(answers.base_url)}
  # The index file of your tenant; files are posted here.
  upload_url: {_quoted(answers.upload_url)}
  # Holds the API key and nothing else.
  api_key_file: {_quoted(str(key_file))}

# Which folder below root goes into which folder of the service. What no entry covers is not uploaded.
folders:
{folders}"""


def _quoted(value: str) -> str:
    # One line, whatever its length: a folded value would lose its indentation.
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=float("inf")).rstrip("\n")


def write_file(path: Path, text: str, mode: int, *, force: bool) -> None:
    """Write the file in one step; raise FileExistsError if the path is taken, unless `force` replaces it."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, mode)
            file.write(text)
            file.flush()
            os.fsync(fd)
        if force:
            temporary.replace(path)
        else:
            # A link fails where a rename would replace a file that appeared meanwhile.
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)


@click.command("init")
@click.option("--site", metavar="NAME", help="The name of the site: a-z, 0-9 and -.")
@click.option("--root", metavar="FOLDER", help="The folder to mirror.")
@click.option("--base-url", metavar="URL", help="Where the service is installed.")
@click.option("--upload-url", metavar="URL", help="The index file of your tenant.")
@click.option("--key-file", metavar="FILE", type=click.Path(path_type=Path), help="Holds the API key, which is copied.")
@click.option("--folder", "folders", metavar="PATH=ID", multiple=True, help="A folder below root, its destfolderid.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Else /etc/assetsync/NAME.yaml.")
@click.option("--force", is_flag=True, help="Replace an existing configuration and key file.")
def command(
    *,
    folders: tuple[str, ...],
    key_file: Path | None,
    output: Path | None,
    force: bool,
    **given: str,
) -> int:
    """Ask for what a new site needs, write its configuration and key file, and check them.

    Without a terminal, every question needs its option; the key comes from --key-file or $ASSETSYNC_API_KEY.

    \b
    Examples:
      assetsync init
      assetsync init --site hq --root /srv/media --output hq.yaml
    """
    site = given["site"] or _ask("--site", "Name of the site")
    target = (output or CONFIGURATIONS / f"{site}.yaml").absolute()
    key_target = target.with_suffix(".key")
    taken = [str(path) for path in (target, key_target) if os.path.lexists(path)]
    if taken and not force:
        raise UsageError(f"{' and '.join(taken)} exists already", hint="--force replaces it")
    root = Path(given["root"] or _ask("--root", "Folder to mirror")).absolute()
    base_url = given["base_url"] or _ask("--base-url", "Address of the service")
    upload_url = given["upload_url"] or _ask("--upload-url", "Address for uploads, the index file of your tenant")
    if key_file is not None:
        try:
            key = key_file.read_text("ascii")
        except (OSError, UnicodeDecodeError):
            raise UsageError(
                f"{key_file} cannot be read as a key", hint="name a file that holds only the key"
            ) from None
    else:
        key = os.environ.get(KEY_VARIABLE) or _ask("--key-file", "API key (not shown)", hidden=True)
    answers = Answers(site, root, base_url, upload_url, {".": "0"})
    with tempfile.TemporaryDirectory() as scratch:
        draft, draft_key = Path(scratch, target.name), Path(scratch, key_target.name)
        write_file(draft_key, key, 0o600, force=False)
        write_file(draft, configuration(answers, draft_key), 0o600, force=False)
        offered = _try(load_config(draft, {}))
        mapped = dict(_pair(text) for text in folders) or _ask_folders(root, offered)
        answers = answers._replace(folders=mapped)
        write_file(draft, configuration(answers, draft_key), 0o600, force=True)
        load_config(draft, {})
    try:
        write_file(key_target, key, 0o600, force=force)
        write_file(target, configuration(answers, key_target), 0o644, force=force)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}", hint="name another file by --output"
        ) from error
    write(f"wrote {target} and {key_target}")
    code = int(click.get_current_context().invoke(check, path=target, notify=False, as_json=False))
    write(f"next: assetsync reconcile --config {target} --dry-run --list")
    write(f"then: assetsync run --config {target}")
    return code


def _ask(option: str, question: str, *, hidden: bool = False) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(f"Missing option '{option}': there is no terminal to ask on")
    return str(click.prompt(question, hide_input=hidden, err=True))


def _pair(text: str) -> tuple[str, str]:
    path, sign, folder = text.rpartition("=")
    if not sign or not path or not folder:
        raise click.UsageError("write --folder PATH=ID, such as photos=A6CE649F")
    return path, folder


def _try(config: SiteConfig) -> list[str]:
    """Report what the service answers, and return the ids of folders that some of its assets are in."""
    with closing(make_service(config, read_key(config))) as service:
        try:
            probe(service, "0")
            with service.search(SearchRequest(searchfor="%", dbdirect=True, maxrows=500)) as assets:
                found = sorted({asset.folder_id for asset in assets if asset.folder_id})
        except ServiceError as error:
            warn(str(error))
            return []
    note(f"{config.service.base_url} accepts the key")
    return found


def _ask_folders(root: Path, offered: list[str]) -> dict[str, str]:
    if not sys.stdin.isatty():
        raise click.UsageError("Missing option '--folder': there is no terminal to ask on")
    try:
        below = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError as error:
        raise UsageError(f"{root} cannot be read: {error.strerror}", hint="name a folder that exists") from error
    note(f"folders below root: {', '.join(map(printable, below)) or 'none'}")
    note(f"folders that assets of the service are in: {', '.join(map(printable, offered)) or 'none'}")
    mapped: dict[str, str] = {}
    while not mapped or click.confirm("Another folder?", err=True):
        path = click.prompt("Folder below root (. is root itself)", err=True)
        mapped[path] = click.prompt(f"destfolderid for {printable(path)}", err=True)
    return mapped
