"""The checks of `notify` for `assetsync check`, with a test message on each channel if requested.

Sending is left to `notify.news`.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator

from assetsync.cli.finding import Finding, Level, Where
from assetsync.config import SiteConfig
from assetsync.core.notices import trial_notice
from assetsync.errors import ConfigError
from assetsync.log import redact
from assetsync.notify.channel import Undelivered
from assetsync.notify.news import Way, senders

_PATIENCE = 45.0
_FIX = {
    "webhook": "correct notify.webhook, or see the receiver's log",
    "command": "run the program by hand as assetsync's user, with a line of JSON on its stdin",
}


def look_at_notify(config: SiteConfig, *, send: bool) -> Iterator[Finding]:
    """Yield the findings about `notify`; with `send`, send a test message on each channel and report the result."""
    try:
        ways = senders(config, os.environ)
    except ConfigError:
        # The check of the service has already reported it.
        return
    if send and not ways:
        fix = "set notify.webhook or notify.command"
        yield Finding("notify", Level.ERROR, "nobody is told anything: the configuration names no channel", fix)
    yield from _program(config)
    if send:
        for name, way in ways.items():
            yield _tried(config.site, name, way)


def _program(config: SiteConfig) -> Iterator[Finding]:
    command = config.notify.command
    if command and shutil.which(command[0]) is None:
        fix = "write the whole path of a program that assetsync's user may run"
        yield Finding("notify", Level.WARNING, f"notify.command: there is no program {command[0]}", fix)


def _tried(site: str, name: str, way: Way) -> Finding:
    problem: list[str] = []

    def send() -> None:
        try:
            way(trial_notice(site, time.time()))
        except Undelivered as error:
            problem.append(redact(str(error)))

    thread = threading.Thread(target=send, daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(_PATIENCE)
    if thread.is_alive():
        problem = [f"notify.{name}: no end within {_PATIENCE:.0f} s"]
    if problem:
        return Finding("notify", Level.ERROR, problem[0], _FIX[name], Where.HERE)
    return Finding("notify", Level.OK, f"notify.{name} took the test message in {time.monotonic() - began:.1f} s")
