"""Tests of `ledger/file/handle.py`: what every statement of the program goes through."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils

from assetsync.ledger.file.handle import Handle, SQLiteError


@pytest.fixture
def handle(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "some.db")) as conn:
        conn.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
    with closing(Handle(f"file:{tmp_path / 'some.db'}?mode=rw")) as handle:
        yield handle


def test_upsert_changes_no_schema(handle: Handle):
    """The library would make a table and drop it, to find out whether SQLite has upsert."""
    version = handle.execute("PRAGMA schema_version").fetchone()[0]
    for value in ("before", "after"):
        handle.table("facts").upsert({"name": "a", "value": value}, pk="name")
    assert handle.table("facts").get("a") == {"name": "a", "value": "after"}
    assert handle.execute("PRAGMA schema_version").fetchone()[0] == version


def test_each_row_is_counted_once(handle: Handle):
    assert handle.execute_each("INSERT INTO facts VALUES (?, ?)", [("a", "1"), ("b", "1")]) == 2
    assert handle.execute_each("UPDATE facts SET value = ? WHERE value = ?", [("2", "1"), ("3", "0")]) == 2
    assert handle.execute_each("DELETE FROM facts WHERE name = ?", []) == 0


def test_handle_begins_no_transaction(handle: Handle):
    handle.execute("INSERT INTO facts VALUES ('a', 'v')")
    assert not handle.conn.in_transaction


def test_handle_leaves_triggers_alone(handle: Handle):
    assert isinstance(handle, sqlite_utils.Database)
    assert handle.execute("PRAGMA recursive_triggers").fetchone()[0] == 0


def test_missing_table_is_no_empty_table(handle: Handle):
    """The library would return no row, and create the table at the first write."""
    for use in (lambda: handle.table("brakes").insert({"kind": "root"}), lambda: handle.table("brakes")):
        with pytest.raises(SQLiteError, match="no such table: brakes"):
            use()
    assert handle.table_names() == ["facts"]


def test_rows_are_changed_by_condition(handle: Handle):
    handle.execute_each("INSERT INTO facts VALUES (?, ?)", [("a", "1"), ("b", "1"), ("c", "2")])
    assert handle.update_where("facts", {"value": "3"}, "value = ?", ("1",)) == 2
    assert [*map(tuple, handle.execute("SELECT * FROM facts ORDER BY name"))] == [("a", "3"), ("b", "3"), ("c", "2")]
    assert handle.update_where("facts", {"value": "4"}, "value = ?", ("1",)) == 0
