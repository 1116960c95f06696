"""Real processes send notices to real receivers: the daemon, `reconcile` and `check`."""

import contextlib
import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from assetsync.ledger.ledger import open_ledger
from tests.forks import call
from tests.running import KEY

SECTIONS = {
    "watch": "{settle: 0s}",
    "schedule": "{index: off, verify: 1s}",
    "policy": "{verified_when: stored}",
}


@pytest.fixture
def site(make_daemon):
    return make_daemon(**SECTIONS)


def configure(site, **notify):
    site.write_config(**SECTIONS, notify=json.dumps(notify))


def run(site, *command: str, broken: str = "") -> tuple[int, str]:
    done = call([*command, "--config", site.config], env={**os.environ, "ASSETSYNC_API_KEY": KEY}, broken=broken)
    with site.log.open("a") as log:
        log.write(done.stderr)
    return done.returncode, done.stdout


def reconcile(site, *more: str, broken: str = "") -> int:
    return run(site, "reconcile", "--wait", "0s", *more, broken=broken)[0]


def state_of(pid: str) -> str | None:
    """The letter of a process's state as in proc(5), None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_daemon_groups_blocked_files(site, sink, program):
    """Forty blocked files make one message; a receiver that hangs delays no other, and is killed at the stop."""
    told = site.folder / "pid"
    hanging = program(f"open({str(told)!r}, 'w').write(str(os.getpid()))", "time.sleep(100)")
    configure(site, webhook=sink.url, command=hanging)
    for number in range(40):
        (site.photos / f"empty-{number:02}.jpg").touch()
    site.start()
    (message,) = sink.wait(1, 30)
    assert (message["site"], message["event"], message["over"]) == ("d", "blocked", False)
    assert (message["count"], message["new"], len(message["names"])) == (40, 40, 5)
    assert message["names"][0] == "photos/empty-00.jpg (empty_file)"
    (site.photos / "sound.jpg").write_bytes(b"sound")
    site.until_verified(1)
    site.until(lambda: told.exists() and told.read_text(), 30)
    assert site.stop() == 0
    assert len(sink.bodies) == 1
    end = time.monotonic() + 10
    # A killed process may take a moment to end, and to be reaped.
    while state_of(told.read_text()) not in (None, "Z"):
        assert time.monotonic() < end, "the program was not killed"
        time.sleep(0.05)
    log = site.log.read_text("utf-8")
    assert "messages are not delivered" in log
    assert "s3cret-t0ken" not in log
    assert KEY.encode() not in b"".join(sink.bodies) + log.encode()


def test_next_run_does_not_repeat_the_message(site, sink):
    configure(site, webhook=sink.url)
    (site.photos / "empty.jpg").touch()
    assert reconcile(site) == 1
    assert reconcile(site) == 1
    (message,) = sink.messages
    shown = f"assetsync status --config {site.config}"
    assert message["text"] == f"d: 1 file is blocked: photos/empty.jpg (empty_file) ({shown})"
    (site.photos / "other.jpg").touch()
    assert reconcile(site, "--dry-run") in (0, 1)
    assert len(sink.messages) == 1


def test_next_run_delivers_pending_message(site, sink):
    sink.answer = 500
    configure(site, webhook=sink.url)
    (site.photos / "empty.jpg").touch()
    assert reconcile(site) == 1
    sink.answer = 200
    assert reconcile(site) == 1
    assert len(sink.messages) == 2
    assert "HTTP status 500" in site.log.read_text()
    assert reconcile(site) == 1
    assert len(sink.messages) == 2


def test_next_start_delivers_what_the_daemon_could_not(site, sink):
    sink.answer = 500
    configure(site, webhook=sink.url)
    (site.photos / "empty.jpg").touch()
    site.start()
    sink.wait(1, 30)
    assert site.stop() == 0
    sink.answer = 200
    for _ in range(2):
        assert reconcile(site) == 1
        assert [message["new"] for message in sink.messages] == [1, 1]


def test_abandoned_service_is_an_outage(site, sink):
    configure(site, webhook=sink.url)
    config = site.config.read_text("utf-8")
    site.config.write_text(config.replace(site.sandbox.base_url, "http://127.0.0.1:9/razuna"), "utf-8")
    (site.photos / "a.jpg").write_bytes(b"a")
    assert reconcile(site) == 3
    (message,) = sink.messages
    assert (message["event"], message["over"]) == ("outage", False)
    assert "127.0.0.1:9 could not be connected to" in message["text"]


def test_damaged_ledger_is_reported_at_exit(site, sink):
    site.ledger.write_bytes(b"no ledger at all" * 1000)
    configure(site, webhook=sink.url)
    assert site.start(ready=False).process.wait(40) == 2
    (message,) = sink.messages
    assert message["event"] == "ended"
    assert "d.db" in message["text"]


def test_failing_pass_is_reported_once(site, sink):
    """The ledger keeps what was reported until a pass comes to its end."""
    configure(site, webhook=sink.url)
    assert reconcile(site) == 0
    broken = "import assetsync.sync.rescan as module\nmodule.Rescan.run = lambda *_, **__: 1 / 0"
    assert [reconcile(site, broken=broken) for _ in range(2)] == [70, 70]
    (message,) = sink.messages
    assert (message["event"], message["over"]) == ("ended", False)
    assert "division by zero" in message["text"]
    assert reconcile(site) == 0
    assert [(each["event"], each["over"]) for each in sink.messages[1:]] == [("ended", True)]


def test_pass_reports_an_unwritable_ledger(site, sink):
    configure(site, webhook=sink.url)
    assert reconcile(site) == 0
    full = "import assetsync.cli.commands.reconcile as module\nfrom assetsync.errors import LedgerUnwritable\n"
    full += "def opened(*_, **__): raise LedgerUnwritable('the disk is full')\nmodule._opened = opened"
    assert reconcile(site, broken=full) == 2
    (message,) = sink.messages
    assert (message["event"], "the disk is full" in message["text"]) == ("ledger", True)


def test_pass_reports_a_damaged_ledger(site, sink):
    site.ledger.write_bytes(b"no ledger at all" * 1000)
    configure(site, webhook=sink.url)
    assert reconcile(site) == 2
    (message,) = sink.messages
    assert (message["event"], "d.db" in message["text"]) == ("ended", True)


def test_held_ledger_sends_no_message(site, sink):
    configure(site, webhook=sink.url)
    with contextlib.closing(open_ledger(site.ledger, site="d")):
        assert reconcile(site) == 4
    assert sink.messages == []


@pytest.mark.parametrize("part", ["files_sending", "hours"], ids=["at the start", "while it runs"])
def test_damage_in_main_thread_is_reported(site, sink, part):
    configure(site, webhook=sink.url)
    assert reconcile(site) == 0
    with contextlib.closing(sqlite3.connect(site.ledger)) as found:
        (size,) = found.execute("PRAGMA page_size").fetchone()
        (page,) = found.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (part,)).fetchone()
    with site.ledger.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert site.start(ready=False).process.wait(40) == 2
    (message,) = sink.messages
    assert message["event"] == "ended"
    assert "is damaged" in message["text"]


DAMAGE = """
import assetsync.sync.rescan as module
from assetsync.errors import LedgerDamaged
def damaged(*_, **__): raise LedgerDamaged("the ledger is damaged")
module.Rescan.run = damaged
"""


def test_last_message_of_the_daemon_is_retried(site, sink):
    sink.answer = 502
    configure(site, webhook=sink.url)
    site.start(ready=False, broken=DAMAGE)
    sink.wait(1, 30)
    sink.answer = 200
    assert site.process.wait(40) == 2
    assert [message["event"] for message in sink.messages] == ["ended", "ended"]


def test_stop_ends_the_last_retries(site, sink):
    sink.answer = 502
    configure(site, webhook=sink.url)
    site.start(ready=False, broken=DAMAGE)
    sink.wait(1, 30)
    began = time.monotonic()
    # The exit code of the error: no watchman had to end the process.
    assert site.stop() == 2
    assert time.monotonic() - began < 5
    (event,) = site.events("messages are not delivered")
    assert (event["channels"], event["next"]) == (["webhook"], "the next start sends those that still apply")


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [(200, 0, "notify.webhook took the test message"), (403, 2, "HTTP status 403")],
)
def test_check_sends_a_test_message(site, sink, answer, code, says):
    sink.answer = answer
    configure(site, webhook=sink.url, command=["true"])
    found, out = run(site, "check", "--notify")
    assert (found, says in out, "notify.command took the test message" in out) == (code, True, True)
    (message,) = sink.messages
    assert (message["event"], "nothing is wrong" in message["text"]) == ("test", True)
    assert "s3cret-t0ken" not in out


def test_check_reports_missing_program_unsent(site, sink):
    configure(site, webhook=sink.url, command="/no/such/program --loud")
    code, out = run(site, "check")
    assert (code, sink.messages) == (0, [])
    assert "warning  notify: notify.command: there is no program /no/such/program" in out


def test_check_reports_absent_receivers(site):
    configure(site)
    code, out = run(site, "check", "--notify")
    assert code == 2, out
    assert "fix: set notify.webhook, notify.command or notify.heartbeat" in out
