"""Keeps what a command sets up for a process of its own from the test after it."""

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

import assetsync.log as log_module
from assetsync.text import name_configuration


@contextmanager
def left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take back what is done to logging, hooks, warnings, signals and the shown commands inside the block."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in log_module._ONLY_WARNINGS}
    showwarning = warnings.showwarning
    monkeypatch.setattr(log_module, "_SECRETS", log_module._Secrets())
    monkeypatch.setenv("ASSETSYNC_CONFIG", "")
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    taken = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    # A `run` that was refused goes on receiving signals: it would end this process ten seconds after the next one.
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    yield
    signal.set_wakeup_fd(wakeup)
    for number, handler in taken.items():
        signal.signal(number, handler)
    logging.captureWarnings(capture=False)
    warnings.showwarning = showwarning
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.reset_defaults()
    name_configuration("")
