"""The ledger's file: commits in groups, one holder, nothing left behind by readers.

Covers `ledger/file/group_commit.py`.
"""

import errno
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assetsync.core.states import Event
from assetsync.errors import IllegalTransition, LedgerBusy, LedgerDamaged, LedgerError, LedgerMissing, LedgerNewer
from assetsync.ledger.file.database import Database, is_held, open_beside, open_database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.file.integrity import FOUND_WHOLE, MIGRATIONS
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.ledger.rows import apply


@pytest.fixture
def store(tmp_path: Path):
    store = open_database(tmp_path / "ledger.db", create=True)
    yield store
    store.close()


def put(store: Database, name: str, value: str = "v") -> None:
    store.write(lambda conn: conn.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (name, value)))


def names(store: Database) -> set[str]:
    """Give the facts that were put, without the one that each opening writes."""
    return {row[0] for row in store.rows("SELECT name FROM facts WHERE name != ?", FOUND_WHOLE)}


def in_threads(count: int, work) -> list[BaseException]:
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - compared by the test
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return raised


def test_writes_are_durable_on_return(store: Database):
    def work(number: int) -> None:
        for turn in range(10):
            name = f"{number}-{turn}"
            put(store, name)
            assert store.rows("SELECT COUNT(*) FROM facts WHERE name = ?", name)[0][0] == 1

    assert in_threads(16, work) == []
    assert len(names(store)) == 160


def test_concurrent_writes_share_a_commit(store: Database):
    """Eighteen threads wait while another thread's transaction is open; one commit takes all of their writes."""
    commits: list[str] = []
    store._writer.conn.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    held = threading.Event()
    let_go = threading.Event()

    def first(conn: Handle) -> None:
        held.set()
        let_go.wait(10)

    def work(number: int) -> None:
        if number == 0:
            store.write(first)
            return
        held.wait(10)
        if number == 19:
            while len(store._commits._queue) < 18:
                pass
            let_go.set()
            return
        put(store, str(number))

    assert in_threads(20, work) == []
    assert len(names(store)) == 18
    assert len(commits) == 2


@pytest.mark.parametrize("failure", [ValueError("mine"), IllegalTransition("mine"), KeyError("mine")])
def test_failed_write_undoes_only_itself(store: Database, failure: Exception):
    chance = random.Random(3)

    def work(number: int) -> None:
        def piece(conn: Handle) -> None:
            conn.execute("INSERT INTO facts (name) VALUES (?)", (str(number),))
            if number % 3 == 0:
                raise failure

        for _ in range(chance.randrange(3)):
            store.rows("SELECT 1")
        store.write(piece)

    assert in_threads(24, work) == [failure] * 8
    assert names(store) == {str(n) for n in range(24) if n % 3}


def test_write_beside_failed_one_is_done_once(store: Database):
    def first(conn: Handle) -> int | None:
        return conn.execute("INSERT INTO hours (hour, uploads, bytes) VALUES (NULL, 1, 1)").lastrowid

    def broken(conn: Handle) -> None:
        conn.execute("INSERT INTO hours (hour, uploads, bytes) VALUES (NULL, 2, 2)")
        raise ValueError("mine")

    def last(conn: Handle) -> int:
        return conn.execute("UPDATE hours SET uploads = uploads + 10").rowcount

    handed_in = [store.submit(first), store.submit(broken), store.submit(last)]
    with pytest.raises(ValueError, match="mine"):
        handed_in[1].result()
    assert [tuple(row) for row in store.rows("SELECT hour, uploads, bytes FROM hours")] == [(1, 11, 1)]
    assert (handed_in[0].result(), handed_in[2].result()) == (1, 1)


def test_failed_commit_never_reports_success(store: Database):
    with closing(sqlite3.connect(store.path)) as another, another:
        another.execute("DROP TABLE hours")
    # What the error means is looked up in the lock, which cannot be read either.
    lock = store.path.with_name(store.path.name + ".lock")
    lock.unlink()
    lock.symlink_to(lock.name)
    handed_in = [
        store.submit(lambda conn: conn.execute("INSERT INTO facts (name, value) VALUES ('a', 'v')").lastrowid),
        store.submit(lambda conn: conn.execute("DELETE FROM hours")),
    ]
    for piece in reversed(handed_in):
        with pytest.raises(LedgerError):
            piece.result()
    assert names(store) == set()


