"""The folders of the service against the ledger, as a person asks for it."""

import sqlite3
from contextlib import closing

import httpx
import pytest

from assetsync.cli import operator
from assetsync.ledger.file.database import is_held
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import PAPERS, PHOTOS


@pytest.fixture
def mirrored(site):
    for name in ("a.txt", "b.txt", "c.txt"):
        site.write(name, name.encode() * 5)
    assert site.run("reconcile").code == 0
    return site


def ids(site):
    return {asset.filename: asset.id for asset in site.sandbox.assets()}


def test_unchanged_service_has_no_difference(mirrored):
    result = mirrored.run("audit")
    assert (result.code, result.out.splitlines()[-1]) == (0, "hq: nothing differs")
    folder, audited = mirrored.run("audit", "--json").objects, mirrored.run("audit", "--last", "--json").objects
    assert (folder[0]["current"], audited[0]["current"]) == (True, False)
    assert folder[0] | {"audited_at": "", "current": None} == audited[0] | {"audited_at": "", "current": None}
    assert {name: value for name, value in audited[0].items() if name != "audited_at" and value} == {
        "destfolderid": PHOTOS, "folder": PHOTOS, "assets": 3, "fine": 3,
    }  # fmt: skip


def test_audit_lists_all_kinds_of_difference(mirrored):
    """Make a missing, a doubled and an unknown asset; JSON and text name each with its id and its path."""
    lost = ids(mirrored)["a.txt"]
    with mirrored.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets WHERE id = ?", (lost,))
    twice = mirrored.upload_unseen(mirrored.photos / "b.txt")
    (mirrored.folder / "stranger.txt").write_text("nobody's")
    other = mirrored.upload_unseen(mirrored.folder / "stranger.txt")
    result = mirrored.run("audit", "--json")
    assert result.code == 1
    (folder,), found = result.objects[:1], result.objects[1:]
    assert {name: folder[name] for name in ("missing", "doubled", "unknown", "fine")} == {
        "missing": 1, "doubled": 1, "unknown": 1, "fine": 2,
    }  # fmt: skip
    assert {(one["why"], one["assetid"], one["path"]) for one in found} == {
        ("missing", lost, "photos/a.txt"), ("doubled", twice, "photos/b.txt"), ("unknown", other, None),
    }  # fmt: skip
    assert {one["name"] for one in found} == {None, "b.txt", "stranger.txt"}
    shown = mirrored.run("audit", "--last")
    assert (shown.code, shown.out.splitlines()[-1]) == (1, "hq: 1 doubled, 1 missing, 1 unknown")
    assert "`assetsync retry --reason missing` looks for what is missing; with --send-again it is uploaded" in shown.out
    assert f"unknown    {other}  -  stranger.txt\n" in shown.out


def test_unknown_asset_is_listed_by_name(mirrored):
    (mirrored.folder / "stranger.txt").write_text("nobody's")
    other = mirrored.upload_unseen(mirrored.folder / "stranger.txt")
    mirrored.run("audit")
    assert mirrored.run("orphans").out == f"unknown    {other}  -  stranger.txt\n"
    assert mirrored.run("orphans", "--json").only["name"] == "stranger.txt"


def test_audit_of_older_release_is_shown(mirrored):
    mirrored.run("audit")
    with closing(sqlite3.connect(mirrored.ledger)) as ledger, ledger:
        ledger.execute("UPDATE facts SET value = json_remove(value, '$.history') WHERE name LIKE 'audit%'")
    shown = mirrored.run("audit", "--last")
    assert (shown.code, shown.out.splitlines()[1].split()[-2]) == (0, "-")
    assert mirrored.run("audit", "--last", "--json").objects[0]["history"] is None


def test_audit_reports_number_of_its_brake(site):
    for number in range(30):
        site.write(f"{number}.txt", b"%d" % number)
    site.run("reconcile")
    with site.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets")
    result = site.run("audit")
    assert (result.code, "BRAKED: assetsync resume 1\n" in result.out) == (1, True)
    assert site.run("audit", "--last", "--json").code == 1


