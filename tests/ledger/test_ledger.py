"""A holder's session: starts are counted, a restored copy is noticed, brakes and facts are kept.

Covers `ledger/file/facts.py`.
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.core.states import Event
from assetsync.errors import LedgerError
from assetsync.ledger.file import ledger_files as epochs
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.model import State

from .conftest import NOW


def epoch(book):
    return book.path.with_name(book.path.name + ".epoch")


def test_start_number_grows_and_is_copied(book):
    assert (book.ledger.start_no, epoch(book).read_text()) == (1, "1")
    assert book.reopen().start_no == 2
    assert epoch(book).read_text() == "2"
    assert not book.ledger.restored


def touch(book) -> None:
    """Write the number anew, as a program that puts a backup back does."""
    epoch(book).write_text(epoch(book).read_text())


@pytest.mark.parametrize(
    ("change", "start", "restored"),
    [
        (lambda book: None, 2, False),
        (lambda book: epoch(book).write_text("7"), 8, True),
        (lambda book: epoch(book).unlink(), 2, True),
        (touch, 2, True),
        (lambda book: book.path.unlink(), 2, True),
        (lambda book: (book.path.unlink(), epoch(book).unlink()), 1, False),
    ],
    ids=["as_it_was", "behind_its_copy", "without_its_copy", "put_back_with_its_copy", "lost", "new"],
)
def test_restored_ledger_is_relisted(book, change, start, restored):
    book.ledger.folder_listings.made("F")
    book.ledger.close()
    change(book)
    book.ledger = open_ledger(book.path)
    assert (book.ledger.start_no, book.ledger.restored) == (start, restored)
    assert book.ledger.folder_listings.needed("F") is (restored or start == 1)


def roll_back(book, copy: dict[Path, bytes]) -> None:
    """Put the ledger and its number back, with the time that only a disk that is rolled back as a whole has."""
    for path, content in copy.items():
        path.write_bytes(content)
    with closing(sqlite3.connect(book.path)) as conn, conn:
        changed = str(epoch(book).stat().st_ctime_ns)
        conn.execute("UPDATE facts SET value = ? WHERE name = 'clean_stop'", (changed,))


def beside_nothing(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def of_another_boot(folder: Path) -> None:
    for path in folder.iterdir():
        _, number = path.read_text().split()
        path.write_text(f"00000000-0000-0000-0000-000000000000 {number}")


def without_a_number(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"\xff\x00 \xb2")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{folder}:/nowhere")
    return folder


def test_rolled_back_disk_is_known_by_the_number_outside(runtime, book):
    book.reopen().folder_listings.made("F")
    book.ledger.close()
    copy = {path: path.read_bytes() for path in (book.path, epoch(book))}
    for _ in range(3):
        book.ledger = open_ledger(book.path)
        book.ledger.close()
    roll_back(book, copy)
    book.ledger = open_ledger(book.path)
    assert (book.ledger.start_no, book.ledger.restored) == (6, True)
    assert book.ledger.folder_listings.needed("F")


@pytest.mark.parametrize(
    ("change", "unconfirmed"),
    [
        (lambda folder: None, False),
        (beside_nothing, True),
        (of_another_boot, True),
        (without_a_number, True),
    ],
    ids=["as_it_was", "emptied", "of_another_boot", "spoilt"],
)
def test_unconfirmed_clean_stop_lists_each_folder_once(runtime, book, change, unconfirmed):
    book.ledger.folder_listings.made("F")
    book.ledger.close()
    change(runtime)
    book.ledger = open_ledger(book.path)
    assert (book.ledger.restored, book.ledger.unconfirmed) == (False, unconfirmed)
    assert book.ledger.folder_listings.needed("F") is unconfirmed
    book.ledger.folder_listings.made("F")
    assert not book.reopen().folder_listings.needed("F")


def test_start_that_cannot_write_outside_confirms_nothing(runtime, book):
    """Its number would stay behind, and confirm a ledger that is rolled back to the one before."""
    book.ledger.folder_listings.made("F")
    book.ledger.close()
    (kept,) = runtime.iterdir()
    (runtime / f"{kept.name}.new").mkdir()
    book.ledger = open_ledger(book.path)
    assert book.ledger.folder_listings.needed("F")
    assert not kept.exists()


def test_number_outside_is_for_its_owner_alone(runtime, book):
    (kept,) = runtime.iterdir()
    assert (runtime.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)
    assert kept.name.startswith(f"{book.path.name}-")


def test_scratch_ledger_leaves_nothing_outside(runtime, tmp_path):
    open_ledger(tmp_path / "scratch.db", is_scratch=True).close()
    assert not runtime.exists()


def test_folder_on_the_same_disk_is_not_outside(tmp_path, monkeypatch):
    """Without systemd, the folder of the user's session counts only if it lies on another file system."""
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    monkeypatch.setattr(epochs, "RUNTIME", tmp_path / "run" / "assetsync")
    (tmp_path / "run").mkdir()
    open_ledger(tmp_path / "hq.db").close()
    assert list((tmp_path / "run").iterdir()) == []
    with closing(open_ledger(tmp_path / "hq.db")) as ledger:
        assert ledger.unconfirmed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start for several owners")
