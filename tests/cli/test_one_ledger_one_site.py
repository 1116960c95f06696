"""A ledger belongs to one site and one root: another site is refused, another root asks a person first."""

import os
from contextlib import closing

import pytest

from assetsync.ledger.ledger import open_ledger, read_ledger


@pytest.fixture
def mirrored(site):
    site.write("a.jpg", b"one")
    assert site.run("reconcile").code == 0
    return site


def rename_site(site, name: str = "oslo") -> None:
    site.config.write_text(site.config.read_text("utf-8").replace("site: hq", f"site: {name}"), "utf-8")


def move_root(site, to) -> None:
    site.config.write_text(site.config.read_text("utf-8").replace(f"root: {site.tree}\n", f"root: {to}\n"), "utf-8")


def another_tree(site):
    """A tree beside the site's, with another file."""
    other = site.folder / "other"
    (other / "photos").mkdir(parents=True)
    (other / "photos" / "b.jpg").write_bytes(b"of another site")
    return other


@pytest.mark.parametrize(
    "command",
    [
        "reconcile",
        "reconcile --dry-run",
        "status",
        "files",
        "explain photos/a.jpg",
        "retry",
        "resume",
        "doubt list",
        "doubt resolve photos/a.jpg --absent",
        "drift list",
        "drift settle photos/a.jpg",
        "orphans",
        "audit",
        "audit --last",
        "export --format csv",
        "check",
    ],
)
def test_second_site_is_refused_with_remedy(mirrored, command):
    rename_site(mirrored)
    result = mirrored.run(command)
    assert result.code == 2
    said = result.out + result.err
    assert "belongs to the site `hq`, but this configuration is for the site `oslo`" in said
    assert "give each site a `ledger` of its own" in said


def test_daemon_refuses_ledger_of_other_site(mirrored):
    rename_site(mirrored)
    _out, said = (daemon := mirrored.start("run")).communicate(timeout=20)
    assert (daemon.returncode, "belongs to the site `hq`" in said) == (2, True)


def test_second_site_leaves_ledger_unchanged(mirrored):
    start = fact(mirrored, "start")
    rename_site(mirrored)
    move_root(mirrored, another_tree(mirrored))
    mirrored.run("reconcile")
    assert len(mirrored.sandbox.assets()) == 1
    assert fact(mirrored, "start") == start
    mirrored.configure()
    assert mirrored.files() == {"photos/a.jpg": "verified"}
    assert mirrored.run("reconcile", "--json").only["unchanged"] == 1


@pytest.mark.parametrize("command", ["reconcile", "retry", "audit"])
def test_holder_does_not_hide_second_site(mirrored, command):
    rename_site(mirrored)
    with closing(open_ledger(mirrored.ledger, site="hq")):
        result = mirrored.run(command)
    assert (result.code, "belongs to the site `hq`" in result.err) == (2, True)


def test_first_writer_becomes_site_of_ledger(mirrored):
    with closing(open_ledger(mirrored.ledger)) as ledger:
        for name in ("site", "root"):
            ledger.set_fact(name, None)
    assert mirrored.run("status").code == 0
    assert fact(mirrored, "site") is None
    assert mirrored.run("reconcile").code == 0
    assert (fact(mirrored, "site"), fact(mirrored, "root")) == ("hq", str(mirrored.tree))


def fact(site, name: str) -> str | None:
    with closing(read_ledger(site.ledger)) as ledger:
        return ledger.reports.fact(name)


def test_other_root_pulls_a_brake(mirrored):
    other = another_tree(mirrored)
    move_root(mirrored, other)
    result = mirrored.run("reconcile")
    assert result.code == 1
    assert f"the ledger was filled from the root {mirrored.tree}, and `root` is {other} now" in result.out
    assert "assetsync resume 1" in result.out
    assert mirrored.files() == {"photos/a.jpg": "verified"}
    assert len(mirrored.sandbox.assets()) == 1


def test_dry_run_and_check_report_other_root(mirrored):
    move_root(mirrored, another_tree(mirrored))
    said = mirrored.run("reconcile", "--dry-run", "--json")
    assert (said.code, said.only["scanned"], said.only["in_sync"]) == (1, 0, False)
    result = mirrored.run("reconcile", "--dry-run")
    assert "a run would pull the brake: the ledger was filled from the root" in result.out
    assert "warning  ledger: " in mirrored.run("check").out
    assert mirrored.run("status", "--json").only["brakes"] == []


def test_resumed_root_becomes_root_of_ledger(mirrored):
    moved = mirrored.folder / "moved"
    mirrored.tree.rename(moved)
    move_root(mirrored, moved)
    assert mirrored.run("reconcile").code == 1
    assert mirrored.run("resume").code == 0
    said = mirrored.run("reconcile", "--json")
    assert (said.code, said.only["unchanged"], said.only["uploaded"]) == (0, 1, 0)
    assert fact(mirrored, "root") == str(moved)


def test_moved_root_pulls_one_brake_only(mirrored):
    moved = mirrored.folder / "moved"
    mirrored.tree.rename(moved)
    mirrored.run("reconcile")
    move_root(mirrored, moved)
    mirrored.run("reconcile")
    (brake,) = mirrored.run("status", "--json").only["brakes"]
    assert brake["detail"].startswith("the ledger was filled from the root")
    assert mirrored.run("resume").code == 0
    assert mirrored.run("reconcile").code == 0


def test_corrected_root_allows_nothing(mirrored):
    other = another_tree(mirrored)
    move_root(mirrored, other)
    mirrored.run("reconcile")
    mirrored.configure()
    assert mirrored.run("reconcile").code == 0
    move_root(mirrored, other)
    assert mirrored.run("reconcile").code == 1
    assert len(mirrored.sandbox.assets()) == 1


@pytest.mark.parametrize("spelling", ["{}/", "{}/./", "/{}", "link"])
def test_other_spelling_of_root_is_same_root(mirrored, spelling):
    link = mirrored.folder / "link"
    os.symlink(mirrored.tree, link)
    move_root(mirrored, link if spelling == "link" else spelling.format(mirrored.tree))
    assert mirrored.run("reconcile").code == 0
