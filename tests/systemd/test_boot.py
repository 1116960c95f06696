"""The units on a booted server: a bare Debian, the README's five commands, and a service on the other side.

Here the hardening proves that Python, SQLite, inotify and TLS's libraries live under it, and that it holds.
"""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
import yaml

from assetsync.sandbox import FaultKind, FaultRule, Operation

from ..printed import printed  # noqa: TID252 - the one way to another folder's parts
from .conftest import KEY, OTHER, UNIT
from .readme import SYSTEMD

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_readme_commands_start_a_running_site(server):
    server.until_mirrored(60)
    assert server.show("ActiveState", "SubState", "UnitFileState") == {
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
    }


def test_systemctl_status_shows_the_verdict(server):
    server.until_mirrored()
    line = f"in sync: {len(server.expected())} files verified"
    server.machine.until(lambda: server.show("StatusText") == {"StatusText": line}, 20, line)


def test_page_and_metrics_work_when_confined(server):
    server.until_mirrored()
    port = re.findall(r"status page .* port=([0-9]+)", server.journal(0))[-1]

    def get(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()

    count = len(server.expected())
    server.machine.until(lambda: f"in sync: {count} files verified" in get("/"), 20, "the page says so")
    metrics = get("/metrics")
    assert f'assetsync_files{{site="hq",state="verified"}} {count}.0' in metrics
    assert 'process_resident_memory_bytes{site="hq"}' in metrics
    assert get("/healthz") == "ok\n"
    assert KEY not in get("/status.json") + metrics + get("/")


def test_new_file_is_mirrored_before_the_scan(server):
    server.until_mirrored()
    server.add("photos/new/watched.jpg", os.urandom(1000))
    assert server.until_mirrored() < 30


def test_group_readable_file_is_mirrored(server):
    server.machine.out("groupadd --gid 4711 media && usermod -aG media assetsync")
    server.machine.out(f"systemctl restart {UNIT}")
    folder = server.tree / "photos" / "group"
    folder.mkdir()
    os.chown(folder, 0, 4711)
    folder.chmod(0o750)
    server.add("photos/group/shared.jpg", os.urandom(1000))
    server.until_mirrored()


def test_ledger_belongs_to_the_daemon_alone(server):
    files = server.machine.out("cd /var/lib/assetsync && stat -c '%U:%G %a %n' . *").splitlines()
    assert "assetsync:assetsync 700 ." in files
    assert "assetsync:assetsync 600 hq.db" in files
    folders = {"assetsync:assetsync 700 .", "assetsync:assetsync 700 hq.db.canary"}
    assert [line for line in files if line not in folders and not line.startswith("assetsync:assetsync 600 ")] == []


def test_key_reaches_only_the_daemon(server):
    since = time.time()
    machine = server.machine
    machine.out(f"systemctl restart {UNIT}")
    server.until_mirrored()
    pid = server.main_pid()
    assert machine.run("runuser -u assetsync -- cat /etc/assetsync/hq.key").returncode != 0
    shown = machine.out(
        f"cat /proc/{pid}/environ /proc/{pid}/cmdline; systemctl status {UNIT}; grep -r '' /etc/systemd"
    )
    assert KEY not in shown
    assert KEY not in server.journal(since)
    assert machine.run(f"grep -rl {KEY} /var/lib/assetsync").stdout == ""


def test_the_process_is_confined(server):
    pid = server.main_pid()
    status = dict(re.findall(r"^(\w+):\s+(.*)$", server.machine.out(f"cat /proc/{pid}/status"), re.MULTILINE))
    user = server.machine.out("id -u assetsync").strip()
    assert status["Uid"].split() == [user] * 4
    assert {name: status[name] for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd")} == {
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "CapEff": "0" * 16,
        "CapBnd": "0" * 16,
    }


@pytest.mark.parametrize(
    "place", ["/etc", "/home", "/opt/assetsync", "/root", "/run", "/srv/media", "/usr", "/var/lib"]
)
def test_process_files_are_read_only_for_root(server, place):
    inside = f"nsenter --target {server.main_pid()} --mount"
    server.machine.out(f"{inside} touch /var/lib/assetsync/may /tmp/may && {inside} rm /var/lib/assetsync/may /tmp/may")
    assert "Read-only file system" in server.machine.run(f"{inside} touch {place}/may-not").stderr


def test_killed_daemon_is_restarted(server):
    server.until_mirrored()
    before = server.main_pid()
    restarts = int(server.show("NRestarts")["NRestarts"])
    server.machine.out(f"kill -9 {before}")
    server.add("photos/after-kill.jpg", os.urandom(1000))
    server.machine.until(lambda: server.main_pid() not in (0, before), 20, "another process")
    server.until_mirrored()
    assert int(server.show("NRestarts")["NRestarts"]) == restarts + 1


def test_hung_daemon_is_restarted_by_watchdog(server):
    server.shorten(WatchdogSec="4s")
    server.machine.out(f"systemctl restart {UNIT}")
    server.until_mirrored()
    # Fed in time it lives on.
    before = server.main_pid()
    time.sleep(9)
    assert server.main_pid() == before
    since = time.time()
    server.machine.out(f"kill -STOP {before}")
    server.add("photos/after-hang.jpg", os.urandom(1000))
    server.machine.until(lambda: server.main_pid() not in (0, before), 30, "another process")
    server.until_mirrored()
    assert "Watchdog timeout" in server.journal(since)
    assert "Failed with result 'watchdog'" in server.journal(since)


def test_open_uploads_finish_before_the_stop(server):
    server.until_mirrored()
    # Longer than a busy machine takes to ask for the state, and shorter than read_timeout.
    server.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=7.0))
    server.add("photos/on-its-way.jpg", os.urandom(1000))
    server.machine.until(lambda: server.state("photos/on-its-way.jpg") == "sending", 20, "it is on its way")
    assert server.stop() < 15
    assert server.state("photos/on-its-way.jpg") == "stored"


