"""The reading connections of a ledger: a fixed number, each lent for one query.

A query returns all of its rows, so no connection belongs to a thread, and nothing is left open when a thread ends: the
number of threads that read has no influence on descriptors and memory. How a connection is opened is left to
`database`.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from assetsync.ledger.file.handle import Handle

MOST = 4
"""Connections; queries are short, and only a few threads run at the same time."""

_PATIENCE = 5.0
"""Seconds for which `close` waits for the queries that it has interrupted: the disk may hang."""

_INTERRUPT_EVERY = 0.1

T = TypeVar("T")


class Readers:
    """At most `MOST` connections for any number of threads; a thread waits while all of them are lent."""

    def __init__(self, connect: Callable[[], Handle]) -> None:
        """Open no connection yet; `connect` opens each when it is needed first."""
        self._connect = connect
        # One item for each connection that may be lent: half the time of a semaphore, once for each query.
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(MOST):
            self._slots.put(None)
        self._opened: list[Handle] = []
        # The connection that was used last is used first: its cache holds the ledger's pages.
        self._free: list[Handle] = []
        self._is_closed = False

    def open_all(self) -> None:
        """Open every connection and its files now, so that reading needs no further descriptor; raise as `lend`."""
        for _ in range(MOST):
            conn = self._open()
            self._free.append(conn)
            # SQLite opens the log with the first read.
            conn.execute("PRAGMA schema_version").fetchall()

    def lend(self, query: Callable[[Handle], T]) -> T:
        """Return what `query` makes of a connection; it must leave no statement unfinished and lend no second one.

        Raise sqlite3.ProgrammingError after `close`, and what opening a connection raises.
        """
        # No context manager: it would take a third of the time of a small query.
        self._slots.get()
        try:
            if self._is_closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            try:
                conn = self._free.pop()
            except IndexError:
                conn = self._open()
            try:
                return query(conn)
            finally:
                self._free.append(conn)
        finally:
            self._slots.put(None)

    def close(self) -> None:
        """Interrupt the queries that run, and close the connections; one that hangs stays open. May be repeated."""
        self._is_closed = True
        opened, self._opened = self._opened, []
        until, ended = time.monotonic() + _PATIENCE, 0
        while ended < MOST and time.monotonic() < until:
            # A query that was about to begin is not interrupted the first time.
            for conn in opened:
                conn.conn.interrupt()
            with suppress(Empty):
                self._slots.get(timeout=_INTERRUPT_EVERY)
                ended += 1
        while self._free:
            self._free.pop().close()
        for _ in range(ended):
            self._slots.put(None)

    def _open(self) -> Handle:
        conn = self._connect()
        self._opened.append(conn)
        return conn
