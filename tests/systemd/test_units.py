"""The unit files as systemd reads them, and the README beside them. `test_boot` runs them."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from .image import ROOT
from .readme import SYSTEMD, commands

PROGRAM = "/opt/assetsync/bin/assetsync"
UNITS = ["assetsync@.service", "assetsync-reconcile@.service", "assetsync-reconcile@.timer"]
SERVICES = UNITS[:2]
EXPOSURE = 2.0


def analyze(*arguments: str) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there: apt-get install systemd")
    done = subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def judged(unit: str) -> tuple[float, set[str]]:
    """The exposure, and the settings that raise it."""
    shown = analyze("security", "--offline=true", "--no-pager", str(SYSTEMD / unit))
    if "unrecognized option" in shown:
        pytest.skip("this systemd-analyze knows no --offline: systemd 250 or newer does")
    [exposure] = re.findall(r"exposure level .*: (\d+\.\d)", shown)
    return float(exposure), set(re.findall(r"^✗ (\w+)=", shown, re.MULTILINE))


def settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / unit).read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_reports_no_unit_problem(unit, tmp_path):
    for name in UNITS:
        text = (SYSTEMD / name).read_text("utf-8")
        # The program is not installed on the machine that tests it.
        (tmp_path / name).write_text(text.replace(PROGRAM, "/bin/true"))
    assert analyze("verify", "--man=no", str(tmp_path / unit)) == ""


def test_systemd_reports_a_misspelt_setting(tmp_path):
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\nWatchdogSecs=1\n")
    assert "'WatchdogSecs'" in analyze("verify", "--man=no", str(tmp_path / "a.service"))


@pytest.mark.parametrize("unit", SERVICES)
def test_the_exposure_is_at_most_two(unit):
    assert judged(unit)[0] <= EXPOSURE


@pytest.mark.parametrize("unit", SERVICES)
def test_readme_explains_each_relaxation(unit):
    reasons = (SYSTEMD / "README.md").read_text("utf-8").partition("## What is relaxed")[2]
    given = set(re.findall(r"^\| `(\w+)=", reasons, re.MULTILINE))
    assert judged(unit)[1] == given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("WatchdogSec", "2min"),
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "2"),
        ("StartLimitIntervalSec", "0"),
        ("StateDirectory", "assetsync"),
        ("RuntimeDirectory", "assetsync"),
        ("RuntimeDirectoryPreserve", "yes"),
        ("LoadCredential", "api_key:/etc/assetsync/%i.key"),
        ("ExecStart", f"{PROGRAM} run --config /etc/assetsync/%i.yaml"),
        ("WantedBy", "multi-user.target"),
    ],
)
def test_the_daemons_unit_says(name, value):
    assert settings("assetsync@.service")[name] == [value]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "oneshot"),
        ("SuccessExitStatus", "4"),
        ("StateDirectory", "assetsync"),
        ("RuntimeDirectory", "assetsync"),
        ("RuntimeDirectoryPreserve", "yes"),
        ("LoadCredential", "api_key:/etc/assetsync/%i.key"),
    ],
)
def test_the_unit_of_one_pass_says(name, value):
    assert settings("assetsync-reconcile@.service")[name] == [value]


def test_timer_catches_up_a_missed_pass():
    assert settings("assetsync-reconcile@.timer")["Persistent"] == ["yes"]


def test_both_services_are_confined_alike():
    own = {"Type", "NotifyAccess", "Description", "After", "Wants", "WantedBy", "StartLimitIntervalSec"}
    own |= {"ExecStart", "ExecReload", "Restart", "RestartSec", "RestartPreventExitStatus", "SuccessExitStatus"}
    own |= {"WatchdogSec", "TimeoutStartSec", "TimeoutStopSec"}
    daemon, once = ({k: v for k, v in settings(unit).items() if k not in own} for unit in SERVICES)
    assert daemon == once


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("success", ""),
        ("exit-code", ""),
        ("watchdog", "a@hq ended: watchdog\n"),
        ("oom-kill", "a@hq ended: oom-kill\n"),
    ],
)
def test_readme_drop_in_reports_a_killed_daemon(tmp_path, result, said):
    [drop_in] = re.findall(r"```ini\n(.*?)```", (SYSTEMD / "README.md").read_text("utf-8"), re.DOTALL)
    unit = (SYSTEMD / "assetsync@.service").read_text("utf-8").replace(PROGRAM, "/bin/true")
    (tmp_path / "assetsync@.service").write_text(unit)
    (tmp_path / "assetsync@.service.d").mkdir()
    (tmp_path / "assetsync@.service.d" / "alert.conf").write_text(drop_in)
    assert analyze("verify", "--man=no", str(tmp_path / "assetsync@.service")) == ""
    line = drop_in.partition("ExecStopPost=-")[2].replace("$$", "$").replace("%n", "a@hq").replace("logger", "echo")
    environ = {**os.environ, "SERVICE_RESULT": result}
    done = subprocess.run(shlex.split(line), check=True, capture_output=True, text=True, env=environ)
    assert done.stdout == said


def test_the_readme_has_five_commands():
    assert len(commands()) == 5


def test_files_named_in_commands_exist():
    named = [word for line in commands() for word in line.split() if re.match(r"[\w.]+[/.]", word) or word == "."]
    assert {"systemd/*.service", "systemd/*.timer", "config.example.yaml", "."} <= set(named)
    assert [word for word in named if word != "." and not list(ROOT.glob(word))] == []


@pytest.mark.parametrize("unit", SERVICES)
def test_unit_reads_the_written_paths(unit):
    said = " ".join(commands())
    found = settings(unit)
    program, *_, config = found["ExecStart"][0].replace(" --json --quiet", "").split()
    key = found["LoadCredential"][0].partition(":")[2]
    assert str(Path(program).parent.parent) in said
    assert config.replace("%i", "hq") in said
    assert key.replace("%i", "hq") in said
    assert f"--home-dir /var/lib/{found['StateDirectory'][0]} " in said
    assert re.search(rf"useradd .* {found['User'][0]}( |$)", said)
