import os
from collections.abc import Callable
from pathlib import Path

import pytest

from assetsync.errors import FileUnreadable, NotRegular
from assetsync.tree.safe_open import Tree


@pytest.fixture
def root(make_tree: Callable[..., bytes], tmp_path: Path) -> bytes:
    root = make_tree(b"a/file.jpg", b"a/b/deep.jpg", content=b"12345")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file.jpg").write_bytes(b"secret")
    return root


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        (b"l", b"a/file.jpg", b"l"),
        (b"l", b"a", b"l/file.jpg"),
        (b"l", b"./a/./b", b"l/deep.jpg"),
        (b"a/b/l", b"../file.jpg", b"a/b/l"),
        (b"a/l", b"../a/b/../file.jpg", b"a/l"),
        (b"l", b"ROOT/a/file.jpg", b"l"),
        (b"l", b"ROOT/a/", b"l/file.jpg"),
        (b"a/l", b"b", b"a/l/deep.jpg"),
    ],
)
def test_a_link_inside_the_root_is_followed(root: bytes, link: bytes, target: bytes, path: bytes):
    os.symlink(target.replace(b"ROOT", root), root + b"/" + link)
    with Tree(root, follow_symlinks=True).open(path) as file:
        assert file.read(9, 0) == b"12345"
    found = Tree(root, follow_symlinks=True).lstat(path)
    assert found is not None
    assert found.size == 5
    assert Tree(root).lstat(path) is None


@pytest.mark.parametrize(
    "target",
    [b"../outside/file.jpg", b"ROOT/../outside/file.jpg", b"a/../../outside/file.jpg", b"/etc/passwd", b"ROOT-else/x"],
)
def test_link_out_of_root_is_not_followed(root: bytes, target: bytes):
    os.symlink(target.replace(b"ROOT", root), root + b"/l")
    tree = Tree(root, follow_symlinks=True)
    with pytest.raises(NotRegular, match="link to a place outside the root"):
        tree.open(b"l")
    assert tree.lstat(b"l") is None


def test_a_way_out_and_back_in_is_a_way_out(root: bytes):
    os.symlink(b"../root/a/file.jpg", root + b"/l")
    with pytest.raises(NotRegular):
        Tree(root, follow_symlinks=True).open(b"l")


@pytest.mark.parametrize("target", [b"none", b"a/file.jpg/x"])
def test_a_link_to_nothing_is_vanished(root: bytes, target: bytes):
    os.symlink(target, root + b"/l")
    with pytest.raises(FileUnreadable) as caught:
        Tree(root, follow_symlinks=True).open(b"l")
    assert caught.value.vanished


def test_links_in_a_circle_end(root: bytes):
    os.symlink(b"two", root + b"/one")
    os.symlink(b"one", root + b"/two")
    with pytest.raises(NotRegular):
        Tree(root, follow_symlinks=True).open(b"one")
    assert Tree(root, follow_symlinks=True).lstat(b"one") is None


def test_a_link_to_the_root_is_no_file(root: bytes):
    os.symlink(b"..", root + b"/a/up")
    with pytest.raises(NotRegular):
        Tree(root, follow_symlinks=True).open(b"a/up")


def test_absolute_link_in_linked_root_is_found(root: bytes, tmp_path: Path):
    (tmp_path / "alias").symlink_to(os.fsdecode(root))
    os.symlink(root + b"/a/file.jpg", root + b"/l")
    assert Tree(os.fsencode(tmp_path / "alias"), follow_symlinks=True).lstat(b"l")
