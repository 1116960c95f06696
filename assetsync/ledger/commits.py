"""Group commit: pieces of work that wait at the same moment are one transaction, so that many workers pay one fsync.

A piece that was submitted and not yet asked for its result goes along with the next commit, whoever makes it. Opening
the file and turning SQLite's errors into ours is left to `store`.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from assetsync.errors import LedgerError
from assetsync.turn import TURN

T = TypeVar("T")


class _Slot(Generic[T]):
    """One piece of work on its way through a commit."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None


class Pending(Generic[T]):
    """A piece of work that was handed in and may not be on the disk yet."""

    __slots__ = ("_commits", "_slot")

    def __init__(self, commits: "Commits", slot: _Slot[T]) -> None:
        self._commits = commits
        self._slot = slot

    def result(self) -> T:
        """Return when it is on the disk; raises what the work raised, or LedgerError when the commit failed."""
        return self._commits.finish(self._slot)


class Commits:
    """Commits for any number of threads over the one connection that writes."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        translate: Callable[[sqlite3.Error], LedgerError],
        *,
        last: Callable[[sqlite3.Connection], None],
    ) -> None:
        """Begin with none; `last` is done at the end of each transaction."""
        self.count = 0
        """How many transactions were written."""
        self._last = last
        self._conn = conn
        self._translate = translate
        self._commit_lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._queue: list[_Slot[Any]] = []

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Pending[T]:
        """Let `work` go along with the next commit; it runs before what is submitted later."""
        slot = _Slot(work)
        with self._queue_lock:
            self._queue.append(slot)
        return Pending(self, slot)

    def finish(self, slot: _Slot[T]) -> T:
        """Commit what waits, unless another thread has done it, and give the result of one piece."""
        # Left for the wait alone: the statements of a commit are done with the turn, or they would compete for it.
        with TURN.left():
            self._commit_lock.acquire()
        try:
            if not slot.done:
                self._commit_waiting()
        finally:
            self._commit_lock.release()
        if slot.error is not None:
            raise slot.error
        return slot.result  # type: ignore[return-value]

    def _commit_waiting(self) -> None:
        with self._queue_lock:
            batch, self._queue = self._queue, []
        conn = self._conn
        try:
            conn.execute("BEGIN IMMEDIATE")
            if len(batch) == 1:
                self._run_alone(conn, batch[0])
            else:
                for slot in batch:
                    self._run_in_savepoint(conn, slot)
                self._commit(conn)
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                conn.execute("ROLLBACK")
            failure = self._translate(error) if isinstance(error, sqlite3.Error) else error
            for slot in batch:
                slot.error = slot.error or failure
            if not isinstance(error, sqlite3.Error):
                raise
        finally:
            for slot in batch:
                slot.done = True

    def _commit(self, conn: sqlite3.Connection) -> None:
        self._last(conn)
        with TURN.left():
            conn.execute("COMMIT")
        self.count += 1

    def _run_alone(self, conn: sqlite3.Connection, slot: _Slot[Any]) -> None:
        try:
            slot.result = slot.work(conn)
        except sqlite3.OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - as in a savepoint
            conn.execute("ROLLBACK")
            self._failed(slot, error)
        else:
            self._commit(conn)

    def _run_in_savepoint(self, conn: sqlite3.Connection, slot: _Slot[Any]) -> None:
        conn.execute("SAVEPOINT piece")
        try:
            slot.result = slot.work(conn)
        except sqlite3.OperationalError:
            # A full disk or an I/O error concerns the whole transaction, not this piece.
            raise
        except Exception as error:  # noqa: BLE001 - carried to the thread that asked, which raises it
            conn.execute("ROLLBACK TO piece")
            self._failed(slot, error)
        finally:
            if conn.in_transaction:
                conn.execute("RELEASE piece")

    def _failed(self, slot: _Slot[Any], error: Exception) -> None:
        slot.error = self._translate(error) if isinstance(error, sqlite3.DatabaseError) else error
