"""What reading back records.

Covers `ledger/read_back.py`; `test_control_samples` covers the choice of samples.
"""

import pytest

from assetsync.core.states import Event
from assetsync.ledger.assets import Shown
from assetsync.ledger.read_back import Change
from assetsync.model import State

from .conftest import NOW

LATER = NOW + 60
CONFIRMED = {"verified_at": LATER, "detail": None, "reason": None}
FOUND = Shown(NOW + 30, LATER)


def waiting(book, path: bytes):
    """A stored row that was looked for once in vain."""
    row = book.accept(book.queue(path), path.decode())
    book.ledger.read_back.apply_all([Change(row, None, {"detail": "not shown yet"})], NOW)
    return book.row(path)


def test_fast_and_slow_path_confirm_alike(book):
    usual, other = waiting(book, b"usual"), waiting(book, b"other")
    # One more column, with the value that it has, makes a row unusual.
    other_columns = CONFIRMED | {"filetype": "doc"}
    changes = [Change(usual, Event.CONFIRMED, CONFIRMED, FOUND), Change(other, Event.CONFIRMED, other_columns, FOUND)]
    book.ledger.read_back.apply_all(changes, LATER)
    usual, other = book.row(b"usual"), book.row(b"other")
    its_own = {"id": 0, "path": b"", "folded_name": "", "inode": 0, "assetid": ""}
    assert usual._replace(**its_own) == other._replace(**its_own)
    assert usual.state is State.VERIFIED
    assert {name: getattr(usual, name) for name in CONFIRMED} == CONFIRMED
    assert book.shown(usual) == book.shown(other) == FOUND


@pytest.mark.parametrize("columns", [CONFIRMED, CONFIRMED | {"filetype": "doc"}], ids=["usual", "other"])
def test_confirmation_leaves_row_that_changed_meanwhile(book, columns):
    replaced, blocked = waiting(book, b"a"), waiting(book, b"b")
    book.queue(b"a", size=99)
    different = {"reason": "different", "detail": "it differs"}
    book.ledger.read_back.apply_all([Change(blocked, Event.DIFFERENT, different)], NOW)
    book.ledger.read_back.apply_all(
        [Change(row, Event.CONFIRMED, columns, FOUND) for row in (replaced, blocked)], LATER
    )
    assert (book.by_id(replaced).state, book.row(b"b").state) == (State.SUPERSEDED, State.BLOCKED)
    assert book.shown(replaced) == book.shown(blocked) == Shown()


def test_confirmation_closes_attempt_that_was_reopened(book):
    row = waiting(book, b"a")
    book.ledger.read_back.apply_all([Change(row, Event.UNSEEN, {"detail": "not shown"})], NOW)
    in_doubt = book.row(b"a")
    assert book.ledger.doubts.of(row.id) is not None
    book.ledger.store.change("UPDATE files SET state = 'stored', reason = NULL WHERE id = ?", row.id)
    book.ledger.read_back.apply_all([Change(in_doubt._replace(state=State.STORED), Event.CONFIRMED, CONFIRMED)], LATER)
    assert (book.row(b"a").state, book.ledger.doubts.of(row.id)) == (State.VERIFIED, None)
