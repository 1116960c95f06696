"""A holder's session: starts are counted, a restored copy is noticed, brakes and facts are kept."""

import pytest

from assetsync.errors import LedgerError
from assetsync.ledger.ledger import open_ledger, read_ledger

from .conftest import NOW


def epoch(book):
    return book.path.with_name(book.path.name + ".epoch")


def test_each_start_has_the_next_number_and_a_copy_of_it_beside_the_ledger(book):
    assert (book.ledger.start_no, epoch(book).read_text()) == (1, "1")
    assert book.reopen().start_no == 2
    assert epoch(book).read_text() == "2"
    assert not book.ledger.restored


@pytest.mark.parametrize(
    ("known", "copied", "start", "restored"), [(3, 3, 4, False), (3, 2, 4, False), (3, 7, 8, True), (0, 5, 6, True)]
)
def test_a_counter_behind_its_copy_is_a_restored_ledger(book, known, copied, start, restored):
    book.ledger.set_fact("start", str(known))
    book.ledger.close()
    epoch(book).write_text(str(copied))
    book.ledger = open_ledger(book.path)
    assert (book.ledger.start_no, book.ledger.restored) == (start, restored)


def test_a_ledger_without_its_copy_is_no_restored_one(book):
    epoch(book).unlink()
    assert not book.reopen().restored


def test_a_copy_that_holds_no_number_is_one_sentence_and_gives_the_lock_back(book):
    book.ledger.close()
    epoch(book).write_text("three")
    with pytest.raises(LedgerError, match="does not hold a number"):
        open_ledger(book.path)
    epoch(book).unlink()
    book.ledger = open_ledger(book.path)


def test_a_reader_counts_no_start(book):
    read_ledger(book.path).close()
    assert book.reopen().start_no == 2


def test_a_brake_is_pulled_once_for_its_subject_until_it_is_released(book):
    ledger = book.ledger
    pulled = [ledger.pull_brake("vanished", subject, "why", 7, NOW) for subject in ("a", "a", "b")]
    assert pulled == [True, False, True]
    first = ledger.reports.brakes()[0]
    assert (ledger.resume(first.id, NOW + 1), ledger.resume(first.id, NOW + 1), ledger.resume(None, NOW + 2)) == (
        1,
        0,
        1,
    )
    assert ledger.pull_brake("vanished", "a", "again", 9, NOW + 3) is True


def test_what_a_person_allowed_is_the_most_that_was_released_since(book):
    ledger = book.ledger
    for amount, at in ((9, NOW), (5, NOW + 10), (7, NOW + 20)):
        ledger.pull_brake("vanished", "a", "why", amount, at)
        ledger.resume(None, at)
    assert [ledger.resumed_amount("vanished", "a", since) for since in (NOW, NOW + 5, NOW + 21)] == [9, 7, None]
    assert ledger.resumed_amount("vanished", "b", NOW) is None