def test_braked_audit_lists_missing_assets(site):
    for number in range(29):
        site.write(f"{number}.txt", b"%d" % number)
    site.run("reconcile")
    with site.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets WHERE filename LIKE '1%' OR filename LIKE '2%'")
    assert site.run("audit").out.splitlines()[-1] == "hq: 21 missing, not concluded: a brake waits"
    folder, *listed = site.run("audit", "--last", "--json").objects
    assert (folder["missing"], folder["not_concluded"], {one["why"] for one in listed}) == (0, 21, {"unmet"})
    assert len(listed) == 21
    assert "unmet " in site.run("audit", "--last").out
    site.run("resume")
    assert site.run("audit", "--last").out.splitlines()[-1] == "hq: 21 missing, not concluded: the next audit decides"


def test_missing_asset_is_reported_as_queued(mirrored):
    mirrored.configure(more="policy: {on_remote_missing: upload}")
    lost = ids(mirrored)["a.txt"]
    with mirrored.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets WHERE id = ?", (lost,))
    result = mirrored.run("audit")
    assert (result.code, result.out.splitlines()[-1]) == (1, "hq: 1 missing, queued again")
    assert mirrored.run("audit", "--last", "--json").code == 1
    assert mirrored.run("reconcile").code == 0
    shown = mirrored.run("audit", "--last")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "hq: 1 missing when audited, none now")


def test_released_audit_brake_owes_an_audit(site):
    """Each command names what is to be done next, until a run has made the audit."""
    for number in range(30):
        site.write(f"{number}.txt", b"%d" % number)
    site.run("reconcile")
    with site.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets")
    site.run("audit")
    assert "assetsync reconcile" in site.run("resume").out
    shown = site.run("audit", "--last")
    assert (shown.code, "BRAKED, released: audited again by the next run\n" in shown.out) == (1, True)
    lines = site.run("status").out.splitlines()
    assert lines[0] == "hq: No process is running: 30 of 30 verified, 1 folder to be audited."
    assert (
        f"audit pending: many assets are missing in folder {PHOTOS} of the service, and its brake was released" in lines
    )
    assert site.run("reconcile").code == 1
    assert site.run("status").out.startswith("hq: 0 of 30 verified, 30 need you.\n")
    assert site.run("audit", "--last").out.splitlines()[-1] == "hq: 30 missing"


def test_last_audit_needs_no_service(mirrored):
    mirrored.nowhere()
    shown = mirrored.run("audit", "--last")
    assert (shown.code, shown.out.splitlines()[-1]) == (1, "hq: not audited yet: 1 of 1 folder")
    assert mirrored.run("audit", "--last", "--json").code == 1
    result = mirrored.run("audit")
    assert (result.code, result.out) == (3, "")


def test_beside_a_daemon_the_daemon_audits(mirrored, eventually, monkeypatch):
    monkeypatch.setattr(operator, "PATIENCE", 60.0)
    mirrored.start("run")
    eventually(lambda: is_held(mirrored.ledger))
    for _ in range(2):
        result = mirrored.run("audit")
        assert (result.code, result.err) == (0, "")
        assert result.out.splitlines()[-1] == "hq: nothing differs"


def test_slow_daemon_audit_is_not_waited_for(mirrored, eventually, monkeypatch):
    monkeypatch.setattr(operator, "PATIENCE", 0.0)
    mirrored.start("run")
    eventually(lambda: is_held(mirrored.ledger))
    # So long that the daemon has not audited by the time the command looks.
    mirrored.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, operation=Operation.SEARCH, seconds=3))
    result = mirrored.run("audit")
    mirrored.sandbox.set_faults()
    assert (result.code, "the next `run`, audits" in result.err) == (1, True)
    *_, closing_line, not_now = result.out.splitlines()
    assert closing_line == "hq: not audited yet: 1 of 1 folder"
    assert not_now.startswith("hq: not audited now: the process that holds the ledger has not done it within 5 s")
    assert not_now.endswith("; nothing is shown, as there was no audit before")
    eventually(lambda: mirrored.run("audit", "--last", "--json").objects[0]["fine"] == 3)
    assert mirrored.run("audit", "--last").code == 0


