"""The throttle spreads bytes over time, for all workers together."""

from datetime import datetime

import pytest

from assetsync.config.timetable import Timetable, rates
from assetsync.sync.upload.limits import RateLimiter
from assetsync.tree.body import TappedBody


class Clock:
    def __init__(self):
        self.at = 100.0

    def now(self):
        return self.at

    def steady(self):
        return self.at

    def boot(self):
        return "boot"

    def wait(self, seconds):
        self.at += seconds
        return False


def constant(rate):
    return Timetable("", (), rate)


class Bytes:
    size, bytes_sent, md5 = 30, 30, "M"

    def chunks(self):
        yield from (b"x" * 10,) * 3


@pytest.mark.parametrize(("rate", "seconds"), [(10.0, 89.0), (100.0, 8.0)])
def test_rate_counts_after_a_one_second_burst(rate, seconds):
    clock = Clock()
    clock.at += 1000
    rate_limiter = RateLimiter(constant(rate), clock)
    clock.at += 1000
    before = clock.at
    for _ in range(91):
        rate_limiter.pace(10)
    assert clock.at - before == pytest.approx(seconds)


def test_paced_body_keeps_the_original_bytes():
    clock = Clock()
    body = TappedBody(Bytes(), RateLimiter(constant(10.0), clock).pace, piece=lambda: 7)
    assert (body.size, body.bytes_sent, body.md5) == (30, 30, "M")
    assert b"".join(body.chunks()) == b"x" * 30
    assert clock.at > 101


class Long(Bytes):
    def chunks(self):
        yield b"ab" * 2**19
        yield b"c"


@pytest.mark.parametrize("rate", [16_000.0, 200_000.0, 20_000_000.0])
def test_slow_rate_pauses_for_seconds_at_most(rate):
    clock = Clock()
    rate_limiter = RateLimiter(constant(rate), clock)
    left, gaps, last = b"", [], None
    for piece in TappedBody(Long(), rate_limiter.pace, piece=rate_limiter.piece).chunks():
        if last is not None:
            gaps.append(clock.at - last)
        last, left = clock.at, left + piece
    assert left == b"ab" * 2**19 + b"c"
    # Sixteen workers take turns.
    assert 16 * max(gaps) <= 5.0


def test_long_wait_can_be_interrupted():
    clock = Clock()
    ticks = []
    rate_limiter = RateLimiter(constant(10.0), clock, lambda: bool(ticks.append(clock.at)))
    rate_limiter.pace(300)
    rate_limiter.pace(10)
    assert clock.at == pytest.approx(130.0)
    assert len(ticks) >= 29
    given_up = RateLimiter(constant(10.0), clock, lambda: True)
    given_up.pace(300)
    before = clock.at
    given_up.pace(10)
    assert clock.at - before <= 1.0


def test_rate_follows_the_hour_during_an_upload():
    """The evening ends a slow hour: what an upload has left goes faster, and slower again in the morning."""
    clock = Clock()
    times = rates("08:00-18:00 10b/s, else 100b/s")
    clock.at = datetime.fromisoformat("2026-11-25 17:59:30").timestamp()
    limiter = RateLimiter(times, clock)
    began = clock.at
    for _ in range(90):
        limiter.pace(10)
    # Half a minute at 10, and a second's burst; the rest at 100.
    assert clock.at - began == pytest.approx(30 + (900 - 300) / 100, abs=2)
    clock.at = datetime.fromisoformat("2026-11-26 08:00:00").timestamp()
    began = clock.at
    for _ in range(30):
        limiter.pace(10)
    assert clock.at - began == pytest.approx(28, abs=2)


def test_unlimited_hours_need_no_pause():
    clock = Clock()
    clock.at = datetime.fromisoformat("2026-11-28 12:00:00").timestamp()  # a Saturday
    limiter = RateLimiter(rates("08:00-18:00 10b/s, Sat-Sun unlimited"), clock)
    began = clock.at
    limiter.pace(10**9)
    limiter.pace(10**9)
    assert clock.at == began
    assert limiter.piece() > 10**9
