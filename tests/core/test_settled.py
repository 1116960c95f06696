"""What a look at a path means, as rows."""

import pytest

from assetsync.core.settled import (
    HOUR,
    Change,
    PastUpload,
    Rest,
    compare,
    is_settled,
    rest_after,
    unchanged_for,
)
from assetsync.model import FileStat

NOW = 1_000_000.0
BASE = FileStat(size=10, mtime_ns=5, ctime_ns=6, inode=7)


@pytest.mark.parametrize(
    ("seen", "folder", "known", "expected"),
    [
        (BASE, "F", None, Change.NEW),
        (BASE, "F", BASE, Change.UNCHANGED),
        (BASE._replace(size=11), "F", BASE, Change.CHANGED),
        (BASE._replace(mtime_ns=6), "F", BASE, Change.CHANGED),
        (BASE._replace(mtime_ns=4), "F", BASE, Change.CHANGED),
        (BASE._replace(inode=8), "F", BASE, Change.TOUCHED),
        (BASE._replace(ctime_ns=9), "F", BASE, Change.TOUCHED),
        (BASE, "G", BASE, Change.REMAPPED),
        (BASE._replace(inode=8), "G", BASE, Change.REMAPPED),
        (BASE._replace(size=11), "G", BASE, Change.CHANGED),
    ],
)
def test_look_is_compared_with_version(seen, folder, known, expected):
    assert compare(seen, folder, known, "F" if known else None) is expected


def _stat(mtime: float, ctime: float) -> FileStat:
    return FileStat(1, int(mtime * 1e9), int(ctime * 1e9), 1)


@pytest.mark.parametrize(
    ("mtime", "ctime", "settled"),
    [
        (NOW - 5, NOW - 5, True),
        (NOW - 4.9, NOW - 60, False),
        (NOW - 60, NOW - 4.9, False),
        (NOW + 60, NOW - 60, False),
        (NOW - 60, NOW + 60, False),
        (-1, NOW - 60, False),
        (0, NOW - 60, True),
    ],
)
def test_one_look_settles_plausible_times(mtime, ctime, settled):
    assert is_settled(_stat(mtime, ctime), NOW, 5.0) is settled


def _whole(*ages: float) -> list[PastUpload]:
    return [PastUpload(NOW - age) for age in ages]


def _cut(*ages: float) -> list[PastUpload]:
    return [PastUpload(NOW - age, is_cut=True) for age in ages]


@pytest.mark.parametrize(
    ("uploads", "rest"),
    [
        ([], Rest(5)),
        (_whole(1), Rest(5)),
        (_whole(2, 1), Rest(10)),
        (_whole(3, 2, 1), Rest(20)),
        (_whole(3601, 1), Rest(5)),
        (_whole(7000, 3500, 1), Rest(10)),
        (_cut(1), Rest(10)),
        (_cut(2, 1), Rest(20)),
        (_cut(3, 2, 1), Rest(HOUR, is_blocked=True)),
        (_cut(90_000, 60_000, 30_000), Rest(HOUR, is_blocked=True)),
        (_cut(4, 3) + _whole(2) + _cut(1), Rest(40)),
        (_cut(3, 2) + _whole(1), Rest(20)),
        (_cut(3602, 3601), Rest(10)),
        (_cut(90_000, 89_999), Rest(5)),
        (_whole(*range(40, 0, -1)), Rest(HOUR)),
        (_whole(*range(3640, 3600, -1)), Rest(1800)),
        # By a clock that was set back since.
        (_whole(-9000, -9001), Rest(10)),
        (_cut(-9000), Rest(10)),
    ],
)
def test_the_rest_after_uploads(uploads, rest):
    assert rest_after(uploads, 5.0, NOW) == rest


def test_a_longer_settle_is_kept():
    assert rest_after(_whole(2, 1), 7200.0, NOW) == Rest(7200)
    assert rest_after(_whole(3, 2, 1), 0.0, NOW) == Rest(0)


@pytest.mark.parametrize(
    ("written", "queued", "uploads", "seconds"),
    [
        (NOW - 60, NOW - 10, [], 60),
        (NOW + 60, NOW - 10, [], 10),
        (NOW - 60, NOW + 10, [], 60),
        (NOW + 60, NOW + 10, [], float("inf")),
        (-60, NOW - 10, [], 90_000),
        (NOW - 3600, NOW - 10, _cut(20), 20),
        (NOW - 60, NOW - 10, _whole(20), 60),
        (NOW - 60, NOW - 10, _cut(-20), 60),
    ],
)
def test_for_how_long_a_version_has_rested(written, queued, uploads, seconds):
    assert unchanged_for(_stat(written, NOW - 9e4), queued, uploads, NOW) == seconds
