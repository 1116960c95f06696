"""`assetsync sandbox`, as a process and with options that are refused."""

import json
import signal
import subprocess
import sys

import httpx
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


def sandbox(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "assetsync", "sandbox", "--listen", "127.0.0.1:0", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_file_kind_changes_the_answer():
    with sandbox("--json", "--auto-folders", "--file-kind", ".CR3=aud") as process:
        try:
            upload_url = json.loads(process.stdout.readline())["upload_url"]
            form = {"fa": "c.apiupload", "api_key": "sandbox-key", "destfolderid": "F"}
            answer = httpx.post(upload_url, data=form, files={"filedata": ("a.cr3", b"raw")}, trust_env=False)
        finally:
            process.terminate()
    assert "<filetype>aud</filetype>" in answer.text


@pytest.mark.parametrize("given", ["cr3", "cr3=", "cr3=picture", "=img"])
def test_unusable_file_kind_is_refused(given):
    with sandbox("--file-kind", given) as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "write an ending and one of img, vid, aud, doc, other, such as cr3=other" in " ".join(said.split())
