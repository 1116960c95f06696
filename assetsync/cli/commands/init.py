"""`assetsync init`: ask for what a new site needs, write its configuration and key file, and check them.

Values are quoted, files appear whole, and nothing is overwritten unasked: only an empty key file, and the example
configuration as it was copied, are filled in. Checking a single answer is left to `config`.
"""

import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import click
import yaml
from pydantic import SecretStr

from assetsync.cli import options
from assetsync.cli.addresses import swapped, wrong_upload_url
from assetsync.cli.commands.check import command as check
from assetsync.cli.commands.check import why_unusable
from assetsync.cli.commands.example import shared
from assetsync.cli.daemon_user import STATE_FOLDER, units_user
from assetsync.cli.entry import OK
from assetsync.cli.output import note, warn, write, write_file
from assetsync.config import KEY_VARIABLE, SiteConfig, load_config, parse_config
from assetsync.config.key import checked_key, keep_from_dumps, read_key_file
from assetsync.config.models import folder_id, site_name
from assetsync.config.values import Listen, absolute, base_url, below_root, is_inside, service_url
from assetsync.core.metadata import is_xmp_name
from assetsync.errors import BadAnswer, ConfigError, KeyRefused, ServiceError, Unusable, UsageError
from assetsync.ledger.file.database import holder_of
from assetsync.ledger.file.ledger_files import real
from assetsync.log import register_secret
from assetsync.model import SearchRequest
from assetsync.parts import make_service
from assetsync.sync.observer import Everywhere
from assetsync.text import name_configuration, printable

_SERVICE = {
    "base_url": "Where the service is installed.",
    "upload_url": "The index file of your tenant; files are posted here.",
}
_PORTS = range(9464, 9564)
_LOOKED_AT = 100_000
"""The most files among which an XMP file is searched for: a person waits for it."""
_AN_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_KEY_LINE = re.compile(r"^  api_key_file:.*\n", re.MULTILINE)
_Value = TypeVar("_Value")
_Folders = Sequence[tuple[str, str]]


def configuration(
    site: str,
    root: Path,
    ledger: Path,
    service: Mapping[str, str],
    folders: _Folders,
    *,
    listen: str,
    reads_xmp: bool = True,
) -> str:
    """Return the text of the configuration, with a short comment for each part.

    `service` has the settings of that section, `folders` pairs of a path below the root and its destfolderid. `listen`
    is where the status page listens. `reads_xmp`: whether XMP files describe the files beside them.
    """
    settings = "".join(f"  # {_SERVICE[name]}\n  {name}: {_quoted(value)}\n" for name, value in service.items())
    xmp = "" if reads_xmp else "    xmp: off  # XMP files are neither read nor uploaded.\n"
    mapped = "".join(
        f"  - path: {_quoted(path)}\n    destfolderid: {_quoted(folder)}\n{xmp}" for path, folder in folders
    )
    return f"""\
# The configuration of one site. `assetsync example config` shows every other setting with its default.

# Names the site in the ledger, the log and the metrics.
site: {_quoted(site)}

# The folder to mirror. assetsync never writes into it.
root: {_quoted(str(root))}

# The database of what was sent and verified. It is made by the first run.
ledger: {_quoted(str(ledger))}

service:
{settings}  # The API key is in the file beside this one, whose name ends in .key.

# Which folder below root goes into which folder of the service. What no entry covers is not uploaded.
folders:
{mapped}
# The address of the status page and the metrics. Each site on this machine needs its own port.
status:
  listen: {_quoted(listen)}
"""


def _quoted(value: str) -> str:
    # One line, whatever its length: a folded value would lose its indentation.
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=float("inf")).rstrip("\n")


