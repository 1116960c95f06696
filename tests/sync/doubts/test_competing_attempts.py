"""What another upload may have made or left is nobody's proof, and what it cannot have is."""

import os
from dataclasses import replace

import pytest

from assetsync.ledger.doubts import CompetingAttempt
from assetsync.ledger.rows import AttemptRow
from assetsync.model import Asset, State
from assetsync.sync.doubts.candidates import claims
from tests.sync.conftest import lose
from tests.sync.doubts.test_resolver import VERIFIED, two_in_doubt, whys

M1, M2, PART = (letter * 32 for letter in "12A")


def attempt(**said) -> AttemptRow:
    values = dict.fromkeys(AttemptRow._fields) | {
        "id": 5, "destfolderid": "F", "sent_name": "日.txt", "size": 100, "md5": M1,
    }  # fmt: skip
    return AttemptRow(**values | said)


ABSENT = CompetingAttempt(3, "F", "月.txt", 200, M2, in_flight=False, refused=False, waived=True)
OPEN = replace(ABSENT, waived=False)
CUT = Asset("X", "F", "?.txt", 30, PART, "doc")
WHOLE = Asset("X", "F", "?.txt", 200, M2, "doc")


@pytest.mark.parametrize(
    ("why", "rival", "asset", "seen_to", "claimed"),
    [
        ("it may have been cut there", OPEN, CUT, 5, True),
        ("it may have been cut there, and be shown late", ABSENT, CUT, 5, True),
        ("it made nothing", replace(OPEN, refused=True), CUT, 5, False),
        ("it began after the asset had been seen", replace(OPEN, attempt_id=6), CUT, 5, False),
        ("a person may have moved it from there", replace(ABSENT, folder_id="G"), CUT, 5, True),
        ("the folder is not told", ABSENT, replace(CUT, folder_id=""), 5, True),
        ("its name does not come back so", replace(ABSENT, sent_name="report.pdf"), CUT, 5, False),
        ("of a whole one it is no part", replace(ABSENT, size=100), replace(CUT, size=100, md5=M1), 5, False),
        ("without a size it is known for no part", OPEN, replace(CUT, size=None), 5, False),
        ("it may have made it whole", OPEN, WHOLE, 5, True),
        ("one that is over made nothing whole", replace(ABSENT, sent_name="report.pdf"), WHOLE, 5, False),
    ],
)
def test_possible_result_of_rival_is_claimed(why, rival, asset, seen_to, claimed):
    assert claims(rival, asset, seen_to, attempt(), {}) is claimed, why


EQUAL = CompetingAttempt(3, "F", "月.txt", 100, M1, in_flight=False, refused=False)
ITS_COPY = Asset("X", "F", "?.txt", 100, M1, "doc")


@pytest.mark.parametrize(
    ("why", "rival", "left", "asset", "claimed"),
    [
        ("only this one was cut", EQUAL, "part", ITS_COPY, True),
        ("both may have made it", EQUAL, "all", ITS_COPY, False),
        ("it is not known how much of this one left", EQUAL, None, ITS_COPY, False),
        ("both were cut", replace(EQUAL, cut=True), "part", ITS_COPY, False),
        ("the asset has the name of this one", EQUAL, "part", replace(ITS_COPY, filename="日.txt"), False),
        ("a person is asked about the other", replace(EQUAL, asked=True), "part", ITS_COPY, False),
        ("the other is over", replace(EQUAL, waived=True), "part", ITS_COPY, False),
        ("the content differs", replace(EQUAL, md5=M2), "part", ITS_COPY, False),
    ],
)
def test_cut_upload_leaves_asset_to_equal_rival(why, rival, left, asset, claimed):
    assert claims(rival, asset, 5, attempt(left_part=left), {}) is claimed, why


def equal_in_doubt(world, first: object, second: object) -> None:
    """Lose two uploads of equal content, the first of a file with a sidecar."""
    world.write("日.txt.yaml", b"description: first")
    lose(world, first, content=b"bytes", path="日.txt")
    world.restart()
    lose(world, second, content=b"bytes", path="月.txt")


def test_equal_doubts_keep_their_own_metadata(world):
    """The first upload was cut, so that the whole asset is the second one's: its metadata is that of the second."""
    equal_in_doubt(world, ("cut", 3), "lost_after")
    for asset in world.service.assets.values():
        asset.name = "?.txt"
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    told = {path: dict(world.service.assets[world.row(path).assetid].meta) for path in ("日.txt", "月.txt")}
    assert told == {"日.txt": {"file_desc": "first"}, "月.txt": {}}
    assert (len(world.service.posts), whys(world)) == (3, [("byt", "damaged")])


