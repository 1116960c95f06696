"""Folders are moved, exchanged, removed and made in any order below a running daemon: the watcher misses no file.

Nothing is left to the scan: it runs only when the daemon starts. After each round, a file is written into every folder
that is left, so that a folder which is watched no more, or under another name, is found out. All is drawn from a seed;
which event is read how late is the machine's affair.
"""

import ctypes
import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.running import KEY, Running, daemons

MAPPED = {"photos": "D0D0", "papers": "C0C0"}
_HERE = -100
"""AT_FDCWD."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of renameat2(2)."""


@pytest.fixture
def seeds(request):
    given = os.environ.get("ASSETSYNC_SEED")
    first = int(given) if given else 20261126
    return range(first, first + (5 if request.config.getoption("--long") else 1))


@pytest.fixture
def rounds(request):
    return 20 if request.config.getoption("--long") else 4


def test_moving_folders_hide_no_file(tmp_path, seeds, rounds):
    for seed in seeds:
        rng = random.Random(seed)
        settings = SandboxSettings(api_key=KEY, folders={number: name for name, number in MAPPED.items()})
        with Sandbox(settings) as sandbox, daemons(tmp_path / str(seed), sandbox) as make:
            running = make(
                watch="{settle: 100ms, mode: inotify}",
                schedule="{index: 1s, verify: 1s, rescan: off, audit: off}",
                folders=json.dumps([{"path": name, "destfolderid": number} for name, number in MAPPED.items()]),
                # Folders that are removed or moved away are no mishap here.
                brake="{max_vanished: 1000000, max_vanished_share: 100%}",
            )
            movers = Movers(running.tree, rng)
            running.start()
            for starts in range(1, rounds + 1):
                scanned = partial(_scanned, running, starts)
                if rng.random() < 0.7:
                    running.until(scanned)
                for _ in range(60):
                    movers.work()
                running.until(scanned)
                movers.write_everywhere()
                _until_seen(running, movers)
                assert len(running.events("scanned")) == starts, "a scan found what the watcher should have reported"
                _begin_anew(running, rng)
            assert running.stop() == 0
            stored = Counter((asset.folder_id, asset.md5) for asset in sandbox.assets())
        wanted = {(MAPPED[path.split("/")[0]], md5) for path, md5 in movers.files().items()}
        print(f"seed {seed}: {movers.count} works, {len(wanted)} files, {len(running.events('running'))} starts")
        assert {file: stored[file] for file in wanted if stored[file] != 1} == {}, f"seed {seed}"
        assert [event for event in running.events() if event["level"] in ("error", "critical")] == [], f"seed {seed}"


def _begin_anew(running: Running, rng: random.Random) -> None:
    starts = len(running.events("running"))
    if rng.random() < 0.6:
        running.signal(signal.SIGHUP)
        running.until(lambda: len(running.events("running")) > starts)
    else:
        assert running.stop() == 0
        running.start()


def _scanned(running: Running, starts: int) -> bool:
    """Return whether each start was followed by its scan."""
    return len(running.events("scanned")) >= starts


def _until_seen(running: Running, movers: "Movers") -> None:
    try:
        running.until(lambda: movers.unseen(running) == [])
    except AssertionError:
        print("not verified:", *movers.unseen(running))
        raise


