"""Signals that end a command at a safe point."""

import os
import signal
import socket
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


def test_signal_just_before_a_wait_ends_it():
    """Such a signal interrupts no wait; nor does this one, which another thread receives."""
    waiting, peer = socket.socketpair()
    waiting.settimeout(20)
    with waiting, peer, stopping(threading.Event(), [peer.close], patience=0.0):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            assert waiting.recv(1) == b""
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
