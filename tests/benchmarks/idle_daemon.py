"""What an idle daemon costs: `python tests/benchmarks/idle_daemon.py [FILES] [SECONDS]`.

Makes a tree, writes it into the ledger as verified, starts `assetsync run` and measures CPU time and resident memory
after its first scan. No file is sent, so that no service is needed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assetsync.ledger.ledger import open_ledger


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
        lambda conn: conn.executemany(
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


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        config = make_site(Path(folder), count)
        log = Path(folder) / "log"
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
        said = next(line for line in log.read_text().splitlines() if '"scanned"' in line)
        print(said)
        spent = after - before
        print(f"{count:,} files, idle for {seconds:.0f} s: {spent:.2f} s CPU, {spent / seconds:.2%} of a core")
        print(f"resident: {resident / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
