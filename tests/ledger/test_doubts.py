"""Open doubts: what is looked up, what a look-up showed, how each judgement is written down."""

import pytest

from assetsync.core.doubt import Judgement, Verdict
from assetsync.core.doubt_grace import Grace, Looked
from assetsync.core.states import Event
from assetsync.ledger.assets import Shown
from assetsync.ledger.doubts import looked_of
from assetsync.ledger.read_back import Change
from assetsync.model import Asset, State

from .conftest import M1, M2, NOW, traced


def asset(assetid: str, *, size: int | None = 10, md5: str | None = M1, name: str = "a", folder: str = "F") -> Asset:
    return Asset(assetid, folder, name, size, md5, "doc")


def whys(book) -> dict[str, str]:
    return {row[0]: row[1] for row in book.ledger.store.rows("SELECT assetid, why FROM unowned")}


def orphans(book) -> dict[str, str]:
    return {orphan.assetid: orphan.why for orphan in book.ledger.reports.orphans(NOW + 1)}


@pytest.fixture
def doubt(book):
    book.lose(book.queue(b"a"))
    (doubt,) = book.ledger.doubts.due(NOW)
    return doubt


def sight_unknown(book, shown):
    book.ledger.assets.record([shown], 0, NOW)
    book.ledger.store.write(lambda conn: conn.execute("UPDATE assets SET why = 'unknown'"))


def test_only_live_rows_own_ids(book):
    live = book.accept(book.queue(b"live"), "L")
    gone = book.accept(book.queue(b"gone"), "G")
    book.ledger.versions.unwanted([(gone.id, b"gone")], Event.VANISHED, NOW)
    many = [f"X{number}" for number in range(1200)]
    assert book.ledger.doubts.owned([live.assetid, "G", *many]) == {"L"}
    assert book.ledger.doubts.owned([]) == set()


# Judgement, the file's state after it, and when the version had been replaced meanwhile.
DECIDED = [
    (Verdict(Judgement.FOUND, "A", "G"), State.STORED, State.SUPERSEDED, True),
    (Verdict(Judgement.DAMAGED, "D", reason="cut"), State.QUEUED, State.SUPERSEDED, True),
    (Verdict(Judgement.ABSENT, reason="the file did not arrive"), State.QUEUED, State.SUPERSEDED, True),
    (Verdict(Judgement.WAIT, reason="looking"), State.IN_DOUBT, State.IN_DOUBT, False),
    (Verdict(Judgement.UNDECIDABLE, reason="five times"), State.BLOCKED, State.BLOCKED, False),
]


@pytest.mark.parametrize(("verdict", "state", "replaced_state", "closed"), DECIDED, ids=lambda v: str(v)[:12])
@pytest.mark.parametrize("replaced", [False, True])
def test_each_judgement_is_written_down(book, doubt, verdict, state, replaced_state, closed, replaced):
    if replaced:
        book.queue(b"a", size=77)
    book.ledger.assets.record([asset("D", size=4, md5=M2)], 1, NOW)
    book.ledger.doubts.decide(doubt, verdict, NOW)
    row = book.by_id(doubt.file)
    assert row.state is (replaced_state if replaced else state)
    assert (book.ledger.doubts.of(row.id) is None) is closed
    if verdict.judgement is Judgement.FOUND:
        assert (row.assetid, row.asset_folder, row.id_from) == ("A", "G", "adopted")
    else:
        assert row.assetid is None
    if verdict.judgement in (Judgement.DAMAGED, Judgement.ABSENT):
        assert row.absences == 1
    if verdict.judgement is Judgement.UNDECIDABLE:
        assert "doubt resolve" in row.detail
    assert whys(book) == {"D": "damaged" if verdict.assetid == "D" else ""}


def test_replaced_version_is_never_resent(book, doubt):
    book.queue(b"a", size=77)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.ABSENT), NOW)
    assert [row.size for row in book.ledger.queue.due(NOW, 10)] == [77]


def test_undecidable_doubt_releases_its_name(book, doubt):
    other = book.queue(b"x/a")
    assert book.ledger.queue.due(NOW, 10) == []
    book.ledger.doubts.decide(doubt, Verdict(Judgement.UNDECIDABLE, reason="?"), NOW)
    assert [row.id for row in book.ledger.queue.due(NOW, 10)] == [other.id]


def test_doubt_decided_meanwhile_is_kept(book, doubt):
    book.ledger.decisions.resolve_as_absent(doubt.file, NOW)
    decided = book.row(b"a")
    for verdict, *_ in DECIDED:
        book.ledger.doubts.decide(doubt, verdict, NOW)
        assert book.row(b"a") == decided


def test_asset_taken_meanwhile_is_not_reused(book, doubt):
    book.ledger.queue.adopt(book.queue(b"quicker"), "A", M1, "said", NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.FOUND, "A", "F"), NOW)
    assert book.row(b"a").state is State.IN_DOUBT
    assert book.ledger.doubts.of(doubt.file.id).closed_at is None


