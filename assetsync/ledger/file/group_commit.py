"""Group commit: pieces of work that wait at the same moment share one transaction, and so one fsync.

A piece that was submitted goes into the next commit, whichever thread makes it. If a piece of a batch fails, the whole
batch runs again, each piece in its own savepoint, and only the second run counts. Opening the file and translating
SQLite's errors are left to `database`.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from assetsync.errors import LedgerError
from assetsync.ledger.file.handle import Handle

T = TypeVar("T")


class Pending(Generic[T]):
    """A piece of work that was submitted and may not be on the disk yet."""

    __slots__ = ("_commits", "done", "error", "returned", "work")

    def __init__(self, commits: "Commits", work: Callable[[Handle], T]) -> None:
        self._commits = commits
        self.work = work
        self.done = False
        self.returned: T | None = None
        self.error: BaseException | None = None

    def result(self) -> T:
        """Return once the work is on the disk; raise what the work raised, or LedgerError if the commit failed."""
        if not self.done:
            self._commits.finish(self)
        if self.error is not None:
            raise self.error
        return self.returned  # type: ignore[return-value]


class Commits:
    """Commits for any number of threads over the single writing connection."""

    def __init__(
        self,
        conn: Handle,
        translate: Callable[[sqlite3.Error], LedgerError],
        *,
        last: Callable[[Handle], None],
        check: Callable[[], None],
    ) -> None:
        """Begin without work; `last` runs at the end of each transaction, `check` raises if one is not on the disk.

        `check` runs after each commit, before any piece in it is reported as done.
        """
        self.count = 0
        """Number of transactions written."""
        self._last = last
        self._check = check
        self._conn = conn
        self._translate = translate
        self._commit_lock = threading.Lock()
        self._queue_lock = threading.RLock()
        self._queue: list[Pending[Any]] = []

    def submit(self, work: Callable[[Handle], T]) -> Pending[T]:
        """Queue `work` for the next commit; it runs before work that is submitted later."""
        piece = Pending(self, work)
        with self._queue_lock:
            self._queue.append(piece)
        return piece

    def finish(self, piece: Pending[Any]) -> None:
        """Commit the queued work in one transaction, unless another thread has committed this piece meanwhile."""
        with self._commit_lock:
            if piece.done:
                return
            with self._queue_lock:
                batch, self._queue = self._queue, []
            with self._failing_together(batch):
                if not self._run_together(self._conn, batch):
                    self._run_apart(self._conn, batch)
                self._last(self._conn)
                self._commit(self._conn)
            for each in batch:
                each.done = True

    def in_one_commit(self) -> contextlib.AbstractContextManager[object]:
        """Let everything that is submitted inside the block share one transaction; nothing may wait in the block."""
        return self._queue_lock

    def _commit(self, conn: Handle) -> None:
        conn.execute("COMMIT")
        self._check()
        self.count += 1

    @contextlib.contextmanager
    def _failing_together(self, batch: Sequence[Pending[Any]]) -> Iterator[None]:
        """Roll back and let all pieces fail if the block fails.

        The pieces raise the errors of SQLite and of the ledger; any other error is raised here, too.
        """
        # The default result: whatever goes wrong below, no piece is reported as being on the disk.
        failure: BaseException | None = LedgerError("what was to be written to the ledger is not on the disk")
        try:
            yield
            failure = None
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self._conn.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                # Checkpoint the write-ahead log into the database, so that SQLite writes the log again from its
                # beginning. SQLite does so only after a commit: on a small disk the log alone could make every
                # commit fail. If there is no room for the checkpoint either, the caller reports the disk.
                with contextlib.suppress(sqlite3.Error):
                    self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            failure = self._translate(error) if isinstance(error, sqlite3.Error) else error
            if not isinstance(failure, LedgerError):
                raise
        finally:
            if failure is not None:
                for piece in batch:
                    piece.error = piece.error or failure
                    piece.done = True

    def _run_together(self, conn: Handle, batch: Sequence[Pending[Any]]) -> bool:
        """Run all pieces in one transaction; if one fails, which is rare, roll all of them back and return False."""
        conn.execute("BEGIN IMMEDIATE")
        try:
            for piece in batch:
                piece.returned = piece.work(conn)
        except sqlite3.OperationalError:
            # A full disk or an I/O error concerns the whole transaction, not this piece.
            raise
        except Exception:  # noqa: BLE001 - raised again by `_run_apart`, which knows its piece
            conn.execute("ROLLBACK")
            return False
        return True

    def _run_apart(self, conn: Handle, batch: Sequence[Pending[Any]]) -> None:
        """Run all pieces in one transaction, each in its own savepoint, so that a failure undoes only its piece."""
        conn.execute("BEGIN IMMEDIATE")
        for piece in batch:
            try:
                with conn.atomic():
                    piece.returned = piece.work(conn)
            except sqlite3.OperationalError:
                raise
            except Exception as error:  # noqa: BLE001 - raised in the thread that submitted the work
                piece.error = self._translate(error) if isinstance(error, sqlite3.DatabaseError) else error
