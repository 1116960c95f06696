"""`drift list` and `drift settle`: what is to be set in the service by hand, and that it is."""

import json
import sqlite3
from contextlib import closing

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.cli.conftest import KEY, PHOTOS


@pytest.fixture
def drifted(site):
    """A site of five files; the sidecars of four have changed since, one of them cannot be read."""
    for name in ("a.jpg", "2026/b.jpg", "2026/c.txt", "20260/d.jpg", "e.jpg"):
        site.write(name, name.encode())
    assert site.run("reconcile").code == 0
    site.write("a.jpg.yaml", b"description: The pier\nkeywords: [harbour, dawn]\n")
    site.write("2026/_folder.yaml", b"location: Oslo\n")
    site.write("20260/d.jpg.yaml", b"lokation: Oslo\n")
    site.run("reconcile")
    return site


def told(site) -> list[str]:
    return sorted(found["path"] for found in site.run("drift list", "--json").objects)


def test_drift_list_shows_values_to_set(drifted):
    """The list prints the fields that a person sets in the service; a broken sidecar has none."""
    shown = drifted.run("drift list")
    assert shown.code == 0
    assert "photos/a.jpg: its metadata changed after the upload" in shown.out
    assert "    img_description = The pier\n    img_keywords = harbour,dawn\n" in shown.out
    assert "photos/20260/d.jpg: its metadata can no longer be read, fix the sidecar: " in shown.out
    (asset,) = [asset for asset in drifted.sandbox.assets() if asset.filename == "a.jpg"]
    (row,) = drifted.run("drift list", "--json", "photos/a.jpg").objects
    assert row == {
        "path": "photos/a.jpg",
        "state": "verified",
        "assetid": asset.id,
        "destfolderid": asset.folder_id,
        "size": asset.size,
        "md5": asset.md5,
        "reason": "metadata",
        "drift": "its metadata changed after the upload: set it in the service by hand",
        "detail": "its metadata changed after the upload: set it in the service by hand",
        "metadata": {"img_description": "The pier", "img_keywords": "harbour,dawn"},
        "clear": [],
    }
    (unreadable,) = drifted.run("drift list", "--json", "photos/20260").objects
    assert (unreadable["reason"], unreadable["metadata"]) == ("sidecar", None)


def test_drift_list_names_fields_to_clear(site):
    site.write("_folder.yaml", b"location: Oslo\n")
    for name in ("a.jpg", "b.jpg"):
        site.write(name, name.encode())
        site.write(f"{name}.yaml", b"description: The pier\nkeywords: [harbour]\n")
    assert site.run("reconcile").code == 0
    (site.photos / "a.jpg.yaml").unlink()
    site.write("b.jpg.yaml", b"description: The old pier\n")
    site.run("reconcile")
    shown = site.run("drift list").out
    assert "    location = Oslo\n    img_description: to be cleared\n    img_keywords: to be cleared\n" in shown
    removed, changed = site.run("drift list", "--json").objects
    assert (removed["metadata"], removed["clear"]) == ({"location": "Oslo"}, ["img_description", "img_keywords"])
    assert changed["metadata"] == {"img_description": "The old pier", "location": "Oslo"}
    assert changed["clear"] == ["img_keywords"]


@pytest.mark.parametrize("option", ["zip_extract: true", "upl_template: T7"])
def test_options_that_differ_are_their_own_kind(site, option):
    site.write("a.jpg", b"a picture")
    site.write("a.jpg.yaml", b"description: The pier\n")
    assert site.run("reconcile").code == 0
    site.write("a.jpg.yaml", f"description: The pier\nupload: {{{option}}}\n".encode())
    site.run("reconcile")
    (found,) = site.run("drift list", "--json").objects
    assert (found["reason"], found["metadata"], found["clear"]) == ("options", None, None)
    assert "the options of its upload" in site.run("status").out
    assert site.run("drift settle", "photos/a.jpg").out == "1 settled\n"
    site.run("reconcile")
    assert site.run("drift list").out == "nothing has drifted\n"


