"""Group commit: pieces of work that wait at the same moment are one transaction, so that many workers pay one fsync.

A piece that was submitted and not yet asked for its result goes along with the next commit, whoever makes it. Where one
of them fails, all are done once more, and only that counts. Opening the file and turning SQLite's errors into ours is
left to `store`.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
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

    @property
    def has_failed(self) -> bool:
        """Whether a commit that it went along with was not made: it goes along with no other."""
        return self._slot.done and self._slot.error is not None


class Commits:
    """Commits for any number of threads over the one connection that writes."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        translate: Callable[[sqlite3.Error], LedgerError],
        *,
        last: Callable[[sqlite3.Connection], None],
        check: Callable[[], None],
    ) -> None:
        """Begin with none; `last` is done at the end of each transaction, `check` raises where it is not on the disk.

        `check` is called after each commit, before any piece of it is reported as done.
        """
        self.count = 0
        """How many transactions were written."""
        self._last = last
        self._check = check
        self._conn = conn
        self._translate = translate
        self._commit_lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._left = TURN.left()  # of the one that commits
        self._queue: list[_Slot[Any]] = []

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Pending[T]:
        """Let `work` go along with the next commit; it runs before what is submitted later."""
        slot = _Slot(work)
        with self._queue_lock:
            self._queue.append(slot)
        return Pending(self, slot)

    def finish(self, slot: _Slot[T]) -> T:
        """Commit what waits, unless another thread has done it, and give the result of one piece."""
        if not slot.done and self._has_to_commit(slot):
            left = self._left = TURN.left()
            try:
                self._commit_waiting()
            finally:
                self._commit_lock.release()
                # Only now: who is next should not wait until it is the turn of who is done.
                left.end()
        if slot.error is not None:
            raise slot.error
        return slot.result  # type: ignore[return-value]

    def _has_to_commit(self, slot: _Slot[Any]) -> bool:
        """Wait until a piece is on the disk, or until it is for this thread to commit it: then it has the lock."""
        if not self._commit_lock.acquire(blocking=False):
            # Left for the wait alone: without it the statements of a commit would compete with who has it.
            with TURN.left():
                self._commit_lock.acquire()
                if slot.done:
                    # In here: who has nothing to commit should not wait for the turn with the lock in hand.
                    self._commit_lock.release()
                    return False
        if slot.done:
            self._commit_lock.release()
        return not slot.done

    def _commit_waiting(self) -> None:
        with self._queue_lock:
            batch, self._queue = self._queue, []
        conn = self._conn
        # Stands until it is known better: whatever goes wrong on the way, nobody is told that it is on the disk.
        failure: BaseException | None = LedgerError("what was to be written to the ledger is not on the disk")
        try:
            if not self._run_together(conn, batch):
                self._run_apart(conn, batch)
            self._commit(conn)
            failure = None
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                conn.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                self._make_room(conn)
            if not isinstance(error, sqlite3.Error):
                failure = error
                raise
            failure = self._translate(error)
        finally:
            for slot in batch:
                slot.error = slot.error or failure
                slot.done = True

    def _make_room(self, conn: sqlite3.Connection) -> None:
        """Move what the log holds into the ledger, so that the log is written again from its beginning.

        SQLite does so after a commit only: on a small disk the log alone would keep every commit from being made.
        """
        # Where there is no room for that either, the caller tells of the disk.
        with contextlib.suppress(sqlite3.Error):
            conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _commit(self, conn: sqlite3.Connection) -> None:
        self._last(conn)
        self._left.begin()
        conn.execute("COMMIT")
        self._check()
        self.count += 1

    def _run_together(self, conn: sqlite3.Connection, batch: Sequence[_Slot[Any]]) -> bool:
        """Do all in one transaction; when one fails, which is rare, none of them is done, and the answer is False."""
        conn.execute("BEGIN IMMEDIATE")
        try:
            for slot in batch:
                slot.result = slot.work(conn)
        except sqlite3.OperationalError:
            # A full disk or an I/O error concerns the whole transaction, not this piece.
            raise
        except Exception:  # noqa: BLE001 - it comes again where it is known whose it is
            conn.execute("ROLLBACK")
            return False
        return True

    def _run_apart(self, conn: sqlite3.Connection, batch: Sequence[_Slot[Any]]) -> None:
        """Do all in one transaction, each in a savepoint of its own, so that one that fails undoes only itself."""
        conn.execute("BEGIN IMMEDIATE")
        for slot in batch:
            conn.execute("SAVEPOINT piece")
            try:
                slot.result = slot.work(conn)
            except sqlite3.OperationalError:
                raise
            except Exception as error:  # noqa: BLE001 - carried to the thread that asked, which raises it
                conn.execute("ROLLBACK TO piece")
                self._failed(slot, error)
            finally:
                if conn.in_transaction:
                    conn.execute("RELEASE piece")

    def _failed(self, slot: _Slot[Any], error: Exception) -> None:
        slot.error = self._translate(error) if isinstance(error, sqlite3.DatabaseError) else error
