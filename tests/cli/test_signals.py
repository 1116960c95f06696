"""Signals that end a command at a safe point."""

import signal
import threading

from assetsync.cli.entry import stopping


def test_signal_during_stop_wait_ends_it():
    stop, ended = threading.Event(), threading.Event()
    with stopping(stop, [ended.set], patience=0.0):
        # As within `stop.wait`: the handler runs where this lock is held.
        with stop._cond:
            signal.raise_signal(signal.SIGINT)
        assert stop.wait(10)
        assert ended.wait(10)
