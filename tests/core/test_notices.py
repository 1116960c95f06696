"""Which notices follow from which problems, and when."""

import pytest

from assetsync.core.notices import APART, AT_ONCE, DELAYS, KEPT, Kind, NoticeTracker, Problem, trial_notice

NOW = 1_790_000_000.0
QUIET = DELAYS.quiet
AGAIN = "tried again at least every minute, and sending then resumes"


def blocked(*names: str, count: int | None = None) -> Problem:
    items = {f"{name}:sidecar": f"{name} (sidecar)" for name in names}
    return Problem(Kind.BLOCKED, items, len(names) if count is None else count)


def many(first: int, end: int) -> Problem:
    return blocked(*(f"n{n}" for n in range(first, min(first + KEPT, end))), count=end - first)


def outage(since: float, key="outage") -> Problem:
    return Problem(Kind.OUTAGE, {key: "dam:443 refused"}, 1, {key: since})


class Day:
    """A tracker and its clock; `at` returns the notices of one step, so many seconds after the beginning."""

    def __init__(self, saved: str | None = None):
        self.tracker = NoticeTracker("hq")
        self.tracker.load(saved)

    def at(self, seconds: float, *problems: Problem, delays=DELAYS):
        return self.tracker.step(problems, NOW + seconds, 100_000 + seconds, delays)

    def now(self, seconds: float, *problems: Problem):
        return self.at(seconds, *problems, delays=AT_ONCE)

    def texts(self, *step):
        return [notice.text for notice in self.at(*step)]


@pytest.fixture
def day():
    return Day()


def test_gathered_problem_is_reported_once(day):
    assert day.texts(0, blocked("a")) == []
    assert day.texts(4, blocked("a", "b")) == []
    told = "hq: 2 files are blocked: a (sidecar); b (sidecar) (assetsync status)"
    assert day.texts(6, blocked("a", "b")) == [told]
    assert [day.texts(second, blocked("a", "b")) for second in (8, 1000, 90_000)] == [[], [], []]


def test_kind_has_one_notice_per_quarter_hour(day):
    assert len(day.now(0, blocked("a"))) == 1
    for second in range(10, int(APART), 10):
        assert day.at(second, blocked("a", *(f"n{n}" for n in range(second)))) == []
    (notice,) = day.at(APART, blocked("a", *(f"n{n}" for n in range(900))))
    assert (notice.count, notice.new, len(notice.names)) == (901, 900, 5)
    assert notice.text.startswith("hq: 901 files are blocked, 900 of them new: n0 (sidecar); n1 (sidecar);")
    assert "; and 895 more" in notice.text


def test_kinds_do_not_delay_each_other(day):
    brake = Problem(Kind.BRAKE, {"1": "the root is gone"}, 1)
    assert len(day.now(0, blocked("a"))) == 1
    (notice,) = day.now(1, blocked("a"), brake)
    assert notice.kind is Kind.BRAKE
    assert "the root is gone (`assetsync status` shows what ends it)" in notice.text


def test_end_is_reported_at_once(day):
    """A scan or a person has ended it; the quarter of an hour delays begins only."""
    day.now(0, blocked("a"))
    (notice,) = day.at(10, blocked())
    assert (notice.is_over, notice.text) == (True, "hq: no file is blocked any longer")
    assert day.at(3 * APART, blocked()) == []


@pytest.mark.parametrize("kind", [Kind.OUTAGE, Kind.DOUBTS, Kind.LEDGER, Kind.ENDED])
def test_recurring_kind_ends_after_a_minute(day, kind):
    day.now(0, Problem(kind, {"a": "it fails"}, 1))
    assert [day.at(second, Problem(kind)) for second in (10, 10 + QUIET - 1)] == [[], []]
    assert [notice.is_over for notice in day.at(10 + QUIET, Problem(kind))] == [True]


