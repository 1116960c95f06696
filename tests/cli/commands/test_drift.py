"""`drift list` and `drift settle`: what is to be set in the service by hand, and that it is."""

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
    }
    (unreadable,) = drifted.run("drift list", "--json", "photos/20260").objects
    assert (unreadable["reason"], unreadable["metadata"]) == ("sidecar", None)


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
    settings = SandboxSettings(api_key=KEY, folders={PHOTOS: "photos"}, pdf_keeps_own=True)
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
