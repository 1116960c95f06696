"""How the process starts, reloads, ends and is ended.

Covers `cli/commands/run.py` and `daemon/daemon.py`.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from assetsync.model import State
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.forks import call
from tests.running import FOLDER, KEY, SHORT_BUSY_WAIT, Running


def test_burst_while_stopped_is_sent_once(make, sandbox, request):
    count = 40_000 if request.config.getoption("--long") else 1_000
    running = make(watch="{settle: 0s}", schedule="{index: off, verify: 2s}", upload="{workers: 8}").start()
    running.signal(signal.SIGSTOP)
    for number in range(count):
        folder = running.photos / str(number // 1000)
        if number % 1000 == 0:
            folder.mkdir()
        (folder / f"{number}.txt").write_bytes(b"%d" % number)
    running.signal(signal.SIGCONT)
    running.until_verified(count, 60 + count / 50)
    assert len(sandbox.assets()) == count
    assert len({asset.filename for asset in sandbox.assets()}) == count
    assert running.stop() == 0


def test_queue_overflow_is_healed_by_a_scan(make, sandbox):
    """More events than the kernel keeps come while the daemon is stopped, so that a file's event is dropped."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    listen = '{listen: "127.0.0.1:0"}'
    running = make(watch="{settle: 0s}", schedule="{index: off, verify: 1s}", status=listen).start()
    # Else the first scan may be what finds the file.
    running.until(lambda: running.events("scanned"))
    running.signal(signal.SIGSTOP)
    noisy = running.photos / "noisy.part"
    names = [running.photos / f"{n}.part" for n in (1, 2)]
    noisy.write_bytes(b"")
    for _ in range(limit // 2 + 100):
        os.rename(noisy, names[0])
        os.rename(names[0], noisy)
    (running.photos / "lost.txt").write_bytes(b"its event was dropped")
    running.signal(signal.SIGCONT)
    running.until_verified(1, 40)
    running.until(lambda: any("kernel" in event["why"] for event in running.events("scan wanted")))
    with urllib.request.urlopen(f"{running.address()}/metrics", timeout=10) as answer:
        assert b'assetsync_watch_overflows_total{site="d"} 1.0' in answer.read()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_moved_folders_disturb_no_end(make, number):
    """A folder takes the name of one that went to another mapping, and leaves it again."""
    mapped = [{"path": name, "destfolderid": FOLDER} for name in ("photos", "films")]
    running = make(folders=json.dumps(mapped))
    for name in ("photos/a", "photos/b", "films"):
        (running.tree / name).mkdir(parents=True)
    running.start()
    for old, new in [("photos/a", "films/a"), ("photos/b", "photos/a"), ("photos/a", "photos/c")]:
        (running.tree / old).rename(running.tree / new)
        (running.tree / new / "found.txt").write_bytes(new.encode())
        running.until(lambda new=new: f"{new}/found.txt" in running.states())
    running.signal(number)
    if number == signal.SIGHUP:
        running.until(lambda: len(running.events("running")) == 2)
    assert running.stop() == 0
    assert [event for event in running.events() if event["level"] == "critical"] == []


def test_very_deep_folder_ends_nothing(make, request):
    """It is deeper than Python's recursion may go."""
    running = make()
    # pytest removes folders as recursively.
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", running.tree], check=True))
    inner = running.photos / "/".join(["d"] * 1_100)
    subprocess.run(["mkdir", "-p", inner], check=True)
    running.start()
    (inner / "a.txt").write_bytes(b"a")
    running.until_verified(1)
    assert running.stop() == 0


def test_killed_process_resumes_its_work(make, sandbox):
    running = make().start()
    for number in range(30):
        (running.photos / f"{number}.bin").write_bytes(bytes([number]) * 300_000)
    for _ in range(4):
        time.sleep(0.4)
        running.process.kill()
        running.process.wait()
        running.start()
    # An upload counts as having lasted until the next start, and its grace is five times that.
    running.until_verified(30, 300)
    assert set(running.states().values()) == {"verified"}
    whole = [asset.md5 for asset in sandbox.assets() if not asset.damaged]
    assert len(whole) == len(set(whole)) == 30


def test_a_signal_ends_it_at_a_safe_point(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=1.0))
    running = make().start()
    for number in range(8):
        (running.photos / f"{number}.bin").write_bytes(bytes([number]) * 1000)
    running.until(lambda: State.SENDING in running.states().values())
    started = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - started < 20
    assert not {"sending", "in_doubt"} & set(running.states().values())