def test_end_does_not_delay_the_next_begin(day):
    """Only begins are a quarter of an hour apart."""
    day.now(0, blocked("a"))
    assert [notice.is_over for notice in day.at(APART - 1, blocked())] == [True]
    assert [notice.is_over for notice in day.now(APART, blocked("b"))] == [False]


def test_new_begin_soon_after_an_end_waits(day):
    day.now(0, blocked("a"))
    day.at(10, blocked())
    assert [day.at(second, blocked("b")) for second in (20, 30, APART - 1)] == [[], [], []]
    assert [notice.names for notice in day.at(APART, blocked("b"))] == [("b (sidecar)",)]


def test_outage_is_reported_once_it_lasts(day):
    since = 100_000.0
    assert day.texts(899, outage(since)) == []
    begun = f"hq: nothing is sent for 15 min: dam:443 refused; {AGAIN} (assetsync check)"
    assert day.texts(900, outage(since)) == [begun]
    assert day.texts(7200, Problem(Kind.OUTAGE)) == []
    assert day.texts(7260, Problem(Kind.OUTAGE)) == ["hq: the service answers again, after 2 h 1 min"]


def test_stop_by_doubts_is_reported_after_a_minute(day):
    doubts = Problem(Kind.DOUBTS, {"doubts": "16 uploads in doubt"}, 1)
    assert [day.texts(second, doubts) for second in (0, 59)] == [[], []]
    assert day.texts(60, doubts) == ["hq: uploads in doubt stop sending: 16 uploads in doubt (assetsync doubt list)"]
    assert day.texts(1000, Problem(Kind.DOUBTS)) == []
    assert day.texts(1060, Problem(Kind.DOUBTS)) == ["hq: uploads in doubt no longer stop sending, after 18 min"]


def test_short_outage_is_not_reported(day):
    """A second outage is measured from its own begin."""
    assert [day.at(second, outage(100_000 + second - second % 600)) for second in range(0, 4000, 20)] == [[]] * 200


def test_young_outage_of_a_folder_waits(day):
    """A folder that fails for a minute is not reported beside another that fails for long."""
    day.now(0, outage(100_000, "F1"))
    both = Problem(Kind.OUTAGE, {"F1": "x", "F2": "y"}, 2, {"F1": 100_000.0, "F2": 101_000.0})
    assert day.at(1060, both) == []
    (notice,) = day.at(1900, both)
    assert (notice.count, notice.new, notice.names) == (2, 1, ("y",))


def test_outage_of_aborted_run_has_no_length(day):
    (notice,) = day.now(0, outage(99_980))
    assert notice.text == f"hq: nothing is sent: dam:443 refused; {AGAIN} (assetsync check)"


def test_reported_outage_outlasts_a_restart(day):
    day.now(0, outage(100_000))
    again = Day(day.tracker.saved())
    assert [again.at(second, outage(103_000)) for second in range(3000, 5000, 20)] == [[]] * 100
    (notice,) = [notice for second in (5000, 5060) for notice in again.at(second, Problem(Kind.OUTAGE))]
    assert notice.text == "hq: the service answers again, after 1 h 24 min"


def test_flickering_problem_is_one_problem(day):
    day.now(0, outage(99_000))
    for minute in range(20, 60):
        assert day.at(minute * 60, Problem(Kind.OUTAGE)) == []
        assert day.at(minute * 60 + 50, outage(99_000)) == []


def test_repaired_file_blocked_anew_is_news(day):
    day.now(0, blocked("a", "b"))
    assert day.at(APART - QUIET, blocked("b")) == []
    assert day.at(APART, blocked("b")) == []
    (notice,) = day.now(2 * APART, blocked("a", "b"))
    assert (notice.count, notice.new, notice.names) == (2, 1, ("a (sidecar)",))


def test_replaced_item_is_news_and_no_end(day):
    day.now(0, blocked("a"))
    steps = [day.at(APART + second, blocked("b")) for second in (0, 5, QUIET, 3 * APART)]
    assert [[(notice.new, notice.is_over) for notice in notices] for notices in steps] == [[], [(1, False)], [], []]