class Movers:
    """Move folders in a tree and out of it; few names, so that a folder often takes the name of another."""

    def __init__(self, tree: Path, rng: random.Random) -> None:
        self._tree = tree
        self._outside = tree.parent / "outside"
        self._tops = [*(tree / name for name in MAPPED), tree / "unmapped", self._outside]
        self._rng = rng
        self._files = 0
        self.count = 0
        """The number of things done."""
        self._works = {
            self._grow: 6,
            self._move: 10,
            self._exchange: 4,
            self._rotate: 3,
            self._replace: 2,
            self._rename_and_make: 4,
            self._out_and_back: 3,
            self._move_file: 3,
            self._remove: 2,
            self._write: 4,
        }
        for top in self._tops:
            top.mkdir(parents=True, exist_ok=True)
            # A mapped folder without files pulls a brake.
            self._write_to(top)

    def work(self) -> None:
        """Do one thing, if there is anything to do it to, and sometimes wait until it is noticed."""
        folders = self._folders()
        works = dict(self._works) if len(folders) < 60 else {self._remove: 1}
        [do] = self._rng.choices(list(works), list(works.values()))
        do()
        self.count += 1
        if self._rng.random() < 0.1:
            # The daemon's tree is at rest for a moment.
            time.sleep(self._rng.choice([0.01, 0.1, 0.7]))

    def write_everywhere(self) -> None:
        """Write a file into each folder of the mapped ones."""
        for folder in self._folders():
            if folder.is_relative_to(self._tree):
                self._write_to(folder)

    def files(self) -> dict[str, str]:
        """Give the path and the MD5 of each mapped file."""
        found = (path for name in MAPPED for path in (self._tree / name).rglob("*.bin"))
        return {str(path.relative_to(self._tree)): _md5(path.read_bytes()) for path in found}

    def unseen(self, running: Running) -> list[str]:
        """Give the mapped files that are not verified."""
        states = running.states()
        return [path for path in self.files() if states.get(path) != "verified"]

    def _folders(self) -> list[Path]:
        return [Path(folder) for top in self._tops for folder, *_ in os.walk(top)]

    def _some(self, but: Path | None = None) -> Path | None:
        """Give a folder that may be moved; none above or below `but`."""
        found = [folder for folder in self._folders() if folder not in self._tops]
        if but is not None:
            found = [folder for folder in found if not folder.is_relative_to(but) and not but.is_relative_to(folder)]
        return self._rng.choice(found) if found else None

    def _place(self, but: Path | None = None) -> Path:
        """Give a path at which there is nothing, outside of `but`."""
        while True:
            parent = self._rng.choice(self._folders())
            if (but is None or not parent.is_relative_to(but)) and len(parent.parts) < len(self._tree.parts) + 6:
                place = parent / self._rng.choice("abcde")
                if not place.exists():
                    return place

    def _write_to(self, folder: Path) -> None:
        self._files += 1
        (folder / f"{self._files}.bin").write_bytes(b"%d %d" % (self._files, self._rng.getrandbits(64)))

    def _write(self) -> None:
        self._write_to(self._rng.choice(self._folders()))

    def _grow(self) -> None:
        place = self._place()
        for name in ["", *self._rng.choices("abcde", k=self._rng.randrange(3))]:
            place /= name
            place.mkdir()
            self._write_to(place)

    def _move(self) -> None:
        if (folder := self._some()) is not None:
            folder.rename(self._place(folder))

    def _exchange(self) -> None:
        folder = self._some()
        other = None if folder is None else self._some(folder)
        if other is not None:
            assert ctypes.CDLL(None).renameat2(_HERE, bytes(folder), _HERE, bytes(other), _EXCHANGE) == 0

    def _rotate(self) -> None:
        folder = self._some()
        other = None if folder is None else self._some(folder)
        if other is not None:
            between = folder.with_name("between")
            folder.rename(between)
            other.rename(folder)
            between.rename(other)

    def _replace(self) -> None:
        if (folder := self._some()) is not None:
            place = self._place(folder)
            place.mkdir()
            folder.rename(place)

    def _rename_and_make(self) -> None:
        if (folder := self._some()) is not None:
            folder.rename(self._place(folder))
            folder.mkdir()
            self._write_to(folder)

    def _out_and_back(self) -> None:
        if (folder := self._some()) is not None:
            away = self._outside / "away"
            folder.rename(away)
            if self._rng.random() < 0.5:
                self._write_to(away)
            away.rename(self._rng.choice([folder, self._place(away)]))

    def _move_file(self) -> None:
        files = [path for folder in self._folders() if folder not in self._tops for path in folder.glob("*.bin")]
        if files:
            file = self._rng.choice(files)
            file.rename(self._rng.choice(self._folders()) / file.name)

    def _remove(self) -> None:
        if (folder := self._some()) is not None:
            shutil.rmtree(folder)


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest().upper()
