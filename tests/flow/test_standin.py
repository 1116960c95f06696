"""What stands for a file already: with `on_move: report`, the asset in the folder that it was moved away from."""

import os

import pytest

from assetsync.model import State

from .test_drift import drift

MAPPED = [{"path": "p", "destfolderid": "F1"}, {"path": "q", "destfolderid": "F2"}]
LARGE = os.urandom(9 * 2**20)


@pytest.fixture
def sorted_by_hand(make_world):
    def make(policy: str = "report", content: bytes = b"content"):
        world = make_world(folders=MAPPED, policy={"on_move": policy})
        world.write("p/a.jpg", content)
        world.write("p/b.jpg", b"another")
        world.scan_and_send()
        world.live(5)
        (world.root / "q").mkdir()
        return world

    return make


@pytest.mark.parametrize("content", [b"content", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("how", ["hinted", "scanned", "missed first"])
def test_a_file_that_is_moved_to_another_mapping_is_reported_and_not_sent(sorted_by_hand, how, content):
    world = sorted_by_hand(content=content)
    file = (world.root / "p/a.jpg").rename(world.root / "away")
    if how == "missed first":
        world.scan()
        world.site.intake.decide_missing(world.scan())
    file.rename(world.root / "q/a.jpg")
    if how == "hinted":
        world.hint("q/a.jpg")
    else:
        world.scan()
    world.live(5)
    assert world.posted() == ["a.jpg", "b.jpg"]
    row = world.row("q/a.jpg")
    assert (row.state, row.destfolderid, row.asset_folder) == (State.VERIFIED, "F2", "F1")
    assert drift(world).keys() == {b"q/a.jpg"}


def test_by_default_it_is_sent_there(sorted_by_hand):
    world = sorted_by_hand("upload")
    (world.root / "p/a.jpg").rename(world.root / "q/a.jpg")
    world.scan_and_send()
    assert [request.destfolderid for request in world.service.posts] == ["F1", "F1", "F2"]


def test_a_copy_in_another_mapping_is_a_file_of_its_own(sorted_by_hand):
    world = sorted_by_hand()
    world.write("q/a.jpg", b"content")
    world.scan_and_send()
    assert [request.destfolderid for request in world.service.posts] == ["F1", "F1", "F2"]


@pytest.mark.parametrize("how", ["deleted long ago", "replaced"])
def test_what_is_like_an_earlier_file_of_another_mapping_was_not_moved_from_there(sorted_by_hand, how):
    world = sorted_by_hand()
    if how == "replaced":
        world.write("p/a.jpg", b"a newer version")
        world.scan_and_send()
    else:
        (world.root / "p/a.jpg").unlink()
        world.site.intake.decide_missing(world.scan())
        world.clock.advance(2 * 24 * 3600)
    world.write("q/a.jpg", b"content")
    world.scan_and_send()
    assert [request.destfolderid for request in world.service.posts][-1] == "F2"
