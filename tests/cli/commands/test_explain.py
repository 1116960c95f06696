"""`explain` of a file that waits: what the next try will decide. Other outputs are tested in test_files."""

import time

from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import PHOTOS
from tests.core.test_xmp import packet


def test_broken_sidecar_is_foreseen(site):
    site.write("a.jpg", b"content")
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    site.write("a.jpg.yaml", b"keywords: [")
    (version,) = site.run("explain", "photos/a.jpg", "--json").objects[0]["versions"]
    assert version["next_try_reason"] == "sidecar"
    assert "it will be blocked: photos/a.jpg.yaml" in version["next_try_detail"]


def test_asset_id_stands_for_its_file(site):
    site.write("a.jpg", b"content")
    site.run("reconcile")
    (asset,) = site.sandbox.assets()
    for given in (asset.id, asset.id.lower()):
        found = site.run("explain", given, "--json")
        assert (found.code, found.only["path"]) == (0, "photos/a.jpg")
    unknown = site.run("explain", "0" * 32)
    assert (unknown.code, "the ledger knows no file 000" in unknown.err) == (2, True)


def test_level_of_each_field_is_named(site):
    site.write("a.jpg", b"content")
    site.write("a.xmp", packet("<dc:description>of the XMP file</dc:description><dc:subject>boat</dc:subject>"))
    site.write("a.jpg.yaml", b"keywords: [own]\nlocation: Bern")
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    found = site.run("explain", "photos/a.jpg", "--json").objects[0]
    assert found["sidecars"] == ["photos/a.xmp", "photos/a.jpg.yaml"]
    assert found["metadata_from"] == {
        "img_description": "photos/a.xmp",
        "img_keywords": "photos/a.jpg.yaml",
        "location": "photos/a.jpg.yaml",
    }
    assert "img_description = of the XMP file (from a.xmp)" in site.run("explain", "photos/a.jpg").out


def test_xmp_file_shows_what_it_describes(site):
    site.write("a.jpg", b"content")
    site.write("a.xmp", packet("<dc:description>of the XMP file</dc:description>"))
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    found = site.run("explain", "photos/a.xmp", "--json").objects[0]
    assert (found["reason"], found["describes"], found["sets"]) == ("sidecar", "photos/a.*", ["description"])


def test_wait_for_a_sidecar_names_the_file(site):
    site.config.write_text(site.config.read_text().replace(f'"{PHOTOS}"', f'"{PHOTOS}", sidecars: required'))
    site.write("a.jpg", b"content")
    run = site.run("reconcile", "--wait", "0s")
    assert (run.code, "another run goes on" in run.out) == (1, False)
    out = site.run("explain", "photos/a.jpg").out
    assert out.count("--without-sidecar photos/a.jpg`") == 1
    assert "next try: when its sidecar has come" in out
    assert "PATH" not in out


def test_interrupted_upload_is_not_on_its_way(site):
    site.write("a.jpg", b"content")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.HANG, operation=Operation.UPLOAD, seconds=60))
    process = site.start("reconcile")
    _until(lambda: site.ledger.exists() and site.files().get("photos/a.jpg") == "sending")
    running = site.run("explain", "photos/a.jpg")
    assert "sending: it is on its way" in running.out
    process.kill()
    process.wait()
    stopped = site.run("explain", "photos/a.jpg")
    assert "sending: its upload was interrupted: no process sends it now" in stopped.out
    assert "next try: assetsync run, or `assetsync reconcile`, looks up whether it arrived" in stopped.out
    (version,) = site.run("explain", "photos/a.jpg", "--json").only["versions"]
    assert version["next_try_reason"] == "interrupted"


def test_name_in_doubt_elsewhere_is_shown(site):
    """Two files of one name go to one folder of the service: the second one waits until the first is decided."""
    site.write("x/a.jpg", b"first")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, status=504, operation=Operation.UPLOAD))
    site.run("reconcile", "--wait", "0s")
    assert site.files()["photos/x/a.jpg"] == "in_doubt"
    site.write("y/a.jpg", b"second one")
    site.run("reconcile", "--wait", "0s")
    (version,) = site.run("explain", "photos/y/a.jpg", "--json").only["versions"]
    assert version["next_try_reason"] == "doubts"
    assert version["next_try_detail"].startswith("once the upload of photos/x/a.jpg is decided")


def test_upload_by_hand_in_flight_is_on_its_way(site):
    path = site.write("a.jpg", b"content")
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    site.configure()
    site.sandbox.set_faults(FaultRule(kind=FaultKind.HANG, operation=Operation.UPLOAD, seconds=60))
    site.start("upload", "--folder", PHOTOS, str(path))
    _until(lambda: site.files().get("photos/a.jpg") == "sending")
    assert "sending: it is on its way" in site.run("explain", "photos/a.jpg").out


def _until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
