"""`assetsync check`: what it finds, and the fix for each finding.

Covers `cli/addresses.py`, `cli/check_ledger.py`, `cli/check_tree.py`, `cli/daemon_user.py` and `cli/finding.py`.
"""

import json
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assetsync.cli import daemon_user, options
from assetsync.cli.check_ledger import _no_room
from assetsync.cli.commands import check as check_command
from assetsync.cli.entry import program
from assetsync.cli.finding import Level
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import KEY, PAPERS, PHOTOS
from tests.core.test_xmp import packet
from tests.forks import call

ROOT = Path(__file__).parents[3]
KEYS = {"what", "level", "detail", "help", "message", "fix"}


def _levels(said) -> dict[str, set[str]]:
    levels: dict[str, set[str]] = {}
    for finding in said["findings"]:
        levels.setdefault(finding["what"], set()).add(finding["level"])
    return levels


def test_sound_site_is_exit_0_with_object(site):
    site.configure(more="status: {listen: null}")
    site.write("a.jpg")
    result = site.run("check", "--json")
    assert (result.code, list(result.only)) == (0, ["ok", "findings"])
    assert result.only["ok"] is True
    assert all(set(finding) == KEYS for finding in result.only["findings"])
    assert _levels(result.only) == {
        what: {"ok"} for what in ("configuration", "key", "tree", "watch", "ledger", "service")
    }


@pytest.mark.parametrize("is_known", [True, False])
def test_plain_500_is_the_services_trouble(site, is_known):
    """Once the address has stored an upload, its failures no longer make it suspect."""
    site.write("a.jpg")
    if is_known:
        site.run("reconcile")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH, status=500))
    (found,) = [f for f in site.run("check", "--json").only["findings"] if f["what"] == "service"]
    assert ("base_url" in f"{found['message']} {found['fix']}") is not is_known
    assert (found["level"], "HTTP status 500" in found["message"]) == ("error", True)


def test_answered_search_proves_no_folder(site):
    site.config.write_text(site.config.read_text("utf-8").replace(site.config.read_text("utf-8").split('"')[1], "NONE"))
    (said,) = [f["message"] for f in site.run("check", "--json").only["findings"] if f["what"] == "service"]
    assert said.endswith("answers a search in folder NONE; the first upload shows whether the folder exists")


def test_folder_spelled_otherwise_is_a_warning(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.FOLDER_CASE))
    findings = site.run("check", "--json").only["findings"]
    (found,) = [f for f in findings if f["what"] == "service" and f["level"] == "warning"]
    assert found["message"].startswith(f"folder {PHOTOS}: the service spells this id {PHOTOS.swapcase()}")
    assert found["fix"] == f"write destfolderid: {PHOTOS.swapcase()}"


def test_held_folder_is_a_warning(site):
    site.config.write_text(site.config.read_text().replace(PHOTOS, "F" * 32))
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    result = site.run("check", "--json")
    (said,) = [finding for finding in result.only["findings"] if finding["what"] == "service"]
    assert (result.code, said["level"], "destfolderid" in said["message"]) == (0, "warning", True)
    assert f"folder {'F' * 32}: " in said["message"]


def test_changes_nothing(site):
    site.write("a.jpg")
    before = site.left_behind()
    site.run("check")
    assert site.left_behind() == before
    assert site.sandbox.assets() == []


def test_each_config_mistake_is_a_finding(site):
    site.configure(more="upload: {workers: many}\nbrake: {max_new_fils: 3}\n")
    result = site.run("check", "--json")
    assert result.code == 2
    assert [finding["what"] for finding in result.only["findings"]] == ["configuration"] * 2


@pytest.mark.parametrize("spoiled", ["configuration", "key"])
def test_message_with_remedy_has_no_fix_line(site, spoiled):
    if spoiled == "key":
        site.key_file.unlink()
    else:
        site.configure(more="brake: {max_new_fils: 3}\n")
    shown, said = site.run("check"), site.run("check", "--json")
    assert (shown.code, "fix:" in shown.out) == (2, False)
    assert [(f["what"], f["fix"]) for f in said.only["findings"] if f["level"] != "ok"] == [(spoiled, None)]