def test_findings_are_listed_by_reason(book, doubt):
    shown = [asset("S", size=3, md5=M2), asset("D"), asset("P", size=4, md5=M2)]
    book.ledger.assets.record(shown, 0, NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.WAIT, suspected=("S",)), NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.DAMAGED, "P", doubled=("D",)), NOW)
    assert whys(book) == {"S": "suspected", "D": "doubled", "P": "damaged"}


def test_copy_is_listed_after_its_original(book, doubt):
    shown = [asset("S", size=3, md5=M2), asset("D"), asset("P", size=4, md5=M2)]
    book.ledger.assets.record(shown, 0, NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.WAIT, suspected=("S",)), NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.DAMAGED, "P", doubled=("D",)), NOW)
    assert orphans(book) == {"S": "suspected", "P": "damaged"}
    sent = book.accept(book.row(b"a"), "A")
    assert orphans(book) == {"S": "suspected", "P": "damaged"}
    book.ledger.read_back.apply_all([Change(sent, None, {}, Shown(NOW))], NOW)
    assert orphans(book) == {"S": "suspected", "D": "doubled", "P": "damaged"}


def test_later_suspicion_keeps_the_proof(book, doubt):
    cut = asset("P", size=4, md5=M2)
    book.ledger.assets.record([cut], 0, NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.DAMAGED, "P"), NOW)
    book.lose(book.row(b"a"))
    (again,) = book.ledger.doubts.due(NOW)
    book.ledger.assets.record([cut], 3, NOW)
    book.ledger.doubts.decide(again, Verdict(Judgement.WAIT, suspected=("P",)), NOW)
    assert whys(book) == {"P": "damaged"}
    assert book.ledger.assets.explained(["P", "X"], "damaged") == {"P"}


@pytest.mark.parametrize(
    ("attempt_md5", "shown", "listed"),
    [
        (M1, asset("D", md5=M1), False),
        (M1, asset("D", md5=M2), True),
        (M1, asset("D", md5=None), False),
        (None, asset("D", md5=M1), False),
        (None, asset("D", md5=M1, size=11), True),
        (M1, asset("D", md5=M1, folder="G"), True),
    ],
)
def test_asset_of_open_doubt_is_no_orphan(book, attempt_md5, shown, listed):
    book.lose(book.queue(b"a"), md5=attempt_md5)
    sight_unknown(book, shown)
    assert orphans(book) == ({"D": "unknown"} if listed else {})


@pytest.mark.parametrize("owned_by", ["adopting", "accepting"])
def test_asset_of_live_row_is_no_orphan(book, owned_by):
    sight_unknown(book, asset("D"))
    row = book.queue(b"a")
    if owned_by == "adopting":
        book.ledger.queue.adopt(row, "D", M1, "said", NOW)
    else:
        book.accept(row, "D")
    assert orphans(book) == {}


def test_recent_history_is_no_orphan(book):
    replaced = book.accept(book.queue(b"a"), "R")
    book.accept(book.queue(b"a", size=20), "N", md5=M2)
    gone = book.accept(book.queue(b"b", size=30), "G", md5="3" * 32)
    book.ledger.versions.unwanted([(gone.id, b"b")], Event.VANISHED, NOW)
    assert orphans(book) == {"R": "replaced", "G": "deleted"}
    assert [o.assetid for o in book.ledger.reports.orphans(NOW)] == ["R"]
    book.lose(book.queue(b"c", size=replaced.size))
    assert orphans(book) == {"G": "deleted"}


def test_old_asset_is_kept_for_unstored_next(book):
    book.accept(book.queue(b"a"), "R")
    newer = book.queue(b"a", size=20)
    assert orphans(book) == {}
    book.accept(newer, "N", md5=M2)
    assert orphans(book) == {"R": "replaced"}


def test_pulled_brake_hides_historic_orphans(book):
    book.accept(book.queue(b"a"), "R")
    book.accept(book.queue(b"a", size=20), "N", md5=M2)
    book.ledger.pull_brake("destfolderid", "photos", "it points elsewhere", 1, NOW)
    assert orphans(book) == {}
    book.ledger.resume(None, NOW)
    assert orphans(book) == {"R": "replaced"}


def test_unanswered_look_up_keeps_the_grace(book, doubt):
    doubts = book.ledger.doubts
    kept = Looked(Grace("boot", 5.0, 7.0, 2.0, 3, 6.0), Grace("boot", 4.0, 7.0), 2, 4.0, "boot")
    doubts.looked(doubt.attempt.id, kept, NOW + 3)
    doubts.unanswered([doubt.attempt.id], [], NOW + 9, "nobody answers")
    attempt = doubts.of(doubt.file.id)
    assert (looked_of(attempt), attempt.looks) == (kept, 1)
    assert attempt.look_at == NOW + 9
    assert doubts.due(NOW + 9)[0].file.detail == "nobody answers"
    assert doubts.next_look() == NOW + 9
    assert doubts.due(NOW + 8) == []
    assert [d.attempt.id for d in doubts.due(NOW + 9)] == [doubt.attempt.id]


