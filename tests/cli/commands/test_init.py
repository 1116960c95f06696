"""`assetsync init`: what it writes, asks and refuses."""

import os
import pty
import re
import select
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest
from pydantic import SecretStr

from assetsync.cli import daemon_user, options
from assetsync.cli.commands import init
from assetsync.cli.commands.check import why_unusable
from assetsync.cli.commands.example import shared
from assetsync.cli.commands.init import configuration, write_site
from assetsync.cli.entry import run
from assetsync.cli.output import write_file
from assetsync.config import Listen, load_config, mappings, read_api_key
from assetsync.ledger.ledger import open_ledger
from tests.cli.commands.test_check import unprivileged
from tests.cli.conftest import KEY, PAPERS, PHOTOS

ODD = ['it\'s "odd"', "a: b # c", "Zürich 東京 😀", "- x", "null", "0123", "back\\slash", "x" * 300 + " y" * 100]
SERVICE = {"base_url": "https://dam.example.com/r", "upload_url": "https://dam.example.com/i.cfm"}


@pytest.mark.parametrize("name", ODD)
def test_odd_names_load_as_given(tmp_path, name):
    root, path = tmp_path / name[:100], tmp_path / "hq.yaml"
    text = configuration("hq", root, tmp_path / f"{name[:100]}.db", SERVICE, [(name, "A1")], listen="auto")
    write_file(path, text, 0o644, force=False)
    config = load_config(path, {})
    assert config.root == root
    assert config.ledger == tmp_path / f"{name[:100]}.db"
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


def test_failed_configuration_leaves_no_key(tmp_path):
    path = tmp_path / "hq.yaml"
    path.mkdir()
    with pytest.raises(OSError, match="File exists"):
        write_site(path, "site: hq", SecretStr(KEY), replace=())
    assert list(tmp_path.iterdir()) == [path]


def _words(site, output):
    service = ["--base-url", site.sandbox.base_url, "--upload-url", site.sandbox.upload_url]
    place = ["--site", "new", "--root", str(site.tree), "--output", str(output)]
    return ["init", *place, *service, "--key-file", str(site.key_file), "--folder", f"photos={PHOTOS}"]


def _without(words, option):
    at = words.index(option)
    return words[:at] + words[at + 2 :]


def _with(words, option, value):
    at = words.index(option)
    return [*words[: at + 1], value, *words[at + 2 :]]


def test_options_alone_write_a_site(site, capsys):
    output = site.folder / "new.yaml"
    assert run(_words(site, output)) == 0
    out, err = capsys.readouterr()
    config = load_config(output, {})
    assert (config.folders[0].destfolderid, config.ledger) == (PHOTOS, site.folder / "new.db")
    key = site.folder / "new.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == (KEY, 0o600)
    assert read_api_key(config, {}).get_secret_value() == KEY
    assert "accepts the key" in err
    assert "answers a search" in out
    assert KEY not in out + err


def test_shown_commands_name_the_new_configuration(site, capsys):
    output = site.folder / "a b.yaml"
    assert run(_words(site, output)) == 0
    out = capsys.readouterr().out
    assert f"next: assetsync reconcile --config '{output}' --dry-run --list" in out
    assert f"then: assetsync run --config '{output}'" in out


def test_ledger_is_written_where_it_is_named(site):
    ledger = site.folder / "state" / "x.db"
    assert run([*_words(site, site.folder / "new.yaml"), "--ledger", str(ledger)]) == 0
    assert load_config(site.folder / "new.yaml", {}).ledger == ledger


@pytest.mark.parametrize("option", ["--site", "--root", "--base-url", "--upload-url", "--key-file", "--folder"])
def test_missing_option_is_named(site, capsys, option):
    assert run(_without(_words(site, site.folder / "new.yaml"), option)) == 2
    assert f"'{option}'" in capsys.readouterr().err
    assert not (site.folder / "new.yaml").exists()


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--site", "Head Office", "not a valid site name"),
        ("--root", "/nowhere", "no such folder"),
        ("--root", "https://dam.example.com", "it is an address"),
        ("--base-url", "dam.example.com", "must begin with https://"),
        ("--upload-url", "http://dam.example.com/i.cfm", "plain http"),
        ("--folder", "photos", "no PATH=ID"),
        ("--folder", "photos=not an id", "not a valid folder id"),
    ],
)
def test_bad_option_is_named(site, capsys, option, value, problem):
    assert run(_with(_words(site, site.folder / "new.yaml"), option, value)) == 2
    err = capsys.readouterr().err
    assert f"'{option}'" in err
    assert problem in err
    assert not (site.folder / "new.key").exists()


