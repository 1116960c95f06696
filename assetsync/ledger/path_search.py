"""Find files by a part of their paths, without regard to case and to the form of Unicode.

A temporary database holds an index of the trigrams (SQLite's FTS5) of each run of `_RUN` rows, about four bytes a file.
It is made in the background after each start and is not part of the ledger, so that neither uploads nor backups pay for
it. The index only names the runs that may match: they are read from the ledger, and their paths are compared. So a
search never shows what the ledger does not hold; it may lack files while the index is being made.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import structlog

from assetsync.ledger.file.database import Database
from assetsync.ledger.file.handle import Handle, SQLiteError
from assetsync.ledger.reports import Reports
from assetsync.ledger.rows import FileRow
from assetsync.text import folded

log = structlog.get_logger(__name__)

LONGEST = 200
"""Characters of a search text that are used."""

STEP = 2_000
"""Most rows that a step adds to the index; as many of the newest rows are searched without it."""

_TRIGRAM = 3
_RUN = 100
_MOST_RUNS = 300
_MOST_PATHS = 1_000

_Run = Sequence[tuple[int, bytes]]


class Found(NamedTuple):
    """The first files that match, and how many more there are; present files come first, then new before old ones.

    `is_all` is False if only a part of the ledger was searched, so that there may be more than that.
    """

    files: list[FileRow]
    more: int
    is_all: bool


class PathSearch:
    """The search in one ledger; any thread may search while another one calls `step`."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._reports = Reports(store)
        self._lock = threading.Lock()
        self._index: Handle | None = None
        self._indexed = 0
        self._has_failed = False

    def step(self) -> int:
        """Add the next rows to the index; return their number, 0 if there are none. Raise LedgerError."""
        runs: list[_Run] = []
        moved = self._store.moved
        if len(moved) == moved.maxlen:
            # Older ones were dropped, and the index lacks their paths: begin again.
            moved.clear()
            self.close()
        while moved:
            runs.append(self._pairs("SELECT id, path FROM files WHERE id = ?", moved[0]))
            # Only now: the ledger may not have answered.
            moved.popleft()
        rows = self._pairs("SELECT id, path FROM files WHERE id > ? ORDER BY id LIMIT ?", self._indexed, STEP)
        runs += [rows[start : start + _RUN] for start in range(0, len(rows), _RUN)]
        with self._lock:
            try:
                self._add([run for run in runs if run])
            except SQLiteError as error:
                # SQLite without FTS5, or no room for the temporary file.
                self._give_up(error)
                return 0
            self._indexed = rows[-1][0] if rows else self._indexed
        return len(rows)

    def find(self, text: str, limit: int) -> Found:
        """Return up to `limit` files whose paths contain the text. Raise LedgerError.

        A text of fewer than three characters finds the files whose names, or folders above them, begin with it.
        """
        wanted = folded(text[:LONGEST])
        needle = wanted if len(wanted) >= _TRIGRAM else f"/{wanted}"
        is_present: dict[bytes, bool] = {}
        searched, newest = self._reach()
        is_all = newest - searched <= STEP
        for number, (first, last) in enumerate(self._runs(needle, searched, newest)):
            if number == _MOST_RUNS or len(is_present) > _MOST_PATHS:
                is_all = False
                break
            sql = "SELECT path, wanted = 'yes' FROM files WHERE id BETWEEN ? AND ? ORDER BY id DESC"
            for path, present in self._store.rows(sql, first, last):
                if needle in f"/{folded(path)}":
                    is_present[path] = is_present.get(path, False) or bool(present)
        # Sorting keeps new files before old ones.
        paths = sorted(is_present, key=lambda path: not is_present[path])
        files = [version for path in paths[:limit] for version in self._reports.of_path(path, 1)]
        return Found(files, max(0, len(paths) - limit), is_all)

    def covered(self) -> float:
        """Return the share of the rows that a search covers, 0 to 1; the newest rows need no index."""
        searched, newest = self._reach()
        return 1.0 if newest - searched <= STEP else searched / newest

    def close(self) -> None:
        """Drop the index."""
        with self._lock:
            self._drop()

    def _reach(self) -> tuple[int, int]:
        """Return the id up to which the rows are in the index, and the greatest id of the ledger."""
        return self._indexed, int(self._store.value("SELECT COALESCE(MAX(id), 0) FROM files"))

    def _runs(self, needle: str, searched: int, newest: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last ids of the runs that may match, the newest first."""
        # A file that was saved a moment ago is found before it is in the index.
        for last in range(newest, max(searched, newest - STEP), -_RUN):
            yield max(searched + 1, last - _RUN + 1), last
        with self._lock:
            if self._index is None:
                return
            runs = self._index.execute(
                "SELECT first, last FROM paths JOIN runs ON runs.id = paths.rowid WHERE paths MATCH ?"
                " ORDER BY paths.rowid DESC LIMIT ?",
                (_query(needle), _MOST_RUNS + 1),
            ).fetchall()
        yield from runs

    def _pairs(self, sql: str, *values: int) -> _Run:
        return [(row[0], row[1]) for row in self._store.rows(sql, *values)]

    def _add(self, runs: Sequence[_Run]) -> None:
        if self._index is None:
            self._index = _new_index()
        with self._index.atomic():
            for run in runs:
                text = "\n".join(_indexed_text(f"/{folded(path)}") for _, path in run)
                added = self._index.execute("INSERT INTO runs (first, last) VALUES (?, ?)", (run[0][0], run[-1][0]))
                self._index.execute("INSERT INTO paths (rowid, path) VALUES (?, ?)", (added.lastrowid, text))

    def _give_up(self, error: SQLiteError) -> None:
        """Begin again with the next step."""
        self._drop()
        if not self._has_failed:
            fix = "the page finds only the newest files; free space in the folder for temporary files"
            log.warning("the search index cannot be made", detail=str(error), fix=fix)
        self._has_failed = True

    def _drop(self) -> None:
        index, self._index, self._indexed = self._index, None, 0
        if index is not None:
            index.close()


def _new_index() -> Handle:
    # An empty name: SQLite keeps up to 2 MB in memory and the rest in a file that disappears with the connection.
    index = Handle("")
    try:
        index.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL)")
        index.execute(
            "CREATE VIRTUAL TABLE paths"
            " USING fts5(path, content='', columnsize=0, detail='none', tokenize='trigram case_sensitive 1')"
        )
    except SQLiteError:
        index.close()
        raise
    return index


def _indexed_text(text: str) -> str:
    # With each slash doubled, even a single character at the beginning of a name makes a trigram.
    return text.replace("/", "//")


def _query(needle: str) -> str:
    text = _indexed_text(needle)
    trigrams = dict.fromkeys(text[at : at + _TRIGRAM] for at in range(len(text) - _TRIGRAM + 1))
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
