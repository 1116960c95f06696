import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from assetsync.tree.listing import Kind, Lister, Listing, Spool


@pytest.fixture
def spool() -> Iterator[Spool]:
    with closing(Spool()) as spool:
        yield spool


def listed(lister: Lister, folder: bytes, **options) -> Listing:
    fd = os.open(folder, os.O_RDONLY)
    try:
        return lister.names_of(fd, want_files=options.pop("want_files", True), **options)
    finally:
        os.close(fd)


NAMES = [b"%c%d" % (97 + (n * 7) % 26, n) for n in range(100)]


@pytest.mark.parametrize("room", [1, 7, 99, 100, 1000])
def test_names_are_in_byte_order_on_disk_too(make_tree, spool: Spool, room: int):
    root = make_tree(*NAMES)
    listing = listed(Lister(spool, lambda: False, room), root)
    assert list(listing.names) == sorted(NAMES)
    assert listing.held <= room
    assert (spool.end > 0) is (room < 100)


@pytest.mark.parametrize("room", [700, 1500, 2499, 2500])
def test_many_names_are_held_within_the_room(make_tree, spool: Spool, room: int):
    names = [b"%04d\xff" % number for number in range(2500)]
    listing = listed(Lister(spool, lambda: False, room), make_tree(*names))
    assert list(listing.names) == names
    assert listing.held <= room
    assert (listing.whole == names) is (room == 2500)


def test_listing_splits_files_and_folders(make_tree, spool: Spool):
    root = make_tree(b"a.jpg", b"a/", b"a0", b"a-/")
    os.symlink(b"a", root + b"/z")
    kinds = {b"z": Kind.FOLDER}
    listing = listed(Lister(spool, lambda: False, 99), root, kind_of_link=kinds.__getitem__)
    assert listing.split() == ([b"a.jpg", b"a0"], [b"a-/", b"a/", b"z/"])
    assert listed(Lister(spool, lambda: False, 99), make_tree(b"only/f") + b"/only").split() == ([b"f"], ())


def test_folder_sorts_with_trailing_slash(make_tree, spool: Spool):
    root = make_tree(b"a.jpg", b"a/", b"a0", b"a-")
    assert list(listed(Lister(spool, lambda: False, 99), root).names) == [b"a-", b"a.jpg", b"a/", b"a0"]


def test_unwanted_files_are_counted(make_tree, spool: Spool):
    root = make_tree(b"a.jpg", b"b.jpg", b"c/")
    listing = listed(Lister(spool, lambda: False, 99), root, want_files=False)
    assert (list(listing.names), listing.files) == ([b"c/"], 2)


def test_link_has_the_kind_of_its_target(make_tree, spool: Spool):
    root = make_tree()
    for name in (b"file", b"folder", b"odd"):
        os.symlink(b"x", root + b"/" + name)
    kinds = {b"file": Kind.FILE, b"folder": Kind.FOLDER, b"odd": Kind.SPECIAL}
    lister = Lister(spool, lambda: False, 99)
    listing = listed(lister, root, kind_of_link=kinds.__getitem__)
    assert (list(listing.names), listing.special) == ([b"file", b"folder/"], 1)
    listing = listed(lister, root, kind_of_link=kinds.__getitem__, want_files=False)
    assert (list(listing.names), listing.files, listing.special) == ([b"folder/"], 1, 1)
    assert listed(lister, root).special == 3


def test_nested_listings_share_the_memory(make_tree, spool: Spool):
    root = make_tree(*NAMES)
    lister = Lister(spool, lambda: False, 150)
    outer = listed(lister, root)
    mark = spool.end
    inner = listed(lister, root)
    assert (outer.held, mark) == (100, 0)
    assert inner.held <= 50
    assert list(inner.names) == list(outer.names) == sorted(NAMES)
    lister.release(inner, mark)
    assert spool.end == mark
    lister.release(outer, 0)
    assert listed(lister, root).held == 100


def test_full_disk_error_names_the_sorting(make_tree, spool: Spool, monkeypatch: pytest.MonkeyPatch):
    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    root = make_tree(*NAMES)
    monkeypatch.setattr(os, "pwrite", no_space)
    listing = listed(Lister(spool, lambda: False, 10), root)
    assert listing.error is not None
    assert "cannot be sorted on disk: No space left" in str(listing.error)


def test_missing_sort_folder_is_an_error(make_tree):
    root = make_tree(*NAMES)
    with closing(Spool("/nonexistent/place")) as spool:
        listing = listed(Lister(spool, lambda: False, 10), root)
    assert listing.error is not None
    assert listing.error.errno == errno.ENOENT


def test_a_run_that_was_cut_off_is_an_error(spool: Spool):
    start, end = spool.write([b"a", b"b"])
    with pytest.raises(OSError, match="cut off"):
        list(spool.read(start, end + 1))


def test_runs_larger_than_one_read_are_whole(spool: Spool):
    names = [b"%0200d" % n for n in range(2000)]
    assert list(spool.read(*spool.write(names))) == names


def test_sorting_on_disk_stops_when_asked(make_tree: Callable[..., bytes], spool: Spool):
    root = make_tree(*NAMES)
    answers = iter([False, True])
    listing = listed(Lister(spool, lambda: next(answers), 10), root)
    assert 11 < len(list(listing.names)) < len(NAMES)


def test_listing_in_memory_stops_when_asked(make_tree: Callable[..., bytes], spool: Spool):
    """A file system that does not list the kinds of entries makes a large listing slow, too."""
    root = make_tree(*(b"%04d" % number for number in range(1500)))
    listing = listed(Lister(spool, lambda: True, 50_000), root)
    assert len(list(listing.names)) < 1500
