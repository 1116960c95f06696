"""A real ledger in a fresh folder, and rows in every state that the calls themselves lead to."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assetsync.ledger.assets import Shown
from assetsync.ledger.file.database import Database
from assetsync.ledger.folders import Hold, hold_folder
from assetsync.ledger.ledger import Ledger, open_ledger
from assetsync.ledger.queue import Intent
from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import NewVersion
from assetsync.model import Answer, FileStat, Outcome, Sent, SentExtent

NOW = 1_000_000.0
M1, M2 = "1" * 32, "2" * 32


@contextmanager
def traced(store: Database) -> Iterator[list[str]]:
    """Give the statements that the calling thread reads with; while it reads alone, it uses a single connection."""
    statements: list[str] = []
    store.read(lambda conn: conn.conn.set_trace_callback(statements.append))
    yield statements
    store.read(lambda conn: conn.conn.set_trace_callback(None))


class Book:
    """One ledger, with the calls of the flow in short."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ledger = open_ledger(path)
        self.inode = 0

    def reopen(self) -> Ledger:
        self.ledger.close()
        self.ledger = open_ledger(self.path)
        return self.ledger

    def stat(self, size: int = 10, *, inode: int | None = None, mtime: int = 1) -> FileStat:
        self.inode += 1
        return FileStat(size, mtime, 1, self.inode if inode is None else inode)

    def queue(self, path: bytes, *, folder: str = "F", size: int = 10, due: float = NOW, **stat) -> FileRow:
        """Queue a version, in place of the current one where there is one."""
        intake = self.ledger.versions
        current = intake.current_of(path)
        name = path.rpartition(b"/")[2].decode("utf-8", "replace").casefold()
        version = NewVersion(path, self.stat(size, **stat), folder, name, current.id if current else None)
        assert intake.enqueue([version], NOW, due_at=due) == []
        return self.row(path)

    def queue_many(self, paths: Iterable[bytes]) -> None:
        versions = [NewVersion(path, self.stat(), "F", path.decode(), None) for path in paths]
        self.ledger.versions.enqueue(versions, NOW)

    def hold_folder(self, folder: str, outcome: Outcome, until: float) -> None:
        self.ledger.store.write(
            lambda conn: hold_folder(conn, folder, Hold(outcome.reason, outcome.detail, NOW, until))
        )

    def row(self, path: bytes) -> FileRow:
        row = self.ledger.versions.current_of(path)
        assert row is not None
        return row

    def shown(self, row: FileRow) -> Shown:
        return self.ledger.assets.shown([row]).get(row.assetid or "", Shown())

    def by_id(self, row: FileRow) -> FileRow | None:
        return next((found for found in self.ledger.reports.files(history=True) if found.id == row.id), None)

    def begin(self, row: FileRow, *, md5: str | None = M1, name: str | None = None) -> int:
        sent_name = name or row.path.rpartition(b"/")[2].decode()
        intent = Intent(row.id, row.destfolderid, sent_name, "boundary", row.stat, md5, "digest")
        return self.ledger.queue.begin(intent, NOW)

    def accept(self, row: FileRow, assetid: str, *, md5: str = M1, attempt: int | None = None) -> FileRow:
        attempt = self.begin(row, md5=md5) if attempt is None else attempt
        self.ledger.attempt_results.accepted(attempt, row.id, accepted(assetid, md5), NOW)
        found = self.by_id(row)
        assert found is not None
        return found

    def lose(self, row: FileRow, *, md5: str | None = M1, left: SentExtent = SentExtent.ALL) -> int:
        attempt = self.begin(row, md5=md5)
        outcome = Outcome(Answer.DOUBT, "no_answer", "nothing came back")
        self.ledger.attempt_results.lost(attempt, row.id, Sent(outcome, left, row.size, md5 or ""), NOW)
        return attempt


def accepted(assetid: str, md5: str = M1) -> Sent:
    return Sent(Outcome(Answer.ACCEPTED, assetid=assetid, filetype="doc"), SentExtent.ALL, 10, md5)


@pytest.fixture
def make_book(tmp_path: Path) -> Iterator[Callable[..., Book]]:
    books: list[Book] = []

    def make(name: str = "ledger.db") -> Book:
        books.append(Book(tmp_path / name))
        return books[-1]

    yield make
    for book in books:
        book.ledger.close()


@pytest.fixture
def book(make_book: Callable[..., Book]) -> Book:
    return make_book()
