"""Some files of many, by which a disk is known again."""

from assetsync.core.states import Event

from .conftest import NOW


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
