"""A channel delivers, waits, tries again and gives up, on a thread of its own."""

import logging
import threading
import time

import pytest

from assetsync.core.notices import trial_notice
from assetsync.notify.channel import MOST, Channel, Undelivered


class Receiver:
    """A way to the outside: `fails` times it does not work, and while `held` it hangs."""

    def __init__(self, fails: float = 0):
        self.fails = fails
        self.tries = 0
        self.got: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self.changed = threading.Condition()

    def __call__(self, notice):
        self.open.wait(30)
        with self.changed:
            self.tries += 1
            if self.tries > self.fails:
                self.got.append(notice.site)
            self.changed.notify_all()
        if self.tries <= self.fails:
            raise Undelivered("nobody is there")

    def until(self, true):
        with self.changed:
            assert self.changed.wait_for(true, 20)


@pytest.fixture
def start():
    channels = []

    def make(receiver, *pauses):
        failed = []
        channel = Channel("webhook", receiver, failed=failed.append, pauses=pauses or (0.01,))
        channel.failures = failed
        channels.append((channel, receiver))
        channel.start()
        return channel

    yield make
    for channel, receiver in channels:
        receiver.open.set()
        channel.finish()
        channel.join(10)
        assert not channel.is_alive()


def events(caplog, text):
    return [record for record in caplog.records if text in record.getMessage()]


@pytest.fixture(autouse=True)
def _logged(caplog):
    caplog.set_level(logging.INFO)
    import structlog

    structlog.configure(logger_factory=structlog.stdlib.LoggerFactory(), cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


def test_messages_arrive_in_their_order(start):
    receiver = Receiver()
    channel = start(receiver)
    for number in range(5):
        channel.post(trial_notice(f"s{number}", 0))
    receiver.until(lambda: len(receiver.got) == 5)
    assert receiver.got == ["s0", "s1", "s2", "s3", "s4"]


def test_posting_never_waits_for_a_receiver(start):
    receiver = Receiver()
    receiver.open.clear()
    channel = start(receiver)
    posting = threading.Thread(target=lambda: [channel.post(trial_notice("hq", 0)) for _ in range(1000)])
    posting.start()
    posting.join(20)
    assert not posting.is_alive()
    assert not channel.idle


def test_failed_delivery_is_logged_once(start, caplog):
    receiver = Receiver(fails=6)
    channel = start(receiver, 0.001, 0.002)
    channel.post(trial_notice("hq", 0))
    receiver.until(lambda: receiver.got == ["hq"])
    channel.finish()
    channel.join(10)
    assert (receiver.tries, channel.idle) == (7, True)
    assert len(events(caplog, "a message cannot be delivered")) == 1
    assert len(events(caplog, "messages are delivered again")) == 1


def test_oldest_messages_drop_on_overflow(start, caplog):
    receiver = Receiver(fails=1)
    receiver.open.clear()
    channel = start(receiver)
    for number in range(MOST + 10):
        channel.post(trial_notice(f"s{number}", 0))
    receiver.open.set()
    receiver.until(lambda: len(receiver.got) == MOST)
    assert receiver.got == [f"s{number}" for number in range(10, MOST + 10)]
    (said,) = events(caplog, "messages are delivered again")
    assert "10" in said.getMessage()
    assert len(events(caplog, "a message is given up")) == 10


def test_undelivered_message_expires(start, caplog, monkeypatch):
    monkeypatch.setattr("assetsync.notify.channel._LONGEST", 0.0)
    channel = start(Receiver(fails=1), 0.001)
    channel.post(trial_notice("hq", 0))
    channel.finish()
    channel.join(10)
    assert channel.idle
    (said,) = events(caplog, "a message is given up")
    assert "hq: this is a test" in said.getMessage()


def test_finishing_channel_empties_its_queue(start):
    receiver = Receiver()
    receiver.open.clear()
    channel = start(receiver)
    for number in range(3):
        channel.post(trial_notice(f"s{number}", 0))
    channel.finish()
    receiver.open.set()
    channel.join(10)
    assert (receiver.got, channel.idle) == (["s0", "s1", "s2"], True)


def test_finishing_channel_skips_retry_waits(start):
    receiver = Receiver(fails=float("inf"))
    channel = start(receiver, 3600.0)
    channel.post(trial_notice("hq", 0))
    receiver.until(lambda: receiver.tries == 1)
    began = time.monotonic()
    channel.finish()
    channel.join(20)
    assert (channel.is_alive(), channel.idle) == (False, False)
    assert time.monotonic() - began < 15


def test_what_nobody_foresaw_is_handed_on(start):
    def broken(_notice):
        raise ZeroDivisionError

    broken.open = threading.Event()
    channel = start(broken)
    channel.post(trial_notice("hq", 0))
    channel.join(10)
    assert [type(error) for error in channel.failures] == [ZeroDivisionError]
