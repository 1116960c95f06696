"""A real program gets the notice, and nothing of the daemon's secrets."""

import json
import os
import time

import pytest
from pydantic import SecretStr

import assetsync.log as log_module
from assetsync.core.notices import Kind, Notice
from assetsync.notify.channel import Command, Undelivered

NOTICE = Notice(
    "hq", Kind.BLOCKED, is_over=False, text="hq: 1 file is blocked: æ\n", count=1, new=1, names=("æ",), at=0.5
)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.json"


def writes(out, expression):
    return f"json.dump({expression}, open({str(out)!r}, 'w'))"


def test_message_is_one_json_line_on_stdin(program, out):
    Command(program(writes(out, "[json.loads(said), said.endswith('}\\n')]")), os.environ)(NOTICE)
    message, is_a_line = json.loads(out.read_text())
    assert is_a_line
    assert message == {
        "site": "hq",
        "event": "blocked",
        "over": False,
        "text": "hq: 1 file is blocked: æ\n",
        "count": 1,
        "new": 1,
        "names": ["æ"],
        "time": "1970-01-01T00:00:00Z",
    }


def test_environment_omits_the_key(program, out, monkeypatch):
    monkeypatch.setattr(log_module, "_SECRETS", log_module._Secrets())
    log_module.register_secret(SecretStr("c4nary-key"))
    given = {
        **os.environ,
        "ASSETSYNC_API_KEY": "c4nary-key",
        "CREDENTIALS_DIRECTORY": "/run/credentials/x",
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "OTHER": "url?api_key=c4nary-key",
        "LANG": "nb_NO.UTF-8",
    }
    Command(program(writes(out, "environ")), given)(NOTICE)
    environ = json.loads(out.read_text())
    assert (environ["ASSETSYNC_SITE"], environ["ASSETSYNC_EVENT"], environ["LANG"]) == ("hq", "blocked", "nb_NO.UTF-8")
    assert not {"ASSETSYNC_API_KEY", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "OTHER"} & environ.keys()
    assert "c4nary-key" not in out.read_text()


def test_shell_syntax_is_a_plain_argument(program, tmp_path, out):
    argv = [*program(writes(out, "sys.argv[1:]")), "$(touch x); `touch y` | tee z", "*"]
    Command(argv, os.environ)(NOTICE)
    assert json.loads(out.read_text()) == ["$(touch x); `touch y` | tee z", "*"]
    assert not {"x", "y", "z"} & set(os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["/no/such/program"], "No such file or directory"),
        (["/etc/passwd"], "Permission denied"),
        (["false"], "exit code 1"),
        (["a\0b"], "null byte"),
    ],
)
def test_failing_program_is_reported(argv, why):
    with pytest.raises(Undelivered, match=why):
        Command(argv, os.environ)(NOTICE)


def test_unread_stdin_is_accepted():
    Command(["true"], os.environ)(NOTICE)


def test_hung_program_is_killed_with_children(program, out):
    argv = program(
        "import subprocess",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
        writes(out, "[os.getpid(), child.pid]") + ".__class__",
        "time.sleep(600)",
    )
    # On a busy machine it may be killed before it has begun.
    for patience in (1.0, 60.0):
        with pytest.raises(Undelivered, match="killed"):
            Command(argv, os.environ, patience=patience)(NOTICE)
        if out.exists() and out.read_text():
            break
    for pid in json.loads(out.read_text()):
        until = time.monotonic() + 10
        while time.monotonic() < until and running(pid):
            time.sleep(0.02)
        assert not running(pid)


def running(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_program_has_its_own_process_group(program, out):
    Command(program(writes(out, "[os.getpgrp(), os.getpid(), os.getsid(0)]")), os.environ)(NOTICE)
    group, pid, session = json.loads(out.read_text())
    assert group == pid == session
    assert group != os.getpgrp()
