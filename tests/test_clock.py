"""The clocks of the machine; warnings on time zones are tested in `cli/commands/test_check.py`."""

import threading
import time

from assetsync.clock import SystemClock


def test_stop_ends_a_wait():
    clock = SystemClock()
    timer = threading.Timer(0.05, clock.stop.set)
    timer.start()
    began = time.monotonic()
    assert clock.wait(60)
    assert time.monotonic() - began < 30
    timer.join()


def test_wait_without_a_stop_takes_its_time():
    clock = SystemClock()
    began = clock.steady()
    assert not clock.wait(0.02)
    assert clock.steady() - began >= 0.02


def test_wait_of_zero_reports_the_stop():
    clock = SystemClock()
    assert not clock.wait(0)
    clock.stop.set()
    assert clock.wait(0)
