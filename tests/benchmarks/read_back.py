"""Verifying, auditing and listing 10,000 and 100,000 assets: calls, time and memory as they grow.

The assets are made up by the service and stand in the ledger as stored; each is read back through the index by the
hundred, then the folder is audited from one listing. The rows of a listing are timed beside `json.loads` of its bytes.
"""

import json
import os
import random
import time
from contextlib import closing
from pathlib import Path

from tests.benchmarks.frame import Bench, Run, Table, call, exponent
from tests.benchmarks.peer import MADE_UP_MD5, MADE_UP_SIZE, made_up_id
from tests.benchmarks.serving import FOLDER, KEY, Serving, serving, write_config

_STORED = (
    "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, md5, state, folded_name, assetid, id_from,"
    " asset_folder, queued_at, uploaded_at, due_at) VALUES (?, ?, ?, 1, 1, 1, ?, 'stored', ?, ?, 'answer', ?, 1, 1, 0)"
)


def fill(config: str, count: int) -> None:
    from assetsync.config import load_config
    from assetsync.ledger.ledger import open_ledger

    names = ((f"f{number:07}.bin", made_up_id(number)) for number in range(1, count + 1))
    with closing(open_ledger(load_config(Path(config), KEY).ledger)) as ledger:
        rows = ((n.encode(), FOLDER, MADE_UP_SIZE, MADE_UP_MD5, n, assetid, FOLDER) for n, assetid in names)
        ledger.store.write(lambda conn: conn.execute_each(_STORED, rows))


def verify(config: str) -> dict[str, float]:
    return _with_site(config, lambda site: sum(iter(lambda: site.verifier.step().confirmed, 0)))


def audit(config: str) -> dict[str, float]:
    return _with_site(config, lambda site: site.auditor.audit(FOLDER).fine)


def contact(config: str) -> dict[str, float]:
    """List the folder as a start does before its first POST when it cannot confirm the last clean stop."""

    def ensure(site) -> int:
        site.context.ledger.folder_listings.again(FOLDER)
        site.folder_listing.ensure(FOLDER)
        return site.context.ledger.versions.size()

    return _with_site(config, ensure)


def _with_site(config: str, work) -> dict[str, float]:
    from assetsync.app import build
    from assetsync.clock import SystemClock
    from assetsync.config import load_config, read_api_key
    from assetsync.ledger.ledger import open_ledger
    from assetsync.log import configure_logging
    from assetsync.parts import make_service

    configure_logging("json", "warning")
    site_config = load_config(Path(config), KEY)
    with (
        closing(open_ledger(site_config.ledger)) as ledger,
        closing(make_service(site_config, read_api_key(site_config, KEY))) as service,
    ):
        site = build(site_config, ledger, service, SystemClock(), random.SystemRandom())
        return {"done": float(work(site))}


def rows_beside_json(count: int) -> dict[str, float]:
    from assetsync.service.records import RecordStream
    from tests.benchmarks.peer import Peer

    listing = Peer(count).listing(FOLDER)
    chunks = [listing[at : at + 65536] for at in range(0, len(listing), 65536)]
    best = {"stream": float("inf"), "json": float("inf")}
    for _ in range(5):
        began = time.process_time()
        assert sum(1 for _ in RecordStream("application/json", chunks, ("benchmark-key",))) == count
        best["stream"] = min(best["stream"], time.process_time() - began)
        began = time.process_time()
        json.loads(listing)
        best["json"] = min(best["json"], time.process_time() - began)
    return best


def _both(scratch: Path, count: int) -> list[tuple[str, Run, float]]:
    with serving(assets=count) as peer:
        base = scratch / f"site-{os.urandom(4).hex()}"
        tree = base / "tree"
        tree.mkdir(parents=True)
        config = str(write_config(base, tree, peer))
        call("read_back:fill", config, count)
        verified, calls = _counting(peer, "read_back:verify", config)
        audited, more = _counting(peer, "read_back:audit", config)
        listed, most = _counting(peer, "read_back:contact", config)
    assert verified.said["done"] == audited.said["done"] == listed.said["done"] == count
    return [("verify", verified, calls), ("audit", audited, more), ("list before the first POST", listed, most)]


def _counting(peer: Serving, target: str, config: str) -> tuple[Run, float]:
    before = peer.counted()["searches"]
    done = call(target, config)
    return done, peer.counted()["searches"] - before


def run(bench: Bench) -> list[Table]:
    few, many = bench.size(10_000, 1000), bench.size(100_000, 5000)
    rows = []
    for (what, first, calls), (_, last, more) in zip(
        _both(bench.scratch, few), _both(bench.scratch, many), strict=True
    ):
        rows += [_row(what, few, first, calls, ""), _row(what, many, last, more, _grown(few, many, first, last))]
    columns = ["what", "assets", "calls", "assets a call", "seconds", "CPU s", "peak MiB", "exponent of CPU"]
    parsed = call("read_back:rows_beside_json", many).said
    note = f"The rows of a listing of {many:,} take {parsed['stream'] / parsed['json']:.2f} x json.loads of its bytes."
    return [Table("Reading back", columns, rows, [note])]


def _grown(few: int, many: int, first: Run, last: Run) -> str:
    return f"{exponent((few, first.cpu), (many, last.cpu)):.2f}"


def _row(what: str, count: int, done: Run, calls: float, grown: str) -> list[str]:
    figures = (f"{done.seconds:.2f}", f"{done.cpu:.2f}", f"{done.rss:.0f}")
    return [what, f"{count:,}", f"{calls:.0f}", f"{count / calls:,.0f}", *figures, grown]
