"""How long a pause by a person lasts, by two clocks."""

import pytest

from assetsync.core.pauses import SITE, OperatorPause

NOW = 1_000_000.0
ASKED = OperatorPause(b"photos", "ann", "", NOW, NOW + 100, 100.0, "boot-1", 500.0)


@pytest.mark.parametrize(
    ("now", "steady", "boot", "is_over"),
    [
        (NOW + 99, 599.0, "boot-1", False),
        (NOW + 100, 600.0, "boot-1", True),
        (NOW + 40, 540.0, "boot-1", False),
        # The clock was set back, or forward.
        (NOW - 3_500, 599.0, "boot-1", False),
        (NOW - 3_500, 600.0, "boot-1", True),
        (NOW + 3_600, 510.0, "boot-1", True),
        # After a boot, only the wall clock and what was left count.
        (NOW + 60, 5.0, "boot-2", False),
        (NOW + 100, 5.0, "boot-2", True),
    ],
)
def test_pause_ends_by_the_first_of_two_clocks(now, steady, boot, is_over):
    assert ASKED.counted(now, steady, boot).is_over(now) is is_over


def test_clock_set_back_at_a_boot_lengthens_nothing():
    counted = ASKED.counted(NOW + 60, 560.0, "boot-1")
    booted = counted.counted(NOW - 3_600, 5.0, "boot-2")
    assert booted.left == pytest.approx(40)
    assert booted.counted(NOW - 3_561, 44.0, "boot-2").is_over(NOW - 3_561) is False
    assert booted.counted(NOW - 3_560, 45.0, "boot-2").is_over(NOW - 3_560) is True


def test_clock_that_was_ahead_for_a_while_shortens_nothing():
    ahead = ASKED.counted(NOW + 90, 510.0, "boot-1")
    assert ahead.counted(NOW + 20, 520.0, "boot-1").left == pytest.approx(80)


def test_time_at_a_boot_bounds_the_pause():
    booted = ASKED.counted(NOW + 70, 5.0, "boot-2")
    assert booted.counted(NOW - 1_000, 35.0, "boot-2").is_over(NOW - 1_000) is True


def test_pause_without_an_end_lasts():
    endless = OperatorPause(SITE, "ann", "", NOW)
    assert endless.counted(NOW + 10**9, 10.0**9, "boot-9").is_over(NOW + 10**9) is False
    assert endless.ends_at(NOW) is None


def test_end_is_shown_on_the_clock_set_back():
    assert (ASKED.ends_at(NOW), ASKED.ends_at(NOW - 3_600)) == (NOW + 100, NOW - 3_500)


@pytest.mark.parametrize(
    ("paused", "path", "covers"),
    [
        (b"", b"photos/a.jpg", True),
        (b"photos", b"photos/a.jpg", True),
        (b"photos", b"photos/2026/a.jpg", True),
        (b"photos", b"photos2/a.jpg", False),
        (b"photos/2026", b"photos/a.jpg", False),
        (b"photos/a.jpg", b"photos/a.jpg", True),
    ],
)
def test_pause_covers_what_is_below_its_path(paused, path, covers):
    assert ASKED._replace(path=paused).covers(path) is covers
