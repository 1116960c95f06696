"""The watcher hands on hints, says when it was blind, and can be asked whether it still works."""

import errno
import logging
import os
import shutil
import threading
import time

import pytest

from assetsync.tree.watch import Watcher, coverage, outermost


class Heard:
    def __init__(self):
        self.paths = []
        self.lost = []
        self.now = 0.0
        self._changed = threading.Condition()

    def hint(self, path):
        with self._changed:
            self.paths.append(path)
            self._changed.notify_all()

    def lose(self, why):
        self.lost.append(why)

    def until(self, path, seconds=5.0, times=1):
        """Wait for so many hints at the path; a file that is made and written gives two."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.paths.count(path) >= times, seconds), self.paths


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def watch(tmp_path, heard):
    started = []

    def make(*folders):
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        canary = bytes(tmp_path / "canary")
        told = {"hint": heard.hint, "lost": heard.lose}
        watcher = Watcher(bytes(root), folders or (b"",), canary, **told)
        watcher.start(heard.now)
        started.append(watcher)
        return watcher, root

    yield make
    for watcher in started:
        watcher.stop()


def test_written_file_is_hinted_at(watch, heard):
    _, root = watch(b"photos")
    (root / "photos").mkdir()
    # The folder came after the watcher: it is watched from the next `tend` on.
    watcher = watch(b"photos")[0]
    assert watcher.tend(heard.now) == []
    (root / "photos" / "a.jpg").write_bytes(b"a")
    heard.until(b"photos/a.jpg")


def test_new_folder_is_reported_once(watch, heard):
    watcher, root = watch(b"photos")
    assert watcher.tend(heard.now) == []
    (root / "photos").mkdir()
    assert watcher.tend(heard.now) == [bytes(root / "photos")]
    assert watcher.tend(heard.now) == []
    (root / "photos" / "a").write_bytes(b"a")
    heard.until(b"photos/a")


def test_folder_moved_back_is_watched(watch, heard, tmp_path, recwarn):
    _, root = watch()
    (root / "a").mkdir()
    (root / "a" / "1").write_bytes(b"1")
    heard.until(b"a/1")
    (root / "a").rename(tmp_path / "a")
    (root / "other").write_bytes(b"until the kernel has told of it")
    heard.until(b"other")
    (tmp_path / "a").rename(root / "b")
    heard.until(b"b/1")
    (root / "b" / "2").write_bytes(b"2")
    heard.until(b"b/2")
    assert [str(warning.message) for warning in recwarn] == []


def test_a_folder_that_goes_is_told_once(watch, heard):
    watcher, root = watch(b"photos")
    (root / "photos").mkdir()
    watcher.tend(heard.now)
    # As an unmounted disk goes: without an event for its files.
    (root / "photos").rename(root.parent / "away")
    assert watcher.tend(heard.now) == [bytes(root / "photos")]
    assert watcher.tend(heard.now) == []


def test_recreated_folder_is_watched_again(watch, heard):
    watcher, root = watch(b"photos")
    (root / "photos").mkdir()
    watcher.tend(heard.now)
    (root / "photos").rmdir()
    time.sleep(0.3)
    (root / "photos").mkdir()
    assert watcher.tend(heard.now) == [bytes(root / "photos")]
    (root / "photos" / "again").write_bytes(b"a")
    heard.until(b"photos/again")


def test_unwatchable_folder_is_retried(watch, heard, monkeypatch):
    watcher, root = watch(b"photos", b"docs")
    tried = []

    def refuse(handler, folder, **how):
        tried.append(folder)
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    with monkeypatch.context() as patch:
        patch.setattr(watcher._observer, "schedule", refuse)
        (root / "photos").mkdir()
        (root / "docs").mkdir()
        for _ in range(121):
            assert watcher.tend(heard.now) == []
            heard.now += 1
    assert tried == 3 * [bytes(root / "photos"), bytes(root / "docs")]
    assert len(heard.lost) == 2
    heard.now += 60
    assert watcher.tend(heard.now) == [bytes(root / "photos"), bytes(root / "docs")]
    (root / "photos" / "a").write_bytes(b"a")
    heard.until(b"photos/a")
    # Whoever was watched in between is told of again.
    (root / "docs").rename(root / "other")
    assert watcher.tend(heard.now) == [bytes(root / "docs")]
    (root / "docs").mkdir()
    monkeypatch.setattr(watcher._observer, "schedule", refuse)
    assert watcher.tend(heard.now) == []
    assert len(heard.lost) == 3


def test_reading_a_file_is_no_event(watch, heard):
    _, root = watch()
    (root / "a").write_bytes(b"a")
    heard.until(b"a", times=2)
    heard.paths.clear()
    (root / "a").read_bytes()
    # Events of one tree come in their order: with this one, any of the reading would have come.
    (root / "b").write_bytes(b"b")
    heard.until(b"b", times=2)
    assert set(heard.paths) == {b"b"}


@pytest.mark.parametrize(
    "leave",
    [
        lambda path, _: path.unlink(),
        lambda path, _: path.rename(path.parent / "other.jpg.yaml"),
        lambda path, outside: path.rename(outside / "a.jpg.yaml"),
    ],
    ids=["deleted", "renamed", "moved out"],
)
def test_a_sidecar_that_goes_is_hinted_at(watch, heard, tmp_path, leave):
    _, root = watch()
    (root / "a.jpg.yaml").write_bytes(b"a")
    heard.until(b"a.jpg.yaml", times=2)
    leave(root / "a.jpg.yaml", tmp_path)
    heard.until(b"a.jpg.yaml", times=3)


def test_deleted_file_is_left_to_the_scan(watch, heard):
    _, root = watch()
    (root / "a.jpg").write_bytes(b"a")
    heard.until(b"a.jpg", times=2)
    (root / "a.jpg").unlink()
    (root / "b").write_bytes(b"b")
    heard.until(b"b", times=2)
    assert heard.paths.count(b"a.jpg") == 2


def test_a_name_of_any_bytes_is_hinted_at(watch, heard):
    _, root = watch()
    name = b"\xff\x01 \n\xe9"
    with open(os.path.join(bytes(root), name), "wb") as file:
        file.write(b"a")
    heard.until(name)


def test_canary_sings_only_while_watching(watch):
    watcher, _ = watch()
    assert watcher.is_alive(5)
    watcher.stop()
    assert not watcher.is_alive(0.2)


def test_canary_sings_after_folder_removal(watch, tmp_path):
    watcher, _ = watch()
    assert watcher.is_alive(5)
    for _ in range(3):
        shutil.rmtree(tmp_path / "canary")
        assert watcher.is_alive(5)
    assert watcher.is_alive(5)


def test_canary_sings_once_its_folder_exists(watch, tmp_path, heard):
    (tmp_path / "canary").write_bytes(b"no folder")
    watcher, root = watch()
    assert not watcher.is_alive(0.2)
    # The tree is watched all the same.
    (root / "a").write_bytes(b"a")
    heard.until(b"a")
    (tmp_path / "canary").unlink()
    assert watcher.is_alive(5)


def test_logged_overflow_is_noticed(watch, heard):
    watch()
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    assert len(heard.lost) == 1


def test_kernel_watches_are_counted(watch):
    before = coverage().watched
    watcher, root = watch()
    for number in range(20):
        (root / str(number)).mkdir()
    assert watcher.is_alive(5)
    deadline = time.monotonic() + 5
    while coverage().watched < before + 22 and time.monotonic() < deadline:
        time.sleep(0.02)
    # The root, twenty folders and the canary's.
    assert coverage().watched == before + 22
    assert coverage().limit > 0


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([b""], [b""]),
        ([b"", b"a", b"b/c"], [b""]),
        ([b"a", b"a/b", b"ab", b"c/d"], [b"a", b"ab", b"c/d"]),
    ],
)
def test_nested_folder_is_watched_once(folders, expected):
    assert outermost(folders) == expected
