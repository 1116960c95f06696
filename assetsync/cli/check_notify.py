"""The checks of `notify` for `assetsync check`, with a test message on each channel if requested.

Sending is left to `notify.notifications`.
"""

import os
import shutil
import time
from collections.abc import Iterator

from assetsync.cli.finding import Finding, Level, Where
from assetsync.config import SiteConfig
from assetsync.core.notices import trial_notice
from assetsync.errors import ConfigError
from assetsync.log import redact
from assetsync.notify.channel import Undelivered
from assetsync.notify.notifications import Receiver, receivers

_FIX = {
    "webhook": "correct notify.webhook, or see the receiver's log",
    "command": "run the program by hand as assetsync's user, with a line of JSON on its stdin",
}


def look_at_notify(config: SiteConfig, *, send: bool) -> Iterator[Finding]:
    """Yield the findings about `notify`; with `send`, send a test message on each channel and report the result."""
    try:
        found = receivers(config, os.environ)
    except ConfigError:
        # The check of the service has already reported it.
        return
    if send and not found:
        fix = "set notify.webhook or notify.command"
        yield Finding("notify", Level.ERROR, "nobody is told anything: the configuration names no channel", fix)
    yield from _program(config)
    if send:
        for name, receiver in found.items():
            yield _tried(config.site, name, receiver)


def _program(config: SiteConfig) -> Iterator[Finding]:
    command = config.notify.command
    if command and shutil.which(command[0]) is None:
        fix = "write the whole path of a program that assetsync's user may run"
        yield Finding("notify", Level.WARNING, f"notify.command: there is no program {command[0]}", fix)


def _tried(site: str, name: str, receiver: Receiver) -> Finding:
    began = time.monotonic()
    try:
        receiver(trial_notice(site, time.time()))
    except Undelivered as error:
        return Finding("notify", Level.ERROR, redact(str(error)), _FIX[name], Where.HERE)
    return Finding("notify", Level.OK, f"notify.{name} took the test message in {time.monotonic() - began:.1f} s")
