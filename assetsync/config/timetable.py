"""Read `upload.rate` and `upload.window`: values by the hour and the day of the week, in local time.

An entry has days, hours or both, then its value: `Mon-Fri 08:00-18:00 2MB/s`. Entries are separated by commas; the last
one may be `else VALUE`. Hours past midnight belong to the day on which they begin. Entries with days go before the
others; of several that apply the first counts. The text is never quoted, because it may be a secret in the wrong place.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta

from assetsync.config.values import SIZE, rate
from assetsync.errors import Unusable

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = r"[A-Za-z]{3}(?:\s*-\s*[A-Za-z]{3})?(?![A-Za-z])"
_HOURS = r"[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}"
_WHEN = rf"(?:{_DAY}(?:\s+{_HOURS})?|{_HOURS})"
_RATE = rf"(?:{SIZE.pattern}\s*/\s*s|unlimited)"
WINDOW = rf"{_WHEN}(?:\s*,\s*{_WHEN})*"
"""The pattern of `upload.window`."""
RATE = rf"(?:(?:else|{_WHEN})\s+)?{_RATE}(?:\s*,\s*(?:else|{_WHEN})\s+{_RATE})*"
"""The pattern of `upload.rate`."""
_ENTRY = re.compile(rf"(?:(else)\b|({_DAY})?\s*({_HOURS})?)\s*(.*)", re.ASCII | re.IGNORECASE)
_EVERY_DAY = frozenset(range(7))
_TWO_WEEKS = 15
"""Days within which every hour of a week comes, also if it is over today, or if a clock that is changed skips it."""
_HALF_HOUR = 1800
"""Seconds. A clock is changed at a full half hour, and an hour that it skips begins then."""

Value = float | None
_WINDOW_FIX = 'write it such as "19:00-07:00" or "Mon-Fri 19:00-07:00, Sat-Sun", or null to send at any time'
_RATE_FIX = 'write it such as 20MB/s or "08:00-18:00 2MB/s, Sat-Sun unlimited, else 20MB/s", or null for no limit'


@dataclass(frozen=True, slots=True)
class Entry:
    """A value on these days (0 is Monday) from `start` to before `end`; the whole day if both are midnight."""

    days: frozenset[int]
    start: time
    end: time
    value: Value

    def applies(self, here: datetime) -> bool:
        """Return whether the entry applies at a local time."""
        at, day = here.time(), here.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= at < self.end
        return (day in self.days and at >= self.start) or ((day - 1) % 7 in self.days and at < self.end)


@dataclass(frozen=True, slots=True)
class Timetable:
    """The value at each time, in bytes a second; None is no limit, 0 is not at all. `text` is what was written."""

    text: str = field(compare=False)
    entries: tuple[Entry, ...]
    otherwise: Value

    def at(self, now: float) -> Value:
        """Return the value at a time, in seconds since the epoch."""
        if not self.entries:
            return self.otherwise
        here = datetime.fromtimestamp(now)  # noqa: DTZ006 - hours are local
        return next((entry.value for entry in self.entries if entry.applies(here)), self.otherwise)

    def opens(self, now: float) -> float | None:
        """Return when files may be sent again, in seconds since the epoch; None if they may be sent now."""
        if self.at(now) != 0:
            return None
        hours = (at for entry in self.entries for at in occurrences(now, entry.start, _TWO_WEEKS))
        full = range(int(now // _HALF_HOUR) * _HALF_HOUR, int(now) + _TWO_WEEKS * 86_400, _HALF_HOUR)
        return next(at for at in sorted({*hours, *map(float, full)}) if at > now and self.at(at) != 0)


def occurrences(now: float, at: time, days: int) -> Iterator[float]:
    """Yield when a local time comes on this day and the following ones, in seconds since the epoch.

    A time that a change of the clock repeats comes twice.
    """
    today = datetime.fromtimestamp(now).date()  # noqa: DTZ006 - hours are local
    for day in range(days + 1):
        first = datetime.combine(today + timedelta(days=day), at)
        yield from sorted({first.timestamp(), first.replace(fold=1).timestamp()})


def window(value: object) -> Timetable:
    """Return the timetable of `19:00-07:00`: no limit in these hours, 0 at any other time."""
    return value if isinstance(value, Timetable) else _timetable(value, _WINDOW_FIX, has_rates=False)


def rates(value: object) -> Timetable:
    """Return the timetable of `20MB/s`, or of a rate for each time; there is no limit at a time that is not named."""
    if isinstance(value, Timetable):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if isinstance(value, int) or ("," not in text and not any(_parts(text)[:3])):
        return Timetable(text, (), rate(value))
    return _timetable(value, _RATE_FIX, has_rates=True)


def _timetable(value: object, fix: str, *, has_rates: bool) -> Timetable:
    text = value.strip() if isinstance(value, str) else ""
    parts = [_parts(part) for part in text.split(",")]
    entries: list[Entry] = []
    otherwise: Value = None if has_rates else 0
    for number, part in enumerate(parts, start=1):
        try:
            if has_rates and part[0] and number == len(parts):
                otherwise = _value(part[3], fix)
            else:
                entries.append(_entry(*part, fix, has_rates=has_rates))
        except Unusable as error:
            which = "it" if len(parts) == 1 else f"entry {number}"
            raise Unusable(f"{which} {error.problem}", error.hint) from error
    return Timetable(text, tuple(sorted(entries, key=lambda entry: entry.days == _EVERY_DAY)), otherwise)


def _entry(is_else: str, days: str, hours: str, rest: str, fix: str, *, has_rates: bool) -> Entry:
    if is_else and has_rates:
        raise Unusable("is else, which must be the last one", fix)
    if not (days or hours):
        raise Unusable("names neither days nor hours", fix)
    if rest and not has_rates:
        raise Unusable("holds more than days and hours", fix)
    return Entry(_days(days, fix), *_hours(hours, fix), _value(rest, fix) if has_rates else None)


def _parts(entry: str) -> tuple[str, str, str, str]:
    """Return the `else`, the days, the hours and the rest of an entry, each "" if it is missing."""
    found = _ENTRY.fullmatch(entry.strip())
    return ("", "", "", "x") if found is None else (found[1] or "", found[2] or "", found[3] or "", found[4])


def _days(text: str, fix: str) -> frozenset[int]:
    names = [name.strip().lower() for name in text.split("-")] if text else [_DAYS[0], _DAYS[-1]]
    if not set(names) <= set(_DAYS):
        raise Unusable("has a day that is none of Mon, Tue, Wed, Thu, Fri, Sat and Sun", fix)
    first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
    return frozenset((first + each) % 7 for each in range((last - first) % 7 + 1))


def _hours(text: str, fix: str) -> tuple[time, time]:
    if not text:
        return time(0), time(0)
    start, end = (part.strip() for part in text.split("-"))
    try:
        # People write 24:00 for the end of a day.
        hours = time_of_day(start), time(0) if end == "24:00" else time_of_day(end)
    except ValueError as error:
        raise Unusable("holds an invalid time", fix) from error
    if hours[0] == hours[1] and end != "24:00":
        raise Unusable("begins and ends at the same time", fix)
    return hours


def time_of_day(text: str) -> time:
    """Return the time that `7:30` means. Raise ValueError."""
    hour, _, minute = text.partition(":")
    return time(int(hour), int(minute))


def _value(text: str, fix: str) -> Value:
    if text.lower() == "unlimited":
        return None
    try:
        return rate(text)
    except Unusable as error:
        problem = error.problem.replace("it must be", "has a rate that is not") if text else "has no rate"
        raise Unusable(problem, fix) from error
