"""Doubts decided: each rule of the protocol a row, the rule in the row's name."""

from dataclasses import replace

import pytest

from assetsync.core.doubt import (
    MAX_ABSENCES,
    STORED_BY_NOW,
    UNPROCESSED_PATIENCE,
    Candidate,
    Doubt,
    Grace,
    Judgement,
    Looked,
    Pace,
    Verdict,
    Watch,
    grace_of_whole,
    is_damaged,
    is_equal,
    is_undecided,
    judge,
    unanswered,
    unless_moved,
)
from assetsync.model import Asset

SECONDS = 120.0
MINE = Doubt(size=100, md5="AA", bytes_sent=100, bytes_sent_md5="AA", since=1000.0)
CUT = replace(MINE, bytes_sent=60, bytes_sent_md5="C6")
CRASHED = replace(MINE, bytes_sent=None, bytes_sent_md5=None)
UNHASHED = replace(MINE, md5=None)
YOUNG = Grace("boot", 0.0, 60.0)
OVER = Grace("boot", 0.0, 120.0)


def asset(assetid: str = "1", *, size: int | None = 100, md5: str | None = "AA", folder: str = "F") -> Asset:
    return Asset(assetid, folder, "x.jpg", size, md5, "img")


EQUAL = Candidate(asset())
OTHER = Candidate(asset(md5="BB"))
SMALLER = Candidate(asset(size=60, md5="C6"))
UNPROCESSED = Candidate(asset(size=0, md5=None))
OLD_NEWS = replace(UNPROCESSED, since=MINE.since)
NO_MD5 = Candidate(asset(md5=None))
ASKED = replace(EQUAL, contested=True, asked=True)
REFUSED = replace(MINE, refused_as_duplicate=True)


@pytest.mark.parametrize(
    ("rule", "doubt", "sight", "expected"),
    [
        ("same MD5 and size is equal", MINE, EQUAL, True),
        ("another MD5 is not equal", MINE, OTHER, False),
        ("another size is not equal whatever the MD5", MINE, Candidate(asset(size=99)), False),
        ("the MD5 decides where the size is not given", MINE, Candidate(asset(size=None)), True),
        ("the MD5 decides and never the name", MINE, Candidate(asset(), named=False), True),
        ("the MD5 decides though it was there before", MINE, Candidate(asset(), before=True), True),
        ("without MD5 same size and name is equal", MINE, NO_MD5, True),
        ("without MD5 another name is not equal", MINE, replace(NO_MD5, named=False), False),
        ("without MD5 what was there before is not equal", MINE, replace(NO_MD5, before=True), False),
        ("without our own digest same size and name is equal", UNHASHED, OTHER, True),
        ("without our own digest what was before is not", UNHASHED, replace(OTHER, before=True), False),
        (
            "nor is anything where a part was handed over",
            replace(UNHASHED, bytes_sent=60, bytes_sent_md5="C6"),
            OTHER,
            False,
        ),
        ("what is read again may be there by an earlier upload", CUT, NO_MD5, True),
        ("the MD5 decides for what was refused as a copy", REFUSED, EQUAL, True),
        ("what was refused as a copy is equal by its MD5 alone", REFUSED, NO_MD5, False),
        ("and by none of its own not at all", replace(UNHASHED, refused_as_duplicate=True), OTHER, False),
        ("neither size nor MD5 is nothing to believe", MINE, Candidate(asset(size=None, md5=None)), False),
        ("what is not processed is not equal", MINE, UNPROCESSED, False),
    ],
)
def test_equal(rule: str, doubt: Doubt, sight: Candidate, expected: bool):
    assert is_equal(doubt, sight) is expected, rule


UNSURE = replace(NO_MD5, unsure=True)
RENAMED = replace(NO_MD5, named=False, renamed=True)


