"""Which assets stand for all that the service should hold, where only a few of them can be asked for."""

from assetsync.core.states import Event

from .conftest import NOW


def seen(book, path: bytes, assetid: str, *, verified: bool = False) -> None:
    row = book.accept(book.queue(path), assetid)
    event, columns = (Event.CONFIRMED, {"verified_at": NOW}) if verified else (None, {})
    book.ledger.assets.apply_all([(row, event, {"seen_at": NOW} | columns)], NOW)


def asked_for(book, most: int) -> set[str]:
    return {witness.assetid for witness in book.ledger.witnesses.of_all(most)}


def test_half_of_them_are_the_newest_and_half_the_oldest(book):
    for number in range(10):
        seen(book, b"%d" % number, f"A{number}", verified=True)
    assert asked_for(book, 4) == {"A0", "A1", "A8", "A9"}
    assert asked_for(book, 5) == {"A0", "A1", "A7", "A8", "A9"}


def test_where_few_are_verified_others_that_were_seen_stand_beside_them(book):
    seen(book, b"verified", "A", verified=True)
    for number in range(5):
        seen(book, b"%d" % number, f"S{number}")
    book.accept(book.queue(b"never seen"), "N")
    found = asked_for(book, 3)
    assert len(found) == 3
    assert "A" in found
    assert "N" not in asked_for(book, 10)


def test_history_stands_for_the_service_where_nothing_else_does(book):
    seen(book, b"a", "A", verified=True)
    book.ledger.intake.unwanted([(book.row(b"a").id, b"a")], Event.VANISHED, NOW)
    assert asked_for(book, 3) == {"A"}
