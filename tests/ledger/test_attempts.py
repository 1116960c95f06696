"""What became of an attempt, and what a crash left behind.

Covers `ledger/rows.py`.
"""

from dataclasses import replace

import pytest

from assetsync.core.states import Event
from assetsync.ledger.attempts import MAX_CRASHES
from assetsync.ledger.read_back import Change
from assetsync.model import Answer, Outcome, Sent, SentExtent, State

from .conftest import M1, M2, NOW


def sent(answer: Answer, reason: str = "why", left: SentExtent = SentExtent.ALL) -> Sent:
    return Sent(Outcome(answer, reason, "a sentence"), left, 10, M2)


def attempts(book, row):
    columns = "result, closed_at, ended_at, name_released, why"
    sql = f"SELECT {columns} FROM attempts WHERE file_id = ? ORDER BY id"
    return [dict(found) for found in book.ledger.store.rows(sql, row.id)]


def test_accepted_upload_is_recorded(book):
    row = book.queue(b"a")
    stored = book.accept(row, "A", md5=M2)
    assert (stored.state, stored.assetid, stored.id_from, stored.asset_folder, stored.md5, stored.filetype) == (
        State.STORED, "A", "answer", "F", M2, "doc",
    )  # fmt: skip
    assert [(a["result"], a["closed_at"]) for a in attempts(book, row)] == [("accepted", NOW)]


def test_fast_and_slow_path_record_alike(book):
    usual, other = book.queue(b"a"), book.queue(b"b")
    # One that waited for something, and that a person asked a copy of.
    other_way = "UPDATE files SET detail = 'waits', send_again = 1 WHERE id = ?"
    book.ledger.store.write(lambda conn: conn.execute(other_way, (other.id,)))
    found = [book.accept(row, f"{row.id}") for row in (usual, other)]
    its_own = {"id": 0, "path": b"", "folded_name": "", "inode": 0, "assetid": ""}
    assert found[0]._replace(**its_own) == found[1]._replace(**its_own)


@pytest.mark.parametrize(
    ("record", "state", "is_open"),
    [
        (lambda o, a, f: o.refused(a, f, sent(Answer.REFUSED), NOW), State.BLOCKED, False),
        (lambda o, a, f: o.unsent(a, f, sent(Answer.UNSENT), NOW, NOW + 3), State.QUEUED, False),
        (lambda o, a, f: o.lost(a, f, sent(Answer.DOUBT), NOW), State.IN_DOUBT, True),
        (lambda o, a, f: o.lost(a, f, sent(Answer.DUPLICATE), NOW), State.IN_DOUBT, True),
    ],
    ids=["refused", "unsent", "lost", "duplicate"],
)
@pytest.mark.parametrize("replaced", [False, True])
def test_outcome_leads_to_its_state(book, record, state, is_open, replaced):
    row = book.queue(b"a")
    attempt = book.begin(row)
    if replaced:
        book.queue(b"a", size=99)
    record(book.ledger.attempt_results, attempt, row.id)
    assert book.by_id(row).state is (State.SUPERSEDED if replaced and not is_open else state)
    assert (book.ledger.doubts.of(row.id) is not None) is is_open


@pytest.mark.parametrize(("left", "digest"), [(SentExtent.ALL, M2), (SentExtent.PART, M1)])
def test_digest_is_kept_only_if_all_was_sent(book, left, digest):
    row = book.queue(b"a")
    book.ledger.attempt_results.lost(book.begin(row, md5=M1), row.id, sent(Answer.DOUBT, left=left), NOW)
    assert book.row(b"a").md5 == digest


def test_answered_id_puts_adopter_in_doubt(book):
    adopter = book.queue(b"adopter")
    attempt = book.lose(adopter)
    from assetsync.core.doubt import Judgement, Verdict

    (doubt,) = book.ledger.doubts.due(NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.FOUND, "A", "F"), NOW)
    assert book.row(b"adopter").assetid == "A"
    mine = book.accept(book.queue(b"mine"), "A")
    assert (mine.state, mine.assetid) == (State.STORED, "A")
    again = book.row(b"adopter")
    assert (again.state, again.assetid, again.reason) == (State.IN_DOUBT, None, "disputed")
    reopened = book.ledger.doubts.of(adopter.id)
    assert (reopened.id, reopened.name_released) == (attempt, 0)


def test_unsent_adopter_losing_id_is_queued(book):
    adopter = book.queue(b"adopter")
    book.ledger.queue.adopt(adopter, "A", M1, "said", NOW)
    book.accept(book.queue(b"mine"), "A")
    again = book.row(b"adopter")
    assert (again.state, again.assetid) == (State.QUEUED, None)


@pytest.mark.parametrize("is_doubted", [False, True])
def test_lost_asset_ends_its_difference(book, is_doubted):
    adopter = book.queue(b"adopter")
    book.lose(adopter)
    book.ledger.decisions.resolve_as_asset(adopter, _asset("A"), NOW)
    book.ledger.read_back.apply_all([Change(book.row(b"adopter"), None, {"differs": "it differs"})], NOW)
    if is_doubted:
        book.ledger.read_back.apply_all([Change(book.row(b"adopter"), Event.UNSEEN, {"detail": "not shown"})], NOW)
    assert [row.path for row in book.ledger.metadata_drift.drifted()] == [b"adopter"]
    book.accept(book.queue(b"mine"), "A")
    assert (book.row(b"adopter").assetid, book.row(b"adopter").differs) == (None, None)