@pytest.mark.parametrize(
    ("rule", "doubt", "sight", "expected"),
    [
        ("a name that is only similar decides nothing", MINE, UNSURE, True),
        ("nor does a name that the service may have changed", MINE, RENAMED, True),
        ("where it keeps names another name is another file", MINE, replace(RENAMED, renamed=False), False),
        ("the name that was sent decides", MINE, NO_MD5, False),
        ("the MD5 decides", MINE, replace(UNSURE, asset=asset()), False),
        ("another MD5 decides", MINE, replace(UNSURE, asset=asset(md5="BB")), False),
        ("another size decides", MINE, replace(UNSURE, asset=asset(size=99, md5=None)), False),
        ("what was there before is not ours", MINE, replace(RENAMED, before=True), False),
        ("what was refused as a copy made none", REFUSED, UNSURE, False),
        (
            "a part of an unread file is whole nowhere",
            replace(UNHASHED, bytes_sent=60, bytes_sent_md5="C6"),
            UNSURE,
            False,
        ),
    ],
)
def test_undecided(rule: str, doubt: Doubt, sight: Candidate, expected: bool):
    assert is_undecided(doubt, sight) is expected, rule
    if expected:
        assert not is_equal(doubt, sight)


@pytest.mark.parametrize(
    ("rule", "doubt", "sight", "expected"),
    [
        ("the MD5 of the bytes handed over is proof", CUT, SMALLER, True),
        ("the MD5 of fewer bytes of what was sent is proof", MINE, replace(SMALLER, prefix="C6"), True),
        (
            "a part of the boundary behind the file is proof",
            MINE,
            Candidate(asset(size=104, md5="D4"), prefix="D4"),
            True,
        ),
        ("after a crash the prefix is proof alone", CRASHED, replace(SMALLER, prefix="C6"), True),
        ("another MD5 than the prefix is no proof", MINE, replace(SMALLER, prefix="C7"), False),
        ("a smaller asset of the name is no proof", MINE, SMALLER, False),
        ("the MD5 handed over is no proof at another size", CUT, Candidate(asset(size=59, md5="C6")), False),
        ("without MD5 there is no proof", CUT, Candidate(asset(size=60, md5=None)), False),
        ("without digests on either side there is no proof", CRASHED, Candidate(asset(size=60, md5=None)), False),
        ("what was there before is not this cut", CUT, replace(SMALLER, before=True), False),
        ("another name is not this cut", CUT, replace(SMALLER, named=False), False),
        (
            "an asset of the whole size is not a cut",
            replace(MINE, bytes_sent_md5="BB"),
            replace(OTHER, prefix="BB"),
            False,
        ),
        ("what is not processed is not damaged yet", CUT, UNPROCESSED, False),
    ],
)
def test_damaged(rule: str, doubt: Doubt, sight: Candidate, expected: bool):
    assert is_damaged(doubt, sight) is expected, rule


def found(assetid: str, *doubled: str) -> Verdict:
    return Verdict(Judgement.FOUND, assetid, "F", doubled=doubled)


def second(sight: Candidate, assetid: str) -> Candidate:
    return replace(sight, asset=replace(sight.asset, id=assetid))


@pytest.mark.parametrize(
    ("rule", "candidates", "expected"),
    [
        ("5 equal and free is adopted", [EQUAL], found("1")),
        ("5 equal is adopted at once and needs no grace", [OTHER, second(EQUAL, "2")], found("2")),
        ("5 equal under another name is adopted", [replace(EQUAL, named=False)], found("1")),
        ("5 equal from before is adopted", [replace(EQUAL, before=True)], found("1")),
        ("5 the name sent is preferred", [replace(EQUAL, named=False), second(EQUAL, "2")], found("2", "1")),
        ("5 what is new is preferred", [replace(EQUAL, before=True), second(EQUAL, "2")], found("2")),
        ("5 equal ones are told apart by their id", [second(EQUAL, "2"), EQUAL], found("1", "2")),
        ("5 what is left over is doubled", [EQUAL, second(EQUAL, "2"), second(EQUAL, "3")], found("1", "2", "3")),
        ("5 what is left from before is not", [EQUAL, second(replace(EQUAL, before=True), "2")], found("1")),
        ("5 a claimed one is left for its attempt", [replace(EQUAL, contested=True), second(EQUAL, "2")], found("2")),
        ("5 equal goes before damaged", [replace(SMALLER, prefix="C6"), second(EQUAL, "2")], found("2")),
        ("5 equal goes before not processed", [UNPROCESSED, second(EQUAL, "2")], found("2")),
    ],
)
@pytest.mark.parametrize("grace", [YOUNG, OVER], ids=["within the grace", "after it"])
def test_found(rule: str, candidates: list[Candidate], expected: Verdict, grace: Grace):
    assert judge(MINE, candidates, grace, SECONDS, 1000.0) == expected, rule