def test_single_finding_uses_singular(site):
    site.write("a.jpg")
    site.write("a.jpg.yaml", b"description: x\n")
    site.run("reconcile", "--wait", "0s")
    said = site.run("check").out
    assert f"{site.tree}: 1 file and 1 sidecar in 2 folders" in said
    assert f"{site.ledger} knows 1 file\n" in said
    assert "site hq, 1 folder mapped" in said


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_every_bad_finding_has_a_fix(site, option):
    site.key_file.chmod(0o644)
    site.photos.rename(site.tree / "elsewhere")
    site.nowhere()
    result = site.run("check", *option)
    assert result.code == 3
    if option:
        wrong = [finding for finding in result.only["findings"] if finding["level"] != "ok"]
        assert {finding["what"] for finding in wrong} == {"key", "folders", "service"}
        assert all(finding["fix"] for finding in wrong)
    else:
        assert result.out.count("fix: ") == 3


def test_missing_key_file_skips_the_service(site):
    site.key_file.unlink()
    result = site.run("check", "--json")
    assert result.code == 2
    assert _levels(result.only)["key"] == {"error"}
    assert "service" not in _levels(result.only)


def test_a_refused_key_is_exit_3(site):
    site.key_file.write_text("another-key")
    result = site.run("check")
    assert result.code == 3
    assert "refuses the API key" in result.out
    assert "another-key" not in result.out + result.err


def test_foreign_answer_is_exit_3_and_named(site):
    site.sandbox.set_faults(FaultRule(kind=FaultKind.HTML))
    result = site.run("check")
    assert result.code == 3
    assert "is not the service" in result.out


def test_missing_root_outranks_dead_service(site):
    site.tree.rename(site.folder / "elsewhere")
    site.nowhere()
    assert site.run("check").code == 2


def test_bad_sidecar_is_reported_with_line(site):
    site.write("a.jpg")
    site.write("a.jpg.yaml", b"description: x\ncolour: red\n")
    result = site.run("check", "--json")
    assert result.code == 0
    (finding,) = [finding for finding in result.only["findings"] if finding["what"] == "sidecar"]
    assert finding["level"] == "warning"
    assert "photos/a.jpg.yaml, line 2" in finding["message"]


def test_too_few_watches_suggest_sysctl_line(site, monkeypatch, tmp_path):
    few = tmp_path / "max_user_watches"
    few.write_text("1\n")
    monkeypatch.setattr("assetsync.cli.check_tree._WATCHES", few)
    site.write("below/a.jpg")
    said = json.loads(site.run("check", "--json").out)
    (finding,) = [finding for finding in said["findings"] if finding["what"] == "watch"]
    assert finding["level"] == "warning"
    assert "fs.inotify.max_user_watches=8 " in finding["fix"]


def test_missing_ledger_folder_is_an_error(site):
    site.ledger = site.folder / "nowhere" / "site.db"
    site.configure()
    result = site.run("check", "--json")
    assert (result.code, _levels(result.only)["ledger"]) == (2, {"error"})


def test_mkdir_and_chmod_run_as_printed(site):
    """A path may hold spaces and quotes."""
    site.ledger, site.key_file = site.folder / "no where" / "s.db", site.key_file.rename(site.folder / "it's a key")
    site.configure()
    site.config.write_text(site.config.read_text().replace(str(site.key_file), f'"{site.key_file}"'))
    site.key_file.chmod(0o644)
    for finding in site.run("check", "--json").only["findings"]:
        if finding["fix"] is not None:
            subprocess.run(["bash", "-ec", finding["fix"]], check=True)
    assert site.run("check").code == 0
    assert (site.key_file.stat().st_mode & 0o777, site.ledger.parent.is_dir()) == (0o600, True)


@pytest.mark.parametrize("said", ["debug: true", "emailto: dam@example.com"])
def test_options_mailing_the_key_are_warned_of(site, said):
    text = site.config.read_text().replace('AA"}', f'AA", upload: {{{said}}}}}')
    site.config.write_text(text)
    result = site.run("check", "--json")
    assert result.code == 0
    (finding,) = [finding for finding in result.only["findings"] if finding["what"] == "folders"]
    assert finding["level"] == "warning"
    assert "also the API key" in finding["message"]


