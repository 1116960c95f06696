"""The user that a site's daemon runs as: what root's `check` can read, the daemon may not.

What to look at is left to the callers.
"""

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from assetsync.cli import options
from assetsync.cli.entry import run_as
from assetsync.config import SiteConfig

_OF_THE_UNITS = "assetsync"
STATE_FOLDER = Path("/var/lib/assetsync")
"""The folder that systemd makes for the units (StateDirectory=), and gives to their user at each start."""


class User(NamedTuple):
    """A user by numbers, with the groups of a process that systemd starts for the user."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def daemon_user(config: SiteConfig) -> User | None:
    """Return the user that the site's daemon runs as; None if this is not root, or if it is root's daemon.

    It is the owner of the ledger, or of its folder if there is no ledger yet: a ledger that root creates belongs to
    that owner. Otherwise it is the units' user, for a configuration in their folder.
    """
    if os.geteuid() != 0:
        return None
    owner = _owner(config)
    if owner is not None:
        return _with_groups(owner.st_uid, owner.st_gid)
    return units_user() if is_of_the_units(config) else None


def _owner(config: SiteConfig) -> os.stat_result | None:
    """Return the status of the ledger, or of its folder if there is no ledger yet; None if it is root's."""
    for path in (config.ledger, config.ledger.parent):
        try:
            status = path.stat()
        except OSError:
            # It is absent, or closed to this user, as some file systems are to root.
            continue
        return status if status.st_uid != 0 else None
    return None


def key_reader(config: SiteConfig) -> int:
    """Return the user whose daemon reads the key file; 0 if systemd reads it, as for the shipped units."""
    if config.service.api_key_file is None and is_of_the_units(config):
        return 0
    user, owner = daemon_user(config), _owner(config)
    if user is not None:
        return user.uid
    return os.geteuid() if owner is None else owner.st_uid


def units_user() -> User | None:
    """Return the user of the shipped units; None if the system has none."""
    try:
        entry = pwd.getpwnam(_OF_THE_UNITS)
    except KeyError:
        return None
    return _with_groups(entry.pw_uid, entry.pw_gid)


def _with_groups(uid: int, gid: int) -> User:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, gid, (gid,))
    return User(uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def systemd_makes_folder(config: SiteConfig) -> bool:
    """Return whether the ledger lies in the folder that systemd makes when the site's unit starts."""
    return config.ledger.parent == STATE_FOLDER and is_of_the_units(config)


def is_of_the_units(config: SiteConfig) -> bool:
    """Return whether the configuration lies in the folder where the systemd units read theirs."""
    return config.file is not None and config.file.parent == options.CONFIGURATIONS


@contextmanager
def acting_as(user: User | None) -> Iterator[None]:
    """Give this process, which is root's, the effective rights of a user inside the block; None changes nothing.

    Raise OSError if root may not, as in some containers. Nothing may be yielded from inside the block.
    """
    if user is None:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    try:
        os.setgroups(user.groups)
        os.setegid(user.gid)
        os.seteuid(user.uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def can_act_as(user: User) -> bool:
    """Return whether `acting_as` works: root may become the user, who can read the modules that are loaded late."""
    try:
        with acting_as(user):
            return all(os.access(file, os.R_OK, effective_ids=True) for file in (os.__file__, __file__))
    except OSError:
        return False


def check_as(user: int, config: SiteConfig) -> str:
    """Return the advice to run `check` as another user, with the line for root's shell."""
    words = ["check", *([] if config.file is None else shlex.split(options.option_for(config.file, {})))]
    return f"run it as its user, which root can: {run_as(user, words)}"
