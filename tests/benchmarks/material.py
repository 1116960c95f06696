"""Trees, ledgers and configurations of any size for benchmarks, made in bulk; nothing is measured here."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from assetsync.config import SiteConfig, load_config
from assetsync.ledger.file.facts import OUTLINE
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.ledger import open_ledger
from assetsync.parts import make_plan, make_tree
from assetsync.tree.scan import scan
from assetsync.tree.scan_report import ScanReport

WRITTEN_AT = 1_700_000_000
PER_FOLDER = 100


def make_files(root: Path, count: int, *, per_folder: int = PER_FOLDER, empty: bool = False) -> None:
    """Make so many small files of varied size, with the same names, contents and times in each tree of that count.

    Where the tree is there already, whole, nothing is done.
    """
    made = root.with_name(root.name + ".made")
    if made.exists():
        return
    folders = max(1, count // per_folder)
    groups = [range(start, min(start + 100, folders)) for start in range(0, folders, 100)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(_make_group, root, per_folder, empty), groups))
    made.touch()


def _make_group(root: Path, per_folder: int, empty: bool, folders: range) -> None:
    for folder in folders:
        path = root / f"g{folder // 100:03}" / f"folder-{folder:05}"
        path.mkdir(parents=True)
        fd = os.open(path, os.O_RDONLY)
        for number in range(per_folder):
            name = f"IMG_{folder * 7 % 9973:04}-{number:05}.jpg"
            # Holes and not bytes, as in a sparse file: the disk is not what is measured.
            out = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
            os.ftruncate(out, 0 if empty else 1 + (folder * 31 + number * 7919) % 40_000)
            os.close(out)
            moment = WRITTEN_AT + folder * 1000 + number
            os.utime(name, (moment, moment), dir_fd=fd)
        os.close(fd)


def write_config(base: Path, root: Path, *, more: str = "") -> Path:
    """Write a site that maps the whole of `root` and whose ledger is `base/site.db`; no service answers there."""
    config = base / "site.yaml"
    config.write_text(
        f"site: bench\nroot: {root}\nledger: {base}/site.db\n"
        'service: {base_url: "http://127.0.0.1:9/dam", upload_url: "http://127.0.0.1:9/dam"}\n'
        f'folders: [{{path: ., destfolderid: "F"}}]\nstatus: {{listen: null}}\n{more}'
    )
    return config


def fill_ledger(config: Path) -> SiteConfig:
    """Write the whole tree of a site into its ledger as verified, as if it had been uploaded."""
    site = load_config(config, os.environ)
    if site.ledger.exists():
        return site
    ledger = open_ledger(site.ledger)
    seen = scan(make_tree(site), make_plan(site), ScanReport())
    rows = ((s.path, s.size, s.mtime_ns, s.ctime_ns, s.inode, f"A{number:032}") for number, s in enumerate(seen))
    ledger.store.write(lambda conn: _insert(conn, rows))
    ledger.set_fact("queue_was_empty", "1")
    ledger.set_fact(OUTLINE, site.outline_record)
    ledger.close()
    return site


def _insert(conn: Handle, rows: Iterator[tuple[object, ...]]) -> None:
    conn.execute_each(
        "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, md5, state, folded_name, assetid,"
        " id_from, asset_folder, filetype, meta_digest, attempts, queued_at, uploaded_at, verified_at)"
        " VALUES (?1, 'F', ?2, ?3, ?4, ?5, printf('%032X', ?2 * 7919), 'verified', 'a name of a file.jpg',"
        " ?6, 'answer', 'F', 'img', printf('%032x', 7), 1, 1, 1, 1)",
        rows,
    )
    conn.execute(
        "INSERT INTO assets (assetid, why, shown_at, findable_at)"
        " SELECT assetid, 'owned', 1, 1 FROM files ORDER BY assetid"
    )