PROOF = replace(SMALLER, prefix="C6")
ABSENT_BEFORE = replace(MINE, absences=MAX_ABSENCES - 1)

# Judgement, the asset it rests on, and whether the look-up counts for the grace.
WAIT = (Judgement.WAIT, None, False)
COUNTS = (Judgement.WAIT, None, True)
ABSENT = (Judgement.ABSENT, None, False)
A_PERSON = (Judgement.UNDECIDABLE, None, False)


@pytest.mark.parametrize(
    ("rule", "doubt", "candidates", "grace", "expected"),
    [
        ("5 an equal one that is claimed is waited for", MINE, [replace(EQUAL, contested=True)], OVER, WAIT),
        ("5 one that a person is asked about is waited for", MINE, [ASKED], YOUNG, COUNTS),
        ("5 and not for ever", MINE, [ASKED], OVER, A_PERSON),
        ("5 nor for a copy that was refused", REFUSED, [ASKED], OVER, A_PERSON),
        ("5 but while one is open", MINE, [ASKED, replace(second(EQUAL, "2"), contested=True)], OVER, WAIT),
        ("5 an owned one is no find", MINE, [replace(EQUAL, owned=True)], YOUNG, COUNTS),
        ("5 an owned one is none after the grace either", MINE, [replace(EQUAL, owned=True)], OVER, ABSENT),
        ("5 proof ends the doubt", MINE, [PROOF], YOUNG, (Judgement.DAMAGED, "1", False)),
        ("5 what another row owns is not damaged", MINE, [replace(PROOF, owned=True)], YOUNG, COUNTS),
        ("5 what is claimed is not damaged", MINE, [replace(PROOF, contested=True)], YOUNG, COUNTS),
        ("5 what is not processed may be the whole file", MINE, [UNPROCESSED, second(PROOF, "2")], OVER, WAIT),
        ("5 without proof the grace runs", MINE, [SMALLER], YOUNG, COUNTS),
        ("5 without proof it is absent after the grace", MINE, [SMALLER], OVER, ABSENT),
        ("5 not processed is waited for", MINE, [UNPROCESSED], YOUNG, WAIT),
        ("5 not processed is waited for after the grace", MINE, [UNPROCESSED], OVER, WAIT),
        ("5 not processed before the attempt is not ours", MINE, [replace(UNPROCESSED, before=True)], OVER, ABSENT),
        ("5 not processed and owned is not ours", MINE, [replace(UNPROCESSED, owned=True)], OVER, ABSENT),
        ("5 not processed under another name is not ours", MINE, [replace(UNPROCESSED, named=False)], OVER, ABSENT),
        ("5 what may be it is looked at for the whole grace", MINE, [UNSURE], YOUNG, COUNTS),
        ("5 what may be it is a person's after the grace", MINE, [UNSURE], OVER, A_PERSON),
        ("5 what may have been renamed is too", MINE, [RENAMED], OVER, A_PERSON),
        ("5 but not what is owned", MINE, [replace(RENAMED, owned=True)], OVER, ABSENT),
        ("5 and not while another may be answered", MINE, [replace(RENAMED, contested=True)], OVER, COUNTS),
        ("5 not processed may have been renamed", MINE, [replace(UNPROCESSED, named=False, renamed=True)], OVER, WAIT),
        ("5 nothing there within the grace is waited for", MINE, [], YOUNG, COUNTS),
        ("5 nothing there after the grace is absent", MINE, [], OVER, ABSENT),
        ("5 absent the fourth time is sent again", replace(MINE, absences=MAX_ABSENCES - 2), [], OVER, ABSENT),
        ("5 absent the fifth time is a person's matter", ABSENT_BEFORE, [], OVER, A_PERSON),
        ("5 damaged the fifth time too", ABSENT_BEFORE, [PROOF], YOUNG, (Judgement.UNDECIDABLE, "1", False)),
        ("7 what was accepted is never proven damaged", replace(MINE, accepted_id="9"), [PROOF], YOUNG, COUNTS),
        ("7 nor sent again for it", replace(MINE, accepted_id="9"), [PROOF], OVER, A_PERSON),
        ("7 an accepted id that is not shown is waited for", replace(MINE, accepted_id="9"), [], YOUNG, COUNTS),
        ("7 an accepted id that never shows is a person's", replace(MINE, accepted_id="9"), [], OVER, A_PERSON),
    ],
)
def test_not_found(
    *, rule: str, doubt: Doubt, candidates: list[Candidate], grace: Grace, expected: tuple[Judgement, str | None, bool]
):
    verdict = judge(doubt, candidates, grace, SECONDS, 1000.0)
    assert (verdict.judgement, verdict.assetid, verdict.counts_for_grace) == expected, rule
    assert verdict.reason


