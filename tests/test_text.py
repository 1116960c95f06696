"""Times, sizes and numbers as people read them."""

import shlex

import pytest

from assetsync.text import amount, moment, plural, quoted


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


@pytest.mark.parametrize("name", ["plain.jpg", "a b.jpg", "it's.jpg", "-n", "$HOME; x", "é"])
def test_quoted_path_is_one_word_of_a_shell(name):
    assert shlex.split(quoted(name.encode())) == [f"./{name}" if name.startswith("-") else name]
