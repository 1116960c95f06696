"""Read the API key from a file of its own, the environment, or systemd, and protect it in the memory of this process.

The configuration itself never holds the key. No error here shows the key or a part of it. Keeping the key out of the
log is left to `log.register_secret`; reporting a key file that others can read (`key_file_warning`) to the commands.
The address of the heartbeat is a secret, too, and is read in the same way.
"""

import ctypes
import resource
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from assetsync.config.models import SiteConfig
from assetsync.config.source import KEY_VARIABLE, read_source
from assetsync.config.values import is_inside
from assetsync.errors import ConfigError
from assetsync.text import printable, user_name

_CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
_CREDENTIAL = "api_key"
_BESIDE = "beside the configuration"
_MAX_BYTES = 4096
SHORTEST_KEY = 8
"""Redaction replaces the key wherever it occurs: a shorter one would blank out ordinary words of the log."""


def read_api_key(config: SiteConfig, environ: Mapping[str, str]) -> SecretStr:
    """Return the API key.

    It comes from `service.api_key_file`, else $ASSETSYNC_API_KEY, else the systemd credential `api_key`, else the file
    beside the configuration.

    Raise ConfigError if there is no key, if the value cannot be a key, or if the key's file or the ledger is inside the
    tree through a link, which `load` cannot detect: the key would be uploaded, and the ledger written into the tree.
    """
    file = key_file(config, environ)
    named_by = _BESIDE if config.service.api_key_file is None else "service.api_key_file"
    for name, path in ((f"{file} ({named_by})", file), ("ledger", config.ledger)):
        if path is not None:
            _refuse_inside(config.root, name, path)
    if file is not None:
        return read_key_file(file, named_by)
    if KEY_VARIABLE in environ:
        return checked_key(environ[KEY_VARIABLE], f"${KEY_VARIABLE}")
    credential, beside = _credential(environ), _beside(config)
    if credential is not None:
        # The unit reads the credential from a file that root fills, for the shipped units the one beside the
        # configuration; its copy at `credential` can't be written.
        fill = f"{beside}, and restart the unit" if beside else "the file that the unit names"
        return read_key_file(credential, "the systemd credential api_key", fill)
    raise _error(
        "the API key",
        "there is none",
        f"write it into {beside or 'a file'}, name its file in service.api_key_file, set ${KEY_VARIABLE}, or give the "
        f"systemd credential {_CREDENTIAL}",
    )


def read_heartbeat(config: SiteConfig, environ: Mapping[str, str]) -> SecretStr | None:
    """Return the address of the heartbeat; None if there is none.

    It is `notify.heartbeat`, or else in `notify.heartbeat_file`, or else the systemd credential `heartbeat`. Raise
    ConfigError as `read_api_key` does.
    """
    if config.notify.heartbeat is not None:
        return SecretStr(config.notify.heartbeat)
    file, named_by = config.notify.heartbeat_file, "notify.heartbeat_file"
    if file is None:
        file, named_by = _credential(environ, "heartbeat"), "the systemd credential heartbeat"
    if file is None:
        return None
    _refuse_inside(config.root, f"{file} ({named_by})", file)
    return read_key_file(file, named_by, what="address")


def _refuse_inside(root: Path, name: str, path: Path) -> None:
    if is_inside(path, root):
        problem = "it is inside root" + ("" if path.is_relative_to(root) else ", through a link")
        raise _error(name, problem, "move it elsewhere: files inside root are uploaded")


def key_file(config: SiteConfig, environ: Mapping[str, str]) -> Path | None:
    """Return the file that `read_api_key` reads; None if the environment or systemd gives the key, or nothing does.

    It is `service.api_key_file`, or else, if no other source gives a key, `hq.key` beside the configuration `hq.yaml`.
    """
    if config.service.api_key_file is not None:
        return config.service.api_key_file
    beside = _beside(config)
    given = KEY_VARIABLE in environ or _credential(environ) is not None
    return None if given or beside is None or not beside.exists() else beside


def key_help(config: SiteConfig, environ: Mapping[str, str]) -> str:
    """Return what helps if the service refuses the key; it names the file of the key.

    It advises a restart, not a reload: systemd reads the file of a credential only at a start. The service caches a
    refusal for up to a day (observed).
    """
    beside = None if KEY_VARIABLE in environ else _beside(config)
    place = config.service.api_key_file or beside or f"${KEY_VARIABLE}"
    restart = f"write the right key into {printable(str(place))}, then `systemctl restart assetsync@SITE`"
    return f"{restart}; a key that was tried before it was valid may stay refused for a day"


