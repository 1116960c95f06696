"""Which messages come of which trouble, and when."""

import pytest

from assetsync.core.notices import APART, KEPT, QUIET, Kind, Teller, Trouble, trial_notice

NOW = 1_790_000_000.0


def blocked(*names: str, count: int | None = None, lingering=()) -> Trouble:
    items = {f"{name}:sidecar": f"{name} (sidecar)" for name in names}
    return Trouble(Kind.BLOCKED, items, len(names) if count is None else count, lingering=lingering)


class Day:
    """A teller and its clock; `at` gives the messages of one look, so many seconds after the beginning."""

    def __init__(self, kept: str | None = None):
        self.teller = Teller("hq", kept)

    def at(self, seconds: float, *troubles: Trouble, **patience):
        return self.teller.step(troubles, NOW + seconds, 100 + seconds, **patience)

    def texts(self, seconds: float, *troubles: Trouble, **patience):
        return [notice.text for notice in self.at(seconds, *troubles, **patience)]


@pytest.fixture
def day():
    return Day()


def test_new_trouble_is_reported_once(day):
    assert day.texts(0, blocked("a")) == []
    assert day.texts(4, blocked("a", "b")) == []
    told = "hq: 2 files are blocked: a (sidecar); b (sidecar) (assetsync status)"
    assert day.texts(6, blocked("a", "b")) == [told]
    assert [day.texts(second, blocked("a", "b")) for second in (8, 1000, 90_000)] == [[], [], []]


def test_kind_has_one_notice_per_quarter_hour(day):
    assert len(day.at(0, blocked("a"), gather=0)) == 1
    for second in range(10, int(APART), 10):
        assert day.at(second, blocked("a", *(f"n{n}" for n in range(second)))) == []
    (notice,) = day.at(APART, blocked("a", *(f"n{n}" for n in range(900))))
    assert (notice.count, notice.new, len(notice.names)) == (901, 900, 5)
    assert notice.text.startswith("hq: 901 files are blocked, 900 of them new: n0 (sidecar); n1 (sidecar);")
    assert "; and 895 more" in notice.text


def test_first_notice_counts_all_trouble(day):
    paths = Trouble(Kind.TREE, {f"unreadable d{n}": f"d{n} (Permission denied)" for n in range(100)}, 300)
    (notice,) = day.at(0, paths, gather=0)
    assert (notice.count, notice.new) == (300, 300)
    assert notice.text.startswith("hq: 300 paths of the tree cannot be read: d0 (Permission denied);")
    assert notice.text.endswith("; and 295 more (assetsync check)")


def test_kinds_do_not_hold_each_other_up(day):
    brake = Trouble(Kind.BRAKE, {"1": "the root is gone"}, 1)
    assert len(day.at(0, blocked("a"), gather=0)) == 1
    (notice,) = day.at(1, blocked("a"), brake, gather=0)
    assert notice.kind is Kind.BRAKE
    assert "the root is gone (assetsync status tells what ends it)" in notice.text


def test_end_is_reported_after_quiet_time(day):
    day.at(0, blocked("a"), gather=0)
    assert day.at(APART, blocked()) == []
    (notice,) = day.at(APART + QUIET, blocked())
    assert (notice.is_over, notice.text) == (True, "hq: what was blocked is not any more")
    assert day.at(3 * APART, blocked()) == []


def test_end_of_outage_reports_its_length(day):
    out = Trouble(Kind.OUTAGE, {"outage": "dam:443 did not answer in time"}, 1, since=NOW - 900)
    assert day.texts(0, out, gather=0) == [
        "hq: nothing is sent for 15 min: dam:443 did not answer in time (assetsync check)"
    ]
    assert day.texts(7200, Trouble(Kind.OUTAGE), quiet=0) == ["hq: the service answers again, after 2 h 15 min"]


def test_outage_of_aborted_run_has_no_length(day):
    out = Trouble(Kind.OUTAGE, {"outage": "dam:443 refused"}, 1, since=NOW - 20)
    assert day.texts(0, out, gather=0) == ["hq: nothing is sent: dam:443 refused (assetsync check)"]


