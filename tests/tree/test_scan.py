import contextlib
import errno
import os
import shutil
import socket
import subprocess
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assetsync.errors import RootMissing
from assetsync.model import Seen
from assetsync.tree import scan as scan_module
from assetsync.tree.folder_digest import AT_ONCE
from assetsync.tree.safe_open import Tree
from assetsync.tree.scan import scan
from assetsync.tree.scan_report import ScanReport


@pytest.fixture
def scanned(make_plan) -> Callable[..., tuple[list[bytes], ScanReport]]:
    """Scan a root to the end; gives the paths in their order and the report."""

    def run(root: bytes, plan=None, *, follow_symlinks: bool = False, **options) -> tuple[list[bytes], ScanReport]:
        report = ScanReport()
        tree = Tree(root, follow_symlinks=follow_symlinks)
        return [seen.path for seen in scan(tree, plan or make_plan(), report, **options)], report

    return run


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_comes_with_its_facts(make_tree, make_plan):
    root = make_tree(b"a/b.jpg", content=b"12345")
    status = os.stat(root + b"/a/b.jpg")
    assert list(scan(Tree(root), make_plan(), ScanReport())) == [
        Seen(b"a/b.jpg", 5, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, 0, is_sidecar=False)
    ]


# Order. ---------------------------------------------------------------------------------------------------------------

any_name = st.binary(min_size=1, max_size=3).map(lambda raw: raw.replace(b"/", b"0").replace(b"\0", b"\x01"))
# Names around the slash, where an order by name and an order by path fall apart.
near_name = st.text(alphabet="a-./0!".replace("/", ""), min_size=1, max_size=3).map(str.encode)
names = (any_name | near_name).filter(lambda name: name not in {b".", b".."})
paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)


@settings(max_examples=150)
@given(wanted=st.sets(paths, max_size=25), spill=st.sampled_from([1, 3, 50_000]), most_open=st.sampled_from([1, 2, 64]))
def test_scan_is_in_byte_order_of_paths(wanted: set[bytes], spill: int, most_open: int):
    """Scan trees of any names, with folders that spill to disk and few open descriptors."""

    class Everything:
        def folders(self):
            return [b""]

        def mapping_of(self, folder):
            return 0

        def descend(self, folder):
            return True

        def ignored(self, path, is_dir, mapping):
            return False

        def sidecars_on(self, mapping):
            return True

        def xmp_on(self, mapping):
            return True

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "MOST_OPEN", most_open)
        root = os.fsencode(folder)
        made = set()
        for path in wanted:
            # A path that another one uses as its folder, or the other way round, cannot be made as well.
            with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                os.makedirs(os.path.dirname(root + b"/" + path), exist_ok=True)
                with open(root + b"/" + path, "xb"):
                    made.add(path)
        report = ScanReport()
        assert [seen.path for seen in scan(Tree(root), Everything(), report, spill_above=spill)] == sorted(made)
        assert report.complete
        assert report.files + report.sidecars == len(made)


def test_every_byte_of_a_name_is_kept(make_tree, scanned):
    wanted = [bytes([n]) for n in range(1, 256) if bytes([n]) not in {b".", b"/"}] + [b"n" * 255]
    assert scanned(make_tree(*wanted))[0] == sorted(wanted)


def test_large_folder_is_sorted_on_disk(make_tree, make_plan, tmp_path: Path):
    """A folder of 20,000 names is sorted in half the memory, and the file used for it is removed."""
    root = make_tree(b"in/x")
    for number in range(20_000):
        os.close(os.open(root + b"/in/%040d" % number, os.O_CREAT | os.O_WRONLY))
    peaks = {}
    for spill_above in (500, 50_000):
        tracemalloc.start()
        last = b""
        count = 0
        for seen in scan(Tree(root), make_plan(), ScanReport(), spill_above=spill_above, spill_folder=str(tmp_path)):
            assert last < seen.path
            last = seen.path
            count += 1
        peaks[spill_above] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 20_001, "the number of entries"
    assert peaks[500] < peaks[50_000] / 2
    assert list(tmp_path.iterdir()) == [tmp_path / "root"]