def test_constraint_error_affects_one_write(store: Database):
    put(store, "a")
    with pytest.raises(LedgerError, match="UNIQUE"):
        put(store, "a")
    put(store, "b")
    assert names(store) == {"a", "b"}


def test_illegal_event_changes_nothing(book):
    row = book.queue(b"a")
    with pytest.raises(IllegalTransition):
        book.ledger.store.write(lambda conn: apply(conn, row.id, Event.ACCEPTED, 1.0, assetid="A"))
    assert book.row(b"a") == row


def test_ledger_recovers_from_a_full_disk(tmp_path: Path):
    store = open_database(tmp_path / "ledger.db", create=True)
    put(store, "before")
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(LedgerError, match="full"):
        store.write(
            lambda conn: conn.execute_each(
                "INSERT INTO facts (name, value) VALUES (?, ?)", [(f"x{n}", "v" * 500) for n in range(200)]
            )
        )
    assert names(store) == {"before"}
    store._writer.execute(f"PRAGMA max_page_count = {pages + 1000}")
    put(store, "after")
    assert names(store) == {"before", "after"}
    store.close()


def test_commit_failure_reaches_all_threads(store: Database):
    def broken(conn: Handle) -> None:
        conn.execute("INSERT INTO facts (name) VALUES ('shared')")
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(LedgerError, match="disk I/O error"):
        store.write(broken)
    assert names(store) == set()


