"""`assetsync run`: start the daemon, reload its configuration on SIGHUP, and return the exit code.

The work of the daemon is left to `daemon`.
"""

import os
import sys
from functools import partial
from pathlib import Path

import click
import structlog

from assetsync import INTERRUPTED
from assetsync.cli.daemon_user import key_reader
from assetsync.cli.entry import OK, limit_heaps
from assetsync.cli.operator import read_key
from assetsync.cli.options import option_for, unit_for, with_config_path
from assetsync.clock import ZONE_FIX, zone_warning
from assetsync.config import SiteConfig, key_file, key_file_warning, load_config, outdated_credential
from assetsync.daemon.daemon import Configured, Daemon, Ended
from assetsync.daemon.systemd import Notifier, Signals
from assetsync.errors import ConfigError
from assetsync.ledger.file.ledger_files import exists
from assetsync.log import configure_logging
from assetsync.notify.heartbeat import heartbeat_of
from assetsync.notify.notifications import receivers
from assetsync.parts import expect_root, make_service
from assetsync.text import name_configuration

log = structlog.get_logger(__name__)

_CORRECT = "correct the configuration, then reload again"

_FIXED = "`{}` identifies the site: restart the daemon to change it"


@click.command("run")
@with_config_path
def command(path: Path) -> int:
    """Run the daemon, which mirrors the site until SIGTERM (exit code 0) or Ctrl-C (130).

    It watches the tree, uploads new files, requests indexing, verifies the assets, and scans the whole tree at each
    schedule.rescan. SIGHUP reads the configuration again. A configuration with mistakes is rejected, and the old one
    stays active.

    \b
    Examples:
      assetsync run --config /etc/assetsync/hq.yaml
      systemctl start assetsync@hq          # the same under systemd, see systemd/README.md
    """
    notifier = Notifier(dict(os.environ))
    signals = Signals(notifier)
    # First: the configuration is read after each signal that arrives from now on, or again.
    signals.take()
    # Those who read the page, the log and the messages have another environment.
    name_configuration(option_for(path, {}), unit_for(path))
    limit_heaps()
    configured = _read(path)
    config = configured.config
    _log_as(config)
    if (unknown := zone_warning(os.environ)) is not None:
        log.warning(unknown, fix=ZONE_FIX)
    if not exists(config.ledger):
        # For a known site the brake is pulled instead.
        expect_root(config)
    # Once, not at each reload: a reload comes after READY and is shorter than the watchdog's time-out, because the
    # ledger was in use until then.
    notifier.beginning()
    while True:
        ended = Daemon(configured, notifier, signals, partial(_read_again, path, configured.config)).run()
        if isinstance(ended, Ended):
            log.info("stopped")
            return INTERRUPTED if ended is Ended.INTERRUPTED else OK
        configured = ended
        _log_as(configured.config)
        log.info("configuration reloaded")
        if (outdated := outdated_credential(configured.config, os.environ)) is not None:
            log.warning(outdated, fix="systemctl restart assetsync@SITE")


def _read_again(path: Path, before: SiteConfig) -> Configured:
    """Return the configuration that follows `before`; log mistakes and raise ConfigError if it has any."""
    try:
        return _following(path, before)
    except ConfigError as error:
        for mistake in error.mistakes:
            log.warning("configuration rejected; the old one stays active", mistake=mistake, fix=_CORRECT)
        raise


def _following(path: Path, before: SiteConfig) -> Configured:
    read = _read(path)
    # Check what the configuration names, too: the new daemon would find a mistake only after the old one has ended.
    make_service(*read).close()
    receivers(read.config, os.environ)
    heartbeat_of(read.config, os.environ)
    fixed = [name for name in ("site", "ledger") if getattr(before, name) != getattr(read.config, name)]
    if fixed:
        raise ConfigError([_FIXED.format(name) for name in fixed])
    return read


def _read(path: Path) -> Configured:
    config = load_config(path, os.environ)
    return Configured(config, read_key(config))


def _log_as(config: SiteConfig) -> None:
    configure_logging(config.log.format, config.log.level, stream=sys.stderr, site=config.site)
    problem = key_file_warning(key_file(config, os.environ), key_reader(config))
    if problem is not None:
        log.warning(problem)