def test_ctrl_c_reports_a_safe_interruption(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=1.0))
    running = make().start()
    for number in range(8):
        (running.photos / f"{number}.bin").write_bytes(bytes([number]) * 1000)
    running.until(lambda: State.SENDING in running.states().values())
    running.signal(signal.SIGINT)
    assert running.process.wait(20) == 130
    assert running.events("stopped")
    assert not {"sending", "in_doubt"} & set(running.states().values())


def test_ctrl_c_after_reload_interrupts_too(make):
    running = make().start()
    running.signal(signal.SIGHUP)
    running.until(lambda: len(running.events("running")) == 2)
    running.signal(signal.SIGINT)
    assert running.process.wait(20) == 130


def test_reload_refuses_a_bad_configuration(make, sandbox):
    running = make().start()
    running.config.write_text(running.config.read_text() + "\nsettle: wrong\n")
    running.signal(signal.SIGHUP)
    running.until(lambda: running.events("configuration rejected; the old one stays active"))
    (running.photos / "still.jpg").write_bytes(b"still")
    running.until_verified(1)
    (running.tree / "docs").mkdir()
    (running.tree / "docs" / "new.txt").write_bytes(b"new")
    running.write_config(folders='[{path: ., destfolderid: "D0D0"}]')
    running.signal(signal.SIGHUP)
    running.until(lambda: running.events("configuration reloaded"))
    running.until_verified(2)
    assert running.stop() == 0


def test_reload_refuses_unusable_paths(make, tmp_path):
    running = make().start()
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    running.config.write_text(running.config.read_text().replace("service: {", f"service: {{ca_file: {bad}, "))
    running.signal(signal.SIGHUP)
    running.until(lambda: running.events("configuration rejected; the old one stays active"))
    (running.photos / "still.jpg").write_bytes(b"still")
    running.until_verified(1)
    assert running.stop() == 0


