"""Other files in the place of those that were mirrored, with the same names, sizes and times."""

import os
import shutil

import pytest


@pytest.fixture
def mirrored(site):
    for number in range(10):
        site.write(f"{number}.jpg", b"ours %d" % number)
    assert site.run("reconcile").code == 0
    return site


def replace_folder(site, *, content: bytes | None = None) -> None:
    """Put a copy in the place of the mapped folder, which gives its files other inodes."""
    aside = site.tree / "aside"
    site.photos.rename(aside)
    shutil.copytree(aside, site.photos)
    for path in site.photos.iterdir():
        if content is not None:
            times = path.stat()
            path.write_bytes(content + path.name[:1].encode())
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    shutil.rmtree(aside)


def test_other_content_is_not_uploaded(mirrored):
    replace_folder(mirrored, content=b"them ")
    found = mirrored.run("reconcile")
    assert found.code == 1
    assert "10 of 10 files of the mapped folder photos are gone" in found.out
    assert len(mirrored.sandbox.assets()) == 10
    (brake,) = mirrored.run("status", "--json").only["brakes"]
    assert brake["kind"] == "vanished"
    assert mirrored.run("resume").code == 0
    assert mirrored.run("reconcile").code == 0
    assert len(mirrored.sandbox.assets()) == 20


def test_equal_copy_costs_no_upload(mirrored):
    replace_folder(mirrored)
    assert mirrored.run("reconcile").code == 0
    assert len(mirrored.sandbox.assets()) == 10
    assert mirrored.run("status", "--json").only["brakes"] == []


def test_vanished_files_of_equal_looks_are_reported(site):
    """A new file of the size and time of 95 deleted ones excuses none of them, because its content is another."""
    for number in range(100):
        os.utime(site.write(f"{number:02}.jpg", b"%02d" % number), (1e9, 1e9))
    assert site.run("reconcile").code == 0
    for number in range(95):
        (site.photos / f"{number:02}.jpg").unlink()
    os.utime(site.write("new.jpg", b"ne"), (1e9, 1e9))
    assert "95 of 100 files of the mapped folder photos are gone" in site.run("reconcile").out
    (brake,) = site.run("status", "--json").only["brakes"]
    assert brake["kind"] == "vanished"
    assert site.run("resume").code == 0
    assert site.run("reconcile").code == 0
    (event,) = site.run("status", "--json").only["vanished"]
    assert event["count"] == 95
