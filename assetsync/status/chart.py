"""The chart of uploads by the hour, as numbers that a template can draw: no style, no script, no library."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from assetsync.ledger.hourly_stats import SECONDS, Hour
from assetsync.text import amount, files

_FULL = 100.0
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: its height of 100, the hours between which it lies, and what it says."""

    height: float
    hours: str
    uploads: int
    size: str

    @property
    def text(self) -> str:
        """Say it in words."""
        return f"{self.hours}: {files(self.uploads)}, {self.size}"


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars from the oldest to the current hour, with the sums and the highest."""

    bars: tuple[Bar, ...]
    uploads: int
    size: str
    most: int
    first: str
    middle: str

    @property
    def text(self) -> str:
        """Say it in words, for those who see no picture."""
        return f"{files(self.uploads)} uploaded in {len(self.bars)} hours, at most {self.most:,} in one hour"


def draw(hours: Sequence[Hour]) -> Chart:
    """Draw the hours; times of the day are the server's own, as its administrator reads them off the wall."""
    most = max((hour.uploads for hour in hours), default=0)
    bars = tuple(
        Bar(
            # An hour with a single upload beside one with a million is still seen.
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
