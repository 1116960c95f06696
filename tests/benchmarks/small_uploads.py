"""Uploads of 8 KiB files, the whole program beside a plain loop of `httpx.Client.post(data=, files=)`.

The whole program is `assetsync reconcile` in a process of its own: start, scan, digests, the ledger with each intent
and outcome on the disk, the POSTs and reading every asset back. The loop reads each file and posts it, and no more.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.benchmarks.frame import Bench, Run, Table, alternately, beside, best, call, command
from tests.benchmarks.serving import FOLDER, KEY, PROGRAM, serving, write_config

SIZE = 8192
_WORKERS = (4, 16)


def make_files(root: Path, count: int, size: int = SIZE) -> None:
    for number in range(count):
        if number % 500 == 0:
            folder = root / f"d{number // 500:05}"
            folder.mkdir(parents=True)
        (folder / f"f{number:07}.bin").write_bytes(os.urandom(size))


def plain_loop(url: str, root: str) -> None:
    import httpx

    files = sorted(Path(root).rglob("*.bin"))
    fields = {"fa": "c.apiupload", "api_key": KEY["ASSETSYNC_API_KEY"], "destfolderid": FOLDER, "zip_extract": "0"}
    with httpx.Client() as client:
        for path in files:
            with path.open("rb") as file:
                answer = client.post(url, data=fields, files={"filedata": (path.name, file)})
            assert b"<responsecode>0<" in answer.content


def by_loop(root: Path) -> Run:
    with serving() as peer:
        run = call("small_uploads:plain_loop", peer.upload_url, str(root))
        return told(run, peer.counted())


def by_assetsync(scratch: Path, root: Path, *, workers: int = 4, delay: float = 0.0) -> Run:
    with serving(delay=delay) as peer:
        base = scratch / f"site-{os.urandom(4).hex()}"
        base.mkdir()
        config = write_config(base, root, peer, workers=workers)
        run = command(PROGRAM, "reconcile", "--quiet", "--config", config, env=KEY)
        return told(run, peer.counted())


def told(run: Run, counted: dict[str, float]) -> Run:
    posting = counted["last"] - counted["first"]
    said = {"files/s": counted["uploads"] / run.seconds, "POSTs/s": (counted["uploads"] - 1) / posting}
    return replace(run, said={**said, **{name: counted[name] for name in ("uploads", "searches", "connections")}})


def run(bench: Bench) -> list[Table]:
    root = bench.scratch / "tree"
    make_files(root, bench.size(10_000, 300))
    peers: dict[str, Callable[[], Run]] = {"plain httpx loop": lambda: by_loop(root)}
    for workers in _WORKERS:
        peers[f"assetsync, {workers} workers"] = partial(by_assetsync, bench.scratch, root, workers=workers)
    runs = alternately(peers, bench.size(3, 1))
    loop = best(runs["plain httpx loop"])
    notes = []
    for name in list(peers)[1:]:
        ours = best(runs[name])
        whole, sending = loop.seconds / ours.seconds, ours.said["POSTs/s"] / loop.said["POSTs/s"]
        notes.append(f"{name}: {whole:.2f} x as fast in all, {sending:.2f} x from the first POST to the last.")
    said = ("files/s", "POSTs/s", "uploads", "searches", "connections")
    return [beside("8 KiB uploads", runs, "plain httpx loop", said, notes)]