def test_blocked_audit_exits_with_the_reason(mirrored, eventually, monkeypatch):
    assert mirrored.run("audit").code == 0
    before = mirrored.run("audit", "--last", "--json").only["audited_at"]
    mirrored.sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    mirrored.write("d.txt")
    mirrored.start("run")
    eventually(lambda: (mirrored.run("status", "--json").only["paused"] or {}).get("reason") == "key_refused")
    monkeypatch.setattr(operator, "PATIENCE", 0.5)
    result = mirrored.run("audit")
    shown = f"hq: not audited now: the service refuses the API key; the audits shown are from {before}"
    assert (result.code, result.out.splitlines()[-1]) == (3, shown)
    result = mirrored.run("audit", "--json")
    assert (result.code, result.objects[0]["current"], result.objects[0]["audited_at"]) == (3, False, before)


def test_audit_without_ledger_is_exit_2(site):
    assert site.run("audit").code == 2
    assert "site.db" not in site.left_behind()


def test_unanswered_folder_spares_other_audits(mirrored):
    text = mirrored.config.read_text()
    more = f'folders: [{{path: papers, destfolderid: "{PAPERS}"}}, '
    mirrored.config.write_text(text.replace("folders: [", more))
    first, second = sorted([PAPERS, PHOTOS])
    # A search that fails is repeated twice at once.
    mirrored.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH, times=3))
    result = mirrored.run("audit")
    assert (result.code, result.out) == (3, "")
    assert f"folder {first} could not be audited; `audit --last` shows the others" in result.err
    audited = {
        said["folder"]: said["audited_at"] is not None for said in mirrored.run("audit", "--last", "--json").objects
    }
    assert audited == {first: False, second: True}


def test_moved_asset_is_drift_until_settled(mirrored):
    with mirrored.sandbox._stored._transaction() as service:
        service.execute("UPDATE assets SET folder_id = ? WHERE id = ?", (PAPERS, ids(mirrored)["a.txt"]))
    result = mirrored.run("audit")
    assert (result.code, result.out.splitlines()[-1]) == (1, "hq: 1 elsewhere")
    moved = f"photos/a.txt: it lies in another folder of the service: {PAPERS}"
    assert f"metadata drift: {moved}\n" in mirrored.run("status").out
    assert f"{moved}\n" in mirrored.run("drift list").out
    assert mirrored.run("drift settle", "photos/a.txt").out == "1 settled\n"
    assert mirrored.run("audit", "--last").out.splitlines()[-1] == "hq: 1 elsewhere (as agreed)"
    assert mirrored.run("audit").out.splitlines()[-1] == "hq: nothing differs"
    assert "drift" not in mirrored.run("status").out
    assert mirrored.run("reconcile").code == 0
    assert len(mirrored.sandbox.assets()) == 3


def test_unprocessed_asset_is_listed_until_sent_again(site):
    """The audit names the command; after it the old asset is an orphan."""
    # With the default, the index may be behind for a minute: until then nothing else is asked for the asset.
    site.configure(more="policy: {unprocessed_after: 200ms}\nschedule: {verify: 100ms, index: 1s}")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.NEVER_PROCESSED, operation=Operation.UPLOAD, times=1))
    site.write("a.txt", b"stuck")
    assert site.run("reconcile").code == 1
    stuck = ids(site)["a.txt"]
    shown = site.run("audit")
    assert (shown.code, shown.out.splitlines()[-1]) == (1, "hq: 1 never_processed")
    assert "`assetsync retry --send-again --reason never_processed` uploads what was never processed" in shown.out
    folder, found = site.run("audit", "--last", "--json").objects
    assert (folder["never_processed"], folder["fine"], found["reason"]) == (1, 0, "never_processed")
    assert (found["path"], found["assetid"]) == ("photos/a.txt", stuck)
    assert stuck not in site.run("orphans").out
    assert site.run("retry", "--send-again", "--reason", "never_processed").code == 0
    assert site.run("reconcile").code == 0
    assert stuck in site.run("orphans").out
    assert (site.run("audit").code, len(site.sandbox.assets())) == (0, 2)


def test_new_version_in_the_service_is_named(mirrored):
    asset, assets = ids(mirrored)["a.txt"], f"{mirrored.sandbox.address}/_sandbox/assets"
    assert httpx.post(assets, json={"id": asset, "version": "retouched"}).status_code == 200
    result = mirrored.run("audit")
    assert result.code == 1
    assert f"the asset {asset} has a new version in the service" in " ".join(result.out.split())
