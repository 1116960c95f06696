"""What keeps a ledger's files in place while a process has them open, and what happens when they are not."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.errors import LedgerDamaged, LedgerDetached, LedgerUnwritable
from assetsync.ledger.file.database import open_beside
from assetsync.ledger.ledger import open_ledger, read_ledger
from tests.locks import holds_shared, open_and_close


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_failed_opening_leaves_nothing_open(book, monkeypatch):
    """The error keeps its traceback, and that all that the failed call knew: a connection must be closed by then."""
    monkeypatch.setattr("assetsync.ledger.file.handle.BUSY_SECONDS", 0.05)
    book.ledger.close()
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA locking_mode=EXCLUSIVE'); c.execute('BEGIN EXCLUSIVE'); print(flush=True); input()"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(book.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    held.stdout.readline()
    with pytest.raises(LedgerUnwritable) as kept:
        open_ledger(book.path)
    opened = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [path for path in opened if str(path).startswith(str(book.path))] == []
    held.communicate("\n")
    book.ledger = open_ledger(book.path)
    assert kept.value.__traceback__ is not None
    assert holds_shared(os.getpid(), book.path)


def _read_no_table(book) -> None:
    with pytest.raises(LedgerDamaged):
        book.ledger.store.rows("SELECT * FROM nowhere")


def _open_beside(book) -> None:
    open_beside(book.path, writable=True).close()
    read_ledger(book.path).close()


def _fail_to_read(book) -> None:
    store = open_beside(book.path)
    with pytest.raises(LedgerDamaged):
        store.rows("SELECT nowhere FROM facts")
    store.close()


@pytest.mark.parametrize("look", [_read_no_table, _open_beside, _fail_to_read])
def test_look_in_the_same_process_keeps_the_lock(book, look):
    assert holds_shared(os.getpid(), book.path)
    look(book)
    assert holds_shared(os.getpid(), book.path)


def test_log_survives_a_lock_that_was_dropped(book):
    """Whatever else in the process opens and closes the database, no other program can delete its log."""
    book.queue(b"a")
    book.path.open("rb").close()
    assert not holds_shared(os.getpid(), book.path)
    inode = log_of(book.path).stat().st_ino
    open_and_close(book.path)
    assert log_of(book.path).stat().st_ino == inode
    book.queue(b"b")


def test_clean_stop_leaves_no_log(book):
    book.queue(b"a")
    book.ledger.close()
    assert sorted(path.name for path in book.path.parent.iterdir()) == [
        book.path.name,
        f"{book.path.name}.epoch",
        f"{book.path.name}.lock",
    ]


def _delete_log(path: Path) -> None:
    log_of(path).unlink()


def _replace_log(path: Path) -> None:
    log_of(path).rename(path.with_name("elsewhere"))
    log_of(path).touch()


def _replace_database(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize("change", [_delete_log, _replace_log, _replace_database])
def test_commit_into_a_detached_file_is_no_success(book, change):
    book.queue(b"a")
    change(book.path)
    for name in (b"b", b"c"):
        with pytest.raises(LedgerDetached, match="deleted or replaced while this process had it open"):
            book.queue(name)
    book.ledger.close()
    book.ledger = open_ledger(book.path)
    assert book.ledger.folder_listings.needed("F")


def test_close_overwrites_nothing_after_the_log_was_replaced(book):
    """SQLite checkpoints at the last close: pages of a deleted log must not go over what others have written since."""
    for number in range(50):
        book.queue(b"%d" % number)
    log_of(book.path).unlink()
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA wal_checkpoint(TRUNCATE)');"
        "c.execute(\"INSERT INTO facts VALUES ('other', 'kept')\"); c.commit(); c.close()"
    )
    book.path.with_name(book.path.name + "-shm").unlink()
    subprocess.run([sys.executable, "-c", code, str(book.path)], check=True)
    before = book.path.read_bytes(), log_of(book.path).exists()
    with pytest.raises(LedgerDetached):
        book.queue(b"more")
    book.ledger.close()
    assert (book.path.read_bytes(), log_of(book.path).exists()) == before
    with closing(sqlite3.connect(book.path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert conn.execute("SELECT value FROM facts WHERE name = 'other'").fetchone() == ("kept",)
    book.ledger = open_ledger(book.path)
