"""A file of which a sector cannot be read, sent to a service that stores what came of a cut upload."""

import errno
import os

NAMED = "photos/large.tif cannot be read: Input/output error at byte 5,242,880, on the disk of the tree ("


def test_bad_sector_is_named_and_cuts_once(site, monkeypatch):
    """The disk fails 5 MiB into a file: one damaged asset is left, and a retry leaves no other one."""
    pread, bad_from = os.pread, 5 * 2**20

    def failing(fd: int, length: int, offset: int) -> bytes:
        is_bad = os.readlink(f"/proc/self/fd/{fd}").endswith("large.tif")
        if is_bad and offset >= bad_from:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, min(length, bad_from - offset) if is_bad else length, offset)

    site.write("large.tif", bytes(range(256)) * (9 * 2**12))
    with monkeypatch.context() as failed:
        failed.setattr(os, "pread", failing)
        for retries in (False, False, True):
            assert not retries or site.run("retry").code == 0
            assert site.run("reconcile").code == 1
            shown = site.run("status").out
            assert f"blocked: photos/large.tif: {NAMED}" in shown
            assert "restore it from a backup" in shown
            assert len(site.sandbox.assets()) == 1
    assert "damaged" in site.run("orphans").out
    assert site.run("reconcile").code == 0
    assert site.files() == {"photos/large.tif": "verified"}
    assert len(site.sandbox.assets()) == 2
