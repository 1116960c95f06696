"""An error that nobody foresaw ends the process, whichever thread it comes from; the next start goes on.

Covers `daemon/loops.py`.
"""

import pytest

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
