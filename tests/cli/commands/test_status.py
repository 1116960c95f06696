import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.segment import Segment

from assetsync.cli.commands.status import _fitted, _look
from assetsync.config import load_config
from assetsync.ledger.ledger import open_ledger
from assetsync.sandbox import FaultKind, FaultRule, Operation

KEYS = {
    "progress",
    "unanswered_since",
    "blocked_reasons",
    "site",
    "at",
    "verdict",
    "level",
    "running",
    "not_running_since",
    "folders",
    "oldest_waiting",
    "hours",
    "paused",
    "pauses",
    "waiting_for_pauses",
    "held_by_doubts",
    "doubts",
    "drift",
    "drift_count",
    "adopted_differing",
    "last_runs",
    "in_sync",
    "verified",
    "pending",
    "in_doubt",
    "blocked",
    "checked_again",
    "waiting_for_sidecar",
    "bytes_verified",
    "states",
    "brakes",
    "holds",
    "blocked_files",
    "index_stopped",
    "wrong_address",
    "last_scan",
    "unsettled",
    "ended_by",
    "without_room",
    "sends_from",
    "scan_age_seconds",
    "config_refused",
    "log_unread",
    "vanished",
    "page",
}

AT_THE_LAST_SCAN = r"hq: in sync at the last scan, [0-9]{2}:[0-9]{2} UTC \([0-9]+ s ago\): 1 file verified"


@pytest.fixture
def _in_another_zone():
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "<+0530>-5:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_another_zone")
def test_closed_window_shows_its_opening(site):
    """A run, `status` and `explain` name the time in UTC and by the wall clock."""
    opens = (datetime.now().astimezone() + timedelta(hours=2)).replace(second=0, microsecond=0)
    site.configure(more=f'upload: {{window: "{opens:%H:%M}-{opens + timedelta(hours=1):%H:%M}"}}\n')
    site.write("a.jpg")
    at = f"{opens.astimezone(UTC):%Y-%m-%dT%H:%M:%S.000Z}"
    wall = f"{opens:%H:%M %Z}"
    assert (
        f"another run goes on with them, from {at} on (upload.window: {wall})"
        in site.run("reconcile", "--wait", "0s").out
    )
    said = f"hq: No process is running: 0 of 1 verified, 1 pending, sent from {at} on (upload.window: {wall}).\n"
    assert site.run("status").out.startswith(said)
    assert site.run("status", "--json").only["sends_from"] == at
    assert f"next try: {at}, when upload.window opens ({wall})" in site.run("explain", "photos/a.jpg").out
    (version,) = site.run("explain", "--json", "photos/a.jpg").only["versions"]
    assert version["next_try"] == at
    site.configure()
    assert site.run("status", "--json").only["sends_from"] is None
    assert "upload.window" not in site.run("explain", "photos/a.jpg").out


def test_of_a_site_in_sync_says_so_first(site):
    site.write("a.jpg")
    site.run("reconcile")
    result = site.run("status")
    assert result.code == 0
    assert re.fullmatch(AT_THE_LAST_SCAN, result.out.splitlines()[0])


def test_unwatched_site_shows_scan_age(site):
    site.write("a.jpg")
    assert site.run("reconcile").code == 0
    with closing(open_ledger(site.ledger)) as ledger:
        scan = ledger.runs.last_scan()
        ledger.runs.scanned(scan._replace(at=scan.at - 7200), 0.1)
        assert site.run("status").out.splitlines()[0] == "hq: in sync: 1 file verified"
    at = f"{datetime.fromtimestamp(scan.at - 7200, UTC):%H:%M} UTC"
    assert site.run("status").out.splitlines()[0] == f"hq: in sync at the last scan, {at} (2 h ago): 1 file verified"
    said = site.run("status", "--json").only
    assert said["in_sync"] is True
    assert 7200 <= said["scan_age_seconds"] < 7260


def test_start_without_scan_shows_older_scan(site):
    """A process that has not scanned since its start has not seen what changed while none ran."""
    site.write("a.jpg")
    assert site.run("reconcile").code == 0
    with closing(open_ledger(site.ledger)) as ledger:
        assert re.fullmatch(AT_THE_LAST_SCAN, site.run("status").out.splitlines()[0])
        ledger.runs.scanned(ledger.runs.last_scan(), 0.1)
        assert site.run("status").out.splitlines()[0] == "hq: in sync: 1 file verified"