def test_ledger_locked_at_start_is_waited_for(make):
    running = make().start()
    assert running.stop() == 0
    with closing(sqlite3.connect(running.ledger)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        running.start(broken=SHORT_BUSY_WAIT, ready=False)
        running.until(lambda: running.events("waiting for the ledger"))
        conn.rollback()
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until_verified(1)
    assert running.stop() == 0


_IN_THE_WAY = """
from assetsync.errors import *
import assetsync.{module} as module
left = [{times}]
real = module.{cls}.{method}
def broken(self, *given, **named):
    if left[0]:
        left[0] -= 1
        raise {error}("the disk fails")
    return real(self, *given, **named)
module.{cls}.{method} = broken
"""


def _in_the_way(module: str, cls: str, method: str, error: str = "LedgerUnwritable", times: int = 1) -> str:
    """Give lines that let a method of the daemon fail that often."""
    return _IN_THE_WAY.format(module=module, cls=cls, method=method, error=error, times=times)


_RECOVERY = ("ledger.attempts", "AttemptResults", "recover")
_SETTLED_AT_THE_START = [
    pytest.param(*_RECOVERY, id="what a crash left", marks=pytest.mark.long),
    pytest.param("daemon.readback", "ReadBack", "last", id="when jobs ran last"),
    pytest.param("notify.notifications", "Notifications", "attach", id="what was told", marks=pytest.mark.long),
    pytest.param("app", "Site", "try_again", id="what is tried again", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("module", "cls", "method"), _SETTLED_AT_THE_START)
def test_failed_ledger_recovery_is_retried(make, module, cls, method):
    running = make()
    running.start(broken=_in_the_way(module, cls, method), ready=False)
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until(lambda: running.log.exists() and running.events("waiting for the ledger"))
    running.until(lambda: running.events("running"))
    running.until_verified(1)
    assert len(running.events("waiting for the ledger")) == 1
    assert running.stop() == 0


def test_signal_ends_the_start_up_ledger_wait(make):
    running = make()
    running.start(broken=_in_the_way(*_RECOVERY, times=1000), ready=False)
    running.until(lambda: running.events("waiting for the ledger"))
    assert running.stop() == 0
    assert not running.events("running")


def _telling(make, folder: Path) -> tuple[Running, Path]:
    """Make a daemon that tells a program, and the file into which that writes what it is told."""
    told = folder / "told"
    command = folder / "tell"
    command.write_text(f"#!/bin/sh\ncat >> {told}\n")
    command.chmod(0o755)
    return make(notify=f"{{command: [{command}]}}"), told


@pytest.mark.parametrize(("error", "code"), [("LedgerDamaged", 2), ("RuntimeError", 70)])
def test_fatal_recovery_error_is_reported(make, tmp_path, error, code):
    running, told = _telling(make, tmp_path)
    running.start(broken=_in_the_way(*_RECOVERY, error=error), ready=False)
    assert running.process.wait(30) == code
    assert "the disk fails" in told.read_text("utf-8")


def test_start_up_wait_is_reported_meanwhile(make, tmp_path):
    running, told = _telling(make, tmp_path)
    running.start(broken=_in_the_way(*_RECOVERY, times=1000), ready=False)
    running.until(lambda: told.exists() and "the disk fails" in told.read_text("utf-8"), 30)
    assert running.stop() == 0


@pytest.mark.parametrize(("name", "to"), [("site", "another"), ("ledger", "/nonexistent/folder/another.db")])
def test_site_identity_change_needs_a_restart(make, name, to):
    running = make().start()
    text = running.config.read_text("utf-8")
    running.config.write_text(re.sub(rf"(?m)^{name}: .*$", f"{name}: {to}", text), "utf-8")
    running.signal(signal.SIGHUP)
    running.until(lambda: running.events("configuration rejected; the old one stays active"))
    (refused,) = running.events("configuration rejected; the old one stays active")
    assert f"`{name}` identifies the site" in refused["mistake"]
    (running.photos / "still.jpg").write_bytes(b"still")
    running.until_verified(1)
    assert running.stop() == 0


def test_systemd_is_notified_of_each_phase(make, tmp_path):
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(address))
        channel.settimeout(15)
        running = make().start(NOTIFY_SOCKET=str(address), WATCHDOG_USEC="4000000")
        heard = []
        while "WATCHDOG=1" not in heard or "READY=1" not in heard or not any(h.startswith("STATUS=") for h in heard):
            heard.append(channel.recv(4096).decode())
        # The unit's two minutes are too few for a large ledger that an update migrates.
        assert heard[0] == f"EXTEND_TIMEOUT_USEC={30 * 60 * 10**6}"
        running.signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard.append(channel.recv(4096).decode())
    assert running.process.wait(20) == 0


@pytest.mark.parametrize("gone", ["never there", "in the middle"])
def test_failed_systemd_notify_is_logged_once(make, tmp_path, gone):
    address = tmp_path / "notify"
    if gone == "in the middle":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(address))
            running = make().start(NOTIFY_SOCKET=str(address), WATCHDOG_USEC="400000")
    else:
        running = make().start(NOTIFY_SOCKET=str(address), WATCHDOG_USEC="400000")
    running.until(lambda: running.events("systemd cannot be notified"))
    (running.photos / "a").write_bytes(b"a")
    running.until_verified(1)
    assert len(running.events("systemd cannot be notified")) == 1
    assert running.stop() == 0


