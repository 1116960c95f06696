"""The reading connections: a fixed number for any number of threads."""

import os
import threading
import time
from pathlib import Path

import pytest

from assetsync.errors import LedgerError
from assetsync.ledger.file.database import Database, open_database
from assetsync.ledger.file.readers import MOST

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"


@pytest.fixture
def store(tmp_path: Path):
    store = open_database(tmp_path / "ledger.db", create=True)
    yield store
    store.close()


def open_files(store: Database) -> int:
    """Count the descriptors of this process that lead to the ledger's files."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(link.startswith(str(store.path)) for link in links)


def all_at_once(count: int, work) -> None:
    ready = threading.Barrier(count)

    def run() -> None:
        ready.wait(30)
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_open_no_connections(store):
    before, read = open_files(store), []
    for _ in range(5):
        all_at_once(20, lambda: read.extend(store.column("SELECT 1 FROM facts LIMIT 1")))
    assert len(read) == 100
    assert open_files(store) == before


def test_failed_query_returns_its_connection(store):
    for _ in range(2 * MOST):
        with pytest.raises(LedgerError):
            store.rows("SELECT absent FROM facts")
    all_at_once(MOST, lambda: store.rows("SELECT 1"))


def test_close_interrupts_a_running_query(store):
    raised: list[BaseException] = []

    def read() -> None:
        try:
            store.value(_ENDLESS)
        except LedgerError as error:
            raised.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    time.sleep(0.1)
    store.close()
    thread.join(30)
    assert len(raised) == 1
    assert open_files(store) == 0


def test_closed_ledger_opens_no_connection(store):
    store.close()
    with pytest.raises(LedgerError, match="closed"):
        store.rows("SELECT 1")
    assert open_files(store) == 0
