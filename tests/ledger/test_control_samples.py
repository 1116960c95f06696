"""Which assets stand for all that the service should hold, where only a few of them can be asked for.

Covers `ledger/read_back.py`.
"""

from assetsync.core.states import Event
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import Change

from .conftest import NOW


def seen(book, path: bytes, assetid: str, *, verified: bool = False) -> None:
    row = book.accept(book.queue(path), assetid)
    event, columns = (Event.CONFIRMED, {"verified_at": NOW}) if verified else (None, {})
    book.ledger.read_back.apply_all([Change(row, event, columns, Shown(NOW))], NOW)


def asked_for(book, most: int) -> set[str]:
    return {witness.assetid for witness in book.ledger.control_samples.of_all(most)}


def test_half_newest_half_oldest_are_sampled(book):
    for number in range(10):
        seen(book, b"%d" % number, f"A{number}", verified=True)
    assert asked_for(book, 4) == {"A0", "A1", "A8", "A9"}
    assert asked_for(book, 5) == {"A0", "A1", "A7", "A8", "A9"}


def test_few_verified_are_padded_with_seen(book):
    seen(book, b"verified", "A", verified=True)
    for number in range(5):
        seen(book, b"%d" % number, f"S{number}")
    book.accept(book.queue(b"never seen"), "N")
    found = asked_for(book, 3)
    assert len(found) == 3
    assert "A" in found
    assert "N" not in asked_for(book, 10)


def test_history_is_sampled_as_last_resort(book):
    seen(book, b"a", "A", verified=True)
    book.ledger.versions.unwanted([(book.row(b"a").id, b"a")], Event.VANISHED, NOW)
    assert asked_for(book, 3) == {"A"}