def test_longest_waiting_doubts_come_first(book):
    for path, folder in ((b"a", "F"), (b"b", "F"), (b"c", "G")):
        book.lose(book.queue(path, folder=folder))
    at = {doubt.file.path: doubt.attempt.id for doubt in book.ledger.doubts.due(NOW)}
    for path, when in ((b"a", 3), (b"b", 1), (b"c", 2)):
        book.ledger.doubts.unanswered([at[path]], [], NOW + when, "nobody answers")
    assert [doubt.file.path for doubt in book.ledger.doubts.due(NOW + 3, limit=2)] == [b"b", b"c"]
    assert [doubt.file.path for doubt in book.ledger.doubts.due(NOW + 3)] == [b"a", b"b", b"c"]


def test_look_in_far_future_is_due(book, doubt):
    book.ledger.doubts.unanswered([doubt.attempt.id], [], NOW + 901, "nobody answers")
    assert len(book.ledger.doubts.due(NOW)) == 1


def test_rivals_are_other_open_attempts(book, doubt):
    flying = book.begin(book.queue(b"b", size=20), md5=M2)
    elsewhere = book.begin(book.queue(b"c", folder="G"))
    book.accept(book.queue(b"d"), "D")
    one, other = book.ledger.doubts.competing_attempts(doubt.attempt)
    assert (one.attempt_id, one.sent_name, one.size, one.md5, one.in_flight) == (flying, "b", 20, M2, True)
    assert (one.folder_id, one.refused) == (doubt.attempt.destfolderid, False)
    assert (other.attempt_id, other.folder_id) == (elsewhere, "G")


def test_rival_is_asked_about_while_blocked(book, doubt):
    rival = book.begin(book.queue(b"b"))
    book.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET name_released = 1 WHERE id = ?", (rival,)))
    asked = {}
    set_state = "UPDATE files SET state = ? WHERE id = (SELECT file_id FROM attempts WHERE id = ?)"
    for state in ("in_doubt", "blocked"):
        book.ledger.store.write(lambda conn, state=state: conn.execute(set_state, (state, rival)))
        (found,) = book.ledger.doubts.competing_attempts(doubt.attempt)
        asked[state] = found.asked
    assert asked == {"in_doubt": False, "blocked": True}


def test_attempt_without_asset_stays_rival(book, doubt):
    ends = {"absent": True, "resolved": True, "sent_again": True, "found": False, "damaged": False, "unsent": False}
    begun = {result: book.begin(book.queue(result.encode())) for result in ends}
    sql = "UPDATE attempts SET closed_at = 1.0, result = ? WHERE id = ?"
    book.ledger.store.write(lambda conn: conn.execute_each(sql, begun.items()))
    elsewhere = book.begin(book.queue(b"e", folder="G"))
    book.ledger.store.write(
        lambda conn: conn.execute("UPDATE attempts SET result = 'absent', closed_at = 1.0 WHERE id = ?", (elsewhere,))
    )
    competing_attempts = book.ledger.doubts.competing_attempts(doubt.attempt)
    assert {rival.attempt_id for rival in competing_attempts} == {
        begun[result] for result, stays in ends.items() if stays
    }
    assert all(rival.waived for rival in competing_attempts)


def test_newest_ended_attempts_stay_rivals(book, doubt):
    """A thousand newer attempts that ended as absent all count as competing."""
    last = book.begin(book.queue(b"last"))

    def work(conn) -> None:
        columns = "destfolderid, sent_name, folded_name, boundary, size, started_at"
        for number in range(1, 1000):
            conn.execute(
                f"INSERT INTO attempts (id, file_id, {columns}, closed_at, result)"
                f" SELECT ?, file_id, {columns}, 1.0, 'absent' FROM attempts WHERE id = ?",
                (last + number, last),
            )
        conn.execute("UPDATE attempts SET closed_at = 1.0, result = 'absent' WHERE id = ?", (last,))

    book.ledger.store.write(work)
    newest = book.begin(book.queue(b"newest"))
    book.ledger.store.write(
        lambda conn: conn.execute("UPDATE attempts SET result = 'absent', closed_at = 1.0 WHERE id = ?", (newest,))
    )
    assert {rival.attempt_id for rival in book.ledger.doubts.competing_attempts(doubt.attempt)} == {
        *range(last + 1, last + 1000),
        newest,
    }


def test_rivals_are_found_by_index(book, doubt):
    with traced(book.ledger.store) as asked:
        book.ledger.doubts.competing_attempts(doubt.attempt)
    plan = [row[3] for row in book.ledger.store.rows(f"EXPLAIN QUERY PLAN {asked[-1]}")]
    assert any("attempts_waived" in step for step in plan)
    assert not [step for step in plan if step.startswith("SCAN a") and "INDEX" not in step]