# Depth. ---------------------------------------------------------------------------------------------------------------

DEEP = 300
LONG = b"n" * 250


@pytest.fixture
def deep_root(tmp_path: Path) -> Iterator[bytes]:
    """A root with 300 long folders below one another, and two files on each level, one on either side of the folder."""
    root = os.fsencode(tmp_path / "deep")
    os.mkdir(root)
    fd = os.open(root, os.O_RDONLY)
    for _ in range(DEEP):
        for name in (b"a", b"z"):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        os.mkdir(LONG, dir_fd=fd)
        below = os.open(LONG, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    yield root
    subprocess.run([shutil.which("rm") or "rm", "-rf", root], check=True)


def test_depth_has_no_limit(deep_root: bytes, make_plan):
    before = open_descriptors()
    most = count = 0
    last = b""
    report = ScanReport()
    for seen in scan(Tree(deep_root), make_plan(), report):
        assert last < seen.path
        last = seen.path
        count += 1
        most = max(most, open_descriptors())
    assert count == 2 * DEEP
    assert report.complete
    assert most - before <= scan_module.MOST_OPEN + 1
    assert open_descriptors() == before


# What is no file. -----------------------------------------------------------------------------------------------------


def test_special_files_and_links_are_skipped(make_tree, scanned, tmp_path: Path):
    root = make_tree(b"a.jpg", b"d/b.jpg")
    os.mkfifo(root + b"/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(root + b"/socket")
    os.symlink(b"a.jpg", root + b"/link")
    os.symlink(b"d", root + b"/link-to-folder")
    os.symlink(b"none", root + b"/dangling")
    os.symlink(os.fsencode(tmp_path), root + b"/out")
    found, report = scanned(root)
    assert found == [b"a.jpg", b"d/b.jpg"]
    assert report.special == 6
    assert report.complete


def test_only_links_inside_root_are_followed(make_tree, scanned, tmp_path: Path):
    root = make_tree(b"a.jpg", b"d/b.jpg")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.jpg").write_bytes(b"")
    os.symlink(b"a.jpg", root + b"/link")
    os.symlink(root + b"/d", root + b"/e")
    os.symlink(b"none", root + b"/dangling")
    os.symlink(b"../outside", root + b"/out")
    os.symlink(b"../../outside/secret.jpg", root + b"/d/out.jpg")
    found, report = scanned(root, follow_symlinks=True)
    assert found == [b"a.jpg", b"d/b.jpg", b"e/b.jpg", b"link"]
    assert report.special == 4
    assert report.complete


def test_followed_link_has_target_facts(make_tree, make_plan):
    root = make_tree(b"a.jpg", content=b"12345")
    os.symlink(b"a.jpg", root + b"/link")
    first, second = scan(Tree(root, follow_symlinks=True), make_plan(), ScanReport())
    assert second == first._replace(path=b"link")


@pytest.mark.parametrize(
    ("links", "found"),
    [
        ({b"d/up": b".."}, [b"d/b.jpg"]),
        ({b"d/self": b"."}, [b"d/b.jpg"]),
        ({b"d/two": b"../e/", b"e/two": b"../d"}, [b"d/b.jpg", b"d/two/c.jpg", b"e/c.jpg", b"e/two/b.jpg"]),
        ({b"one": b"two", b"two": b"one"}, [b"d/b.jpg", b"e/c.jpg"]),
    ],
)
def test_circles_of_links_end(make_tree, scanned, links: dict[bytes, bytes], found: list[bytes]):
    root = make_tree(b"d/b.jpg", b"e/c.jpg")
    for name, target in links.items():
        os.symlink(target, root + b"/" + name)
    seen, report = scanned(root, follow_symlinks=True)
    assert [path for path in seen if path in found] == found
    assert set(seen) <= {*found, b"e/c.jpg"}
    assert report.complete
    assert report.special


def test_parent_of_linked_folder_is_reopened(make_tree, scanned, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan_module, "MOST_OPEN", 1)
    root = make_tree(b"d/b.jpg", b"x/y/z.jpg", b"x/z.jpg")
    os.symlink(b"../d", root + b"/x/l")
    found, report = scanned(root, follow_symlinks=True)
    assert found == [b"d/b.jpg", b"x/l/b.jpg", b"x/y/z.jpg", b"x/z.jpg"]
    assert report.complete


# Mappings and rules. --------------------------------------------------------------------------------------------------


def test_longest_mapping_wins(make_tree, make_plan):
    root = make_tree(b"top.jpg", b"p/a.jpg", b"p/raw/b.jpg", b"q/c.jpg", b"r/s/t/d.jpg", b"r/s/e.jpg", b"r/f.jpg")
    report = ScanReport()
    plan = make_plan({b"p": True, b"p/raw": True, b"r/s/t": True})
    found = [(seen.path, seen.mapping) for seen in scan(Tree(root), plan, report)]
    assert found == [(b"p/a.jpg", 0), (b"p/raw/b.jpg", 1), (b"r/s/t/d.jpg", 2)]
    assert report.per_mapping == {0: 1, 1: 1, 2: 1}
    assert report.unmapped_files == 3
    assert (report.unmapped, report.unmapped_count) == ([b"q"], 1)
    assert report.missing_mappings == []
    assert report.complete


def test_unmapped_folders_are_named_once(make_tree, make_plan):
    root = make_tree(b"p/a.jpg", b"p/raw/b.jpg", b"q/c/d.jpg", b"r/s/t/d.jpg", b"r/u/e.jpg")
    report = ScanReport()
    assert len(list(scan(Tree(root), make_plan({b"p": True, b"r/s/t": True}), report))) == 3
    assert (report.unmapped, report.unmapped_count) == ([b"q", b"r/u"], 2)


def test_absent_mapped_folder_is_missing(make_tree, make_plan, scanned):
    root = make_tree(b"p/a.jpg", b"file", b"empty/")
    os.symlink(b"p", root + b"/link")
    plan = make_plan({b"p": True, b"gone": True, b"file": True, b"link": True, b"empty": True, b"p/x/y": True})
    found, report = scanned(root, plan)
    assert found == [b"p/a.jpg"]
    assert report.missing_mappings == [1, 2, 3, 5]
    assert report.per_mapping[4] == 0
    assert (report.finished, report.complete) == (True, False)


def test_sidecars_depend_on_the_mapping(make_tree, make_plan):
    root = make_tree(b"p/a.jpg", b"p/a.jpg.yaml", b"p/_folder.yaml", b"q/a.yaml", b"p/a.YAML", b"p/d.yaml/x")
    report = ScanReport()
    found = {seen.path: seen.is_sidecar for seen in scan(Tree(root), make_plan({b"p": True, b"q": False}), report)}
    assert found == {
        b"p/a.jpg": False,
        b"p/a.jpg.yaml": True,
        b"p/_folder.yaml": True,
        b"p/a.YAML": False,
        b"p/d.yaml/x": False,
        b"q/a.yaml": False,
    }
    assert (report.files, report.sidecars) == (4, 2)


def test_ignored_folder_is_counted_once(make_tree, make_plan, scanned):
    root = make_tree(b"a.jpg", b"b.tmp", b"cache/x.jpg", b"cache/y/z.jpg", b"d/e.jpg")
    found, report = scanned(root, make_plan(ignore=(b"b.tmp", b"cache/")))
    assert found == [b"a.jpg", b"d/e.jpg"]
    assert report.ignored == 2
    assert report.complete


def test_mapping_in_ignored_folder_is_scanned(make_tree, make_plan, scanned):
    root = make_tree(b"hid/a.jpg", b"hid/x/b.jpg", b"hid/in/c.jpg", b"hid/in/d/e.jpg")
    plan = make_plan({b"": True, b"hid/in": True}, ignore=(b"hid/", b"hid/in/"))
    found, report = scanned(root, plan)
    assert found == [b"hid/in/c.jpg", b"hid/in/d/e.jpg"]
    assert report.ignored == 1
    assert report.unmapped_files == 0


# What cannot be read. -------------------------------------------------------------------------------------------------


def test_unreadable_folder_is_not_covered(make_tree, make_plan, scanned, unprivileged):
    """The report of a scan names the folder, and does not count its files as missing."""
    root = make_tree(b"a.jpg", b"dark/b.jpg", b"z.jpg", b"dark/in/c.jpg")
    os.chmod(root + b"/dark", 0)
    with unprivileged():
        found, report = scanned(root, make_plan({b"": True, b"dark/in": True}))
    os.chmod(root + b"/dark", 0o755)
    assert found == [b"a.jpg", b"z.jpg"]
    assert report.unreadable == [(b"dark", "Permission denied")]
    assert report.finished
    assert not report.complete
    assert [report.covers(path) for path in (b"a.jpg", b"dark/b.jpg", b"dark/gone.jpg", b"darker")] == [
        True,
        False,
        False,
        True,
    ]
    assert report.missing_mappings == []


def test_unsearchable_folder_is_one_finding(make_tree, scanned, unprivileged):
    root = make_tree(b"dark/a.jpg", b"dark/b.jpg", b"dark/c/d.jpg", b"z.jpg")
    os.chmod(root + b"/dark", 0o744)
    with unprivileged():
        found, report = scanned(root)
    os.chmod(root + b"/dark", 0o755)
    assert found == [b"z.jpg"]
    assert (report.unreadable, report.unreadable_count) == ([(b"dark", "Permission denied")], 1)


def test_unreadable_root_is_incomplete(make_tree, scanned, unprivileged):
    root = make_tree(b"a.jpg")
    os.chmod(root, 0o711)
    with unprivileged():
        found, report = scanned(root)
    assert (found, report.unreadable) == ([], [(b"", "Permission denied")])
    assert not report.covers(b"a.jpg")


class TornListing:
    """What os.scandir gives on a disk that fails after some entries."""

    def __init__(self, entries, good: int) -> None:
        self._entries = entries
        self._good = good

    def __enter__(self):
        return self

    def __exit__(self, *exc: object) -> None:
        self._entries.close()

    def __iter__(self):
        for _ in range(self._good):
            yield next(self._entries)
        raise OSError(errno.EIO, "Input/output error")


def test_folder_failing_midway_is_uncovered(make_tree, scanned, monkeypatch: pytest.MonkeyPatch):
    root = make_tree(b"a.jpg", b"bad/1", b"bad/2", b"bad/3", b"z.jpg")
    bad = os.stat(root + b"/bad").st_ino
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: TornListing(real(fd), 2) if os.stat(fd).st_ino == bad else real(fd))
    found, report = scanned(root)
    assert (found[0], found[-1], len(found)) == (b"a.jpg", b"z.jpg", 4)
    assert report.unreadable == [(b"bad", "Input/output error")]
    assert not report.covers(b"bad/3")


def test_file_failing_stat_is_named(make_tree, scanned, monkeypatch: pytest.MonkeyPatch):
    root = make_tree(b"a.jpg", b"bad.jpg", b"c.jpg")
    real = os.stat

    def torn(path, *args, **options):
        if path == b"bad.jpg":
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", torn)
    found, report = scanned(root)
    assert found == [b"a.jpg", b"c.jpg"]
    assert report.unreadable == [(b"bad.jpg", "Input/output error")]
    assert [report.covers(path) for path in (b"a.jpg", b"bad.jpg", b"bad.jpg2")] == [True, False, True]


def test_full_disk_in_sorting_is_incomplete(make_tree, scanned, tmp_path: Path):
    root = make_tree(b"a/1", b"a/2", b"a/3", b"b/1")
    found, report = scanned(root, spill_above=2, spill_folder=str(tmp_path / "none"))
    assert b"b/1" in found
    assert [path for path, _ in report.unreadable] == [b"a"]
    assert "sorted on disk" in report.unreadable[0][1]


def test_a_missing_root_is_an_error(scanned, tmp_path: Path):
    with pytest.raises(RootMissing):
        scanned(os.fsencode(tmp_path / "none"))


# What changes during the scan. ----------------------------------------------------------------------------------------


def test_folder_turned_link_is_not_followed(make_tree, make_plan, tmp_path: Path):
    root = make_tree(b"a/1.jpg", b"b/inside.jpg")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.jpg").write_bytes(b"")
    for follow in (False, True):
        report = ScanReport()
        files = scan(Tree(root, follow_symlinks=follow), make_plan(), report)
        assert next(files).path == b"a/1.jpg"
        if not follow:
            os.rename(root + b"/b", tmp_path / "b")
            os.symlink(tmp_path / "outside", root + b"/b")
        assert list(files) == []
        assert report.complete


def test_moved_folder_does_not_mislead_walk(make_tree, make_plan, tmp_path: Path):
    root = make_tree(b"a/1.jpg", b"a/b/2.jpg", b"z.jpg")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/b/secret.jpg").write_bytes(b"")
    files = scan(Tree(root), make_plan(), ScanReport())
    assert next(files).path == b"a/1.jpg"
    os.rename(root + b"/a", root + b"/y")
    os.symlink(tmp_path / "outside", root + b"/a")
    assert [seen.path for seen in files] == [b"a/b/2.jpg", b"z.jpg"]


def test_replaced_folder_is_not_covered(make_tree, make_plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan_module, "MOST_OPEN", 1)
    root = make_tree(b"a/b/c.jpg", b"a/z.jpg", b"z.jpg")
    report = ScanReport()
    files = scan(Tree(root), make_plan(), report)
    assert next(files).path == b"a/b/c.jpg"
    os.rename(root + b"/a/b", root + b"/b-moved")
    os.rename(root + b"/a", root + b"/a-moved")
    make_tree(b"a/other.jpg")
    assert [seen.path for seen in files] == [b"z.jpg"]
    assert report.unreadable == [(b"a", "it was moved or replaced during the scan")]
    assert not report.covers(b"a/z.jpg")


def test_folder_of_moved_child_is_reopened(make_tree, make_plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan_module, "MOST_OPEN", 1)
    root = make_tree(b"a/b/c.jpg", b"a/z.jpg")
    report = ScanReport()
    files = scan(Tree(root), make_plan(), report)
    assert next(files).path == b"a/b/c.jpg"
    os.rename(root + b"/a/b", root + b"/b-moved")
    assert [seen.path for seen in files] == [b"a/z.jpg"]
    assert report.complete


@pytest.mark.parametrize("vanish", [b"b/", b"b/2.jpg"])
def test_vanished_path_is_no_error(make_tree, make_plan, vanish: bytes):
    root = make_tree(b"a.jpg", b"b/2.jpg", b"c.jpg")
    report = ScanReport()
    files = scan(Tree(root), make_plan(), report)
    assert next(files).path == b"a.jpg"
    os.unlink(root + b"/b/2.jpg")
    if vanish.endswith(b"/"):
        os.rmdir(root + b"/b")
    assert [seen.path for seen in files] == [b"c.jpg"]
    assert report.complete
    assert report.covers(b"b/2.jpg")


def test_file_turned_pipe_is_skipped(make_tree, make_plan):
    root = make_tree(b"a.jpg", b"b.jpg", b"c.jpg")
    report = ScanReport()
    files = scan(Tree(root), make_plan(), report)
    assert next(files).path == b"a.jpg"
    os.unlink(root + b"/b.jpg")
    os.unlink(root + b"/c.jpg")
    os.mkfifo(root + b"/c.jpg")
    assert list(files) == []
    assert (report.complete, report.special) == (True, 1)


# Ending early. --------------------------------------------------------------------------------------------------------


def test_stopped_scan_is_not_complete(make_tree, make_plan):
    root = make_tree(b"a.jpg", b"b/1.jpg", b"c/1.jpg")
    report = ScanReport()
    told = []
    found = []
    for seen in scan(Tree(root), make_plan(), report, stop=lambda: bool(told)):
        found.append(seen.path)
        if seen.path == b"b/1.jpg":
            told.append(True)
    assert found == [b"a.jpg", b"b/1.jpg"]
    assert not report.complete
    assert [report.covers(path) for path in (b"a.jpg", b"a.gone", b"c/1.jpg")] == [True, True, False]
    assert report.files == 2


@pytest.mark.parametrize("spill", [1000, 50_000], ids=["sorted on disk", "in memory"])
def test_large_folder_ticks_between_its_files(make_tree, make_plan, monkeypatch: pytest.MonkeyPatch, spill: int):
    """The watchdog waits for a sign of life, however slowly the files of one folder are looked at."""
    root = make_tree(*(b"%05d" % number for number in range(3 * AT_ONCE)))
    looks = [0]
    real = os.stat

    def look(*given, **named):
        looks[-1] += 1
        return real(*given, **named)

    monkeypatch.setattr(scan_module.os, "stat", look)
    found = list(scan(Tree(root), make_plan(), ScanReport(), stop=lambda: bool(looks.append(0)), spill_above=spill))
    assert len(found) == 3 * AT_ONCE
    assert max(looks) <= AT_ONCE


def test_stop_ends_a_scan_within_a_folder(make_tree, make_plan):
    root = make_tree(*(b"a/%05d" % number for number in range(3 * AT_ONCE)), b"b")
    # Asked at the root, while the folder is listed, at the folder, and twice within it.
    report, answers = ScanReport(), iter([False, False, False, False, True])
    found = list(scan(Tree(root), make_plan(), report, stop=lambda: next(answers)))
    assert AT_ONCE <= len(found) < 2 * AT_ONCE
    assert (report.finished, report.files) == (False, len(found))
    assert [report.covers(path) for path in (b"a/00000", b"a/99999", b"b")] == [False, False, False]


def test_closed_scan_leaves_no_descriptor(make_tree, make_plan):
    root = make_tree(b"a/b/1.jpg", b"a/b/2.jpg", b"c.jpg")
    before = open_descriptors()
    report = ScanReport()
    files = scan(Tree(root), make_plan(), report, spill_above=1)
    assert next(files).path == b"a/b/1.jpg"
    files.close()
    assert open_descriptors() == before
    assert (report.files, report.finished, report.complete) == (1, False, False)


def test_visited_file_systems_are_recorded(make_tree, scanned):
    root = make_tree(b"a/b.jpg")
    assert scanned(root)[1].devices == {os.stat(root).st_dev}


def test_a_scan_leaves_no_access_time_behind(make_tree, scanned):
    root = make_tree(b"a/b.jpg")
    os.utime(root + b"/a", ns=(1, 10**18))
    scanned(root)
    assert os.stat(root + b"/a").st_atime_ns == 1


def test_unreadable_sort_run_is_incomplete(make_tree, scanned, monkeypatch: pytest.MonkeyPatch):
    def torn(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    root = make_tree(b"a/1", b"a/2", b"a/3", b"b")
    monkeypatch.setattr(os, "pread", torn)
    found, report = scanned(root, spill_above=2)
    assert found == [b"b"]
    assert report.unreadable == [(b"a", "Input/output error")]
    assert not report.covers(b"a/1")


class DoubledListing(TornListing):
    """What os.scandir gives when entries are removed and made again while it reads."""

    def __iter__(self):
        for entry in self._entries:
            yield entry
            yield entry


def test_name_listed_twice_is_one_file(make_tree, scanned, monkeypatch: pytest.MonkeyPatch):
    root = make_tree(b"a", b"b/c", b"d")
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: DoubledListing(real(fd), 0))
    assert scanned(root)[0] == [b"a", b"b/c", b"d"]
