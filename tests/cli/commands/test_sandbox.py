"""`assetsync sandbox`, as a process."""

import json
import subprocess
import sys

import httpx
import pytest


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
