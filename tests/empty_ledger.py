"""Copies an empty ledger in place of migrating each new one: all migrations take 30 ms, a copy takes one.

The empty ledger was migrated. The tests of `ledger/file`, and all processes that tests start, migrate each ledger.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from assetsync.ledger.file import integrity, schema
from assetsync.ledger.file.handle import Handle

migrate = integrity.migrate
statements = schema.statements


@contextmanager
def copying() -> Iterator[Callable[[Path, Handle], None]]:
    """Give a stand-in for `integrity.migrate`: it migrates the first new ledger and copies that into all others."""
    lock = threading.Lock()
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as empty:

        def migrate_or_copy(path: Path, conn: Handle) -> None:
            # A mutant changes the migrations.
            if _has_content(conn) or schema.statements is not statements:
                migrate(path, conn)
                return
            with lock:
                if not _has_content(empty):
                    migrate(path, conn)
                    conn.conn.backup(empty)
                else:
                    empty.backup(conn.conn)

        yield migrate_or_copy


def _has_content(conn: sqlite3.Connection | Handle) -> bool:
    return conn.execute("PRAGMA schema_version").fetchone()[0] != 0
