"""A ledger that is damaged on the disk is set aside and never sent by; one that is none is left where it lies."""

import errno
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.file import integrity, ledger_files
from assetsync.ledger.file.database import is_held, open_database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.ledger import open_ledger, read_ledger

PAGE = 4096


@pytest.fixture
def killed(book) -> Path:
    """A ledger of some 150 pages whose last holder was killed."""
    book.queue_many(f"folder/file number {number}".encode() for number in range(2000))
    book.ledger.close()
    code = "import os, sys; from pathlib import Path; from assetsync.ledger.ledger import open_ledger\n"
    code += "ledger = open_ledger(Path(sys.argv[1])); ledger.set_fact('x', 'y'); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(book.path)], check=False).returncode == 9
    return book.path


def checkpointed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def overwrite(path: Path, at: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(random.Random(7).randbytes(length))


def _pages(path: Path) -> None:
    checkpointed(path)
    overwrite(path, 80 * PAGE, 12 * PAGE)


def _cut(path: Path) -> None:
    checkpointed(path)
    os.truncate(path, path.stat().st_size // PAGE // 2 * PAGE)


def _header(path: Path) -> None:
    checkpointed(path)
    overwrite(path, 0, 100)


def _lost_entry_of_an_index(path: Path) -> None:
    checkpointed(path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA writable_schema = ON")
        sql = "UPDATE sqlite_master SET sql = replace(sql, 'UNIQUE INDEX files_current', 'INDEX files_current')"
        conn.execute(sql)
        root = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files_due'").fetchone()[0]
        conn.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'files_current'", (root,))
        conn.commit()


@pytest.mark.parametrize("harm", [_pages, _cut, _header, _lost_entry_of_an_index])
def test_damaged_ledger_is_set_aside(killed, harm):
    harm(killed)
    broken = killed.read_bytes()
    with pytest.raises(LedgerDamaged, match=r"set aside as .*\.damaged-.*reconcile --adopt") as caught:
        open_ledger(killed)
    (aside,) = (path for path in killed.parent.glob("*.damaged-*") if not path.name.endswith(("-wal", "-shm")))
    assert str(aside) in str(caught.value)
    assert len(aside.read_bytes()) == len(broken)
    # No log is left behind either, for the next ledger to take for its own.
    assert {path.name for path in killed.parent.glob("ledger.db*")} - {
        path.name for path in killed.parent.glob("*.damaged-*")
    } == {"ledger.db.epoch", "ledger.db.lock"}
    assert not is_held(killed)
    with closing(open_ledger(killed)) as anew:
        assert (anew.restored, anew.versions.size(), anew.folder_listings.needed("F")) == (True, 0, True)


def test_two_damaged_ledgers_keep_two_names(book):
    for _ in range(2):
        book.ledger.close()
        book.path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
        with pytest.raises(LedgerDamaged):
            open_ledger(book.path)
    assert len(list(book.path.parent.glob("*.damaged-*"))) == 2


def test_corrupt_log_is_dropped_and_relisted(killed):
    overwrite(killed.with_name(killed.name + "-wal"), 0, 32)
    with closing(open_ledger(killed)) as ledger:
        assert ledger.reports.fact("x") is None
        assert ledger.folder_listings.needed("F")


def looked_through(book, monkeypatch) -> bool:
    """Open the ledger once more, and tell whether all of it was looked at."""
    asked: list[str] = []
    number = integrity._number
    with monkeypatch.context() as patch:
        patch.setattr(integrity, "_number", lambda conn, question: asked.append(question) or number(conn, question))
        book.reopen()
    return "PRAGMA page_count" in asked


def found_whole(book, at: float) -> None:
    book.ledger.set_fact(integrity.FOUND_WHOLE, str(at))


def test_closed_ledger_is_checked_daily(book, monkeypatch):
    # The first holder made it.
    assert not looked_through(book, monkeypatch)
    found_whole(book, time.time() - 25 * 3600)
    assert looked_through(book, monkeypatch)
    assert not looked_through(book, monkeypatch)


@pytest.mark.parametrize("said", ["9e12", "yesterday", None], ids=["a clock set back", "no number", "nothing"])
def test_invalid_check_time_causes_a_check(book, monkeypatch, said):
    book.ledger.set_fact(integrity.FOUND_WHOLE, said)
    assert looked_through(book, monkeypatch)


def test_damage_is_found_within_a_day(book):
    book.queue_many(f"folder/file number {number}".encode() for number in range(2000))
    found_whole(book, time.time() - 25 * 3600)
    book.ledger.close()
    # It opens, and shows a file less: without the look the file would be taken for a new one.
    _lost_entry_of_an_index(book.path)
    with pytest.raises(LedgerDamaged, match="set aside as"):
        open_ledger(book.path)


def test_backup_under_newer_log_is_set_aside(book):
    book.queue_many(f"folder/file number {number}".encode() for number in range(200))
    book.ledger.close()
    copy = book.path.read_bytes()
    # The log of the later one has begun anew: what it holds is not all that it changed.
    code = "import os, sys; from pathlib import Path; from tests.ledger.conftest import Book\n"
    code += "book = Book(Path(sys.argv[1])); book.ledger.store._writer.execute('PRAGMA wal_autocheckpoint = 20')\n"
    code += "for number in range(300): book.accept(book.queue(b'later/%d' % number), f'A{number}')\n"
    code += "os._exit(9)"
    top = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code, str(book.path)], check=False, cwd=top).returncode == 9
    book.path.write_bytes(copy)
    with pytest.raises(LedgerDamaged, match="set aside as"):
        open_ledger(book.path)


def test_damage_in_use_forces_check_at_start(book):
    book.queue_many(f"folder/file number {number}".encode() for number in range(2000))
    book.ledger.close()
    overwrite(book.path, 80 * PAGE, 12 * PAGE)
    ledger = open_ledger(book.path)
    with pytest.raises(LedgerDamaged, match="sets it aside"):
        list(ledger.reports.files(history=True))
    ledger.close()
    with pytest.raises(LedgerDamaged, match="set aside as"):
        open_ledger(book.path)


def test_invalid_text_sets_ledger_aside(book):
    book.queue(b"a")
    # No index holds it, so that the checks of SQLite pass over it.
    book.ledger.store.write(lambda conn: conn.execute("UPDATE files SET detail = CAST(x'FF41' AS TEXT)"))
    with pytest.raises(LedgerDamaged, match="sets it aside"):
        list(book.ledger.reports.files(history=True))
    book.ledger.close()
    with pytest.raises(LedgerDamaged, match="set aside as"):
        open_ledger(book.path)


def test_repaired_damage_is_forgotten(book):
    book.ledger.store.found_damage = True
    for _ in range(2):
        book.reopen()
        assert book.ledger.reports.fact(integrity.DAMAGE_SEEN) is None


def test_unknown_state_is_reported_as_damage(book):
    book.queue(b"a")
    book.ledger.store.write(lambda conn: conn.execute("UPDATE files SET state = 'qugued'"))
    with pytest.raises(LedgerDamaged, match=r"row 1 of `files` says 'qugued'.*move it elsewhere"):
        list(book.ledger.reports.files())


@pytest.mark.parametrize("harm", ["DELETE FROM _sqlite_migrations", "ALTER TABLE files RENAME COLUMN rested_at TO x"])
def test_wrong_tables_are_damage(book, harm):
    book.ledger.close()
    with closing(sqlite3.connect(book.path)) as conn, conn:
        conn.execute(harm)
    with (
        pytest.raises(LedgerDamaged, match=r"is damaged \(.*move it elsewhere"),
        closing(open_ledger(book.path)) as ledger,
    ):
        list(ledger.reports.files())
    assert book.path.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "reconcile --adopt` makes a new one"), (b"\0" * 8192, "sets it aside"), (b"noise" * 2000, "sets it aside")],
    ids=["empty", "zeroes", "noise"],
)
def test_epoch_file_reveals_damaged_ledger(book, content, said):
    book.ledger.close()
    book.path.write_bytes(content)
    with pytest.raises(LedgerDamaged, match=f"the ledger .* is damaged .*{said}"):
        read_ledger(book.path)
    book.path.with_name(f"{book.path.name}.epoch").unlink()
    with pytest.raises(LedgerDamaged, match=r"is no ledger .* is the path right"):
        read_ledger(book.path)


