import json
import signal
import subprocess
import tempfile
from contextlib import closing

import pytest

from assetsync.cli.commands.reconcile import KEYS
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.model import State
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import PAPERS, PHOTOS, Holder

UPLOAD = Operation.UPLOAD


def test_sync_is_exit_0_with_one_object(site):
    """`--json` prints one object with all documented keys in their order."""
    site.write("a.jpg", b"one")
    site.write("below/b.txt", b"three")
    result = site.run("reconcile", "--json")
    assert result.code == 0
    said = result.only
    assert list(said) == list(KEYS)
    assert {name: said[name] for name in KEYS if name != "seconds"} == {
        "site": "hq",
        "scanned": 2,
        "unchanged": 0,
        "uploaded": 2,
        "adopted": 0,
        "vanished": 0,
        "left_out": 0,
        "bytes_uploaded": 8,
        "verified": 2,
        "pending": 0,
        "in_doubt": 0,
        "blocked": 0,
        "checked_again": 0,
        "in_sync": True,
        "dry_run": False,
    }
    assert {asset.filename for asset in site.sandbox.assets()} == {"a.jpg", "b.txt"}


def test_a_second_run_uploads_nothing(site):
    site.write("a.jpg")
    site.run("reconcile")
    said = site.run("reconcile", "--json").only
    assert (said["scanned"], said["unchanged"], said["uploaded"], said["verified"]) == (1, 1, 0, 1)
    assert len(site.sandbox.assets()) == 1


def test_files_left_out_by_new_rules_are_named(site):
    """As after an upgrade with more default rules: nothing changes in the service, and nothing is silent."""
    site.write("a.jpg", b"one")
    site.write(".hidden.jpg", b"two")
    site.configure(more='ignore: ["!.*"]')
    assert site.run("reconcile", "--json").only["uploaded"] == 2
    site.configure()
    result = site.run("reconcile")
    assert ", 1 left out that were sent before" in result.out
    assert "photos/.hidden.jpg" in result.err
    assert len(site.sandbox.assets()) == 2
    assert site.run("orphans", "--json").out == ""
    assert site.run("reconcile", "--json").only["left_out"] == 0


def test_blocked_files_are_exit_1(site):
    site.write("a.jpg")
    site.write("empty.jpg", b"")
    result = site.run("reconcile", "--json")
    assert (result.code, result.only["blocked"], result.only["in_sync"]) == (1, 1, False)
    summary = site.run("reconcile")
    assert summary.code == 1
    first, *rest = summary.out.splitlines()
    assert first.startswith("hq: not in sync: 1 blocked")
    assert any("photos/empty.jpg" in line and "empty" in line for line in rest)


def test_wrong_key_is_exit_3_with_object(site):
    site.write("a.jpg")
    site.key_file.write_text("another-key")
    result = site.run("reconcile", "--json", "--wait", "0s")
    assert (result.code, result.only["in_sync"], result.only["pending"]) == (3, False, 1)
    summary = site.run("reconcile", "--wait", "0s")
    assert summary.code == 3
    assert "refuses the API key" in summary.out
    assert "another-key" not in summary.out + summary.err + result.err
    assert site.sandbox.assets() == []


def test_dead_port_is_exit_3_with_object(site):
    site.write("a.jpg")
    site.nowhere()
    result = site.run("reconcile", "--json", "--wait", "0s")
    assert (result.code, result.only["pending"], result.only["uploaded"]) == (3, 1, 0)


def test_held_ledger_is_exit_4(site):
    site.write("a.jpg")
    site.run("reconcile")
    with closing(open_ledger(site.ledger)):
        result = site.run("reconcile", "--json")
    assert (result.code, result.out) == (4, "")
    assert "another assetsync process" in result.err


def test_process_returns_the_exit_code(site):
    site.write("a.jpg")
    site.write("empty.jpg", b"")
    process = site.start("reconcile", "--json", "--quiet")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["blocked"]) == (1, 1)
    assert [json.loads(line)["level"] for line in err.splitlines()] == ["warning"]


def test_interrupted_run_is_exit_130(site, eventually):
    # More than are sent while the test is held up for some seconds.
    for number in range(400):
        site.write(f"{number}.txt", b"%d" % number)
    site.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=UPLOAD, seconds=0.2))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = len(site.sandbox.assets())
        process = site.start("reconcile", "--json", "--quiet")
        eventually(lambda before=before: len(site.sandbox.assets()) > before + 2)
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 130
        assert json.loads(out)["pending"] > 0
        with closing(read_ledger(site.ledger)) as ledger:
            assert ledger.reports.counts(0).of(State.SENDING, State.IN_DOUBT) == 0
    site.sandbox.set_faults()
    assert site.run("reconcile", "--json").only["verified"] == 400
    assert len(site.sandbox.assets()) == 400


