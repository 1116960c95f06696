"""Two sites that would send the same files to the same folder of the service: the second waits for a person."""

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from assetsync.errors import RootElsewhere
from assetsync.flow.twins import make_claim, twins_of
from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.neighbours import CLAIM, Claim, neighbours, read_claim
from assetsync.model import State

ADDRESS = "http://127.0.0.1:1/dam"
WEEK = 7 * 24 * 3600.0


@pytest.fixture
def first(make_world):
    """A site that has mirrored its one file."""
    world = make_world(site="hq")
    world.write("a.jpg")
    world.scan()
    world.live(5)
    world.clock.advance(100)
    return world


@pytest.fixture
def make_second(make_world, first):
    """Make the site of a configuration that was copied from the first one's, with its own name and ledger alone."""

    def make(**said):
        second = make_world(first.base, site="oslo", ledger=str(first.base / "oslo.db"), **said)
        second.service = first.service
        return second

    return make


def brakes(world) -> list[str]:
    return [brake.kind for brake in world.ledger.reports.brakes()]


def go_on(world) -> None:
    try:
        world.scan()
    except RootElsewhere:
        return
    world.live(5)


def test_the_second_looks_at_nothing_and_says_whose_the_files_are(first, make_second):
    second = make_second()
    with pytest.raises(RootElsewhere, match=r"the site `hq` \(ledger .*ledger.db\) sends .*/root to folder F1, too"):
        second.scan()
    assert brakes(second) == ["twin"]
    assert second.states() == {}


def test_the_first_goes_on(first, make_second):
    go_on(make_second())
    first.write("b.jpg", b"more")
    go_on(first)
    assert brakes(first) == []
    assert first.posted() == ["a.jpg", "b.jpg"]


def test_a_configuration_that_is_put_right_goes_on_by_itself(first, make_second, tmp_path):
    second = make_second()
    go_on(second)
    (tmp_path / "oslo").mkdir()
    (tmp_path / "oslo" / "c.jpg").write_bytes(b"of oslo")
    second.restart(root=str(tmp_path / "oslo"), folders=[{"path": ".", "destfolderid": "F2"}])
    go_on(second)
    assert brakes(second) == []
    assert second.states() == {"c.jpg": State.VERIFIED}


def test_what_a_person_has_agreed_to_is_not_asked_again(first, make_second):
    second = make_second()
    go_on(second)
    second.ledger.resume(None, second.clock.now())
    for _ in range(2):
        go_on(second)
        second.clock.advance(2 * WEEK)
    assert brakes(second) == []
    assert second.states() == {"a.jpg": State.VERIFIED}


def test_a_word_on_one_twin_does_not_hold_for_the_next(first, make_second, make_world):
    second = make_second()
    go_on(second)
    second.ledger.resume(None, second.clock.now())
    go_on(second)
    third = make_world(first.base, site="bergen", ledger=str(first.base / "bergen.db"))
    third.ledger.set_fact(CLAIM, claim_of(first).text())
    go_on(second)
    assert brakes(second) == ["twin"]


def test_a_twin_that_was_agreed_to_is_asked_about_when_it_comes_back(first, make_second):
    second = make_second()
    go_on(second)
    second.ledger.resume(None, second.clock.now())
    go_on(second)
    claim = claim_of(first)
    first.ledger.set_fact(CLAIM, None)
    go_on(second)
    first.ledger.set_fact(CLAIM, claim.text())
    go_on(second)
    assert brakes(second) == ["twin"]


def test_a_site_whose_ledger_was_removed_is_no_more(first, make_second):
    second = make_second()
    go_on(second)
    first.close()
    for path in first.base.glob("ledger.db*"):
        path.unlink()
    go_on(second)
    assert brakes(second) == []
    assert second.states() == {"a.jpg": State.VERIFIED}


def test_who_maps_a_folder_later_is_the_second_however_old_its_ledger_is(first, make_second):
    second = make_second(folders=[{"path": "photos", "destfolderid": "F2"}])
    second.write("photos/p.jpg", b"a picture")
    go_on(second)
    first.clock.advance(100)
    first.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "photos", "destfolderid": "F2"}])
    go_on(first)
    assert brakes(first) == ["twin"]
    go_on(second)
    assert brakes(second) == []


def test_of_two_that_begin_at_the_same_moment_neither_sends(make_world):
    one = make_world(site="hq")
    one.write("a.jpg")
    other = make_world(one.base, site="oslo", ledger=str(one.base / "oslo.db"))
    one.site.place.check()
    for world in (other, one):
        with pytest.raises(RootElsewhere):
            world.site.place.check()


def test_a_mistaken_root_of_one_site_does_not_stop_the_other(first, make_second, tmp_path):
    (tmp_path / "oslo").mkdir()
    (tmp_path / "oslo" / "c.jpg").write_bytes(b"of oslo")
    second = make_second(root=str(tmp_path / "oslo"))
    go_on(second)
    first.clock.advance(100)
    first.restart(root=str(tmp_path / "oslo"))
    go_on(first)
    assert brakes(first) == ["root"]
    go_on(second)
    assert brakes(second) == []


