"""A service that holds more than the ledger says: filled by hand, or by a ledger that was lost, put back or damaged.

Whatever the ledger forgot, nothing is stored twice, and the assets that nobody needs are told apart.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.ledger.ledger import open_ledger
from assetsync.model import State
from tests.locks import small_disk, snapshot

from .conftest import Exchange, Place

NAMES = tuple(f"photos/{number}.jpg" for number in range(12))


def fill(place: Place, names=NAMES) -> None:
    for number, name in enumerate(names):
        if not (place.tree / name).exists():
            # Some of one size: the digest has to tell them apart.
            place.write(name, f"content {number:04}".encode() * (1 + number % 3))


def expect_one_of_each(place: Place, names=NAMES) -> None:
    assert place.states() == dict.fromkeys(names, State.VERIFIED)
    assert place.copies() == dict.fromkeys(names, 1)
    assert place.orphans() == []


def by_hand(place: Place) -> Place:
    """Another tree beside the same service, for what a person puts there."""
    return Place(place.folder.parent / f"{place.folder.name}-by-hand", place.sandbox)


def test_hand_filled_folder_is_adopted(place):
    hands = by_hand(place)
    fill(place)
    for number, name in enumerate(NAMES[:9]):
        hands.write(f"picture {number}.jpg", (place.tree / name).read_bytes())
    assert hands.reconcile().in_sync
    report = place.reconcile()
    assert (report.in_sync, report.adopted, report.uploaded) == (True, 9, 3)
    expect_one_of_each(place)


@pytest.mark.parametrize("lost", [("",), ("", ".epoch")], ids=["the_ledger", "the_ledger_and_its_number"])
def test_lost_ledger_is_rebuilt_unsent(place, lost):
    fill(place)
    assert place.reconcile().in_sync
    for ending in lost:
        Path(f"{place.ledger}{ending}").unlink()
    report = place.reconcile()
    assert (report.in_sync, report.adopted, report.uploaded) == (True, len(NAMES), 0)
    expect_one_of_each(place)


@pytest.mark.parametrize("dialect", ["observed", "documented"])
def test_lost_ledger_without_md5_doubles_no_name(make_place, dialect):
    place = make_place(md5=False, latin1=True, dialect=dialect)
    names = ("photos/東京 1.jpg", "photos/東京 2.jpg", "photos/日.jpg", "photos/月.jpg")
    for name in names:
        place.write(name, name.encode().ljust(40))
    assert place.reconcile().in_sync
    place.ledger.unlink()
    report = place.reconcile(wait=0)
    assert (report.uploaded, report.blocked) == (0, len(names))
    # Of the first two each fits one asset; the other two have names that come back alike, and one size.
    report = place.reconcile(adopt=True)
    assert (report.uploaded, report.adopted, report.blocked) == (0, 2, 2)
    for name in names[2:]:
        asset = asset_of(place, (place.tree / name).read_bytes())
        place.command("doubt resolve", name, "--asset", asset)
    assert place.reconcile().in_sync
    expect_one_of_each(place, names)


def test_renamed_upload_without_answer_is_not_sent_again(make_place, make_front):
    place = make_place(md5=False, renames=True)
    front = make_front(place)
    place.write("a.bin", b"the file of the doubt")
    front.uploads.append(lost_by(lambda body: body))
    report = place.reconcile()
    assert (report.blocked, place.copies()) == (1, {"a.bin": 1})
    (doubt,) = [place.command("doubt list", "--json")]
    (asset,) = place.sandbox.assets()
    assert (doubt["state"], asset.id in doubt["detail"]) == ("blocked", True)
    place.command("doubt resolve", "a.bin", "--asset", asset.id)
    assert place.reconcile().in_sync
    expect_one_of_each(place, ("a.bin",))


def test_folded_blanks_do_not_hide_a_lost_upload(make_place, make_front):
    place = make_place(md5=False, folds_blanks=True)
    front = make_front(place)
    place.write("a  b.bin", b"the file of the doubt")
    front.uploads.append(lost_by(lambda body: body))
    report = place.reconcile()
    assert (report.in_sync, place.copies()) == (True, {"a  b.bin": 1})


def test_rebuilt_ledger_waits_for_processing(make_place):
    place = make_place(processing_delay=2.0)
    fill(place)
    assert place.reconcile(wait=0).uploaded == len(NAMES)
    place.ledger.unlink()
    report = place.reconcile()
    assert (report.in_sync, report.adopted, report.uploaded) == (True, len(NAMES), 0)
    expect_one_of_each(place)


def test_adopt_takes_assets_added_later(place):
    fill(place, NAMES[:3])
    assert place.reconcile().in_sync
    fill(place)
    hands = by_hand(place)
    fill(hands, NAMES)
    for name in NAMES[:3]:
        (hands.tree / name).unlink()
    assert hands.reconcile().uploaded == 9
    report = place.reconcile(adopt=True)
    assert (report.in_sync, report.adopted, report.uploaded) == (True, 9, 0)
    expect_one_of_each(place)


def _online(place: Place, kept: Path) -> None:
    """As `sqlite3 .backup` and Litestream do."""
    with closing(sqlite3.connect(place.ledger)) as source, closing(sqlite3.connect(kept / "site.db")) as copy:
        source.backup(copy)


def _files(*endings: str) -> Callable[[Place, Path], None]:
    def copy(place: Place, kept: Path) -> None:
        for ending in endings:
            found = Path(f"{place.ledger}{ending}")
            if found.exists():
                shutil.copy2(found, kept / found.name)

    return copy


def put_back(place: Place, kept: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{place.ledger}{ending}").unlink(missing_ok=True)
    for found in kept.iterdir():
        # Over what is there, as `cp` does: the file keeps its inode.
        shutil.copy2(found, place.folder / found.name)


BACKUPS = {
    "online": _online,
    "the_file_alone": _files(""),
    "the_file_and_its_log": _files("", "-wal"),
    "everything": _files("", "-wal", ".epoch"),
}


@pytest.mark.parametrize("copy", BACKUPS.values(), ids=BACKUPS)
def test_live_ledger_copy_restored_is_harmless(place, make_front, tmp_path, copy):
    front = make_front(place)
    kept = tmp_path / "kept"
    kept.mkdir()
    fill(place)

    def with_a_backup(exchange: Exchange) -> None:
        copy(place, kept)
        exchange.conn.sendall(exchange.pass_on())

    front.uploads.extend([lambda exchange: exchange.conn.sendall(exchange.pass_on())] * 4)
    front.uploads.append(with_a_backup)
    assert place.reconcile().uploaded == len(NAMES)
    put_back(place, kept)
    report = place.reconcile()
    assert (report.in_sync, front.seen.count("upload")) == (True, len(NAMES))
    expect_one_of_each(place)


@pytest.mark.parametrize("copy", BACKUPS.values(), ids=BACKUPS)
@pytest.mark.parametrize("restarts", [0, 3])
def test_idle_ledger_copy_restored_is_harmless(place, tmp_path, copy, restarts):
    kept = tmp_path / "kept"
    kept.mkdir()
    fill(place, NAMES[:4])
    assert place.reconcile().in_sync
    copy(place, kept)
    fill(place)
    assert place.reconcile().in_sync
    for _ in range(restarts):
        place.reconcile(wait=0)
    put_back(place, kept)
    report = place.reconcile()
    assert (report.in_sync, report.uploaded, report.adopted) == (True, 0, 8)
    expect_one_of_each(place)


@pytest.mark.parametrize("copy", BACKUPS.values(), ids=BACKUPS)
def test_restored_copy_sends_again_once(place, tmp_path, copy):
    """Copy the ledger with a person's request that is carried out afterwards: two assets, as asked, and no third."""
    kept = tmp_path / "kept"
    kept.mkdir()
    place.write("a.jpg", b"a picture")
    assert place.reconcile().in_sync
    place.command("retry", "a.jpg", "--send-again")
    copy(place, kept)
    assert place.reconcile().uploaded == 1
    assert place.copies() == {"a.jpg": 2}
    put_back(place, kept)
    assert place.reconcile(wait=0).uploaded == 0
    assert (place.copies(), place.states()) == ({"a.jpg": 2}, {"a.jpg": State.BLOCKED})
    place.command("retry", "a.jpg", "--send-again")
    assert place.reconcile().uploaded == 1
    assert (place.copies(), place.states()) == ({"a.jpg": 3}, {"a.jpg": State.VERIFIED})


