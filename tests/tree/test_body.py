import hashlib
import os
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from assetsync.errors import FileChanged, FileUnreadable, ReadStopped
from assetsync.model import FileStat
from assetsync.tree.body import CHUNK, SMALL, FileBody, difference, digest, prefix_digests
from assetsync.tree.safe_open import Tree

BIG = SMALL + 3 * CHUNK // 2
EMPTY_MD5 = "D41D8CD98F00B204E9800998ECF8427E"


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest().upper()


@pytest.fixture
def written(make_tree: Callable[..., bytes]) -> Callable[[bytes], bytes]:
    """Write a file long before now, so that any write to it changes its mtime; gives its full path."""

    def write(content: bytes) -> bytes:
        path = make_tree(b"a.jpg", content=content) + b"/a.jpg"
        os.utime(path, ns=(10**18, 10**18))
        return path

    return write


@pytest.fixture
def tree(make_tree: Callable[..., bytes]) -> Tree:
    return Tree(make_tree())


def rewrite(path: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(b"different")


def grow(path: bytes) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def shrink(path: bytes) -> None:
    os.truncate(path, os.path.getsize(path) - 1)


def empty(path: bytes) -> None:
    os.truncate(path, 0)


def grow_with_its_mtime_kept(path: bytes) -> None:
    grow(path)
    os.utime(path, ns=(10**18, 10**18))


CHANGES = [rewrite, grow, shrink, empty, grow_with_its_mtime_kept]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FileStat(5, 10, 10, 7), ""),
        (FileStat(5, 10, 99, 7), ""),
        (FileStat(6, 10, 10, 7), "5 to 6 bytes"),
        (FileStat(5, 11, 10, 7), "written"),
        (FileStat(5, 10, 10, 8), "another file"),
    ],
)
def test_version_is_size_mtime_and_inode(found: FileStat, said: str):
    answer = difference(FileStat(5, 10, 10, 7), found)
    assert bool(answer) == bool(said)
    assert said in answer


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, SMALL + CHUNK, BIG, BIG + 1])
def test_body_has_file_bytes_and_md5(written, tree: Tree, size: int):
    content = os.urandom(size)
    written(content)
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        assert (body.size, body.bytes_sent, body.md5) == (size, 0, EMPTY_MD5)
        assert b"".join(body.chunks()) == content
        assert (body.bytes_sent, body.md5) == (size, md5(content))
        assert digest(file, file.stat) == md5(content)


def test_handed_and_md5_follow_the_chunks(written, tree: Tree):
    content = os.urandom(BIG)
    written(content)
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        handed = 0
        for chunk in body.chunks():
            handed += len(chunk)
            assert (body.bytes_sent, body.md5) == (handed, md5(content[:handed]))


def test_small_file_is_loaded_before_sending(written, tree: Tree):
    written(b"small")
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        assert body.load() == md5(b"small")
        assert body._content == b"small"
        assert (body.bytes_sent, body.md5) == (0, EMPTY_MD5)


def test_a_large_file_is_not_held_in_memory(written, tree: Tree):
    written(bytes(SMALL + 1))
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        assert body.load() is None
        assert body._content is None


def test_loaded_bytes_are_sent_unchanged(written, tree: Tree):
    path = written(b"before")
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        assert body.load() == md5(b"before")
        grow(path)
        assert list(body.chunks()) == [b"before"]


@pytest.mark.parametrize("size", [100, BIG])
@pytest.mark.parametrize("change", CHANGES)
def test_file_changed_early_is_not_begun(written, tree: Tree, size: int, change: Callable[[bytes], None]):
    path = written(bytes(size))
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        change(path)
        with pytest.raises(FileChanged, match=r"a\.jpg changed"):
            next(body.chunks())
        assert body.bytes_sent == 0
        with pytest.raises(FileChanged):
            digest(file, file.stat)


@pytest.mark.parametrize("change", CHANGES)
def test_file_changed_midway_is_not_completed(written, tree: Tree, change: Callable[[bytes], None]):
    path = written(bytes(BIG))
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        chunks = body.chunks()
        got = [next(chunks)]
        change(path)
        with pytest.raises(FileChanged):
            got.extend(chunks)
        assert body.bytes_sent == sum(map(len, got)) < BIG
        assert body.md5 == md5(b"".join(got))


@pytest.mark.parametrize("change", CHANGES)
def test_file_changed_midway_has_no_digest(written, tree: Tree, change: Callable[[bytes], None]):
    path = written(bytes(BIG))
    asked = []

    def change_once() -> bool:
        if not asked:
            change(path)
        asked.append(1)
        return False

    with tree.open(b"a.jpg") as file, pytest.raises(FileChanged):
        digest(file, file.stat, stop=change_once)
    assert asked