def test_nearly_full_disk_is_reported_early(site, monkeypatch):
    site.write("a.jpg")
    site.run("reconcile")
    sound = os.statvfs(site.ledger.parent)
    short = os.statvfs_result((*sound[:3], sound.f_bfree, 20 * 1024 * 1024 // sound.f_frsize, *sound[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: short)
    (finding,) = [f for f in site.run("check", "--json").only["findings"] if f["what"] == "ledger"]
    assert finding["level"] == "warning"
    assert "has 21.0 MB left" in finding["message"]


def test_unwritable_ledger_folder_is_an_error(tmp_path: Path, monkeypatch):
    assert _no_room(tmp_path / "hq.db") is None
    monkeypatch.setattr(os, "access", lambda _path, mode, **_: mode != os.W_OK)
    found = _no_room(tmp_path / "hq.db")
    assert found is not None
    assert (found.level, "cannot be written" in found.message) == (Level.ERROR, True)


def test_sidecars_without_file_are_counted(site):
    site.write("a.jpg")
    site.write("a.jpg.yaml", b"description: of a\n")
    site.write("_folder.yaml", b"location: here\n")
    for number in range(12):
        site.write(f"{number:02}.jpgg.yaml", b"description: of nobody\n")
    site.run("reconcile")
    result = site.run("check", "--json")
    assert result.code == 0
    said = [finding["message"] for finding in result.only["findings"] if finding["level"] == "warning"]
    assert said[:-1] == [f"photos/{number:02}.jpgg.yaml has no matching file" for number in range(len(said) - 1)]
    assert said[-1] == f"{12 - len(said) + 1} more without a matching file"


@pytest.mark.parametrize(
    ("zone", "warns"),
    [
        ("Nowhere/Atall", True),
        ("../etc/passwd", True),
        ("/nowhere", True),
        ("Europe/Berlin", False),
        (":Europe/Berlin", False),
        ("UTC0", False),
        ("<+03>-3", False),
        ("CET-1CEST,M3.5.0,M10.5.0/3", False),
        ("", False),
    ],
)
def test_unknown_time_zone_is_a_warning(site, monkeypatch, zone, warns):
    monkeypatch.setenv("TZ", zone)
    result = site.run("check", "--json")
    said = [f for f in result.only["findings"] if f["what"] == "schedule"]
    assert result.code == 0
    assert [(f["level"], bool(f["fix"])) for f in said] == ([("warning", True)] if warns else [])


def test_user_other_than_owner_is_warned(site, monkeypatch):
    """The fix that the warning shows is a command line that runs in another shell."""
    site.config = site.config.rename(site.config.with_name("my site.yaml"))
    site.write("a.jpg")
    assert "user" not in _levels(site.run("check", "--json").only), "there is no ledger yet"
    site.run("reconcile")
    assert "user" not in _levels(site.run("check", "--json").only)
    owner = pwd.getpwuid(site.ledger.stat().st_uid).pw_name
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_001)
    result = site.run("check", "--json")
    (said,) = [finding for finding in result.only["findings"] if finding["what"] == "user"]
    assert (result.code, said["level"]) == (0, "warning")
    assert said["message"] == (
        f"the ledger belongs to the user {owner}, and this is 4000000001: files that {owner} cannot read are not"
        " reported here"
    )
    line = said["fix"].removeprefix("run it as its user, which root can: ")
    assert line == f"runuser -u {owner} -- {program()} check --config '{site.config}'"
    # In another shell, without this one's variables, and by a runuser that needs no root.
    runuser = site.config.with_name("runuser")
    runuser.write_text(f'#!/bin/sh\nshift 4\nexec env -i {sys.executable} -m assetsync "$@"\n')
    runuser.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", line], check=False, capture_output=True, env={"PATH": f"{runuser.parent}:/usr/bin:/bin"}
    )
    assert (done.returncode, b"my site.yaml: site hq" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("times", "warns"), [("{verify: off, index: off}", True), ("{verify: off}", False), ("{index: off}", False)]
)
def test_schedule_without_verify_is_a_warning(site, times, warns):
    site.configure(more=f"schedule: {times}\n")
    result = site.run("check")
    assert (result.code, "the daemon reads nothing back: files stay `stored`" in result.out) == (0, warns)


def test_piped_config_is_checked_completely(site):
    site.configure(more='notify: {command: ["/no/such/program"]}\n')
    script = f"{sys.executable} -m assetsync check --json --config <(cat {site.config})"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "notify" in {finding["what"] for finding in json.loads(done.stdout)["findings"]}


def test_piped_key_is_read_once(site):
    key = site.key_file.read_text("ascii")
    site.key_file.unlink()
    os.mkfifo(site.key_file, 0o600)
    writer = subprocess.Popen(["sh", "-c", 'printf %s "$1" > "$2"', "sh", key, site.key_file])
    result = site.run("check", "--json")
    assert writer.wait(10) == 0
    assert _levels(result.only)["service"] == {"ok"}