def test_read_only_file_system_is_named(book, monkeypatch):
    book.ledger.close()
    opened = os.open

    def refuse(path: object, *flags: int, **said: int) -> int:
        if str(path).endswith(".lock"):
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, *flags, **said)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LedgerError, match=r"\(Read-only file system\): .* mount it for writing"):
        open_ledger(book.path)


def test_reader_leaves_damaged_ledger(killed):
    _pages(killed)
    before = killed.read_bytes()
    with closing(read_ledger(killed)) as reading, pytest.raises(LedgerDamaged):
        list(reading.reports.files(history=True))
    assert killed.read_bytes() == before
    assert not list(killed.parent.glob("*.damaged-*"))


def test_large_ledger_is_checked_faster(killed, monkeypatch):
    monkeypatch.setattr(integrity, "THOROUGH_AT_MOST", PAGE)
    seen: list[str] = []
    with closing(Handle(f"file:{killed}?mode=rw")) as handle:
        handle.conn.set_trace_callback(seen.append)
        integrity.expect_whole(handle, "", time.time())
    assert "PRAGMA quick_check(1)" in seen


def test_foreign_database_is_refused(tmp_path):
    path = tmp_path / "ledger.db"
    open_database(path, create=True).close()
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA application_id").fetchone()[0] == ledger_files.APPLICATION_ID
        conn.execute("PRAGMA application_id = 252006674")
    before = path.read_bytes()
    with pytest.raises(LedgerDamaged, match="another SQLite file"):
        open_database(path, create=True)
    assert path.read_bytes() == before


