"""What an idle daemon costs in CPU time and memory, after its first scan.

Makes a tree, writes it into the ledger as verified and starts `assetsync run`. No file is sent, so that no service is
needed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from assetsync.ledger.ledger import open_ledger

from .frame import Bench, Table


def make_site(base: Path, count: int) -> Path:
    tree = base / "tree"
    for number in range(count // 100):
        (tree / f"d{number:05}").mkdir(parents=True)
        for file in range(100):
            (tree / f"d{number:05}" / f"f{file:03}.jpg").write_bytes(b"%d %d" % (number, file))
    config = base / "site.yaml"
    config.write_text(
        f"site: idle\nroot: {tree}\nledger: {base}/idle.db\n"
        'service: {base_url: "http://127.0.0.1:9/dam", upload_url: "http://127.0.0.1:9/dam"}\n'
        'folders: [{path: ., destfolderid: "F"}]\n'
    )
    ledger = open_ledger(base / "idle.db")
    rows = []
    for folder in sorted(tree.iterdir()):
        for file in sorted(folder.iterdir()):
            s = file.stat()
            path = os.fsencode(file.relative_to(tree))
            rows.append((path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, f"A{len(rows)}"))
    ledger.store.write(
        lambda conn: conn.execute_each(
            "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, state, folded_name, assetid,"
            " asset_folder, queued_at, verified_at) VALUES (?, 'F', ?, ?, ?, ?, 'verified', '', ?, 'F', 1, 1)",
            rows,
        )
    )
    ledger.close()
    return config


def cpu_and_memory(pid: int) -> tuple[float, int]:
    """Give CPU seconds and resident KiB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024


def run(bench: Bench) -> list[Table]:
    count, seconds = bench.size(100_000, 1_000), bench.size(60, 2)
    config = make_site(bench.scratch, count)
    log = bench.scratch / "log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "assetsync", "run", "--config", str(config)],
            stderr=out,
            env={**os.environ, "ASSETSYNC_API_KEY": "benchmark-key"},
        )
    try:
        while '"scanned"' not in log.read_text():
            assert daemon.poll() is None, log.read_text()
            time.sleep(0.1)
        time.sleep(2)
        before, _ = cpu_and_memory(daemon.pid)
        time.sleep(seconds)
        after, resident = cpu_and_memory(daemon.pid)
    finally:
        daemon.terminate()
        daemon.wait()
    spent = after - before
    row = [f"{count:,}", f"{seconds}", f"{spent:.2f}", f"{spent / seconds:.2%}", f"{resident / 1024:.0f}"]
    return [Table("An idle daemon", ["files", "seconds", "CPU s", "of a core", "resident MiB"], [row])]
