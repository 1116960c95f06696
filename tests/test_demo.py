"""`assetsync demo`: the whole job on a sample tree.

Covers `cli/commands/demo.py`, `demo/sample.py` and `demo/stage.py`.
"""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from assetsync.cli.entry import run
from assetsync.core.metadata import parse_sidecar
from assetsync.demo.sample import change_tree, make_tree
from assetsync.sandbox import Sandbox, SandboxSettings

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
DEMO = [sys.executable, "-m", "assetsync", "demo"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A whole demonstration in a folder of its own."""
    folder = tmp_path_factory.mktemp("demo") / "stage"
    done = subprocess.run([*DEMO, "--dir", str(folder)], capture_output=True, text=True, timeout=120, check=False)
    return folder, done


def test_demo_is_exit_0_with_all_verified(told):
    _, done = told
    assert done.returncode == 0
    assert "Everything is verified" in done.stdout


def test_demo_without_temporary_folder_is_exit_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert run(["demo"]) == 2
    assert "(No such file or directory): name a folder with --dir, or set $TMPDIR" in capsys.readouterr().err


def test_readme_shows_what_demo_prints(told):
    """The ids and the seconds differ from run to run; the block leaves lines out where it has an ellipsis."""
    _, done = told
    block = re.search(r"<!-- compared by tests/test_demo.py[^\n]*-->\n```text\n(.*?)```", README, re.DOTALL)
    shown = [line for line in block[1].splitlines() if line.strip() not in ("", "…")]
    printed = set(map(_without_ids, done.stdout.splitlines()))
    assert len(shown) > 8
    assert [line for line in shown if _without_ids(line) not in printed] == []


def _without_ids(line):
    return re.sub(r"[0-9A-F]{32}|[0-9.]+ s$", "#", line)


def test_second_run_uploads_only_three_files(told):
    _, done = told
    first, second = re.findall(r"run: (\d+) uploaded, (\d+) taken over", done.stdout)
    assert (first, second) == (("8", "0"), ("3", "2"))


def test_table_shows_each_asset_and_state(told):
    _, done = told
    rows = re.findall(r"^  (\S.*?)  +([0-9A-F]{32})  verified$", done.stdout, re.MULTILINE)
    assert len(rows) == 8 + 10
    assert "photos/2026/old town.png" in dict(rows)


def test_named_folder_keeps_config_and_key(told, capsys):
    folder, done = told
    assert {"demo.yaml", "demo.db", "demo.key", "tree", "service"} <= {path.name for path in folder.iterdir()}
    assert (folder / "demo.key").stat().st_mode & 0o777 == 0o600
    assert str(folder / "demo.yaml") in done.stdout
    assert (folder / "demo.key").read_text() not in done.stdout + done.stderr
    assert run(["status", "--json", "--config", str(folder / "demo.yaml")]) == 0
    assert json.loads(capsys.readouterr().out)["in_sync"] is True


def test_sidecar_texts_arrive_unchanged(told):
    folder, _ = told
    settings = SandboxSettings(dialect="observed", data_dir=folder / "service")
    with Sandbox(settings) as again:
        harbour = next(asset for asset in again.assets() if asset.filename == "harbour.jpg")
    said = harbour.metadata
    assert (said["meta_country"], said["meta_scene"], said["meta_title"]) == ("NO", "012", "12:30")
    assert said["meta_img_keywords"] == "harbour,dawn,2026"


def test_quiet_demo_draws_no_bar():
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        done = subprocess.run([*DEMO, "--quiet"], stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=False)
        os.set_blocking(ours, False)
        drawn = terminal.read()
        os.close(theirs)
    assert (done.returncode, drawn) == (0, None)


def test_non_empty_folder_is_exit_2(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert run(["demo", "--dir", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["my: demo", '#1 {it\'s} "quoted"', "back\\slash", "東京", "😀"])
def test_a_folder_of_any_name_will_do(tmp_path, capsys, name):
    assert run(["demo", "--quiet", "--dir", str(tmp_path / name)]) == 0
    assert "Everything is verified" in capsys.readouterr().out


def test_uncreatable_folder_is_one_sentence(capsys):
    assert run(["demo", "--quiet", "--dir", "/proc/demo"]) == 2
    assert capsys.readouterr().err == (
        "Error: The folder /proc/demo cannot be used (No such file or directory):"
        " name another with --dir, or make room there\n"
    )


def test_missing_temp_folder_names_the_fix(monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    assert run(["demo", "--quiet"]) == 2
    assert capsys.readouterr().err.endswith("name a folder with --dir, or set $TMPDIR\n")


def test_keep_serves_pictures_until_a_signal(tmp_path):
    """Read the printed address and fetch its page."""
    process = subprocess.Popen(
        [*DEMO, "--keep", "--dir", str(tmp_path / "stage")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            found = re.match(r"the pictures +(http://\S+)", line)
            if found:
                break
        with urllib.request.urlopen(found[1], timeout=60) as page:
            assert b"<img" in page.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0


class TestSample:
    def test_sample_files_have_valid_formats(self, tmp_path):
        make_tree(tmp_path)
        for name in ("harbour.jpg", "mountains.jpg", "town.png", "2026/sunrise.jpg"):
            with Image.open(tmp_path / "photos" / name) as picture:
                assert picture.size == (960, 640)
                assert len(picture.getcolors(maxcolors=2**20)) > 50
        assert zipfile.ZipFile(io.BytesIO((tmp_path / "documents/archive.zip").read_bytes())).testzip() is None
        for sidecar in tmp_path.rglob("*.yaml"):
            parse_sidecar(sidecar.read_bytes(), sidecar.name)

    def test_pdf_offsets_point_to_its_objects(self, tmp_path):
        make_tree(tmp_path)
        pdf = (tmp_path / "documents/report.pdf").read_bytes()
        table = int(re.search(rb"startxref\n(\d+)\n%%EOF\n\Z", pdf)[1])
        assert pdf[table : table + 4] == b"xref"
        offsets = [int(found) for found in re.findall(rb"^(\d{10}) 00000 n $", pdf, re.MULTILINE)]
        assert [pdf[offset : offset + 7] for offset in offsets] == [b"%d 0 obj" % number for number in range(1, 6)]

    def test_five_changes_are_told(self, tmp_path):
        make_tree(tmp_path)
        assert [change.split()[0] for change in change_tree(tmp_path)] == [
            "changed",
            "moved",
            "touched",
            "added",
            "added",
        ]