def test_stop_is_timely_despite_hung_service(server):
    server.until_mirrored()
    # So long that only the stop can cut a call short.
    server.machine.write("/etc/assetsync/hq.yaml", server.config.replace("read_timeout: 8s", "read_timeout: 10m"))
    server.machine.out(f"systemctl restart {UNIT}")
    hung_search = FaultRule(kind=FaultKind.LATENCY, operation=Operation.SEARCH, seconds=600.0)
    server.sandbox.set_faults(hung_search)
    server.add("photos/hung-search.jpg", os.urandom(1000))
    server.machine.until(lambda: server.state("photos/hung-search.jpg") == "stored", 20, "it waits for its search")
    server.sandbox.set_faults(hung_search, FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=600.0))
    server.add("photos/hung-upload.jpg", os.urandom(1000))
    server.machine.until(lambda: server.state("photos/hung-upload.jpg") == "sending", 20, "it is on its way")
    assert server.stop() < 60
    # It would be in doubt for at least that read_timeout.
    server.machine.out("assetsync doubt resolve --site hq photos/hung-upload.jpg --absent")


def test_new_key_is_read_by_a_restart(server):
    server.until_mirrored()
    since = time.time()
    server.machine.write("/etc/assetsync/hq.key", "the-key-of-tomorrow\n")
    server.machine.out(f"systemctl reload {UNIT}")
    server.machine.until(lambda: "hq.key has changed" in server.journal(since), 30, "the reload warns")
    assert f'fix="systemctl restart {UNIT}"' in server.journal(since)
    server.add("photos/old-key.jpg", os.urandom(1000))
    server.until_mirrored()
    server.machine.out(f"systemctl restart {UNIT}")
    server.add("photos/new-key.jpg", os.urandom(1000))
    server.machine.until(lambda: "the service refuses the API key" in server.status(), 40, "the refusal")
    [command] = (command for command in printed(server.status()) if command.startswith("systemctl"))
    server.machine.write("/etc/assetsync/hq.key", KEY + "\n")
    server.machine.out(command)
    server.until_mirrored()


def test_printed_commands_run(server):
    """What status, check, explain, the hint for another user and the alerts print is pasted into root's shell."""
    server.until_mirrored()
    server.add("photos/empty.jpg", b"")
    server.machine.until(lambda: "1 blocked" in server.status(), 40, "it is blocked")
    server.stop()
    asked = ["status", "check", "explain photos/empty.jpg"]
    shown = "\n".join(server.machine.run(f"assetsync {command} --site hq").stdout for command in asked)
    shown += server.machine.run("runuser -u nobody -- assetsync status --site hq").stderr
    rules = yaml.safe_load((SYSTEMD / "monitoring" / "assetsync.rules.yml").read_text("utf-8"))["groups"][0]["rules"]
    shown += "\n".join(rule["annotations"]["description"] for rule in rules).replace("{{ $labels.site }}", "hq")
    commands = printed(shown)
    as_owner = "runuser -u assetsync -- /opt/assetsync/bin/assetsync status --site hq"
    assert {f"systemctl start {UNIT}", as_owner, "assetsync doubt list --site hq"} <= set(commands)
    for command in commands:
        done = server.machine.run(command)
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}\n{done.stderr}"
    assert server.show("ActiveState") == {"ActiveState": "active"}
    (server.tree / "photos" / "empty.jpg").unlink()


