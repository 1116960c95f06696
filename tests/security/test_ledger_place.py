"""The ledger and what lies beside it, where others may have put something in its place."""

import os
import stat
from pathlib import Path

import pytest

from assetsync.errors import LedgerBusy, LedgerError
from assetsync.ledger.file.database import is_held
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.sync.requests.take import take_requests

BESIDE = ("site.db", "site.db.lock", "site.db.epoch", "site.db.epoch.new")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "site.db"


def beside(path: Path, name: str) -> Path:
    return path.with_name(name)


def make(path: Path) -> None:
    open_ledger(path).close()


def test_ledger_files_are_always_private(path):
    before = os.umask(0)
    try:
        ledger = open_ledger(path)
        ledger.set_fact("a", "b")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        ledger.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("site.db", "site.db-wal", "site.db-shm", "site.db.lock", "site.db.epoch"), 0o600)


def test_left_empty_file_keeps_ledger_private(path):
    path.touch()
    path.chmod(0o644)
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_group_access_to_ledger_is_kept(path):
    make(path)
    path.chmod(0o640)
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_pipe_in_place_of_file_blocks_nothing(path, within, name, known):
    if known:
        make(path)
    beside(path, name).unlink(missing_ok=True)
    os.mkfifo(beside(path, name))
    for work in (lambda: make(path), lambda: read_ledger(path).close(), lambda: is_held(path)):
        result = within(60, work)
        assert result is None or result is False or isinstance(result, LedgerError)


@pytest.mark.parametrize("name", BESIDE)
def test_link_to_foreign_file_changes_nothing(path, name):
    victim = path.with_name("victim")
    victim.write_text("precious " * 1000)
    beside(path, name).symlink_to(victim)
    try:
        make(path)
    except LedgerError:
        assert name != "site.db.epoch.new"
    assert victim.read_text() == "precious " * 1000


@pytest.mark.parametrize("name", BESIDE)
def test_folder_in_place_of_file_is_reported(path, name):
    beside(path, name).mkdir()
    with pytest.raises(LedgerError, match=r"site\.db") as caught:
        make(path)
    assert caught.value.hint


@pytest.mark.parametrize("said", ["", "x", "-1", "9" * 400, "1\n2", "\u0661"])
def test_bad_counter_is_reported(path, said):
    make(path)
    beside(path, "site.db.epoch").write_text(said)
    with pytest.raises(LedgerError, match=r"site\.db\.epoch"):
        make(path)


def test_linked_ledger_has_the_same_lock(path):
    ledger = open_ledger(path)
    other = path.with_name("other.db")
    other.symlink_to(path)
    with pytest.raises(LedgerBusy):
        open_ledger(other)
    assert is_held(other)
    ledger.close()
    open_ledger(other).close()
    assert not path.with_name("other.db.lock").exists()


def test_a_ledger_with_two_names_is_refused(path):
    make(path)
    os.link(path, path.with_name("other.db"))
    for name in (path, path.with_name("other.db")):
        with pytest.raises(LedgerError, match="hard links"):
            open_ledger(name)


@pytest.mark.parametrize(
    ("verb", "argument"),
    [
        ("resume", {"id": 2**70}),
        ("resume", {"id": "one"}),
        ("retry", {"paths": ["not hex"]}),
        ("retry", {"paths": 7}),
        ("doubt", {}),
        ("doubt", {"path": None}),
        ("sighted", {"id": "A1"}),
        ("explode", {}),
    ],
)
def test_senseless_request_is_closed(make_world, verb, argument):
    world = make_world()
    world.ledger.add_request(verb, argument, world.clock.now())
    assert take_requests(world.site.context) == 1
    assert world.ledger.open_requests() == []
