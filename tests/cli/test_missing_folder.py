"""A mapped folder that is not there: said by every command, never in sync, and nothing else follows from it."""

import re

import pytest

from assetsync.cli.commands.reconcile import KEYS

WHAT_HELPS = (
    "missing: the mapped folder `fotos` is not there: mount its disk, correct `path` below `folders`, or create it"
)


@pytest.fixture
def misspelt(site):
    """A site with two mappings, of which one names a folder that is not there."""
    site.write("a.jpg")
    text = site.config.read_text("utf-8")
    site.config.write_text(text.replace("folders: [", "folders: [{path: fotos, destfolderid: F2}, "), "utf-8")
    return site


@pytest.mark.parametrize("option", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_run_says_so_and_exits_1(misspelt, option):
    misspelt.run("reconcile")
    result = misspelt.run("reconcile", *option)
    assert result.code == 1
    first, *rest = result.out.splitlines()
    assert "1 mapped folder is not there" in first
    assert rest.count(WHAT_HELPS) == 1


def test_json_is_complete_and_not_in_sync(misspelt):
    result = misspelt.run("reconcile", "--json")
    assert (result.code, list(result.only)) == (1, list(KEYS))
    assert (result.only["in_sync"], result.only["verified"], result.only["pending"]) == (False, 1, 0)


def test_status_names_the_missing_folder(misspelt):
    misspelt.run("reconcile")
    lines = misspelt.run("status").out.splitlines()
    assert lines[0] == "hq: Action needed: 1 mapped folder is not there. 1 of 1 verified."
    assert WHAT_HELPS in lines
    said = misspelt.run("status", "--json").only
    assert (said["in_sync"], said["level"]) == (False, "needs_you")
    assert (said["last_scan"]["complete"], said["last_scan"]["missing"]) == (False, ["fotos"])


def test_created_folder_puts_run_in_sync(misspelt):
    misspelt.run("reconcile")
    (misspelt.tree / "fotos").mkdir()
    assert misspelt.run("reconcile").code == 0
    assert misspelt.run("status").out.startswith("hq: in sync at the last scan, ")


def test_files_deleted_elsewhere_are_let_go(misspelt):
    misspelt.write("b.jpg", b"another")
    misspelt.run("reconcile")
    (misspelt.photos / "b.jpg").unlink()
    misspelt.run("reconcile")
    assert misspelt.files() == {"photos/a.jpg": "verified"}


def test_vanished_mapped_folder_pulls_brake(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.photos.rename(site.folder / "elsewhere")
    site.run("reconcile", "--wait", "0s")
    first = site.run("status").out.splitlines()[0]
    stopped = r"uploads stopped \(a mapped folder is empty or missing: 1 file missing since \d\d:\d\d UTC\)"
    assert re.fullmatch(f"hq: Action needed: {stopped}, 1 mapped folder is not there. 1 of 1 verified.", first)
    assert site.files() == {"photos/a.jpg": "verified"}