def test_address_of_a_ledger_is_refused(site, capsys):
    words = [*_words(site, site.folder / "new.yaml"), "--ledger", "http://dam.example.com/razuna"]
    assert (run(words), "it is an address" in capsys.readouterr().err) == (2, True)
    assert not {"new.yaml", "new.key"} & site.left_behind()


def test_ledger_inside_root_is_refused(site, capsys):
    assert run([*_words(site, site.folder / "new.yaml"), "--ledger", str(site.tree / "x.db")]) == 2
    assert "it is inside root" in capsys.readouterr().err


def test_configuration_inside_root_is_refused(site, capsys):
    assert run(_words(site, site.photos / "new.yaml")) == 2
    assert "would be inside it" in capsys.readouterr().err
    assert list(site.photos.iterdir()) == []


def test_root_that_is_not_utf8_is_refused(site, capsys):
    root = os.fsdecode(os.fsencode(site.folder) + b"/caf\xe9")
    os.mkdir(root)
    assert run(_with(_words(site, site.folder / "new.yaml"), "--root", root)) == 2
    assert "'--root': it is not UTF-8" in capsys.readouterr().err


def test_folder_mapped_twice_names_the_configuration(site, capsys):
    output = site.folder / "new.yaml"
    assert run([*_words(site, output), "--folder", f"photos={PHOTOS}"]) == 2
    err = capsys.readouterr().err
    assert f"{output}, line " in err
    assert "mapped twice" in err


def test_refused_key_writes_nothing(site, capsys):
    site.key_file.write_text("wrong-key")
    assert run(_words(site, site.folder / "new.yaml")) == 3
    err = capsys.readouterr().err
    assert "refuses the API key" in err
    assert "accepts the key" not in err
    assert not {"new.yaml", "new.key"} & site.left_behind()


def test_unreachable_service_writes_nothing(site):
    words = _with(_words(site, site.folder / "new.yaml"), "--base-url", "http://127.0.0.1:9/razuna")
    assert run(words) == 3
    assert not {"new.yaml", "new.key"} & site.left_behind()


def test_key_of_the_environment_is_written(site, monkeypatch):
    monkeypatch.setenv("ASSETSYNC_API_KEY", KEY)
    assert run(_without(_words(site, site.folder / "new.yaml"), "--key-file")) == 0
    assert (site.folder / "new.key").read_text() == KEY


@pytest.mark.parametrize("name", ["new.yaml", "new.key"])
def test_existing_site_needs_force(site, capsys, name):
    words, taken = _words(site, site.folder / "new.yaml"), site.folder / name
    taken.write_text("old")
    assert run(words) == 2
    assert f"{taken} exists already: --force replaces it" in capsys.readouterr().err
    assert taken.read_text() == "old"
    assert run([*words, "--force"]) == 0
    assert load_config(site.folder / "new.yaml", {}).site == "new"
    assert (site.folder / "new.key").read_text() == KEY


def _five_lines(folder):
    """Make the files that the third and the fourth of the five lines of systemd/README.md make."""
    path, key = folder / "new.yaml", folder / "new.key"
    path.write_text(re.sub(r"(?m)^  api_key_file:.*\n", "", shared("config.example.yaml").read_text()))
    key.touch(0o600)
    return path, key


def test_files_of_the_server_page_are_filled_in(site):
    path, key = _five_lines(site.folder)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 0, 65534)
        os.chown(key, 65534, 65534)
    before = [(file.stat().st_uid, file.stat().st_gid, file.stat().st_mode) for file in (path, key)]
    assert run(_words(site, path)) == 0
    assert [(file.stat().st_uid, file.stat().st_gid, file.stat().st_mode) for file in (path, key)] == before
    assert (load_config(path, {}).site, key.read_text()) == ("new", KEY)


