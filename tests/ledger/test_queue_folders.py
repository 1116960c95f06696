"""Which folder has the fewest waiting files."""

from assetsync.ledger.queue import Choice
from assetsync.model import Answer, Mapping, Outcome

from .conftest import NOW

HELD = Outcome(Answer.REFUSED, "unknown_folder", "the service has no such folder:")
ROOT = [Mapping(b"", "F")]


def fewest(book, mappings=ROOT, limit: int = 100, **said) -> list[bytes]:
    """Give the paths in the order of the ids."""
    paths = {row.id: row.path for row in book.ledger.reports.files()}
    return [paths[id_] for id_ in book.ledger.queue_folders.fewest(NOW, limit, mappings, **said)]


def test_fewest_first_and_its_newest_first(book):
    for number, path in enumerate((b"a/1", b"b/1", b"a/2", b"b/2", b"a/3")):
        book.queue(path, due=NOW - 9 + number)
    assert fewest(book) == [b"b/2", b"b/1", b"a/3", b"a/2", b"a/1"]
    assert fewest(book, limit=3) == [b"b/2", b"b/1", b"a/3"]


def test_newer_of_two_equal_folders_is_first(book):
    for number, path in enumerate((b"b/1", b"a/1", b"c/1")):
        book.queue(path, due=NOW - 9 + number)
    assert fewest(book) == [b"c/1", b"a/1", b"b/1"]


def test_folder_is_the_first_below_its_mapping(book):
    mappings = [Mapping(b"deep/media", "F"), Mapping(b"deep/media/own", "F"), Mapping(b"deep", "G")]
    for path in (b"deep/media/x/1", b"deep/media/x/y/2", b"deep/media/x/y/z/3", b"deep/media/x/4"):
        book.queue(path)
    for path in (b"deep/media/1", b"deep/media/2", b"deep/media/3"):
        book.queue(path)
    for path in (b"deep/media/own/x/1", b"deep/media/own/x/2"):
        book.queue(path)
    book.queue(b"deep/media2/1", folder="G")
    found = fewest(book, mappings)
    groups = [path.rpartition(b"/")[0] for path in found[:6]]
    assert groups == [b"deep/media2", *(b"deep/media/own/x",) * 2, *(b"deep/media",) * 3]
    assert sorted(found[6:]) == [b"deep/media/x/1", b"deep/media/x/4", b"deep/media/x/y/2", b"deep/media/x/y/z/3"]


def test_only_files_that_may_be_sent_count(book):
    """Files that were tried, that are due later or whose folder is held neither count nor are they returned."""
    for path in (b"a/1", b"a/2", b"b/1", b"b/2", b"b/3", b"b/later"):
        book.queue(path, due=NOW + 60 if path.endswith(b"later") else NOW)
    for path in (b"b/1", b"b/2"):
        row = book.queue(path, size=20)
        book.lose(row)
        book.ledger.decisions.resolve_as_absent(row, NOW)
    book.queue(b"held/1", folder="H")
    book.queue(b"apart/1", folder="I")
    book.hold_folder("H", HELD, NOW + 600)
    assert fewest(book, choice=Choice(("I",))) == [b"b/3", b"a/2", b"a/1"]


def test_folder_names_are_bytes(book):
    for path in (b"it's \xff/1", b"x'00'/1", b"x'00'/2"):
        book.ledger.store.write(
            lambda conn, path=path: conn.execute(
                "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, folded_name, state, wanted,"
                " queued_at, due_at) VALUES (?, 'F', 1, 1, 1, 1, 'x', 'queued', 'yes', ?, ?)",
                (path, NOW, NOW),
            )
        )
    assert fewest(book, [Mapping(b"it's \xff", "F")]) == [b"it's \xff/1", b"x'00'/2", b"x'00'/1"]
