"""A daemon as a process, on a real tree and real sockets, through all at once: nothing lost, nothing twice."""

import json
import os
import random
import time
from collections import Counter

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.running import KEY, daemons

from .hardship import GRACE, Fate, People, to_be_removed

MAPPED = {"photos": "D0D0", "papers": "C0C0"}


@pytest.fixture
def seeds(request):
    given = os.environ.get("ASSETSYNC_SEED")
    first = int(given) if given else 20261123
    return range(first, first + (10 if request.config.getoption("--long") else 1))


@pytest.fixture
def steps(request):
    return 300 if request.config.getoption("--long") else 80


def test_daemon_loses_and_repeats_nothing(tmp_path, seeds, steps):
    """Draw work, faults and ends of the process from a seed; let all come to rest, and compare tree and service."""
    for seed in seeds:
        rng = random.Random(seed)
        settings = SandboxSettings(
            dialect="observed",
            api_key=KEY,
            folders={number: name for name, number in MAPPED.items()},
            processing_delay=rng.choice([0.0, 0.2, 1.0]),
            latency=rng.choice([0.0, 0.02, 0.1]),
        )
        with Sandbox(settings) as sandbox, daemons(tmp_path / str(seed), sandbox) as make:
            running = make(
                watch=f"{{settle: {rng.choice([0, 100, 400])}ms, mode: {rng.choice(['inotify', 'polling'])}}}",
                schedule=f"{{index: 1s, verify: 1s, rescan: {rng.choice([3, 10])}s, audit: off}}",
                folders=json.dumps([{"path": name, "destfolderid": number} for name, number in MAPPED.items()]),
                # So slow that some uploads are on their way when it is killed.
                upload=f"{{doubt_grace: {GRACE}s, lookup_lag: 0s, workers: {rng.choice([1, 4, 8])},"
                f" rate: {rng.choice([5, 20])}MB/s}}",
            )
            roots = {running.tree / name: number for name, number in MAPPED.items()}
            for root in roots:
                root.mkdir(exist_ok=True)
            running.start()
            people, fate = People(list(roots), rng), Fate(running, sandbox, rng)
            for _ in range(steps):
                people.work()
                if rng.random() < 0.3:
                    fate.strike()
                time.sleep(rng.random() * 0.05)
            fate.end()
            wanted = {str(path.relative_to(running.tree)): "verified" for path in people.lies}
            running.until(lambda running=running, wanted=wanted: running.states() == wanted, 500)
            assert running.stop() == 0
            listed = to_be_removed(running)
            assets = sandbox.assets()
        print(f"seed {seed}: {len(wanted)} files, {len(assets)} assets; {', '.join(fate.came)}")
        stored = Counter((asset.folder_id, asset.md5) for asset in assets)
        contents = {md5 for _, md5 in people.came}
        lost = {md5: count for (root, md5), count in people.lying().items() if stored[roots[root], md5] < count}
        twice = {md5: count for (root, md5), count in people.came.items() if stored[roots[root], md5] > count}
        parts = {asset.filename for asset in assets if asset.md5 not in contents and asset.id not in listed}
        assert (lost, twice, parts) == ({}, {}, set()), f"seed {seed}: {fate.came}"
        assert [event for event in running.events() if event["level"] == "critical"] == []
