"""What the ledger notes of assets that a listing shows in another folder of the service than before."""

from assetsync.core.states import Event
from assetsync.ledger.metadata_drift import Found
from assetsync.ledger.read_back import Change
from assetsync.model import Asset, State

from .conftest import M1, M2, NOW


def shown(*assetids: str, md5: str | None = None) -> list[Asset]:
    return [Asset(assetid, "G", "name", 10, md5, "doc") for assetid in assetids]


def stored(book, path: bytes, assetid: str):
    return book.accept(book.queue(path), assetid)


def verified(book, path: bytes, assetid: str):
    row = stored(book, path, assetid)
    book.ledger.read_back.apply_all([Change(row, Event.CONFIRMED, {"verified_at": NOW})], NOW)
    return row


def folder_of(book, row) -> str:
    return str(book.by_id(row).asset_folder)


def test_verified_asset_is_noted_as_moved(book):
    row, other = verified(book, b"a", "A"), verified(book, b"b", "B")
    assert book.ledger.metadata_drift.met("G", shown("A", "C")) == [b"a"]
    assert (folder_of(book, row), book.by_id(row).drift) == ("G", "unread")
    assert (folder_of(book, other), book.by_id(other).drift) == ("F", None)
    assert book.ledger.metadata_drift.met("G", shown("A")) == []
    assert book.ledger.metadata_drift.met("G", []) == []


def test_unverified_asset_moves_by_digest(book):
    row = stored(book, b"a", "A")
    for md5 in (None, M2):
        assert book.ledger.metadata_drift.met("G", shown("A", md5=md5)) == []
    assert folder_of(book, row) == "F"
    assert book.ledger.metadata_drift.met("G", shown("A", md5=M1)) == [b"a"]
    assert folder_of(book, row) == "G"


def test_historic_asset_moves_without_drift(book):
    row = stored(book, b"a", "A")
    book.ledger.versions.unwanted([(row.id, b"a")], Event.VANISHED, NOW)
    assert book.ledger.metadata_drift.met("G", shown("A")) == [b"a"]
    assert (folder_of(book, row), book.by_id(row).drift) == ("G", None)


def test_unverified_blocked_asset_moves(book):
    row = stored(book, b"a", "A")
    book.ledger.read_back.apply_all([Change(row, Event.DIFFERENT, {"reason": "different"})], NOW)
    assert book.ledger.metadata_drift.met("G", shown("A")) == [b"a"]
    assert folder_of(book, row) == "G"


def test_unverified_replaced_asset_moves(book):
    row = stored(book, b"a", "A")
    book.queue(b"a", mtime=7)
    assert book.ledger.metadata_drift.met("G", shown("A")) == [b"a"]
    assert folder_of(book, row) == "G"


def test_asset_without_digest_does_not_move(book):
    row = book.queue(b"a")
    book.lose(row, md5=None)
    book.ledger.decisions.resolve_as_asset(row, Asset("A", "F", "a", 10, None, "doc"), NOW)
    assert (book.row(b"a").state, book.row(b"a").md5) == (State.STORED, None)
    assert book.ledger.metadata_drift.met("G", shown("A")) == []
    assert folder_of(book, row) == "F"


def test_agreed_folder_ends_with_remapping(book):
    row = verified(book, b"a", "A")
    book.ledger.metadata_drift.met("G", shown("A"))
    told = book.by_id(row)._replace(drift="it lies in another folder", drift_digest=None)
    book.ledger.metadata_drift.read([Found(told.drift, None, book.by_id(row))], still=lambda: True)
    assert book.ledger.metadata_drift.settle([told]) == 1
    assert book.by_id(row).agreed_folder == "G"
    book.ledger.metadata_drift.remapped([(row.id, "G")])
    assert (book.by_id(row).destfolderid, book.by_id(row).agreed_folder) == ("G", None)


def test_historic_sighting_follows_its_asset(book):
    row = stored(book, b"a", "A")
    book.ledger.versions.unwanted([(row.id, b"a")], Event.VANISHED, NOW)
    book.ledger.assets.record([Asset("A", "F", "name", 10, M1, "doc")], 0, NOW)
    later = book.queue(b"b")
    assert book.ledger.equal_content.sighted(later, M1) == [("A", "name", False)]
    book.ledger.metadata_drift.met("G", shown("A", md5=M1))
    assert book.ledger.equal_content.sighted(later, M1) == []
