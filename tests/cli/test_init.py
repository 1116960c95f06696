import pytest

from assetsync.cli.init import Answers, configuration, write_file
from assetsync.config import load_config

ODD = ['it\'s "odd"', "a: b # c", "Zürich 東京 😀", "- x", "null", "0123", "back\\slash", "x" * 300 + " y" * 100]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_load_as_given(tmp_path, name):
    (tmp_path / name[:100] / name[:100]).mkdir(parents=True)
    answers = Answers(
        "hq", tmp_path / name[:100], "https://dam.example.com/r", "https://dam.example.com/i.cfm", {name: "A1"}
    )
    path = tmp_path / "hq.yaml"
    write_file(path, configuration(answers, tmp_path / "hq.key"), 0o644, force=False)
    config = load_config(path, {})
    assert (config.root, config.service.api_key_file) == (answers.root, tmp_path / "hq.key")
    assert [(str(folder.path), folder.destfolderid) for folder in config.folders] == [(name, "A1")]


def test_existing_file_is_not_overwritten(tmp_path):
    path = tmp_path / "hq.key"
    path.write_text("old")
    with pytest.raises(FileExistsError):
        write_file(path, "new", 0o600, force=False)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_force_replaces_file_and_mode(tmp_path):
    path = tmp_path / "hq.key"
    path.write_text("old")
    path.chmod(0o644)
    write_file(path, "new", 0o600, force=True)
    assert (path.read_text(), path.stat().st_mode & 0o777, list(tmp_path.iterdir())) == ("new", 0o600, [path])