def test_configuration_mistake_is_not_retried(server):
    server.shorten(RestartSec="200ms")
    server.machine.write("/etc/assetsync/hq.yaml", server.config.replace("settle: 300ms", "settle: soon"))
    since = time.time()
    server.machine.run(f"systemctl restart {UNIT}")
    time.sleep(3)
    assert server.show("ActiveState", "Result", "ExecMainStatus", "NRestarts") == {
        "ActiveState": "failed",
        "Result": "exit-code",
        "ExecMainStatus": "2",
        "NRestarts": "0",
    }
    assert re.search(r"hq\.yaml.*line \d+.*settle", server.journal(since))


def test_reload_keeps_the_same_process(server):
    server.until_mirrored()
    before = server.main_pid()
    mapping = f'folders:\n  - {{path: docs, destfolderid: "{OTHER}"}}\n'
    server.machine.write("/etc/assetsync/hq.yaml", server.config.replace("folders:\n", mapping, 1))
    server.machine.out(f"systemctl reload {UNIT}")
    server.add("docs/minutes.txt", b"minutes")
    server.machine.until(lambda: "docs/minutes.txt" in server.verified(), 40, "the new mapping is mirrored")
    # Longer than the unit gives a process that said it is stopping.
    server.machine.until(lambda: server.show("SubState") == {"SubState": "running"}, 20, "the reload has ended")
    assert server.main_pid() == before
    (server.tree / "docs" / "minutes.txt").unlink()


def test_pause_outlasts_restart_reload_and_reboot(server):
    """To the program a reboot is another boot id; below the mounted one of the machine lies another."""
    machine = server.machine
    server.until_mirrored()
    machine.out("assetsync pause --site hq --why 'the racks move'")
    server.add("photos/paused.jpg", os.urandom(1000))
    machine.until(lambda: server.state("photos/paused.jpg") == "queued", 40, "the file waits")
    reboot = f"umount /proc/sys/kernel/random/boot_id && kill -9 $(systemctl show -P MainPID {UNIT})"
    for change in (f"systemctl restart {UNIT}", f"systemctl reload {UNIT}", reboot):
        before = server.main_pid()
        machine.out(change)
        machine.until(lambda: server.show("SubState") == {"SubState": "running"}, 40, "the daemon runs")
        if "reload" not in change:
            machine.until(lambda before=before: server.main_pid() not in (0, before), 40, "another process")
        time.sleep(6)
        assert "the racks move" in server.status(), change
        assert server.state("photos/paused.jpg") == "queued", change
    machine.out("assetsync resume --pause --site hq")
    server.until_mirrored()


def test_bad_reload_keeps_old_configuration(server):
    server.until_mirrored()
    before = server.main_pid()
    since = time.time()
    server.machine.write("/etc/assetsync/hq.yaml", server.config.replace("settle: 300ms", "settle: soon"))
    server.machine.out(f"systemctl reload {UNIT}")
    server.machine.until(lambda: "the old one stays" in server.journal(since), 20, "the refusal")
    server.add("photos/after-refusal.jpg", os.urandom(1000))
    server.machine.write("/etc/assetsync/hq.yaml", server.config)
    server.until_mirrored()
    assert server.main_pid() == before


def test_confined_command_receives_message(server):
    """A notify command below the unit gets the event, but no key and no writable system."""
    server.until_mirrored()
    told = "cat > /var/lib/assetsync/told; env >> /var/lib/assetsync/told; touch /etc/x 2>> /var/lib/assetsync/told"
    notify = f"notify:\n  command: [sh, -c, '{told}; true']\n"
    server.machine.write("/etc/assetsync/hq.yaml", re.sub(r"(?ms)^notify:.*", notify, server.config))
    server.machine.out(f"systemctl reload {UNIT}")
    server.add("photos/empty.jpg", b"")
    try:
        server.machine.until(
            lambda: "empty.jpg (empty_file)" in server.machine.run("cat /var/lib/assetsync/told").stdout,
            40,
            "it is told",
        )
    finally:
        (server.tree / "photos" / "empty.jpg").unlink()
    shown = server.machine.out("cat /var/lib/assetsync/told")
    assert "ASSETSYNC_EVENT=blocked" in shown
    assert "Read-only file system" in shown
    assert "CREDENTIALS_DIRECTORY" not in shown
    assert KEY not in shown