def test_doubted_adopter_goes_on_without_id(book):
    adopter = book.queue(b"adopter")
    book.lose(adopter)
    book.ledger.decisions.resolve_as_asset(adopter, _asset("A"), NOW)
    book.ledger.read_back.apply_all([Change(book.row(b"adopter"), Event.UNSEEN, {"detail": "not shown"})], NOW)
    assert book.row(b"adopter").state is State.IN_DOUBT
    assert book.accept(book.queue(b"mine"), "A").assetid == "A"
    again = book.row(b"adopter")
    assert (again.state, again.assetid) == (State.IN_DOUBT, None)
    assert book.ledger.doubts.of(adopter.id).why == "disputed"


def _asset(assetid: str):
    from assetsync.model import Asset

    return Asset(assetid, "F", "a", 10, M1, "doc")


def test_id_of_earlier_answer_is_doubted(book):
    first = book.accept(book.queue(b"first"), "A")
    second = book.accept(book.queue(b"second"), "A")
    assert (second.state, second.reason, second.assetid) == (State.IN_DOUBT, "id_taken", None)
    assert book.by_id(first) == first


def test_upload_with_taken_id_keeps_its_digest(book):
    """A file of unknown digest is hashed while it is sent; without the digest an equal newer version would be sent."""
    book.accept(book.queue(b"first"), "A")
    second = book.queue(b"second")
    doubted = book.accept(second, "A", md5=M2, attempt=book.begin(second, md5=None))
    assert (doubted.state, doubted.md5) == (State.IN_DOUBT, M2)


def test_an_id_of_history_can_be_given_again(book):
    old = book.accept(book.queue(b"a"), "A")
    book.ledger.versions.unwanted([(old.id, b"a")], Event.VANISHED, NOW)
    assert book.accept(book.queue(b"b"), "A").state is State.STORED


@pytest.mark.parametrize(("size", "digest"), [(99, M1), (10, M2)])
def test_id_of_other_content_is_doubted(book, size, digest):
    old = book.accept(book.queue(b"a"), "A", md5=M1)
    book.queue(b"a", mtime=7)
    assert book.by_id(old).state is State.SUPERSEDED
    second = book.accept(book.queue(b"b", size=size), "A", md5=digest)
    assert (second.state, second.reason, second.assetid) == (State.IN_DOUBT, "id_taken", None)


@pytest.mark.parametrize("rests", [False, True])
def test_an_id_of_another_folder_is_not_believed(book, rests):
    """The asset was shown in another folder than the upload went to, so that it is no other than its owner's."""
    owner = book.queue(b"owner")
    book.lose(owner)
    book.ledger.decisions.resolve_as_asset(owner, replace(_asset("A"), folder_id="G"), NOW)
    if rests:
        book.ledger.versions.unwanted([(owner.id, b"owner")], Event.VANISHED, NOW)
    second = book.accept(book.queue(b"second"), "A")
    assert (second.state, second.reason, second.assetid) == (State.IN_DOUBT, "id_taken", None)
    assert book.by_id(owner).assetid == "A"


def test_upload_at_crash_is_in_doubt(book):
    flying, resting = book.queue(b"a"), book.queue(b"b")
    book.begin(flying)
    book.reopen()
    assert book.ledger.attempt_results.recover(NOW + 5) == 1
    row = book.row(b"a")
    assert (row.state, row.reason) == (State.IN_DOUBT, "unclean_stop")
    assert book.row(b"b") == resting
    assert [doubt.file.id for doubt in book.ledger.doubts.due(NOW + 5)] == [flying.id]
    assert book.ledger.attempt_results.recover(NOW + 6) == 0


@pytest.mark.parametrize("times", [1, 2])
def test_file_of_five_crashes_is_blocked(book, times):
    row = book.queue(b"a")
    for crash in range(1, MAX_CRASHES * times + 1):
        book.begin(row)
        book.ledger.attempt_results.recover(NOW)
        assert book.row(b"a").state is (State.BLOCKED if crash % MAX_CRASHES == 0 else State.IN_DOUBT)
        if crash < MAX_CRASHES * times:
            book.ledger.decisions.resolve_as_absent(row, NOW)
    blocked = book.row(b"a")
    assert (blocked.state, blocked.reason) == (State.BLOCKED, "crashes")
    assert blocked.detail == f"assetsync died {5 * times} times during the upload: find the cause, then `retry` it"
    assert book.ledger.doubts.of(row.id).name_released == 1
    assert book.ledger.decisions.retry(blocked, NOW) is State.IN_DOUBT


def test_replaced_upload_at_crash_is_in_doubt(book):
    old = book.queue(b"a")
    book.begin(old)
    book.queue(b"a", size=20)
    book.reopen()
    book.ledger.attempt_results.recover(NOW)
    assert book.by_id(old).state is State.IN_DOUBT
    assert book.ledger.reports.counts(NOW).unresolved_history == 1