def test_check_reports_only_unmapped_paths(site):
    site.write("a.jpg")
    for name in ("docs/x/y", "@eaDir", "raw"):
        (site.tree / name).mkdir(parents=True)
    (site.tree / "docs" / "one.txt").write_text("not sent")
    for name in ("notes.txt", ".DS_Store", "_folder.yaml"):
        (site.tree / name).write_text("keywords: [applied]")
    said = [finding["message"] for finding in site.run("check", "--json").only["findings"]]
    assert [message for message in said if "mapped nowhere" in message] == [
        "mapped nowhere, so not sent: docs/, raw/, 1 file"
    ]


def test_remapped_folder_is_a_warning(site):
    site.write("a.jpg")
    site.run("reconcile")
    assert "pointed to" not in site.run("check").out
    site.config.write_text(site.config.read_text().replace(PHOTOS, PAPERS))
    shown = site.run("check")
    assert f"the mapping photos pointed to folder {PHOTOS} of the service and points to {PAPERS}" in shown.out
    assert shown.code == 0
    site.run("reconcile")
    assert "let a run pull the brake" in site.run("check").out
    assert site.run("resume").code == 0
    shown = site.run("check").out
    assert "pull the brake" not in shown
    assert f"points to {PAPERS}, which a person agreed to: the next run uses it" in shown


def test_taken_status_port_is_a_warning(site, eventually, reserved_port):
    site.write("a.jpg")
    with socket.create_server(("127.0.0.1", reserved_port)):
        site.configure(more=f"status: {{listen: '127.0.0.1:{reserved_port}'}}")
        result = site.run("check")
        assert result.code == 0
        assert f"the status page cannot listen on 127.0.0.1:{reserved_port}: Address already in use" in result.out
        assert "give each site a port of its own" in result.out
    assert "status page" not in site.run("check").out
    site.start("run")
    eventually(lambda: _is_listened_on(reserved_port))
    assert "status page" not in site.run("check").out


def _is_listened_on(port) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_files_are_counted_by_extension(site):
    for number in range(3):
        site.write(f"{number}.JPG", b"x" * 1000)
    site.write("film.mov", b"x" * 5000)
    site.write("README", b"x")
    out = site.run("check").out
    assert "by extension: .mov 1 file (5.0 KB), .jpg 3 files (3.0 KB), no extension 1 file (1 bytes)" in out


@pytest.mark.parametrize(
    "name", ["Lightroom/Catalog.lrcat", "Previews.lrdata/a/b.db", ".git/objects/ab", "node_modules/x.js", "a.jpg.xmp"]
)
def test_files_of_other_programs_are_not_sent(site, name):
    site.write("a.jpg")
    site.write(name)
    assert "by extension: .jpg 1 file" in site.run("check").out


def test_xmp_mistake_is_reported_with_line(site):
    site.write("a.jpg")
    site.write("a.xmp", b"<x>\n")
    out = site.run("check").out
    assert "1 file and 1 sidecar in" in out
    assert "warning  sidecar: photos/a.xmp, line 2, column 1: it ends before" in out


def test_comma_in_a_keyword_is_shown(site):
    site.write("a.jpg")
    site.write("a.xmp", packet("<dc:subject><rdf:Bag><rdf:li>Bern, CH</rdf:li></rdf:Bag></dc:subject>"))
    assert "photos/a.xmp: a keyword holds a comma" in site.run("check").out


def test_xmp_files_taken_back_are_named(site):
    assert "takes XMP files back" not in site.run("check").out
    site.configure(more="ignore: ['!*.xmp']")
    assert "ok       xmp: photos: `ignore` takes XMP files back" in site.run("check").out


def test_yml_beside_a_file_is_a_warning(site):
    site.write("a.jpg")
    site.write("a.jpg.yml")
    out = site.run("check").out
    assert "warning  tree: 1 file like photos/a.jpg.yml would be sent: assetsync reads metadata from *.yaml" in out
    site.configure(more="ignore: ['*.yml']")
    assert "would be sent" not in site.run("check").out


