"""`assetsync pause` and `resume --pause`, and where a pause is shown (`cli/commands/resume.py`)."""

import json
import time
from datetime import datetime, timedelta

import pytest

from tests.cli.conftest import PHOTOS, Holder


@pytest.fixture
def paused(site):
    """A site with a verified file, paused for two hours, and a file that waits for that."""
    site.write("a.jpg")
    site.run("reconcile")
    site.run("pause", "--for", "2h", "--why", "the service is upgraded")
    site.write("b.jpg", b"other bytes")
    return site


def test_reconcile_in_a_pause_ends_at_once(paused):
    began = time.monotonic()
    result = paused.run("reconcile", "--wait", "5m")
    assert (result.code, time.monotonic() - began < 60) == (1, True)
    assert "not in sync: 1 pending; 0 uploaded" in result.out
    assert "paused: the whole site, by " in result.out
    assert "the service is upgraded" in result.out
    assert "1 wait until a pause ends" in result.out
    assert len(paused.sandbox.assets()) == 1


def test_reconcile_does_not_wait_for_a_paused_folder(site):
    site.write("2026/a.jpg")
    site.write("b.jpg")
    site.run("reconcile", "--dry-run")
    began = time.monotonic()
    site.run("reconcile", "--wait", "0s")
    site.run("pause", "--folder", "photos/2026")
    site.write("2026/c.jpg")
    result = site.run("reconcile", "--wait", "5m")
    assert (result.code, time.monotonic() - began < 60) == (1, True)
    assert site.files()["photos/2026/c.jpg"] == "queued"
    assert site.run("resume", "--pause").out == "1 pause ended: photos/2026\n"
    assert site.run("reconcile").code == 0


def test_pause_is_shown_everywhere(paused):
    paused.run("reconcile", "--wait", "0s")
    status = paused.run("status").out
    assert "hq: Paused by " in status.splitlines()[0]
    assert "(the service is upgraded); 1 of 2 verified, 1 paused." in status.splitlines()[0]
    assert "it ends by itself; at once: assetsync resume --pause ." in status
    brief = paused.run("status", "--brief")
    assert (brief.code, "Paused by " in brief.out) == (0, True)
    shown = paused.run("status", "--json").only
    (pause,) = shown["pauses"]
    assert (pause["path"], pause["detail"], shown["waiting_for_pauses"]) == (".", "the service is upgraded", 1)
    assert datetime.fromisoformat(pause["until"]) - datetime.fromisoformat(pause["since"]) < timedelta(hours=2)
    assert shown["level"] == "under_way"
    explained = paused.run("explain", "photos/b.jpg")
    assert "when the pause of the whole site by " in explained.out
    assert json.loads(paused.run("explain", "photos/b.jpg", "--json").out)["versions"][0]["next_try_reason"] == "paused"


def test_pause_of_a_folder_is_explained(site):
    site.write("2026/a.jpg")
    site.run("reconcile")
    site.run("pause", "--folder", "photos/2026", "--why", "the prints are retouched")
    waits = site.run("explain", "photos/2026", "--json").only["waits_for"]
    assert waits.startswith("once `assetsync resume --pause` ends the pause of photos/2026 by ")
    assert waits.endswith(": the prints are retouched")
    assert f"waits: {waits}" in site.run("explain", "photos/2026").out
    assert site.run("explain", "photos", "--json").only["waits_for"] is None


def test_pause_in_sync_is_no_trouble(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.run("pause")
    result = site.run("status")
    assert "hq: in sync" in result.out
    assert "1 file verified; paused by " in result.out
    assert "without an end" in result.out.splitlines()[0]
    assert site.run("reconcile").code == 0


def test_upload_by_hand_is_not_paused(paused):
    assert paused.run("upload", str(paused.photos / "b.jpg"), "--folder", PHOTOS).code == 0
    assert len(paused.sandbox.assets()) == 2


def test_resume_releases_no_pause(paused):
    assert paused.run("resume").code == 2
    assert paused.run("status", "--json").only["pauses"] != []
    assert paused.run("resume", "--pause", ".", "--json").only["detail"] == "1 pause ended: the whole site"
    assert paused.run("resume", "--pause").code == 2


def test_holder_of_the_ledger_pauses(site):
    site.write("a.jpg")
    site.run("reconcile")
    with Holder(site):
        result = site.run("pause", "--until", "23:59", "--folder", str(site.photos), "--json")
    assert (result.code, result.only["done"], result.only["request"]) == (0, True, 1)
    (pause,) = site.run("status", "--json").only["pauses"]
    assert (pause["path"], pause["until"] is not None) == ("photos", True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--for", "2h", "--until", "18:00"), "--for and --until are both an end"),
        (("--for", "soon"), "write a number and its unit"),
        (("--for", "0s"), "it must be longer than 0"),
        (("--until", "25:00"), "write a local time such as 18:00"),
        (("--until", "2020-01-01 12:00"), "it is over already"),
        (("--folder", "nowhere"), "no entry of `folders` covers nowhere"),
        (("--folder", "/"), "names no file below the root"),
        (("--why", "x" * 201), "--why is longer than 200 characters"),
    ],
)
def test_mistake_pauses_nothing(site, options, message):
    site.run("reconcile")
    result = site.run("pause", *options)
    assert (result.code, message in result.err) == (2, True)
    assert site.run("status", "--json").only["pauses"] == []


def test_pause_needs_a_ledger(site):
    assert site.run("pause").code == 2


def test_until_takes_a_date(site):
    site.run("reconcile")
    tomorrow = datetime.now().astimezone() + timedelta(days=1)
    site.run("pause", "--until", f"{tomorrow:%Y-%m-%d %H:%M}")
    (pause,) = site.run("status", "--json").only["pauses"]
    assert abs(datetime.fromisoformat(pause["until"]) - tomorrow) < timedelta(minutes=1)