def write_site(path: Path, text: str, key: SecretStr, *, replace: Collection[Path]) -> None:
    """Write the configuration and the key file beside it, or neither. Raise OSError.

    A file of `replace` keeps its owner and mode, but only its owner may read a key. A file that holds the key already
    is left alone.
    """
    key_path = path.with_suffix(".key")
    holds_key = _key_in(key_path) == key.get_secret_value()
    if not holds_key:
        mode = 0o600 & _mode(key_path, 0o600)
        write_file(key_path, key.get_secret_value(), mode, force=key_path in replace)
    try:
        write_file(path, text, _mode(path, 0o644), force=path in replace)
    except OSError:
        if key_path not in replace:
            key_path.unlink()
        raise


def _mode(path: Path, usual: int) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.is_file() else usual


def _key_in(path: Path) -> str:
    """Return the content of a key file without its line end; "" if there is none. Raise OSError."""
    return path.read_text("utf-8", errors="replace").rstrip("\r\n") if path.is_file() else ""


def _free_address(path: Path) -> str:
    """Return the first address for the status page that is free, and that no configuration beside `path` names.

    A configuration that is replaced keeps its port while its own daemon listens there.
    """
    beside = options.configurations(path.parent) if path.parent.is_dir() else []
    sites = {file: config for file in beside if (config := _readable(file)) is not None}
    own = sites.pop(path, None)
    if own is not None and own.status.listen is not None and holder_of(real(own.ledger)).sends:
        return str(own.status.listen)
    named = {site.status.listen.port for site in sites.values() if site.status.listen is not None}
    addresses = (Listen("127.0.0.1", port) for port in _PORTS if port not in named)
    return next((str(address) for address in addresses if why_unusable(address) is None), "auto")


def _readable(file: Path) -> SiteConfig | None:
    """Return a configuration; None for one with mistakes, with which no site runs, and for other programs' files."""
    try:
        return load_config(file, {})
    except ConfigError:
        return None


@click.command("init")
@click.option("--site", metavar="NAME", help="The name of the site: a-z, 0-9 and -.")
@click.option("--root", metavar="FOLDER", help="The folder to mirror.")
@click.option("--ledger", metavar="FILE", help="The ledger; by default /var/lib/assetsync/NAME.db, or beside --output.")
@click.option("--base-url", metavar="URL", help="The address where the service is installed.")
@click.option("--upload-url", metavar="URL", help="The index file of your tenant.")
@click.option(
    "--key-file", metavar="FILE", type=click.Path(path_type=Path), help="A file with the API key, which is copied."
)
@click.option(
    "--folder",
    "folders",
    metavar="PATH=ID",
    multiple=True,
    help="A folder below root and its destfolderid; may be repeated.",
)
@click.option(
    "--xmp",
    type=click.Choice(["on", "off"]),
    help="Whether XMP files describe the files beside them: on by default. They are never uploaded.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The configuration to write; by default /etc/assetsync/NAME.yaml.",
)
@click.option("--force", is_flag=True, help="Replace an existing configuration and key file.")
def command(
    *,
    folders: tuple[str, ...],
    key_file: Path | None,
    output: Path | None,
    force: bool,
    **given: str | None,
) -> int:
    """Ask for the settings of a new site, write its configuration and key file, and check them.

    Without a terminal, every option except --ledger, --xmp, --output and --force is needed, and the key comes from
    --key-file or $ASSETSYNC_API_KEY. Nothing is written if the service refuses the key or does not answer; on a
    terminal, you are asked to correct or confirm the settings.

    \b
    Examples:
      assetsync init
      assetsync init --site hq --root /srv/media --output hq.yaml
    """
    site = _answer("--site", "Name of the site", site_name, given["site"])
    path = (output or options.CONFIGURATIONS / f"{site}.yaml").absolute()
    replace = _replaceable(path, force=force, has_key=key_file is not None or KEY_VARIABLE in os.environ)
    root = _answer("--root", "Folder to mirror", partial(_root, path), given["root"])
    ledger = f"/var/lib/assetsync/{site}.db" if path.parent == options.CONFIGURATIONS else str(path.with_suffix(".db"))
    ledger_path = _answer("--ledger", "Ledger, a database", partial(_ledger, root), given["ledger"], default=ledger)
    mapped = [_answer("--folder", "", _pair, text) for text in folders]
    service = _ask_service(given)
    key = _read_key(key_file, path.with_suffix(".key"))
    draft = partial(configuration, site, root, ledger_path, listen=_free_address(path))

    def config_of(addresses: Mapping[str, str]) -> SiteConfig:
        # The folders are asked for once the service has answered: it knows some of their ids.
        return parse_config(draft(addresses, mapped or [(".", "0")]).encode(), str(path), {})

    service, key, offered = _until_answered(config_of, service, key)
    mapped = mapped or _ask_folders(root, offered)
    text = draft(service, mapped, reads_xmp=_reads_xmp(root, [folder for folder, _ in mapped], given["xmp"]))
    parse_config(text.encode(), str(path), {})
    try:
        for folder, mode in ((path.parent, 0o755), (ledger_path.parent, 0o700)):
            if not folder.is_dir():
                _make_folder(folder, mode)
        write_site(path, text, key, replace=replace)
    except OSError as error:
        place = error.filename2 or error.filename or path
        raise UsageError(
            f"{place} cannot be written: {error.strerror}", hint="name other files by --output and --ledger"
        ) from error
    write(f"wrote {printable(str(path))} and {printable(str(path.with_suffix('.key')))}")
    return _check(path)