@pytest.mark.parametrize(
    ("rule", "candidates", "after", "expected"),
    [
        ("5 not processed for 24 hours is waited for", [UNPROCESSED], UNPROCESSED_PATIENCE, Judgement.WAIT),
        ("5 not processed for longer is a person's", [OLD_NEWS], UNPROCESSED_PATIENCE + 1, Judgement.UNDECIDABLE),
        (
            "5 proof with it is proof by then",
            [OLD_NEWS, second(PROOF, "2")],
            UNPROCESSED_PATIENCE + 1,
            Judgement.DAMAGED,
        ),
        ("5 a new one is waited for, however old the doubt", [UNPROCESSED], 9 * UNPROCESSED_PATIENCE, Judgement.WAIT),
        ("5 the wall clock does not run out the grace", [], UNPROCESSED_PATIENCE + 1, Judgement.WAIT),
    ],
)
def test_long_after(rule: str, candidates: list[Candidate], after: float, expected: Judgement):
    assert judge(MINE, candidates, YOUNG, SECONDS, MINE.since + after).judgement is expected, rule


@pytest.mark.parametrize(
    ("looks", "after", "expected"),
    [
        (100, UNPROCESSED_PATIENCE + 1, Judgement.UNDECIDABLE),
        (99, UNPROCESSED_PATIENCE + 1, Judgement.WAIT),
        (10_000, UNPROCESSED_PATIENCE, Judgement.WAIT),
    ],
)
def test_unprocessed_becomes_undecidable(looks, after, expected):
    doubt = replace(MINE, looks=looks)
    assert judge(doubt, [UNPROCESSED], YOUNG, SECONDS, MINE.since + after).judgement is expected


def test_suspect_beside_unprocessed_is_shown():
    assert judge(MINE, [UNPROCESSED, second(PROOF, "2")], YOUNG, SECONDS, 1000.0).suspected == ("2",)