def test_empty_file_that_grew_is_changed(written, tree: Tree):
    path = written(b"")
    with tree.open(b"a.jpg") as file:
        grow(path)
        with pytest.raises(FileChanged):
            FileBody(file, file.stat).load()
        with pytest.raises(FileChanged):
            digest(file, file.stat)


def test_early_replacement_is_other_version(written, tree: Tree):
    path = written(b"old")
    expected = tree.lstat(b"a.jpg")
    assert expected is not None
    # Linked elsewhere, so that its inode is not given to the new file.
    os.rename(path, path + b".old")
    written(b"new")
    with tree.open(b"a.jpg") as file, pytest.raises(FileChanged, match="another file"):
        list(FileBody(file, expected).chunks())


@pytest.mark.parametrize("take_away", [os.unlink, lambda path: os.rename(path, path + b".old")])
def test_file_replaced_midway_is_sent_whole(written, tree: Tree, take_away):
    content = os.urandom(BIG)
    path = written(content)
    with tree.open(b"a.jpg") as file:
        body = FileBody(file, file.stat)
        chunks = body.chunks()
        got = next(chunks)
        take_away(path)
        written(b"new")
        assert got + b"".join(chunks) == content


def change_mode(path: bytes) -> None:
    os.chmod(path, 0o600)


def link_again(path: bytes) -> None:
    os.link(path, path + b".link")


@pytest.mark.parametrize("touch", [change_mode, link_again])
def test_metadata_change_does_not_cut_body(written, tree: Tree, touch: Callable[[bytes], None]):
    path = written(bytes(BIG))
    with tree.open(b"a.jpg") as file:
        chunks = FileBody(file, file.stat).chunks()
        next(chunks)
        touch(path)
        assert sum(map(len, chunks)) == BIG - CHUNK


def test_early_stop_leaves_no_thread(written, tree: Tree):
    written(bytes(BIG))
    with tree.open(b"a.jpg") as file:
        chunks = FileBody(file, file.stat).chunks()
        next(chunks)
        assert any(thread.name == "read-ahead" for thread in threading.enumerate())
        chunks.close()
        assert not any(thread.name == "read-ahead" for thread in threading.enumerate())


def test_changed_file_leaves_no_thread(written, tree: Tree):
    path = written(bytes(BIG))
    with tree.open(b"a.jpg") as file:
        chunks = FileBody(file, file.stat).chunks()
        next(chunks)
        grow(path)
        with pytest.raises(FileChanged):
            list(chunks)
        assert not any(thread.name == "read-ahead" for thread in threading.enumerate())


def test_memory_does_not_grow_with_the_file(written, tree: Tree):
    path = written(b"")
    os.truncate(path, 64 * CHUNK)
    with tree.open(b"a.jpg") as file:
        tracemalloc.start()
        try:
            for _ in FileBody(file, file.stat).chunks():
                pass
            assert tracemalloc.get_traced_memory()[1] < 6 * CHUNK
        finally:
            tracemalloc.stop()


def test_file_failing_midway_is_unreadable(written, tree: Tree):
    written(b"x")
    file = tree.open(b"a.jpg")
    body = FileBody(file, file.stat)
    file.close()
    with pytest.raises(FileUnreadable):
        body.load()


def test_a_digest_can_be_stopped(written, tree: Tree):
    written(bytes(BIG))
    with tree.open(b"a.jpg") as file:
        with pytest.raises(ReadStopped, match=r"a\.jpg"):
            digest(file, file.stat, stop=lambda: True)
        with pytest.raises(ReadStopped):
            prefix_digests(file, [BIG], stop=lambda: True)


@pytest.mark.parametrize(
    ("content", "tail", "lengths"),
    [
        (b"12345", b"", [5, 0, 3, 3]),
        (b"12345", b"-end", [5, 6, 9, 2]),
        (b"", b"-end", [0, 1, 4]),
        (bytes(CHUNK) + b"12345", b"-end", [CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 9]),
    ],
)
def test_prefix_digests_include_the_tail(written, tree: Tree, content: bytes, tail: bytes, lengths: list[int]):
    written(content)
    with tree.open(b"a.jpg") as file:
        assert prefix_digests(file, lengths, tail=tail) == {n: md5((content + tail)[:n]) for n in lengths}


@pytest.mark.parametrize(("tail", "known"), [(b"", [5]), (b"--", [5, 7])])
def test_a_length_beyond_the_end_is_left_out(written, tree: Tree, tail: bytes, known: list[int]):
    written(b"12345")
    with tree.open(b"a.jpg") as file:
        assert sorted(prefix_digests(file, [5, 7, 8, 10**12], tail=tail)) == known


def test_truncated_file_has_shorter_prefixes(written, tree: Tree):
    path = written(b"12345")
    with tree.open(b"a.jpg") as file:
        os.truncate(path, 3)
        assert prefix_digests(file, [2, 5, 7], tail=b"--") == {2: md5(b"12")}
