"""Tests of `ledger/file/handle.py`: what every statement of the program goes through."""

import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils

from assetsync.ledger.file.handle import Handle, SQLiteError
from assetsync.ledger.path_search import PathSearch
from assetsync.ledger.reports import view_ledger
from assetsync.model import State
from assetsync.status.site_status import read_status
from assetsync.sync.requests.decisions import Resume


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


def test_every_statement_passes_the_library(make_world, monkeypatch):
    """A run with lost answers, a brake, a request and a search; then the readers, and a new start."""
    callers: Counter[str] = Counter()
    connect = sqlite3.connect

    class Recorded(sqlite3.Connection):
        def execute(self, *statement):
            callers[sys._getframe(1).f_globals["__name__"]] += 1
            return super().execute(*statement)

        def executemany(self, *_statement):
            raise AssertionError("the library executes each statement alone")

        def cursor(self, *_factory):
            raise AssertionError("the library makes a cursor for each statement")

    monkeypatch.setattr(sqlite3, "connect", lambda *values, **named: connect(*values, factory=Recorded, **named))
    world = make_world(brake={"max_new_files": 30})
    world.service.script.extend(["lost_before", "lost_after"])
    for number in range(20):
        world.write(f"d{number % 3}/{number}.jpg", b"x" * (1 + 40_000 * number))
        world.write(f"d{number % 3}/{number}.jpg.yaml", b"description: a harbour")
    world.scan()
    world.live(300)
    world.site.brakes.queue_is_empty()
    for number in range(40):
        world.write(f"new/{number}.jpg", b"%d" % number)
    world.scan()
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["new_files"]
    world.ask(Resume(None))
    (world.root / "d0/0.jpg").unlink()
    world.scan()
    world.live(300)
    search = PathSearch(world.ledger.store)
    while search.step():
        pass
    assert search.find("new/1.jpg", 10).files
    search.close()
    with closing(view_ledger(world.ledger_path)) as view:
        status = read_status(world.config().outline, view, world.clock.now())
    assert status.counts.of(State.VERIFIED) == 59
    world.restart()
    assert set(callers) == {"sqlite_utils.db"}
    assert callers.total() > 1000
