"""Which configuration a command reads, and that the commands that it shows name the same.

Covers `cli/options.py`.
"""

import os
import shlex
import threading
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.cli import options
from assetsync.cli.entry import run
from assetsync.config import load_config
from assetsync.core.notices import AT_ONCE
from assetsync.ledger.file.facts import OUTLINE
from assetsync.ledger.ledger import open_ledger
from assetsync.notify.notifications import Notifications, current_problems
from assetsync.text import name_configuration, runnable

from .commands.test_check import run_unprivileged, unprivileged


@pytest.fixture
def server(tmp_path, monkeypatch, capsys):
    """A server's folder of configurations, empty at first; gives a function that runs a command."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(options, "CONFIGURATIONS", folder)
    monkeypatch.delenv("ASSETSYNC_CONFIG", raising=False)

    def ask(*words):
        code = run(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    ask.folder = folder
    return ask


def installed(server, site, name="hq"):
    (server.folder / f"{name}.yaml").write_text(site.config.read_text())


def blocked(site):
    site.write("empty.jpg", b"")
    site.run("reconcile")
    os.environ.pop("ASSETSYNC_CONFIG")


def test_only_configuration_of_the_server_is_read(server, site):
    blocked(site)
    installed(server, site)
    code, out, _ = server("status")
    assert code == 0, out
    assert "1 needs you." in out
    # It runs as printed, too, once there is a second configuration.
    assert out.endswith("no process sends for this site now: assetsync run --site hq\n")


@pytest.fixture
def closed(site):
    """A site whose configuration lies in a folder that only root may enter."""
    folder = site.folder / "closed"
    folder.mkdir()
    site.config = site.config.replace(folder / "hq.yaml")
    folder.chmod(0)
    yield site
    folder.chmod(0o700)


@pytest.mark.parametrize("command", ["status", "check", "run", "reconcile"])
def test_configuration_in_closed_folder_is_exit_2(closed, command):
    done = run_unprivileged(closed, command)
    said = f"{closed.config}: the configuration cannot be read (Permission denied): name an existing file with --config"
    assert (done.returncode, said in done.stdout + done.stderr) == (2, True)


def test_closed_choice_of_the_environment_is_left_alone(closed, site, monkeypatch):
    readable = site.folder / "open.yaml"
    closed.config.parent.chmod(0o700)
    readable.write_text(closed.config.read_text())
    closed.config.parent.chmod(0)
    monkeypatch.setenv("ASSETSYNC_CONFIG", str(closed.config))
    done = unprivileged("check", "--config", str(readable))
    assert done.returncode == 0, done.stderr


def test_site_with_a_unit_is_started_by_systemd(server, site, monkeypatch, tmp_path):
    monkeypatch.setattr(options, "UNITS", (tmp_path / "none", tmp_path))
    (tmp_path / "assetsync@.service").touch()
    blocked(site)
    installed(server, site, "s2")
    assert server("status")[1].endswith("no process sends for this site now: systemctl start assetsync@s2\n")
    # Its unit reads another configuration.
    _, out, _ = server("status", "--config", str(site.config))
    assert out.endswith(f"no process sends for this site now: assetsync run --config {site.config}\n")


def test_site_names_its_configuration(server, site):
    blocked(site)
    for name in ("hq", "lab"):
        installed(server, site, name)
    code, out, _ = server("doubt", "list", "--site", "hq")
    assert (code, out) == (0, "nothing is in doubt\n")
    code, _, err = server("status")
    assert code == 2, err
    assert "--site NAME" in err
    assert "has hq, lab" in err


def test_variable_names_the_configuration(server, site, monkeypatch):
    blocked(site)
    monkeypatch.setenv("ASSETSYNC_CONFIG", str(site.config))
    assert server("status")[0] == 0


@pytest.mark.parametrize("given", [["--site", "hq", "--config", "x.yaml"], ["--site", "../hq"], ["--site", ""]])
def test_contradictory_names_are_refused(server, site, given):
    installed(server, site)
    code, _, err = server("status", *given)
    assert code == 2, err
    assert "--site" in err


def shown_commands(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("assetsync ")]


@pytest.mark.parametrize("by_site", [True, False])
def test_shown_commands_run_as_printed(server, site, by_site):
    """`status` of one of two sites shows a retry and a list that name the site; both work when they are pasted."""
    for number in range(7):
        site.write(f"empty{number}.jpg", b"")
    blocked(site)
    for name in ("hq", "lab"):
        installed(server, site, name)
    given = ["--site", "hq"] if by_site else ["--config", str(site.config)]
    code, out, _ = server("status", *given)
    assert code == 0, out
    listing = next(line for line in out.splitlines() if "assetsync files" in line).partition("assetsync ")[2]
    words = shlex.split(listing)
    expected = "--site hq" if by_site else f"--config {site.config}"
    assert " ".join(words[1:3]) == expected
    code, out, _ = server(*words)
    assert code == 0, out
    assert out.count("empty_file") + out.count("empty") >= 7


def test_configuration_with_a_space_is_quoted(server, site, tmp_path):
    blocked(site)
    other = tmp_path / "our site.yaml"
    other.write_text(site.config.read_text())
    _, out, _ = server("status", "--config", str(other))
    assert f"--config '{other}'" in out


def test_hint_of_a_named_configuration_is_not_doubled():
    name_configuration("--site hq")
    text = "assetsync retry --config x.yaml a; assetsync doubt list; `assetsync audit` finds it; assetsync guide json"
    shown = "assetsync retry --config x.yaml a; assetsync doubt list --site hq; `assetsync audit --site hq` finds it"
    assert runnable(text) == f"{shown}; assetsync guide json"
    assert runnable(runnable(text)) == runnable(text)


@pytest.mark.parametrize("name", ["'assetsync run 1.jpg'", "'it'\\''s assetsync run'", "'it'\"'\"'s assetsync run'"])
def test_quoted_name_is_never_a_command(name):
    name_configuration("--site hq")
    text = f"the site's file: assetsync retry {name}; then assetsync status"
    assert runnable(text) == f"the site's file: assetsync retry --site hq {name}; then assetsync status --site hq"


@pytest.mark.parametrize("command", ["files", "explain", "export --format csv", "reconcile --dry-run --list"])
def test_name_like_a_command_is_shown_unchanged(server, site, command):
    site.write("assetsync run 1.jpg")
    if "dry" not in command:
        site.run("reconcile")
    os.environ.pop("ASSETSYNC_CONFIG", None)
    path = ["photos/assetsync run 1.jpg"] if command == "explain" else []
    code, out, _ = server(*command.split(), "--config", str(site.config), *path)
    assert code == ("dry" in command)
    assert "photos/assetsync run 1.jpg" in out
    assert "run --config" not in out


def test_messages_name_the_configuration(make_world, tmp_path):
    name_configuration("--site hq")
    out = tmp_path / "out"
    script = tmp_path / "take"
    script.write_text(f"#!/bin/sh\ncat >> {out}\n")
    script.chmod(0o755)
    world = make_world(notify={"command": [str(script)]})
    world.write("a", b"")
    world.scan()
    notifications = Notifications(
        world.site.config, dict(os.environ), world.clock, lambda error: pytest.fail(str(error))
    )
    now = world.clock.now
    notifications.attach(world.ledger, lambda reported: current_problems(world.ledger, None, None, reported, now()))
    notifications.step(AT_ONCE)
    notifications.close(10)
    assert "(assetsync status --site hq)" in Path(out).read_text()


@pytest.fixture
def mirrored(site):
    """A site whose ledger has recorded the configuration."""
    site.write("a.jpg")
    assert site.run("reconcile").code == 0
    return site


@pytest.mark.parametrize("command", ["status", "status --json", "files", "orphans"])
@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("colour: red\n", "colour: this key is unknown"),
        ("colour: [\n", "this is not YAML"),
        ("log: {format: xml}\n", "log.format: it is not an accepted value"),
    ],
)
def test_mistake_made_after_a_run_is_reported(mirrored, command, mistake, said):
    """What the ledger has recorded is about another file."""
    mirrored.config.write_text(mirrored.config.read_text() + mistake)
    done = mirrored.run(command)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_key_in_the_file_is_reported_to_readers(mirrored, monkeypatch):
    """The process that recorded the file may not have known the key by the environment."""
    key = "a-key-in-the-address"
    mirrored.configure(base_url=f"{mirrored.sandbox.base_url}/{key}", more="# checked before\n")
    with closing(open_ledger(mirrored.ledger)) as ledger:
        ledger.set_fact(OUTLINE, load_config(mirrored.config, {}).outline_record)
    assert mirrored.run("status").code == 0
    monkeypatch.setenv("ASSETSYNC_API_KEY", key)
    done = mirrored.run("status")
    assert (done.code, done.out) == (2, "")
    assert "service.base_url: the API key must not be in this file" in done.err


def test_valid_change_shows_before_a_run(mirrored):
    mirrored.config.write_text(mirrored.config.read_text().replace("path: photos", "path: pictures"))
    (folder,) = mirrored.run("status", "--json").only["folders"]
    assert folder["paths"] == ["pictures"]


def test_mistake_is_reported_before_a_damaged_ledger(mirrored):
    mirrored.ledger.write_bytes(b"no database" * 1000)
    assert "is damaged" in mirrored.run("status").err
    mirrored.config.write_text(mirrored.config.read_text() + "colour: red\n")
    assert "colour: this key is unknown" in mirrored.run("status").err


def test_configuration_is_read_from_a_pipe_once(mirrored, tmp_path):
    """A program that decrypts it writes it once; the ledger's record need not exist."""
    text = mirrored.config.read_bytes() + b"# decrypted\n"
    for _ in range(2):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=[text])
        writer.start()
        assert run(["status", "--config", str(pipe)]) == 0
        writer.join()
        pipe.unlink()
        assert mirrored.run("reconcile").code == 0
        mirrored.config.write_bytes(text)
