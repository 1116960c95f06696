"""Uploads of 8 KiB files to nginx, the whole program beside plain clients: time, CPU, commits and searches a file.

The whole program is `assetsync reconcile`: start, scan, digests, the ledger with each intent and outcome on the disk,
the POSTs and reading every asset back. The others read each file and post it, and no more (`loops.py`, and curl, whose
list of files is made before it is measured). All are whole commands; what a command costs with one file is its start.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.benchmarks.frame import Bench, Run, Table, alternately, best, command
from tests.benchmarks.loops import FIELDS, files_of
from tests.benchmarks.serving import KEY, Serving, write_config
from tests.benchmarks.sink import sink

SIZE = 8192
_HERE = Path(__file__).parent
_WORKERS = (4, 16)
_COLUMNS = (
    *("what", "seconds", "x as fast", "files/s", "x from first to last POST", "CPU ms a file", "without its start"),
    *("peak MiB", "commits a file", "searches a file"),
)


def make_files(root: Path, count: int, size: int = SIZE) -> None:
    for number in range(count):
        if number % 500 == 0:
            folder = root / f"d{number // 500:05}"
            folder.mkdir(parents=True)
        (folder / f"f{number:07}.bin").write_bytes(os.urandom(size))


def by_loop(name: str, root: Path) -> Run:
    with sink() as service:
        run = command(sys.executable, "-P", _HERE / "loops.py", name, service.upload_url, root)
        return told(run, service, len(files_of(root)))


def by_curl(scratch: Path, parallel: int, root: Path) -> Run:
    with sink() as service:
        config = scratch / "curl"
        form = "".join(f'form = "{field}={value}"\n' for field, value in FIELDS.items())
        uploads = (f'url = "{service.upload_url}"\n{form}form = "filedata=@{path}"\n' for path in files_of(root))
        config.write_text("next\n".join(uploads))
        run = command("curl", "-q", "--silent", "--parallel", "--parallel-max", str(parallel), "--config", config)
        return told(run, service, len(files_of(root)))


def by_assetsync(
    scratch: Path, root: Path, *, workers: int = 4, delay: float = 0.0, lag: float = 0.0, wait: str = "5m"
) -> Run:
    """Run `assetsync reconcile`; `wait` 0s ends it after the uploads, when not all need be read back."""
    with sink(delay=delay, lag=lag) as service:
        base = scratch / f"site-{os.urandom(4).hex()}"
        base.mkdir()
        config, counts = write_config(base, root, service, workers=workers), base / "counts"
        argv = (sys.executable, "-P", _HERE / "counted.py", counts, "reconcile", "--quiet", "--wait", wait)
        run = command(*argv, "--config", config, env=KEY, ok=(0, 1) if wait == "0s" else (0,))
        run = replace(run, said=json.loads(counts.read_text()))
        return told(run, service, len(files_of(root)))


def told(run: Run, service: Serving, count: int) -> Run:
    """Add what the service counted; raise RuntimeError unless it received each file once."""
    counted = service.counted()
    if counted["uploads"] != count:
        raise RuntimeError(f"{counted['uploads']} uploads of {count} files")
    posting = counted["last"] - counted["first"]
    rate = (count - 1) / posting if posting else 0.0
    return replace(run, said={**run.said, **counted, "POSTs/s": rate})


def run(bench: Bench) -> list[Table]:
    root, one = bench.scratch / "tree", bench.scratch / "one"
    make_files(root, bench.size(10_000, 300))
    make_files(one, 1)
    clients: dict[str, Callable[[Path], Run]] = {
        "plain httpx loop": partial(by_loop, "httpx"),
        "http.client loop": partial(by_loop, "http.client"),
    }
    notes = []
    if shutil.which("curl") is None:
        notes.append("curl is not installed, and left out: apt-get install curl")
    else:
        clients |= {f"curl, {many} parallel": partial(by_curl, bench.scratch, many) for many in _WORKERS}
    for many in _WORKERS:
        clients[f"assetsync, {many} workers"] = partial(by_assetsync, bench.scratch, workers=many)
    starts = {name: client(one) for name, client in clients.items()}
    runs = alternately({name: partial(client, root) for name, client in clients.items()}, bench.size(3, 1))
    loop = best(runs["plain httpx loop"])
    rows = [_row(name, of, starts[name], loop) for name, of in runs.items()]
    notes.append("x: compared with the plain httpx loop. Each row is the shortest of its runs.")
    return [Table("8 KiB uploads to nginx", _COLUMNS, rows, notes)]


def _row(name: str, runs: Sequence[Run], start: Run, loop: Run) -> list[str]:
    run = best(runs)
    said, count = run.said, run.said["uploads"]
    return [
        name,
        f"{run.seconds:.2f}",
        f"{loop.seconds / run.seconds:.2f}",
        f"{count / run.seconds:,.0f}",
        f"{said['POSTs/s'] / loop.said['POSTs/s']:.2f}",
        f"{1000 * run.cpu / count:.2f}",
        f"{1000 * (run.cpu - start.cpu) / (count - 1):.2f}",
        f"{max(each.rss for each in runs):.0f}",
        f"{said['commits'] / count:.3f}" if "commits" in said else "",
        f"{said['searches'] / count:.3f}" if said["searches"] else "",
    ]
