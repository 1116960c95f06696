"""Doubts decided: each rule of the protocol a row, the rule in the row's name."""

from dataclasses import replace

import pytest

from assetsync.core.doubt import (
    MAX_ABSENCES,
    UNPROCESSED_PATIENCE,
    Candidate,
    Doubt,
    Judgement,
    Verdict,
    is_damaged,
    is_equal,
    is_undecided,
    judge,
    unanswered,
    unless_moved,
)
from assetsync.core.doubt_grace import Grace
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
OF_ANOTHER = replace(EQUAL, before=True, named=False, shown=False)
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


@pytest.mark.parametrize(
    ("doubt", "is_final"), [(MINE, False), (REFUSED, True), (replace(MINE, accepted_id="7"), True)]
)
def test_answered_upload_is_never_sent_again(doubt: Doubt, *, is_final: bool):
    assert doubt.is_final is is_final


def second(sight: Candidate, assetid: str) -> Candidate:
    return replace(sight, asset=replace(sight.asset, id=assetid))


@pytest.mark.parametrize(
    ("rule", "candidates", "expected"),
    [
        ("5 equal and free is adopted", [EQUAL], found("1")),
        ("5 equal is adopted at once and needs no grace", [OTHER, second(EQUAL, "2")], found("2")),
        ("5 equal under another name is adopted", [replace(EQUAL, named=False)], found("1")),
        ("5 equal from before is adopted", [replace(EQUAL, before=True)], found("1")),
        ("5 but not under another name", [OF_ANOTHER, second(EQUAL, "2")], found("2")),
        ("5 nor under a name like it", [replace(EQUAL, before=True, shown=False), second(EQUAL, "2")], found("2")),
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
        ("5 equal from before under another name is not ours", MINE, [OF_ANOTHER], OVER, ABSENT),
        ("5 its own is waited for beside it", MINE, [OF_ANOTHER, second(UNPROCESSED, "2")], OVER, WAIT),
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