@pytest.mark.parametrize("closed", ["folder", "above", "key", "root"])
def test_closed_place_is_exit_2_with_its_name(site, closed):
    folder = site.folder / "etc"
    folder.mkdir()
    path, key = _five_lines(folder)
    place = {"folder": folder, "above": folder, "key": key, "root": site.tree}[closed]
    words = _words(site, folder / "sites" / "new.yaml" if closed == "above" else path)
    words = _with(words, "--root", str(site.photos)) if closed == "root" else words
    place.chmod(0)
    done = unprivileged(*words)
    place.chmod(0o700)
    said = {
        "folder": f"{folder} cannot be written: run it as root",
        "above": f"{folder} cannot be written: run it as root",
        "key": f"{key} cannot be read: Permission denied: run it as root",
        "root": "there is no such folder, or this user cannot look there",
    }
    assert (done.returncode, said[closed] in done.stderr) == (2, True), done.stderr


def test_key_that_is_there_is_used_and_kept(site, capsys):
    path, key = _five_lines(site.folder)
    key.write_text(KEY + "\n")
    inode = key.stat().st_ino
    assert run(_without(_words(site, path), "--key-file")) == 0
    assert f"the API key is that of {key}, which is kept" in capsys.readouterr().err
    assert (key.read_text(), key.stat().st_ino) == (KEY + "\n", inode)


def test_edited_example_needs_force(site, capsys):
    path, _ = _five_lines(site.folder)
    path.write_text(path.read_text().replace("site: hq", "site: harbour"))
    assert run(_words(site, path)) == 2
    assert f"{path} exists already" in capsys.readouterr().err


def test_replaced_key_is_its_owners_alone(site):
    """A mode that lets others read is not kept for a key."""
    key = site.folder / "new.key"
    key.write_text("an-old-key")
    key.chmod(0o644)
    assert run([*_words(site, site.folder / "new.yaml"), "--force"]) == 0
    assert (key.read_text(), key.stat().st_mode & 0o777) == (KEY, 0o600)


def _listen(path):
    listen = load_config(path, {}).status.listen
    return f"{listen.host}:{listen.port}"


@pytest.fixture
def ports(monkeypatch):
    """Three neighbouring ports, which are free, in place of those from 9464 on."""
    for first in range(20_000, 60_000, 7):
        found = range(first, first + 3)
        if all(why_unusable(Listen("127.0.0.1", port)) is None for port in found):
            monkeypatch.setattr(init, "_PORTS", found)
            return found
    raise AssertionError("no three ports are free")


def test_next_free_port_is_taken(site, ports):
    """The first is another site's, and the second another program's."""
    other = site.folder / "other.yaml"
    other.write_text(site.config.read_text().replace("listen: null", f"listen: 127.0.0.1:{ports[0]}"))
    (site.folder / "receivers.yaml").write_text("urls: []\n")
    with socket.create_server(("127.0.0.1", ports[1])):
        assert run(_words(site, site.folder / "new.yaml")) == 0
        assert _listen(site.folder / "new.yaml") == f"127.0.0.1:{ports[2]}"
        with socket.create_server(("127.0.0.1", ports[2])), closing(open_ledger(site.folder / "new.db")):
            assert run([*_words(site, site.folder / "new.yaml"), "--force"]) == 0
            assert _listen(site.folder / "new.yaml") == f"127.0.0.1:{ports[2]}", "its own daemon listens there"
        words = _with(_words(site, site.folder / "third.yaml"), "--site", "third")
        assert run([*words, "--ledger", str(site.folder / "third.db")]) == 0
        assert _listen(site.folder / "third.yaml") == "127.0.0.1:0", "a free one is taken at each start: auto"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders for other users")
def test_state_folder_is_the_units_users(site, server, monkeypatch):
    monkeypatch.setattr(daemon_user, "_OF_THE_UNITS", "nobody")
    monkeypatch.setattr(init, "STATE_FOLDER", site.folder / "state")
    run(_with(_on_server(site), "--ledger", str(site.folder / "state" / "new.db")))
    made = (site.folder / "state").stat()
    assert (made.st_uid, made.st_mode & 0o777) == (65534, 0o700)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server's folder of configurations."""
    folder = tmp_path / "etc"
    monkeypatch.setattr(options, "CONFIGURATIONS", folder)
    monkeypatch.setenv("ASSETSYNC_API_KEY", KEY)
    return folder


def test_umask_hides_no_configuration(site, server):
    before = os.umask(0o077)
    try:
        assert run(_on_server(site)) == 0
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (server, server / "new.yaml")] == [0o755, 0o644]


