"""The checks of `assetsync check`: configuration, key, tree, watch limits, ledger, page and service.

Nothing is changed. Printing the findings and the exit code are left to `check`.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pydantic import SecretStr

from assetsync.app import make_service
from assetsync.cli.check_ledger import (
    look_at_brakes,
    look_at_ledger,
    look_at_mappings,
    look_at_other_sites,
    look_at_user,
)
from assetsync.cli.check_page import look_at_page
from assetsync.cli.check_tree import look_at_tree
from assetsync.cli.finding import Finding, Level, Where
from assetsync.cli.operator import read_key
from assetsync.clock import ZONE_FIX, zone_warning
from assetsync.config import SiteConfig, key_file_warning, mappings
from assetsync.errors import (
    BadAnswer,
    ConfigError,
    ServiceError,
)
from assetsync.sync.folder_backoff import probe
from assetsync.text import plural


def look(path: Path, config: SiteConfig) -> Iterator[Finding]:
    """Yield the findings of all checks, the service last; raise nothing that a configuration can cause."""
    mapped = plural(len(config.folders), "folder")
    yield Finding("configuration", Level.OK, f"{path}: site {config.site}, {mapped} mapped")
    if (unknown := zone_warning(os.environ)) is not None:
        yield Finding("schedule", Level.WARNING, unknown, ZONE_FIX)
    if not config.schedule.reads_back:
        message = "the daemon reads nothing back: files stay `stored`, and are verified by `assetsync reconcile` alone"
        yield Finding("schedule", Level.WARNING, message, "switch schedule.verify on, or schedule.index")
    yield from _mailing(config)
    key, said = _key(config)
    yield from said
    yield from look_at_tree(config)
    yield look_at_ledger(config)
    yield from look_at_user(config)
    yield from look_at_mappings(config)
    yield from look_at_other_sites(config)
    yield from look_at_brakes(config)
    yield from look_at_page(config)
    if key is not None:
        yield from _service(config, key)


def _mailing(config: SiteConfig) -> Iterator[Finding]:
    """Warn of mappings for which the service mails the passed values, the key included, at each upload."""
    for folder in config.folders:
        if folder.upload.debug or folder.upload.emailto is not None:
            message = f"for uploads from {folder.path}, the service mails what was passed, the API key included"
            fix = "take upload.debug and upload.emailto out of this mapping once the fault is found"
            yield Finding("folders", Level.WARNING, message, fix)


def _key(config: SiteConfig) -> tuple[SecretStr | None, list[Finding]]:
    """Read the key only once: it may come from a pipe."""
    try:
        key = read_key(config)
    except ConfigError as error:
        return None, [Finding("key", Level.ERROR, mistake) for mistake in error.mistakes]
    file = config.service.api_key_file
    if file is None:
        return key, [Finding("key", Level.OK, "the API key comes from the environment or systemd")]
    problem = key_file_warning(file)
    if problem is not None:
        return key, [Finding("key", Level.WARNING, problem, f"chmod 600 {file}")]
    return key, [Finding("key", Level.OK, f"{file} holds a key and only its owner can read it")]


def _answers(config: SiteConfig, folder: str) -> str:
    # None of the three operations of the interface lists the folders.
    url = config.service.base_url
    return f"{url} answers a search in folder {folder}; whether there is one shows at the first upload"


def _service(config: SiteConfig, key: SecretStr) -> Iterator[Finding]:
    """Search each mapped folder for a name that no asset has: the database answers fast, and the answer is short."""
    try:
        with closing(make_service(config, key)) as service:
            for folder in dict.fromkeys(mapping.destfolderid for mapping in mappings(config)):
                probe(service, folder)
                yield Finding("service", Level.OK, _answers(config, folder))
    except ConfigError as error:
        for mistake in error.mistakes:
            yield Finding("service", Level.ERROR, mistake)
    except BadAnswer as error:
        message = f"{error.message}: what answers at {config.service.base_url} is not the service"
        yield Finding("service", Level.ERROR, message, error.hint or "correct service.base_url", Where.SERVICE)
    except ServiceError as error:
        fix = error.hint or "see that the service runs and that service.base_url is its address"
        yield Finding("service", Level.ERROR, error.message, fix, Where.SERVICE)
