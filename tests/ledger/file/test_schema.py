"""Older files become newer ones and keep their rows; what is asked all the time is answered from an index."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils
from sqlite_utils import Migrations

from assetsync.core.doubt_grace import Grace, Looked
from assetsync.errors import LedgerError, LedgerNewer
from assetsync.ledger.assets import Shown
from assetsync.ledger.doubts import looked_of
from assetsync.ledger.file import integrity, schema
from assetsync.ledger.file.database import open_database
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.ledger.queue import Choice
from assetsync.model import State
from tests.empty_ledger import copying
from tests.ledger.conftest import NOW, traced

NEWEST = Choice(newest=True)
MOVED = {
    "files": {
        *("seen_at", "findable_at", "unseen_boot", "unseen_first", "unseen_last"),
        *("audited_at", "index_asked_at", "crashes"),
    },
    "attempts": {
        *("grace_boot", "grace_first", "grace_last", "meta_digest", "start_no", "accepted_id"),
        *("mtime_ns", "inode"),
    },
}
"""Columns of m001 that m029 and m032 moved to `assets`, m030 and m031 to JSON, or that were dropped."""
OLD = Path(__file__).parent / "data" / "m001.sql"
KILLED = """
import pathlib, sys
from assetsync.ledger.ledger import open_ledger
from tests.faults.killed import Killer, in_the_migration
in_the_migration(Killer(int(sys.argv[2])))
open_ledger(pathlib.Path(sys.argv[1]))
"""
KILLED_AT_COPY = """
import pathlib, sys
from sqlite_utils.db import Table
from assetsync.ledger.ledger import open_ledger
from tests.faults import killed
getattr(killed, sys.argv[2])(Table, "transform")(killed.Killer(1))
open_ledger(pathlib.Path(sys.argv[1]))
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(OLD.read_text("utf-8"))
    return path


