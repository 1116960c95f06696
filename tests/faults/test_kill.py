"""`kill -9` of the real process at random moments, against the real sandbox: nothing lost, nothing twice."""

import collections
import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings

FOLDER = "0A1B2C3D"
KEY = "kill-key"


def config_for(folder: Path, sandbox: Sandbox) -> Path:
    key = folder / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    config = folder / "site.yaml"
    config.write_text(
        f"""
site: kill
root: {folder}/tree
ledger: {folder}/kill.db
service:
  {{base_url: "{sandbox.base_url}", upload_url: "{sandbox.upload_url}", api_key_file: {key}, read_timeout: 5s}}
folders: [{{path: ., destfolderid: "{FOLDER}"}}]
watch: {{settle: 0s}}
upload: {{doubt_grace: 4s, lookup_lag: 0s}}
schedule: {{index: off}}
"""
    )
    return config


def make_files(tree: Path, rng: random.Random) -> dict[str, Path]:
    """Small, middle and large files, two of one name in two folders; the large ones are cut most often."""
    files = {}
    for number in range(60):
        size = 12_000_000 if number % 8 == 0 else rng.choice([3, 800, 9_000, 300_000])
        path = tree / f"part{number % 3}" / f"file{number // 3}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = rng.randbytes(size)
        path.write_bytes(data)
        files[hashlib.md5(data).hexdigest().upper()] = path
    return files


def command(config: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "assetsync", *more, "--config", str(config)]


@pytest.fixture
def seeds(request):
    given = os.environ.get("ASSETSYNC_SEED")
    first = int(given) if given else 20261121
    return range(first, first + (20 if request.config.getoption("--long") else 1))


def test_killed_reconcile_loses_nothing(tmp_path, seeds):
    """Kill six runs at random moments; the seventh sends the rest, and each damaged asset is listed as an orphan."""
    for seed in seeds:
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        files = make_files(folder / "tree", rng)
        kills = 0
        # So slow that no machine sends all of it before the first kill.
        settings = SandboxSettings(
            dialect="observed", api_key=KEY, folders={FOLDER: "kill"}, processing_delay=0.1, latency=0.05
        )
        with Sandbox(settings) as sandbox:
            config = config_for(folder, sandbox)
            for _ in range(6):
                process = subprocess.Popen(
                    command(config, "reconcile", "--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                try:
                    process.wait(0.4 + rng.random() * 0.6)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    kills += 1
            last = subprocess.run(command(config, "reconcile", "--json"), capture_output=True, text=True, check=False)
            report = json.loads(last.stdout)
            orphans = subprocess.run(command(config, "orphans", "--json"), capture_output=True, text=True, check=True)
            assets = sandbox.assets()
        counted = collections.Counter(asset.md5 for asset in assets)
        said = f"seed {seed}, {kills} kills: {report} {last.stderr[-2000:]}"
        print(said)
        assert last.returncode == 0, said
        assert kills, said
        assert [str(path) for md5, path in files.items() if counted[md5] == 0] == [], said
        assert [str(path) for md5, path in files.items() if counted[md5] > 1] == [], said
        damaged = {asset.id for asset in assets if asset.md5 not in files}
        listed = [json.loads(line) for line in orphans.stdout.splitlines()]
        assert {orphan["assetid"] for orphan in listed} == damaged, said
        assert {orphan["why"] for orphan in listed} <= {"damaged"}, said