@pytest.mark.parametrize("how", ["store", "process"])
def test_a_second_holder_is_turned_away(tmp_path: Path, how: str):
    path = tmp_path / "ledger.db"
    with_lock = open_database(path, create=True)
    if how == "store":
        with pytest.raises(LedgerBusy):
            open_database(path, create=True)
    else:
        code = (
            "import sys; from pathlib import Path; from assetsync.errors import LedgerBusy\n"
            "from assetsync.ledger.file.database import open_database\n"
            "try: open_database(Path(sys.argv[1]), create=True)\nexcept LedgerBusy: sys.exit(4)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 4
    with_lock.close()
    open_database(path, create=False).close()


def test_lock_check_does_not_block_a_holder(tmp_path: Path):
    """Two threads ask whether the ledger is held, and a third opens it sixty times."""
    path = tmp_path / "ledger.db"
    open_database(path, create=True).close()
    done = threading.Event()

    def look(_number: int) -> None:
        while not done.is_set():
            is_held(path)
            time.sleep(0.002)

    def start(_number: int) -> None:
        try:
            for _ in range(60):
                open_database(path, create=False).close()
        finally:
            done.set()

    assert in_threads(3, lambda number: start(number) if number == 0 else look(number)) == []


def test_lock_check_creates_nothing(tmp_path: Path):
    path = tmp_path / "ledger.db"
    assert is_held(path) is False
    assert list(tmp_path.iterdir()) == []
    store = open_database(path, create=True)
    assert store.holds_lock
    assert is_held(path) is True
    store.close()
    assert is_held(path) is False


@pytest.mark.parametrize("ask", [is_held, lambda path: open_database(path, create=False)], ids=["reader", "holder"])
def test_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch, ask):
    path = tmp_path / "ledger.db"
    open_database(path, create=True).close()

    def fail(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LedgerError, match="No locks available") as found:
        ask(path)
    assert "local disk" in found.value.hint
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("opened", [open_beside, read_ledger, lambda path: open_database(path, create=False)])
def test_readers_create_no_ledger(tmp_path: Path, opened):
    with pytest.raises(LedgerMissing, match="there is no ledger at"):
        opened(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_no_files_behind(tmp_path: Path):
    path = tmp_path / "ledger.db"
    open_ledger(path).close()
    before = sorted(tmp_path.iterdir())
    reading = read_ledger(path)
    assert reading.reports.counts(0.0).states == {}
    assert sorted(tmp_path.iterdir()) == before
    reading.close()
    assert sorted(tmp_path.iterdir()) == before
    assert not [name for name in before if name.name.endswith(("-wal", "-shm"))]


def test_reader_beside_holder_sees_commits(tmp_path: Path):
    path = tmp_path / "ledger.db"
    holder = open_ledger(path)
    reading = read_ledger(path)
    holder.set_fact("a", "1")
    assert reading.reports.fact("a") == "1"
    reading.close()
    holder.close()


def test_log_left_by_unclean_stop_is_read(tmp_path: Path):
    path = tmp_path / "ledger.db"
    code = (
        "import os, sys; from pathlib import Path; from assetsync.ledger.ledger import open_ledger\n"
        "open_ledger(Path(sys.argv[1])).set_fact('a', '1'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    assert path.with_name("ledger.db-wal").stat().st_size > 0
    reading = read_ledger(path)
    assert reading.reports.fact("a") == "1"
    reading.close()
    ledger = open_ledger(path)
    assert ledger.reports.fact("a") == "1"
    ledger.close()


def test_a_reader_cannot_write(tmp_path: Path):
    path = tmp_path / "ledger.db"
    open_ledger(path).close()
    reading = open_beside(path)
    with pytest.raises(LedgerError):
        reading.rows("DELETE FROM facts RETURNING name")
    reading.close()


def test_request_is_recorded_beside_holder(tmp_path: Path):
    path = tmp_path / "ledger.db"
    holder = open_ledger(path)
    beside = read_ledger(path, writable=True)
    number = beside.add_request("retry", {"paths": ["61"]}, 5.0)
    beside.close()
    asked = holder.open_requests()
    assert [(r.id, r.verb, r.argument) for r in asked] == [(number, "retry", {"paths": ["61"]})]
    holder.answer_request(number, "done", 6.0)
    assert holder.open_requests() == []
    holder.close()


def test_ledger_files_are_private_to_owner(tmp_path: Path):
    before = os.umask(0)
    try:
        ledger = open_ledger(tmp_path / "ledger.db")
        ledger.set_fact("a", "1")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    ledger.close()
    assert {"ledger.db", "ledger.db-wal", "ledger.db.lock", "ledger.db.epoch"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_migrations_are_applied_once(tmp_path: Path):
    path = tmp_path / "ledger.db"
    open_database(path, create=True).close()
    store = open_database(path, create=True)
    applied = store.rows("SELECT name FROM _sqlite_migrations WHERE migration_set = 'assetsync'")
    store.close()
    assert {row[0] for row in applied} == MIGRATIONS
    assert len(applied) == len(MIGRATIONS)


def _from_the_future(path: Path) -> None:
    open_database(path, create=True).close()
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('assetsync', 'm999_new', '')"
        )


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is a text and no ledger " * 100)


def _other_database(path: Path) -> None:
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE files (name TEXT)")
    conn.commit()
    conn.close()


@pytest.mark.parametrize(
    ("make", "error"), [(_from_the_future, LedgerNewer), (_garbage, LedgerDamaged), (_other_database, LedgerDamaged)]
)
@pytest.mark.parametrize("opened", [lambda path: open_database(path, create=True), open_beside])
def test_foreign_file_is_refused(tmp_path: Path, make, error, opened):
    path = tmp_path / "ledger.db"
    make(path)
    with pytest.raises(error, match=r"ledger\.db"):
        opened(path)
    if make is _garbage:
        assert path.read_bytes().startswith(b"this is a text")
    assert is_held(path) is False


def test_damage_in_the_middle_is_reported(book, tmp_path: Path):
    book.queue_many(f"folder/file number {number}".encode() for number in range(2000))
    book.ledger.close()
    content = bytearray(book.path.read_bytes())
    middle = len(content) // 8192 * 4096
    content[middle : middle + 4096 * 16] = os.urandom(4096 * 16)
    book.path.write_bytes(content)
    damaged = read_ledger(book.path)
    with pytest.raises(LedgerDamaged, match="reconcile --adopt"):
        list(damaged.reports.files(history=True))
    damaged.close()
    book.path.unlink()
    book.ledger = open_ledger(book.path)


PATHS = st.lists(
    st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path), unique=True, min_size=1, max_size=8
)


@given(paths=PATHS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_path_bytes_are_kept_in_byte_order(make_book, paths: list[bytes]):
    book = make_book(f"{os.urandom(4).hex()}.db")
    for path in paths:
        book.queue(path)
    assert [row.path for row in book.ledger.reports.files()] == sorted(paths)
    assert [known.path for known in book.ledger.versions.current()] == sorted(paths)
    book.ledger.close()


def test_pages_return_each_row_once(book):
    book.queue_many(f"{number:05}".encode() for number in range(2500))
    seen = []
    for row in book.ledger.reports.files():
        seen.append(row.path)
        if len(seen) == 1200:
            book.queue(b"99999")
    assert seen == [f"{n:05}".encode() for n in range(2500)] + [b"99999"]


def test_unwritable_folder_is_one_sentence(tmp_path: Path):
    with pytest.raises(LedgerError, match="create the fold"):
        open_database(tmp_path / "nowhere" / "ledger.db", create=True)


def test_full_disk_at_opening_is_no_damage(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("needs a small file system, and root to mount it")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(small)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(LedgerError) as caught:
            open_database(small / "ledger.db", create=True)
        assert not isinstance(caught.value, LedgerDamaged)
        assert "full" in str(caught.value)
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_use_by_root_keeps_the_owner(tmp_path: Path):
    path = tmp_path / "ledger.db"
    open_ledger(path).close()
    for file in tmp_path.iterdir():
        os.chown(file, 65534, 65534)
    open_ledger(path).close()
    assert {file.name: (file.stat().st_uid, file.stat().st_gid) for file in tmp_path.iterdir()} == dict.fromkeys(
        ("ledger.db", "ledger.db.lock", "ledger.db.epoch"), (65534, 65534)
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_ledger_of_root_gets_folder_owner(tmp_path: Path):
    os.chown(tmp_path, 65534, 65533)
    with closing(open_ledger(tmp_path / "hq.db")):
        assert {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()} == dict.fromkeys(
            ("hq.db", "hq.db-wal", "hq.db-shm", "hq.db.lock", "hq.db.epoch"), (65534, 65533)
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_lock_of_root_gets_ledger_owner(tmp_path: Path):
    path = tmp_path / "hq.db"
    open_ledger(path).close()
    os.chown(path, 65534, 65533)
    path.with_name("hq.db.lock").unlink()
    open_ledger(path).close()
    assert path.with_name("hq.db.lock").stat().st_uid == 65534


def test_failed_chown_does_not_block_start(tmp_path: Path, monkeypatch):
    def refuse(*_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", refuse)
    open_ledger(tmp_path / "hq.db").close()


@pytest.mark.parametrize("name", ["hq.db", "hq.db.lock"])
def test_root_keeps_owner_of_existing_files(tmp_path: Path, monkeypatch, name):
    (tmp_path / name).touch(mode=0o600)
    handed: list[int] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda fd, *_: handed.append(os.fstat(fd).st_ino))
    inode = (tmp_path / name).stat().st_ino
    open_ledger(tmp_path / "hq.db").close()
    assert handed
    assert inode not in handed


@pytest.mark.parametrize(
    ("number", "fix"), [(errno.EACCES, "run as the user that owns it"), (errno.EIO, "check its disk")]
)
def test_unopenable_ledger_names_the_fix(tmp_path: Path, monkeypatch, number, fix):
    path = tmp_path / "hq.db"
    open_ledger(path).close()
    opened = os.open

    def refuse(what: object, *flags: int, **said: int) -> int:
        if what == path:
            raise OSError(number, os.strerror(number))
        return opened(what, *flags, **said)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LedgerError, match=rf"cannot be opened \({os.strerror(number)}\): {fix}"):
        open_ledger(path)