@pytest.mark.parametrize(
    ("rule", "sight", "suspected"),
    [
        ("5 a smaller one of the name is suspected", SMALLER, ("1",)),
        ("5 one of the size and another MD5 is suspected", OTHER, ("1",)),
        ("5 what was there before is not suspected", replace(SMALLER, before=True), ()),
        ("5 another name is not suspected", replace(SMALLER, named=False), ()),
        ("5 an owned one is not suspected", replace(SMALLER, owned=True), ()),
    ],
)
@pytest.mark.parametrize("grace", [YOUNG, OVER], ids=["within the grace", "after it"])
def test_suspected(rule: str, sight: Candidate, suspected: tuple[str, ...], grace: Grace):
    assert judge(MINE, [sight], grace, SECONDS, 1000.0).suspected == suspected, rule


ELSEWHERE = Candidate(asset("7", folder="G"))


@pytest.mark.parametrize(
    ("rule", "sight", "grace", "expected"),
    [
        ("6 a free copy is adopted", EQUAL, YOUNG, (Judgement.FOUND, "1", "F")),
        ("6 a free copy in another folder is adopted", ELSEWHERE, YOUNG, (Judgement.FOUND, "7", "G")),
        ("6 another row's is named", replace(ELSEWHERE, owned=True), YOUNG, (Judgement.UNDECIDABLE, "7", "G")),
        ("6 no copy within the grace is waited for", OTHER, YOUNG, (Judgement.WAIT, None, None)),
        ("6 no copy after the grace is never queued", OTHER, OVER, (Judgement.UNDECIDABLE, None, None)),
        ("6 a cut of it does not queue it again", PROOF, OVER, (Judgement.UNDECIDABLE, None, None)),
    ],
)
def test_refused_as_a_duplicate(
    rule: str, sight: Candidate, grace: Grace, expected: tuple[Judgement, str | None, str | None]
):
    verdict = judge(REFUSED, [sight], grace, SECONDS, 1000.0)
    assert (verdict.judgement, verdict.assetid, verdict.folder_id) == expected, rule
    assert verdict.counts_for_grace is (verdict.judgement is Judgement.WAIT)


def test_rounds_count_a_minute_apart():
    grace = Grace("a", 0, 0)
    counted = []
    for started in (10, 71, 72, 134, 200, 260, 330):
        grace = grace.after_round(started, started + 2)
        counted.append(grace.rounds)
    assert counted == [1, 1, 2, 3, 4, 4, 5]


def test_rounds_outlast_gaps_and_boots():
    gap = Grace("a", 0, 10, 2, 3, 9).answered(5000, 5001, "a", SECONDS)
    assert gap == Grace("a", 5001, 5001, 0, 3, 9)
    boot = gap.answered(59, 60, "b", SECONDS)
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
        grace = grace.answered(started, ended, boot, SECONDS)
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
    assert before.answered(started, ended, boot, SECONDS, slow=slow) == expected, rule


LOOKED = Looked(Grace("a", 1000, 1030), Grace("a", 1000, 1030), newest=5, since=1000, boot="a")
"""Look-ups of one boot: the first ended at 1,000 s, the last began at 1,030 s."""

