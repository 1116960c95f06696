"""The commands that the README and the guide tell a person to type work as they stand there."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "assetsync" / "guide"
# In this order: the ledger's page asks the ledger that the first site's page made.
TEXTS = [ROOT / "README.md", GUIDE / "first-site.md", *sorted(set(GUIDE.glob("*.md")) - {GUIDE / "first-site.md"})]
BLOCKS = [
    block
    for text in TEXTS
    for block in re.findall(r"(<!-- [^\n]*-->\n)?```(\w*)\n(.*?)```", text.read_text("utf-8"), re.DOTALL)
]
# Here this port may be another program's.
PORT = "8790"


def typed(block: str) -> list[str]:
    """Give the commands of a console block: lines after `$ `, with a here-document where one is begun."""
    return [part.strip("\n") for part in re.split(r"(?m)^\$ ", block) if part.strip()]


COMMANDS = [command for _, language, block in BLOCKS if language == "console" for command in typed(block)]


def test_every_command_block_is_tested():
    for comment, language, block in BLOCKS:
        if language in ("sh", "bash", "shell"):
            named = re.findall(r"tests/[\w/.]+", comment)
            assert named, block
            assert all((ROOT / name).exists() for name in named), comment
        elif language == "":
            # The two that have a test of their own, marked for CI.
            assert comment in ("<!-- demo -->\n", "<!-- checks -->\n"), block


def test_readme_commands_are_those_of_the_first_site():
    readme = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"<!-- tried by tests/test_readme_commands.py[^\n]*-->\n```sh\n(.*?)```", readme, re.DOTALL)
    typed_there = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert len(typed_there) == 4
    assert set(typed_there) <= {command.partition("#")[0].strip() for command in COMMANDS}


def test_commands_work_in_order(tmp_path, reserved_port):
    """Run the README's commands as they stand, and expect the exit codes that it states."""
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not there: apt-get install sqlite3")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environ.pop("ASSETSYNC_API_KEY", None)
    folder, background = tmp_path, []
    try:
        for command in COMMANDS:
            line = command.replace(PORT, str(reserved_port))
            if "# in a terminal of its own" in line:
                background.append(start(line, folder, environ, reserved_port))
                continue
            assert not line.endswith("&"), f"what {line} complains of would be missed"
            words = ["bash", "-euo", "pipefail", "-c", line]
            how = {"cwd": folder, "env": environ, "capture_output": True, "text": True, "timeout": 60}
            done = subprocess.run(words, check=False, **how)
            expected = int(found[1]) if (found := re.search(r"# exit (\d+)", line)) else 0
            assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
            if "cd mirror" in line:
                folder = tmp_path / "mirror"
    finally:
        for process in background:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)
    rows = (folder / "delivered.csv").read_text().splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [
        ["photos/harbour.jpg", "verified"],
        ["photos/town.jpg", "verified"],
    ]


def start(line: str, folder: Path, environ: dict[str, str], port: int) -> subprocess.Popen:
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environ, start_new_session=True, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                assert process.poll() is None, f"{line} ended, and another program listens there"
                return process
        time.sleep(0.05)
    raise AssertionError(f"nothing listens after {line}")
