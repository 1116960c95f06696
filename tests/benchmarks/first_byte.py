"""From settled to the first byte at the service, in the daemon: the 95th of a hundred files, in milliseconds.

A file is settled `watch.settle` after it was last written; the service says when its bytes came, on the same clock.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.frame import Bench, Table
from tests.benchmarks.serving import KEY, PROGRAM, Serving, serving, write_config

_SETTLE = 1.0


def run(bench: Bench) -> list[Table]:
    root = bench.scratch / "tree"
    root.mkdir()
    count = bench.size(100, 20)
    with serving() as peer:
        config = write_config(bench.scratch, root, peer, settle=f"{_SETTLE:.0f}s", more="status: {listen: null}\n")
        log = bench.scratch / "log"
        with log.open("wb") as errors:
            argv = [PROGRAM, "run", "--config", str(config)]
            daemon = subprocess.Popen(argv, stderr=errors, env={**os.environ, **KEY})
        try:
            _until(lambda: '"scanned"' in log.read_text())
            delays = sorted(_delays(root, peer, count))
        finally:
            daemon.terminate()
            daemon.wait()
    milliseconds = [f"{1000 * delay:.0f}" for delay in (statistics.median(delays), delays[count * 95 // 100 - 1])]
    columns = ["files", "median ms", "95 % ms", "longest ms"]
    return [Table("Settled to first byte", columns, [[str(count), *milliseconds, f"{1000 * delays[-1]:.0f}"]])]


def _delays(root: Path, peer: Serving, count: int) -> list[float]:
    written = {}
    for number in range(count):
        name = f"f{number:03}.bin"
        (root / name).write_bytes(os.urandom(8192))
        written[name] = time.monotonic()
        time.sleep(0.05)
    _until(lambda: len(peer.arrivals()) == count)
    return [at - written[name] - _SETTLE for name, at in peer.arrivals().items()]


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError("the daemon did not come so far within a minute")
        time.sleep(0.05)
