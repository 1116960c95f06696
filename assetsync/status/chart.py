"""Compute the chart of uploads by hour, as numbers for a template; style and drawing are left to the template."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from assetsync.ledger.hourly_stats import SECONDS, Hour
from assetsync.text import amount, files

_FULL = 100.0
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: its height in percent of the highest, its start and end as text, its uploads and their size."""

    height: float
    hours: str
    uploads: int
    size: str

    @property
    def text(self) -> str:
        """Return the bar in words."""
        return f"{self.hours}: {files(self.uploads)}, {self.size}"


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars from the oldest to the current hour, the sums, the highest hour and the labels of the time axis."""

    bars: tuple[Bar, ...]
    uploads: int
    size: str
    most: int
    first: str
    middle: str

    @property
    def text(self) -> str:
        """Return the chart in words, for readers who cannot see the picture."""
        return f"{files(self.uploads)} uploaded in {len(self.bars)} hours, at most {self.most:,} in one hour"


def draw(hours: Sequence[Hour]) -> Chart:
    """Return the chart of the hours; times of day are in the server's local time, as its administrator reads them."""
    most = max((hour.uploads for hour in hours), default=0)
    bars = tuple(
        Bar(
            # Keep an hour with a single upload visible beside an hour with a million.
            max(_LEAST, _FULL * hour.uploads / most) if hour.uploads else 0.0,
            f"{_clock(hour.start)}–{_clock(hour.start + SECONDS)}",  # noqa: RUF001 - a range, as it is printed
            hour.uploads,
            amount(hour.bytes),
        )
        for hour in hours
    )
    return Chart(
        bars,
        sum(hour.uploads for hour in hours),
        amount(sum(hour.bytes for hour in hours)),
        most,
        _clock(hours[0].start) if hours else "",
        _clock(hours[len(hours) // 2].start) if hours else "",
    )


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M")
