"""Facts of the whole ledger, by name. The meaning of a fact is left to the module that writes it."""

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assetsync.ledger.database import Database


def fact(store: "Database", name: str) -> str | None:
    """Return one fact; None if it was never written. Raises LedgerError."""
    rows = store.rows("SELECT value FROM facts WHERE name = ?", name)
    return None if not rows else rows[0][0]


def set_fact(conn: sqlite3.Connection, name: str, value: str | None) -> None:
    """Write one fact, in the caller's transaction."""
    conn.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
