"""The chart: heights of a hundred, in words too."""

import re

import pytest

from assetsync.ledger.runs import Hour
from assetsync.status.page import draw


@pytest.mark.parametrize(
    ("uploads", "heights"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([5], [100]),
        ([1, 2, 4], [25, 50, 100]),
        ([1, 0, 1_000_000], [2, 0, 100]),
    ],
    ids=["nothing", "one hour", "shares", "one beside a million is seen"],
)
def test_the_highest_hour_is_a_hundred(uploads, heights):
    chart = draw([Hour(3600.0 * n, count, 10 * count) for n, count in enumerate(uploads)])
    assert [bar.height for bar in chart.bars] == heights
    assert (chart.uploads, chart.most) == (sum(uploads), max(uploads))


def test_it_says_in_words_what_it_shows():
    chart = draw([Hour(0.0, 1, 5), Hour(3600.0, 1200, 2_000_000)])
    assert chart.text == "1,201 files uploaded in 2 hours, at most 1,200 in one hour"
    assert re.fullmatch(r"\d\d:\d\d.\d\d:\d\d: 1,200 files, 2.0 MB", chart.bars[1].text)


def test_page_has_a_scale_beside_the_chart(shown):
    world = shown.world
    for number in range(3):
        world.write(f"{number}", b"x" * (number + 1))
    world.scan_and_send()
    scale = '<p class="scale" aria-hidden="true"><span>3</span><span>0</span></p>\n<svg class="chart"'
    assert scale in shown.page()
