"""A reader of the log that hangs stops neither the daemon nor its end.

Covers `log.py`.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from assetsync.errors import LedgerError
from tests.locks import small_disk

_REPORT_SOON = "import assetsync.log as module\nmodule._UNREAD_SECONDS = 0.5"
_KEEP_LITTLE = f"{_REPORT_SOON}\nmodule._MOST_KEPT = 4096"


@pytest.fixture
def pipe():
    """Both ends of a pipe that takes a few lines."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def started(running, writing: int, broken: str = ""):
    """Start a daemon that logs into a pipe, and wait until its ledger can be read."""
    running.start(broken=broken, ready=False, pipe=writing)

    def is_made() -> bool:
        with contextlib.suppress(LedgerError):
            return running.count() == 0
        return False

    running.until(is_made)
    return running


def unread(running) -> dict | None:
    return json.loads(running.status("--json"))["log_unread"]


def test_hanging_log_reader_stops_no_upload(make, pipe):
    """Lines are dropped; once the log is read again, their number follows the lines that were kept."""
    reading, writing = pipe
    running = started(make(), writing, _KEEP_LITTLE)
    for number in range(100):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until_verified(100, 20)
    running.until(lambda: unread(running), 15)
    found = unread(running)
    assert found["dropped"] > 0
    assert found["detail"] == "its reader does not read"
    lines = b""
    os.set_blocking(reading, False)

    def tells_the_loss() -> bool:
        nonlocal lines
        with contextlib.suppress(BlockingIOError):
            lines += os.read(reading, 65536)
        return b"log lines were dropped" in lines and lines.endswith(b"\n")

    running.until(tells_the_loss)
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["lines"] for event in events if event["event"] == "log lines were dropped"] >= [found["dropped"]]
    running.until(lambda: unread(running) is None, 15)
    assert running.stop() == 0


def test_hanging_log_reader_delays_no_stop(make, pipe):
    _reading, writing = pipe
    os.write(writing, b"x" * 4096)
    running = started(make(), writing)
    (running.photos / "a.txt").write_bytes(b"a")
    running.until_verified(1, 20)
    began = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - began < 5


def test_hanging_log_reader_delays_no_failure(make, pipe):
    """A daemon that cannot begin ends, so that systemd starts it again."""
    _reading, writing = pipe
    os.write(writing, b"x" * 4096)
    running = make()
    running.tree.rename(running.folder / "elsewhere")
    running.start(ready=False, pipe=writing)
    assert running.process.wait(15) == 2


def test_hanging_log_disk_stops_no_upload(make, tmp_path):
    """Lines are kept for it, and written once it answers."""
    with small_disk("ext4", tmp_path / "disk") as disk, (disk / "log").open("wb") as log:
        running = started(make(), log.fileno(), _REPORT_SOON)
        (running.photos / "before.txt").write_bytes(b"before")
        running.until_verified(1, 20)
        subprocess.run(["fsfreeze", "--freeze", disk], check=True)
        try:
            for number in range(20):
                (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
            running.until_verified(21, 20)
            running.until(lambda: unread(running), 15)
            assert unread(running)["detail"] == "its disk does not answer"
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
        running.until(lambda: unread(running) is None, 15)
        assert running.stop() == 0
        events = [json.loads(line)["event"] for line in (disk / "log").read_text().splitlines()]
        assert (events.count("verified"), events[-1]) == (21, "stopped")


def test_last_lines_reach_a_slow_reader(make, pipe):
    reading, writing = pipe
    running = started(make(), writing)
    for number in range(40):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until_verified(40)
    running.signal(signal.SIGTERM)
    os.set_blocking(reading, False)
    lines = b""
    while running.process.poll() is None or lines[-1:] != b"\n":
        with contextlib.suppress(BlockingIOError):
            lines += os.read(reading, 1024)
        time.sleep(0.01)
    assert [json.loads(line)["event"] for line in lines.splitlines()][-1] == "stopped"