def test_pass_beside_the_daemon_ends_at_once(server):
    since = time.time()
    server.machine.out("systemctl start assetsync-reconcile@hq")
    # A unit that has ended well is forgotten by systemd: only the journal knows how.
    told = server.machine.out(f"journalctl --no-pager -o cat -u assetsync-reconcile@hq --since=@{since:.3f}")
    assert "another assetsync process" in told
    assert "assetsync-reconcile@hq.service: Deactivated successfully." in told


def test_one_pass_alone_mirrors_what_is_new(server):
    server.until_mirrored()
    server.machine.out(f"systemctl stop {UNIT}")
    server.add("photos/one-pass.jpg", os.urandom(1000))
    server.machine.out("systemctl start assetsync-reconcile@hq")
    server.until_mirrored(5)


def test_the_timer_starts_the_pass(server):
    server.until_mirrored()
    server.machine.out(f"systemctl stop {UNIT}")
    server.add("photos/timer.jpg", os.urandom(1000))
    server.machine.write(
        "/run/systemd/system/assetsync-reconcile@hq.timer.d/soon.conf",
        "[Timer]\nOnCalendar=\nOnActiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
    )
    server.machine.out("systemctl daemon-reload && systemctl start assetsync-reconcile@hq.timer")
    server.until_mirrored()
    server.machine.until(lambda: "the timer's last pass" in server.status(), 20, "the pass is the timer's")
    server.machine.out("systemctl stop assetsync-reconcile@hq.timer")


def test_confined_pass_records_the_calendar(server):
    """The pass asks systemd under its own hardening; without an answer the calendar would be unknown (0)."""
    server.until_mirrored()
    server.machine.out(f"systemctl stop {UNIT}")
    server.machine.write(
        "/run/systemd/system/assetsync-reconcile@hq.timer.d/soon.conf",
        "[Timer]\nOnCalendar=\nOnCalendar=*:*:00/5\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
    )
    server.machine.out("systemctl daemon-reload && systemctl start assetsync-reconcile@hq.timer")
    fact = "SELECT value FROM facts WHERE name = 'last_holder'"
    read = f"import sqlite3; print(*sqlite3.connect('/var/lib/assetsync/hq.db').execute(\\\"{fact}\\\").fetchone())"
    asked = f'runuser -u assetsync -- /opt/assetsync/bin/python -c "{read}"'
    server.machine.until(lambda: '"timer": 5.0' in server.machine.run(asked).stdout, 30, "the calendar is known")
    server.machine.out("systemctl stop assetsync-reconcile@hq.timer")


TOLD = "/run/assetsync/told"


@pytest.fixture
def hour(server):
    """The server with each message in a file, and with what an administrator reads; all of it is printed."""
    server.until_mirrored()
    command = f"notify:\n  command: [sh, -c, 'cat >> {TOLD}; echo >> {TOLD}']\n"
    server.machine.write("/etc/assetsync/hq.yaml", re.sub(r"(?ms)^notify:.*", command, server.config))
    server.machine.out(f"rm -f {TOLD}; systemctl restart {UNIT}")
    server.until_mirrored()

    def read():
        """Return page, status, the line for cron and the messages, and print the sentences."""
        brief = server.machine.run("assetsync status --site hq --brief")
        said = {"status": server.status(), "brief": brief.stdout, "code": brief.returncode, "page": ""}
        for port in re.findall(r"page: http://127.0.0.1:(\d+)/", said["status"]):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                said["page"] = re.sub(r"<[^>]+>|\s+", " ", answer.read().decode())
        lines = server.machine.run(f"cat {TOLD}").stdout.splitlines()
        said["messages"] = [json.loads(line)["text"] for line in lines if line]
        print(f"status: {said['status'].splitlines()[0]}\nbrief ({brief.returncode}): {said['brief'].strip()}")
        print(f"messages: {said['messages'][-2:]}")
        return said

    def until(words, seconds=60, *, where="status"):
        """Wait until `words` stand there; return what is read then."""
        said = {}

        def stands():
            nonlocal said
            said = read()
            return words in str(said[where])

        server.machine.until(stands, seconds, f"{words!r} in {where}")
        return said

    return read, until


def test_hour_of_a_dead_daemon(server, hour):
    _read, until = hour
    server.machine.out(f"systemctl stop {UNIT}")
    said = until("Action needed: not running since", 150, where="brief")
    assert said["code"] == 1
    assert server.machine.run("assetsync status --all").returncode == 1
    [command] = [command for command in printed(said["status"]) if command.startswith("systemctl start")]
    since = time.time()
    assert server.machine.run(command).returncode == 0, server.journal(since)
    said = until("in sync", where="page")
    assert said["code"] == 0


