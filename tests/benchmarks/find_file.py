"""Finding a file by a part of its name: making the index of the page's search, and searching, in processor time.

Beside it: SQLite's LIKE over the index of paths, which compares every path.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.path_search import PathSearch

from .frame import Bench, Table

_PLACES = ("harbour", "Troms\u00f8", "press", "concert", "Stra\u00dfe", "portrait")
_TEXTS = {
    "one file": "img_0012345",
    "a name that many share": "img_",
    "a folder that many share": "photos/2020/concert",
    "letters beyond ASCII": "TROMS\u00d8_img_00",
    "nothing, of parts that occur": "0012345.xyz",
    "one letter": "t",
}
_LIKE = "SELECT COUNT(*) FROM files INDEXED BY files_path WHERE CAST(path AS TEXT) LIKE ?"


def run(bench: Bench) -> list[Table]:
    count = bench.size(1_000_000, 20_000)
    path = bench.scratch / "find.db"
    _fill(path, count)
    with closing(open_ledger(path)) as ledger, closing(PathSearch(ledger.store)) as search:
        made = _seconds(lambda: _index(search), rounds=1)
        (size,) = search._index.execute("SELECT SUM(LENGTH(block)) FROM paths_data").fetchone()
        rows = [
            [what, text, f"{1000 * _seconds(lambda text=text: search.find(text, 50)):.1f}", _like(path, text)]
            for what, text in _TEXTS.items()
        ]
    note = (
        f"The index of {count:,} files: {made:.1f} s of CPU, {size / count:.1f} bytes a file, all in a temporary file."
    )
    return [Table("Find a file", ["what", "text", "CPU ms", "CPU ms of LIKE"], rows, [note])]


def _index(search: PathSearch) -> None:
    while search.step():
        pass


def _seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Give the least processor time of the calling thread."""
    times = []
    for _ in range(rounds):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


def _like(path: Path, text: str) -> str:
    with closing(sqlite3.connect(path)) as db:
        return f"{1000 * _seconds(lambda: db.execute(_LIKE, (f'%{text}%',)).fetchone(), 3):.1f}"


def _fill(path: Path, count: int) -> None:
    """Write verified files with the names of a photo desk into a new ledger."""
    names = (
        f"photos/{2015 + number // 400 % 11}/{_PLACES[number // 400 % 6]}-{number // 400:05}"
        f"/{_PLACES[number % 6]}_IMG_{number:07}.{('jpg', 'CR3')[number % 2]}".encode()
        for number in range(count)
    )
    sql = (
        "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, state, folded_name, assetid,"
        " queued_at) VALUES (?1, 'F', ?2, ?2, ?2, ?2, 'verified', 'name', printf('A%031d', ?2), 1)"
    )
    open_ledger(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.executemany(sql, ((name, at) for at, name in enumerate(names)))
        db.commit()
