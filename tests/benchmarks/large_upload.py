"""One file of 2 GB, the whole program beside `md5sum F && curl -F filedata=@F`; memory beside that for 20 MB."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.frame import Bench, Run, Table, alternately, beside, best, command
from tests.benchmarks.serving import FOLDER, KEY, PROGRAM, serving, write_config

_MB = 1_000_000


def make_file(root: Path, size: int) -> Path:
    root.mkdir()
    block = os.urandom(_MB)
    path = root / "film.mov"
    with path.open("wb") as file:
        for _ in range(size // _MB):
            file.write(block)
    return path


def by_curl(path: Path) -> Run:
    with serving() as peer:
        fields = (f"-F {name}" for name in ("fa=c.apiupload", "api_key=k", f"destfolderid={FOLDER}", "zip_extract=0"))
        script = f"md5sum {path} && curl -sS {' '.join(fields)} -F filedata=@{path} {peer.upload_url}"
        return command("sh", "-c", script)


def by_assetsync(scratch: Path, path: Path) -> Run:
    with serving() as peer:
        base = scratch / f"site-{os.urandom(4).hex()}"
        base.mkdir()
        return command(PROGRAM, "reconcile", "--quiet", "--config", write_config(base, path.parent, peer), env=KEY)


def run(bench: Bench) -> list[Table]:
    small = make_file(bench.scratch / "small", 20 * _MB)
    large = make_file(bench.scratch / "large", bench.size(2000, 100) * _MB)
    command("md5sum", large)
    peers: dict[str, Callable[[], Run]] = {
        "md5sum && curl": lambda: by_curl(large),
        "assetsync": lambda: by_assetsync(bench.scratch, large),
        "assetsync, 20 MB": lambda: by_assetsync(bench.scratch, small),
    }
    runs = alternately(peers, bench.size(3, 1))
    ratio = best(runs["md5sum && curl"]).seconds / best(runs["assetsync"]).seconds
    memory = max(r.rss for r in runs["assetsync"]) - max(r.rss for r in runs["assetsync, 20 MB"])
    notes = [f"assetsync is {ratio:.2f} x as fast as both, and takes {memory:+.1f} MiB over what 20 MB take."]
    return [beside("One file of 2 GB", runs, "md5sum && curl", notes=notes)]
