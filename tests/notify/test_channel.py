"""A channel delivers, waits, retries and gives up, in a thread of its own."""

import logging
import threading

import pytest
import structlog

from assetsync.core.notices import trial_notice
from assetsync.notify import channel as channel_module
from assetsync.notify.channel import Channel, Undelivered


class Receiver:
    """A receiver that fails `fails` times, and hangs unless `open` is set."""

    def __init__(self, fails: float = 0):
        self.fails = fails
        self.tries = 0
        self.got: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self.tried, self.delivered = threading.Event(), threading.Event()

    def __call__(self, notice):
        self.open.wait(30)
        self.tries += 1
        self.tried.set()
        if self.tries <= self.fails:
            raise Undelivered("nobody is there")
        self.got.append(notice.site)
        self.delivered.set()


@pytest.fixture
def start(monkeypatch):
    monkeypatch.setattr(channel_module, "_PAUSES", (0.001, 0.002))
    channels = []

    def make(receiver):
        failed = []
        channel = Channel("webhook", receiver, failed.append)
        channel.failures = failed
        channels.append((channel, receiver))
        channel.start()
        return channel

    yield make
    for channel, receiver in channels:
        receiver.open.set()
        end(channel)


def end(channel):
    channel.finish()
    channel.join(20)
    assert not channel.is_alive()


@pytest.fixture
def events(caplog):
    caplog.set_level(logging.INFO)
    structlog.configure(logger_factory=structlog.stdlib.LoggerFactory(), cache_logger_on_first_use=False)
    yield lambda text: [record.getMessage() for record in caplog.records if text in record.getMessage()]
    structlog.reset_defaults()


def test_finish_delivers_all_in_order(start):
    receiver = Receiver()
    receiver.open.clear()
    channel = start(receiver)
    for number in range(5):
        channel.post(trial_notice(f"s{number}", 0))
    assert not channel.is_idle
    receiver.open.set()
    end(channel)
    assert (receiver.got, channel.is_idle) == (["s0", "s1", "s2", "s3", "s4"], True)


def test_failed_delivery_is_logged_once(start, events):
    receiver = Receiver(fails=6)
    channel = start(receiver)
    channel.post(trial_notice("hq", 0))
    assert receiver.delivered.wait(20)
    end(channel)
    assert (receiver.tries, receiver.got, channel.is_idle) == (7, ["hq"], True)
    assert len(events("a message cannot be delivered")) == len(events("a message was delivered after retries")) == 1


def test_undelivered_notice_expires(start, events, monkeypatch):
    monkeypatch.setattr(channel_module, "_LONGEST", 0.0)
    channel = start(Receiver(fails=1))
    channel.post(trial_notice("hq", 0))
    end(channel)
    assert channel.is_idle
    (said,) = events("a message was not delivered within a day, and is given up")
    assert "hq: this is a test" in said


def test_finish_waits_for_no_retry(start, monkeypatch):
    monkeypatch.setattr(channel_module, "_PAUSES", (3600.0,))
    receiver = Receiver(fails=float("inf"))
    channel = start(receiver)
    channel.post(trial_notice("hq", 0))
    assert receiver.tried.wait(20)
    end(channel)
    assert (receiver.tries, channel.is_idle) == (1, False)


def test_finish_retries_within_its_patience(start, monkeypatch):
    monkeypatch.setattr(channel_module, "_PAUSES", (3600.0,))
    monkeypatch.setattr(channel_module, "_LAST_PAUSE", 0.001)
    receiver = Receiver(fails=3)
    channel = start(receiver)
    channel.post(trial_notice("hq", 0))
    assert receiver.tried.wait(20)
    channel.finish(3600)
    channel.join(20)
    assert (receiver.tries, receiver.got, channel.is_idle) == (4, ["hq"], True)


def test_second_finish_ends_the_retries(start):
    receiver = Receiver(fails=float("inf"))
    channel = start(receiver)
    channel.post(trial_notice("hq", 0))
    channel.finish(3600)
    assert receiver.tried.wait(20)
    end(channel)
    assert not channel.is_idle


def test_unexpected_error_is_passed_on(start):
    def broken(_notice):
        raise ZeroDivisionError

    broken.open = threading.Event()
    channel = start(broken)
    channel.post(trial_notice("hq", 0))
    channel.join(10)
    assert [type(error) for error in channel.failures] == [ZeroDivisionError]