WATCH = Watch(
    doubt=MINE,
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
REBOOTED = replace(WATCH, boot="b", since_end=STORED_BY_NOW)
LATE = replace(WATCH, before=replace(LOOKED, since=1060 - STORED_BY_NOW))
LONG = replace(WATCH, before=replace(LOOKED, grace=Grace("a", 1060 - SECONDS, 1030)))
ACCEPTED = replace(MINE, accepted_id="7")


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
        ("so does one that was refused as a copy", replace(WATCH, doubt=REFUSED), SECONDS),
        ("and one that was accepted", replace(WATCH, doubt=ACCEPTED), SECONDS),
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
        ("what was refused as a copy is not sent again", replace(FIRST, lag=61, doubt=REFUSED), True),
        ("nor is what was accepted", replace(FIRST, lag=61, doubt=ACCEPTED), True),
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


NOT_THERE = Verdict(Judgement.ABSENT, reason="the file did not arrive", suspected=("5",))
WORKED_ON = Candidate(asset("7", folder="G", size=0, md5=None))


@pytest.mark.parametrize(
    ("rule", "candidates", "expected"),
    [
        ("nothing elsewhere is absent", [], Judgement.ABSENT),
        ("an equal one elsewhere is a person's", [ELSEWHERE], Judgement.UNDECIDABLE),
        ("one is enough", [replace(ELSEWHERE, contested=True), second(ELSEWHERE, "8")], Judgement.UNDECIDABLE),
        ("one that was there before is not ours", [replace(ELSEWHERE, before=True)], Judgement.ABSENT),
        ("one that is another version's is not ours", [replace(ELSEWHERE, owned=True)], Judgement.ABSENT),
        ("one of another name is not ours", [replace(ELSEWHERE, named=False)], Judgement.ABSENT),
        ("one that is not equal is not ours", [Candidate(asset("7", md5="BB", folder="G"))], Judgement.ABSENT),
        ("one that may be another upload's is waited for", [replace(ELSEWHERE, contested=True)], Judgement.WAIT),
        (
            "one that a person is asked about is a person's",
            [replace(ELSEWHERE, contested=True, asked=True)],
            Judgement.UNDECIDABLE,
        ),
        ("one that is not processed is waited for", [WORKED_ON], Judgement.WAIT),
        ("and for a day", [replace(WORKED_ON, since=1000.0)], Judgement.WAIT),
        ("and then is a person's", [replace(WORKED_ON, since=999.0)], Judgement.UNDECIDABLE),
        ("what is not processed and was there before is not ours", [replace(WORKED_ON, before=True)], Judgement.ABSENT),
    ],
)
def test_unless_moved(rule: str, candidates: list[Candidate], expected: Judgement):
    verdict = unless_moved(NOT_THERE, MINE, [], candidates, 1000.0 + UNPROCESSED_PATIENCE)
    assert (verdict.judgement, verdict.suspected) == (expected, ("5",)), rule
    # It names none for the ledger: what is told of a damaged copy is not so of one that was moved.
    assert (verdict.assetid, verdict.counts_for_grace) == (None, expected is Judgement.WAIT)


@pytest.mark.parametrize(
    ("rule", "sight", "expected"),
    [
        ("an equal one that has come since is waited for", EQUAL, Judgement.WAIT),
        ("one that is not processed yet too", UNPROCESSED, Judgement.WAIT),
        ("another version's is not", replace(EQUAL, owned=True), Judgement.ABSENT),
        ("nor is another content", OTHER, Judgement.ABSENT),
    ],
)
def test_new_candidate_in_folder_is_judged(rule: str, sight: Candidate, expected: Judgement):
    assert unless_moved(NOT_THERE, MINE, [sight], [], 1000.0).judgement is expected, rule


def test_unprocessed_elsewhere_is_undecidable():
    doubt = replace(MINE, looks=100)
    after = MINE.since + UNPROCESSED_PATIENCE + 1
    assert unless_moved(NOT_THERE, doubt, [], [WORKED_ON], after).judgement is Judgement.UNDECIDABLE


def test_person_is_told_the_assets_that_may_be_it():
    candidates = [replace(UNSURE, asset=asset(str(number), md5=None)) for number in range(5)]
    verdict = judge(MINE, candidates, OVER, SECONDS, 1000.0)
    assert "0 or 1 or 2 or 2 more in folder F may be this file" in verdict.reason
    assert verdict.suspected == ("0", "1", "2", "3", "4")


def test_unsure_asset_elsewhere_may_have_been_moved():
    absent = Verdict(Judgement.ABSENT)
    assert unless_moved(absent, MINE, [], [UNSURE], 1000.0).judgement is Judgement.UNDECIDABLE
    assert unless_moved(absent, MINE, [UNSURE], [], 1000.0).judgement is Judgement.WAIT


def test_unanswered_folders_keep_the_grace():
    verdict = unanswered(NOT_THERE)
    assert (verdict.judgement, verdict.counts_for_grace, verdict.suspected) == (Judgement.WAIT, True, ("5",))
