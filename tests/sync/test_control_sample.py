"""What is not shown counts only where the service shows what is known to be there."""

from contextlib import contextmanager

import pytest

from assetsync.model import State
from tests.world import FOLDER, OTHER

HOUR = 3600


@pytest.fixture
def world(make_world):
    """Give a world with some files that were read back."""
    world = make_world()
    for number in range(5):
        world.write(f"before{number}", b"before %d" % number)
    world.scan()
    world.live(60)
    assert set(world.states().values()) == {State.VERIFIED}
    return world


@contextmanager
def blind(world):
    """Let every search be answered, with nothing."""
    search = world.service.search

    @contextmanager
    def shows_nothing(_request):
        yield iter(())

    world.service.search = shows_nothing
    yield
    world.service.search = search


def lose_an_answer(world) -> None:
    world.service.script.append("lost_after")
    world.write("lost", b"lost")
    world.scan_and_send()


def test_an_upload_whose_answer_was_lost_is_not_sent_again_while_the_service_shows_nothing_at_all(world):
    with blind(world):
        lose_an_answer(world)
        world.live(HOUR)
        row = world.row("lost")
        assert (row.state, world.posted().count("lost")) == (State.IN_DOUBT, 1)
        assert row.detail.startswith("cannot be looked for in the service: the service shows nothing of ours")
    world.live(600)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 1)


def test_what_was_accepted_waits_for_a_service_that_shows_nothing_at_all_and_for_no_person(world):
    with blind(world):
        world.write("new", b"new")
        world.scan()
        world.live(HOUR)
        assert world.row("new").state is State.STORED
        assert "the service shows nothing of ours" in world.row("new").detail
    world.live(600)
    assert world.row("new").state is State.VERIFIED


def expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world) -> None:
    for asset in world.service.assets.values():
        asset.folder = OTHER
    world.service.script.append("lost_before")
    world.write("lost", b"lost")
    world.scan()
    world.live(120)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 2)


def test_an_upload_that_was_lost_is_sent_again_where_people_have_moved_all_others_elsewhere(world):
    expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world)


def test_what_was_read_back_is_known_by_the_name_that_was_sent_though_its_file_has_another(world):
    for number in range(5):
        (world.root / f"before{number}").rename(world.root / f"renamed{number}")
    world.scan_and_send()
    assert len(world.service.posts) == 5
    expect_a_lost_one_to_be_sent_again_where_all_others_lie_elsewhere(world)


def test_where_all_of_it_was_deleted_an_audit_lets_look_ups_count_again(world):
    world.service.assets.clear()
    world.service.script.append("lost_before")
    world.write("lost", b"lost")
    world.scan()
    world.live(120)
    assert world.row("lost").state is State.IN_DOUBT
    for _ in range(2):
        world.site.auditor.audit(FOLDER)
        for brake in world.ledger.reports.brakes():
            world.ledger.resume(brake.id, world.clock.now())
    world.live(HOUR)
    assert (world.row("lost").state, world.posted().count("lost")) == (State.VERIFIED, 2)


def test_a_folder_of_a_restored_ledger_is_not_taken_for_empty_while_the_service_shows_nothing_at_all(world):
    world.site.contact.list_anew()
    world.service.put(b"sent since the backup", "since")
    world.write("since", b"sent since the backup")
    with blind(world):
        world.scan()
        world.live(HOUR)
        assert world.row("since").state is State.QUEUED
    world.live(600)
    assert (world.row("since").state, world.posted().count("since")) == (State.VERIFIED, 0)
