"""Finding files by a part of their paths, before and after the index is made."""

import sqlite3
import unicodedata
from collections import deque

import pytest
from structlog.testing import capture_logs

from assetsync.core.states import Event
from assetsync.ledger import path_search
from assetsync.ledger.path_search import PathSearch
from assetsync.ledger.versions import NewVersion
from assetsync.model import FileStat
from assetsync.text import folded
from tests.ledger.conftest import M1, NOW


@pytest.fixture
def search(book):
    made = PathSearch(book.ledger.store)
    yield made
    made.close()


def add(book, *paths, indexed=None):
    """Queue files; where `indexed` is given, the search indexes them."""
    versions = [NewVersion(_bytes(path), FileStat(1, 1, 1, n), "F", "x", None) for n, path in enumerate(paths)]
    book.ledger.versions.enqueue(versions, NOW)
    while indexed is not None and indexed.step():
        pass


def _bytes(path):
    return path.encode() if isinstance(path, str) else path


def paths(found):
    return [row.path.decode("utf-8", "replace") for row in found.files]


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("IMG_0003", ["photos/IMG_0003.jpg"]),
        ("img_0003", ["photos/IMG_0003.jpg"]),
        ("TROMSØ", ["Tromsø/dawn.jpg"]),
        ("strasse", ["Straße.jpg"]),
        (unicodedata.normalize("NFD", "é.cr3"), ["photos/café.CR3"]),
        ("hotos/im", ["photos/IMG_0003.jpg"]),
        ("im", ["photos/IMG_0003.jpg"]),
        ("T", ["Tromsø/dawn.jpg"]),
        ("ms", []),
        ("nothing", []),
        ('a "b', ['a "b" AND c*.jpg']),
        ("w\\nl", ["new\nline.jpg"]),
        ("d \ufffd", ["bad \ufffd.jpg"]),
    ],
)
def test_part_of_a_path_finds_the_file(book, search, text, names, is_indexed):
    files = ["photos/IMG_0003.jpg", "photos/café.CR3", "Tromsø/dawn.jpg", "Straße.jpg", 'a "b" AND c*.jpg']
    add(book, *files, "new\nline.jpg", b"bad \xff.jpg", indexed=search if is_indexed else None)
    found = search.find(text, 50)
    assert (paths(found), found.more, found.is_all) == (names, 0, True)


def test_index_is_used_once_it_is_made(book, search, monkeypatch):
    add(book, *(f"{number}/IMG.jpg" for number in range(700)), "there/sunset.jpg", indexed=search)
    read = []
    monkeypatch.setattr(book.ledger.store, "rows", _noting(read, book.ledger.store.rows))
    assert paths(search.find("sunset", 50)) == ["there/sunset.jpg"]
    assert len([sql for sql in read if "BETWEEN" in sql]) == 1, "only the run that holds it is read"


def _noting(read, rows):
    return lambda sql, *values: (read.append(sql), rows(sql, *values))[1]


def test_limit_counts_what_it_leaves_out(book, search):
    add(book, *(f"IMG_{number}.jpg" for number in range(120)), indexed=search)
    found = search.find("img", 50)
    assert (len(found.files), found.more, found.is_all) == (50, 70, True)
    assert paths(found)[0] == "IMG_119.jpg", "new files come first"


def test_very_many_matches_are_not_all_counted(book, search, monkeypatch):
    monkeypatch.setattr(path_search, "_MOST_PATHS", 150)
    add(book, *(f"IMG_{number}.jpg" for number in range(500)), indexed=search)
    found = search.find("img", 50)
    assert (len(found.files), found.more, found.is_all) == (50, 150, False)


def test_renamed_file_is_found_by_its_new_name(book, search):
    old = book.accept(book.queue(b"old.jpg"), "A1")
    book.ledger.versions.unwanted([(old.id, b"old.jpg")], Event.VANISHED, NOW)
    old, new = book.by_id(old), book.queue(b"new name.jpg")
    while search.step():
        pass
    assert book.ledger.queue.take_over(new, old, M1, NOW) is not None
    while search.step():
        pass
    assert [(row.id, row.path) for row in search.find("new name", 50).files] == [(old.id, b"new name.jpg")]
    assert search.find("old.jpg", 50).files == []


def test_more_renamed_files_than_are_remembered_are_found(book, search, monkeypatch):
    monkeypatch.setattr(book.ledger.store, "moved", deque(maxlen=2))
    old = [book.accept(book.queue(b"%d.jpg" % number), f"A{number}") for number in range(3)]
    while search.step():
        pass
    for row in old:
        book.ledger.versions.unwanted([(row.id, row.path)], Event.VANISHED, NOW)
        new = book.queue(b"renamed " + row.path)
        assert book.ledger.queue.take_over(new, book.by_id(row), M1, NOW) is not None
    while search.step():
        pass
    assert len(search.find("renamed", 50).files) == 3


def test_each_path_is_shown_once(book, search):
    book.accept(book.queue(b"a/IMG_1.jpg"), "A1")
    book.queue(b"a/IMG_1.jpg", size=20)
    book.queue(b"b/IMG_1.jpg")
    while search.step():
        pass
    found = search.find("img_1", 50)
    assert sorted(paths(found)) == ["a/IMG_1.jpg", "b/IMG_1.jpg"]
    assert {row.wanted for row in found.files} == {"yes"}


def test_search_without_fts5_finds_the_newest(book, search, monkeypatch):
    def fail():
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(path_search, "_new_index", fail)
    monkeypatch.setattr(path_search, "STEP", 200)
    add(book, "old.jpg", *(f"{number}.jpg" for number in range(300)), "new.jpg")
    with capture_logs() as logged:
        assert not search.step()
        assert not search.step()
    assert [entry["detail"] for entry in logged] == ["no such module: fts5"]
    assert paths(search.find("new.jpg", 50)) == ["new.jpg"]
    found = search.find("old.jpg", 50)
    assert (found.files, found.is_all) == ([], False)


def test_index_costs_few_bytes_a_file(book, search):
    add(book, *(f"photos/2026/evening-{n // 100:05}/IMG_{n:07}.jpg" for n in range(5_000)), indexed=search)
    (size,) = search._index.execute("SELECT SUM(LENGTH(block)) FROM paths_data").fetchone()
    assert size < 8 * 5_000


def test_folded_path_is_what_the_page_shows():
    assert folded(b"A\xff\n.JPG") == "a\ufffd\\n.jpg"