def _beside(config: SiteConfig) -> Path | None:
    return config.file and config.file.with_suffix(".key")


def _credential(environ: Mapping[str, str], name: str = _CREDENTIAL) -> Path | None:
    directory = environ.get(_CREDENTIALS_VARIABLE)
    path = Path(directory) / name if directory else None
    return path if path is not None and path.exists() else None


def outdated_credential(config: SiteConfig, environ: Mapping[str, str]) -> str | None:
    """Return a warning if the key is a credential whose file has changed since the unit started; else None.

    systemd reads that file only when it starts the unit: a reload goes on with the old key.
    """
    credential, beside = _credential(environ), _beside(config)
    if config.service.api_key_file is not None or KEY_VARIABLE in environ or credential is None or beside is None:
        return None
    try:
        is_newer = beside.stat().st_ctime_ns > credential.stat().st_ctime_ns
    except OSError:
        # The unit takes the key from another file, or the folder is closed to this user.
        return None
    return f"{beside} has changed, and a reload goes on with the key of the last start" if is_newer else None


def read_key_file(path: Path, named_by: str, fill: str = "it", *, what: str = "API key") -> SecretStr:
    """Return the key in a file; raise ConfigError, which names the file and the setting that it comes from.

    `fill` names the file to write the key into, `what` the secret in it.
    """
    try:
        data = read_source(path, _MAX_BYTES)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        fix = f"create it with the {what} in it, readable for the user that assetsync runs as"
        if named_by == _BESIDE and isinstance(exc, PermissionError):
            # For the shipped units it is root's: systemd hands the key to the daemon.
            fix = f"run the command as root, or give the key in ${KEY_VARIABLE}"
        raise _error(f"{path} ({named_by})", f"it cannot be read ({reason})", fix) from exc
    if len(data) > _MAX_BYTES:
        problem, fix = f"the file is too large for an {what}", f"name the file that holds only the {what}"
        raise _error(f"{path} ({named_by})", problem, fix)
    try:
        return checked_key(data.decode("ascii"), f"{path} ({named_by})", fill, what=what)
    except UnicodeDecodeError:
        # Not chained: the decoder's message contains bytes of the key.
        problem, fix = "the file holds characters other than ASCII", f"write only the {what} into {fill}"
        raise _error(f"{path} ({named_by})", problem, fix) from None


def checked_key(text: str, where: str, fill: str = "it", *, what: str = "API key") -> SecretStr:
    """Return a text as a key, without its line end; raise ConfigError if it cannot be a key."""
    key = text.rstrip("\r\n")
    if not key:
        raise _error(where, "it is empty", f"write the {what} into {fill}")
    if not key.isascii() or not key.isprintable() or " " in key:
        problem = "it holds spaces, several lines or control characters"
        raise _error(where, problem, f"write only the {what} into {fill}")
    if len(key) < SHORTEST_KEY:
        raise _error(where, f"it has fewer than {SHORTEST_KEY} characters", f"write the whole {what} into {fill}")
    return SecretStr(key)


def _error(where: str, problem: str, fix: str) -> ConfigError:
    return ConfigError([f"{where}: {problem}: {fix}"])


def key_file_warning(path: Path | None, reader: int) -> str | None:
    """Return a warning if others than its owner can read the key file; None if all is well or there is no file.

    Its fix leaves the file readable for the user `reader`.
    """
    if path is None:
        return None
    try:
        mode, fix = path.stat().st_mode, key_file_fix(path, reader)
    except OSError:
        return None
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    whom = "everyone" if mode & stat.S_IRWXO else "its group"
    return f"{path}: {whom} can read or change the API key: {fix}"


def key_file_fix(path: Path, reader: int) -> str:
    """Return the command after which only the user `reader`, and root, can read the key file. Raise OSError."""
    file = shlex.quote(str(path))
    if reader in (0, path.stat().st_uid):
        return f"chmod 600 {file}"
    # The reader may have only the rights of the file's group, which the mode takes away.
    return f"as root: chown {user_name(reader)} {file} && chmod 600 {file}"


_PR_SET_DUMPABLE = 4


def keep_from_dumps() -> None:
    """Disable core dumps, and let only root trace this process or read /proc/PID/environ and /proc/PID/mem.

    A pipe in kernel.core_pattern receives core dumps despite the limit, but none of a process that is not dumpable.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
