"""How long look-ups must be answered without the asset: each rule a row, the rule in the row's name."""

from dataclasses import replace

import pytest

from assetsync.core.doubt_grace import STORED_BY_NOW, Grace, Looked, Pace, Watch, grace_of_whole

SECONDS = 120.0


def test_rounds_count_a_minute_apart():
    grace = Grace("a", 0, 0)
    counted = []
    for started in (10, 71, 72, 134, 200, 260, 330):
        grace = grace.after_round(started, started + 2)
        counted.append(grace.rounds)
    assert counted == [1, 1, 2, 3, 4, 4, 5]


def test_rounds_outlast_gaps_and_boots():
    gap = Grace("a", 0, 10, 2, 3, 9).answered(5000, 5001, "a", SECONDS / 2)
    assert gap == Grace("a", 5001, 5001, 0, 3, 9)
    boot = gap.answered(59, 60, "b", SECONDS / 2)
    assert boot == Grace("b", 60, 60, 0, 3, 0)
    # The last round was before this boot, and its clock is at 59 seconds.
    assert boot.after_round(59, 60).rounds == 3
    assert boot.after_round(60, 61).rounds == 4


Looks = list[tuple[float, float, str]]


@pytest.mark.parametrize(
    ("rule", "looks", "expected"),
    [
        ("the span opens at the end of the first look-up", [(10, 12, "a")], Grace("a", 12, 12)),
        ("the span reaches to the start of the last", [(10, 12, "a"), (40, 45, "a")], Grace("a", 12, 40)),
        ("half the grace is no gap", [(0, 0, "a"), (60, 60, "a")], Grace("a", 0, 60)),
        ("more than half the grace is a gap and begins anew", [(0, 0, "a"), (61, 61, "a")], Grace("a", 61, 61)),
        ("waiting for the answer counts to the gap", [(0, 0, "a"), (30, 61, "a")], Grace("a", 61, 61)),
        ("another boot begins anew", [(0, 0, "a"), (30, 30, "a"), (40, 41, "b")], Grace("b", 41, 41)),
        ("a clock that stands behind begins anew", [(50, 50, "a"), (40, 41, "a")], Grace("a", 41, 41)),
        ("a look-up answered at once after another adds nothing", [(10, 12, "a"), (12, 12, "a")], Grace("a", 12, 12)),
    ],
)
def test_grace_counts(rule: str, looks: Looks, expected: Grace):
    grace = Grace()
    for started, ended, boot in looks:
        grace = grace.answered(started, ended, boot, SECONDS / 2)
    assert grace == expected, rule


@pytest.mark.parametrize(
    ("rule", "before", "look", "slow", "expected"),
    [
        ("a gap may be longer", Grace("a", 10, 10), (80, 100, "a"), 20, Grace("a", 10, 80, 20)),
        ("by three times what they take", Grace("a", 10, 10), (120, 130, "a"), 20, Grace("a", 10, 120, 20)),
        ("and no more", Grace("a", 10, 10), (120, 131, "a"), 20, Grace("a", 131, 131)),
        ("the grace is longer for no gap that is none", Grace("a", 10, 10), (50, 70, "a"), 20, Grace("a", 10, 50)),
        ("what it was made longer for is kept", Grace("a", 10, 90, 30), (95, 100, "a"), 20, Grace("a", 10, 95, 30)),
        ("the slowest counts", Grace("a", 10, 90, 15), (160, 180, "a"), 20, Grace("a", 10, 160, 20)),
        ("what begins anew is not longer", Grace("a", 10, 90, 30), (500, 510, "a"), 20, Grace("a", 510, 510)),
        ("another boot begins anew all the same", Grace("a", 10, 10), (30, 40, "b"), 20, Grace("b", 40, 40)),
    ],
)
def test_where_look_ups_are_slow(
    rule: str, before: Grace, look: tuple[float, float, str], slow: float, expected: Grace
):
    started, ended, boot = look
    assert before.answered(started, ended, boot, SECONDS / 2, slow=slow) == expected, rule


@pytest.mark.parametrize(
    ("rule", "before", "look", "expected"),
    [
        ("it continues a span", Grace("a", 10, 20), (60, 61, "a"), Grace("a", 10, 60)),
        ("it begins none", Grace(), (60, 61, "a"), Grace()),
        ("it begins none after a gap", Grace("a", 10, 20), (100, 101, "a"), Grace("a", 10, 20)),
        ("it begins none in another boot", Grace("a", 10, 20), (60, 61, "b"), Grace("a", 10, 20)),
    ],
)
def test_search_by_name_only_continues_a_grace(
    rule: str, before: Grace, look: tuple[float, float, str], expected: Grace
):
    started, ended, boot = look
    assert before.continued(started, ended, boot, SECONDS / 2) == expected, rule