def test_reported_problem_survives_restart(day):
    day.now(0, blocked("a"))
    again = Day(day.tracker.saved())
    assert again.now(1, blocked("a")) == []
    assert again.now(2, blocked("a", "b")) == []
    (notice,) = again.now(APART, blocked("a", "b"))
    assert notice.names == ("b (sidecar)",)


def test_value_of_earlier_releases_is_read():
    """No upgrade repeats a notice: the form of the value in the ledger stays."""
    saved = f'{{"blocked": {{"keys": ["a:sidecar"], "count": 1, "at": {NOW}, "since": {NOW}}}}}'
    assert Day(saved).now(APART, blocked("a")) == []
    assert [notice.new for notice in Day(saved).now(APART, blocked("a", "b"))] == [1]


def test_own_report_outranks_the_saved_one(day):
    """A start that waits for its ledger reports that before it can read what was reported."""
    full = Problem(Kind.LEDGER, {"ledger": "disk full"}, 1)
    assert len(day.now(0, full)) == 1
    day.tracker.load(NoticeTracker("hq").saved())
    assert day.now(1, full) == []
    assert [notice.is_over for notice in day.now(APART, Problem(Kind.LEDGER))] == [True]


@pytest.mark.parametrize("saved", [None, "", "{}", "[]", "no json", '{"blocked": 1}', '{"odd": {}}', '{"blocked": {}}'])
def test_unreadable_saved_state_is_ignored(saved):
    assert len(Day(saved).now(0, blocked("a"))) == 1


def test_unknown_kind_is_not_over(day):
    day.now(0, blocked("a"))
    assert day.at(2 * APART) == []
    assert day.at(4 * APART, blocked("a")) == []


def test_first_notice_counts_all_items(day):
    paths = Problem(Kind.TREE, {f"unreadable d{n}": f"d{n} (Permission denied)" for n in range(100)}, 300)
    (notice,) = day.now(0, paths)
    assert (notice.count, notice.new) == (300, 300)
    assert notice.text.startswith("hq: 300 paths of the tree cannot be read: d0 (Permission denied);")
    assert notice.text.endswith("; and 295 more; tried again every minute (assetsync check)")


def test_count_decides_beyond_tracking(day):
    (notice,) = day.now(0, many(0, 5000))
    assert (notice.count, notice.new) == (5000, 5000)
    assert day.now(APART, many(0, 4000)) == []
    (notice,) = day.now(2 * APART, many(0, 9000))
    assert (notice.count, notice.new, notice.names) == (9000, 4000, ())
    assert len(day.tracker.keys(Kind.BLOCKED)) == KEPT


def test_move_into_tracked_range_is_no_news(day):
    day.now(0, many(0, 5000))
    assert [day.now(APART + number, many(number, 5000)) for number in range(0, 4990, 10)] == [[]] * 499
    assert day.now(7 * APART, many(4990, 5000)) == []
    (notice,) = day.now(8 * APART, many(4990, 5003))
    assert (notice.count, notice.new, notice.names[0]) == (13, 3, "n5000 (sidecar)")
    (notice,) = day.now(9 * APART, blocked())
    assert notice.is_over


def test_short_dip_of_many_is_no_news(day):
    """A scan retries many blocked files, which are blocked again a moment later."""
    day.now(0, many(0, 1500))
    steps = [day.at(2 * APART + second, many(first, 1500)) for second, first in ((0, 0), (2, 900), (4, 0), (70, 0))]
    assert steps == [[], [], [], []]


def test_clock_set_back_delays_no_notice(day):
    day.now(0, blocked("a"))
    assert len(day.tracker.step([blocked("a", "b")], NOW - 90_000, 100_000, AT_ONCE)) == 1


def test_trial_notice_is_marked_as_test():
    notice = trial_notice("hq", NOW)
    assert (notice.kind, notice.is_over) == (Kind.TEST, False)
    assert "nothing is wrong" in notice.text
