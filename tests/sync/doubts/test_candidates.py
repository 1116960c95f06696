"""What all folders show for an upload in doubt is told apart by where it lies, and by who else may have left it."""

from dataclasses import replace

import pytest

from assetsync.core import names
from assetsync.errors import BadAnswer
from assetsync.sync.doubts.candidates import Candidates
from tests.sync.conftest import lose


@pytest.fixture
def beside(make_world):
    """Make a world with an upload in doubt into each of the folders F1 and F2, the first of them of `x.jpg`."""
    folders = [{"path": "a", "destfolderid": "F1"}, {"path": "b", "destfolderid": "F2"}]

    def make(name: str = "x.jpg", content: bytes = b"some content"):
        world = make_world(folders=folders)
        lose(world, "lost_before", path="a/x.jpg")
        world.site.gates.checked()
        lose(world, "lost_before", path=f"b/{name}", content=content)
        return world

    return make


def shown(world, folder: str = "F2", *, gives_md5: bool = True, name: str = "x.jpg"):
    world.service.gives_md5 = gives_md5
    return world.service._shown(world.service.put(b"some content", name, folder))


def wider(world, asset) -> str:
    """Say where an asset counts that all folders show for the first upload."""
    doubts = world.ledger.doubts
    candidates = Candidates(world.site.context)
    one = candidates.begin(next(doubt for doubt in doubts.due(world.clock.now() + 60) if doubt.attempt.id == 1))
    candidates.keep_wider([one], [asset])
    here, elsewhere = candidates.wider(one, doubts.newest_attempt())
    return "here" if here else "elsewhere" if elsewhere else "left"


def test_leftover_of_rival_was_not_moved(beside):
    world = beside()
    assert wider(world, shown(world)) == "left"
    assert wider(world, shown(world, "F9")) == "elsewhere"


def test_asset_seen_earlier_is_no_leftover(beside):
    world = beside()
    asset = shown(world)
    world.ledger.assets.record([asset], 1, world.clock.now())
    assert wider(world, asset) == "elsewhere"


def test_asset_seen_meanwhile_may_be_leftover(beside):
    world = beside()
    asset = shown(world)
    world.ledger.assets.record([asset], 2, world.clock.now())
    assert wider(world, asset) == "left"


def test_other_content_leaves_no_equal_asset(beside):
    world = beside(content=b"other things")
    assert wider(world, shown(world)) == "elsewhere"
    assert wider(world, shown(world, gives_md5=False)) == "left"


def test_unhashed_upload_leaves_only_its_size(beside):
    """If its beginning counted, the file in doubt would be sent a second time."""
    world = beside(content=b"more than some content")
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET md5 = NULL WHERE id = 2"))
    assert wider(world, shown(world)) == "elsewhere"


@pytest.mark.parametrize(("name", "where"), [("y.jpg", "elsewhere"), ("写.jpg", "left")])
def test_leftover_may_have_a_rewritten_name(beside, name, where):
    world = beside(name)
    assert wider(world, shown(world)) == where


def test_asset_without_folder_is_not_moved(beside):
    world = beside()
    assert wider(world, replace(shown(world), folder_id="")) == "here"


def test_known_asset_without_folder_is_elsewhere(beside):
    """Its first sight made the doubt wait; no listing of the doubt's folder has shown it since."""
    world = beside()
    asset = replace(shown(world), folder_id="")
    world.ledger.assets.record([asset], 2, world.clock.now())
    assert wider(world, asset) == "elsewhere"


def test_repeated_candidate_is_counted_once(beside, monkeypatch):
    monkeypatch.setattr("assetsync.sync.doubts.candidates._MOST_KEPT", 3)
    world = beside()
    candidates = Candidates(world.site.context)
    one = candidates.begin(next(iter(world.ledger.doubts.due(world.clock.now() + 60))))
    assets = [shown(world, one.doubt.attempt.destfolderid) for _ in range(3)]
    for _ in range(3):
        candidates.keep([one], assets, one.doubt.attempt.destfolderid)
    assert len(one.assets) == 3
    with pytest.raises(BadAnswer):
        candidates.keep([one], [shown(world, one.doubt.attempt.destfolderid)], one.doubt.attempt.destfolderid)


def test_question_waits_until_rivals_are_manual(make_world):
    world = make_world()
    lose(world, "lost_before", path="a.jpg")
    for path in ("x/b.jpg", "y/b.jpg"):
        world.site.gates.checked()
        lose(world, "lost_before", path=path, content=b"other")
        world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET name_released = 1 WHERE id = 2"))
        world.ledger.store.write(
            lambda conn: conn.execute("UPDATE files SET state = 'blocked' WHERE path = ?", (b"x/b.jpg",))
        )
    doubts = world.ledger.doubts
    candidates = Candidates(world.site.context)
    one = candidates.begin(next(doubt for doubt in doubts.due(world.clock.now() + 60) if doubt.attempt.id == 1))
    candidates.keep([one], [shown(world, "F1", name="b.jpg")], "F1")
    (sight,) = candidates.of(one, doubts.newest_attempt())
    assert (sight.contested, sight.asked) == (True, False)


def test_long_listing_is_not_compared_with_each_doubt(world, monkeypatch):
    sent = ["a.jpg", "b.jpg", "日.jpg"]
    for number, name in enumerate(sent):
        lose(world, "lost_before", path=name, content=b"%d" % number)
        world.site.gates.checked()
    candidates = Candidates(world.site.context)
    looking = [candidates.begin(doubt) for doubt in world.ledger.doubts.due(world.clock.now() + 60)]
    own = {one.doubt.attempt.sent_name: one for one in looking}
    assert set(own) == set(sent)
    renamed = replace(shown(world, "F1", name="renamed"), id="B", md5=own["b.jpg"].facts.md5)
    others = [replace(shown(world, "F1", name=f"{number}"), id=f"{number}", md5="0" * 32) for number in range(500)]
    of_name = replace(shown(world, "F1", name="?.jpg"), id="SUN", md5="0" * 32)
    compared = []
    monkeypatch.setattr(
        "assetsync.sync.doubts.candidates.may_be", lambda *both: compared.append(both) or names.may_be(*both)
    )
    candidates.keep(looking, [renamed, *others, of_name], "F1")
    assert {name: set(one.assets) for name, one in own.items()} == {"a.jpg": set(), "b.jpg": {"B"}, "日.jpg": {"SUN"}}
    assert 0 < len(compared) <= 2 * len(sent)


def test_names_of_many_doubts_are_compared_fast(make_world, monkeypatch):
    """The service has stored uploads that it answered with an error, and processes none of them for a while."""
    many = 16
    world = make_world(upload={"workers": "4"})
    world.service.processing = 1e9
    world.service.script.extend(["lost_after"] * many)
    for number in range(many):
        world.write(f"{number:02}", f"{number}".encode())
    world.scan()
    while len(world.service.posts) < many:
        world.site.uploader.run(lambda: True)
        world.site.gates.check()
        world.clock.advance(1)
    compared = []
    plain = names._plain
    monkeypatch.setattr(names, "_plain", lambda name: compared.append(name) or plain(name))
    world.clock.advance(10)
    world.site.resolver.step()
    # Once for each doubt and each asset, not for each rival of these, too.
    assert 0 < len(compared) <= 2 * many**2