def test_failed_move_keeps_the_ledger(killed, monkeypatch):
    _pages(killed)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(LedgerError, match="cannot be set aside"):
        open_ledger(killed)
    assert killed.exists()


def test_damage_at_start_is_set_aside_next(book):
    book.ledger.close()
    with closing(sqlite3.connect(book.path)) as conn, conn:
        conn.execute("UPDATE facts SET value = CAST(x'FF' AS TEXT) WHERE name = 'start'")
    with pytest.raises(LedgerDamaged, match="sets it aside"):
        open_ledger(book.path)
    with pytest.raises(LedgerDamaged, match="set aside as"):
        open_ledger(book.path)


def test_reader_promises_no_setting_aside(book):
    book.queue(b"a")
    book.ledger.store.write(lambda conn: conn.execute("UPDATE files SET detail = CAST(x'FF41' AS TEXT)"))
    book.ledger.close()
    with (
        closing(read_ledger(book.path)) as ledger,
        pytest.raises(LedgerDamaged, match="stop what sends for it and move it elsewhere"),
    ):
        list(ledger.reports.files())
    open_ledger(book.path).close()


def test_missing_migration_list_is_damage(book):
    book.ledger.close()
    with closing(sqlite3.connect(book.path)) as conn, conn:
        conn.execute("DROP TABLE _sqlite_migrations")
    with pytest.raises(LedgerDamaged, match=r"is damaged .*move it elsewhere"):
        open_ledger(book.path)


@pytest.mark.parametrize("table", ["facts", "files"])
def test_missing_table_is_damage(book, table):
    book.ledger.close()
    with closing(sqlite3.connect(book.path)) as conn, conn:
        conn.execute(f"DROP TABLE {table}")
    with pytest.raises(LedgerDamaged, match=rf"is damaged \(no such table: (main\.)?{table}\).*move it elsewhere"):
        open_ledger(book.path)
    assert not is_held(book.path)