def _on_server(site):
    return [*_without(_words(site, ""), "--output"), "--ledger", str(site.folder / "new.db")]


def test_server_site_is_started_by_systemd(site, server, capsys):
    assert run(_on_server(site)) == 0
    out = capsys.readouterr().out
    key = server / "new.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == (KEY, 0o600)
    assert "next: assetsync reconcile --site new --dry-run --list" in out
    assert "then: systemctl enable --now assetsync@new" in out
    assert "assetsync run" not in out


class Dialogue:
    """A person at a terminal, who answers each question as it appears."""

    def __init__(self, words, environ=None):
        self._person, terminal = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "assetsync", *words],
            env={**os.environ, **(environ or {})},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.shown = ""

    def answer(self, question, text):
        assert self._until(question), f"no {question!r} in {self.shown}"
        os.write(self._person, text.encode() + b"\n")

    def end(self):
        self._until(None)
        os.close(self._person)
        return self._process.wait(20)

    def _until(self, question):
        """Read until the question comes after what was read before, or until the process has ended."""
        read, until = "", time.monotonic() + 30
        while question is None or question not in read:
            assert time.monotonic() < until, read
            if not select.select([self._person], [], [], 1)[0]:
                continue
            try:
                part = os.read(self._person, 4096).decode()
            except OSError:
                return False
            read += part
            self.shown += part
        return True


def test_person_answers_each_question(site):
    """Answer each question wrongly first: the mistake is named, and the question is repeated; the key is not shown."""
    os.mkdir(os.fsencode(site.tree) + b"/caf\xe9")
    output = site.folder / "new.yaml"
    person = Dialogue(["init", "--output", str(output)])
    person.answer("Name of the site: ", "Head Office")
    person.answer("Name of the site: ", "new")
    person.answer("Folder to mirror: ", "/nowhere")
    person.answer("Folder to mirror: ", "https://dam.example.com/razuna")
    person.answer("Folder to mirror: ", str(site.tree))
    person.answer(f"[{site.folder / 'new.db'}]: ", "")
    person.answer("Address of the service: ", "nonsense")
    person.answer("Address of the service: ", site.sandbox.base_url)
    person.answer("index file of your tenant: ", site.sandbox.upload_url)
    person.answer("API key (not shown): ", "wrong-key")
    person.answer("API key (not shown): ", KEY)
    person.answer("Folder below root (. is root itself): ", "fotos")
    person.answer("Folder below root (. is root itself): ", "photos")
    person.answer("destfolderid for photos: ", "not an id")
    person.answer("destfolderid for photos: ", PHOTOS)
    person.answer("Another folder? [y/N]: ", "y")
    person.answer("Folder below root (. is root itself): ", "photos/")
    person.answer("Folder below root (. is root itself): ", ".")
    person.answer("destfolderid for .: ", PAPERS)
    person.answer("Another folder? [y/N]: ", "n")
    assert person.end() == 0, person.shown
    assert KEY not in person.shown
    assert "refuses the API key" in person.shown
    for named in ("Head Office", "/nowhere", "https://dam.example.com/razuna", "nonsense", "fotos", "not an id"):
        assert f"Error: {named}: " in person.shown
    assert "it is an address, and a path on this machine is asked for" in person.shown
    assert re.search(r"folders below root: photos\r?\n", person.shown)
    config = load_config(output, {})
    assert (config.site, config.root, config.ledger) == ("new", site.tree, site.folder / "new.db")
    assert [(folder.path, folder.destfolderid) for folder in config.folders] == [("photos", PHOTOS), (".", PAPERS)]


def test_person_corrects_an_unreachable_address(site):
    words = _with(_words(site, site.folder / "new.yaml"), "--base-url", "http://127.0.0.1:9/razuna")
    person = Dialogue([*words, "--ledger", str(site.folder / "new.db")])
    person.answer("Write the configuration all the same? [y/N]: ", "n")
    person.answer("Address of the service [http://127.0.0.1:9/razuna]: ", site.sandbox.base_url)
    person.answer(f"[{site.sandbox.upload_url}]: ", "")
    assert person.end() == 0, person.shown
    assert load_config(site.folder / "new.yaml", {}).service.base_url == site.sandbox.base_url