def test_restored_open_request_sends_nothing_again(place, tmp_path):
    """Copy the ledger with a request that the process which held it had not taken yet."""
    kept = tmp_path / "kept"
    kept.mkdir()
    place.write("a.jpg", b"a picture")
    place.write("b.jpg", b"another picture")
    assert place.reconcile().in_sync
    ledger = open_ledger(place.ledger)
    ledger.add_request("retry", {"paths": [b"a.jpg".hex()], "send_again": True}, 0.0)
    # What sends nothing is carried out.
    harmless = ledger.add_request("retry", {"paths": [b"b.jpg".hex()], "send_again": False}, 0.0)
    ledger.close()
    _online(place, kept)
    assert place.reconcile().uploaded == 1
    put_back(place, kept)
    assert place.reconcile(wait=0).uploaded == 0
    assert place.copies() == {"a.jpg": 2, "b.jpg": 1}
    ledger = place.read()
    assert "verified already" in (ledger.answer_to(harmless) or "")
    ledger.close()


@pytest.fixture(params=["kept", "emptied", "none"])
def outside(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give what a rollback does to the folder outside the disk: nothing, a boot that empties it, or there is none."""
    folder = tmp_path / "run"
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/proc/nowhere" if request.param == "none" else str(folder))
    return (lambda: shutil.rmtree(folder)) if request.param == "emptied" else (lambda: None)


def test_rolled_back_disk_sends_nothing_twice(place, tmp_path, outside):
    """The number beside the ledger is rolled back with it, times and all: only what lies outside the disk is not."""
    with small_disk("ext4", tmp_path / "disk") as disk:
        place.ledger = disk / "site.db"
        place.point(place.sandbox.address)
        fill(place, NAMES[:4])
        assert place.reconcile().in_sync
        roll_back = snapshot(disk)
        fill(place)
        assert place.reconcile().in_sync
        roll_back()
        outside()
        report = place.reconcile()
        assert (report.in_sync, report.uploaded, report.adopted) == (True, 0, 8)
        expect_one_of_each(place)


def test_damaged_ledger_names_the_rebuild(place, make_front):
    """Overwrite pages of the ledger: the error names where it was put and the command that rebuilds it."""
    fill(place)
    assert place.reconcile().in_sync
    with closing(sqlite3.connect(place.ledger)) as conn:
        # As a power cut leaves it: nobody ended it in order.
        conn.execute("DELETE FROM facts WHERE name = 'clean_stop'")
        conn.commit()
    with place.ledger.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(20 * 4096))
    refused = place.call("reconcile", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"`assetsync reconcile --config {place.config} --adopt`" in refused.stderr
    assert "Traceback" not in refused.stderr
    (aside,) = place.folder.glob("site.db.damaged-*[0-9]Z")
    assert str(aside) in refused.stderr
    report = place.command("reconcile", "--adopt", "--json")
    assert (report["in_sync"], report["uploaded"], report["adopted"]) == (True, 0, len(NAMES))
    expect_one_of_each(place)


def lost_by(change: Callable[[bytes], bytes], *, copies: int = 1) -> Callable[[Exchange], None]:
    """Store what a change makes of the file, and give no answer."""

    def script(exchange: Exchange) -> None:
        body = exchange.body()
        exchange.rest = change(body)
        for _ in range(copies):
            exchange.pass_on()

    return script


def test_doubt_leftovers_exclude_live_assets(place, make_front):
    """A cut, a garbled and a doubled upload leave three orphans; none of them is an asset of a file."""
    front = make_front(place)
    contents = {name: os.urandom(150_000) for name in ("cut.bin", "garbled.bin", "twice.bin")}
    for name, content in contents.items():
        place.write(name, content)

    def cut(exchange: Exchange) -> None:
        exchange.pass_on(100_000)

    faults = {
        b"cut.bin": cut,
        b"garbled.bin": lost_by(lambda body: body[:80_000] + b"?" * 10 + body[80_010:]),
        b"twice.bin": lost_by(lambda body: body, copies=2),
    }

    def by_name(exchange: Exchange) -> None:
        # Which of the three is sent first is open.
        begins = exchange.body(4096)
        next(fault for name, fault in faults.items() if b'filename="%b"' % name in begins)(exchange)

    front.uploads.extend([by_name] * 3)
    assert place.reconcile().in_sync
    assert place.copies() == {"cut.bin": 1, "garbled.bin": 1, "twice.bin": 2}
    orphans = place.orphans()
    found = {orphan.assetid: place.sandbox.content(orphan.assetid) for orphan in orphans}
    assert {os.fsdecode(orphan.path or b""): orphan.why for orphan in orphans} == {
        "cut.bin": "damaged", "garbled.bin": "suspected", "twice.bin": "doubled",
    }  # fmt: skip
    ledger = place.read()
    assert not set(found) & {row.assetid for row in ledger.reports.files()}
    ledger.close()
    assert place.strangers() | {orphan.assetid for orphan in orphans if orphan.why == "doubled"} == set(found)


def never_shown(exchange: Exchange) -> None:
    """Answer with an id that no look-up shows."""
    exchange.body()
    said = b"<Response><responsecode>0</responsecode><message>success</message><assetid>%s</assetid></Response>"
    body = said % (b"F" * 32)
    exchange.conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nConnection: close\r\n\r\n" + body)


@pytest.fixture
def undecided(place, make_front) -> Place:
    """A file whose upload a person has to decide, beside one that is verified."""
    place.grace, place.speed = "60s", 200.0
    front = make_front(place)
    place.write("b.bin", b"another file")
    assert place.reconcile().in_sync
    place.write("a.bin", b"the file of the doubt")
    front.uploads.append(never_shown)
    assert place.reconcile(wait=36_000).blocked == 1
    return place


def asset_of(place: Place, content: bytes) -> str:
    (found,) = (asset.id for asset in place.sandbox.assets() if place.sandbox.content(asset.id) == content)
    return found


def test_asset_named_by_person_is_read_back(undecided):
    hands = by_hand(undecided)
    hands.write("scan.bin", b"the file of the doubt")
    assert hands.reconcile().uploaded == 1
    asset = asset_of(undecided, b"the file of the doubt")
    said = undecided.command("doubt list", "--json")
    assert (said["path"], said["state"]) == ("a.bin", "blocked")
    undecided.command("doubt resolve", "a.bin", "--asset", asset)
    report = undecided.reconcile()
    assert (report.in_sync, report.uploaded) == (True, 0)
    expect_one_of_each(undecided, ("a.bin", "b.bin"))
    assert undecided.call("doubt list").stdout == "nothing is in doubt\n"


@pytest.mark.parametrize(
    ("asset", "problem"),
    [(lambda place: "E" * 32, "shows no asset"), (lambda place: asset_of(place, b"another file"), "another file's")],
    ids=["unknown", "another_files"],
)
def test_impossible_asset_is_refused(undecided, asset, problem):
    refused = undecided.call("doubt resolve", "a.bin", "--asset", asset(undecided))
    assert refused.returncode == 2
    assert problem in refused.stderr
    assert undecided.states()["a.bin"] is State.BLOCKED


def test_asset_of_other_content_is_refused(undecided):
    hands = by_hand(undecided)
    hands.write("scan.bin", b"not the file of the doubt")
    assert hands.reconcile().uploaded == 1
    asset = asset_of(undecided, b"not the file of the doubt")
    refused = undecided.call("doubt resolve", "a.bin", "--asset", asset)
    assert (refused.returncode, "is not a.bin: its MD5 in the service is" in refused.stderr) == (2, True)
    assert not undecided.reconcile().in_sync
    assert undecided.states()["a.bin"] is State.BLOCKED
