"""How long commands take to start, beside Python itself."""

import sys

from .frame import Bench, Table, alternately, beside, command
from .reconcile import assetsync, make_site


def run(bench: Bench) -> list[Table]:
    _, config = make_site(bench.scratch / "site", bench.size(10_000, 200))
    peers = {
        "python -c pass": lambda: command(sys.executable, "-c", "pass"),
        "assetsync --version": lambda: assetsync("--version"),
        "assetsync status": lambda: assetsync("status", "--config", config),
        "assetsync files": lambda: assetsync("files", "--state", "queued", "--config", config),
        "assetsync reconcile --dry-run": lambda: assetsync("reconcile", "--dry-run", "--config", config),
    }
    return [beside("Start", alternately(peers, 2 if bench.small else 10), "python -c pass")]
