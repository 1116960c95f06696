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
def test_another_site_is_exit_2_and_named_with_what_to_do(mirrored, command):
    rename_site(mirrored)
    result = mirrored.run(command)
    assert result.code == 2
    said = result.out + result.err
    assert "belongs to the site `hq`, and this configuration is of the site `oslo`" in said
    assert "give each site a `ledger` of its own" in said


def test_the_daemon_refuses_another_sites_ledger_too(mirrored):
    rename_site(mirrored)
    _out, said = (daemon := mirrored.start("run")).communicate(timeout=20)
    assert (daemon.returncode, "belongs to the site `hq`" in said) == (2, True)


def test_of_another_site_nothing_is_let_go_sent_or_counted_as_a_start(mirrored):
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
def test_another_site_is_told_so_beside_the_holder_too_and_not_that_it_is_busy(mirrored, command):
    rename_site(mirrored)
    with closing(open_ledger(mirrored.ledger, site="hq")):
        result = mirrored.run(command)
    assert (result.code, "belongs to the site `hq`" in result.err) == (2, True)


def test_a_ledger_that_does_not_know_its_site_becomes_that_of_the_first_that_writes(mirrored):
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


def test_another_root_pulls_a_brake_and_nothing_is_sent_or_let_go(mirrored):
    other = another_tree(mirrored)
    move_root(mirrored, other)
    result = mirrored.run("reconcile")
    assert result.code == 1
    assert f"the ledger was filled from the root {mirrored.tree}, and `root` is {other} now" in result.out
    assert "assetsync resume 1" in result.out
    assert mirrored.files() == {"photos/a.jpg": "verified"}
    assert len(mirrored.sandbox.assets()) == 1


def test_a_dry_run_and_a_check_over_another_root_say_so(mirrored):
    move_root(mirrored, another_tree(mirrored))
    said = mirrored.run("reconcile", "--dry-run", "--json")
    assert (said.code, said.only["scanned"], said.only["in_sync"]) == (1, 0, False)
    result = mirrored.run("reconcile", "--dry-run")
    assert "a run would pull the brake: the ledger was filled from the root" in result.out
    assert "warning  ledger: " in mirrored.run("check").out
    assert mirrored.run("status", "--json").only["brakes"] == []


def test_once_a_person_agreed_to_the_root_it_is_the_ledgers(mirrored):
    moved = mirrored.folder / "moved"
    mirrored.tree.rename(moved)
    move_root(mirrored, moved)
    assert mirrored.run("reconcile").code == 1
    assert mirrored.run("resume").code == 0
    said = mirrored.run("reconcile", "--json")
    assert (said.code, said.only["unchanged"], said.only["uploaded"]) == (0, 1, 0)
    assert fact(mirrored, "root") == str(moved)


def test_a_tree_that_was_missed_before_it_was_found_elsewhere_is_asked_about_once(mirrored):
    moved = mirrored.folder / "moved"
    mirrored.tree.rename(moved)
    mirrored.run("reconcile")
    move_root(mirrored, moved)
    mirrored.run("reconcile")
    (brake,) = mirrored.run("status", "--json").only["brakes"]
    assert brake["detail"].startswith("the ledger was filled from the root")
    assert mirrored.run("resume").code == 0
    assert mirrored.run("reconcile").code == 0


def test_a_root_that_is_corrected_releases_the_brake_and_allows_nothing(mirrored):
    other = another_tree(mirrored)
    move_root(mirrored, other)
    mirrored.run("reconcile")
    mirrored.configure()
    assert mirrored.run("reconcile").code == 0
    move_root(mirrored, other)
    assert mirrored.run("reconcile").code == 1
    assert len(mirrored.sandbox.assets()) == 1


@pytest.mark.parametrize("spelling", ["{}/", "{}/./", "/{}", "link"])
def test_another_spelling_of_the_same_root_is_no_other_root(mirrored, spelling):
    link = mirrored.folder / "link"
    os.symlink(mirrored.tree, link)
    move_root(mirrored, link if spelling == "link" else spelling.format(mirrored.tree))
    assert mirrored.run("reconcile").code == 0