def test_json_is_one_object_with_fixed_keys(site):
    site.write("a.jpg", b"four")
    site.write("empty.jpg", b"")
    site.run("reconcile")
    said = site.run("status", "--json").only
    assert set(said) == KEYS
    assert (said["in_sync"], said["verified"], said["blocked"], said["bytes_verified"]) == (False, 1, 1, 4)
    assert said["states"] == {"verified": 1, "blocked": 1}
    assert said["last_scan"]["complete"] is True
    assert (said["level"], said["verdict"], said["running"]) == ("needs_you", "1 of 2 verified, 1 needs you.", False)
    assert [(f["paths"], f["states"]) for f in said["folders"]] == [(["photos"], {"verified": 1, "blocked": 1})]
    assert [(hour["uploads"], hour["bytes"]) for hour in said["hours"] if hour["uploads"]] == [(1, 4)]
    assert (len(said["hours"]), said["oldest_waiting"]) == (24, None)
    assert [(row["path"], row["reason"]) for row in said["blocked_files"]] == [("photos/empty.jpg", "empty_file")]


def test_status_names_commands_for_problems(site):
    site.write("a.jpg")
    site.write("big.bin", b"x" * 100)
    site.configure(more="upload: {max_file_size: 50}\n")
    site.run("reconcile")
    site.tree.rename(site.folder / "elsewhere")
    site.run("reconcile", "--wait", "0s")
    result = site.run("status")
    stopped = "uploads stopped (the root is missing or another tree)"
    assert result.out.splitlines()[0] == f"hq: Action needed: {stopped}. 1 of 2 verified, 1 needs you."
    assert "assetsync retry photos/big.bin" in result.out
    assert "assetsync resume 1" in result.out


def test_status_works_beside_holder_offline(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.nowhere()
    with closing(open_ledger(site.ledger)):
        assert site.run("status").code == 0


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "files",
        "explain photos/a.jpg",
        "retry",
        "resume",
        "doubt list",
        "doubt resolve photos/a.jpg --absent",
        "drift list",
        "drift settle photos/a.jpg",
        "orphans",
        "export --format csv",
    ],
)
def test_missing_ledger_is_not_created(site, command):
    before = site.left_behind()
    result = site.run(command)
    assert (result.code, result.out) == (2, "")
    assert "there is no ledger at" in result.err
    assert site.left_behind() == before


@pytest.mark.parametrize("command", ["status", "files", "explain photos/a.jpg", "doubt list", "orphans"])
def test_reading_leaves_no_extra_files(site, command):
    site.write("a.jpg")
    site.run("reconcile")
    before = site.left_behind()
    site.run(command)
    assert site.left_behind() == before


def test_unanswered_upload_is_shown_in_doubt(site):
    site.write("a.jpg")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
    assert site.run("reconcile", "--wait", "0s").code == 1
    assert site.run("status").out.splitlines()[0] == "hq: No process is running: 0 of 1 verified, 1 in doubt."
    assert site.run("status", "--json").only["in_doubt"] == 1


def test_unsettled_file_is_pending(site):
    site.configure(more="")
    site.config.write_text(site.config.read_text("utf-8").replace("settle: 0s", "settle: 1h"), "utf-8")
    site.write("a.jpg")
    assert site.run("reconcile", "--json", "--wait", "0s").only["pending"] == 1
    result = site.run("status")
    assert result.out.splitlines()[0] == "hq: No process is running: 1 pending."
    assert "not settled yet: 1 file, sent once unchanged for watch.settle" in result.out.splitlines()
    said = site.run("status", "--json").only
    assert (said["in_sync"], said["pending"], said["unsettled"], said["states"]) == (False, 1, 1, {})


def test_refused_key_is_shown_until_good_run(site):
    site.write("a.jpg")
    key = site.key_file.read_text("utf-8")
    site.key_file.write_text("another-key")
    assert site.run("reconcile", "--wait", "0s").code == 3
    result = site.run("status")
    assert result.out.splitlines()[0] == (
        "hq: Action needed: the last run ended 0 s ago (the service refuses the API key). 0 of 1 verified, 1 pending."
    )
    assert "the service, since " in result.out
    assert f"the service refuses the API key: write the right key into {site.key_file}, then " in result.out
    said = site.run("status", "--json").only
    assert (said["level"], said["paused"], said["ended_by"]["reason"]) == ("needs_you", None, "key_refused")
    site.key_file.write_text(key)
    assert site.run("reconcile").code == 0
    assert re.fullmatch(AT_THE_LAST_SCAN, site.run("status").out.splitlines()[0])
    assert site.run("status", "--json").only["ended_by"] is None


def test_unreachable_service_needs_no_person(site):
    site.write("a.jpg")
    site.nowhere()
    assert site.run("reconcile", "--wait", "0s").code == 3
    first = site.run("status").out.splitlines()[0]
    assert first == "hq: The last run ended 0 s ago (the service cannot be reached); 0 of 1 verified, 1 pending."
    assert site.run("status", "--json").only["level"] == "under_way"


