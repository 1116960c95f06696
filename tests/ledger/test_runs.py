"""Uploads are counted by the hour with the commit that records them."""

from pathlib import Path

import pytest

from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.runs import Hour, count_upload

NOON = 1_700_000_000 // 3600 * 3600.0


@pytest.fixture
def ledger(tmp_path: Path):
    opened = open_ledger(tmp_path / "site.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("uploads", "expected"),
    [
        ([], [(0, 0), (0, 0), (0, 0)]),
        ([(NOON, 5)], [(0, 0), (0, 0), (1, 5)]),
        ([(NOON, 5), (NOON + 3599.9, 7)], [(0, 0), (0, 0), (2, 12)]),
        ([(NOON - 0.1, 5), (NOON, 7)], [(0, 0), (1, 5), (1, 7)]),
        ([(NOON - 3 * 3600, 1)], [(0, 0), (0, 0), (0, 0)]),
        ([(NOON + 3600, 1)], [(0, 0), (0, 0), (0, 0)]),
    ],
    ids=["none", "one", "same hour", "hours apart", "too long ago", "from a clock that was ahead"],
)
def test_each_upload_counts_in_its_hour(ledger, uploads, expected):
    for now, size in uploads:
        ledger.store.write(lambda conn, now=now, size=size: count_upload(conn, size, now))
    found = ledger.hourly_stats.last(3, NOON + 60)
    assert found == [Hour(NOON + (n - 2) * 3600, *counted) for n, counted in enumerate(expected)]
