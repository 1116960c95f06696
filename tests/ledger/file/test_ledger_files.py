"""A ledger whose log has filled its disk, and what is told of the room there is."""

import sqlite3
from pathlib import Path

import pytest

from assetsync.errors import LedgerError
from assetsync.ledger.file.ledger_files import without_room
from tests.ledger.conftest import NOW


def test_log_filling_disk_is_checkpointed(book):
    for number in range(50):
        book.queue(b"%d" % number)
    log = book.ledger.store.path.with_name(book.ledger.store.path.name + "-wal")
    size = log.stat().st_size

    def full(_conn: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(LedgerError, match="disk is full"):
        book.ledger.store.write(full)
    for number in range(50, 60):
        book.queue(b"%d" % number)
    # It begins anew: nothing was appended.
    assert log.stat().st_size == size
    assert len(book.ledger.queue.due(NOW, 100)) == 60


@pytest.mark.parametrize("place", ["/proc", "/not/there"])
def test_disk_without_room_count_is_not_full(place):
    assert without_room(Path(place) / "ledger.db") is None


def test_a_disk_with_room_is_not_full(tmp_path):
    assert without_room(tmp_path / "ledger.db") is None
