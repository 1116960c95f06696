"""A tree that is seen for the first time: scanned, settled and queued, beside find and a bare bulk insert."""

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from assetsync.app import build
from assetsync.clock import SystemClock
from assetsync.config import load_config
from assetsync.ledger.ledger import open_ledger
from assetsync.parts import make_service

from .frame import Bench, Table, alternately, beside, call, command
from .material import make_files, write_config


def first_scan(config: str) -> dict[str, float]:
    """Scan a tree into a new ledger; the time is that of the scan alone, to the last commit."""
    from pydantic import SecretStr

    site_config = load_config(Path(config), os.environ)
    for ending in ("", "-wal", "-shm", ".epoch"):
        site_config.ledger.with_name(site_config.ledger.name + ending).unlink(missing_ok=True)
    with closing(open_ledger(site_config.ledger)) as ledger:
        service = make_service(site_config, SecretStr("benchmark-key"))
        site = build(site_config, ledger, service, SystemClock(), random.Random(1))
        started, spent = time.perf_counter(), time.process_time()
        result = site.rescan.run()
        figures = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - spent}
        service.close()
    return {**figures, "queued": result.to_send}


def bare_insert(path: str, count: int) -> dict[str, float]:
    """Insert so many rows into a table with one index, in one transaction: what SQLite costs in any case."""
    Path(path).unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("CREATE TABLE f (id INTEGER PRIMARY KEY, path BLOB, size, mtime, ctime, inode)")
        conn.execute("CREATE UNIQUE INDEX f_path ON f (path)")
        conn.execute("BEGIN")
        rows = ((b"folder-%05d/IMG_%05d.jpg" % (n // 100, n % 100), n, n, n, n) for n in range(count))
        conn.executemany("INSERT INTO f (path, size, mtime, ctime, inode) VALUES (?, ?, ?, ?, ?)", rows)
        conn.execute("COMMIT")
    return {"queued": count}


def run(bench: Bench) -> list[Table]:
    count = bench.size(100_000, 200)
    tables = []
    kinds = (("new files", False), ("new files, all of them empty", True))
    for what, empty in kinds[:1] if bench.small else kinds:
        base = bench.scratch / ("empty" if empty else "full")
        base.mkdir(exist_ok=True)
        make_files(base / "tree", count, empty=empty)
        config = write_config(base, base / "tree", more="watch: {settle: 0s}\n")
        peers = {
            "find": lambda base=base: command("find", base / "tree", "-printf", r"%p %s %T@ %i\n"),
            "bare insert": lambda base=base: call("first_sight:bare_insert", str(base / "bare.db"), count),
            "assetsync": lambda config=config: call("first_sight:first_scan", str(config)),
        }
        runs = alternately(peers, 1 if bench.small else 3)
        tables.append(beside(f"First sight of {count:,} {what}", runs, "bare insert", said=["queued"]))
    return tables
