"""`assetsync guide`, from its pages in the package."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from assetsync.cli.commands.guide import write_html
from assetsync.cli.entry import run
from assetsync.guide import pages

BIN = Path(sys.executable).parent / "assetsync"


def guide(*arguments):
    return subprocess.run([BIN, "guide", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_all_pages_are_listed_with_a_summary():
    shown = guide().stdout.splitlines()
    assert [line.split()[0] for line in shown] == list(pages())
    assert len(shown) >= 18
    assert all(line.endswith(".") for line in shown)


def test_page_is_plain_text_outside_a_terminal():
    shown = guide("troubleshooting")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == pages()["troubleshooting"].text


@pytest.mark.parametrize(("topic", "hint"), [("trubleshooting", "`troubleshooting`"), ("xyz", "lists the pages")])
def test_unknown_page_names_the_nearest(topic, hint):
    shown = guide(topic)
    assert shown.returncode == 2
    assert hint in shown.stderr


def test_copy_without_temporary_folder_is_exit_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert run(["guide", "--open"]) == 2
    assert "no temporary folder can be made (No such file or directory): set $TMPDIR" in capsys.readouterr().err


def test_html_copy_has_no_dead_link(tmp_path):
    write_html(tmp_path)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert written.keys() == {"index.html", *(f"{topic}.html" for topic in pages())}
    for name, html in written.items():
        for path, anchor in re.findall(r'href="([\w-]+\.html)?#?([\w-]*)"', html):
            if path or anchor:
                assert not path or path in written, (name, path)
                assert not anchor or f'id="{anchor}"' in written[path or name], (name, anchor)
        assert ".md" not in "".join(re.findall(r'href="([^"h][^"]*)"', html)), name
        assert "icon.svg" not in html, name
