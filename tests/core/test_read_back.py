"""What reading an asset back shows."""

import pytest

from assetsync.core.read_back import Expected, Reading, Unprocessed, compare, next_look
from assetsync.model import Asset

MD5 = "0" * 32
OTHER = "1" * 32


def _asset(size: int | None = 10, md5: str | None = MD5, folder: str = "F") -> Asset:
    return Asset("A", folder, "whatever.jpg", size, md5, "img")


@pytest.mark.parametrize(
    ("expected_md5", "asset", "reading", "named"),
    [
        (MD5, _asset(), Reading.EQUAL, ""),
        (MD5, _asset(md5=None), Reading.EQUAL, ""),
        (None, _asset(md5=OTHER), Reading.EQUAL, ""),
        (MD5, _asset(size=None), Reading.EQUAL, ""),
        (MD5, _asset(size=0, md5=None), Reading.NOT_YET, "not processed"),
        (MD5, _asset(size=None, md5=None), Reading.NOT_YET, "not processed"),
        (MD5, _asset(md5=OTHER), Reading.DIFFERENT, OTHER),
        (MD5, _asset(size=11), Reading.DIFFERENT, "11 bytes"),
        (MD5, _asset(size=11, md5=None), Reading.DIFFERENT, "11 bytes"),
        (MD5, _asset(folder="G"), Reading.MOVED, "folder G"),
        (MD5, _asset(md5=OTHER, folder="G"), Reading.DIFFERENT, OTHER),
        (MD5, _asset(size=0, md5=None, folder="G"), Reading.NOT_YET, "not processed"),
    ],
)
def test_asset_is_compared_by_returned_facts(expected_md5, asset, reading, named):
    found, difference = compare(Expected("F", 10, expected_md5), asset)
    assert found is reading
    assert named in difference


@pytest.mark.parametrize(("waited", "longest", "seconds"), [(0, 60, 0.5), (3, 60, 1), (90, 60, 30), (9000, 60, 60)])
def test_look_interval_grows_with_age(waited, longest, seconds):
    assert next_look(waited, longest) == seconds


@pytest.mark.parametrize(("longest", "seconds"), [(60, 10), (5, 5)])
def test_clock_set_back_causes_no_look_storm(longest, seconds):
    assert next_look(-3600, longest) == seconds


PATIENCE = 6 * 3600.0


def _looks(*times: float) -> Unprocessed:
    """Look at an unprocessed asset at these times, the first of them first."""
    seen = Unprocessed.first(times[0])
    for at in times[1:]:
        seen = seen.again(at, PATIENCE)
    return seen


@pytest.mark.parametrize(
    ("times", "is_never"),
    [
        # Looked at each five minutes for six hours, and for a minute less.
        ([n * 300.0 for n in range(73)], True),
        ([n * 299.0 for n in range(73)], False),
        # Looked at each hour, or each night.
        ([n * 3600.0 for n in range(11)], True),
        ([n * 3600.0 for n in range(10)], False),
        ([n * 86400.0 for n in range(11)], True),
        # Two hours of look-ups, and a clock that is set forward by a day.
        ([*(n * 60.0 for n in range(120)), 90_000.0, 90_060.0], False),
        # A clock that is set forward at each look-up but for one.
        ([0.0, *(n * 86400.0 for n in range(1, 10))], False),
    ],
)
def test_never_processed_needs_time_and_spaced_looks(times, is_never):
    assert _looks(*times).is_never(times[-1], PATIENCE) is is_never


def test_clock_set_back_begins_the_wait_anew():
    seen = _looks(*(1e6 + n * 3600.0 for n in range(11)), 5e5)
    assert seen == Unprocessed.first(5e5)


def test_clock_set_back_by_little_counts_one_look():
    seen = _looks(0.0, 4000.0, 3000.0, 3001.0)
    assert (seen.since, seen.looks) == (0.0, 2)