def test_a_second_signal_ends_at_once(site, eventually):
    site.run("reconcile")
    site.write("a.jpg")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.HANG, operation=UPLOAD, seconds=60))
    process = site.start("reconcile")
    eventually(lambda: "sending" in _states(site))
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGINT)
    # After the first signal alone, the upload in flight would have ten seconds.
    process.communicate(timeout=8)
    assert process.returncode == 130


def test_nohup_run_survives_closed_terminal(site, eventually):
    for number in range(10):
        site.write(f"{number}.txt", b"%d" % number)
    site.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=UPLOAD, seconds=0.2))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = site.start("reconcile", "--json", "--quiet")
    finally:
        signal.signal(signal.SIGHUP, before)
    eventually(lambda: len(site.sandbox.assets()) > 2)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["verified"]) == (0, 10)


def _states(site) -> set[str]:
    with closing(read_ledger(site.ledger)) as ledger:
        return {str(row.state) for row in ledger.reports.files()}


class TestDryRun:
    def test_dry_run_creates_nothing(self, site):
        site.write("a.jpg", b"four")
        before = site.left_behind()
        result = site.run("reconcile", "--dry-run", "--json")
        assert (result.code, list(result.only)) == (1, list(KEYS))
        assert (result.only["uploaded"], result.only["bytes_uploaded"], result.only["verified"]) == (1, 4, 0)
        assert site.left_behind() == before
        assert site.sandbox.assets() == []

    def test_dry_run_without_temporary_folder_is_exit_2(self, site, monkeypatch):
        site.write("a.jpg")
        monkeypatch.setattr(tempfile, "tempdir", str(site.folder / "none"))
        result = site.run("reconcile", "--dry-run")
        assert (result.code, result.out) == (2, "")
        assert "no temporary folder can be made (No such file or directory): set $TMPDIR to a folder" in result.err

    def test_dry_run_works_beside_holder(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        content = site.ledger.read_bytes()
        site.write("b.jpg")
        result = site.run("reconcile", "--dry-run", "--json")
        assert (result.code, result.only["unchanged"], result.only["uploaded"]) == (1, 1, 1)
        assert site.ledger.read_bytes() == content
        with closing(open_ledger(site.ledger)):
            beside = site.run("reconcile", "--dry-run", "--json")
        assert (beside.code, beside.only["uploaded"]) == (1, 1)

    def test_dry_run_does_not_read_the_lock(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        lock = site.ledger.with_name(f"{site.ledger.name}.lock")
        lock.unlink()
        # A link in its place is what root, too, does not read it through.
        lock.symlink_to("nowhere")
        site.write("b.jpg")
        result = site.run("reconcile", "--dry-run")
        assert (result.code, result.err) == (1, "")
        assert result.out.startswith("hq: would upload at most 1 file")

    def test_of_a_site_in_sync_is_exit_0(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        assert site.run("reconcile", "--dry-run").code == 0

    def test_dry_run_is_marked_as_dry_run(self, site):
        site.write("a.jpg")
        assert site.run("reconcile", "--json").only["dry_run"] is False
        site.write("empty.jpg", b"")
        site.run("reconcile")
        assert site.run("reconcile", "--dry-run", "--json").only["dry_run"] is True
        result = site.run("reconcile", "--dry-run")
        assert (result.code, result.out.splitlines()[0]) == (
            1, "hq: nothing to upload; 2 scanned, 2 unchanged; not in sync: 1 blocked",
        )  # fmt: skip

    def test_does_not_ask_the_service(self, site):
        site.write("a.jpg")
        site.nowhere()
        assert site.run("reconcile", "--dry-run").code == 1

    def test_dry_run_without_root_is_exit_1(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        site.tree.rename(site.folder / "elsewhere")
        result = site.run("reconcile", "--dry-run", "--json")
        assert (result.code, result.only["scanned"], result.only["in_sync"]) == (1, 0, False)


class TestRoot:
    @pytest.mark.parametrize("option", ["--json", "--dry-run"])
    def test_new_site_without_root_is_exit_2(self, site, option):
        site.tree.rename(site.folder / "elsewhere")
        before = site.left_behind()
        result = site.run("reconcile", option)
        assert (result.code, result.out) == (2, "")
        assert "the root" in result.err
        assert site.left_behind() == before

    def test_known_site_without_root_pulls_brake(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        site.tree.rename(site.folder / "elsewhere")
        result = site.run("reconcile", "--wait", "0s")
        assert result.code == 1
        assert "brake 1" in result.out
        assert "assetsync resume 1" in result.out
        assert site.files() == {"photos/a.jpg": "verified"}


def test_each_config_mistake_is_one_line(site):
    site.configure(more="upload: {workers: many}\nbrake: {max_new_fils: 3}\n")
    result = site.run("reconcile", "--json")
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"Error: {site.config}, line ") for line in lines)


def test_missing_ledger_folder_is_exit_2(site):
    site.ledger = site.folder / "nowhere" / "site.db"
    site.configure()
    result = site.run("reconcile")
    assert result.code == 2
    assert "folder of the ledger" in result.err


def test_a_file_that_is_no_ledger_is_exit_2(site):
    site.ledger.write_bytes(b"this is no database at all" * 100)
    result = site.run("reconcile")
    assert result.code == 2
    assert "is no ledger" in result.err


def test_key_file_open_to_others_is_warned(site):
    site.key_file.chmod(0o644)
    result = site.run("reconcile", "--json")
    assert result.code == 0
    assert f"Warning: {site.key_file}: everyone can read" in result.err


@pytest.mark.parametrize("wait", ["soon", "5 apples", "-1s"])
def test_invalid_wait_duration_is_exit_2(site, wait):
    result = site.run("reconcile", f"--wait={wait}")
    assert result.code == 2
    assert "number and its unit" in result.err


def test_quiet_suppresses_progress_on_stderr(site):
    site.write("a.jpg")
    events = [json.loads(line) for line in site.run("reconcile", "--json").err.splitlines()]
    phases = [(event["event"], event["phase"]) for event in events if "phase" in event]
    assert phases == [
        (event, phase) for phase in ("scan", "upload", "verify") for event in ("phase begins", "phase ends")
    ]
    ended = {event["phase"]: event["files"] for event in events if event["event"] == "phase ends"}
    assert (ended["upload"], ended["verify"]) == (1, 1)
    site.write("b.jpg")
    assert site.run("reconcile", "--quiet").err == ""


def test_adopt_takes_over_manual_uploads(site):
    path = site.write("a.jpg", b"the same bytes")
    assert site.run("upload", "--folder", "A6CE649FAA5F434EB513CA15656AB5AA", str(path)).code == 0
    said = site.run("reconcile", "--adopt", "--json").only
    assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 1, 1)
    assert len(site.sandbox.assets()) == 1


def test_adopt_beside_a_daemon_is_a_request(make_site):
    site = make_site(md5=False)
    path = site.write("a.jpg", b"the same bytes")
    site.upload_unseen(path)
    site.run("reconcile", "--wait", "0s")
    assert "--adopt" in site.run("status").out
    with Holder(site):
        result = site.run("reconcile", "--adopt", "--json")
    assert (result.code, result.only["done"], result.only["request"]) == (0, True, 1)
    assert "equal assets are adopted" in result.only["detail"]
    said = site.run("reconcile", "--json").only
    assert (said["uploaded"], said["adopted"], said["verified"]) == (0, 1, 1)


def test_control_chars_in_names_are_escaped(site):
    names = [b"bad \xff byte.txt", b"new\nline.txt", b"\x1b[31mred.txt", b"-dash.txt", b"quote'\".txt"]
    for number, name in enumerate(names):
        site.write(name, b"%d bytes or so" % number)
    site.write(b"empty\n\x1b[2J.txt", b"")
    result = site.run("reconcile")
    assert result.code == 1
    assert "\x1b" not in result.out + result.err
    assert len([line for line in result.out.splitlines() if "blocked: " in line]) == 1
    rows = site.run("files", "--json")
    assert "\x1b" not in rows.out
    assert len(rows.objects) == 6
    assert {row["state"] for row in rows.objects} == {"verified", "blocked"}


@pytest.mark.parametrize("command", ["check", "reconcile", "run"])
def test_missing_root_names_the_configuration(site, command):
    site.tree.rename(site.tree.with_name("elsewhere"))
    result = site.run(command)
    assert result.code == 2
    assert f"correct `root` in {site.config}\n" in result.out + result.err


def test_wrong_upload_url_is_named(make_site):
    site = make_site(strays="html")
    site.configure(upload_url=site.sandbox.base_url)
    site.write("a.jpg")
    result = site.run("reconcile", "--wait", "1s")
    wrong = f"service.upload_url: what answers at {site.sandbox.base_url} is not the upload operation of the service"
    assert f"wrong upload address: {wrong}" in result.out
    assert "wrong upload address" in result.err
    status = site.run("status", "--json").only
    assert (status["level"], status["wrong_address"].startswith(wrong)) == ("needs_you", True)
    assert "Action needed: wrong upload address." in site.run("status").out
    site.configure()
    assert site.run("status", "--json").only["wrong_address"] is None
    assert site.sandbox.assets() == []


def test_user_without_administration_is_in_sync(make_site):
    site = make_site(rights={PHOTOS: "write", PAPERS: "write"})
    site.write("a.jpg", b"one")
    assert site.run("reconcile", "--json").only["in_sync"]
    assert site.run("audit").code == 0