def test_folder_outside_belongs_to_ledger_owner(tmp_path, other_disk, monkeypatch):
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    shared = other_disk / "assetsync"
    monkeypatch.setattr(epochs, "RUNTIME", shared)
    shared.mkdir(0o700)
    os.chown(shared, 50_001, 50_001)
    for name, owner, folder in (("alice", 50_001, shared), ("bob", 50_002, Path(f"{shared}-50002"))):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, owner, owner)
        open_ledger(tmp_path / name / "hq.db").close()
        assert folder.stat().st_uid == owner
        assert [path.name.partition("-")[0] for path in folder.iterdir()] == ["hq.db"]


def test_backup_of_held_ledger_is_relisted(book, tmp_path):
    book.ledger.folder_listings.made("F")
    with closing(sqlite3.connect(book.path)) as source, closing(sqlite3.connect(tmp_path / "backup")) as copy:
        source.backup(copy)
    book.ledger.close()
    (tmp_path / "backup").replace(book.path)
    book.ledger = open_ledger(book.path)
    assert not book.ledger.restored, "nothing tells it from a process that was killed"
    assert book.ledger.folder_listings.needed("F")


def test_killed_process_relists_folders_once(book):
    book.ledger.folder_listings.made("F")
    book.ledger.close()
    code = "import os, sys; from pathlib import Path; from assetsync.ledger.ledger import open_ledger\n"
    code += "open_ledger(Path(sys.argv[1])); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(book.path)], check=False)
    book.ledger = open_ledger(book.path)
    assert book.ledger.folder_listings.needed("F")
    book.ledger.folder_listings.made("F")
    assert not book.reopen().folder_listings.needed("F")


@pytest.mark.parametrize("torn", [b"", b"5"], ids=["before_it_was_written", "written_before_this_start"])
def test_torn_start_is_no_restored_ledger(book, torn):
    book.reopen()
    book.ledger.set_fact("start", "9")
    book.ledger.close()
    (book.path.with_name(book.path.name + ".epoch.new")).write_bytes(torn)
    book.ledger = open_ledger(book.path)
    assert (book.ledger.start_no, book.ledger.restored) == (10, False)
    assert epoch(book).read_text() == "10"


def test_invalid_epoch_file_releases_lock(book):
    book.ledger.close()
    epoch(book).write_text("three")
    with pytest.raises(LedgerError, match="does not hold a number"):
        open_ledger(book.path)
    epoch(book).unlink()
    book.ledger = open_ledger(book.path)


def test_a_reader_counts_no_start(book):
    read_ledger(book.path).close()
    assert book.reopen().start_no == 2


