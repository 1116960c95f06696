import os
from types import SimpleNamespace

import pytest

from assetsync.model import CachedFolder
from assetsync.tree.folder_digest import AT_ONCE, FolderDigest
from assetsync.tree.folder_digest import is_unchanged as is_unchanged_until


def is_unchanged(fd: int, names: list[bytes], known: CachedFolder) -> bool:
    return is_unchanged_until(fd, names, known, lambda: False)


def state_of(fd: int, names: list[bytes]) -> CachedFolder:
    """What a scan that looks at each file makes of the folder."""
    digest = FolderDigest()
    for name in names:
        digest.add(name, os.stat(name, dir_fd=fd, follow_symlinks=False))
    return digest.state_of(b"")


@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE])
def test_folder_of_any_size_is_recognised(make_tree, count: int):
    names = [b"%05d" % number for number in range(count)]
    fd = os.open(make_tree(*names), os.O_RDONLY)
    assert is_unchanged(fd, names, state_of(fd, names))
    os.close(fd)


def test_large_folder_ticks_between_pieces(make_tree):
    """A folder may take longer than the watchdog waits, and a stop must not wait for its end."""
    names = [b"%05d" % number for number in range(3 * AT_ONCE)]
    fd = os.open(make_tree(*names), os.O_RDONLY)
    known, told = state_of(fd, names), []
    assert is_unchanged_until(fd, names, known, lambda: bool(told.append(1)))
    assert len(told) == 2
    assert not is_unchanged_until(fd, names, known, lambda: True)
    os.close(fd)


@pytest.mark.parametrize("what", ["write", "touch", "chmod", "remove", "add", "rename", "swap", "replace"])
@pytest.mark.parametrize("at", [0, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1])
def test_one_change_among_many_files_is_seen(make_tree, what: str, at: int):
    """The files are more than are read at once."""
    names = [b"%05d" % number for number in range(AT_ONCE + 2)]
    root = make_tree(*names)
    fd = os.open(root, os.O_RDONLY)
    known = state_of(fd, names)
    path, other = root + b"/" + names[at], root + b"/" + names[at - 1]
    if what == "write":
        with open(path, "ab") as file:
            file.write(b"+")
    elif what == "touch":
        os.utime(path)
    elif what == "chmod":
        os.chmod(path, 0o600)
    elif what == "remove":
        os.unlink(path)
    elif what == "add":
        os.close(os.open(path + b"a", os.O_CREAT))
    elif what == "rename":
        os.rename(path, path + b"a")
    elif what == "swap":
        os.rename(path, root + b"/x")
        os.rename(other, path)
        os.rename(root + b"/x", other)
    elif what == "replace":
        os.link(path, root + b"/x")
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(b"x")
        os.unlink(root + b"/x")
    assert not is_unchanged(fd, sorted(map(os.fsencode, os.listdir(fd))), known)
    os.close(fd)


def test_file_vanishing_midway_is_a_change(make_tree):
    fd = os.open(make_tree(b"a", b"b"), os.O_RDONLY)
    known = state_of(fd, [b"a", b"b"])
    os.unlink(b"b", dir_fd=fd)
    assert not is_unchanged(fd, [b"a", b"b"], known)
    os.close(fd)


def test_names_of_equal_concatenation_differ(make_tree):
    fd = os.open(make_tree(b"ab", b"c", b"a", b"bc"), os.O_RDONLY)
    assert not is_unchanged(fd, [b"a", b"bc"], state_of(fd, [b"ab", b"c"]))
    os.close(fd)


FACTS = {
    "st_mode": 0o100644,
    "st_size": 5,
    "st_mtime_ns": 1_700_000_000_123_456_789,
    "st_ctime_ns": 1_700_000_001_000_000_001,
    "st_ino": 77,
}


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("st_mode", 0o100600),
        ("st_size", 1 << 33),
        ("st_size", -1),
        ("st_mtime_ns", FACTS["st_mtime_ns"] + 1),
        ("st_mtime_ns", -1_500_000_000),
        ("st_mtime_ns", 1 << 70),
        ("st_ctime_ns", FACTS["st_ctime_ns"] + 10**9),
        ("st_ino", (1 << 64) - 1),
    ],
)
def test_each_fact_counts(fact: str, value: int):
    digests = set()
    for facts in (FACTS, {**FACTS, fact: value}):
        digest = FolderDigest()
        digest.add(b"a", SimpleNamespace(**facts))
        digests.add(digest.state_of(b"").digest)
    assert len(digests) == 2