def _make_folder(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    # Whatever the umask is, the daemon's user must be able to read the configuration.
    folder.chmod(mode)
    user = units_user() if folder == STATE_FOLDER else None
    if user is not None:
        # As systemd would make it, so that commands of this user can use it before the unit has started.
        os.chown(folder, user.uid, user.gid)


def _check(path: Path) -> int:
    """Check the new site, and print the next commands."""
    name_configuration(options.option_for(path, os.environ), options.unit_for(path))
    code = int(click.get_current_context().invoke(check, path=path, notify=False, as_json=False))
    if code != OK:
        write("next, after the errors above are fixed: assetsync check")
        return code
    write("next: assetsync reconcile --dry-run --list")
    unit = shlex.quote(f"assetsync@{path.stem}")
    write(f"then: systemctl enable --now {unit}" if path.parent == options.CONFIGURATIONS else "then: assetsync run")
    return code


def _answer(
    option: str, question: str, read: Callable[[str], _Value], given: str | None, *, default: str | None = None
) -> _Value:
    """Return what `read` makes of the option, or of the answer to the question; ask until the answer can be used.

    Without a terminal, the default is the answer; raise UsageError if there is none.
    """
    if given is None and not sys.stdin.isatty():
        if default is None:
            raise click.UsageError(f"Missing option '{option}': there is no terminal to ask on")
        given = default

    def value_of(text: str) -> _Value:
        try:
            return read(_utf8(text))
        except Unusable as error:
            # A prompt shows no option: the value is what "it" is.
            named = "" if given is not None else f"{printable(text)}: "
            raise click.BadParameter(f"{named}{error}", param_hint=f"'{option}'") from None
        except ConfigError as error:
            raise click.BadParameter(str(error), param_hint=f"'{option}'") from None

    if given is not None:
        return value_of(given)
    hidden = option == "--key-file"
    answer: _Value = click.prompt(question, default, hide_input=hidden, err=True, value_proc=value_of)
    return answer


def _replaceable(path: Path, *, force: bool, has_key: bool) -> frozenset[Path]:
    """Return the files that are there and may be replaced, before anything else is asked.

    Raise UsageError if the configuration and its key cannot be written there. Without `force`, a file may be replaced
    if nobody has written into it: an empty key file, and the example configuration. A key that is there is kept unless
    another one is given (`has_key`).
    """
    key_path = path.with_suffix(".key")
    if not _is_utf8(str(path)):
        raise UsageError(f"{path} is not UTF-8, as the configuration is", hint="name another file by --output")
    if key_path == path:
        raise UsageError(f"{path} is the name of the key file", hint="end the name of the configuration in .yaml")
    there = [file for file in (path, key_path) if os.path.lexists(file)]
    elsewhere = "run it as root, or name another file by --output, such as hq.yaml"
    try:
        written = [path] * (path in there and not _is_example(path))
        written += [key_path] * (key_path in there and has_key and bool(_key_in(key_path)))
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}", hint=elsewhere) from error
    if written and not force:
        names = " and ".join(map(str, written))
        raise UsageError(f"{names} exist{'s' if len(written) == 1 else ''} already", hint="--force replaces it")
    # Path.exists raises an error below a folder that is closed to this user, which cannot write there.
    folder = next(folder for folder in path.parents if os.path.exists(folder))  # noqa: PTH110
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written", hint=elsewhere)
    return frozenset(there)


