"""SIGKILL of the real process at each numbered point, against the real sandbox: the next run loses and doubles nothing.

The points are `killed`'s. Before the two in which a doubt ends, another kill has left a doubt.
"""

import collections
import hashlib
import json
import random
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.ledger.ledger import read_ledger
from assetsync.sandbox import Sandbox, SandboxSettings
from tests.forks import call

from .killed import POINTS

FOLDER = "0A1B2C3D"
KEY = "crash-key"
SIZES = (3, 800, 300_000, 2_000_000, 9_000_000)
DYING = "from tests.faults.killed import POINTS, Killer\nPOINTS[{!r}](Killer({}))"


def make_site(folder: Path, sandbox: Sandbox) -> tuple[Path, collections.Counter[str]]:
    """Make files of which one is equal to another, and a configuration; gives the digests that are to be stored."""
    rng = random.Random(20261121)
    digests: collections.Counter[str] = collections.Counter()
    for number, size in enumerate((*SIZES, 0)):
        data = rng.randbytes(size) if size else b"equal"
        path = folder / "tree" / f"part{number % 2}" / f"file{number // 2}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digests[hashlib.md5(data).hexdigest().upper()] += 1
    for name in ("x.bin", "y.bin"):
        (folder / "tree" / name).write_bytes(b"two are equal")
        digests[hashlib.md5(b"two are equal").hexdigest().upper()] += 1
    key = folder / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    config = folder / "site.yaml"
    config.write_text(
        f"""
site: crash
root: {folder}/tree
ledger: {folder}/crash.db
service:
  {{base_url: "{sandbox.base_url}", upload_url: "{sandbox.upload_url}", api_key_file: {key}, read_timeout: 5s}}
folders: [{{path: ., destfolderid: "{FOLDER}"}}]
watch: {{settle: 0s}}
upload: {{doubt_grace: 2s, lookup_lag: 0s, workers: 2}}
schedule: {{index: off}}
"""
    )
    return config, digests


def die_at(point: str, number: int, config: Path) -> int:
    broken = DYING.format(point, number)
    return call(["reconcile", "--quiet", "--config", str(config)], broken=broken, timeout=120).returncode


PASSES = {"in_the_body": (1, 2), "before_a_doubt_ends": (1,), "after_a_doubt_ended": (1,)}
CASES = [(point, number) for point in POINTS for number in PASSES.get(point, (1, 3))]


@pytest.mark.parametrize(("point", "number"), CASES, ids=[f"{point}-{number}" for point, number in CASES])
def test_kill_here_loses_and_repeats_nothing(tmp_path, request, point, number):
    """Kill the process at the named point and run again: each content is stored once, and cuts are listed."""
    if number > 1 and not request.config.getoption("--long"):
        pytest.skip("killed at the first pass only, without --long")
    with Sandbox(SandboxSettings(dialect="observed", api_key=KEY, folders={FOLDER: "crash"})) as sandbox:
        config, digests = make_site(tmp_path, sandbox)
        if point.endswith(("doubt_ends", "doubt_ended")):
            assert die_at("after_the_last_byte", 1, config) == -signal.SIGKILL
        died = die_at(point, number, config)
        assert died == -signal.SIGKILL, "the point was not reached"
        # An upload counts as having lasted until this start. Its grace is five times that: a minute on a busy machine.
        last = call(["reconcile", "--json", "--config", str(config)], timeout=400)
        with closing(read_ledger(tmp_path / "crash.db")) as ledger:
            orphans = {finding.assetid for finding in ledger.reports.orphans(time.time())}
        assets = sandbox.assets()
    said = f"{last.stdout} {last.stderr[-2000:]}"
    assert last.returncode == 0, said
    assert json.loads(last.stdout)["in_sync"], said
    whole = collections.Counter(asset.md5 for asset in assets if asset.md5 in digests)
    assert whole == digests, said
    # A cut leaves a damaged asset, and that is listed.
    damaged = {asset.id for asset in assets if asset.md5 not in digests}
    assert orphans == damaged
