"""What a look at a path means, as rows."""

import pytest

from assetsync.core.decide import Change, compare, is_settled, still_same
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
def test_a_look_is_compared_with_the_current_version(seen, folder, known, expected):
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
def test_one_look_is_enough_only_when_both_times_lie_between_the_epoch_and_now_minus_settle(mtime, ctime, settled):
    assert is_settled(_stat(mtime, ctime), NOW, 5.0) is settled


@pytest.mark.parametrize("field", FileStat._fields)
def test_two_looks_agree_only_when_every_fact_does(field):
    assert still_same(BASE, BASE)
    assert not still_same(BASE, BASE._replace(**{field: 99}))
