"""Times, sizes and numbers as people read them."""

import pytest

from assetsync.text import amount, moment, plural


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (3_400_000, "3.4 MB")]
)
def test_sizes_are_shown_in_config_units(size, text):
    assert amount(size) == text


def test_times_are_rfc_3339_in_utc():
    assert moment(1_795_228_000.25) == "2026-11-21T02:26:40.250Z"
    assert moment(None) is None


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 look-ups"), (1, "1 look-up"), (2, "2 look-ups"), (1234, "1,234 look-ups")]
)
def test_one_of_a_kind_is_in_the_singular(count, said):
    assert plural(count, "look-up") == said
