"""The daemon keeps SQLite's lock on its ledger, whichever way it started: without it, its -wal can be deleted."""

import signal
import socket
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.ledger.ledger import open_ledger
from tests.locks import deleted_but_open, fill, holds_shared, open_and_close, small_disk
from tests.running import SHORT_BUSY_WAIT, Running


@pytest.fixture(params=[pytest.param("tmpfs", marks=pytest.mark.long), "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with small_disk(request.param, tmp_path / "disk") as folder:
        yield folder


@pytest.fixture
def on_disk(make: Callable[..., Running], disk: Path) -> Iterator[Running]:
    made = make()
    made.ledger = disk / "d.db"
    made.write_config()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def expect_lock(running: Running) -> None:
    assert holds_shared(running.process.pid, running.ledger)
    assert deleted_but_open(running.process.pid, running.ledger) == []


def expect_log_survives(running: Running) -> None:
    """Let another program open and close the ledger: it must not delete the log."""
    log = running.ledger.with_name(running.ledger.name + "-wal")
    inode = log.stat().st_ino
    expect_lock(running)
    open_and_close(running.ledger)
    expect_lock(running)
    assert log.stat().st_ino == inode


def send(running: Running, first: int, count: int) -> None:
    for number in range(first, first + count):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)


@pytest.mark.parametrize("known", [False, True], ids=["a new ledger", "a known ledger"])
def test_start_on_a_full_disk_keeps_the_lock(on_disk, disk, sandbox, known):
    """Start on a full disk, make room, let another writer open and close, kill -9: no commit is forgotten."""
    running = on_disk
    if known:
        running.start().stop()
    filler = fill(disk)
    running.start(ready=False)
    begun = len(running.events("running")) if running.log.exists() else 0
    running.until(lambda: running.log.exists() and running.events("waiting for the ledger"))
    # A second try, which must not find a connection of the first one.
    time.sleep(3)
    filler.unlink()
    running.until(lambda: len(running.events("running")) > begun)
    send(running, 0, 1)
    running.until_verified(1)
    expect_log_survives(running)
    send(running, 1, 20)
    running.until_verified(21)
    running.process.kill()
    running.process.wait()
    assert running.count() == 21
    running.start()
    running.until_verified(21)
    assert len(sandbox.assets()) == len({asset.md5 for asset in sandbox.assets()}) == 21


def test_start_beside_another_writer_keeps_the_lock(make):
    running = make().start()
    running.stop()
    with closing(sqlite3.connect(running.ledger, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        running.start(broken=SHORT_BUSY_WAIT, ready=False)
        running.until(lambda: running.events("waiting for the ledger"))
        other.execute("ROLLBACK")
    running.until(lambda: len(running.events("running")) == 2)
    send(running, 0, 1)
    running.until_verified(1)
    expect_log_survives(running)


def test_service_waits_for_the_ledgers_holder(make, tmp_path):
    """A command may take the ledger of a daemon that systemd restarts; it must not stay stopped for that."""
    running = make()
    with closing(open_ledger(running.ledger, site="d")), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        running.start(ready=False, NOTIFY_SOCKET=str(tmp_path / "notify"))
        systemd.settimeout(20)
        heard = ""
        while not heard.startswith("STATUS=waiting for the ledger: another assetsync process holds"):
            heard = systemd.recv(4096).decode()
        # A second try must not log it again.
        time.sleep(3)
    running.until(lambda: running.events("running"))
    assert len(running.events("waiting for the ledger")) == 1
    send(running, 0, 1)
    running.until_verified(1)


def test_held_ledger_ends_a_run_by_hand(make):
    running = make()
    with closing(open_ledger(running.ledger, site="d")):
        assert running.start(ready=False).process.wait(20) == 4


def test_reload_and_readers_keep_the_lock(make):
    """The page, the metrics and the look at a damaged ledger beside read in the daemon's own process."""
    running = make(status='{listen: "127.0.0.1:0"}').start()
    beside = running.folder / "other.db"
    beside.write_bytes(b"no database" * 1000)
    beside.with_name("other.db.epoch").write_text("3")
    for reloads in (1, 2):
        send(running, reloads, 1)
        running.until_verified(reloads)
        for path in ("/", "/status.json", "/metrics", "/healthz"):
            urllib.request.urlopen(f"{running.address()}{path}", timeout=10).close()
        expect_log_survives(running)
        running.signal(signal.SIGHUP)
        running.until(lambda reloads=reloads: len(running.events("running")) == reloads + 1)
        expect_lock(running)
    assert running.stop() == 0
    assert [path.name for path in running.folder.glob("d.db-*")] == []


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_daemon_stops_when_its_log_is_gone(make, sandbox, replaced):
    """It ends with a code after which systemd starts it again, and the next start sends nothing twice."""
    running = make().start()
    send(running, 0, 5)
    running.until_verified(5)
    log = running.ledger.with_name(running.ledger.name + "-wal")
    log.unlink()
    if replaced:
        log.touch()
    send(running, 5, 5)
    assert running.process.wait(30) == 1
    assert "-wal was deleted or replaced while this process had it open" in running.log.read_text("utf-8")
    running.start()
    # An upload that the end cut counts as having lasted until this start, and its grace is five times that.
    running.until_verified(10, 200)
    assert len(sandbox.assets()) == len({asset.md5 for asset in sandbox.assets()}) == 10
