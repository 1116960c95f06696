"""Make single parts of a site from its configuration, for the commands that need no more than one of them.

Building the whole site is left to `app`.
"""

import errno
import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from assetsync.config.key import key_help
from assetsync.config.models import SiteConfig, mappings
from assetsync.core.mapping import Mappings, Plan
from assetsync.errors import RootMissing
from assetsync.model import Clock
from assetsync.sync.duplicate_sites import Claim, make_claim
from assetsync.text import printable, user_name
from assetsync.tree.filesystem import network_mounts
from assetsync.tree.safe_open import Tree

if TYPE_CHECKING:
    from assetsync.ledger.ledger import Ledger
    from assetsync.service.client import HttpService
    from assetsync.sync.upload.facts import Rules
    from assetsync.sync.upload.preview import Preview

_NETWORK_SETTLE = 60.0


def make_service(config: SiteConfig, key: SecretStr, alive: Callable[[], None] = lambda: None) -> "HttpService":
    """Return the client for a configuration; it calls `alive` at each sign that a request goes on."""
    # httpx takes a sixth of the start of a command, and commands that only read the ledger make no client.
    from assetsync.service.client import HttpService, ServiceSettings  # noqa: PLC0415

    service = config.service
    return HttpService(
        ServiceSettings(
            base_url=service.base_url,
            upload_url=service.upload_url,
            api_key=key,
            credential=service.credential,
            ca_file=str(service.ca_file) if service.ca_file else None,
            proxy=service.proxy,
            connect_timeout=service.connect_timeout,
            read_timeout=service.read_timeout,
            spelling=config.spelling,
            key_help=key_help(config, os.environ),
            alive=alive,
        )
    )


def claim_of(config: SiteConfig) -> Claim:
    """Return the claim of a site: the root, service and folders that its configuration mirrors."""
    folders = {mapping.path: mapping.destfolderid for mapping in mappings(config)}
    return make_claim(bytes(config.root), config.service.base_url, folders, config.ledger)


def make_tree(config: SiteConfig) -> Tree:
    """Return the tree of a configuration; the root need not exist."""
    named_in = "the configuration" if config.file is None else printable(str(config.file))
    return Tree(bytes(config.root), follow_symlinks=config.watch.follow_symlinks, configuration=named_in)


def expect_root(config: SiteConfig) -> None:
    """Raise RootMissing if the root cannot be opened; the hint says how to let in the user of this process."""
    try:
        os.close(make_tree(config).open_folder(b""))
    except OSError as error:
        hint = let_in(config.root) if error.errno == errno.EACCES else ""
        message = f"the root {printable(bytes(config.root))} cannot be read: {error.strerror}"
        raise RootMissing(message, hint=hint) from error


def let_in(folder: Path) -> str:
    """Return the command with which root lets the user of this process read a folder and all below it."""
    user = user_name(os.geteuid())
    above = [part for part in reversed(folder.parents) if not os.access(part, os.X_OK, effective_ids=True)]
    closed = [shlex.quote(str(part)) for part in above]
    enter = f"setfacl -m u:{user}:x {' '.join(closed)} && " if closed else ""
    command = f"{enter}setfacl -R -m u:{user}:rX,d:u:{user}:rX {shlex.quote(str(folder))}"
    return f"let the user {user} in, as root: {command}"


def make_rules(config: SiteConfig) -> "Rules":
    """Return the rules for sending. On network file systems a file rests at least a minute, unless it need not rest."""
    from assetsync.sync.upload.facts import Rules  # noqa: PLC0415 - few commands need them

    least = _NETWORK_SETTLE if network_mounts(bytes(config.root)) else 0.0
    settle, *settles = (
        max(rest, least) if rest else 0.0
        for rest in (config.watch.settle, *(mapping.settle for mapping in mappings(config)))
    )
    return Rules(
        settle=settle,
        settles=settles,
        sidecar_wait=config.watch.sidecar_wait,
        max_file_size=config.upload.max_file_size,
        resend_changed=config.policy.on_change == "upload",
    )


def make_preview(config: SiteConfig, ledger: "Ledger", clock: Clock) -> "Preview":
    """Return the preview of what becomes of files."""
    from assetsync.sync.intake.sidecars import Recorded, Sidecars, processed_uploads  # noqa: PLC0415 - as above
    from assetsync.sync.upload.preview import Preview  # noqa: PLC0415

    tree, known = make_tree(config), Mappings(mappings(config))
    recorded = Recorded(processed=partial(processed_uploads, ledger, known))
    sidecars = Sidecars(tree, clock, config.service.field_names, recorded=recorded)
    return Preview(ledger, tree, clock, known, sidecars, rules=make_rules(config))


def make_plan(config: SiteConfig) -> Plan:
    """Return the plan of the mapped and ignored paths."""
    return Plan(Mappings(mappings(config)), config.ignore)
