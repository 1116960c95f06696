"""`status --all` and `status --brief`: every site of a server, and whether a person is needed.

Covers `cli/overview.py`.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator

from assetsync.cli import options
from assetsync.cli.commands.schema import schema
from assetsync.cli.entry import run
from assetsync.cli.overview import needs_person
from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.runs import HeldUp, LastHolder, PageAddress, Pause, Unsettled
from assetsync.status.site_status import read_status


@pytest.fixture
def server(tmp_path, monkeypatch, capsys):
    """A server's folder of configurations; gives a function that runs `status`."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(options, "CONFIGURATIONS", folder)
    monkeypatch.delenv("ASSETSYNC_CONFIG", raising=False)

    def ask(*words):
        capsys.readouterr()
        code = run(["status", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    ask.folder = folder
    return ask


def install(server, site, name, *, reconciled=True):
    """Install a copy of the site, with a tree and a ledger of its own."""
    tree = shutil.copytree(site.tree, site.folder / f"tree of {name}")
    text = site.config.read_text().replace("site: hq", f"site: {name}")
    text = text.replace(f"ledger: {site.ledger}", f"ledger: {site.folder / name}.db")
    text = text.replace(f"root: {site.tree}", f"root: {tree}")
    (server.folder / f"{name}.yaml").write_text(text)
    if reconciled:
        run(["reconcile", "--wait", "0s", "--quiet", "--config", str(server.folder / f"{name}.yaml")])
    return site.folder / f"{name}.db"


def first_words(out):
    return [line.split()[0] for line in out.splitlines()]


@pytest.fixture
def mixed(server, site):
    """Four sites: in sync, with a blocked file, never started, and with a mistake in the configuration."""
    site.write("a.jpg")
    install(server, site, "calm")
    site.write("empty.jpg", b"")
    install(server, site, "worse")
    install(server, site, "new", reconciled=False)
    (server.folder / "odd.yaml").write_text("site: odd\nroot: relative\n")
    return server


def test_worst_site_is_first(mixed):
    code, out, _ = mixed("--all")
    assert code == 0, out
    assert first_words(out) == ["new", "odd", "worse", "calm"]
    lines = out.splitlines()
    assert "never started: there is no ledger at " in lines[0]
    assert re.search(r"has mistakes: \S+odd.yaml, line 1: .*\(and \d more mistakes?\)", lines[1])
    assert "1 of 2 verified, 1 needs you." in lines[2]
    assert "in sync" in lines[3]


def test_json_has_a_line_for_each_site(mixed):
    code, out, _ = mixed("--all", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    for row in rows:
        assert list(Draft202012Validator(schema("status-all")).iter_errors(row)) == []
    assert code == 0, out
    assert [(row["site"], row["needs_you"], row["in_sync"]) for row in rows] == [
        ("new", None, None),
        ("odd", None, None),
        ("worse", True, False),
        ("calm", False, True),
    ]
    assert [row["detail"] is None for row in rows] == [False, False, True, True]


def test_brief_of_all_is_one_line(mixed):
    code, out, _ = mixed("--all", "--brief")
    assert (code, out) == (2, "4 sites: 2 unknown (new, odd), 1 in need of a person (worse), 1 in sync\n")
    for name in ("new", "odd"):
        (mixed.folder / f"{name}.yaml").unlink()
    assert mixed("--all", "--brief")[0] == 1
    (mixed.folder / "worse.yaml").unlink()
    assert mixed("--all", "--brief")[:2] == (0, "1 site: 1 in sync\n")


def test_brief_of_all_counts_what_is_not_in_sync(server, site):
    """Its process is paused, or none runs: it is not "in progress"."""
    site.write("a.jpg")
    path = install(server, site, "waiting")
    with closing(open_ledger(path)) as ledger:
        ledger.runs.note_unsettled(Unsettled(1))
    assert "No process is running" in server("--all")[1]
    assert server("--all", "--brief")[:2] == (0, "1 site: 1 not in sync (waiting)\n")


def test_brief_exits_with_1_for_a_person(mixed):
    code, out, _ = mixed("--site", "worse", "--brief")
    assert (code, out.count("\n")) == (1, 1)
    assert out.startswith("worse: 1 of 2 verified, 1 needs you.")
    assert mixed("--site", "worse", "--brief", "--json")[0] == 1
    assert mixed("--site", "worse")[0] == 0
    code, out, _ = mixed("--site", "calm", "--brief")
    assert (code, out.count("\n")) == (0, 1)


def test_brief_asks_for_a_person_after_an_old_scan(server, site):
    """Nobody has looked at the tree for three days, so that the last word is worth nothing."""
    site.write("a.jpg")
    path = install(server, site, "calm")
    with closing(open_ledger(path)) as ledger:
        scan = ledger.runs.last_scan()
        ledger.runs.scanned(scan._replace(at=scan.at - 3 * 86400 - 60), 0.1)
    code, out, _ = server("--brief")
    assert code == 1, out
    assert out.endswith("; no scan for 3 d\n")
    assert first_words(server("--all")[1]) == ["calm"]
    assert json.loads(server("--all", "--json")[1])["needs_you"] is True


@pytest.mark.parametrize(("minutes", "code"), [(59, 0), (61, 1)])
def test_brief_asks_for_a_person_after_an_hour(server, site, minutes, code):
    """Uploads would resume by themselves; but whoever has only this line would not hear of a service that is gone."""
    site.write("a.jpg")
    path = install(server, site, "calm")
    with closing(open_ledger(path)) as ledger:
        ledger.runs.record(Pause, Pause(ledger.start_no, time.time() - minutes * 60, "unreachable", "no answer"))
        assert server("--brief")[0] == code


@pytest.mark.parametrize(("minutes", "everything", "needs"), [(59, True, False), (61, True, True), (61, False, False)])
def test_hour_stopped_by_doubts_needs_a_person(world, minutes, everything, needs):
    world.scan_and_send()
    status = read_status(world.site.config.outline, world.ledger, world.clock.now(), running=True)
    held_up = HeldUp(1, status.at - minutes * 60, ("F1",), everything)
    assert needs_person(replace(status, held_up=held_up)) is needs


@pytest.mark.parametrize("mistake", ["setle: 5s\n", "folders: [\n"])
def test_broken_configuration_shows_its_daemon(server, site, mistake):
    """A daemon goes on with the old configuration: both are shown, the status and the mistakes."""
    site.write("a.jpg")
    path = install(server, site, "calm")
    with (server.folder / "calm.yaml").open("a") as file:
        file.write(mistake)
    assert server("--site", "calm")[:2] == (2, ""), "no daemon has anything to go on with"
    with closing(open_ledger(path)):
        code, out, err = server("--site", "calm")
        assert (code, out.startswith("calm: in sync")) == (2, True)
        assert "a process goes on with the old configuration, because this one has mistakes" in err
        assert "calm.yaml, line " in err
        assert server("--brief")[0] == 2
        assert json.loads(server("--json")[1])["verified"] == 1
        every = server("--all")[1]
        assert "has mistakes: " in every
        assert "goes on with the old configuration: in sync" in every
        assert server("--all", "--brief")[:2] == (1, "1 site: 1 in need of a person (calm)\n")
        row = json.loads(server("--all", "--json")[1])
        assert (row["needs_you"], row["verified"], "has mistakes" in row["detail"]) == (True, 1, True)


def held_last(path, command, hours, timer=None):
    with closing(open_ledger(path)) as ledger:
        ledger.runs.record(LastHolder, LastHolder(command, time.time() - hours * 3600, timer))


def test_ended_daemon_is_not_in_sync(server, site):
    """Nobody has noticed a change since: every line reports it, also of a daemon that was stopped on purpose."""
    site.write("a.jpg")
    path = install(server, site, "calm")
    held_last(path, "run", 3 / 60)
    code, out, _ = server("--brief")
    assert (
        code,
        bool(re.fullmatch(r"calm: Action needed: not running since \d\d:\d\d UTC\. 1 of 1 verified\.\n", out)),
    ) == (
        1,
        True,
    )
    code, out, _ = server("--all")
    assert (code, "Action needed: not running since" in out) == (1, True)
    assert server("--all", "--brief")[:2] == (1, "1 site: 1 in need of a person (calm)\n")
    code, shown, _ = server()
    assert code == 1, shown
    assert re.search(r"\nnot running since \S+Z: (systemctl start assetsync@calm|assetsync run)", shown)
    assert "no process sends" not in shown
    for words in (["--json"], ["--all", "--json"]):
        code, out, _ = server(*words)
        row = json.loads(out)
        assert (code, row["in_sync"], row["level"], row["running"]) == (1, False, "needs_you", False)
        assert row["not_running_since"].endswith("Z")


def test_held_ledger_is_running(server, site):
    site.write("a.jpg")
    path = install(server, site, "calm")
    held_last(path, "run", 3)
    with closing(open_ledger(path)):
        assert server("--brief")[0] == 0
        code, out, _ = server("--json")
        assert (code, json.loads(out)["not_running_since"]) == (0, None)


@pytest.mark.parametrize(
    ("command", "hours", "timer", "code"),
    [
        pytest.param("run", 1 / 60, None, 0, id="a restart"),
        pytest.param("reconcile", 25, 3600.0, 0, id="a timer in time"),
        pytest.param("reconcile", 27, 3600.0, 1, id="a late timer"),
        pytest.param("reconcile", 27, 0.0, 1, id="a late timer of unknown calendar"),
        pytest.param("reconcile", 27, None, 0, id="by hand"),
        pytest.param("reconcile", 7 * 24 + 1, 7 * 24 * 3600.0, 0, id="a weekly timer in time"),
        pytest.param("reconcile", 7 * 24 + 3, 7 * 24 * 3600.0, 1, id="a late weekly timer"),
    ],
)
def test_last_holder_decides_what_is_late(server, site, command, hours, timer, code):
    site.write("a.jpg")
    held_last(install(server, site, "calm"), command, hours, timer)
    for words in (["--brief"], [], ["--all"], ["--json"]):
        found, out, _ = server(*words)
        is_late = "no pass since" in out
        assert (found, is_late) == (code, command == "reconcile" and code == 1), words


def test_expected_every_moves_the_limit(server, site):
    site.configure(more="status: {listen: null, expected_every: 3d}\n")
    site.write("a.jpg")
    path = install(server, site, "calm")
    held_last(path, "reconcile", 71, 3600.0)
    assert server("--brief")[0] == 0
    held_last(path, "reconcile", 73, 3600.0)
    assert server("--brief")[0] == 1


def test_weekly_pass_has_no_old_scan(server, site):
    site.write("a.jpg")
    path = install(server, site, "calm")
    held_last(path, "reconcile", 100, 7 * 86400.0)
    with closing(open_ledger(path)) as ledger:
        ledger.runs.scanned(ledger.runs.last_scan()._replace(at=time.time() - 100 * 3600), 0.1)
    assert server("--brief")[0] == 0


def test_other_commands_hold_nothing_up(server, site):
    """After the end of a daemon, `retry` takes the ledger for a moment."""
    site.write("a.jpg")
    held_last(install(server, site, "calm"), "run", 3)
    assert run(["retry", "--site", "calm"]) == 0
    assert server("--brief")[0] == 1
    assert run(["reconcile", "--wait", "0s", "--quiet", "--site", "calm"]) == 0
    assert server("--brief")[0] == 0


def test_unreadable_lock_needs_a_person(server, site):
    site.write("a.jpg")
    path = install(server, site, "calm")
    lock = path.with_name(f"{path.name}.lock")
    lock.unlink()
    lock.symlink_to(site.folder / "nowhere")
    code, out, _ = server("--brief")
    assert (code, "Action needed: unknown whether it runs. 1 of 1 verified. The lock of the ledger" in out) == (1, True)
    code, out, _ = server("--all", "--json")
    row = json.loads(out)
    assert (code, row["running"], row["in_sync"], row["needs_you"]) == (1, None, False, True)
    code, out, _ = server()
    assert (code, "the lock of the ledger" in out) == (1, True)


@pytest.fixture
def timer(tmp_path, monkeypatch):
    """Run this process as the timer's unit does; gives a function that sets the timer's calendar."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("TRIGGER_UNIT", "assetsync-reconcile@calm.timer")

    def set_calendar(*expressions):
        lines = "\n".join(f"{{ OnCalendar={each} ; next_elapse=Sat 2026-11-28 19:00:00 UTC }}" for each in expressions)
        (tools / "systemctl").write_text(f"#!/bin/sh\ncat <<EOF\n{lines}\nEOF\n")
        (tools / "systemctl").chmod(0o755)

    return set_calendar


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize(
    ("calendar", "longest"),
    [(["*-*-* *:00:00"], 3600), (["Mon..Fri *-*-* 03:00:00"], 3 * 86400), (["Sun 03:00", "hourly"], 3600), ([], 0)],
)
def test_pass_of_the_timer_records_its_calendar(server, site, timer, calendar, longest):
    site.write("a.jpg")
    timer(*calendar)
    path = install(server, site, "calm")
    with closing(open_ledger(path)) as ledger:
        holder = ledger.runs.recorded(LastHolder)
    assert (holder.command, holder.timer) == ("reconcile", longest)


def test_pass_by_hand_keeps_the_timer(server, site, timer, monkeypatch):
    """The timer is expected to go on; until then the pass by hand counts."""
    site.write("a.jpg")
    timer()
    path = install(server, site, "calm")
    monkeypatch.delenv("TRIGGER_UNIT")
    run(["reconcile", "--wait", "0s", "--quiet", "--site", "calm"])
    with closing(open_ledger(path)) as ledger:
        assert ledger.runs.recorded(LastHolder).timer == 0
    held_last(path, "run", 3)
    run(["reconcile", "--wait", "0s", "--quiet", "--site", "calm"])
    with closing(open_ledger(path)) as ledger:
        assert ledger.runs.recorded(LastHolder).timer is None


def test_pages_are_shown_or_why_not(server, site):
    """The overview names each site's page, or why it has none, and what to do about that."""
    site.write("a.jpg")
    pages = {
        "free": PageAddress(0, "127.0.0.1", 9470),
        "taken": PageAddress(0, "0.0.0.0", 9464, "Address already in use"),
    }
    held = []
    for name, page in pages.items():
        held.append(open_ledger(install(server, site, name)))
        held[-1].runs.record(PageAddress, page._replace(start=held[-1].start_no))
    _, out, _ = server("--all")
    _, taken, _ = server("--site", "taken")
    _, brief, _ = server("--all", "--brief")
    for ledger in held:
        ledger.close()
    lines = out.splitlines()
    assert first_words(out) == ["taken", "free"], "files are mirrored, but a person wants to know"
    assert brief == "2 sites: 1 in sync without a page (taken), 1 in sync\n"
    assert lines[0].split()[1] == "-"
    assert "no page: 0.0.0.0:9464: Address already in use" in lines[0]
    assert lines[1].split()[1] == "http://127.0.0.1:9470/"
    assert "    give each site a port of its own in status.listen, or write `auto` there" in taken.splitlines()
    assert "http" not in server("--all")[1], "without a process there is no page"


def test_files_of_others_are_left_out(server, site):
    """Lists for other programs, hidden files of editors, and folders lie beside the configurations."""
    site.write("a.jpg")
    install(server, site, "calm")
    (server.folder / "receivers.yaml").write_text("urls: [https://chat.example.com/hook]\n")
    (server.folder / ".calm.yaml").write_text("site: [")
    (server.folder / ".#calm.yaml").symlink_to("nobody@nowhere.1")
    (server.folder / "old.yaml").mkdir()
    code, out, err = server("--all")
    assert (code, first_words(out)) == (0, ["calm"])
    assert err == f"{server.folder}/receivers.yaml is left out: it has none of the keys of a configuration\n"
    (server.folder / "receivers.yaml").unlink()
    assert server("--brief")[0] == 0, "the only configuration is found without --site"


@pytest.mark.parametrize("text", ["site: [", "", "folders: []\n", None])
def test_what_may_be_a_site_is_shown(server, text):
    path = server.folder / "hq.yaml"
    if text is None:
        path.symlink_to("nowhere")
    elif text:
        path.write_text(text)
    else:
        path.write_text("site:\n")
    code, out, _ = server("--all", "--brief")
    assert (code, out) == (2, "1 site: 1 unknown (hq)\n")


def test_server_without_sites_is_exit_2(server):
    code, _, err = server("--all")
    assert (code, f"there is no configuration in {server.folder}" in err) == (2, True)
    server.folder.rmdir()
    assert server("--all")[0] == 2


@pytest.mark.parametrize(
    "words", [["--all", "--site", "x"], ["--all", "--config", "x"], ["--all", "--watch"], ["--brief", "--watch"]]
)
def test_contradictory_options_are_refused(mixed, words):
    code, out, err = mixed(*words, *(["--site", "calm"] if words[0] == "--brief" else []))
    assert (code, out, "leave out" in err) == (2, "", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_site_of_another_user_is_shown(server, site):
    """A person who may not read one of two ledgers sees both sites, and the command that shows more."""
    site.write("a.jpg")
    install(server, site, "calm")
    path = install(server, site, "other")
    for parent in [server.folder, *path.parents][:-2]:
        parent.chmod(0o755)
    for file in path.parent.glob("calm.db*"):
        file.chmod(0o644)
    nobody = pwd.getpwnam("nobody")
    program = (
        "import os, pathlib, sys; from assetsync.cli import entry, options; from assetsync.config import load_config\n"
        f"options.CONFIGURATIONS = pathlib.Path({str(server.folder)!r})\n"
        "entry.run(['status', '--all', '--json'])  # loads what the other user may not read\n"
        f"load_config(options.CONFIGURATIONS / 'other.yaml', {{}})\n"
        f"os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})\n"
        "sys.exit(entry.run(['status', '--all']))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("{")]
    assert (done.returncode, first_words("\n".join(lines[:2]))) == (0, ["other", "calm"]), done.stderr
    assert f"cannot be read: the ledger {path} belongs to the user root, and this is nobody" in lines[0]
    assert lines[2].startswith("as the user of these ledgers: ")
    assert lines[2].endswith(" status --all")


def test_ten_sites_take_a_second(server, site):
    for number in range(10):
        site.write(f"{number}.jpg", str(number).encode())
        install(server, site, f"site{number}")
    before = time.process_time()
    _, out, _ = server("--all")
    assert (len(out.splitlines()), time.process_time() - before < 1.0) == (10, True)
