import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assetsync.errors import FileUnreadable, NotRegular, OutOfResources, RootMissing
from assetsync.tree.safe_open import Tree, open_unmarked, shown
from tests.scarcity import no_descriptors

DEEP = 300
LONG = b"n" * 250


@pytest.fixture
def deep_root(tmp_path: Path) -> Iterator[bytes]:
    """A root with 300 folders of 250 bytes each below one another, and one file at the end."""
    root = os.fsencode(tmp_path / "deep")
    os.mkdir(root)
    fd = os.open(root, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir(LONG, dir_fd=fd)
        below = os.open(LONG, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    file = os.open(b"end.jpg", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    os.write(file, b"end")
    os.close(file)
    os.close(fd)
    yield root
    subprocess.run([shutil.which("rm") or "rm", "-rf", root], check=True)


def test_open_file_returns_bytes_and_stat(make_tree: Callable[..., bytes]):
    root = make_tree(b"a/b.jpg", content=b"hello")
    with Tree(root).open(b"a/b.jpg") as file:
        status = os.stat(root + b"/a/b.jpg")
        assert file.read(100, 0) == b"hello"
        assert file.read(3, 1) == b"ell"
        assert file.stat == file.restat() == Tree(root).lstat(b"a/b.jpg")
        assert file.stat == (5, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@pytest.mark.parametrize("follow_symlinks", [False, True])
def test_existing_names_of_a_folder(make_tree: Callable[..., bytes], follow_symlinks: bool):
    """A broken link is an entry unless links are followed; a name that is longer than a file may have is none."""
    root = make_tree(b"a/b.jpg", b"a/b.jpg.yaml", b"c.jpg")
    os.symlink(b"nowhere", root + b"/a/c.jpg.yaml")
    tree = Tree(root, follow_symlinks=follow_symlinks)
    names = (b"c.jpg.yaml", b"c.jpg", LONG + b".yaml", b"b.jpg.yaml")
    broken = [] if follow_symlinks else [b"a/c.jpg.yaml"]
    assert tree.existing(b"a", names) == [*broken, b"a/b.jpg.yaml"]
    assert tree.existing(b"", names) == [b"c.jpg"]
    assert tree.existing(b"none", names) == tree.existing(b"a", ()) == []


@pytest.mark.parametrize("path", [b"none.jpg", b"none/none.jpg", b"a.jpg/below.jpg", b"n" * 300])
def test_what_is_not_there_has_vanished(make_tree: Callable[..., bytes], path: bytes):
    tree = Tree(make_tree(b"a.jpg"))
    with pytest.raises(FileUnreadable) as caught:
        tree.open(path)
    assert caught.value.vanished
    assert tree.lstat(path) is None
    with pytest.raises(FileUnreadable) as caught:
        tree.read_small(path, 10)
    assert caught.value.vanished


def make_pipe(path: bytes) -> None:
    os.mkfifo(path)


def make_socket(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def make_link(path: bytes) -> None:
    os.symlink(b"a.jpg", path)


def make_device(path: bytes) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make a device")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_pipe, "pipe"),
        (make_socket, "socket"),
        (make_link, "symbolic link"),
        (make_device, "device"),
        (os.mkdir, "folder"),
    ],
)
def test_non_file_is_refused_by_kind(
    make_tree: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, make: Callable[[bytes], None], said: str
):
    root = make_tree(b"a.jpg")
    monkeypatch.chdir(os.fsdecode(root))
    make(b"odd")
    with pytest.raises(NotRegular, match=said):
        Tree(root).open(b"odd")
    assert Tree(root).lstat(b"odd") is None


def test_opening_does_not_wake_pipe_writer(make_tree: Callable[..., bytes]):
    root = make_tree()
    os.mkfifo(root + b"/pipe")
    with pytest.raises(NotRegular):
        Tree(root).open(b"pipe")
    with pytest.raises(OSError) as caught:
        os.open(root + b"/pipe", os.O_WRONLY | os.O_NONBLOCK)
    assert caught.value.errno == errno.ENXIO


def test_folder_turned_link_is_not_entered(make_tree: Callable[..., bytes], tmp_path: Path):
    root = make_tree(b"inside/secret.jpg")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jpg").write_bytes(b"secret")
    tree = Tree(root)
    os.rename(root + b"/inside", root + b"/before")
    os.symlink(outside, root + b"/inside")
    with pytest.raises(FileUnreadable) as caught:
        tree.open(b"inside/secret.jpg")
    assert caught.value.vanished
    assert tree.lstat(b"inside/secret.jpg") is None


@pytest.mark.parametrize("path", [b"", b"..", b"../x", b"a/../../x", b"/etc/passwd", b"a//b", b"a/", b"./a", b"a\0b"])
def test_path_outside_root_is_refused(make_tree: Callable[..., bytes], path: bytes):
    with pytest.raises(FileUnreadable, match="is not a path below the root"):
        Tree(make_tree(b"a/b")).open(path)


def test_every_byte_of_a_name_can_be_opened(make_tree: Callable[..., bytes]):
    name = bytes(set(range(1, 256)) - {ord("/")})
    root = make_tree(name, content=b"all")
    with Tree(root).open(name) as file:
        assert file.read(9, 0) == b"all"


def test_path_beyond_kernel_limit_is_opened(deep_root: bytes):
    path = (LONG + b"/") * DEEP + b"end.jpg"
    with Tree(deep_root).open(path) as file:
        assert file.read(9, 0) == b"end"
    found = Tree(deep_root).lstat(path)
    assert found is not None
    assert found.size == 3


@pytest.mark.parametrize("make", [lambda root: None, lambda root: Path(root).write_bytes(b"")])
def test_a_root_that_is_no_folder_is_missing(tmp_path: Path, make: Callable[[str], object]):
    root = str(tmp_path / "none")
    make(root)
    tree = Tree(os.fsencode(root))
    for act in (tree.open, tree.lstat, tree.open_folder):
        with pytest.raises(RootMissing, match="none"):
            act(b"a.jpg")
    with pytest.raises(RootMissing):
        tree.open_folder(b"")


def test_recreated_root_is_read(make_tree: Callable[..., bytes]):
    root = make_tree(b"a.jpg")
    tree = Tree(root)
    assert tree.lstat(b"a.jpg")
    os.rename(root, root + b"-old")
    make_tree(b"b.jpg")
    assert tree.lstat(b"a.jpg") is None
    assert tree.lstat(b"b.jpg")


def test_file_without_permission_is_reported(make_tree: Callable[..., bytes], unprivileged):
    root = make_tree(b"closed.jpg", b"dark/a.jpg")
    os.chmod(root + b"/closed.jpg", 0)
    os.chmod(root + b"/dark", 0)
    with unprivileged():
        for path in (b"closed.jpg", b"dark/a.jpg"):
            with pytest.raises(FileUnreadable, match="read permission") as caught:
                Tree(root).open(path)
            assert not caught.value.vanished
        with pytest.raises(FileUnreadable):
            Tree(root).lstat(b"dark/a.jpg")
    os.chmod(root + b"/dark", 0o700)


def test_file_of_other_owner_is_read(make_tree: Callable[..., bytes], unprivileged):
    root = make_tree(b"a.jpg", content=b"mine")
    with unprivileged(), Tree(root).open(b"a.jpg") as file:
        assert file.read(9, 0) == b"mine"


def test_reading_keeps_the_access_time(make_tree: Callable[..., bytes]):
    root = make_tree(b"a.jpg")
    os.utime(root + b"/a.jpg", ns=(1, 10**18))
    with Tree(root).open(b"a.jpg") as file:
        file.read(9, 0)
    assert os.stat(root + b"/a.jpg").st_atime_ns == 1


@pytest.mark.parametrize(("limit", "fits"), [(5, True), (4, False)])
def test_small_file_is_read_up_to_its_limit(make_tree: Callable[..., bytes], limit: int, fits: bool):
    tree = Tree(make_tree(b"a.yaml", content=b"12345"))
    if fits:
        assert tree.read_small(b"a.yaml", limit) == b"12345"
    else:
        with pytest.raises(FileUnreadable, match=r"too long.*4 bytes"):
            tree.read_small(b"a.yaml", limit)


def test_no_descriptor_is_left_open(make_tree: Callable[..., bytes]):
    root = make_tree(b"a/b/c.jpg")
    os.mkfifo(root + b"/a/pipe")
    os.symlink(b"a", root + b"/link")
    before = sorted(os.listdir("/proc/self/fd"))
    for tree in (Tree(root), Tree(root, follow_symlinks=True)):
        for path in (b"a/b/c.jpg", b"a/pipe", b"a/none/c", b"link/b/c.jpg", b"a/b"):
            tree.lstat(path)
            try:
                tree.open(path).close()
            except (FileUnreadable, NotRegular):
                continue
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_reading_closed_file_is_a_tree_error(make_tree: Callable[..., bytes]):
    file = Tree(make_tree(b"a")).open(b"a")
    file.close()
    file.close()
    with pytest.raises(FileUnreadable):
        file.read(1, 0)
    with pytest.raises(FileUnreadable):
        file.restat()


def test_error_beyond_access_time_is_raised(make_tree: Callable[..., bytes]):
    with pytest.raises(FileNotFoundError):
        open_unmarked(make_tree() + b"/none", os.O_RDONLY)


@pytest.mark.parametrize(("path", "text"), [(b"a/b", "a/b"), (b"\xff\n", "\ufffd\\n"), ("ü".encode(), "ü"), (b"", ".")])
def test_a_path_is_shown_as_text(path: bytes, text: str):
    assert shown(path) == text


@pytest.mark.parametrize("follow_symlinks", [False, True])
def test_lack_of_descriptors_is_not_the_files(make_tree: Callable[..., bytes], follow_symlinks):
    tree = Tree(make_tree(b"a/b/c.jpg", content=b"hello"), follow_symlinks=follow_symlinks)
    ways = (tree.open, tree.lstat, tree.is_absent, lambda path: tree.read_small(path, 100))
    for way in ways:
        with no_descriptors(), pytest.raises(OutOfResources, match="Too many open files"):
            way(b"a/b/c.jpg")
    with no_descriptors(spare=1), pytest.raises(OutOfResources):
        tree.open(b"a/b/c.jpg")
    with no_descriptors(), pytest.raises(OutOfResources):
        tree.open_folder(b"a")
    tree.open(b"a/b/c.jpg").close()
