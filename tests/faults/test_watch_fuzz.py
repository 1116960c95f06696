"""Folders are moved, exchanged, removed and made in any order below a running daemon: the watcher misses no file.

Nothing is left to the scan: it runs only when the daemon starts. After each round, a file is written into every folder
that is left, so that a folder which is watched no more, or under another name, is found out. All is drawn from a seed;
which event is read how late is the machine's affair.
"""

import hashlib
import json
import os
import random
import signal
import time
from collections import Counter
from functools import partial

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.movers import Movers
from tests.running import KEY, Running, daemons

MAPPED = {"photos": "D0D0", "papers": "C0C0"}


@pytest.fixture
def seeds(request):
    given = os.environ.get("ASSETSYNC_SEED")
    first = int(given) if given else 20261126
    return range(first, first + (5 if request.config.getoption("--long") else 1))


@pytest.fixture
def rounds(request):
    return 20 if request.config.getoption("--long") else 4


def test_moving_folders_hide_no_file(tmp_path, seeds, rounds):
    """Move, exchange, remove and make folders: the watcher reports each file written into them."""
    for seed in seeds:
        rng = random.Random(seed)
        settings = SandboxSettings(
            dialect="observed", api_key=KEY, folders={number: name for name, number in MAPPED.items()}
        )
        with Sandbox(settings) as sandbox, daemons(tmp_path / str(seed), sandbox) as make:
            running = make(
                watch="{settle: 100ms, mode: inotify}",
                schedule="{index: 1s, verify: 1s, rescan: off, audit: off}",
                folders=json.dumps([{"path": name, "destfolderid": number} for name, number in MAPPED.items()]),
                # Folders that are removed or moved away are no mishap here.
                brake="{max_vanished: 1000000, max_vanished_share: 100%}",
            )
            movers = Movers(running.tree, MAPPED, rng)
            running.start()
            for starts in range(1, rounds + 1):
                scanned = partial(_scanned, running, starts)
                if rng.random() < 0.7:
                    running.until(scanned)
                for _ in range(60):
                    movers.work()
                    if rng.random() < 0.1:
                        time.sleep(rng.choice([0.01, 0.1, 0.7]))
                running.until(scanned)
                movers.write_everywhere()
                _until_seen(running, movers)
                assert len(running.events("scanned")) == starts, "a scan found what the watcher should have reported"
                _begin_anew(running, rng)
            running.until(partial(_scanned, running, rounds + 1))
            assert running.stop() == 0
            stored = Counter((asset.folder_id, asset.md5) for asset in sandbox.assets())
        wanted = {(MAPPED[path.split("/")[0]], _md5(content)) for path, content in movers.files().items()}
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
        running.start(ready=False)


def _scanned(running: Running, starts: int) -> bool:
    """Return whether each start was followed by its scan."""
    return len(running.events("scanned")) >= starts


def _until_seen(running: Running, movers: Movers) -> None:
    def unseen() -> list[str]:
        states = running.states()
        return [path for path in movers.files() if states.get(path) != "verified"]

    try:
        running.until(lambda: unseen() == [], 300)
    except AssertionError:
        print("not verified:", *unseen())
        raise


def _md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest().upper()
