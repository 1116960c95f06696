"""Traps laid in the tree: links swapped in, pipes, folders in place of files, sidecars made to be dear."""

import os
import threading
import time
from dataclasses import replace

import pytest

from assetsync.core.mapping import IgnoreRules, Mappings
from assetsync.core.metadata import MAX_TOGETHER, check_together, merge, parse_sidecar
from assetsync.errors import SidecarError, TreeError
from assetsync.model import Mapping
from assetsync.tree.safe_open import Tree

SECRET = b"what lies outside of the tree"


@pytest.fixture
def swapping(tmp_path):
    """A folder `in` of the tree that is, turn by turn, a folder and a link to one outside; gives (root, loops)."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "in", outside):
        folder.mkdir(parents=True)
    (root / "in" / "a.jpg").write_bytes(b"inside")
    (outside / "a.jpg").write_bytes(SECRET)
    (root / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "in", root / "kept")
            os.rename(root / "link", root / "in")
            os.rename(root / "in", root / "link")
            os.rename(root / "kept", root / "in")

    thread = threading.Thread(target=swap)
    thread.start()
    yield root
    over.set()
    thread.join()


def test_swapped_folder_link_is_not_followed(swapping):
    tree = Tree(os.fsencode(swapping))
    read = set()
    failed = 0
    began = time.monotonic()
    while (took := time.monotonic() - began) < 1 or (took < 60 and not (read and failed)):
        try:
            read.add(tree.read_small(b"in/a.jpg", 100))
        except TreeError:
            failed += 1
    assert read == {b"inside"}
    assert failed


def test_swapped_folder_uploads_nothing(hostile, make_site, obliging):
    """A thread exchanges a folder with a link to one outside the tree; no file from outside leaves."""
    server = hostile(obliging)
    site = make_site(server)
    outside = site.folder / "outside"
    outside.mkdir()
    for number in range(20):
        site.write(f"in/{number}.jpg", b"inside %d" % number)
        (outside / f"{number}.jpg").write_bytes(SECRET + b"%d" % number)
    (site.photos / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        place = site.photos
        while not over.is_set():
            for old, new in (("in", "kept"), ("link", "in"), ("in", "link"), ("kept", "in")):
                os.rename(place / old, place / new)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2):
            assert site.run("reconcile", "--wait", "0s").code in (0, 1)
    finally:
        over.set()
        thread.join()
    assert site.run("reconcile", "--wait", "0s").code in (0, 1)
    assert server.posts
    assert not any(SECRET in post.body for post in server.posts)


TRAPS = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link": lambda path: os.symlink("/etc/passwd", path),
    "link in a circle": lambda path: os.symlink(path, path),
}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", ["a.jpg.yaml", "_folder.yaml"])
def test_trap_as_sidecar_blocks_its_file(hostile, make_site, obliging, within, trap, name):
    """A folder, pipe or link in the place of a sidecar blocks the file until it is removed, and hangs nothing."""
    server = hostile(obliging)
    site = make_site(server)
    site.write("a.jpg")
    place = site.photos / name
    TRAPS[trap](place)
    if trap == "pipe":
        # In a process of its own, because one that hangs in a pipe could not be ended here.
        process = site.start("reconcile", "--wait", "0s")
        try:
            within(20, process.communicate)
        finally:
            process.kill()
        code = process.returncode
    else:
        code = site.run("reconcile", "--wait", "0s").code
    assert code == 1, trap
    assert site.states() == {"photos/a.jpg": "blocked"}
    assert not server.posts
    place.rmdir() if trap == "folder" else place.unlink()
    site.run("reconcile", "--wait", "0s")
    assert len(server.posts) == 1


def test_pipe_socket_and_device_are_ignored(hostile, make_site, obliging):
    server = hostile(obliging)
    site = make_site(server)
    site.write("a.jpg")
    os.mkfifo(site.photos / "pipe.jpg")
    (site.photos / "loop").symlink_to(site.photos)
    (site.photos / "zero.jpg").symlink_to("/dev/zero")
    site.run("reconcile", "--wait", "0s")
    assert site.states().keys() == {"photos/a.jpg"}


def letters(count: int) -> list[str]:
    return [f"f{number}" for number in range(count)]


def test_stacked_sidecars_cost_their_size():
    one = parse_sidecar(("meta: {" + ", ".join(f"{name}: x" for name in letters(5000)) + "}").encode(), "s")
    levels = [replace(one, meta=tuple((f"l{n}_{name}", text) for name, text in one.meta)) for n in range(100)]
    began = time.process_time()
    merged = merge(levels)
    # 500,000 fields: a second at most. Copied at each level they took twenty.
    assert time.process_time() - began < 5
    assert len(merged.meta) == 500_000


def test_oversized_form_is_refused_by_name():
    fields = tuple((name, "x" * 1000) for name in letters(MAX_TOGETHER // 1000 + 1))
    with pytest.raises(SidecarError, match=r"a\.jpg"):
        check_together(fields, "a.jpg")
    check_together(fields[:-2], "a.jpg")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{number}:" for number in range(9000)),
        "meta: {" + ", ".join(f"'{name}!': x" for name in letters(5000)) + "}",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]",
        "[" * 60_000,
        "{a: " * 15_000,
        "? " * 30_000,
        "- " * 30_000,
        "a: 1\n" * 13_000,
        "x" * 65_000 + ": 1",
        '? "' + "x" * 65_000 + '"\n: 1',
    ],
    ids=["unknown", "bad names", "bomb", "brackets", "braces", "keys", "lists", "doubled", "long", "long quoted"],
)
def test_costly_sidecar_is_refused_briefly(text):
    began = time.process_time()
    with pytest.raises(SidecarError) as caught:
        parse_sidecar(text.encode(), "photos/a.jpg.yaml")
    assert time.process_time() - began < 2
    assert len(str(caught.value)) < 500


def test_deep_folder_is_resolved_step_by_step():
    rules = IgnoreRules(Mappings([Mapping(b"", "F")]), ["**/x/**/q"])
    began = time.process_time()
    path = b""
    for _ in range(300):
        path += b"x/"
        assert not rules.ignored(path + b"a.jpg", is_dir=False)
    # Each folder once: a second at most. From the top for each of them it took thirty.
    assert time.process_time() - began < 5


def test_deep_file_reads_few_large_sidecars(hostile, make_site, obliging):
    server = hostile(obliging)
    site = make_site(server)
    text = "description: |\n" + "".join(f"  {'x' * 78}\n" for _ in range(760))
    folder = site.photos
    for _ in range(12):
        folder /= "d"
        folder.mkdir()
        (folder / "_folder.yaml").write_text(text)
    (folder / "a.jpg").write_bytes(b"x")
    (site.photos / "d" / "b.jpg").write_bytes(b"y")
    site.run("reconcile", "--wait", "0s")
    deep = os.path.relpath(folder / "a.jpg", site.folder / "tree")
    assert site.states() == {deep: "blocked", "photos/d/b.jpg": "stored"}
    assert "together hold over 512 KiB" in site.run("explain", deep).out