def test_person_confirms_an_unreachable_service(site):
    words = _with(_words(site, site.folder / "new.yaml"), "--base-url", "http://127.0.0.1:9/razuna")
    person = Dialogue([*words, "--ledger", str(site.folder / "new.db")])
    person.answer("Write the configuration all the same? [y/N]: ", "y")
    assert person.end() == 3, person.shown
    assert load_config(site.folder / "new.yaml", {}).service.base_url == "http://127.0.0.1:9/razuna"
    assert "assetsync check --config" in person.shown


@pytest.mark.parametrize(("words", "reads"), [([], True), (["--xmp", "off"], False), (["--xmp", "on"], True)])
def test_xmp_files_are_read_unless_switched_off(site, capsys, words, reads):
    site.write("deep/a.XMP")
    assert run([*_words(site, site.folder / "new.yaml"), *words]) == 0
    assert [mapping.xmp for mapping in mappings(load_config(site.folder / "new.yaml", {}))] == [reads]
    assert (f"such as {site.photos}/deep/a.XMP: " in capsys.readouterr().err) is (not words)


def test_tree_without_xmp_files_is_not_asked_about(site, capsys):
    (site.tree / "unmapped.xmp").touch()
    assert run(_words(site, site.folder / "new.yaml")) == 0
    assert "XMP" not in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "reads"), [("", True), ("n", False)])
def test_person_switches_xmp_files_off(site, answer, reads):
    site.write("a.xmp")
    person = Dialogue([*_words(site, site.folder / "new.yaml"), "--ledger", str(site.folder / "new.db")])
    person.answer("Read the XMP files? [Y/n]: ", answer)
    assert person.end() == 0, person.shown
    assert [mapping.xmp for mapping in mappings(load_config(site.folder / "new.yaml", {}))] == [reads]


def test_wrong_upload_url_writes_nothing(site, capsys):
    words = _with(_words(site, site.folder / "new.yaml"), "--upload-url", f"{site.sandbox.base_url}/index.cfm")
    assert run(words) == 3
    err = capsys.readouterr().err
    assert "service.upload_url: what answers at" in err
    assert "correct service.upload_url" in err
    assert not {"new.yaml", "new.key"} & site.left_behind()


def test_swapped_addresses_write_nothing(site, capsys):
    words = _with(_words(site, site.folder / "new.yaml"), "--upload-url", site.sandbox.base_url)
    assert run(_with(words, "--base-url", site.sandbox.upload_url)) == 3
    err = capsys.readouterr().err
    assert f"service.base_url: {site.sandbox.upload_url} is the address for uploads" in err
    assert "service.base_url and service.upload_url are swapped" in err
    assert not {"new.yaml", "new.key"} & site.left_behind()


def test_person_corrects_a_wrong_upload_url(site):
    wrong = f"{site.sandbox.base_url}/index.cfm"
    words = _with(_words(site, site.folder / "new.yaml"), "--upload-url", wrong)
    person = Dialogue([*words, "--ledger", str(site.folder / "new.db")])
    person.answer("Write the configuration all the same? [y/N]: ", "n")
    person.answer(f"[{site.sandbox.base_url}]: ", "")
    person.answer(f"[{wrong}]: ", site.sandbox.upload_url)
    assert person.end() == 0, person.shown
    assert load_config(site.folder / "new.yaml", {}).service.upload_url == site.sandbox.upload_url


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (KEY, "holds the same key"),
        ("another-key", "holds another key, which commands use while it is set: unset it"),
    ],
)
def test_key_file_beside_variable_is_named(site, capsys, monkeypatch, held, said):
    monkeypatch.setenv("ASSETSYNC_API_KEY", held)
    run(_words(site, site.folder / "new.yaml"))
    err = capsys.readouterr().err
    assert f"the API key is that of {site.key_file}; $ASSETSYNC_API_KEY {said}" in err
    assert (site.folder / "new.key").read_text() == KEY
    assert held not in err


def test_used_variable_and_replaced_file_are_named(site, capsys, monkeypatch):
    (site.folder / "new.key").write_text("an-old-key")
    monkeypatch.setenv("ASSETSYNC_API_KEY", KEY)
    run([*_without(_words(site, site.folder / "new.yaml"), "--key-file"), "--force"])
    err = capsys.readouterr().err
    assert f"the API key is that of $ASSETSYNC_API_KEY, and replaces that in {site.folder / 'new.key'}" in err
