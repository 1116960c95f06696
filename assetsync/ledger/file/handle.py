"""A connection to SQLite as an object of sqlite-utils; every statement of the package goes through such an object.

The other packages need SQLite's rows and errors from here. Opening a ledger is left to `database`, transactions to
`group_commit`.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import sqlite_utils
from sqlite_utils.db import Table

Row = sqlite3.Row
SQLiteError = sqlite3.Error
IntegrityError = sqlite3.IntegrityError

BUSY_SECONDS = 10.0
"""For how long a statement waits for the lock of another connection."""


class _ExistingTable(Table):
    """A table that is there: the library would ask for it before each query, which takes half of the query's time."""

    def exists(self) -> bool:
        return True


class Handle(sqlite_utils.Database):
    """A connection for any thread. It begins a transaction only at a BEGIN, and its rows have names."""

    supports_on_conflict = True
    """SQLite has upsert; the library would find out by making and dropping a table in the ledger."""

    def __init__(self, uri: str) -> None:
        """Open the database at a URI, or a temporary one for ""; raise sqlite3.Error."""
        conn = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        conn.row_factory = Row
        self._tables: dict[str, Table] = {}
        super().__init__(conn, recursive_triggers=False, execute_plugins=False)

    def table(self, table_name: str, **kwargs: Any) -> Table:
        """Return a table; raise OperationalError if there is none, which the library would create or take for empty."""
        if not kwargs and table_name in self._tables:
            return self._tables[table_name]
        if table_name not in self.table_names():
            raise sqlite3.OperationalError(f"no such table: {table_name}")
        table = _ExistingTable(self, table_name, **kwargs)
        return table if kwargs else self._tables.setdefault(table_name, table)

    def update_where(self, table_name: str, updates: dict[str, Any], where: str, values: Sequence[Any] = ()) -> int:
        """Change the rows of a small table for which a condition holds; return their number."""
        table = self.table(table_name)
        keys = [key for key, _ in table.pks_and_rows_where(where, values)]
        for key in keys:
            table.update(key, updates)
        return len(keys)

    def execute_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Execute a statement with each row's values; return the number of rows changed."""
        return sum(self.execute(sql, row).rowcount for row in rows)
