"""What the ledger notes of assets that a listing shows in another folder of the service than before."""

from assetsync.core.states import Event

from .conftest import NOW


def stored(book, path: bytes, assetid: str):
    return book.accept(book.queue(path), assetid)


def verified(book, path: bytes, assetid: str):
    row = stored(book, path, assetid)
    book.ledger.assets.apply_all([(row, Event.CONFIRMED, {"verified_at": NOW})], NOW)
    return row


def folder_of(book, row) -> str:
    return str(book.by_id(row).asset_folder)


def test_what_was_read_back_is_noted_where_it_lies_now_and_read_for_its_drift(book):
    row, other = verified(book, b"a", "A"), verified(book, b"b", "B")
    assert book.ledger.drifts.met("G", ["A", "C"]) == [b"a"]
    assert (folder_of(book, row), book.by_id(row).drift) == ("G", "unread")
    assert (folder_of(book, other), book.by_id(other).drift) == ("F", None)
    assert book.ledger.drifts.met("G", ["A"]) == []


def test_what_was_never_read_back_keeps_its_folder(book):
    row = stored(book, b"a", "A")
    assert book.ledger.drifts.met("G", ["A"]) == []
    assert folder_of(book, row) == "F"


def test_of_history_it_is_noted_whether_it_was_read_back_or_not_and_no_drift(book):
    row = stored(book, b"a", "A")
    book.ledger.intake.unwanted([(row.id, b"a")], Event.VANISHED, NOW)
    assert book.ledger.drifts.met("G", ["A"]) == [b"a"]
    assert (folder_of(book, row), book.by_id(row).drift) == ("G", None)
