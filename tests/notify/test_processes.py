"""Real processes send notices to real receivers: the daemon, `reconcile` and `check`."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assetsync.ledger.ledger import read_ledger
from assetsync.model import State
from assetsync.sandbox import Sandbox, SandboxSettings

KEY = "a-key-that-no-one-may-see"


@pytest.fixture
def sandbox():
    with Sandbox(SandboxSettings(api_key=KEY, folders={"D0D0": "photos"})) as sandbox:
        yield sandbox


class Site:
    def __init__(self, folder, sandbox):
        self.folder, self.sandbox = folder, sandbox
        self.photos = folder / "tree" / "photos"
        self.photos.mkdir(parents=True)
        self.config = folder / "site.yaml"
        self.log = folder / "log"
        self.processes = []

    def configure(self, notify: dict, base_url: str | None = None):
        self.config.write_text(
            json.dumps(
                {
                    "site": "hq",
                    "root": str(self.folder / "tree"),
                    "ledger": str(self.folder / "hq.db"),
                    "service": {
                        "base_url": base_url or self.sandbox.base_url,
                        "upload_url": base_url or self.sandbox.upload_url,
                        "connect_timeout": "2s",
                    },
                    "folders": [{"path": "photos", "destfolderid": "D0D0"}],
                    "watch": {"settle": "0s"},
                    "schedule": {"index": "off", "verify": "1s"},
                    "policy": {"verified_when": "stored"},
                    "status": {"listen": None},
                    "notify": notify,
                }
            )
        )

    def start(self, command, *arguments):
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "assetsync", command, "--config", str(self.config), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "ASSETSYNC_API_KEY": KEY},
                text=True,
            )
        self.processes.append(process)
        return process

    def run(self, command, *arguments):
        process = self.start(command, *arguments)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out

    def verified(self):
        if not (self.folder / "hq.db").exists():
            return 0
        ledger = read_ledger(self.folder / "hq.db")
        try:
            return ledger.reports.counts(time.time()).of(State.VERIFIED)
        finally:
            ledger.close()

    def until(self, true):
        end = time.monotonic() + 30
        while not true():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)


@pytest.fixture
def site(tmp_path, sandbox):
    made = Site(tmp_path, sandbox)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_daemon_groups_blocked_files(site, sink, program):
    told = site.folder / "pid"
    hanging = program(f"open({str(told)!r}, 'w').write(str(os.getpid()))", "time.sleep(100)")
    site.configure({"webhook": sink.url, "command": hanging})
    for number in range(40):
        (site.photos / f"empty-{number:02}.jpg").touch()
    process = site.start("run")
    (message,) = sink.wait(1, 30)
    assert (message["site"], message["event"], message["over"]) == ("hq", "blocked", False)
    assert (message["count"], message["new"], len(message["names"])) == (40, 40, 5)
    assert message["names"][0] == "photos/empty-00.jpg (empty_file)"
    (site.photos / "sound.jpg").write_bytes(b"sound")
    site.until(lambda: site.verified() == 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=40)
    assert process.returncode == 0
    assert len(sink.bodies) == 1
    site.until(lambda: not Path(f"/proc/{told.read_text()}").exists())
    log = site.log.read_text()
    assert "notices are left undelivered" in log
    assert "s3cret-t0ken" not in log
    assert KEY.encode() not in b"".join(sink.bodies) + log.encode()


def test_next_run_does_not_repeat_the_message(site, sink):
    site.configure({"webhook": sink.url})
    (site.photos / "empty.jpg").touch()
    assert site.run("reconcile", "--wait", "0s")[0] == 1
    assert site.run("reconcile", "--wait", "0s")[0] == 1
    (message,) = sink.messages
    assert message["text"] == "hq: 1 file is blocked: photos/empty.jpg (empty_file) (assetsync status)"
    (site.photos / "other.jpg").touch()
    assert site.run("reconcile", "--wait", "0s", "--dry-run")[0] in (0, 1)
    assert len(sink.messages) == 1


def test_next_run_delivers_pending_message(site, sink):
    sink.answer = 500
    site.configure({"webhook": sink.url})
    (site.photos / "empty.jpg").touch()
    assert site.run("reconcile", "--wait", "0s")[0] == 1
    sink.answer = 200
    assert site.run("reconcile", "--wait", "0s")[0] == 1
    assert len(sink.messages) == 2
    assert "HTTP status 500" in site.log.read_text()
    assert site.run("reconcile", "--wait", "0s")[0] == 1
    assert len(sink.messages) == 2


def test_next_start_delivers_what_the_daemon_could_not(site, sink):
    sink.answer = 500
    site.configure({"webhook": sink.url})
    (site.photos / "empty.jpg").touch()
    daemon = site.start("run")
    sink.wait(1, 30)
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=40)
    sink.answer = 200
    for _ in range(2):
        assert site.run("reconcile", "--wait", "0s")[0] == 1
        assert [message["new"] for message in sink.messages] == [1, 1]


def test_abandoned_service_is_an_outage(site, sink):
    site.configure({"webhook": sink.url}, base_url="http://127.0.0.1:9/razuna")
    (site.photos / "a.jpg").write_bytes(b"a")
    assert site.run("reconcile", "--wait", "0s")[0] == 3
    (message,) = sink.messages
    assert (message["event"], message["over"]) == ("outage", False)
    assert "127.0.0.1:9 could not be connected to" in message["text"]


def test_damaged_ledger_is_reported_at_exit(site, sink):
    (site.folder / "hq.db").write_bytes(b"no ledger at all" * 1000)
    site.configure({"webhook": sink.url})
    process = site.start("run")
    process.communicate(timeout=40)
    assert process.returncode == 2
    (message,) = sink.messages
    assert message["event"] == "ended"
    assert "hq.db" in message["text"]


@pytest.mark.parametrize("part", ["files_sending", "hours"], ids=["at the start", "while it runs"])
def test_damage_in_main_thread_is_reported(site, sink, part):
    site.configure({"webhook": sink.url})
    assert site.run("reconcile")[0] == 0
    ledger = site.folder / "hq.db"
    with contextlib.closing(sqlite3.connect(ledger)) as found:
        (size,) = found.execute("PRAGMA page_size").fetchone()
        (page,) = found.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (part,)).fetchone()
    with ledger.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    process = site.start("run")
    process.communicate(timeout=40)
    assert process.returncode == 2
    (message,) = sink.messages
    assert message["event"] == "ended"
    assert "is damaged" in message["text"]


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [(200, 0, "notify.webhook took the test message"), (403, 2, "HTTP status 403")],
)
def test_check_sends_a_test_message(site, sink, answer, code, says):
    sink.answer = answer
    site.configure({"webhook": sink.url, "command": ["true"]})
    found, out = site.run("check", "--notify")
    assert (found, says in out, "notify.command took the test message" in out) == (code, True, True)
    (message,) = sink.messages
    assert (message["event"], "nothing is wrong" in message["text"]) == ("test", True)
    assert "s3cret-t0ken" not in out


def test_check_reports_missing_program_unsent(site, sink):
    site.configure({"webhook": sink.url, "command": "/no/such/program --loud"})
    code, out = site.run("check")
    assert (code, sink.messages) == (0, [])
    assert "warning  notify: notify.command: there is no program /no/such/program" in out


def test_check_reports_absent_receivers(site):
    site.configure({})
    code, out = site.run("check", "--notify")
    assert code == 2
    assert "fix: set notify.webhook or notify.command" in out