def _is_example(path: Path) -> bool:
    """Return whether a configuration is the example, with or without the line that a server does without."""
    example = shared("config.example.yaml").read_text("utf-8")
    return path.is_file() and _KEY_LINE.sub("", path.read_text("utf-8", "replace")) == _KEY_LINE.sub("", example)


def _path(text: str) -> str:
    if _AN_ADDRESS.match(text):
        raise Unusable("it is an address, and a path on this machine is asked for", "write it such as /srv/media")
    return text


def _root(path: Path, text: str) -> Path:
    root = absolute(Path(_path(text)).expanduser().absolute())
    # Path.is_dir raises an error below a closed folder.
    if not os.path.isdir(root):  # noqa: PTH112
        raise Unusable("there is no such folder, or this user cannot look there", "name the folder to mirror")
    if not os.access(root, os.R_OK | os.X_OK):
        raise Unusable("it cannot be read", "run this as a user that can read the tree")
    if is_inside(path, root):
        raise Unusable(f"{path} would be inside it and be uploaded", "name another file by --output")
    return root


def _ledger(root: Path, text: str) -> Path:
    ledger = absolute(Path(_path(text)).expanduser().absolute())
    if is_inside(ledger, root):
        raise Unusable("it is inside root", "move it elsewhere, because assetsync never writes into the tree")
    return ledger


def _pair(text: str) -> tuple[str, str]:
    path, _sign, folder = text.rpartition("=")
    if not path or not folder:
        raise Unusable("it is no PATH=ID", "write it such as photos=A6CE649F")
    return below_root(path), folder_id(folder)