WITHOUT_CAPABILITIES = """\
import ctypes
LIBC = ctypes.CDLL(None)
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, VERSION_3 = 24, 1, 2, 0x20080522
header, sets = (ctypes.c_uint32 * 2)(VERSION_3, 0), (ctypes.c_uint32 * 6)()
assert LIBC.capget(header, sets) == 0
for capability in CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH:
    assert LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
    for effective_or_permitted in 0, 1:
        sets[effective_or_permitted] &= ~(1 << capability)
assert LIBC.capset(header, sets) == 0
"""
"""Lines of Python that take root's right to read what is closed from a process and from those that it starts."""


def run_unprivileged(site, *words):
    return unprivileged(*words, "--config", str(site.config))


def unprivileged(*words, broken=""):
    return call(words, broken=f"{WITHOUT_CAPABILITIES if os.geteuid() == 0 else ''}\n{broken}")


@pytest.mark.parametrize("command", ["check", "run", "reconcile"])
@pytest.mark.parametrize("closed", ["root", "above"])
def test_closed_root_shows_how_to_open_it(site, command, closed):
    folder = site.tree if closed == "root" else site.tree.parent / "above it"
    if closed == "above":
        folder.mkdir()
        site.tree.rename(folder / "tree")
        site.config.write_text(site.config.read_text().replace(f"root: {site.tree}", f"root: {folder / 'tree'}"))
    folder.chmod(0)
    done = run_unprivileged(site, command)
    root = shlex.quote(str(site.tree if closed == "root" else folder / "tree"))
    user = pwd.getpwuid(os.geteuid()).pw_name
    line = f"setfacl -R -m u:{user}:rX,d:u:{user}:rX {root}"
    if closed == "above":
        line = f"setfacl -m u:{user}:x {shlex.quote(str(folder))} && {line}"
    assert (done.returncode, f"as root: {line}\n" in done.stdout + done.stderr) == (2, True)
    if shutil.which("setfacl"):
        subprocess.run(["bash", "-ec", line], check=True)


NOBODY = pwd.getpwnam("nobody")


def python_of_all():
    """Give a Python that every user can read, and its environment; None if it or this clone is root's own."""
    program = (
        "import os, sys; os.seteuid(65534);"
        "sys.exit(not all(os.access(path, os.R_OK, effective_ids=True) for path in (os.__file__, *sys.argv[1:])))"
    )
    modules = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(modules)}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if os.access(python, os.X_OK) and not subprocess.run([python, "-c", program, *modules], check=False).returncode:
            return python, environ
    return None


PYTHON = python_of_all() if os.geteuid() == 0 else None
needs_root = pytest.mark.skipif(PYTHON is None, reason="only root can become another user, who can read this Python")


@pytest.fixture
def daemons(site):
    """The site of a daemon that runs as nobody: the ledger is to lie in a folder of that user."""
    for folder in [site.folder, *site.folder.parents][:-2]:
        folder.chmod(0o755)
    kept = site.folder / "kept"
    kept.mkdir(0o700)
    os.chown(kept, NOBODY.pw_uid, -1)
    text = site.config.read_text().replace(str(site.ledger), str(kept / "hq.db"))
    site.config.write_text(text.replace(f"  api_key_file: {site.key_file}\n", ""))
    site.key_file = site.key_file.replace(site.config.with_suffix(".key"))
    site.write("a.jpg")
    return site


def check(site, *before):
    """Run `check` as root; give its exit code and findings. `before` are lines of Python to run first."""
    code, said = run_as_root(site, "check", before=before)
    return code, said["findings"]