def test_brake_is_pulled_once_per_subject(book):
    ledger = book.ledger
    pulled = [ledger.pull_brake("vanished", subject, "why", 7, NOW) for subject in ("a", "a", "b")]
    assert pulled == [True, False, True]
    first = ledger.reports.brakes()[0]
    assert (ledger.resume(first.id, NOW + 1), ledger.resume(first.id, NOW + 1), ledger.resume(None, NOW + 2)) == (
        1,
        0,
        1,
    )
    assert ledger.pull_brake("vanished", "a", "again", 9, NOW + 3) is True


def test_largest_released_amount_is_allowed(book):
    ledger = book.ledger
    for amount, at in ((9, NOW), (5, NOW + 10), (7, NOW + 20)):
        ledger.pull_brake("vanished", "a", "why", amount, at)
        ledger.resume(None, at)
    assert [ledger.resumed_amount("vanished", "a", since) for since in (NOW, NOW + 5, NOW + 21)] == [9, 7, None]
    assert ledger.resumed_amount("vanished", "b", NOW) is None


def test_other_allowances_can_be_withdrawn(book):
    ledger = book.ledger
    for kind, subject in (("takeover", "kept"), ("takeover", "other"), ("vanished", "other")):
        ledger.pull_brake(kind, subject, "why", 7, NOW)
    ledger.resume(None, NOW)
    ledger.pull_brake("takeover", "waits", "why", 7, NOW)
    ledger.withdraw_others("takeover", ["kept"])
    assert [ledger.resumed_amount("takeover", subject, NOW) for subject in ("kept", "other")] == [7, 0]
    assert ledger.resumed_amount("vanished", "other", NOW) == 7
    assert [(brake.subject, brake.amount) for brake in ledger.reports.brakes()] == [("waits", 7)]


def test_history_and_unmapped_count_apart(book):
    """Past versions and files outside all mappings are not counted among a folder's states."""
    stands = {
        b"stored": ("stored", "yes"),
        b"queued": ("queued", "yes"),
        b"blocked": ("blocked", "yes"),
        b"blocked and gone": ("blocked", "gone"),
        b"blocked and not mapped": ("blocked", "unmapped"),
        b"queued and not mapped": ("queued", "unmapped"),
        b"in doubt and replaced": ("in_doubt", "replaced"),
        b"gone": ("gone", "gone"),
    }
    rows = [(*stand, book.queue(path).id) for path, stand in stands.items()]
    change = "UPDATE files SET state = ?, wanted = ? WHERE id = ?"
    book.ledger.store.write(lambda conn: conn.execute_each(change, rows))
    counts = book.ledger.reports.counts(NOW)
    assert counts.states == {State.STORED: 1, State.QUEUED: 1, State.BLOCKED: 2}
    assert counts.folders == {"F": {State.STORED: 1, State.QUEUED: 1, State.BLOCKED: 1}}
    assert counts.unresolved_history == 1
    assert book.ledger.reports.count_blocked() == len(book.ledger.reports.blocked(10)) == 2
    assert book.ledger.reports.waiting_longest().path == b"stored"
    assert (book.ledger.queue.counts(NOW), book.ledger.versions.size()) == ((1, 0), 3)


def test_hold_without_files_is_not_listed(book):
    row = book.queue(b"a")
    hold = Hold("unlisted", "why", NOW, NOW + 60)
    book.ledger.queue.hold_folder("F", hold)
    assert book.ledger.reports.holds(NOW) == {"F": hold}
    book.ledger.versions.unwanted([(row.id, b"a")], Event.VANISHED, NOW)
    assert book.ledger.reports.holds(NOW) == {}


def test_weekly_recount_repairs_counts(book):
    for path in (b"a", b"b"):
        book.queue(path)
    # REPLACE fires no trigger for the row that it takes away.
    book.ledger.store.write(lambda conn: conn.execute("REPLACE INTO files SELECT * FROM files WHERE path = x'61'"))
    assert book.ledger.versions.size() == 3
    book.ledger.folder_cache.begin("plan", NOW)
    assert book.ledger.versions.size() == 2