def test_cut_upload_may_have_stored_all(world):
    """The cut came after the last byte of the file: its name shows whose the asset is."""
    equal_in_doubt(world, ("cut", 5), "lost_before")
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    assert (len(world.service.posts), whys(world)) == (3, [])


@pytest.mark.parametrize(("beginning", "claimed"), [(PART, True), (M2, False)])
def test_known_beginning_identifies_attempt(beginning, claimed):
    assert claims(OPEN, CUT, 5, attempt(), {30: beginning}) is claimed
    assert claims(OPEN, CUT, 5, attempt(), {31: M2})


@pytest.mark.parametrize("early", range(12, 18))
def test_leftover_of_absent_rival_is_no_proof(world, clock, early):
    """A cut asset of an earlier attempt is shown before the whole one: the doubt is not decided by it."""
    lose(world, ("cut", 3), content=b"bytes", path="月.txt")
    (cut,) = world.service.assets.values()
    cut.name = "?.txt"
    world.service.assets.clear()
    world.restart()
    world.live(early)
    world.site.gates.checked()
    began = clock.steady()
    lose(world, "lost_after", content=b"bytes and more", path="日.txt")
    (whole,) = world.service.assets.values()
    whole.name = "?.txt"
    world.service.assets = {cut.id: cut}
    # Shown late, and within the grace all the same.
    world.live(18 - (clock.steady() - began))
    world.service.assets[whole.id] = whole
    world.live(120)
    assert world.service.contents.count(b"bytes and more") == 1
    assert set(world.states().values()) == {VERIFIED}


@pytest.mark.parametrize("word", ["resolve_as_absent", "send_again"])
def test_leftover_of_ended_rival_is_no_proof(world, clock, word):
    left = two_in_doubt(world, ("cut", 3), b"bytes and more", "lost_after")
    (other,) = set(world.service.assets) - {left}
    hidden = world.service.assets.pop(other)
    world.live(2)
    getattr(world.ledger.decisions, word)(world.row("月.txt"), clock.now())
    world.live(5)
    world.service.assets[other] = hidden
    world.live(120)
    assert world.service.contents.count(b"bytes and more") == 1
    assert whys(world) == [("byt", "suspected")]


def test_digests_separate_alike_names(world, monkeypatch):
    shown = world.service._shown
    monkeypatch.setattr(world.service, "_shown", lambda asset: replace(shown(asset), size=None))
    lose(world, "lost_after", content=b"one", path="月.txt")
    world.restart()
    lose(world, "lost_after", content=b"two!", path="日.txt")
    for asset in world.service.assets.values():
        asset.name = "?.txt"
    world.live(120)
    assert set(world.states().values()) == {VERIFIED}
    assert len(world.service.posts) == 2


def test_old_doubt_waits_for_new_processing(world, clock):
    lose(world, ("cut", 3), content=b"bytes", path="日.txt")
    world.close()
    clock.advance(25 * 3600)
    world.restart()
    world.service.processing = 30
    world.service.put(b"zzz", "report of somebody.txt")
    world.live(5)
    assert (world.states(), whys(world)) == ({"日.txt": State.IN_DOUBT}, [("byt", "suspected")])
    world.live(300)
    assert (world.states(), whys(world)) == ({"日.txt": VERIFIED}, [("byt", "damaged")])


def test_cut_beside_stuck_asset_is_resent(world, clock):
    lose(world, ("cut", 3), content=b"bytes", path="日.txt")
    world.service.processing = 1e9
    world.service.put(b"zzz", "report of somebody.txt")
    world.service.processing = 0
    world.live(60)
    assert whys(world) == [("byt", "suspected")]
    clock.advance(24 * 3600)
    world.live(120, tick=5)
    assert (world.states(), whys(world)) == ({"日.txt": VERIFIED}, [("byt", "damaged")])


def test_backdated_rewrite_is_no_proof(world):
    left = two_in_doubt(world, ("cut", 3), b"bytes and more", "lost_after")
    (other,) = set(world.service.assets) - {left}
    hidden = world.service.assets.pop(other)
    file = world.root / "月.txt"
    at = file.stat()
    world.write("月.txt", b"other")

    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    world.live(8)
    world.service.assets[other] = hidden
    world.live(120)
    assert world.service.contents.count(b"bytes and more") == 1
