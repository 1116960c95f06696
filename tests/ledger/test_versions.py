"""What is queued of what the tree shows, and some files of many, by which a disk is known again."""

import pytest

from assetsync.core.states import Event
from assetsync.ledger.versions import NewVersion

from .conftest import NOW, traced


def test_folder_sample_is_stable_and_spread(book):
    for number in range(60):
        book.accept(book.queue(b"d/%02d" % number), f"A{number}")
    book.accept(book.queue(b"beside"), "B")
    book.queue(b"d/never sent")
    gone = book.row(b"d/00")
    book.ledger.versions.unwanted([(gone.id, gone.path)], Event.VANISHED, NOW)
    samples = [[row.path for row in book.ledger.versions.sample(b"d", 20)] for _ in range(5)]
    assert all(sample == samples[0] for sample in samples)
    numbers = {int(path.removeprefix(b"d/")) for path in samples[0]}
    assert len(numbers) == 20
    assert min(numbers) in range(1, 20)
    assert max(numbers) >= 40
    assert len(book.ledger.versions.sample(b"d", 100)) == 59


def test_folder_sample_reads_few_rows(book):
    """The rows that it looks at are spread, and stay the same until the ledger has twice as many."""
    for number in range(130):
        book.accept(book.queue(b"d/%03d" % number), f"A{number}")
    with traced(book.ledger.store) as statements:
        sample = {row.path for row in book.ledger.versions.sample(b"d", 10)}
    assert not [each for each in statements if "id IN (SELECT id" in each]
    numbers = sorted(int(path.removeprefix(b"d/")) for path in sample)
    assert len(numbers) == 10
    assert numbers[-1] - numbers[0] > 65
    for number in range(29):
        book.accept(book.queue(b"later/%03d" % number), f"B{number}")
    assert {row.path for row in book.ledger.versions.sample(b"d", 10)} == sample


def test_folder_sample_finds_the_few_with_an_asset(book):
    for number in range(400):
        book.queue(b"d/%03d" % number)
    for number in (7, 300):
        book.accept(book.row(b"d/%03d" % number), f"A{number}")
    assert {row.path for row in book.ledger.versions.sample(b"d", 10)} == {b"d/007", b"d/300"}


def test_sample_allows_many_excluded_folders(book):
    book.accept(book.queue(b"a"), "A")
    assert [
        row.path for row in book.ledger.versions.sample(b"", 10, but=[b"%d" % number for number in range(1200)])
    ] == [b"a"]


def test_version_from_between_two_pages_is_not_a_second_one(book):
    paths = [b"%03d" % number for number in range(250)]
    book.queue_many(paths)
    read = []
    for known in book.ledger.versions.current():
        read.append(known.path)
        if known.path == paths[50]:
            # The last paths of the first page, and of none.
            book.queue(paths[99])
            book.queue(paths[200])
    assert read == paths


@pytest.mark.parametrize("has_asides", [False, True])
def test_version_found_twice_is_queued_once(book, has_asides):
    """A scan and a look at the path found the same new file."""
    if has_asides:
        aside = book.accept(book.queue(b"a"), "A")
        book.ledger.versions.unwanted([(aside.id, b"a")], Event.UNMAPPED, NOW)
    stat = book.stat(99)
    found = NewVersion(b"a", stat, "F", "a", replaces=None)
    assert book.ledger.versions.enqueue([found], NOW) == []
    first = book.row(b"a")
    assert book.ledger.versions.enqueue([found], NOW + 1) == [found]
    assert book.row(b"a") == first


def test_file_put_aside_is_revived_unless_its_path_is_taken(book):
    aside = book.accept(book.queue(b"a"), "A")
    book.ledger.versions.unwanted([(aside.id, b"a")], Event.UNMAPPED, NOW)
    same = NewVersion(b"a", aside.stat, "F", "a", replaces=None)
    assert book.ledger.versions.enqueue([same], NOW) == []
    assert book.row(b"a").id == aside.id
    book.ledger.versions.unwanted([(aside.id, b"a")], Event.UNMAPPED, NOW)
    changed = book.queue(b"a", size=99)
    assert book.ledger.versions.enqueue([same], NOW) == [same]
    assert book.row(b"a").id == changed.id
