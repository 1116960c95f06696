"""`assetsync sandbox`, as a process and with options that are refused."""

import signal
import subprocess
import sys

import pytest
import yaml

from assetsync.cli.entry import run


def test_sandbox_prints_addresses_and_config():
    command = [
        sys.executable,
        "-m",
        "assetsync",
        "sandbox",
        "--listen",
        "127.0.0.1:0",
        "--key",
        "k",
        "--index-delay",
        "1s",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr.readline() == "Ctrl-C ends it\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    said = yaml.safe_load(out)
    assert said["service"]["base_url"].startswith("http://127.0.0.1:")
    assert [folder["path"] for folder in said["folders"]] == ["photos", "documents"]


@pytest.mark.parametrize(
    "options",
    [
        ("--listen", "8790"),
        ("--dialect", "spoken"),
        ("--latency", "soon"),
        ("--listen", "192.0.2.1:1"),
        ("--listen", "127.0.0.1:65536"),
        ("--listen", "127.0.0.1:" + "9" * 5000),
        ("--dir", "/dev/null"),
    ],
)
def test_impossible_option_is_exit_2(capsys, options):
    assert run(["sandbox", *options]) == 2
    assert capsys.readouterr().out == ""