LOOKED = Looked(Grace("a", 1000, 1030), Grace("a", 1000, 1030), newest=5, since=1000, boot="a")
"""Look-ups of one boot: the first ended at 1,000 s, the last began at 1,030 s."""

WATCH = Watch(
    is_final=False,
    took=1,
    answered=False,
    since_end=0,
    before=LOOKED,
    span=(1060, 1062),
    boot="a",
    slow=0,
    newest=9,
    sample=0,
    grace=SECONDS,
    lag=0,
    read_timeout=300,
)
FIRST = replace(WATCH, before=Looked())
AFTER_GAP = replace(WATCH, span=(1100, 1101))
SHORT = replace(WATCH, grace=10)
REBOOTED = replace(WATCH, boot="b", since_end=STORED_BY_NOW)
LATE = replace(WATCH, before=replace(LOOKED, since=1060 - STORED_BY_NOW))
LONG = replace(WATCH, before=replace(LOOKED, grace=Grace("a", 1060 - SECONDS, 1030)))


@pytest.mark.parametrize(
    ("rule", "watch", "age"),
    [
        ("it counts from the first answered look-up", WATCH, 60),
        ("which may be older than the boot", LATE, STORED_BY_NOW),
        ("the first look-up has none", replace(FIRST, since_end=STORED_BY_NOW), 0),
        ("after a reboot it counts from the end of the attempt", REBOOTED, STORED_BY_NOW),
        ("from half a day on", replace(REBOOTED, since_end=STORED_BY_NOW - 1), 0),
    ],
)
def test_watch_knows_its_age(rule: str, watch: Watch, age: float):
    assert watch.age == age, rule


@pytest.mark.parametrize(
    ("rule", "watch", "needed"),
    [
        ("a whole upload is waited for as long as an answer", WATCH, 300),
        ("unless it was answered", replace(WATCH, answered=True), SECONDS),
        ("and by what it took", replace(WATCH, took=100), 500),
        ("but not after half a day", replace(LATE, took=100), SECONDS),
        ("an upload that was cut needs the grace alone", replace(WATCH, took=None), SECONDS),
        ("so does one that is not sent again", replace(WATCH, is_final=True), SECONDS),
    ],
)
def test_watch_needs_a_grace(rule: str, watch: Watch, needed: float):
    assert watch.needed == needed, rule


@pytest.mark.parametrize(
    ("rule", "watch", "expected"),
    [
        ("the first look-up counts if none lags", FIRST, True),
        ("it does not if look-ups lag", replace(FIRST, lag=1), False),
        ("nor does one before the lag has passed", replace(WATCH, lag=60.1), False),
        ("one after it counts", replace(WATCH, lag=60), True),
        ("answers before a gap are not counted", replace(AFTER_GAP, lag=60), False),
        ("a longer gap is none if look-ups are slow", replace(AFTER_GAP, lag=60, slow=4), True),
        ("a newer upload shows that it is current", replace(WATCH, lag=61, sample=6), True),
        ("the newest at the start is not newer", replace(WATCH, lag=61, sample=5), False),
        ("after a gap it must be newer than the newest now", replace(AFTER_GAP, lag=61, sample=9), False),
        ("and may be", replace(AFTER_GAP, lag=61, sample=10), True),
        ("no look-up lags by half a day", replace(LATE, lag=STORED_BY_NOW), True),
        ("after which a reboot changes nothing", replace(REBOOTED, lag=61), True),
        ("what is never sent again needs no current one", replace(FIRST, lag=61, is_final=True), True),
    ],
)
def test_look_up_is_current(rule: str, watch: Watch, expected: bool):
    assert watch.is_current() is expected, rule


@pytest.mark.parametrize(
    ("rule", "watch", "grace"),
    [
        ("a look-up adds to the grace", WATCH, Grace("a", 1000, 1060)),
        ("one that is not current ends it", replace(WATCH, lag=61), Grace()),
        ("a gap begins it anew", AFTER_GAP, Grace("a", 1101, 1101)),
        ("a twentieth of what it needs is no gap", replace(SHORT, span=(1044, 1045)), Grace("a", 1000, 1044)),
        ("more of it is one", replace(SHORT, span=(1044, 1046)), Grace("a", 1046, 1046)),
        ("unless look-ups are slow", replace(AFTER_GAP, slow=4), Grace("a", 1000, 1100, 4)),
        ("its round is not counted", replace(WATCH, took=None), Grace("a", 1000, 1060)),
        ("a round counts after half a day", LATE, Grace("a", 1000, 1060, 0, 1, 1062)),
        ("once five times what the upload took are over", replace(LATE, took=10_000), Grace("a", 1000, 1060)),
        ("or if it was cut", replace(LATE, took=None), Grace("a", 1000, 1060, 0, 1, 1062)),
    ],
)
def test_watch_counts_a_look_up(rule: str, watch: Watch, grace: Grace):
    assert watch.counted == grace, rule


