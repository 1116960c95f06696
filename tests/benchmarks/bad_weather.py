"""A service that fails for some uploads, at 10 uploads a second: the share of the rate without faults that is kept.

The configuration is the default; the sandbox takes 0.4 s for each upload, by each of 4 workers, and answers the failing
ones with 500 without storing them. `ASSETSYNC_BESIDE` names the `assetsync` of another installation (or of the virtual
environment of another checkout), which is measured in the same way.
"""

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.frame import Bench, Table
from tests.benchmarks.serving import KEY, PROGRAM

_LATENCY = 0.4
_FOLDERS = 200
_FAILING = 20
_RUNS = 6


class Weather(NamedTuple):
    """A program to be measured, where its tree goes, and the faults of its service as the sandbox takes them."""

    program: str
    base: Path
    faults: list[dict[str, object]]


class Found(NamedTuple):
    """When each asset was stored (seconds after the first), in which folder; how many files are verified.

    `took` is when all were verified, None if they were not by the end.
    """

    stored: list[tuple[float, str]]
    verified: int
    doubled: int
    took: float | None

    def by(self, seconds: float, folders: Callable[[str], bool] = lambda _folder: True) -> int:
        return sum(at <= seconds and folders(folder) for at, folder in self.stored)


class _Service:
    """A sandbox as a process; any id is a folder of it."""

    def __init__(self, said: dict[str, str]) -> None:
        self.urls = f'base_url: "{said["base_url"]}", upload_url: "{said["upload_url"]}"'
        self._address = said["address"].rstrip("/")

    def set_faults(self, faults: list[dict[str, object]]) -> None:
        given = json.dumps({"faults": faults}).encode()
        request = urllib.request.Request(
            f"{self._address}/_sandbox/faults", given, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).close()

    def requests(self) -> dict[str, int]:
        """Return the number of requests for each operation."""
        with urllib.request.urlopen(f"{self._address}/_sandbox/log") as answer:
            return json.loads(answer.read())

    def assets(self) -> list[dict[str, object]]:
        with urllib.request.urlopen(f"{self._address}/_sandbox/assets") as answer:
            return json.loads(answer.read())