def run_as_root(site, *command, before=()):
    python, environ = PYTHON
    program = "\n".join(["import sys", "from assetsync.cli import entry, options", *before, "sys.exit(entry.main())"])
    words = [python, "-c", program, *command, "--json", "--config", str(site.config)]
    done = subprocess.run(words, env=environ, check=False, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


@needs_root
def test_root_checks_as_the_daemons_user(daemons):
    """The key is root's own file, which systemd reads; the tree and the ledger's folder are the daemon's to read."""
    code, found = check(daemons)
    assert code == 0, found
    assert {(f["what"], f["level"]) for f in found} >= {(what, "ok") for what in ("key", "tree", "user", "ledger")}
    assert [f["message"] for f in found if f["what"] == "user"] == [
        "the tree was read as nobody, as whom the daemon runs"
    ]
    assert daemons.run("reconcile", "--wait", "0s").code == 0
    code, found = check(daemons)
    assert (code, {f["level"] for f in found}) == (0, {"ok"})


@needs_root
@pytest.mark.parametrize("closed", ["root", "mapping", "files", "above"])
def test_tree_closed_to_the_daemon_shows_setfacl(daemons, closed):
    above = daemons.folder / "above it"
    above.mkdir()
    daemons.tree.rename(above / "tree")
    daemons.config.write_text(daemons.config.read_text().replace(f"root: {daemons.tree}", f"root: {above / 'tree'}"))
    root, photos = above / "tree", above / "tree" / "photos"
    {"root": root, "mapping": photos, "files": photos / "a.jpg", "above": above}[closed].chmod(0o600)
    code, found = check(daemons)
    (error,) = [f for f in found if f["level"] == "error"]
    line = f"setfacl -R -m u:nobody:rX,d:u:nobody:rX {shlex.quote(str(photos if closed == 'mapping' else root))}"
    if closed == "above":
        line = f"setfacl -m u:nobody:x {shlex.quote(str(above))} && {line}"
    assert (code, error["fix"]) == (2, f"let the user nobody in, as root: {line}")
    if shutil.which("setfacl"):
        subprocess.run(["bash", "-ec", line], check=True)
        assert check(daemons)[0] == 0


@needs_root
def test_root_explains_what_the_daemon_cannot_read(daemons):
    assert daemons.run("reconcile", "--wait", "0s").code == 0
    daemons.write("closed.jpg").chmod(0o600)
    readable = run_as_root(daemons, "explain", "photos/a.jpg")[1]
    closed = run_as_root(daemons, "explain", "photos/closed.jpg")[1]
    assert (readable["disk"]["type"], closed["disk"]["type"]) == ("file", "unreadable")
    assert closed["on_disk"].startswith("photos/closed.jpg cannot be read: Permission denied")
    assert closed["on_disk"].endswith("(the daemon runs as nobody)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for other users")
def test_root_that_cannot_become_the_user_is_warned(daemons, monkeypatch):
    """A Python in root's home, or a container without other users."""
    monkeypatch.setattr(check_command, "can_act_as", lambda _user: False)
    (said,) = [finding for finding in daemons.run("check", "--json").only["findings"] if finding["what"] == "user"]
    assert said["level"] == "warning"
    assert said["fix"].startswith("run it as its user, which root can: ")
    assert said["fix"].endswith(f"runuser -u nobody -- {program()} check --config {daemons.config}")


def name_key_file(site):
    text = site.config.read_text().replace("service:\n", f"service:\n  api_key_file: {site.key_file}\n")
    site.config.write_text(text)


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_key_closed_to_the_daemon_is_an_error(daemons, mode):
    """The printed fix lets the daemon in, also where the key was open to another group."""
    name_key_file(daemons)
    daemons.key_file.chmod(mode)
    code, found = check(daemons)
    (error,) = [f for f in found if f["level"] == "error"]
    assert (code, error["what"]) == (2, "key")
    assert error["message"].endswith("site.key (service.api_key_file): the daemon runs as nobody, which cannot read it")
    subprocess.run(["bash", "-ec", error["fix"].removeprefix("as root: ")], check=True)
    code, found = check(daemons)
    assert (code, {f["level"] for f in found}) == (0, {"ok"})


@needs_root
def test_key_of_the_daemons_group_stays_readable(daemons):
    name_key_file(daemons)
    os.chown(daemons.key_file, 0, NOBODY.pw_gid)
    daemons.key_file.chmod(0o640)
    code, found = check(daemons)
    (warning,) = [f for f in found if f["level"] == "warning"]
    fix = f"as root: chown nobody {daemons.key_file} && chmod 600 {daemons.key_file}"
    assert (code, warning["what"], warning["fix"]) == (0, "key", fix)
    subprocess.run(["bash", "-ec", warning["fix"].removeprefix("as root: ")], check=True)
    code, found = check(daemons)
    assert (code, {f["level"] for f in found}) == (0, {"ok"})


@needs_root
def test_closed_key_of_the_units_names_the_credential(daemons):
    name_key_file(daemons)
    code, found = check(daemons, f"options.CONFIGURATIONS = options.Path({str(daemons.folder)!r})")
    (error,) = [f for f in found if f["level"] == "error"]
    handed_over = daemons.config.with_suffix(".key")
    assert code == 2, error
    assert error["fix"].startswith(
        f"remove service.api_key_file, because the unit hands over the key in {handed_over}; or as root: chown nobody "
    )


@needs_root
def test_key_in_a_closed_folder_is_to_be_moved(daemons):
    closed = daemons.folder / "closed"
    closed.mkdir(0o700)
    daemons.key_file = daemons.key_file.rename(closed / "hq.key")
    name_key_file(daemons)
    (error,) = [f for f in check(daemons)[1] if f["level"] == "error"]
    assert (error["what"], error["fix"]) == ("key", "move it to a folder that nobody can open")


@needs_root
def test_ledger_folder_closed_to_the_daemon_is_an_error(daemons):
    (daemons.folder / "kept").chmod(0o500)
    (error,) = [f for f in check(daemons)[1] if f["level"] == "error"]
    assert (error["what"], "cannot be written" in error["message"]) == ("ledger", True)


def test_state_folder_of_the_units_is_no_error(site, monkeypatch):
    """systemd makes it when the unit starts; for a configuration elsewhere nobody does."""
    monkeypatch.setattr(daemon_user, "STATE_FOLDER", site.folder / "state")
    site.config.write_text(site.config.read_text().replace(str(site.ledger), str(site.folder / "state" / "hq.db")))
    assert _levels(site.run("check", "--json").only)["ledger"] == {"error"}
    monkeypatch.setattr(options, "CONFIGURATIONS", site.folder)
    result = site.run("check", "--json")
    assert (result.code, _levels(result.only)["ledger"]) == (0, {"ok"})
    assert f"systemd makes {site.folder / 'state'} for it when the unit starts" in site.run("check").out


@pytest.mark.parametrize("command", ["check", "reconcile"])
def test_unreadable_key_beside_names_a_way(site, command):
    text = site.config.read_text().replace(f"  api_key_file: {site.key_file}\n", "")
    site.config.write_text(text)
    site.config.with_suffix(".key").write_text(KEY)
    site.config.with_suffix(".key").chmod(0)
    done = run_unprivileged(site, command)
    assert done.returncode == 2
    assert "run the command as root, or give the key in $ASSETSYNC_API_KEY" in done.stdout + done.stderr


def test_unreadable_key_of_the_units_is_a_warning(site):
    text = site.config.read_text().replace(f"  api_key_file: {site.key_file}\n", "")
    site.config.write_text(text)
    site.config.with_suffix(".key").write_text(KEY)
    site.config.with_suffix(".key").chmod(0)
    elsewhere = f"""
import pathlib
from assetsync.cli.commands import check
check.CONFIGURATIONS = pathlib.Path({str(site.folder)!r})
"""
    done = unprivileged("check", "--json", "--config", str(site.config), broken=elsewhere)
    levels = _levels(json.loads(done.stdout))
    assert (done.returncode, levels["key"], "service" in levels) == (0, {"warning"}, False), done.stderr


def test_first_five_unreadable_files_are_named(site):
    for number in range(7):
        site.write(f"{number}.jpg").chmod(0)
    site.write("open.jpg")
    done = run_unprivileged(site, "check", "--json")
    found = [finding for finding in json.loads(done.stdout)["findings"] if "cannot be read" in finding["message"]]
    assert {finding["level"] for finding in found} == {"warning"}
    *named, more = [finding["message"] for finding in found]
    assert len({message.partition(" ")[0] for message in named}) == len(named) == 5
    assert all(message.endswith(".jpg cannot be read: Permission denied") for message in named)
    assert more == "and 2 more files cannot be read"


@pytest.mark.parametrize("command", ["check", "reconcile"])
def test_short_key_is_exit_2(site, command):
    site.key_file.write_text("photo")
    result = site.run(command)
    assert result.code == 2
    assert "it has fewer than 8 characters" in result.out + result.err


def test_key_beside_configuration_is_checked(site):
    text = "".join(line for line in site.config.read_text().splitlines(True) if "api_key_file" not in line)
    site.config.write_text(text)
    beside = site.config.with_suffix(".key")
    site.key_file.replace(beside)
    assert f"{beside} holds a key and only its owner can read it" in site.run("check").out
    beside.chmod(0o644)
    assert f"chmod 600 {beside}" in site.run("check").out


@pytest.mark.parametrize("strays", ["missing", "redirect", "html"])
def test_wrong_upload_url_is_exit_3(make_site, strays):
    site = make_site(strays=strays)
    site.configure(upload_url=site.sandbox.base_url)
    result = site.run("check", "--json")
    (wrong,) = [finding for finding in result.only["findings"] if finding["level"] == "error"]
    assert (result.code, wrong["what"]) == (3, "service")
    assert wrong["message"].startswith(f"service.upload_url: what answers at {site.sandbox.base_url} is not the upload")
    assert wrong["fix"].startswith("correct service.upload_url")


def test_unanswered_upload_url_is_a_warning(site):
    """It proves nothing, and it is not passed over in silence."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        site.configure(upload_url=f"http://127.0.0.1:{unused.getsockname()[1]}/index.cfm")
        result = site.run("check", "--json")
    (found,) = [finding for finding in result.only["findings"] if "no answer at" in finding["message"]]
    assert (result.code, found["level"]) == (0, "warning")


@pytest.mark.parametrize("strays", ["missing", "redirect", "html"])
def test_swapped_addresses_are_named(make_site, strays):
    site = make_site(strays=strays)
    site.configure(base_url=site.sandbox.upload_url, upload_url=site.sandbox.base_url)
    result = site.run("check", "--json")
    (wrong,) = [finding for finding in result.only["findings"] if finding["level"] == "error"]
    assert (result.code, wrong["message"]) == (
        3,
        f"service.base_url: {site.sandbox.upload_url} is the address for uploads",
    )
    assert "exchange them" in wrong["fix"]


def test_address_of_searches_takes_no_uploads(site):
    site.configure(upload_url=f"{site.sandbox.base_url}/global/api2/search.cfc")
    assert "search.cfc is not the upload operation" in site.run("check").out


def test_probe_stores_nothing(site):
    assert site.run("check").code == 0
    site.configure(upload_url=site.sandbox.base_url)
    assert site.run("check").code == 3
    assert site.sandbox.assets() == []


def test_user_without_rights_is_named_once(make_site):
    """A user who is no administrator is refused searches in all folders, which a run makes."""
    site = make_site(rights={PHOTOS: "write", PAPERS: "write"})
    result = site.run("check", "--json")
    (found,) = [finding for finding in result.only["findings"] if finding["level"] == "warning"]
    assert (result.code, found["what"]) == (0, "service")
    assert "in the database, in folders without a right" in found["message"]
    assert "in the index, in folders that are not mapped" in found["message"]


def test_searches_that_fail_are_warned_of(site):
    site.sandbox.set_faults(FaultRule(kind=FaultKind.SEARCH_DOWN))
    result = site.run("check", "--json")
    (found,) = [finding for finding in result.only["findings"] if finding["level"] == "warning"]
    assert "in all folders in the index" in found["message"]


def test_unknown_field_of_a_sidecar_has_its_line(site):
    site.write("a.jpg")
    site.write("a.jpg.yaml", b"description: x\nmeta: {img_headline: Harbour}\n")
    out = site.run("check").out
    assert "sidecar: photos/a.jpg.yaml, line 2, column 8: meta.img_headline: the service is not known to have" in out
    assert "did you mean `headline`?" in out


def test_unknown_field_of_a_mapping_stops_a_new_site(site):
    """A site that has a ledger starts, and blocks the files that would be sent with it."""
    text = site.config.read_text()
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    site.config.write_text(text.replace("destfolderid: ", "metadata: {meta: {img_headline: x}}, destfolderid: "))
    known = site.run("check")
    assert "warning  configuration: " in known.out
    assert "metadata.meta.img_headline: the service is not known to have this field" in known.out
    assert known.code == 0
    site.ledger.unlink()
    assert site.run("check").code == 2


@pytest.mark.parametrize("said", [b"description: x\nlanguage: 2\n", b"keywords: [x]\nlanguage: 12\n"])
def test_texts_that_searches_hide_are_named_once(site, said):
    for name in ("a.jpg", "b.jpg"):
        site.write(name)
        site.write(f"{name}.yaml", said)
    out = site.run("check").out
    language = said.split()[-1].decode()
    assert out.count("texts in language ") == 1
    assert f"warning  metadata: photos: texts in language {language} (photos/a.jpg.yaml): the searches" in out


def test_texts_in_english_are_not_named(site):
    site.write("a.jpg")
    site.write("a.jpg.yaml", b"description: x\nlanguage: 1\n")
    site.write("b.jpg.yaml", b"location: Oslo\nlanguage: 2\n")
    assert "texts in language" not in site.run("check").out