def test_verify_and_index_times_are_shown(site):
    site.write("a.jpg")
    site.run("reconcile")
    runs = site.run("status", "--json").only["last_runs"]
    assert runs.keys() == {"rescan", "index", "verify"}
    (line,) = [line for line in site.run("status").out.splitlines() if line.startswith("last read back: ")]
    assert line == f"last read back: {runs['verify']['at']}; last indexed: {runs['index']['at']}"


def test_interrupt_ends_watching_properly(site):
    site.write("a.jpg")
    site.run("reconcile")
    process = site.start("status", "--watch", "--json")
    first = json.loads(process.stdout.readline())
    assert (first["verified"], first["level"]) == (1, "in_sync")
    site.write("b.jpg", b"more")
    site.run("reconcile")
    while json.loads(process.stdout.readline())["verified"] != 2:
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stderr.read() == ""


def test_watching_into_a_pipe_is_plain_lines(site):
    site.write("a.jpg")
    site.run("reconcile")
    process = site.start("status", "--watch")
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert re.fullmatch(AT_THE_LAST_SCAN, lines[1].rstrip("\n"))
    assert "\x1b" not in "".join(lines) + process.stdout.read()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_watching_restores_the_terminal(site, ending):
    """Draw no more than fits into 20 lines of 60 columns, and leave the verdict on the normal screen at the end."""
    for number in range(30):
        site.write(f"{number:02} \x1b[2J{'x' * 100}.jpg", b"")
    site.run("reconcile")
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (20, 60))
    command = [sys.executable, "-m", "assetsync", "status", "--watch", "--config", str(site.config)]
    # A terminal of its own, so that Ctrl-C there reaches it alone.
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "LINES": "99"},
    )
    os.close(terminal)
    shown = b""
    while b"Ctrl-C ends it" not in shown:
        shown += os.read(main, 65536)
    process.send_signal(ending)
    with contextlib.suppress(OSError):
        while part := os.read(main, 65536):
            shown += part
    os.close(main)
    assert process.wait(20) == 0
    screen = shown.partition(b"\x1b[?1049h")[2].partition(b"\x1b[?1049l")
    # What is drawn from the first line down, up to the next time or the end.
    lines = re.split(r"\x1b\[(?:H|\?25h)", screen[0].decode().partition("\x1b[?25l\x1b[H")[2])[0].split("\r\n")
    assert len(lines) <= 20
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert screen[2].decode().strip() == "hq: 0 of 30 verified, 30 need you."


def test_status_loads_no_page_or_upload_code(site):
    site.write("a.jpg")
    site.run("reconcile")
    code = (
        "import sys; from assetsync.cli.entry import run; assert run(sys.argv[1:]) == 0;"
        "print(*({'jinja2', 'prometheus_client', 'httpx', 'rich', 'watchdog', 'http.server'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "status", "--config", str(site.config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(("width", "height"), [(80, 8), (40, 3), (1, 1)])
def test_watching_fits_any_terminal_size(site, width, height):
    for number in range(30):
        site.write(f"{number:02}/漢字漢字.jpg", b"")
    site.run("reconcile")
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height)
    lines = console.render_lines(_fitted(_look(load_config(site.config, {}).outline), console.size), pad=False)
    assert len(lines) == height
    assert all(Segment.get_line_length(line) <= width for line in lines)


def test_unreadable_lock_hides_nothing_else(site):
    """It is unknown whether a process runs; `status`, `explain` and `check` show that and all else."""
    site.write("a.jpg")
    site.write("b.jpg", b"")
    site.run("reconcile")
    lock = site.ledger.with_name(f"{site.ledger.name}.lock")
    lock.unlink()
    lock.symlink_to(site.folder / "nowhere")
    result = site.run("status")
    assert (result.code, result.out.splitlines()[0]) == (
        1,
        "hq: Action needed: unknown whether it runs. 1 of 2 verified, 1 needs you.",
    )
    assert "it is unknown whether a process sends for this site: the lock of the ledger" in result.out
    assert "no process sends" not in result.out
    said = site.run("status", "--json").only
    assert (said["running"], said["verified"]) == (None, 1)
    assert site.run("explain", "photos/b.jpg").code == 0
    site.write("c.jpg")
    assert "the ledger does not know it yet" in site.run("explain", "photos/c.jpg").out
    findings = site.run("check", "--json").only["findings"]
    (found,) = [finding for finding in findings if finding["what"] == "ledger"]
    assert (found["level"], "cannot be read" in found["message"]) == ("warning", True)
