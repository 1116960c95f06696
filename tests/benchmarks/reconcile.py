"""`assetsync reconcile` with nothing to do, beside find and rclone, and how it grows with the number of files.

Find prints path, size, time and inode of every file, `rclone copy` compares the tree
with an equal one. The tree and the ledger are warm, and unchanged folders are known, as after any two scans.
"""

import sys
from pathlib import Path

from .frame import Bench, Run, Table, alternately, beside, best, command, exponent
from .material import fill_ledger, make_files, write_config

KEY = {"ASSETSYNC_API_KEY": "benchmark-key"}


def assetsync(*arguments: str | Path) -> Run:
    return command(sys.executable, "-m", "assetsync", *arguments, env=KEY)


def reconcile(config: Path) -> Run:
    return assetsync("reconcile", "--quiet", "--wait", "0s", "--config", config)


def make_site(base: Path, count: int) -> tuple[Path, Path]:
    base.mkdir(exist_ok=True)
    root = base / "tree"
    make_files(root, count)
    config = write_config(base, root)
    fill_ledger(config)
    # The scan that fills the folder cache.
    reconcile(config)
    return root, config


def look_at_all(config: Path) -> Run:
    """Compare every file, as the first scan does and one a week."""
    text = config.read_text()
    config.write_text(text + "ignore: [never]\n" if "never" not in text else text.replace("ignore: [never]\n", ""))
    return reconcile(config)


def run(bench: Bench) -> list[Table]:
    counts = [10_000, 100_000, 1_000_000] if not bench.small else [200, 1_000, 2_000]
    sites = {count: make_site(bench.scratch / str(count), count) for count in counts}
    root, config = sites[counts[-1]]
    copy = bench.scratch / "copy"
    make_files(copy, counts[-1])
    finding = ["find", root, "-printf", r"%p %s %T@ %i\n"]
    rclone = ["rclone", "copy", root, copy, "--config", "/dev/null", "-q"]
    runs = alternately(
        {
            "find": lambda: command(*finding),
            "assetsync reconcile": lambda: reconcile(config),
            "rclone copy": lambda: command(*rclone),
        },
        rounds=2 if bench.small else 4,
    )
    runs["assetsync, every file compared"] = [look_at_all(config)]
    reconcile(config)
    title = f"Reconcile with nothing to do, {counts[-1]:,} files in {counts[-1] // 100:,} folders"
    return [beside(title, runs, "find"), _growth(bench, sites)]


def _growth(bench: Bench, sites: dict[int, tuple[Path, Path]]) -> Table:
    rounds = 2 if bench.small else 3
    rows, costs = [], []
    for count, (_, config) in sites.items():
        both = {
            "reconcile": lambda config=config: reconcile(config),
            "status": lambda config=config: assetsync("status", "--config", config),
        }
        runs = alternately(both, rounds)
        size = (config.parent / "site.db").stat().st_size
        scan, status = best(runs["reconcile"]), best(runs["status"])
        costs.append((count, scan.cpu, scan.rss, float(size), status.cpu))
        said = f"{scan.seconds:.2f}", f"{scan.cpu:.2f}", f"{scan.rss:.0f}", f"{size / 1e6:.1f}"
        rows.append([f"{count:,}", *said, f"{status.seconds:.2f}", f"{status.cpu:.2f}"])
    first, last = costs[0], costs[-1]
    powers = [exponent((first[0], first[i]), (last[0], last[i])) for i in (1, 2, 3, 4)]
    scan, rss, size, status = (f"{power:.2f}" for power in powers)
    rows.append(["exponent", "", scan, rss, size, "", status])
    columns = ["files", "reconcile s", "its CPU s", "its peak MiB", "ledger MB", "status s", "its CPU s"]
    return Table("Growth", columns, rows, ["The exponent k of a cost that grows as files to the k, from CPU time."])