def test_hour_of_a_wrong_key(server, hour):
    _read, until = hour
    server.machine.write("/etc/assetsync/hq.key", "another-key\n")
    server.machine.out(f"systemctl restart {UNIT}")
    said = until("the service refuses the API key", 60, where="messages")
    assert said["code"] == 1
    assert "the service refuses the API key" in said["brief"]
    assert "the service refuses the API key" in said["page"]
    assert "/etc/assetsync/hq.key" in said["messages"][-1]
    server.machine.write("/etc/assetsync/hq.key", KEY + "\n")
    [command] = {each for each in printed(said["messages"][-1]) if each.startswith("systemctl")}
    server.machine.out(command)
    said = until("accepts the API key", 150, where="messages")
    assert (said["code"], "in sync" in said["page"]) == (0, True)


def test_hour_of_a_changed_mode(server, hour):
    """The next scan after `chmod -R` has all files read again while nothing may be sent; 2 GB take some seconds."""
    _read, until = hour
    large = server.tree / "photos" / "large"
    for number in range(4):
        server.add(f"large/{number}.tif", b"%d" % number)
        os.truncate(server.tree / "large" / f"{number}.tif", 512 << 20)
    (server.tree / "large").rename(large)
    try:
        server.machine.until(lambda: server.state("photos/large/3.tif") is not None, 60, "the files are found")
        until("in sync", 240, where="brief")
        before, count = len(server.sandbox.assets()), len(list((server.tree / "photos").rglob("*.*")))
        hours = "-".join(f"{(time.gmtime().tm_hour + shift) % 24:02}:00" for shift in (6, 8))
        open_all_day = server.machine.out("cat /etc/assetsync/hq.yaml")
        closed = open_all_day.replace("window: null", f'window: "{hours}"')
        assert closed != open_all_day
        server.machine.write("/etc/assetsync/hq.yaml", closed)
        subprocess.run(["chmod", "-R", "g+x", server.tree], check=True)
        server.machine.out(f"systemctl restart {UNIT}")
        said = until("being checked again", where="page")
        for where in ("brief", "status", "page"):
            assert re.search(rf"{count:,} of {count:,} verified, \d+ being checked again", said[where]), said[where]
        # Nobody is needed.
        assert said["code"] == 0
        said = until("in sync", 120, where="brief")
        assert (said["code"], len(server.sandbox.assets())) == (0, before)
    finally:
        shutil.rmtree(large)


def test_hour_of_a_hanging_journal(server, hour):
    _read, until = hour
    journal = int(server.machine.show("systemd-journald", "MainPID")["MainPID"])
    server.machine.out(f"kill -STOP {journal}")
    try:
        # Other users' commands would wait for the journal, too.
        for number in range(1500):
            server.add(f"photos/unread/{number}.txt", b"%d" % number)
        server.machine.until(lambda: len(server.sandbox.assets()) >= 1540, 150, "every file is sent")
        said = until("log: behind since", 60)
        assert "its reader does not read" in said["status"]
    finally:
        server.machine.out(f"kill -CONT {journal}")
    until("in sync", where="brief")
    server.machine.until(lambda: "log: behind" not in server.status(), 30, "the log is read")


def test_hour_of_a_full_ledger_disk(server, hour):
    _read, until = hour
    machine = server.machine
    machine.out(
        f"systemctl stop {UNIT}; mkdir /mnt/small; mount -t tmpfs -o size=12m tmpfs /mnt/small;"
        " cp -a /var/lib/assetsync/. /mnt/small/; chown assetsync: /mnt/small; chmod 700 /mnt/small;"
        f" mount --move /mnt/small /var/lib/assetsync; systemctl start {UNIT}"
    )
    try:
        server.until_mirrored()
        machine.run("dd if=/dev/zero of=/var/lib/assetsync/filler bs=4k")
        for number in range(500):
            server.add(f"photos/without-room/{number}.jpg", os.urandom(1000))
        said = until("ledger disk full", 60, where="brief")
        assert said["code"] == 1
        assert "disk" in said["page"]
        until("full", 60, where="messages")
        machine.out("rm /var/lib/assetsync/filler")
        said = until("in sync", 60, where="brief")
        server.until_mirrored()
        until("again", 150, where="messages")
    finally:
        machine.run(f"rm -f /var/lib/assetsync/filler; systemctl stop {UNIT}; umount /var/lib/assetsync")


def test_running_unit_is_rated_like_its_file(server):
    shown = server.machine.out(f"systemd-analyze security --no-pager {UNIT}.service")
    assert float(re.findall(r"exposure level .*: (\d+\.\d)", shown)[0]) <= 2.0


def test_reboot_starts_the_site(server):
    assert server.machine.out("systemctl list-dependencies --plain multi-user.target").count(f"{UNIT}.service") == 1
