"""Read when regular work is due: an interval, a cron line, or off.

A cron line means the same as in cron: the weekdays 0 and 7 are Sunday, and if both the day of the month and the weekday
are restricted, either is enough. APScheduler counts from Monday and requires both. Therefore a line is split here and
passed on as lists of numbers and names that need no translation. Creating triggers is left to the caller.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from assetsync.config.document.fields import FLAGS
from assetsync.config.values import duration
from assetsync.errors import Unusable

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS_IN = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?", re.ASCII)
_FIX = 'write an interval such as 1h, a cron line such as "0 3 * * sun", or off'


@dataclass(frozen=True, slots=True)
class Interval:
    """A repetition every `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cron:
    """A five-field cron line, local time, with every field expanded.

    `days` or `weekdays` is None if its field is `*`.
    """

    line: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    days: tuple[int, ...] | None
    weekdays: tuple[str, ...] | None
    either_day: bool

    def triggers(self) -> tuple[dict[str, str], ...]:
        """Return the keyword arguments of a CronTrigger of APScheduler 3, or of two if either is enough."""
        base = {"minute": _listed(self.minutes), "hour": _listed(self.hours), "month": _listed(self.months)}
        day = {} if self.days is None else {"day": _listed(self.days)}
        weekday = {} if self.weekdays is None else {"day_of_week": ",".join(self.weekdays)}
        return (base | day, base | weekday) if self.either_day else (base | day | weekday,)


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        if text in self.names:
            return self.first + self.names.index(text)
        if not text.isdigit() or not self.first <= int(text) <= self.last:
            raise Unusable(f"its {self.name} is not between {self.first} and {self.last}", _FIX)
        return int(text)

    def numbers(self, text: str) -> tuple[int, ...]:
        """Return all numbers that a field of a line stands for."""
        found: set[int] = set()
        for part in text.split(","):
            match = _PART.fullmatch(part)
            step = int(match[4]) if match and match[4] else 1
            if not match or step == 0:
                raise Unusable(f"its {self.name} is not valid in a cron line", _FIX)
            first = self.first if match[1] else self.number(match[2])
            last = self.number(match[3]) if match[3] else self.last if match[1] or match[4] else first
            if last < first:
                raise Unusable(f"its {self.name} ends before it begins", _FIX)
            found.update(range(first, last + 1, step))
        return tuple(sorted(found))


_MINUTE, _HOUR, _DAY = _Field("minute", 0, 59), _Field("hour", 0, 23), _Field("day of the month", 1, 31)
_MONTH, _WEEKDAY = _Field("month", 1, 12, _MONTHS), _Field("weekday", 0, 7, _WEEKDAYS)
_FIELDS = 5


def cron(line: str) -> Cron:
    """Return the meaning of a five-field cron line; names of months and weekdays have three letters. Raise Unusable."""
    fields = line.lower().split()
    if len(fields) != _FIELDS:
        raise Unusable("it is not an interval, and a cron line has five fields", _FIX)
    minute, hour, day, month, weekday = fields
    months, days = _MONTH.numbers(month), _DAY.numbers(day)
    # As in cron: a field that begins with a star does not restrict, and then the other field must match as well.
    either_day = not day.startswith("*") and not weekday.startswith("*")
    if not either_day and min(days) > max(_DAYS_IN[number - 1] for number in months):
        raise Unusable("none of its months has this day", _FIX)
    weekdays = sorted({number % 7 for number in _WEEKDAY.numbers(weekday)})
    return Cron(
        line=" ".join(fields),
        minutes=_MINUTE.numbers(minute),
        hours=_HOUR.numbers(hour),
        months=months,
        days=None if day == "*" else days,
        weekdays=None if weekday == "*" else tuple(_WEEKDAYS[number] for number in weekdays),
        either_day=either_day,
    )


def due(value: object) -> Interval | Cron | None:
    """Return the meaning of an interval, a cron line, or off (None)."""
    if value is None or isinstance(value, Interval | Cron):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if FLAGS.get(text.lower()) is False:
        return None
    if len(text.split()) > 1:
        return cron(text)
    try:
        seconds = duration(text)
    except Unusable as exc:
        raise Unusable("it is neither an interval, a cron line nor off", _FIX) from exc
    if not seconds:
        raise Unusable("an interval must be longer than 0", _FIX)
    return Interval(seconds)


Due = Annotated[
    Interval | Cron | None, BeforeValidator(due), WithJsonSchema({"anyOf": [{"type": "string"}, {"const": False}]})
]
