import pytest

from assetsync.cli.entry import run
from assetsync.cli.init import Answers, configuration, write_file
from assetsync.config import load_config

from .conftest import KEY, PHOTOS

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


def _words(site, output):
    service = ["--base-url", site.sandbox.base_url, "--upload-url", site.sandbox.upload_url]
    place = ["--site", "new", "--root", str(site.tree), "--output", str(output)]
    return ["init", *place, *service, "--key-file", str(site.key_file), "--folder", f"photos={PHOTOS}"]


def test_options_alone_write_a_site(site, capsys):
    output = site.folder / "new.yaml"
    run(_words(site, output))
    out, err = capsys.readouterr()
    assert load_config(output, {}).folders[0].destfolderid == PHOTOS
    key = site.folder / "new.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == (KEY, 0o600)
    assert "accepts the key" in err
    assert "answers a search" in out
    assert KEY not in out + err


@pytest.mark.parametrize("option", ["--site", "--root", "--base-url", "--upload-url", "--key-file", "--folder"])
def test_missing_option_is_named(site, capsys, option):
    words = _words(site, site.folder / "new.yaml")
    at = words.index(option)
    assert run(words[:at] + words[at + 2 :]) == 2
    assert f"'{option}'" in capsys.readouterr().err
    assert not (site.folder / "new.yaml").exists()


def test_wrong_key_is_reported(site, capsys):
    site.key_file.write_text("wrong")
    assert run(_words(site, site.folder / "new.yaml")) != 0
    err = capsys.readouterr().err
    assert "refuses the API key" in err
    assert "accepts the key" not in err
