"""Doubts in a folder of 20,000 assets: what looking them up costs the daemon, and how much it asks of the service.

A new file appears every three seconds, and every fifth upload is answered by 500 and not stored. The first minute, in
which the folder is listed before the first upload, does not count. `ASSETSYNC_BESIDE` names the `assetsync` of another
installation, which is measured at the same time.
"""

import os
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assetsync.sandbox import SandboxSettings
from assetsync.sandbox.store import NewAsset, Store, new_id
from tests.benchmarks.bad_weather import serving_sandbox
from tests.benchmarks.frame import Bench, Table
from tests.benchmarks.serving import KEY, PROGRAM

_FOLDER = "F"
_EVERY = 3.0


def _fill(data: Path, count: int) -> None:
    data.mkdir(parents=True)
    store = Store(data, SandboxSettings(dialect="observed", folders={_FOLDER: "Photos"}), time.time)
    for number in range(count):
        name = f"before-{number:06}.bin"
        store.add(NewAsset(id=new_id(), folder_id=_FOLDER, filename=name, content=[name.encode()], fields={}))
    store.close()


def _cpu(process: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(base: Path, program: str, assets: int, minute: float, minutes: int) -> list[str]:
    _fill(base / "service", assets)
    tree = base / "tree"
    tree.mkdir()
    with serving_sandbox(base / "service") as service:
        service.set_faults([{"kind": "status", "operation": "upload", "status": 500, "every": 5}])
        config = base / "site.yaml"
        config.write_text(
            f"site: large\nroot: {tree}\nledger: {base}/site.db\nservice: {{{service.urls}}}\n"
            f"folders: [{{path: ., destfolderid: {_FOLDER}}}]\nstatus: {{listen: null}}\n"
        )
        with (base / "log").open("wb") as log:
            argv = [program, "run", "--config", str(config)]
            daemon = subprocess.Popen(argv, stderr=log, env={**os.environ, **KEY})
        try:
            marks, written, began = [], 0, time.monotonic()
            while len(marks) <= minutes:
                (tree / f"new-{written:05}.bin").write_bytes(os.urandom(3000 + written))
                written += 1
                if time.monotonic() - began >= minute * (len(marks) + 1):
                    marks.append((_cpu(daemon.pid), service.requests()["search"], written))
                time.sleep(max(0.0, began + written * _EVERY * minute / 60 - time.monotonic()))
        finally:
            daemon.terminate()
            daemon.wait()
        cpu, searches, files = (last - first for first, last in zip(marks[0], marks[-1], strict=True))
        stored = Counter(str(asset["filename"]) for asset in service.assets())
    return [
        f"{cpu / minutes:.1f} s",
        f"{searches / minutes:.0f}",
        f"{searches / files:.2f}",
        f"{len(stored) - assets} of {written}",
        str(sum(stored.values()) - len(stored)),
    ]


def run(bench: Bench) -> list[Table]:
    programs = {"assetsync": PROGRAM}
    if "ASSETSYNC_BESIDE" in os.environ:
        programs["beside it"] = os.environ["ASSETSYNC_BESIDE"]
    assets, minute, minutes = bench.size(20_000, 200), bench.size(60, 10), bench.size(5, 1)
    with ThreadPoolExecutor(len(programs)) as pool:
        measured = [
            pool.submit(_measure, bench.scratch / f"large-{place}", program, assets, minute, minutes)
            for place, program in enumerate(programs.values())
        ]
        rows = [[name, *found.result()] for name, found in zip(programs, measured, strict=True)]
    columns = ["what", "CPU a minute", "searches a minute", "searches a file", "stored", "doubled"]
    return [Table(f"Every fifth upload answered by 500, {assets:,} assets in the folder", columns, rows)]