def test_outage_logs_one_line_at_each_end(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.STATUS), FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH))
    running = make().start()
    for number in range(40):
        (running.photos / f"{number}.bin").write_bytes(bytes([number]) * 100)
    running.until(lambda: running.events("sending paused"))
    time.sleep(5)
    sandbox.set_faults()
    running.until_verified(40, 200)
    running.until(lambda: running.events("the service answers again"))
    began = running.events("sending paused")
    ended = running.events("the service answers again")
    assert len(began) == 1
    assert len(ended) == 1
    assert len(sandbox.assets()) == 40


def test_unmounted_root_pulls_the_brake(make, sandbox):
    running = make(schedule="{index: off, verify: 1s, rescan: 2s}").start()
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until_verified(1)
    os.rename(running.tree, running.tree.with_name("away"))
    running.until(lambda: running.events("brake pulled"))
    os.rename(running.tree.with_name("away"), running.tree)
    running.until(lambda: running.events("the root is there again"))
    assert running.states() == {"photos/a.jpg": "verified"}
    assert len(running.events("brake pulled")) == 1
    # Nobody need resume it: whatever was lost would have pulled another.
    (running.photos / "b.jpg").write_bytes(b"b")
    running.until_verified(2)


def test_refused_key_stops_sending_meanwhile(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    running = make().start()
    for number in range(20):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until(lambda: running.events("sending paused"))
    sandbox.set_faults()
    running.until_verified(20, 90)
    running.until(lambda: running.events("the service accepts the API key"))
    assert len(running.events("sending paused")) == 1
    assert len(running.events("the service accepts the API key")) == 1
    assert len(sandbox.assets()) == 20


def test_wrong_key_is_found_before_a_file_arrives(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    running = make().start()
    running.until(lambda: running.events("sending paused"))
    (paused,) = running.events("sending paused")
    assert paused["reason"] == "key_refused"
    assert "write the right key into $ASSETSYNC_API_KEY" in paused["detail"]


def test_files_wait_for_the_upload_window(make, sandbox):
    now = datetime.now().astimezone()
    closed, open_ = (f"{now + timedelta(hours=a):%H:%M}-{now + timedelta(hours=b):%H:%M}" for a, b in ((2, 3), (-1, 1)))
    running = make(upload=f'{{window: "{closed}"}}').start()
    for number in range(5):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until(lambda: list(running.states().values()) == ["queued"] * 5)
    # Longer than a sender waits for work.
    time.sleep(6)
    assert sandbox.assets() == []
    running.write_config(upload=f'{{window: "{open_}"}}')
    running.signal(signal.SIGHUP)
    running.until_verified(5)
    assert len(sandbox.assets()) == 5


def command(running, name, *options):
    """Run a command beside the daemon."""
    words = [name, "--config", str(running.config), *options]
    call(words, env=os.environ | {"ASSETSYNC_API_KEY": KEY}).check_returncode()


def test_pause_beside_the_daemon(make, sandbox):
    """It survives a reload and a kill; an end by a person, and by its time, lets the files go."""
    running = make().start()
    command(running, "pause", "--folder", "photos", "--why", "work")
    for number in range(3):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until(lambda: list(running.states().values()) == ["queued"] * 3)
    running.signal(signal.SIGHUP)
    running.process.kill()
    running.process.wait()
    running.start()
    time.sleep(6)
    assert sandbox.assets() == []
    command(running, "resume", "--pause")
    running.until_verified(3)
    command(running, "pause", "--for", "8s")
    (running.photos / "late.txt").write_bytes(b"late")
    running.until(lambda: running.states().get("photos/late.txt") == "queued")
    running.until_verified(4)


def test_signal_burst_ends_process_once(make):
    running = make().start()
    for _ in range(50):
        running.signal(signal.SIGHUP)
    running.signal(signal.SIGTERM)
    assert running.process.wait(30) == 0
    assert "Traceback" not in running.log.read_text("utf-8")
