"""What a person decides: try again, send again, it is this asset, it is absent."""

import pytest

from assetsync.core.doubt import Judgement, Verdict
from assetsync.core.states import Event
from assetsync.errors import IllegalTransition
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import Change
from assetsync.model import Asset, State

from .conftest import M1, NOW


def blocked(book) -> None:
    book.ledger.queue.block(book.queue(b"a").id, "sidecar", "line 1", NOW)


def undecidable(book) -> None:
    book.lose(book.queue(b"a"))
    (doubt,) = book.ledger.doubts.due(NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.UNDECIDABLE, reason="five times"), NOW)


def different(book) -> None:
    row = book.accept(book.queue(b"a"), "A")
    book.ledger.read_back.apply_all([Change(row, Event.DIFFERENT, {"reason": "different"})], NOW)


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (blocked, State.QUEUED),
        (undecidable, State.IN_DOUBT),
        (different, State.STORED),
        (lambda book: book.queue(b"a"), State.QUEUED),
        (lambda book: book.lose(book.queue(b"a")), State.IN_DOUBT),
        (lambda book: book.accept(book.queue(b"a"), "A"), State.STORED),
    ],
    ids=["blocked", "undecidable", "different", "queued", "in_doubt", "stored"],
)
def test_retry_keeps_an_open_doubt(book, make, state):
    make(book)
    assert book.ledger.decisions.retry(book.row(b"a"), NOW) is state
    assert book.row(b"a").state is state


@pytest.mark.parametrize("make", [blocked, undecidable, different, lambda book: book.accept(book.queue(b"a"), "A")])
def test_send_again_overrides_id_and_doubt(book, make):
    make(book)
    known = book.row(b"a").assetid
    assert book.ledger.decisions.send_again(book.row(b"a"), NOW) is State.QUEUED
    row = book.row(b"a")
    assert (row.assetid, row.send_again, book.ledger.doubts.of(row.id)) == (None, 1, None)
    assert [(o.assetid, o.why) for o in book.ledger.reports.orphans(NOW)] == ([(known, "replaced")] if known else [])
    sent = book.accept(row, "NEW")
    assert (sent.assetid, sent.send_again) == ("NEW", 0)


def test_file_in_flight_cannot_be_sent_again(book):
    book.begin(book.queue(b"a"))
    with pytest.raises(IllegalTransition):
        book.ledger.decisions.send_again(book.row(b"a"), NOW)
    assert book.row(b"a").state is State.SENDING


@pytest.mark.parametrize("make", [undecidable, lambda book: book.lose(book.queue(b"a"))])
@pytest.mark.parametrize("word", ["asset", "absent"])
def test_a_persons_word_ends_a_doubt(book, make, word):
    make(book)
    row = book.row(b"a")
    if word == "asset":
        state = book.ledger.decisions.resolve_as_asset(row, Asset("MINE", "G", "a", 10, M1, "doc"), NOW)
        assert (state, book.row(b"a").assetid, book.row(b"a").asset_folder) == (State.STORED, "MINE", "G")
    else:
        assert book.ledger.decisions.resolve_as_absent(row, NOW) is State.QUEUED
    assert book.ledger.doubts.of(row.id) is None
    assert book.ledger.doubts.count() == 0


@pytest.mark.parametrize("reason", ["unseen", "missing", "different"])
@pytest.mark.parametrize("was", ["adopted", "sent", "moved"])
def test_only_adopted_asset_is_let_go(book, was, reason):
    row = book.queue(b"a")
    if was == "sent":
        book.accept(row, "A")
    else:
        book.ledger.queue.adopt(row, "A", M1, "said", NOW)
    row = book.row(b"a")
    moved = {"asset_folder": "G"} if was == "moved" else {}
    book.ledger.read_back.apply_all([Change(row, Event.MISSING, {"reason": reason} | moved)], NOW)
    row = book.row(b"a")
    goes = was == "adopted" and reason != "different"
    assert book.ledger.decisions.may_let_go(row) is goes
    assert book.ledger.decisions.let_go(row, "B", NOW) is (State.STORED if goes else State.BLOCKED)
    assert book.row(b"a").assetid == ("B" if goes else "A")


def test_asset_of_other_file_is_not_taken(book):
    row, other = book.queue(b"a"), book.queue(b"b")
    book.ledger.queue.adopt(row, "A", M1, "said", NOW)
    book.ledger.queue.adopt(other, "B", M1, "said", NOW)
    book.ledger.read_back.apply_all([Change(book.row(b"a"), Event.MISSING, {"reason": "unseen"})], NOW)
    assert book.ledger.decisions.let_go(book.row(b"a"), "B", NOW) is State.BLOCKED
    assert book.row(b"a").assetid == "A"


def test_replacement_asset_inherits_no_facts(book):
    row = book.queue(b"a")
    book.ledger.queue.adopt(row, "A", M1, "said", NOW)
    known = {"verified_at": NOW, "reason": "missing"}
    book.ledger.read_back.apply_all([Change(book.row(b"a"), Event.MISSING, known, Shown(NOW, NOW))], NOW)
    shown = [Asset(assetid, "F", "a", 10, M1, "doc") for assetid in ("A", "B")]
    book.ledger.assets.record(shown, 0, NOW)
    assert book.ledger.decisions.let_go(book.row(b"a"), "B", NOW) is State.STORED
    row = book.row(b"a")
    assert (row.assetid, row.verified_at, book.shown(row)) == ("B", None, Shown())
    assert book.ledger.assets.first_seen(["A", "B"]) == {}


def test_sent_asset_found_by_look_up_is_kept(book):
    book.lose(book.queue(b"a"))
    (doubt,) = book.ledger.doubts.due(NOW)
    book.ledger.doubts.decide(doubt, Verdict(Judgement.FOUND, "A", "F"), NOW)
    row = book.row(b"a")
    assert (row.id_from, row.asset_folder) == ("adopted", row.destfolderid)
    book.ledger.read_back.apply_all([Change(row, Event.MISSING, {"reason": "missing"})], NOW)
    assert not book.ledger.decisions.may_let_go(book.row(b"a"))