def test_drift_of_another_asset_is_not_of_options(site):
    """A person may name another asset for a file: the fields of its newest upload say nothing about that one."""
    site.write("a.jpg", b"a picture")
    site.write("a.jpg.yaml", b"description: The pier\n")
    assert site.run("reconcile").code == 0
    with closing(sqlite3.connect(site.ledger)) as ledger, ledger:
        ledger.execute("UPDATE files SET meta_digest = 'of another asset', drift = 'unread'")
    site.run("reconcile")
    (found,) = site.run("drift list", "--json").objects
    assert (found["reason"], found["metadata"]) == ("metadata", {"img_description": "The pier"})


def test_settled_drift_is_hidden_till_changed(drifted):
    assert told(drifted) == ["photos/2026/b.jpg", "photos/2026/c.txt", "photos/20260/d.jpg", "photos/a.jpg"]
    result = drifted.run("drift settle", "photos/2026", "photos/2026/b.jpg", "photos/a.jpg")
    assert (result.code, result.out) == (0, "3 settled\n")
    drifted.run("reconcile")
    assert told(drifted) == ["photos/20260/d.jpg"]
    drifted.write("a.jpg.yaml", b"description: The old pier\n")
    drifted.run("reconcile")
    assert told(drifted) == ["photos/20260/d.jpg", "photos/a.jpg"]


def test_settle_skips_unreadable_sidecars(drifted):
    said = drifted.run("drift settle", ".", "--json").only["message"]
    assert said == "3 settled; 1 still drifting: fix the sidecar or the mapping"
    drifted.run("reconcile")
    assert told(drifted) == ["photos/20260/d.jpg"]
    drifted.write("20260/d.jpg.yaml", b"")
    drifted.run("reconcile")
    assert drifted.run("drift list").out == "nothing has drifted\n"
    assert drifted.run("drift list", "--json").out == ""


def test_without_a_path_nothing_is_settled(drifted):
    result = drifted.run("drift settle")
    assert (result.code, "needs the paths" in result.err) == (2, True)
    assert len(told(drifted)) == 4


def test_metadata_not_kept_is_listed_and_settled(site):
    """A PDF keeps its own texts; the lists, status and `explain` show that, and settling ends it."""
    settings = SandboxSettings(dialect="observed", api_key=KEY, folders={PHOTOS: "photos"}, pdf_keeps_own=True)
    with Sandbox(settings) as sandbox:
        site.configure(base_url=sandbox.base_url, upload_url=sandbox.upload_url)
        site.write("_folder.yaml", b"description: Of the folder\nkeywords: [harbour]\n")
        site.write("empty.pdf", b"%PDF-1.7")
        site.write("own.pdf", b"%PDF-1.7 << /Subject (Of the folder) /Keywords (annual report) >>")
        site.write("plain.txt")
        assert site.run("reconcile").code == 0
        rows = {row["path"]: row for row in site.run("drift list", "--json").objects}
        assert rows.keys() == {"photos/empty.pdf", "photos/own.pdf"}
        assert "(the description is empty, the keywords are empty)" in rows["photos/empty.pdf"]["detail"]
        assert "(the keywords are others than were sent)" in rows["photos/own.pdf"]["detail"]
        assert {row["reason"] for row in rows.values()} == {"not_as_sent"}
        assert rows["photos/own.pdf"]["metadata"] == {"file_desc": "Of the folder", "file_keywords": "harbour"}
        status = site.run("status", "--json").only
        assert (status["drift_count"], status["blocked"], status["in_sync"]) == (2, 0, True)
        assert "metadata drift: photos/own.pdf: the service does not hold" in site.run("status").out
        assert "does not hold the metadata that was sent" in site.run("explain", "photos/own.pdf").out
        assert site.run("drift settle", "photos").out == "2 settled\n"
        assert site.run("drift list").out.startswith("nothing has drifted")