@pytest.mark.parametrize(
    ("rule", "watch", "expected"),
    [
        ("look-ups for as long as the grace are enough", replace(LONG, took=None), True),
        ("a whole upload needs more", LONG, False),
        ("look-ups that are not current are none", replace(LONG, took=None, lag=61), False),
    ],
)
def test_watch_is_over(rule: str, watch: Watch, expected: bool):
    assert watch.is_over() is expected, rule


@pytest.mark.parametrize(
    ("rule", "watch", "counts", "looked"),
    [
        (
            "all spans go on",
            WATCH, True,
            Looked(Grace("a", 1000, 1060), Grace("a", 1000, 1060), 5, 1000, "a"),
        ),
        (
            "only the grace begins anew if the look-up does not count",
            WATCH, False,
            Looked(Grace(), Grace("a", 1000, 1060), 5, 1000, "a"),
        ),
        (
            "the newest attempt is another one after a gap",
            AFTER_GAP, True,
            Looked(Grace("a", 1101, 1101), Grace("a", 1101, 1101), 9, 1000, "a"),
        ),
        (
            "the age begins at the end of the first look-up",
            FIRST, True,
            Looked(Grace("a", 1062, 1062), Grace("a", 1062, 1062), 9, 1062, "a"),
        ),
        (
            "another boot goes on from the age",
            REBOOTED, True,
            Looked(Grace("b", 1062, 1062, 0, 1, 1062), Grace("b", 1062, 1062), 9, 1062 - STORED_BY_NOW, "b"),
        ),
    ],
)  # fmt: skip
def test_watch_is_recorded(*, rule: str, watch: Watch, counts: bool, looked: Looked):
    assert watch.looked(counts=counts) == looked, rule


@pytest.mark.parametrize(
    ("read_timeout", "took", "age", "expected"),
    [
        (60, 0, 0, SECONDS),
        (300, 0, 0, 300),
        (300, 59, 0, 300),
        (300, 61, 0, 305),
        (300, 600, STORED_BY_NOW - 1, 3000),
        (300, 600, STORED_BY_NOW, SECONDS),
        (300, 10_000, STORED_BY_NOW, 50_000),
    ],
)
def test_the_grace_of_what_left_whole(read_timeout: float, took: float, age: float, expected: float):
    assert grace_of_whole(SECONDS, read_timeout, took, age) == expected


@pytest.mark.parametrize(
    ("took", "age", "expected"),
    [(1, 0, SECONDS), (61, 0, 305), (300, 0, 1500), (300, STORED_BY_NOW, SECONDS)],
)
def test_answered_upload_needs_no_read_timeout(took: float, age: float, expected: float):
    assert grace_of_whole(SECONDS, 300, took, age, answered=True) == expected


def test_pace_follows_the_quicker_look_up():
    pace = Pace().after(40)
    assert pace.least == 0
    assert pace.after(30).least == 30
    assert pace.after(30).after(200).least == 30
    assert pace.after(200).after(0.5).least == 0.5


@pytest.mark.parametrize(
    ("rule", "grace", "expected"),
    [
        ("no look-up is no grace", Grace(), False),
        ("one look-up is no grace", Grace("a", 500, 500), False),
        ("a span shorter than the grace is not over", Grace("a", 0, 119.9), False),
        ("a span as long as the grace is over", Grace("a", 0, 120), True),
        ("a span that was never answered is not over", Grace("", 0, 500), False),
        ("slow look-ups are waited for longer", Grace("a", 0, 239.9, 10), False),
        ("twelve times as long as they take", Grace("a", 0, 240, 10), True),
        ("four rounds are no grace", Grace("a", 500, 500, 0, 4, 500), False),
        ("five rounds are enough", Grace("a", 500, 500, 10, 5, 500), True),
        ("five rounds that do not count are no grace", Grace("", 0, 0, 0, 5, 0), False),
    ],
)
def test_grace_is_over(rule: str, grace: Grace, expected: bool):
    assert grace.over(SECONDS) is expected, rule


def test_search_by_name_ends_no_grace():
    by_name = replace(WATCH, took=None, by_name=True, before=replace(LOOKED, grace=Grace("a", 1060 - SECONDS, 1030)))
    assert by_name.counted == Grace("a", 1060 - SECONDS, 1060)
    assert not by_name.is_over()
    assert replace(by_name, by_name=False).is_over()
