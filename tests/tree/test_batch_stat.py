import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from assetsync.tree import folder_digest as module
from assetsync.tree.folder_digest import PIECE, Looks, columns, look_facts

FACTS = (0o100644, 5, 1_700_000_000_123_456_789, 1_700_000_001_000_000_001, 77)


@pytest.fixture
def folder(make_tree) -> Iterator[tuple[int, list[bytes]]]:
    """A folder, open, with files of all kinds of facts; and its names."""
    root = make_tree(b"plain", b"empty", b"large", b"old", b"late", b"\xff\x80 \n'", b"n" * 255, b"strange")
    os.truncate(root + b"/empty", 0)
    # With a hole: more than fits into 32 bits.
    os.truncate(root + b"/large", (1 << 33) + 1)
    # Before 1970, with and without a rest of a second; after 2106.
    os.utime(root + b"/old", ns=(0, -1_500_000_000))
    os.utime(root + b"/plain", ns=(0, -2_000_000_000))
    os.utime(root + b"/late", ns=(0, (1 << 33) * 10**9 + 999_999_999))
    os.chmod(root + b"/strange", 0o6751)
    os.mkfifo(root + b"/pipe")
    os.symlink(b"plain", root + b"/link")
    os.symlink(b"nowhere", root + b"/dangling")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(root + b"/socket")
    fd = os.open(root, os.O_RDONLY)
    try:
        yield fd, sorted(os.fsencode(name) for name in os.listdir(fd))
    finally:
        os.close(fd)


def told_by_stat(fd: int, names: list[bytes]) -> bytes:
    return columns([look_facts(os.stat(name, dir_fd=fd, follow_symlinks=False)) for name in names])


def test_batch_stat_equals_single_stats(folder):
    fd, names = folder
    assert Looks().at(fd, names) == told_by_stat(fd, names)
    for name in names:
        assert Looks().at(fd, [name]) == told_by_stat(fd, [name]), name


def test_earlier_batch_leaves_nothing_behind(folder):
    fd, names = folder
    looks = Looks()
    looks.at(fd, names)
    assert looks.at(fd, names[:2]) == told_by_stat(fd, names[:2])


def test_a_whole_piece_has_room(make_tree):
    names = [b"%04d" % number for number in range(PIECE)]
    fd = os.open(make_tree(*names), os.O_RDONLY)
    assert Looks().at(fd, names) == told_by_stat(fd, names)
    os.close(fd)


def test_too_many_names_are_refused(folder):
    with pytest.raises(ValueError, match="room for 500 names, not for 501"):
        Looks().at(folder[0], [b"plain"] * (PIECE + 1))


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(SimpleNamespace(), id="a C library without statx"),
        pytest.param(SimpleNamespace(statx=lambda *_: -1), id="a kernel or a filter that refuses it"),
    ],
)
def test_fallback_without_statx_is_identical(folder, monkeypatch: pytest.MonkeyPatch, library: SimpleNamespace):
    fd, names = folder
    expected = Looks().at(fd, names)
    monkeypatch.setattr(module.ctypes, "CDLL", lambda _: library)
    assert Looks().at(fd, names) == expected


@pytest.mark.parametrize(
    ("at", "by"),
    [(0, 1), (0, 1 << 8), (1, 1), (1, 1 << 32), (2, 1), (2, 10**9), (3, 1), (3, 10**9), (4, 1), (4, 1 << 32)],
)
def test_each_fact_counts(at: int, by: int):
    other = tuple(fact + by * (position == at) for position, fact in enumerate(FACTS))
    told = [columns([FACTS, FACTS]), columns([FACTS, other]), columns([other, FACTS]), columns([other, other])]
    assert len(set(told)) == 4


def test_inode_with_highest_bit_is_supported():
    assert columns([(*FACTS[:4], (1 << 64) - 1)]) != columns([(*FACTS[:4], 1)])


def test_size_beyond_os_stat_is_supported():
    assert columns([(*FACTS[:1], -1, *FACTS[2:])]) != columns([FACTS])


def test_a_name_that_is_gone_is_told(make_tree: Callable[..., bytes]):
    fd = os.open(make_tree(b"here"), os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        Looks().at(fd, [b"here", b"gone"])
    os.close(fd)
