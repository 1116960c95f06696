"""The values of `upload.rate` and `upload.window` by the hour and the day of the week."""

from datetime import UTC, datetime
from time import tzset

import pytest

from assetsync.config.timetable import rates, window
from assetsync.errors import Unusable

MB = 1_000_000


def at(text):
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def in_oslo(monkeypatch):
    """Let the local time be one with changes of the clock, on 29 March and 25 October 2026."""
    monkeypatch.setenv("TZ", "Europe/Oslo")
    tzset()
    yield
    monkeypatch.undo()
    tzset()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("19:00-07:00", ["19:00", "23:59", "00:00", "06:59"], ["07:00", "12:00", "18:59"]),
        ("7:30-19:00", ["07:30", "18:59"], ["07:29", "19:00", "00:00"]),
        ("18:00-24:00", ["18:00", "23:59"], ["00:00", "17:59"]),
        ("00:00-24:00", ["00:00", "23:59"], []),
        ("12:00-13:00, 19:00-20:00", ["12:30", "19:30"], ["13:00", "18:59"]),
    ],
)
def test_window_is_open_from_begin_to_end(text, inside, outside):
    hours = window(text)
    assert [time for time in inside if hours.at(at(f"2026-03-05 {time}")) == 0] == []
    assert [time for time in outside if hours.at(at(f"2026-03-05 {time}")) is None] == []


@pytest.mark.parametrize(
    ("text", "now", "opens"),
    [
        ("19:00-07:00", "2026-03-05 12:30:00", "2026-03-05 19:00:00"),
        ("07:30-19:00", "2026-03-05 19:00:00", "2026-03-06 07:30:00"),
        ("07:30-19:00", "2026-12-31 06:59:59", "2026-12-31 07:30:00"),
        ("07:30-19:00", "2026-12-31 23:59:00", "2027-01-01 07:30:00"),
        ("19:00-07:00", "2026-03-05 06:59:00", None),
        ("Sat-Sun", "2026-03-05 06:59:00", "2026-03-07 00:00:00"),
        ("Thu 06:00-07:00", "2026-03-05 07:00:00", "2026-03-12 06:00:00"),
        ("Sat-Sun, 19:00-20:00", "2026-03-06 20:00:00", "2026-03-07 00:00:00"),
    ],
)
def test_when_the_window_opens_next(text, now, opens):
    assert window(text).opens(at(now)) == (opens and at(opens))


@pytest.mark.parametrize(
    ("now", "value"),
    [
        ("2026-03-05 10:00", 2 * MB),
        ("2026-03-05 18:00", 20 * MB),
        ("2026-03-07 10:00", None),
        ("2026-03-08 23:59", None),
        ("2026-03-09 00:00", 20 * MB),
        ("2026-03-09 08:00", 2 * MB),
    ],
)
def test_days_go_before_hours_alone(now, value):
    assert rates("08:00-18:00 2MB/s, Sat-Sun unlimited, else 20MB/s").at(at(now)) == value


def test_night_belongs_to_the_day_it_begins():
    hours = window("Fri 22:00-06:00")
    assert [hours.at(at(f"2026-03-{time}")) for time in ("06 22:00", "07 05:59")] == [None, None]
    assert [hours.at(at(f"2026-03-{time}")) for time in ("06 05:59", "07 06:00", "07 22:00")] == [0, 0, 0]


def test_days_may_pass_the_end_of_the_week():
    hours = window("Sat-Mon")
    assert [hours.at(at(f"2026-03-{day} 12:00")) for day in ("06", "07", "08", "09", "10")] == [0, None, None, None, 0]


def test_first_entry_that_applies_counts():
    times = rates("08:00-10:00 1MB/s, 09:00-11:00 2MB/s")
    assert [times.at(at(f"2026-03-05 {time}")) for time in ("09:30", "10:30", "11:30")] == [MB, 2 * MB, None]


def test_plain_rate_holds_at_any_time():
    assert rates("20MB/s").at(0) == rates(20 * MB).at(10**9) == 20 * MB


@pytest.mark.usefixtures("in_oslo")
def test_window_in_repeated_hour_opens_later():
    second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp()
    assert window("02:15-02:45").opens(second) == second + 5 * 60


@pytest.mark.usefixtures("in_oslo")
def test_window_in_repeated_hour_opens_twice():
    first = datetime(2026, 10, 25, 0, 50, tzinfo=UTC).timestamp()
    assert window("02:15-02:45").opens(first) == datetime(2026, 10, 25, 1, 15, tzinfo=UTC).timestamp()


@pytest.mark.usefixtures("in_oslo")
def test_window_that_begins_in_skipped_hour_opens():
    before = datetime(2026, 3, 29, 0, 30, tzinfo=UTC).timestamp()
    assert window("02:30-05:00").opens(before) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC).timestamp()


@pytest.mark.usefixtures("in_oslo")
def test_skipped_window_opens_a_week_later():
    before = datetime(2026, 3, 29, 0, 30, tzinfo=UTC).timestamp()
    assert window("Sun 02:15-02:45").opens(before) == datetime(2026, 4, 5, 0, 15, tzinfo=UTC).timestamp()


@pytest.mark.usefixtures("in_oslo")
def test_night_with_a_clock_change_is_whole():
    for day, month in ((25, 10), (29, 3)):
        begin, end = at(f"2026-{month:02}-{day - 1:02} 22:00"), at(f"2026-{month:02}-{day:02} 06:00")
        hours = window("22:00-06:00")
        assert all(hours.at(time) is None for time in range(int(begin), int(end), 600))
        assert (hours.at(begin - 1), hours.at(end)) == (0, 0)


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (window, "7-19", "it names neither days nor hours"),
        (window, "7:00-25:00", "it holds an invalid time"),
        (window, "7:00-7:00", "it begins and ends at the same time"),
        (window, "19:00-07:00 2MB/s", "it holds more than days and hours"),
        (window, "19:00-07:00, else", "entry 2 names neither days nor hours"),
        (window, "Mon-Fry", "it has a day that is none of Mon, Tue, Wed, Thu, Fri, Sat and Sun"),
        (rates, "fast", "it must be a size a second"),
        (rates, "0MB/s", "it must be a size of at least one byte"),
        (rates, "08:00-18:00", "it has no rate"),
        (rates, "08:00-18:00 2MB/s, else", "entry 2 has no rate"),
        (rates, "08:00-18:00 2MB/s, 20MB/s", "entry 2 names neither days nor hours"),
        (rates, "else 2MB/s, Sat-Sun unlimited", "entry 1 is else, which must be the last one"),
        (rates, "Sat 2MB", "it has a rate that is not a size a second"),
        (rates, "Sat 2MB/s,", "entry 2 names neither days nor hours"),
    ],
)
def test_mistake_names_its_entry(read, text, problem):
    with pytest.raises(Unusable) as caught:
        read(text)
    assert caught.value.problem == problem


def test_mistake_does_not_quote_the_text():
    for read in (window, rates):
        with pytest.raises(Unusable) as caught:
            read("08:00-18:00 secret, else 2MB/s")
        assert "secret" not in str(caught.value)
