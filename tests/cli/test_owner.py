"""Commands run by another user than the ledger's owner."""

import os
from contextlib import closing

import pytest

from assetsync.cli import operator
from assetsync.cli.commands import upload
from assetsync.cli.entry import program
from assetsync.ledger.ledger import open_ledger
from tests.forks import call
from tests.slices import skip_outside

from .commands.test_check import WITHOUT_CAPABILITIES
from .conftest import PHOTOS, Holder

NOBODY = 65534
WRITING = [
    "reconcile --wait 0s",
    "retry",
    "resume",
    "doubt retry",
    "doubt resolve photos/a.jpg --absent",
    "drift settle photos",
    "audit",
    f"upload --folder {PHOTOS} tree/photos/a.jpg",
]
READING = [
    "reconcile --dry-run",
    "check",
    "status",
    "files",
    "explain photos/a.jpg",
    "doubt list",
    "drift list",
    "audit --last",
    "orphans",
    "export --format csv",
]
OPENING = ["retry", WRITING[-1], "run", "check", "status"]
"""Those that reach the ledger in different ways, also where its folder is open to them."""

REFUSED = [*((command, 0o700) for command in (*WRITING, "run", *READING)), *((command, 0o755) for command in OPENING)]
SLICES = 6

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def owned(site, monkeypatch):
    """A site whose ledger, in a folder closed to others, belongs to another user."""
    state = site.folder / "state"
    state.mkdir(0o700)
    site.ledger = state / "hq.db"
    site.configure()
    site.write("a.jpg")
    site.write("empty.jpg", b"")
    os.chown(state, NOBODY, NOBODY)
    assert site.run("reconcile", "--wait", "0s").code == 1
    monkeypatch.chdir(site.folder)
    return site


def standing(site):
    """What the ledger's files are, by name, apart from the time of the last look."""
    found = {path.name: path.stat() for path in site.ledger.parent.iterdir()}
    return {name: (stat.st_ino, stat.st_uid, stat.st_mode, stat.st_mtime_ns) for name, stat in found.items()}


def owners(site):
    return {(path.stat().st_uid, path.stat().st_gid) for path in site.ledger.parent.iterdir()}


def run_as_another(site, *words):
    return call(words, env={**os.environ, "ASSETSYNC_CONFIG": str(site.config)}, broken=WITHOUT_CAPABILITIES)


@pytest.mark.parametrize("command", WRITING)
def test_writing_root_leaves_nothing_of_root(owned, command, monkeypatch):
    monkeypatch.setattr(upload, "_PATIENCE", 0.5)
    monkeypatch.setattr(operator, "PATIENCE", 0.5)
    assert owned.run(command).code != 70
    assert owners(owned) == {(NOBODY, NOBODY)}
    with closing(open_ledger(owned.ledger)):
        assert owned.run(command).code != 70
        assert owners(owned) == {(NOBODY, NOBODY)}


@pytest.mark.parametrize("held", [False, True])
def test_reading_root_changes_no_file(owned, held):
    def read_all():
        for command in READING:
            before = standing(owned)
            assert owned.run(command).code in (0, 1), command
            assert standing(owned) == before or held, command
            assert owners(owned) == {(NOBODY, NOBODY)}, command

    if not held:
        read_all()
        return
    with Holder(owned):
        read_all()


@pytest.mark.parametrize(("command", "mode"), REFUSED)
def test_wrong_user_is_shown_the_line_for_its_owner(request, command, mode):
    skip_outside((command, mode), REFUSED, SLICES, request)
    owned = request.getfixturevalue("owned")
    owned.ledger.parent.chmod(mode)
    words = [*command.split(), "--config", "site.yaml"]
    done = run_as_another(owned, *words)
    line = f"runuser -u nobody -- {program()} "
    line += f"check --config {owned.config}" if command == "check" else " ".join(words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    said = f"the ledger {owned.ledger} belongs to the user nobody, and this is root"
    assert said in done.stdout + done.stderr
    assert f"{line}\n" in done.stdout + done.stderr


def test_line_for_the_owner_quotes_and_names_the_configuration(owned):
    done = run_as_another(owned, "retry", "photos/a b.jpg")
    line = f"runuser -u nobody -- {program()} retry 'photos/a b.jpg' --config {owned.config}\n"
    assert done.stderr.endswith(f": run it as its user, which root can: {line}")
    done = run_as_another(owned, "retry", "--", "-x")
    assert done.stderr.endswith(f"{program()} retry --config {owned.config} -- -x\n")


def test_line_for_the_owner_holds_no_line_break(owned):
    done = run_as_another(owned, "retry", "photos/a\nrm b")
    assert (done.returncode, "runuser" in done.stderr, "run it as nobody" in done.stderr) == (2, False, True)


def test_owner_without_access_gets_no_line(owned):
    for path in (owned.ledger.parent, *owned.ledger.parent.iterdir()):
        os.chown(path, 0, 0)
    owned.ledger.chmod(0o400)
    assert "runuser" not in run_as_another(owned, "retry").stderr
