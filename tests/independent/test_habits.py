"""Habits that the interface allows and a live installation does not have: each once doubled or stopped something."""

from dataclasses import replace

import pytest

from .dialect import DOCUMENTED, OBSERVED
from .service import Service


def forget(mirror):
    for file in mirror.base.glob("hq.db*"):
        file.unlink()


@pytest.mark.parametrize("reads", ["query", "get"])
def test_get_only_service_is_mirrored(make_mirror, reads):
    mirror = make_mirror(replace(OBSERVED, reads=reads))
    for number in range(3):
        mirror.write(f"f{number}.txt", f"content {number}")
    code, said = mirror.reconcile()
    assert (code, said["verified"], len(mirror.service.assets)) == (0, 3, 3)


def test_lost_ledger_without_md5_repeats_none(make_mirror):
    mirror = make_mirror(DOCUMENTED)
    for number in range(10):
        mirror.write(f"f{number}.txt", f"content {number}")
    assert mirror.reconcile()[0] == 0
    forget(mirror)
    code, said = mirror.reconcile(wait="3s")
    assert (code, said["uploaded"], said["blocked"], len(mirror.service.assets)) == (1, 0, 10, 10)
    assert "--adopt" in mirror.files()["f1.txt"]["error"]
    code, said = mirror.reconcile("--adopt")
    assert (code, said["adopted"], said["verified"], len(mirror.service.assets)) == (0, 10, 10, 10)


def test_asset_in_processing_is_not_absent(make_mirror):
    mirror = make_mirror(replace(OBSERVED, processing=6.0, hides_unprocessed=True))
    for number in range(4):
        mirror.write(f"f{number}.txt", f"content {number}")
    mirror.service.mute |= {"f1.txt", "f2.txt"}
    mirror.reconcile(wait="5s")
    mirror.service.mute.clear()
    code, said = mirror.reconcile(wait="30s")
    assert (code, said["verified"], len(mirror.service.assets)) == (0, 4, 4)


def test_short_page_service_is_listed_fully(make_mirror, monkeypatch):
    whole = Service._page
    monkeypatch.setattr(Service, "_page", lambda self, rows, start, most: whole(self, rows, start, min(most, 25)))
    mirror = make_mirror(replace(DOCUMENTED, columns=OBSERVED.columns))
    for number in range(60):
        mirror.write(f"f{number}.txt", f"content {number}")
    assert mirror.reconcile(wait="20s")[0] == 0
    forget(mirror)
    code, said = mirror.reconcile(wait="20s")
    assert (code, said["uploaded"], len(mirror.service.assets)) == (0, 0, 60)
