"""What a person sees of a run under way, on a terminal and off one."""

import io
import json
import os
import pty
import subprocess
import sys

import structlog
from rich.console import Console
from structlog.testing import capture_logs

from assetsync.cli.progress import Bar, Events
from assetsync.sandbox import FaultKind, FaultRule, Operation


def told(progress, *steps):
    structlog.reset_defaults()
    with capture_logs() as events, progress:
        progress.phase("upload", 100)
        for step in steps:
            progress.at(*step)
    return [event for event in events if event["event"] == "phase goes on"]


def test_long_phase_reports_rate_and_rest():
    _, first, second = told(Events(every=0.0), (0, 0), (10, 5000), (50, 25_000))
    assert (first["phase"], first["files"], first["of"], first["bytes"]) == ("upload", 10, 100, 5000)
    assert second["files"] == 50
    assert first["files_per_second"] > 0
    assert isinstance(second["seconds_left"], int)


def test_short_phase_reports_only_its_ends():
    assert told(Events(), (10, 5000), (50, 25_000)) == []


def test_phase_of_unknown_end_has_no_rest():
    structlog.reset_defaults()
    with capture_logs() as events, Events(every=0.0) as progress:
        progress.phase("scan")
        progress.at(7)
    (event,) = [event for event in events if event["event"] == "phase goes on"]
    assert "seconds_left" not in event
    assert event["files"] == 7


def test_work_before_phase_is_not_in_rate():
    _, event = told(Events(every=0.0), (1500, 0), (1500, 0))
    assert event["files_per_second"] == 0
    assert "seconds_left" not in event


def test_bar_shows_count_rate_and_bytes():
    out = io.StringIO()
    bar = Bar(Console(file=out, force_terminal=True, width=120))
    with bar:
        bar.phase("upload", 8)
        bar.at(0)
        bar.at(3, 3_000_000)
        bar._bars.refresh()
    for shown in ("upload", "3/8", "files/s", "B/s"):
        assert shown in out.getvalue()


def test_bar_moves_within_large_hashed_file():
    bar = Bar(Console(file=io.StringIO(), force_terminal=True, width=140))
    with bar:
        bar.phase("upload", 1)
        bar.at(0)
        bar.at(0.25, 500_000_000, 2_000_000_000)
        (task,) = bar._bars.tasks
        assert (task.percentage, bar._bars.columns[3].render(task).plain) == (25.0, "0/1")
        assert "500.0 MB" in task.fields["rate"]
        assert "2.0 GB hashed" in task.fields["rate"]


def test_bytes_before_phase_are_not_in_it():
    bar = Bar(Console(file=io.StringIO(), force_terminal=True, width=140))
    with bar:
        bar.phase("verify", 5)
        bar.at(2, 7_000)
        bar.at(2, 7_000)
        (task,) = bar._bars.tasks
        assert task.fields["rate"] == "0 files/s"
        bar.at(2, 8_000)
        assert "1.0 KB" in bar._bars.tasks[0].fields["rate"]


def test_large_file_is_logged_in_bytes():
    _, event = told(Events(every=0.0), (0, 0, 0), (0.5, 5000, 700))
    assert (event["files"], event["bytes"], event["bytes_hashed"]) == (0, 5000, 700)


def test_bar_leaves_result_on_stdout(site):
    """As `script -qc` would: stderr is a terminal, stdout a pipe."""
    for number in range(40):
        site.write(f"{number}.jpg", b"%d" % number)
    site.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=0.1))
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "assetsync", "reconcile", "--config", str(site.config)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:
        # The other end of a terminal is closed: that is how its reader hears of it.
        os.close(ours)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"upload" in seen
    assert b"/40" in seen
    assert b"files/s" in seen
    assert out.startswith(b"hq: in sync, 40 files verified")
    assert b"\x1b" not in out


def test_unsettled_files_are_counted(site):
    site.config.write_text(site.config.read_text().replace("settle: 0s", "settle: 100ms"))
    for number in range(3):
        # A time in the future: one look never proves that the file has settled, however late the scan is.
        os.utime(site.write(f"{number}.jpg", b"%d" % number), (4e9, 4e9))
    result = site.run("reconcile")
    events = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
    said = [(event["event"], event.get("phase"), event["files"]) for event in events if "files" in event]
    assert ("not settled yet: sent once unchanged for watch.settle", None, 3) in said
    assert ("phase begins", "verify", 3) in said
    assert result.out.startswith("hq: in sync, 3 files verified")