def _ask_service(given: Mapping[str, str | None], before: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the two addresses; a person is shown those of `before`."""
    known = before or {}
    base = partial(base_url, allow_http=False)
    upload = partial(service_url, allow_http=False)
    question = "Address for uploads, the index file of your tenant"
    return {
        "base_url": _answer(
            "--base-url", "Address of the service", base, given.get("base_url"), default=known.get("base_url")
        ),
        "upload_url": _answer(
            "--upload-url", question, upload, given.get("upload_url"), default=known.get("upload_url")
        ),
    }


def _read_key(file: Path | None, to_write: Path) -> SecretStr:
    """Return the key, and name its source if there are several; it will be written to `to_write`."""
    keep_from_dumps()
    in_variable = os.environ.get(KEY_VARIABLE)
    if file is not None:
        key = read_key_file(file, "--key-file")
        if in_variable is not None:
            is_same = in_variable.rstrip("\r\n") == key.get_secret_value()
            holds = "the same key" if is_same else "another key, which commands use while it is set: unset it"
            note(f"the API key is that of {printable(str(file))}; ${KEY_VARIABLE} holds {holds}")
        return key
    if in_variable is not None:
        replaced = f", and replaces that in {printable(str(to_write))}" if os.path.lexists(to_write) else ""
        note(f"the API key is that of ${KEY_VARIABLE}{replaced}")
        return checked_key(in_variable, f"${KEY_VARIABLE}")
    if to_write.is_file() and to_write.stat().st_size:
        note(f"the API key is that of {printable(str(to_write))}, which is kept")
        return read_key_file(to_write, "the key file of the site")
    return _ask_key()


def _ask_key() -> SecretStr:
    return _answer(
        "--key-file", "API key (not shown)", partial(checked_key, where="the API key", fill="the prompt"), None
    )


def _until_answered(
    config_of: Callable[[Mapping[str, str]], SiteConfig], service: dict[str, str], key: SecretStr
) -> tuple[dict[str, str], SecretStr, list[str]]:
    """Return the addresses and the key that the service accepts, and the ids of some folders that hold assets.

    On a terminal, a person corrects what failed, or confirms it. Without one, raise ServiceError.
    """
    while True:
        try:
            return service, key, _try(config_of(service), key)
        except ServiceError as error:
            if not sys.stdin.isatty():
                raise
            warn(str(error))
            if isinstance(error, KeyRefused):
                key = _ask_key()
            elif click.confirm("Write the configuration all the same?", err=True):
                return service, key, []
            else:
                service = _ask_service({}, service)


def _try(config: SiteConfig, key: SecretStr) -> list[str]:
    """Return the ids of folders that some assets of the service are in.

    Raise ServiceError if it does not answer, or if something else answers at one of its addresses.
    """
    register_secret(key)
    request = SearchRequest(searchfor="%", dbdirect=True, maxrows=500)
    with closing(make_service(config, key)) as service:
        try:
            with Everywhere(service, time.monotonic, ()).search(request) as assets:
                found = sorted({asset.folder_id for asset in assets if asset.folder_id})
        except BadAnswer as error:
            if (wrong := swapped(service, config)) is not None:
                raise wrong from error
            raise
        note(f"{config.service.base_url} accepts the key")
        if (wrong := wrong_upload_url(service.probe_uploads(), config)) is not None:
            raise wrong
    return found


def _ask_folders(root: Path, offered: list[str]) -> list[tuple[str, str]]:
    if sys.stdin.isatty():
        # The configuration holds text: a name that is not UTF-8 cannot be mapped by itself.
        below = sorted(
            entry.name for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink() and _is_utf8(entry.name)
        )
        note(f"folders below root: {', '.join(map(printable, below)) or 'none'}")
        if offered:
            note(f"folders that assets of the service are in: {', '.join(map(printable, offered))}")
    mapped: list[tuple[str, str]] = []

    def further(text: str) -> str:
        path = below_root(_path(text))
        if not (root / path).is_dir():
            raise Unusable("there is no such folder below root", "name one that is there")
        if path in dict(mapped):
            raise Unusable("this folder is mapped already", "name another one")
        return path

    while not mapped or click.confirm("Another folder?", err=True):
        path = _answer("--folder", "Folder below root (. is root itself)", further, None)
        mapped.append((path, _answer("--folder", f"destfolderid for {printable(path)}", folder_id, None)))
    return mapped


def _reads_xmp(root: Path, folders: Collection[str], given: str | None) -> bool:
    """Return whether XMP files are to be read; if there are any, say what happens with them, and ask on a terminal."""
    found = None if given else _xmp_file(root, folders)
    if found is None:
        return given != "off"
    note(
        f"XMP files are there, such as {printable(found)}: assetsync sends the description, keywords and location in"
        " them with the files that they describe, and never uploads the XMP files; `xmp: off` in the configuration"
        " leaves them out"
    )
    return not sys.stdin.isatty() or click.confirm("Read the XMP files?", default=True, err=True)


def _xmp_file(root: Path, folders: Collection[str]) -> bytes | None:
    """Return an XMP file among the first files of the mapped folders, None without one."""
    walks = chain.from_iterable(os.walk(os.fsencode(root / folder)) for folder in folders)
    paths = (place + b"/" + name for place, _, names in walks for name in names)
    return next(filter(is_xmp_name, islice(paths, _LOOKED_AT)), None)


def _utf8(text: str) -> str:
    if not _is_utf8(text):
        raise Unusable("it is not UTF-8, as the configuration is", "rename it, or name it by a link")
    return text


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
