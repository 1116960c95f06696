"""Watching very many folders, beside watchdog alone, and what a burst of events does to latency and memory.

Needs `fs.inotify.max_user_watches` above the number of folders.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

from assetsync.sync.intake.watch_queue import WatchQueue
from assetsync.tree.watch import Watcher, coverage

from .frame import Bench, Table, alternately, beside, call

LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")


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
    """Write so many files as fast as they can be written, while hints are taken one by one as the daemon does."""
    hints, lost = WatchQueue(), []
    waits: list[float] = []
    longest = 0
    done = threading.Event()
    with tempfile.TemporaryDirectory() as canary:
        watcher = Watcher(root.encode(), [b""], canary.encode(), hint=hints.add, lost=lost.append)
        watcher.start(time.monotonic())

        def write() -> None:
            for number in range(count):
                name = f"{root}/burst/{number:06}"
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600))
            done.set()

        os.makedirs(f"{root}/burst", exist_ok=True)
        time.sleep(0.5)
        seen: set[bytes] = set()
        started = time.perf_counter()
        threading.Thread(target=write).start()
        quiet_since = time.perf_counter()
        while not done.is_set() or time.perf_counter() - quiet_since < 3:
            longest = max(longest, len(hints))
            taken = hints.take(0.2)
            now = time.time()
            for path in taken:
                quiet_since = time.perf_counter()
                if path.startswith(b"burst/") and path not in seen:
                    seen.add(path)
                    waits.append(now - os.stat(f"{root}/{os.fsdecode(path)}").st_mtime)
        seconds = quiet_since - started
        watcher.stop()
    waits.sort()
    said = {"hinted": len(seen), "longest queue": longest, "p95 ms": waits[int(len(waits) * 0.95)] * 1000}
    return {"seconds": seconds, **said, "overflows": len(lost)}


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
    after = {"assetsync": [call("watching:burst", str(small), events)]}
    figures = ["hinted", "longest queue", "p95 ms", "overflows"]
    return [
        beside(f"{count:,} folders watched", runs, "watchdog alone", said=["watched"]),
        beside(f"A burst of {events:,} files", after, "assetsync", said=figures),
    ]