def test_a_look_alone_writes_nothing(first, make_second):
    second = make_second()
    with pytest.raises(RootElsewhere):
        second.site.place.expect()
    assert brakes(second) == []
    assert second.ledger.reports.fact(CLAIM) is None


def claim_of(world) -> Claim:
    claim = read_claim(world.ledger.reports.fact(CLAIM))
    assert claim is not None
    return claim


def test_a_claim_keeps_its_time_and_what_is_claimed_anew_has_its_own(first):
    before = claim_of(first)
    first.restart(folders=[{"path": ".", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}])
    first.scan()
    after = claim_of(first)
    assert (after.since[b""], after.since[b"b"]) == (before.since[b""], first.clock.now())
    first.restart(folders=[{"path": ".", "destfolderid": "F3"}])
    first.scan()
    assert claim_of(first).since == {b"": first.clock.now()}


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ({b"": "F"}, {b"": "F"}, [b""]),
        ({b"": "F"}, {b"": "G"}, []),
        ({b"": "F"}, {b"photos": "F"}, [b"photos"]),
        ({b"photos": "F"}, {b"": "F"}, [b"photos"]),
        ({b"photos": "F"}, {b"photos2": "F"}, []),
        ({b"photos": "F"}, {b"": "F", b"photos": "G"}, []),
        ({b"": "F", b"photos": "G"}, {b"photos": "F"}, []),
        ({b"": "F", b"photos/old": "G"}, {b"photos": "F"}, [b"photos"]),
        ({b"a": "F", b"b": "F"}, {b"a": "F", b"b": "F"}, [b"a", b"b"]),
    ],
)
def test_what_both_send_to_one_folder_is_found(first, make_second, ours, theirs, both):
    first.ledger.set_fact(CLAIM, make_claim(b"/srv/media", ADDRESS, theirs, now=1.0).text())
    claim = make_claim(b"/srv/media", ADDRESS, ours, now=1000.0)
    second = make_second().ledger_path
    found = [twin.folder for twin in twins_of(claim, second, "oslo")]
    assert found == [b"/srv/media/" + folder if folder else b"/srv/media" for folder in both]


@pytest.mark.parametrize(
    ("theirs", "is_twin"),
    [
        (Claim(b"/srv/media", ADDRESS, {b"photos": "F"}), True),
        (Claim(b"/srv", ADDRESS, {b"media/photos": "F"}), True),
        (Claim(b"/", ADDRESS, {b"": "F"}), True),
        (Claim(b"/srv/media", ADDRESS + "2", {b"photos": "F"}), False),
        (Claim(b"/srv/other", ADDRESS, {b"photos": "F"}), False),
    ],
)
def test_it_is_the_same_files_at_the_same_service_that_count(first, make_second, theirs, is_twin):
    first.ledger.set_fact(CLAIM, theirs.text())
    claim = make_claim(b"/srv/media", ADDRESS, {b"photos": "F"}, now=1000.0)
    assert bool(list(twins_of(claim, make_second().ledger_path, "oslo"))) is is_twin


def test_a_root_that_is_named_through_a_link_is_the_same(first, make_second, tmp_path):
    (tmp_path / "link").symlink_to(first.root)
    second = make_second(root=str(tmp_path / "link"))
    go_on(second)
    assert brakes(second) == ["twin"]


@pytest.mark.parametrize("claim", [None, "", "[]", "no json", '{"root": "zz"}', '{"root": "", "folders": {}}'])
def test_a_ledger_without_a_sound_claim_is_nobodys_twin(first, make_second, claim):
    first.ledger.set_fact(CLAIM, claim)
    second = make_second()
    go_on(second)
    assert brakes(second) == []


def test_a_copy_of_a_ledger_is_no_other_site_unless_a_process_sends_for_it(first):
    copy = first.base / "copy.db"
    first.close()
    for suffix in ("", ".epoch"):
        shutil.copyfile(f"{first.ledger_path}{suffix}", f"{copy}{suffix}")
    go_on(first)
    assert brakes(first) == []
    with closing(open_ledger(copy)):
        go_on(first)
    assert brakes(first) == ["twin"]


def test_what_is_no_ledger_is_left_out(first, make_second):
    for name, content in (("text.db", b"no ledger"), ("empty.db", b"")):
        (first.base / name).write_bytes(content)
        (first.base / f"{name}.epoch").write_text("1")
    (first.base / "gone.db.epoch").write_text("1")
    (first.base / "folder.db").mkdir()
    (first.base / "folder.db.epoch").write_text("1")
    found = list(neighbours(make_second().ledger_path, "oslo"))
    assert [(neighbour.ledger.name, neighbour.site) for neighbour in found] == [("ledger.db", "hq")]
    assert found[0].claim == replace(claim_of(first), root=str(first.root).encode())
    assert sorted(path.name for path in first.base.glob("*.db-*")) == ["ledger.db-shm", "ledger.db-wal"]
