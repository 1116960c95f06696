"""What is known of an asset while a version has it, and once none has."""

import pytest

from assetsync.core.doubt import Judgement, Verdict
from assetsync.core.states import Event
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import Change
from assetsync.model import Answer, Outcome, Sent, SentExtent, State

from .conftest import M1, NOW
from .test_doubts import asset

LATER = NOW + 100


@pytest.fixture
def read_back(book):
    """A version whose asset A was read back after its attempt, the first."""
    row = book.accept(book.queue(b"a"), "A")
    book.ledger.read_back.apply_all([Change(row, None, {}, Shown(NOW, NOW))], NOW)
    return row


def sight(book, assetid: str = "A"):
    """The first sight of an asset without a version; None if it has one, or was not shown."""
    return book.ledger.assets.first_seen([assetid]).get(assetid)


def test_order_of_first_sight_is_kept(book):
    assets = book.ledger.assets
    assets.record([asset("A", size=0, md5=None)], 2, NOW)
    assets.record([asset("A"), asset("B")], 6, NOW)
    assert assets.first_seen(["A", "B", "C"]) == {"A": (2, NOW), "B": (6, NOW)}


def test_asset_learns_size_and_digest(book):
    assets = book.ledger.assets
    assets.record([asset("A", size=0, md5=None)], 0, NOW)
    assert tuple(book.ledger.store.rows("SELECT size, md5 FROM unowned")[0]) == (None, None)
    assets.record([asset("A")], 0, NOW)
    assert tuple(book.ledger.store.rows("SELECT size, md5 FROM unowned")[0]) == (10, M1)


def test_asset_of_a_version_is_no_candidate(book, read_back):
    assert sight(book) is None
    other = book.queue(b"b")
    assert not book.ledger.equal_content.hints(other, M1)[1]
    assert book.ledger.equal_content.sighted(other, M1) == []


def test_asset_of_old_version_is_seen_anew(book, read_back):
    book.queue(b"a", size=99)
    assert sight(book) is None
    book.ledger.assets.record([asset("A")], 2, LATER)
    assert sight(book) == (2, LATER)
    assert book.shown(read_back) == Shown(NOW, NOW)


@pytest.mark.parametrize("then", ["sent_again", "absent", "disputed", "replenished"])
def test_given_up_asset_is_seen_anew(book, read_back, then):
    if then == "replenished":
        book.ledger.read_back.apply_all([Change(read_back, Event.CONFIRMED, {"verified_at": NOW})], NOW)
        change = Change(book.row(b"a"), Event.REPLENISHED, {"assetid": None, "reason": "missing"})
        book.ledger.read_back.apply_all([change], NOW)
    else:
        book.ledger.read_back.apply_all([Change(read_back, Event.UNSEEN, {"detail": "not shown"})], NOW)
        (doubt,) = book.ledger.doubts.due(NOW)
    if then == "sent_again":
        book.ledger.decisions.resolve_as_absent(book.row(b"a"), NOW)
    elif then == "absent":
        book.ledger.doubts.decide(doubt, Verdict(Judgement.ABSENT), NOW)
    elif then == "disputed":
        book.ledger.store.change("UPDATE files SET id_from = 'adopted'")
        book.accept(book.queue(b"b"), "A")
        assert (book.row(b"b").assetid, book.shown(book.row(b"b"))) == ("A", Shown())
        return
    assert book.shown(read_back) == Shown()
    book.ledger.assets.record([asset("A")], 7, LATER)
    assert sight(book) == (7, LATER)


def test_replaced_asset_keeps_its_word(book, read_back):
    book.ledger.read_back.apply_all([Change(read_back, Event.DIFFERENT, {"reason": "different"})], NOW)
    assert book.ledger.decisions.send_again(book.row(b"a"), NOW) is State.QUEUED
    assert book.ledger.assets.explained(["A"], "replaced") == {"A"}
    assert sight(book) == (0, NOW)


def test_adopted_asset_has_a_version(book):
    book.ledger.assets.record([asset("A")], 5, NOW)
    assert book.ledger.queue.adopt(book.queue(b"a"), "A", M1, "said", NOW)
    assert (sight(book), book.shown(book.row(b"a"))) == (None, Shown())
    book.queue(b"a", size=99)
    book.ledger.assets.record([asset("A")], 9, LATER)
    assert sight(book) == (9, LATER)


def test_own_asset_is_not_older_than_later_attempt(book):
    """Otherwise it would count as another file's, and without MD5 the file would be sent twice."""
    book.ledger.assets.record([asset("A")], 0, NOW)
    row = book.queue(b"a")
    attempt = book.begin(row)
    nothing = Sent(Outcome(Answer.UNSENT, "no_connection"), SentExtent.NOTHING, 0, "")
    book.ledger.attempt_results.unsent(attempt, row.id, nothing, NOW, NOW)
    assert book.ledger.queue.adopt(row, "A", M1, "said", NOW)
    book.ledger.read_back.apply_all([Change(book.row(b"a"), Event.UNSEEN, {"detail": "not shown"})], NOW)
    assert (book.ledger.doubts.of(row.id).id, book.row(b"a").assetid) == (attempt, "A")
    book.ledger.assets.record([asset("A")], book.ledger.doubts.newest_attempt(), LATER)
    assert sight(book) == (attempt, LATER)


def test_read_back_asset_is_no_stranger_any_more(book, read_back):
    """A listing may record an asset just after the answer that names it."""
    book.ledger.assets.record([asset("A")], 1, NOW)
    assert sight(book) == (1, NOW)
    book.ledger.read_back.apply_all([Change(read_back, None, {}, Shown(NOW, NOW))], NOW)
    assert sight(book) is None


def test_retry_reads_the_asset_back_anew(book, read_back):
    known = Shown(NOW, NOW, "boot", 1.0, 2.0, NOW, 3, NOW)
    book.ledger.read_back.apply_all([Change(read_back, Event.MISSING, {"reason": "missing"}, known)], NOW)
    assert book.ledger.decisions.retry(book.row(b"a"), NOW) is State.STORED
    assert book.shown(read_back) == known._replace(shown_at=None, findable_at=None, absent_boot=None)


def test_audit_meets_assets_of_versions_alone(book, read_back):
    """A version at rest that was never read back has no row yet; its asset is no stranger after the audit."""
    book.accept(book.queue(b"b"), "B")
    book.queue(b"b", size=11)
    book.ledger.audits.met(["A", "B", "STRANGER"], LATER)
    found = book.ledger.store.rows("SELECT assetid, why, shown_at, met_at FROM assets ORDER BY assetid")
    assert [*map(tuple, found)] == [("A", "owned", NOW, LATER), ("B", "owned", None, LATER)]


@pytest.mark.parametrize("was", ["sent", "adopted"])
def test_asset_given_up_leaves_nothing_known(book, read_back, was):
    changes = {"differs": "it differs"} | ({"uploaded_at": None} if was == "adopted" else {})
    book.ledger.read_back.asked(["A"], NOW)
    book.ledger.read_back.apply_all([Change(read_back, None, changes)], NOW)
    assert [row.path for row in book.ledger.metadata_drift.adopted()] == [b"a"] * (was == "adopted")
    book.ledger.read_back.apply_all([Change(book.row(b"a"), Event.DIFFERENT, {"reason": "different"})], NOW)
    assert book.ledger.decisions.send_again(book.row(b"a"), NOW) is State.QUEUED
    row = book.row(b"a")
    assert (row.assetid, row.id_from, row.asset_folder, row.differs) == (None,) * 4
    assert book.ledger.store.column("SELECT index_asked_at FROM assets") == [None]
