"""An error that nobody foresaw ends the process, whichever thread it comes from; the next start goes on.

Covers `daemon/loops.py`.
"""

import json
import os

import pytest

from tests.scarcity import LARGE_STACKS, allow_threads, refuse_threads

LONG = pytest.mark.long

_BREAK = """
import assetsync.{module} as module
def broken(self, *given, **named):
    raise RuntimeError("nobody foresaw this")
module.{cls}.{method} = broken
"""


@pytest.mark.parametrize(
    ("module", "cls", "method"),
    [
        pytest.param("sync.upload.uploader", "Uploader", "run", id="sending"),
        pytest.param("sync.intake.watch_queue", "Looker", "step", id="looking", marks=LONG),
        pytest.param("sync.readback.verifier", "Verifier", "step", id="reading back", marks=LONG),
        pytest.param("ledger.doubts", "Doubts", "next_look", id="tending"),
        pytest.param("sync.rescan", "Rescan", "run", id="scanning", marks=LONG),
        pytest.param("daemon.readback", "ReadBack", "want_verify", id="a job of the schedule"),
    ],
)
def test_thread_crash_ends_process_with_a_code(make, sandbox, module, cls, method):
    running = make()
    running.start(broken=_BREAK.format(module=module, cls=cls, method=method), ready=False)
    (running.photos / "a.txt").write_bytes(b"a")
    assert running.process.wait(40) not in (0, None)
    said = running.events("assetsync ends after an unexpected error")
    assert "nobody foresaw this" in said[0]["exception"]
    running.start()
    running.until_verified(1)
    assert len(sandbox.assets()) == 1


@pytest.mark.parametrize(
    ("error", "code", "following"),
    [
        ("LedgerDamaged", 2, "systemd does not restart it: a person must look, then `systemctl restart assetsync@d`"),
        ("LedgerDetached", 1, "systemd restarts it; the next start looks up what was open"),
        ("RuntimeError", 70, "systemd restarts it; the next start looks up what was open"),
    ],
)
def test_log_names_what_follows_the_exit(make, error, code, following):
    broken = f"""
import assetsync.cli.commands.run, assetsync.sync.rescan as module
from assetsync.errors import *
def broken(*_, **__): raise {error}("nobody foresaw this")
module.Rescan.run = broken
assetsync.cli.commands.run.unit_for = lambda _path: "assetsync@d"
"""
    running = make().start(broken=broken, ready=False)
    assert running.process.wait(40) == code
    assert running.events("assetsync ends after an unexpected error")[0]["next"] == following


def test_lack_of_descriptors_at_start_is_restarted(make):
    """systemd starts a daemon again that ended with 1, and never one that ended with 2."""
    lack = """
import assetsync.sync.root_identity as module
from assetsync.errors import OutOfResources
def check(self):
    raise OutOfResources("the process cannot open more files")
module.RootIdentity.check = check
"""
    assert make().start(broken=lack, ready=False).process.wait(40) == 1


def status(running) -> str:
    return json.loads(running.status("--json"))["verdict"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may limit a process that holds a key")
def test_lack_of_threads_pauses_sending(make, sandbox):
    running = make()
    running.start(broken=LARGE_STACKS)
    running.until(lambda: running.events("scanned"))
    refuse_threads(running.process.pid)
    (running.photos / "small.txt").write_bytes(b"a")
    (running.photos / "large.bin").write_bytes(os.urandom(9 << 20))
    running.until(lambda: running.events("sending paused"), 20)
    paused = running.events("sending paused")[0]
    assert paused["reason"] == "out_of_resources"
    assert paused["detail"].startswith("the process cannot start a thread")
    assert "TasksMax" in paused["detail"]
    running.until(lambda: "(the process lacks file descriptors, memory or threads)" in status(running), 20)
    allow_threads(running.process.pid)
    running.until_verified(2)
    assert len(sandbox.assets()) == 2
    assert not running.events("assetsync ends after an unexpected error", "unexpected error")
    assert running.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may limit a process that holds a key")
def test_lack_of_threads_delays_no_stop(make):
    running = make()
    running.start(broken=LARGE_STACKS)
    running.until(lambda: running.events("scanned"))
    refuse_threads(running.process.pid)
    assert running.stop(15) == 0
    assert [event["event"] for event in running.events()][-2:] == ["stopping", "stopped"]


_NO_THREADS = f"""
from tests.scarcity import refuse_threads
{LARGE_STACKS}
start = threading.Thread.start
def start_until(self):
    if self.name == "NAME":
        refuse_threads()
    start(self)
threading.Thread.start = start_until
"""


@pytest.mark.parametrize("name", ["signals", "scan", "APScheduler", "status"])
def test_lack_of_threads_at_start_is_restarted(make, name):
    running = make(status='{listen: "127.0.0.1:0"}').start(broken=_NO_THREADS.replace("NAME", name), ready=False)
    assert running.process.wait(30) == 1
    said = running.log.read_text("utf-8")
    assert "Error: the process cannot start a thread" in said
    assert "please report" not in said
