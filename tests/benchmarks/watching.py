"""Watching very many folders, beside watchdog alone, and what a burst of events does to latency and memory.

Needs `fs.inotify.max_user_watches` above the number of folders.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assetsync.sync.intake.watch_queue import WatchQueue
from assetsync.tree.watch import Watcher, coverage

from .frame import Bench, Table, alternately, beside, call

LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
RATE = 5_000
WRITE = """
import os, sys, time
folder, count, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
started = time.perf_counter()
for number in range(count):
    os.close(os.open(f"{folder}/{number:06}", os.O_WRONLY | os.O_CREAT, 0o600))
    time.sleep(max(0, started + number / rate - time.perf_counter()))
"""
"""A program of its own, so that what writing costs counts for nobody; some file systems take 0.5 ms for a file."""


def make_folders(root: Path, count: int) -> None:
    for number in range(count):
        (root / f"g{number // 1000:03}" / f"folder-{number:06}").mkdir(parents=True, exist_ok=True)


def watchdog_alone(root: str) -> dict[str, float]:
    from watchdog.events import FileClosedEvent, FileSystemEventHandler
    from watchdog.observers.inotify import InotifyObserver

    observer = InotifyObserver()
    observer.start()
    started, spent = time.perf_counter(), time.process_time()
    observer.schedule(FileSystemEventHandler(), root, recursive=True, event_filter=[FileClosedEvent])
    figures = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - spent}
    figures["watched"] = coverage().watched
    observer.stop()
    observer.join()
    return figures


def watch(root: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as canary:
        watcher = Watcher(root.encode(), [b""], canary.encode(), hint=lambda _path: None, lost=print)
        started, spent = time.perf_counter(), time.process_time()
        watcher.start(time.monotonic())
        figures = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - spent}
        figures["watched"] = coverage().watched
        watcher.stop()
    return figures


def burst(root: str, count: int) -> dict[str, float]:
    """Let another process write so many files, `RATE` a second, while hints are taken one by one as the daemon does."""
    hints, lost = WatchQueue(), []
    waits: list[float] = []
    longest = 0
    with tempfile.TemporaryDirectory() as canary:
        watcher = Watcher(root.encode(), [b""], canary.encode(), hint=hints.add, lost=lost.append)
        watcher.start(time.monotonic())
        folder = tempfile.mkdtemp(dir=root)
        time.sleep(0.5)
        seen: set[bytes] = set()
        started, spent = time.perf_counter(), time.process_time()
        writer = subprocess.Popen([sys.executable, "-c", WRITE, folder, str(count), str(RATE)])
        quiet_since = time.perf_counter()
        while writer.poll() is None or time.perf_counter() - quiet_since < 3:
            longest = max(longest, len(hints))
            taken = hints.take(0.2)
            now = time.time()
            for path in taken:
                quiet_since = time.perf_counter()
                if path not in seen:
                    seen.add(path)
                    waits.append(now - os.stat(f"{root}/{os.fsdecode(path)}").st_mtime)
        seconds, cpu = quiet_since - started, time.process_time() - spent
        watcher.stop()
    waits.sort()
    said = {"hinted": len(seen), "longest queue": longest, "p95 ms": waits[int(len(waits) * 0.95)] * 1000}
    return {"seconds": seconds, "cpu": cpu, **said, "overflows": len(lost)}


def run(bench: Bench) -> list[Table]:
    count, events = bench.size(100_000, 500), bench.size(50_000, 500)
    if int(LIMIT.read_text()) < count + 10_000:
        return [Table("Watching", ["left out"], [[f"sysctl fs.inotify.max_user_watches={count * 2} would allow it"]])]
    root = bench.scratch / "tree"
    make_folders(root, count)
    peers = {
        "watchdog alone": lambda: call("watching:watchdog_alone", str(root)),
        "assetsync": lambda: call("watching:watch", str(root)),
    }
    runs = alternately(peers, 1 if bench.small else 3)
    small = bench.scratch / "small"
    make_folders(small, 100)
    after = alternately({"assetsync": lambda: call("watching:burst", str(small), events)}, 1 if bench.small else 3)
    figures = ["hinted", "longest queue", "p95 ms", "overflows"]
    return [
        beside(f"{count:,} folders watched", runs, "watchdog alone", said=["watched"]),
        beside(f"A burst of {events:,} files", after, "assetsync", said=figures),
    ]
