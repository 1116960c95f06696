"""The program's entry: exit codes, streams, and what a command loads.

Covers `errors.py`.
"""

import errno
import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from assetsync import __version__
from assetsync.cli.entry import exit_code, run
from assetsync.cli.root import COMMANDS
from assetsync.errors import (
    BadAnswer,
    ConfigError,
    FileUnreadable,
    KeyRefused,
    LedgerBusy,
    LedgerDamaged,
    LedgerDetached,
    LedgerError,
    LedgerMissing,
    OutOfResources,
    RootMissing,
    ServiceElsewhere,
    ServiceRefused,
    ServiceUnreachable,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(["m"]), 2),
        (UsageError("m"), 2),
        (LedgerMissing("m"), 2),
        (LedgerDamaged("m"), 2),
        (RootMissing("m"), 2),
        (FileUnreadable("m"), 2),
        (ServiceUnreachable("m"), 3),
        (KeyRefused("m"), 3),
        (BadAnswer("m"), 3),
        (ServiceRefused("m"), 3),
        (LedgerBusy("m"), 4),
        (OutOfResources("m"), 1),
        (LedgerDetached("m"), 1),
        (ServiceElsewhere("m"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_exit_code(error, code):
    assert exit_code(error) == code


def test_lack_of_descriptors_is_no_mistake():
    """systemd does not restart a daemon that ended with 2."""
    error = LedgerError("the ledger cannot be opened")
    error.__cause__ = OSError(errno.ENFILE, "Too many open files in system")
    assert exit_code(error) == 1


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"assetsync {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["status"], ["status", "--no-such-option"], ["files", "extra"]])
def test_usage_error_is_exit_2_without_stdout(capsys, arguments):
    assert run(arguments) == 2
    assert capsys.readouterr().out == ""


def test_missing_config_is_exit_2(capsys, tmp_path):
    assert run(["status", "--config", str(tmp_path / "none.yaml")]) == 2
    assert "name an existing file with --config" in capsys.readouterr().err


def test_overview_loads_no_command_module():
    code = (
        "import sys; from assetsync.cli.entry import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert not {f"'assetsync.cli.{name}'" for name in COMMANDS} & set(done.stderr.split(", "))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_help_has_examples(capsys, name):
    assert run([name, "--help"]) == 0
    assert f"assetsync {name}" in capsys.readouterr().out.partition("Example")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_name_matches_command_table(name):
    command = import_module(f"assetsync.cli.commands.{name}").command
    assert isinstance(command, click.Command)
    assert command.name == name


# What is slow to load, by the name of its module, and of no use to a command that only looks at the ledger.
NOT_FOR_A_LOOK = {
    *("PIL", "apscheduler", "httpx", "jinja2", "pathspec", "prometheus_client", "rich", "starlette"),
    *("pydantic", "pydantic_core", "yaml", "assetsync.config.load", "assetsync.config.models"),
    *(
        "structlog",
        "uvicorn",
        "watchdog",
        "assetsync.sync.context",
        "assetsync.ledger.ledger",
        "assetsync.ledger.queue",
    ),
    *("assetsync.core.doubt", "assetsync.service.client", "assetsync.app", "assetsync.tree.scan"),
}


@pytest.mark.parametrize(
    "command", [["status"], ["status", "--json"], ["files"], ["orphans"], ["export", "--format", "csv"]]
)
def test_read_commands_load_no_upload_code(site, command):
    site.write("a.jpg")
    site.configure(more="ignore: ['*.psd', /build/]\n")
    site.run("reconcile")
    code = "import sys; from assetsync.cli.entry import run; assert run(sys.argv[1:]) == 0; print(*sys.modules)"
    look = [sys.executable, "-c", code, *command, "--config", str(site.config)]
    done = subprocess.run(look, capture_output=True, text=True, check=True)
    assert not NOT_FOR_A_LOOK & set(done.stdout.splitlines()[-1].split())


def test_run_without_channels_loads_none(site):
    code = "import sys; from assetsync.cli.entry import run; assert run(sys.argv[1:]) == 0; print(*sys.modules)"
    reconcile = [sys.executable, "-c", code, "reconcile", "--config", str(site.config)]
    done = subprocess.run(reconcile, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "assetsync.reconcile.run" in loaded
    assert "assetsync.notify.notifications" not in loaded


def test_unloaded_module_names_exist():
    assert all(find_spec(name) for name in NOT_FOR_A_LOOK)


def test_unforeseen_error_is_exit_70(site, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("the key is a-key-that-no-one-may-see")

    monkeypatch.setattr("assetsync.cli.commands.reconcile.dry_run", fails)
    result = site.run("reconcile", "--dry-run")
    assert (result.code, result.out) == (70, "")
    assert "the key is [key]" in result.err
    assert "an unexpected error occurred" in result.err


def test_closed_pipe_reader_is_no_error(site):
    for number in range(300):
        # Names that differ at their ends alone would be cut to the same name, and sent one after another.
        site.write(f"{number:03}{'0' * 197}.txt", b"%d" % number)
    site.run("reconcile", "--wait", "0s")
    command = f"{sys.executable} -m assetsync files --all --config {site.config} | head -n 1"
    script = f"{command}; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["141"]
    assert done.stderr == ""


@pytest.mark.parametrize("said", ["--help", "--version", "status --help", "completion bash"])
def test_early_closed_pipe_is_exit_141(said):
    # `true` reads nothing, and is gone by the time that Python has started.
    script = f"{sys.executable} -m assetsync {said} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_affect_run(site, closed):
    site.write("a.jpg")
    command = f"{sys.executable} -m assetsync reconcile --config {site.config} --wait 20s {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert site.files() == {"photos/a.jpg": "verified"}


@pytest.mark.parametrize(("option", "hint"), [("--config", True), ("--json", True), ("--colour", False)])
def test_option_before_command_gets_a_hint(site, option, hint):
    result = site.run(option, "x", "status")
    assert result.code == 2
    assert (f"'{option}' belongs behind the command" in result.err) is hint


def test_python_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "assetsync", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"assetsync {__version__}\n"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
@pytest.mark.parametrize("name", ["日本.txt", "é.txt", "\U0001f600.txt"])
def test_json_is_parseable_on_ascii_terminal(site, encoding, name):
    site.write(name)
    site.run("reconcile", "--wait", "0s")
    done = subprocess.run(
        [sys.executable, "-m", "assetsync", "files", "--json", "--config", str(site.config)],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert json.loads(done.stdout)["path"] == f"photos/{name}"


@pytest.mark.parametrize(
    ("typed", "said"),
    [("recncile", "No such command 'recncile'. Did you mean 'reconcile'?"), ("zzz", "No such command 'zzz'.\n")],
)
def test_mistyped_command_suggests_nearest(capsys, typed, said):
    assert run([typed]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["files", "export --format csv", "export --format jsonl", "status"])
def test_unwritable_output_is_one_sentence(site, command):
    site.write("a.jpg")
    site.run("reconcile")
    words = [sys.executable, "-m", "assetsync", *command.split(), "--config", str(site.config)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: the output cannot be written (No space left on device): is its disk full?\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["files", "--help"]])
def test_unwritable_help_is_one_sentence(words):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "assetsync", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: the output cannot be written (No space left on device): is its disk full?\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("words", "code"),
    [("status --config none.yaml", 2), ("status --no-such-option", 2), ("reconcile --quiet --config {config}", 0)],
)
def test_unwritable_stderr_keeps_exit_code(site, words, code):
    site.write("a.jpg")
    site.key_file.chmod(0o644)  # of which a warning tells
    command = [sys.executable, "-m", "assetsync", *words.format(config=site.config).split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert done.returncode == code


def test_error_in_the_journal_carries_its_priority(tmp_path):
    """A configuration with mistakes ends the daemon before its log is set up."""
    with (tmp_path / "journal").open("w+", encoding="utf-8") as err:
        status = os.fstat(err.fileno())
        environ = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        program = [sys.executable, "-m", "assetsync", "run", "--config", str(tmp_path / "none.yaml")]
        done = subprocess.run(program, stderr=err, env=environ, timeout=60, check=False)
        err.seek(0)
        lines = err.read().splitlines()
    assert done.returncode == 2
    assert lines
    assert all(line.startswith("<3>Error: ") for line in lines)
