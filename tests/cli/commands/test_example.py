"""The files that an administrator begins with."""

import stat
from pathlib import Path

import pytest

from assetsync.cli.entry import run
from assetsync.config import load_config
from tests.cli.commands.test_check import unprivileged

ROOT = Path(__file__).parents[3]
UNITS = ["assetsync-reconcile@.service", "assetsync-reconcile@.timer", "assetsync@.service"]


def test_the_example_is_a_configuration(capsys, tmp_path):
    assert run(["example", "config"]) == 0
    text = capsys.readouterr().out
    assert text == (ROOT / "config.example.yaml").read_text("utf-8")
    (tmp_path / "hq.yaml").write_text(text)
    assert load_config(tmp_path / "hq.yaml", {}).site == "hq"


def test_units_run_the_writing_program(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.prefix", "/opt/pipx/venvs/assetsync")
    assert run(["example", "units", str(tmp_path / "new" / "units")]) == 0
    written = {path.name: path for path in (tmp_path / "new" / "units").iterdir()}
    assert sorted(written) == UNITS
    assert {stat.S_IMODE(path.stat().st_mode) for path in written.values()} == {0o644}
    lines = written["assetsync@.service"].read_text().splitlines()
    assert "ExecStart=/opt/pipx/venvs/assetsync/bin/assetsync run --config /etc/assetsync/%i.yaml" in lines
    assert "is not there" in capsys.readouterr().err


def test_units_are_replaced_by_force_only(tmp_path, capsys):
    (tmp_path / UNITS[2]).write_text("mine")
    assert run(["example", "units", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [UNITS[2]]
    assert "--force replaces them" in capsys.readouterr().err
    assert run(["example", "units", str(tmp_path), "--force"]) == 0
    assert (tmp_path / UNITS[2]).read_text() != "mine"


def test_unit_is_not_written_through_a_link(tmp_path):
    (tmp_path / "theirs").write_text("as it was")
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / ".assetsync@.service.new").symlink_to(tmp_path / "theirs")
    assert run(["example", "units", str(tmp_path / "units")]) == 0
    assert (tmp_path / "theirs").read_text() == "as it was"
    assert not (tmp_path / "units" / "assetsync@.service").is_symlink()


def test_units_into_a_closed_folder_are_exit_2(tmp_path):
    tmp_path.chmod(0)
    done = unprivileged("example", "units", str(tmp_path / "units"))
    tmp_path.chmod(0o700)
    assert (done.returncode, "cannot be written: Permission denied: run it as root" in done.stderr) == (2, True)


@pytest.mark.parametrize("where", ["/proc/units", "file/units"])
def test_unwritable_folder_is_one_sentence(tmp_path, monkeypatch, capsys, where):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    assert run(["example", "units", where]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