@contextmanager
def serving_sandbox(data: Path) -> Iterator[_Service]:
    argv = [
        PROGRAM,
        "sandbox",
        "--dialect",
        "observed",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--auto-folders",
        "--dir",
        str(data),
    ]
    process = subprocess.Popen([*argv, "--key", KEY["ASSETSYNC_API_KEY"]], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield _Service(json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _site(base: Path, service: _Service, folders: int, files: int) -> Path:
    """Make a tree with so many files in each folder, and the configuration of its site."""
    for folder in range(folders):
        (base / "tree" / f"{folder:03}").mkdir(parents=True)
        for number in range(files):
            path = base / "tree" / f"{folder:03}" / f"{folder:03}-{number:04}.bin"
            path.write_bytes(os.urandom(2000 + folder + number))
    mapped = ", ".join(f'{{path: "{folder:03}", destfolderid: "{_id(folder)}"}}' for folder in range(folders))
    config = base / "site.yaml"
    config.write_text(
        f"site: weather\nroot: {base}/tree\nledger: {base}/site.db\nservice: {{{service.urls}}}\n"
        f"folders: [{mapped}]\nstatus: {{listen: null}}\n"
    )
    return config


def _id(folder: int) -> str:
    return f"F{folder:03}"


def _verified(program: str, config: Path) -> int:
    argv = [program, "status", "--json", "--config", str(config)]
    said = subprocess.run(argv, stdout=subprocess.PIPE, env={**os.environ, **KEY}, check=False).stdout
    return json.loads(said)["verified"]


def by_daemon(weather: Weather, folders: int, files: int, ends: Callable[[int, float], bool]) -> Found:
    """Run a daemon until all files are verified, or `ends` is true of the number of assets and the seconds since then.

    The seconds count from the first asset.
    """
    with serving_sandbox(weather.base / "service") as service:
        config = _site(weather.base, service, folders, files)
        service.set_faults([{"kind": "latency", "operation": "upload", "seconds": _LATENCY}, *weather.faults])
        argv = [weather.program, "run", "--config", str(config)]
        with (weather.base / "log").open("wb") as log:
            daemon = subprocess.Popen(argv, stderr=log, env={**os.environ, **KEY})
        took = None
        try:
            while not (assets := service.assets()):
                assert daemon.poll() is None, (weather.base / "log").read_text()[-2000:]
                time.sleep(0.2)
            first = min(float(str(asset["stored_at"])) for asset in assets)
            while not ends(len(assets), time.time() - first):
                time.sleep(1)
                assets = service.assets()
                if len(assets) >= folders * files and _verified(weather.program, config) == folders * files:
                    took = time.time() - first
                    break
        finally:
            daemon.terminate()
            daemon.wait()
        times = [(float(str(asset["stored_at"])) - first, str(asset["folder_id"])) for asset in service.assets()]
        doubled = sum(count - 1 for count in Counter(str(a["filename"]) for a in service.assets()).values())
        return Found(times, _verified(weather.program, config), doubled, took)


def _both(
    weather: Weather, folders: int, files: int, ends: Callable[[int, float], bool], aim: int
) -> tuple[Found, Found]:
    """Run without and with faults at the same time; both rates are those of the service.

    The run without faults ends with its files, the other one not before it had that time, and then by `ends`.
    """
    done = threading.Event()
    calm = weather._replace(base=weather.base / "calm", faults=[])
    rough = weather._replace(base=weather.base / "rough")
    for each in (calm, rough):
        each.base.mkdir(parents=True)

    def without() -> Found:
        try:
            return by_daemon(calm, folders, files, lambda stored, _seconds: stored >= aim)
        finally:
            done.set()

    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(without)
        found = by_daemon(rough, folders, files, lambda stored, seconds: done.is_set() and ends(stored, seconds))
        return other.result(), found


def each_fifth(bench: Bench, programs: dict[str, str]) -> Table:
    files, longest = bench.size(1200, 40), bench.size(1800, 4)
    rows = []
    for name, program in programs.items():
        fault = {"kind": "status", "operation": "upload", "status": 500, "every": 5}
        weather = Weather(program, bench.scratch / f"fifth-{len(rows)}", [fault])
        calm, rough = _both(weather, 1, files, lambda _stored, seconds: seconds > longest, files)
        whole = max(at for at, _ in calm.stored)
        took = "not all" if rough.took is None else f"{rough.took:.0f} s"
        by_then = rough.by(whole)
        row = [name, f"{files / whole:.1f}/s", f"{by_then / whole:.1f}/s", f"{by_then / files:.0%}"]
        rows.append([*row, f"{rough.verified} of {files}", took, str(rough.doubled)])
    columns = ["what", "without faults", "with faults", "share", "verified", "all verified after", "doubled"]
    note = f"The share is what was stored with faults when all {files:,} files were stored without."
    return Table("Every fifth upload answered by 500", columns, rows, [note])


def failing_folders(bench: Bench, programs: dict[str, str]) -> Table:
    folders, failing = bench.size(_FOLDERS, 10), bench.size(_FAILING, 1)
    files = bench.size(5, 3)
    bad = {_id(number * folders // failing) for number in range(failing)}
    others = (folders - failing) * files
    faults = [{"kind": "status", "operation": "upload", "status": 500, "folder": folder} for folder in sorted(bad)]
    rows = []
    for name, program in programs.items():
        weather = Weather(program, bench.scratch / f"folders-{len(rows)}", [*faults])
        calm, rough = _both(weather, folders, files, lambda _stored, _seconds: True, folders * files)
        whole = max(at for at, folder in calm.stored if folder not in bad)
        by_then = rough.by(whole, lambda folder: folder not in bad)
        rows.append([name, f"{others / whole:.1f}/s", f"{by_then / whole:.1f}/s", f"{by_then / others:.0%}"])
    columns = ["what", "the others without faults", "with faults", "share"]
    return Table(f"{failing} of {folders} folders answered by 500", columns, rows)


def short_runs(bench: Bench, programs: dict[str, str]) -> Table:
    files, wait, runs = bench.size(120, 12), bench.size(20, 1), bench.size(_RUNS, 2)
    rows = []
    for name, program in programs.items():
        base = bench.scratch / f"runs-{len(rows)}"
        base.mkdir()
        with serving_sandbox(base / "service") as service:
            config = _site(base, service, 1, files)
            service.set_faults([{"kind": "status", "operation": "upload", "status": 500, "every": 5}])
            row = [name]
            for _ in range(runs):
                argv = [program, "reconcile", "--quiet", "--wait", f"{wait}s", "--config", str(config)]
                with (base / "log").open("ab") as log:
                    subprocess.run(argv, stdout=log, stderr=log, env={**os.environ, **KEY}, check=False)
                row.append(f"{_verified(program, config)}")
            doubled = len(service.assets()) - len({str(asset["filename"]) for asset in service.assets()})
        rows.append([*row, f"{int(row[-1]) / files:.0%}", str(doubled)])
    columns = ["verified after run", *map(str, range(1, runs + 1)), "share", "doubled"]
    return Table(f"reconcile --wait {wait}s, {files} files, every fifth upload answered by 500", columns, rows)


def run(bench: Bench) -> list[Table]:
    programs = {"assetsync": PROGRAM}
    if "ASSETSYNC_BESIDE" in os.environ:
        programs["beside it"] = os.environ["ASSETSYNC_BESIDE"]
    return [each_fifth(bench, programs), failing_folders(bench, programs), short_runs(bench, programs)]
