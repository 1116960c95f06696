import os

import pytest

from assetsync.model import CachedFolder
from assetsync.tree.folder_digest import PIECE, Looks, Signature, is_same, look_facts


def signed(fd: int, names: list[bytes]) -> CachedFolder:
    """What a scan that looks at each file makes of the folder."""
    signature = Signature()
    for name in names:
        signature.add(name, look_facts(os.stat(name, dir_fd=fd, follow_symlinks=False)))
    return signature.quiet(b"")


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 1])
def test_folder_of_any_size_is_recognised(make_tree, count: int):
    names = [b"%05d" % number for number in range(count)]
    fd = os.open(make_tree(*names), os.O_RDONLY)
    assert is_same(fd, names, signed(fd, names), Looks())
    os.close(fd)


@pytest.mark.parametrize("what", ["write", "touch", "chmod", "remove", "add", "rename", "swap", "replace"])
@pytest.mark.parametrize("at", [0, PIECE - 1, PIECE, PIECE + 1])
def test_one_change_among_many_files_is_seen(make_tree, what: str, at: int):
    names = [b"%05d" % number for number in range(PIECE + 2)]
    root = make_tree(*names)
    fd = os.open(root, os.O_RDONLY)
    known = signed(fd, names)
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
    assert not is_same(fd, sorted(map(os.fsencode, os.listdir(fd))), known, Looks())
    os.close(fd)


def test_file_vanishing_midway_is_a_change(make_tree):
    fd = os.open(make_tree(b"a", b"b"), os.O_RDONLY)
    known = signed(fd, [b"a", b"b"])
    os.unlink(b"b", dir_fd=fd)
    assert not is_same(fd, [b"a", b"b"], known, Looks())
    os.close(fd)


def test_names_of_equal_concatenation_differ(make_tree):
    fd = os.open(make_tree(b"ab", b"c", b"a", b"bc"), os.O_RDONLY)
    assert not is_same(fd, [b"a", b"bc"], signed(fd, [b"ab", b"c"]), Looks())
    os.close(fd)