@pytest.fixture(scope="module")
def new_shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("new") / "new.db"
    open_ledger(path).close()
    return shape_of(path)


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table but the facts, as far as the columns that m001 gave it."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(OLD.read_text("utf-8"))
        tables = [row[0] for row in empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {t: len(empty.execute(f"PRAGMA table_info({t})").fetchall()) for t in tables}
    with closing(sqlite3.connect(path)) as conn:
        views = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
        return {
            table: sorted(_rows(conn, "unowned" if table == "sightings" and views else table, table, counts), key=repr)
            for table in tables
            if table not in ("facts", "_sqlite_migrations", "sqlite_sequence")
        }


def _rows(conn: sqlite3.Connection, source: str, table: str, counts: dict[str, int]) -> Iterator[tuple[object, ...]]:
    moved = MOVED.get(table, set())
    found = conn.execute(f"SELECT * FROM {source}")
    kept = [place for place, column in enumerate(found.description) if column[0] not in moved]
    return (tuple(row[place] for place in kept[: counts[table] - len(moved)]) for row in found)


def without_drift(rows: dict[str, list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(OLD.read_text("utf-8"))
        names = [row[1] for row in empty.execute("PRAGMA table_info(files)") if row[1] not in MOVED["files"]]
    drift = names.index("drift")
    return rows | {"files": [row[:drift] + row[drift + 1 :] for row in rows["files"]]}


def shape_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as conn:
        found = conn.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in found}


def test_first_release_ledger_keeps_all_rows(old: Path):
    before = rows_of(old)
    assert {table for table, rows in before.items() if rows} == {
        "files", "attempts", "sightings", "folders", "sidecars", "requests", "brakes", "hours",
    }  # fmt: skip
    open_ledger(old).close()
    assert rows_of(old) == before


def test_first_release_ledger_gets_new_shape(old: Path, new_shape: dict[str, str]):
    # It fails when m001 was changed: before its release the data is made anew, afterwards a migration is added.
    open_ledger(old).close()
    assert shape_of(old) == new_shape


@pytest.mark.parametrize("last", range(1, len(integrity.MIGRATIONS)))
def test_every_release_is_migrated(old: Path, new_shape: dict[str, str], last: int):
    stop_before(old, sorted(integrity.MIGRATIONS)[last])
    before = rows_of(old)
    open_ledger(old).close()
    assert shape_of(old) == new_shape
    # What has to be read anew is said in this column.
    assert without_drift(rows_of(old)) == without_drift(before)
    with closing(sqlite3.connect(old)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_first_release_values_are_understood(old: Path):
    with closing(open_ledger(old)) as ledger:
        assert {row.path: row.state for row in ledger.reports.files()} == {
            b"photos/harbour.jpg": State.STORED,
            b"photos/caf\xe9.jpg": State.QUEUED,
            b"photos/lost.jpg": State.IN_DOUBT,
            b"photos/empty.txt": State.BLOCKED,
            b"photos/old.jpg": State.QUEUED,
        }
        assert [brake.subject for brake in ledger.reports.brakes()] == ["photos"]
        assert [request.verb for request in ledger.open_requests()] == ["retry"]


def test_copied_ledger_equals_a_migrated_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What `tests/empty_ledger.py` gives to other tests is what the migrations give."""
    open_ledger(tmp_path / "migrated.db").close()
    with copying() as migrate:
        monkeypatch.setattr(integrity, "migrate", migrate)
        for name in ("first.db", "copied.db"):
            open_ledger(tmp_path / name).close()
    assert contents_of(tmp_path / "copied.db") == contents_of(tmp_path / "migrated.db")


def contents_of(path: Path) -> list[object]:
    """Every statement that makes the file again, without the times, and the settings of its header."""
    with closing(sqlite3.connect(path)) as conn:
        settings = ("application_id", "user_version", "journal_mode", "page_size", "encoding", "auto_vacuum")
        header = [conn.execute(f"PRAGMA {setting}").fetchone() for setting in settings]
        return [header, *(re.sub(r"'\d[\d .:+-]{9,}'", "A TIME", line) for line in conn.iterdump())]


def known_migrations() -> set[str]:
    with closing(sqlite3.connect(":memory:")) as conn:
        return {migration.name for migration in schema.migrations.pending(sqlite_utils.Database(conn))}


def release_later(patch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
    migrations = Migrations("assetsync")
    migrations(name="m001_first")(schema.m001_first)

    @migrations()
    def m002_tags(db: sqlite_utils.Database) -> None:
        db.execute("ALTER TABLE files ADD COLUMN tag TEXT NOT NULL DEFAULT 'none'")
        db.execute("CREATE TABLE tags (file_id INTEGER PRIMARY KEY, said_at REAL NOT NULL)")
        db.execute("INSERT INTO tags SELECT id, queued_at FROM files")
        if fails:
            raise sqlite3.OperationalError("disk I/O error")

    patch.setattr(schema, "migrations", migrations)
    patch.setattr(integrity, "MIGRATIONS", known_migrations())


def test_later_migration_keeps_every_row(old: Path, monkeypatch):
    before = rows_of(old)
    release_later(monkeypatch)
    for _ in range(2):
        open_database(old, create=False).close()
    assert rows_of(old) == before
    with closing(sqlite3.connect(old)) as conn:
        assert conn.execute("SELECT COUNT(*) FROM tags").fetchone()[0] == len(before["files"])
        assert {row[0] for row in conn.execute("SELECT tag FROM files")} == {"none"}


def test_failed_migration_changes_nothing(old: Path, monkeypatch):
    before, shape = rows_of(old), shape_of(old)
    release_later(monkeypatch, fails=True)
    with pytest.raises(Exception, match="disk I/O error"):
        open_database(old, create=False)
    assert (rows_of(old), shape_of(old)) == (before, shape)
    monkeypatch.undo()
    open_database(old, create=False).close()


def stop_before(path: Path, migration: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        schema.migrations.apply(sqlite_utils.Database(conn), stop_before=migration)


@pytest.mark.parametrize("statement", [2, 5, 9])
def test_killed_renaming_is_undone_and_repeated(old: Path, tmp_path: Path, statement: int):
    stop_before(old, "m020_renamed")
    before, shape = rows_of(old), shape_of(old)
    command = [sys.executable, "-c", KILLED, str(old), str(statement)]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert (rows_of(old), shape_of(old)) == (before, shape)
    open_ledger(old).close()
    open_ledger(tmp_path / "new.db").close()
    assert (rows_of(old), shape_of(old)) == (before, shape_of(tmp_path / "new.db"))


FACTS = ("seen_at", "findable_at", "unseen_boot", "unseen_first", "unseen_last", "unprocessed_id")
FACTS += ("unprocessed_since", "unprocessed_looks", "unprocessed_last")
SEEN = (5.0, 6.0, None, 0.0, 0.0, None, None, None, None)
"""The facts of an asset that was read back."""


@pytest.fixture
def before_assets(tmp_path: Path):
    """A ledger of the release before `assets`, and what adds a version with an asset and facts about it."""
    path = tmp_path / "before.db"
    stop_before(path, "m029_assets")
    made: list[int] = []

    def add(assetid: str | None, facts: tuple[object, ...] = SEEN, *, state: str = "verified"):
        wanted = "replaced" if state in ("superseded", "gone") else "yes"
        with closing(sqlite3.connect(path)) as conn, conn:
            row = conn.execute(
                "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, state, wanted, folded_name,"
                f" queued_at, assetid, {', '.join(FACTS)}) VALUES (?, 'F', 1, 1, 1, 1, ?, ?, 'a', 1, ?,"
                f" {', '.join('?' * len(FACTS))})",
                (b"%d" % len(made), state, wanted, assetid, *facts),
            )
            made.append(int(row.lastrowid or 0))
        return made[-1]

    return path, add


def assets_of(path: Path) -> dict[str, tuple[object, ...]]:
    """What a migrated ledger knows of each asset: why, its first sight, and what reading back was shown."""
    open_ledger(path).close()
    columns = "why, first_seen, seen_to, " + ", ".join(Shown._fields)
    with closing(sqlite3.connect(path)) as conn:
        return {row[0]: row[1:] for row in conn.execute(f"SELECT assetid, {columns} FROM assets")}


@pytest.mark.parametrize("state", [state for state in State if state is not State.QUEUED])
def test_shown_facts_move_to_their_asset(before_assets, state: State):
    path, add = before_assets
    add("A", (5.0, None, "boot", 7.0, 8.0, "A", 9.0, 3, 10.0), state=state)
    add("B")
    assert assets_of(path)["A"] == ("owned", None, None, 5.0, None, "boot", 7.0, 8.0, 9.0, 3, 10.0, None)


def test_unprocessed_count_of_other_asset_ends(before_assets):
    path, add = before_assets
    add("A", (5.0, *(None,) * 4, "Z", 9.0, 3, 10.0))
    assert assets_of(path)["A"][8] is None


def test_newest_live_version_decides_what_is_known(before_assets):
    path, add = before_assets
    add("A", (1.0, *SEEN[1:]), state="superseded")
    add("A", (None,) * 9)
    add("A", (2.0, *SEEN[1:]), state="gone")
    add("B", (3.0, *SEEN[1:]), state="gone")
    add("B", (4.0, *SEEN[1:]), state="superseded")
    known = assets_of(path)
    assert (known["A"][3:5], known["B"][3:5]) == ((None, None), (4.0, 6.0))


def test_sighting_of_old_version_stays_a_sighting(before_assets):
    path, add = before_assets
    add("A", state="gone")
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("INSERT INTO sightings VALUES ('A', 'F', 'a', 1, NULL, 2.0, 0, 'unknown', 1, x'61', 3.0)")
    assert assets_of(path)["A"][:5] == ("unknown", 2.0, 0, 5.0, 6.0)
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT folder_id, name, size, md5, file_id, path, met_at FROM unowned").fetchall() == [
            ("F", "a", 1, None, 1, b"a", 3.0)
        ]


@pytest.mark.parametrize("left", [0, 2])
def test_ids_of_deleted_versions_stay_unused(before_assets, left: int):
    path, add = before_assets
    ids = [add(None, (None,) * 9, state="queued") for _ in range(3)]
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("DELETE FROM files WHERE id > ?", (ids[0] + left - 1,))
    open_ledger(path).close()
    with closing(sqlite3.connect(path)) as conn:
        new = "INSERT INTO files (path, destfolderid, size, mtime_ns, ctime_ns, inode, state, folded_name, queued_at)"
        assert conn.execute(f"{new} VALUES (x'7A', 'F', 1, 1, 1, 1, 'queued', 'z', 1)").lastrowid == ids[-1] + 1


@pytest.mark.parametrize("statement", [2, 3, 4, 6, 9, 15])
def test_killed_move_to_assets_is_repeated(before_assets, statement: int):
    path, add = before_assets
    for assetid in ("A", "B"):
        add(assetid)
    _, *before = contents_of(path)
    command = [sys.executable, "-c", KILLED, str(path), str(statement)]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert contents_of(path)[1:] == before
    assert [*assets_of(path)] == ["A", "B"]
    assert uncounted(path) == set()


@pytest.mark.parametrize(
    ("grace", "look", "watch", "kept"),
    [
        (
            ("boot", 5.0, 7.0, 2.0, 3, 6.0),
            ("boot", 4.0),
            (4.5, 7.0, 2),
            Looked(Grace("boot", 5.0, 7.0, 2.0, 3, 6.0), Grace("boot", 4.5, 7.0), 2, 4.0, "boot"),
        ),
        # The spans were to begin anew.
        ((None, 5.0, 7.0, 2.0, 0, 6.0), ("boot", 4.0), (4.5, 7.0, 2), Looked(since=4.0, boot="boot")),
        ((None, None, None, None, 0, None), (None, None), (None, None, None), Looked()),
        # An earlier release recorded no span of all answers.
        (
            ("boot", 5.0, 7.0, None, 0, None),
            (None, None),
            (None, None, None),
            Looked(Grace("boot", 5.0, 7.0)),
        ),
    ],
    ids=["whole", "anew", "none", "early"],
)
def test_answered_look_ups_stay_as_they_were(before_assets, grace, look, watch, kept):
    path, add = before_assets
    version = add(None, (None,) * 9, state="in_doubt")
    names = ("grace_boot", "grace_first", "grace_last", "grace_slow", "rounds", "round_at")
    names += ("look_boot", "look_first", "watch_first", "watch_last", "watch_newest")
    add_attempt(path, file_id=version, **dict(zip(names, (*grace, *look, *watch), strict=True)))
    with closing(open_ledger(path)) as ledger:
        assert looked_of(ledger.doubts.of(version)) == kept


def add_attempt(path: Path, **said: object) -> None:
    """Add an attempt to a ledger of a release before m031."""
    texts = dict.fromkeys(("destfolderid", "sent_name", "folded_name", "boundary"), "a")
    row = texts | dict.fromkeys(("file_id", "size", "mtime_ns", "inode", "start_no", "started_at"), 1) | said
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"INSERT INTO attempts ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", [*row.values()])


SENT = {"meta_digest": "m", "sent_fields": "s img_keywords", "left_out": "x (only images have it)"}
TEXTS = {"description_digest": b"\x00\xff", "keywords_digest": b"\x01"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (SENT, {"digest": "m", "fields": "s img_keywords", "left_out": "x (only images have it)"}),
        ({"meta_digest": "m", "sent_fields": ""} | TEXTS, {
            "digest": "m", "fields": "", "description": "00ff", "keywords": "01",
        }),
        ({"meta_digest": "m", "keywords_digest": b"\x01"}, {"digest": "m", "keywords": "01"}),
        ({}, {}),
    ],
    ids=["left_out", "texts", "one_text", "nothing"],
)  # fmt: skip
@pytest.mark.parametrize("result", ["accepted", "unsent", None])
def test_sent_metadata_becomes_one_value(tmp_path: Path, said, kept, result):
    path = tmp_path / "before.db"
    stop_before(path, "m031_metadata")
    add_attempt(path, **said, result=result, closed_at=result and 1.0)
    with closing(open_ledger(path)) as ledger:
        (attempt,) = ledger.doubts.attempts(1, 1)
    assert json.loads(attempt.metadata) == kept


@pytest.mark.parametrize(
    ("left", "ended", "took", "kept"),
    [("part", 2.0, None, None), ("all", 2.0, None, 0.0), ("all", 2.0, 7.0, 7.0), (None, 2.0, None, 0.0), (None,) * 4],
)
def test_unknown_duration_becomes_zero(tmp_path: Path, left, ended, took, kept):
    """Without one an attempt counts as cut, and its grace is short."""
    path = tmp_path / "before.db"
    stop_before(path, "m031_metadata")
    add_attempt(path, left_part=left, ended_at=ended, took=took)
    with closing(open_ledger(path)) as ledger:
        assert [attempt.took for attempt in ledger.doubts.attempts(1, 1)] == [kept]


@pytest.mark.parametrize("migration", ["m030_looked", "m031_metadata"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_copy_of_attempts_is_repeated(tmp_path: Path, when: str, migration: str):
    """The indexes are gone before the copy, and are made again after it."""
    path = tmp_path / "before.db"
    stop_before(path, migration)
    add_attempt(path, looks=3, **SENT, **TEXTS)
    _, *before = contents_of(path)
    command = [sys.executable, "-c", KILLED_AT_COPY, str(path), when]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert contents_of(path)[1:] == before
    open_ledger(path).close()
    open_ledger(tmp_path / "new.db").close()
    assert shape_of(path) == shape_of(tmp_path / "new.db")
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT id, sent_name, looks FROM attempts").fetchall() == [(1, "a", 3)]


@pytest.fixture
def before_one_place(tmp_path: Path):
    """A ledger of the release before m032, and what adds a version to it."""
    path = tmp_path / "before.db"
    stop_before(path, "m032_one_place")

    def add(state: State = State.VERIFIED, **said: object) -> int:
        wanted = "replaced" if state in (State.SUPERSEDED, State.GONE) else "yes"
        row = dict.fromkeys(("size", "mtime_ns", "ctime_ns", "inode", "queued_at"), 1)
        row |= {"destfolderid": "F", "folded_name": "a", "state": state, "wanted": wanted} | said
        with closing(sqlite3.connect(path)) as conn, conn:
            number = conn.execute("SELECT COUNT(*) FROM files").fetchone()[0]
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            sql = f"INSERT INTO files (path, {names}) VALUES (?, {marks})"
            return int(conn.execute(sql, (b"%d" % number, *row.values())).lastrowid or 0)

    return path, add


def met(path: Path) -> dict[str, tuple[object, ...]]:
    open_ledger(path).close()
    with closing(sqlite3.connect(path)) as conn:
        found = conn.execute("SELECT assetid, why, shown_at, met_at, index_asked_at FROM assets").fetchall()
    return {row[0]: row[1:] for row in found}


@pytest.mark.parametrize("is_shown", [False, True])
@pytest.mark.parametrize("state", State)
def test_audit_and_request_move_to_their_asset(before_one_place, state: State, is_shown: bool):
    path, add = before_one_place
    add(state, assetid="A", audited_at=5.0, index_asked_at=6.0)
    add(state, assetid="B")
    add(state, assetid="C", index_asked_at=6.0)
    add(state, audited_at=7.0)
    if is_shown:
        with closing(sqlite3.connect(path)) as conn, conn:
            those = "SELECT assetid, 'owned', 4.0 FROM files WHERE assetid IS NOT NULL"
            conn.execute(f"INSERT INTO assets (assetid, why, shown_at) {those}")
    shown = 4.0 if is_shown else None
    others = {"B": ("owned", 4.0, None, None)} if is_shown else {}
    assert met(path) == {"A": ("owned", shown, 5.0, 6.0), "C": ("owned", shown, None, 6.0)} | others


def test_newest_audit_of_an_asset_counts(before_one_place):
    path, add = before_one_place
    add(State.SUPERSEDED, assetid="A", audited_at=7.0, index_asked_at=2.0)
    add(assetid="A", audited_at=5.0)
    add(State.GONE, assetid="A")
    assert met(path) == {"A": ("owned", None, 7.0, 2.0)}


@pytest.mark.parametrize(
    ("sighted", "audited", "kept"),
    [(3.0, 5.0, 5.0), (6.0, 5.0, 6.0), (None, 5.0, 5.0), (None, 1.0, 2.0), (0.0, 5.0, 0.0), (3.0, None, 3.0)],
)
def test_last_sight_of_an_old_version_counts(before_one_place, sighted, audited, kept):
    """An asset that no look-up shows any more stays so: it is not to be adopted."""
    path, add = before_one_place
    add(State.SUPERSEDED, assetid="A", audited_at=audited)
    with closing(sqlite3.connect(path)) as conn, conn:
        sql = "INSERT INTO assets (assetid, why, folder_id, first_seen, seen_to, met_at) VALUES ('A', '', 'F', 2, 1, ?)"
        conn.execute(sql, (sighted,))
    assert met(path) == {"A": ("", None, kept, None)}


@pytest.mark.parametrize("state", State)
def test_metadata_differences_share_a_column(before_one_place, state: State):
    path, add = before_one_place
    sent = add(state, assetid="A", uploaded_at=1.0, not_as_sent="sent")
    adopted = add(state, assetid="B", adopted_differs="adopted")
    add(state, uploaded_at=1.0, not_as_sent="of an asset that it has no more")
    add(state, assetid="C", uploaded_at=1.0)
    with closing(open_ledger(path)) as ledger:
        rows = [*ledger.reports.files(history=True)]
        assert [row.differs for row in rows] == ["sent", "adopted", None, None]
        assert [row.not_as_sent for row in rows] == ["sent", None, None, None]
        is_live = state not in (State.SUPERSEDED, State.GONE)
        assert [row.id for row in ledger.metadata_drift.drifted()] == [sent] * is_live
        assert [row.id for row in ledger.metadata_drift.adopted()] == [adopted] * is_live


@pytest.mark.parametrize("statement", range(2, 13))
def test_killed_move_to_one_place_is_repeated(before_one_place, statement: int):
    path, add = before_one_place
    last = [add(assetid=assetid, audited_at=5.0, adopted_differs="it differs") for assetid in ("A", "B")][-1]
    _, *before = contents_of(path)
    command = [sys.executable, "-c", KILLED, str(path), str(statement)]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert contents_of(path)[1:] == before
    assert {assetid: found[2] for assetid, found in met(path).items()} == {"A": 5.0, "B": 5.0}
    assert uncounted(path) == set()
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT MAX(seq) FROM sqlite_sequence WHERE name = 'files'").fetchone() == (last,)


def test_renamed_facts_keep_their_values(old: Path):
    stop_before(old, "m020_renamed")
    names = {"quiet_plan": "folder_cache_plan", "quiet_since": "folder_cache_since", "contact_from": "listed_from"}
    with closing(sqlite3.connect(old)) as conn, conn:
        conn.executemany("INSERT INTO facts VALUES (?, ?)", [(name, f"of {name}") for name in names])
    with closing(sqlite3.connect(old)) as conn:
        schema.migrations.apply(sqlite_utils.Database(conn))
        facts = dict(conn.execute("SELECT name, value FROM facts"))
    assert {name: facts.get(new) for name, new in names.items()} == {name: f"of {name}" for name in names}
    assert names.keys() & facts.keys() == set()


def test_later_release_beside_an_older_daemon_advises_a_restart(tmp_path: Path, monkeypatch):
    """Another process could not migrate the ledger that the daemon of the older release holds."""
    path = tmp_path / "hq.db"
    with closing(open_ledger(path)):
        monkeypatch.setattr(integrity, "MIGRATIONS", integrity.MIGRATIONS | {"m999_later"})
        with pytest.raises(LedgerError, match="older release, whose daemon still runs") as caught:
            read_ledger(path)
    assert caught.value.hint.endswith("`systemctl restart assetsync@SITE`")
    with pytest.raises(LedgerError, match="older release") as caught:
        read_ledger(path)
    assert caught.value.hint.endswith("`systemctl start assetsync@SITE`")


@pytest.mark.parametrize("opened", [open_ledger, read_ledger])
def test_older_release_refuses_migrated_file(old: Path, monkeypatch, opened):
    with monkeypatch.context() as patched:
        release_later(patched)
        open_database(old, create=False).close()
    before = old.read_bytes()
    with pytest.raises(LedgerNewer, match="m002_tags"):
        opened(old)
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger: ledger.reports.counts(NOW),
        lambda ledger: ledger.queue.counts(NOW),
        lambda ledger: ledger.versions.size(),
    ],
    ids=["counts", "queue", "size"],
)
def test_counts_are_read_without_file_rows(book, ask):
    plans: list[str] = []
    with traced(book.ledger.store) as asked:
        ask(book.ledger)
    for sql in asked:
        plans += [row[3] for row in book.ledger.store.rows(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("counted" in plan for plan in plans)
    assert [plan for plan in plans if "files" in plan] == []


def uncounted(path: Path) -> set[tuple[object, ...]]:
    """What is counted and not there, or there and not counted."""
    with closing(sqlite3.connect(path)) as conn:
        counted = set(conn.execute("SELECT * FROM counted WHERE files <> 0 OR bytes <> 0"))
        there = "SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3"
        return counted ^ set(conn.execute(there))


def test_rows_before_counting_are_counted(old: Path):
    open_ledger(old).close()
    assert uncounted(old) == set()
    with closing(open_ledger(old)) as ledger:
        assert (ledger.versions.size(), ledger.queue.counts(NOW)) == (5, (2, 0))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE files SET state = 'verified' WHERE id < 4",
        "UPDATE files SET wanted = 'gone', state = 'blocked' WHERE id = 2",
        "UPDATE files SET destfolderid = 'G', size = size + 7 WHERE id > 2",
        "UPDATE files SET size = 0",
        "UPDATE files SET due_at = 7, drift = 'unread', path = path || 'x'",
        "UPDATE files SET state = state",
        "DELETE FROM files WHERE id IN (1, 5)",
        "DELETE FROM files",
    ],
)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_writes_of_any_tool_are_counted(book, change, end):
    for number in range(6):
        book.queue(f"{number}".encode(), folder="FG"[number % 2], size=10 + number)
    book.queue(b"0", size=99)
    book.accept(book.row(b"3"), "A3")
    with closing(sqlite3.connect(book.path, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        changed = conn.execute(change).rowcount
        conn.execute(end)
    assert changed > 0, change
    assert uncounted(book.path) == set()


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda ledger: ledger.reports.waiting_longest(), "f"),
        (lambda ledger: ledger.control_samples.read_back_last("F", 3), "files"),
    ],
    ids=["waits_longest", "read_back_last"],
)
def test_ends_of_a_state_are_found_by_index(book, ask, name):
    with traced(book.ledger.store) as asked:
        ask(book.ledger)
    plans = [row[3] for sql in asked for row in book.ledger.store.rows(f"EXPLAIN QUERY PLAN {sql}")]
    assert f"SEARCH {name} USING INDEX files_standing (destfolderid=? AND state=?)" in plans
    assert [plan for plan in plans if plan.startswith("SCAN") and plan != "SCAN c"] == []


@pytest.mark.parametrize("said", [{}, {"choice": NEWEST}, {"below": 100}, {"choice": NEWEST, "below": 100}], ids=str)
def test_due_query_uses_the_due_index(book, said):
    with traced(book.ledger.store) as asked:
        book.ledger.queue.due(NOW, 1, **said)
    plan = [row[3] for row in book.ledger.store.rows(f"EXPLAIN QUERY PLAN {asked[-1]}")]
    assert "USING INDEX files_due" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger: ledger.reports.count_adopted(),
        lambda ledger: next(ledger.metadata_drift.adopted(), None),
        lambda ledger: next(ledger.metadata_drift.adopted(b"a"), None),
    ],
    ids=["count", "all", "path"],
)
def test_adopted_differences_are_found_by_index(book, ask):
    with traced(book.ledger.store) as asked:
        ask(book.ledger)
    plans = [row[3] for sql in asked for row in book.ledger.store.rows(f"EXPLAIN QUERY PLAN {sql}")]
    assert len(plans) == 1
    assert plans[0].startswith("SEARCH files USING INDEX files_adopted_differs (wanted=?")


def test_drift_before_settlings_is_reread(old: Path):
    with closing(sqlite3.connect(old)) as conn, conn:
        conn.execute("UPDATE files SET drift = CASE WHEN id % 2 THEN 'its metadata changed' END")
    with closing(open_ledger(old)) as ledger:
        rows = ledger.store.rows("SELECT id % 2, drift FROM files")
        assert {tuple(row) for row in rows} == {(1, "unread"), (0, None)}
