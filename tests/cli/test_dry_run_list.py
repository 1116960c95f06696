"""`reconcile --dry-run --list`: what a run would do, one line a file."""

import os

import pytest


@pytest.fixture
def tree(site):
    """A site with one file of each kind: unchanged, replaced, touched, new, empty, vanished, renamed, mis-described."""
    for name in ("same", "replaced", "touched", "vanished", "old"):
        site.write(f"{name}.jpg", name.encode())
    assert site.run("reconcile").code == 0
    site.write("replaced.jpg", b"other bytes")
    os.utime(site.photos / "touched.jpg", (1_700_000_000, 1_700_000_000))
    (site.photos / "vanished.jpg").unlink()
    (site.photos / "old.jpg").rename(site.photos / "renamed.jpg")
    site.write("new.jpg", b"new bytes")
    site.write("empty.jpg", b"")
    site.write("described.jpg", b"its sidecar is broken")
    site.write("described.jpg.yaml", b"keywords: [")
    return site


def test_each_file_has_a_line_with_its_action(tree):
    shown = tree.run("reconcile", "--dry-run", "--list")
    assert shown.code == 1
    found = {line.split()[2]: line for line in shown.out.splitlines()}
    assert {path.removeprefix("photos/"): line.split()[0] for path, line in found.items()} == {
        "replaced.jpg": "replace",
        "touched.jpg": "hash",
        "new.jpg": "upload",
        "renamed.jpg": "hash",
        "described.jpg": "blocked",
        "empty.jpg": "blocked",
        "vanished.jpg": "vanished",
    }
    assert "9  photos/new.jpg → A6CE649FAA5F434EB513CA15656AB5AA  (new)" in found["photos/new.jpg"]
    assert "would upload at most" in shown.err
    assert "1 vanished" in shown.err


def test_objects_have_the_keys_of_the_contract(tree):
    objects = tree.run("reconcile", "--dry-run", "--list", "--json").objects
    assert {tuple(each) for each in objects} == {("action", "path", "destfolderid", "size", "reason", "detail")}
    assert {each["path"]: each["size"] for each in objects}["photos/vanished.jpg"] is None
    assert {each["reason"] for each in objects} == {"new", "changed", "touched", "empty_file", "sidecar", "vanished"}
    assert len(objects) == 7


def test_queued_and_blocked_files_are_listed(tree):
    """Files that the ledger holds already, which a scan takes for unchanged."""
    tree.nowhere()
    tree.run("reconcile", "--wait", "0s")
    actions = [line.split()[0] for line in tree.run("reconcile", "--dry-run", "--list").out.splitlines()]
    assert sorted(set(actions)) == ["blocked", "hash", "upload"]
    assert len(actions) >= 4


def test_queued_file_changed_again_is_listed_once(tree):
    tree.nowhere()
    tree.run("reconcile", "--wait", "0s")
    tree.write("new.jpg", b"changed while it was queued")
    objects = tree.run("reconcile", "--dry-run", "--list", "--json").objects
    assert [(each["action"], each["size"]) for each in objects if each["path"] == "photos/new.jpg"] == [("replace", 27)]


def test_queued_file_now_gone_is_not_listed(tree):
    tree.nowhere()
    tree.run("reconcile", "--wait", "0s")
    (tree.photos / "new.jpg").unlink()
    objects = tree.run("reconcile", "--dry-run", "--list", "--json").objects
    assert [each["action"] for each in objects if each["path"] == "photos/new.jpg"] == []


def counts_agree(site):
    objects = site.run("reconcile", "--dry-run", "--list", "--json").objects
    sent = [each["size"] for each in objects if each["action"] in ("upload", "replace", "hash")]
    said = site.run("reconcile", "--dry-run", "--json").only
    assert (said["uploaded"], said["bytes_uploaded"]) == (len(sent), sum(sent))
    assert said["vanished"] == len([each for each in objects if each["action"] == "vanished"])
    return len(sent)


def test_counts_agree_with_the_list(tree):
    assert counts_agree(tree) == 4
    assert "would upload at most 4 files" in tree.run("reconcile", "--dry-run").out


def test_counts_of_known_files_agree_with_the_list(tree):
    tree.nowhere()
    tree.run("reconcile", "--wait", "0s")
    tree.write("new.jpg", b"changed while it was queued")
    tree.write("later.jpg", b"its sidecar breaks while it is queued")
    tree.run("reconcile", "--wait", "0s")
    tree.write("later.jpg.yaml", b"keywords: [")
    (tree.photos / "touched.jpg").unlink()
    assert counts_agree(tree) == 3


def test_list_changes_nothing(tree):
    before = tree.files()
    tree.run("reconcile", "--dry-run", "--list")
    assert tree.files() == before


def test_list_needs_a_dry_run(site):
    shown = site.run("reconcile", "--list")
    assert shown.code == 2
    assert "add --dry-run" in shown.err