def test_file_blocked_again_is_no_news(day):
    day.at(0, blocked("a"), gather=0)
    for hour in range(1, 5):
        assert day.at(hour * 3600, blocked(lingering={"a:sidecar"})) == []
        assert day.at(hour * 3600 + 90, blocked(lingering={"a:sidecar"})) == []
        assert day.at(hour * 3600 + 100, blocked("a")) == []


def test_flickering_trouble_is_one_trouble(day):
    out = Trouble(Kind.OUTAGE, {"outage": "x"}, 1)
    day.at(0, out, gather=0)
    for minute in range(20, 60):
        assert day.at(minute * 60, Trouble(Kind.OUTAGE)) == []
        assert day.at(minute * 60 + 50, out) == []


def test_repaired_file_blocked_anew_is_news(day):
    day.at(0, blocked("a", "b"), gather=0)
    assert day.at(APART, blocked("b")) == []
    (notice,) = day.at(2 * APART, blocked("a", "b"), gather=0)
    assert (notice.count, notice.new, notice.names) == (2, 1, ("a (sidecar)",))


def test_reported_trouble_survives_restart(day):
    day.at(0, blocked("a"), gather=0)
    again = Day(day.teller.kept())
    assert again.at(1, blocked("a"), gather=0) == []
    assert again.at(2, blocked("a", "b"), gather=0) == []
    (notice,) = again.at(APART, blocked("a", "b"), gather=0)
    assert notice.names == ("b (sidecar)",)


@pytest.mark.parametrize("kept", [None, "", "{}", "[]", "no json", '{"blocked": 1}', '{"odd": {}}', '{"blocked": {}}'])
def test_memory_that_cannot_be_read_is_none(kept):
    assert len(Day(kept).at(0, blocked("a"), gather=0)) == 1


def test_unknown_kind_is_not_over(day):
    day.at(0, blocked("a"), gather=0)
    assert day.at(2 * APART) == []
    assert day.at(4 * APART, blocked("a")) == []


def test_count_decides_beyond_tracking(day):
    first = [f"n{n}" for n in range(KEPT)]
    day.at(0, blocked(*first, count=5000), gather=0)
    assert day.at(APART, blocked(*first, count=4000), gather=0) == []
    (notice,) = day.at(2 * APART, blocked(*first, count=9000), gather=0)
    assert (notice.count, notice.new) == (9000, 4000)
    assert len(day.teller.keys(Kind.BLOCKED)) == KEPT


def many(first: int, end: int) -> Trouble:
    return blocked(*(f"n{n}" for n in range(first, min(first + KEPT, end))), count=end - first)


def test_all_first_trouble_is_new(day):
    (notice,) = day.at(0, many(0, 5000), gather=0)
    assert (notice.count, notice.new) == (5000, 5000)
    assert notice.text.startswith("hq: 5,000 files are blocked: n0 (sidecar); n1 (sidecar);")
    assert "; and 4,995 more" in notice.text


def test_move_into_tracked_range_is_no_news(day):
    day.at(0, many(0, 5000), gather=0)
    assert [day.at(APART + number, many(number, 5000), gather=0) for number in range(0, 4990, 10)] == [[]] * 499
    assert day.at(3 * APART, many(4990, 5000), gather=0) == []
    (notice,) = day.at(4 * APART, many(4990, 5003), gather=0)
    assert (notice.count, notice.new, notice.names[0]) == (13, 3, "n5000 (sidecar)")
    (notice,) = day.at(6 * APART, many(0, 0), quiet=0)
    assert notice.is_over


def test_growth_after_a_drop_is_news(day):
    day.at(0, many(0, 5000), gather=0)
    for second in (0, QUIET):
        assert day.at(APART + second, many(0, 3000), gather=0) == []
    (text,) = day.texts(2 * APART, many(0, 3500), gather=0)
    assert text == "hq: 3,500 files are blocked, 500 of them new (assetsync status)"


def test_clock_set_back_delays_no_notice(day):
    day.at(0, blocked("a"), gather=0)
    assert len(day.at(-90_000, blocked("a", "b"), gather=0)) == 1


def test_test_message_is_marked_as_test():
    notice = trial_notice("hq", NOW)
    assert (notice.kind, notice.is_over) == (Kind.TEST, False)
    assert "nothing is wrong" in notice.text