@pytest.fixture
def adopted(site):
    """A site whose files were in the service before; the assets of two have other metadata than the sidecars."""
    for name in ("a.jpg", "2026/b.jpg", "2026/c.jpg", "d.jpg"):
        site.upload_unseen(site.write(name, name.encode()))
    site.write("_folder.yaml", b"keywords: [harbour]\n")
    site.write("2026/b.jpg.yaml", b"description: The pier\n")
    site.write("2026/c.jpg.yaml", b"keywords: []\n")
    site.write("d.jpg.yaml", b"keywords: ''\n")
    assert site.run("reconcile").code == 0
    return site


def listed(site, *paths: str) -> dict[str, dict[str, object]]:
    return {str(row["path"]): row for row in site.run("drift list", "--adopted", "--json", *paths).objects}


def test_adopted_differences_are_listed_apart(adopted):
    """Assets adopted with other texts than the sidecars give are listed with `--adopted`, not in the plain list."""
    assert adopted.run("drift list").out == "nothing has drifted\n"
    rows = listed(adopted)
    assert rows.keys() == {"photos/a.jpg", "photos/2026/b.jpg"}
    (asset,) = [asset for asset in adopted.sandbox.assets() if asset.filename == "b.jpg"]
    detail = (
        "the metadata of its adopted asset differs from the sidecars (the description is empty, the keywords are"
        " empty): set it in the service by hand"
    )
    assert rows["photos/2026/b.jpg"] == {
        "path": "photos/2026/b.jpg",
        "state": "verified",
        "assetid": asset.id,
        "destfolderid": asset.folder_id,
        "size": asset.size,
        "md5": asset.md5,
        "reason": "adopted",
        "drift": detail,
        "detail": detail,
        "metadata": {"img_description": "The pier", "img_keywords": "harbour"},
        "clear": None,
    }
    assert listed(adopted, "photos/2026").keys() == {"photos/2026/b.jpg"}
    shown = adopted.run("drift list", "--adopted", "photos/a.jpg").out
    assert shown.startswith("photos/a.jpg: the metadata of its adopted asset differs from the sidecars (the keywords")
    assert shown.endswith("    img_keywords = harbour\n")
    assert "differs from the sidecars (the keywords" in adopted.run("explain", "photos/a.jpg").out


def test_status_counts_adopted_differences(adopted):
    status = adopted.run("status", "--json").only
    assert (status["adopted_differing"], status["drift_count"], status["in_sync"]) == (2, 0, True)
    line = "adopted with other metadata than in the sidecars: 2 files: `assetsync drift list --adopted` lists them"
    assert line in adopted.run("status").out.splitlines()


def test_adopted_differences_are_settled_apart(adopted):
    refused = adopted.run("drift settle", ".")
    assert (refused.code, "--adopted settles its adopted assets" in refused.err) == (2, True)
    assert adopted.run("drift settle", "--adopted", "photos/2026").out == "1 settled\n"
    assert listed(adopted).keys() == {"photos/a.jpg"}
    refused = adopted.run("drift settle", "--adopted", "photos/2026")
    assert (refused.code, "no adopted asset differs" in refused.err) == (2, True)
    assert adopted.run("drift settle", "--adopted", ".").out == "1 settled\n"
    adopted.run("reconcile")
    assert adopted.run("drift list", "--adopted").out == "no adopted asset differs from its sidecars\n"
    assert "adopted with" not in adopted.run("status").out


def test_lost_ledger_shows_what_the_sidecars_changed(site):
    site.write("a.jpg", b"a")
    site.write("b.jpg", b"b")
    site.write("_folder.yaml", b"description: The pier\n")
    assert site.run("reconcile").code == 0
    for path in site.folder.glob("site.db*"):
        path.unlink()
    site.write("b.jpg.yaml", b"description: The harbour\n")
    report = json.loads(site.run("reconcile", "--adopt", "--json").out)
    assert (report["adopted"], report["uploaded"], report["in_sync"]) == (2, 0, True)
    assert listed(site).keys() == {"photos/b.jpg"}
