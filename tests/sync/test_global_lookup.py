"""What is asked of all folders: by ids, by names, and all of it at once where names say too little.

Covers `sync/observer.py`.
"""

from collections.abc import Callable
from contextlib import contextmanager

import pytest

from assetsync.errors import ServiceRefused, ServiceUnreachable
from assetsync.model import SearchRequest, State
from assetsync.sync.observer import Everywhere, InTurn, Observer, is_broad
from tests.world import FOLDER, OTHER

DAY = 24 * 3600.0
FOLDERS = [{"path": "a", "destfolderid": FOLDER}, {"path": "b", "destfolderid": OTHER}]


def without_folder(request: SearchRequest) -> bool:
    """What the service refuses to a key whose user is no administrator."""
    return request.folderid is None


def in_all_folders(request: SearchRequest) -> bool:
    return request.folderid not in (FOLDER, OTHER)


@pytest.fixture
def asked(make_world):
    """Make a world with two folders that refuses some searches; return it after it has sent a file for each."""

    def make(refuses, **said):
        world = make_world(folders=FOLDERS, **said)
        world.service.refuses = refuses
        for path in ("a/1.jpg", "b/2.jpg"):
            world.write(path, path.encode())
        world.scan_and_send()
        return world

    return make


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("写.jpg", True),
        ("写真", True),
        ("a写.jpg", True),
        ("abc写.jpg", False),
        ("Zürich Rathaus", False),
        ("SCAN.PDF", True),
        ("IMG_1234.JPG", False),
        ("a.jpg", False),
        ("a", False),
    ],
)
def test_uncertain_name_yields_a_weak_query(name, expected):
    assert is_broad(name) is expected


def test_full_listing_replaces_name_lookups(world):
    world.service.put(b"content", "a.jpg")
    assert len(list(Observer(world.service, world.ledger, float).named(["写.jpg", "真.jpg", "a.jpg"]))) == 2
    assert [request.searchfor for request in world.service.searches] == ["%", "%"]


def test_doubled_index_rows_show_every_asset(world):
    ids = [world.service.put(b"%d" % number, f"{number}.jpg").id for number in range(3)]
    search = world.service.search

    @contextmanager
    def twice(request):
        with search(request) as assets:
            yield iter([asset for asset in assets for _ in range(2)][: request.maxrows])

    world.service.search = twice
    assert Observer(world.service, world.ledger, float).ids(ids).keys() == set(ids)


def test_administrator_is_asked_without_folderid(asked):
    world = asked(lambda _request: False)
    world.live(200)
    assert set(world.states().values()) == {State.VERIFIED}
    assert {request.folderid for request in world.service.searches} <= {FOLDER, OTHER, None}


@pytest.mark.parametrize("refuses", [without_folder, in_all_folders])
def test_refused_search_pauses_nothing(asked, refuses):
    world = asked(refuses)
    world.live(200)
    assert set(world.states().values()) == {State.VERIFIED}
    assert world.site.gates.closures() == ([], [])


def test_mapped_folders_are_searched_in_the_index(asked):
    world = asked(without_folder)
    world.live(200)
    assert {r.folderid for r in world.service.searches if not r.dbdirect} == {None, f"{FOLDER},{OTHER}"}


def test_absent_upload_of_a_plain_user_is_sent_again(asked):
    world = asked(without_folder)
    world.service.script.append("lost_before")
    world.write("a/late.jpg", b"late")
    world.scan_and_send()
    world.live(60)
    assert world.posted().count("late.jpg") == 2
    everywhere = [r.folderid for r in world.service.searches if r.dbdirect and r.folderid not in (FOLDER, OTHER)]
    assert (everywhere[0], set(everywhere[1:])) == (None, {""})


def test_moved_upload_is_found_with_an_empty_folderid(asked):
    world = asked(without_folder)
    world.service.script.append("lost_after")
    world.write("a/late.jpg", b"late")
    world.scan_and_send()
    next(asset for asset in world.service.assets.values() if asset.name == "late.jpg").folder = "F9"
    world.live(120)
    assert world.posted().count("late.jpg") == 1
    assert "F9" in world.row("a/late.jpg").detail


def test_missing_asset_is_found_by_an_audit(asked):
    """Neither the database nor the index may be searched without `folderid`."""
    world = asked(without_folder)
    world.live(200)
    world.service.assets[world.row("a/1.jpg").assetid].folder = "F9"
    result = world.site.auditor.audit(FOLDER)
    assert (result.missing, result.elsewhere) == (0, 1)


def test_refused_search_is_tried_again_after_a_day(clock, world):
    everywhere = Everywhere(world.service, clock.steady, [FOLDER])
    world.service.refuses = without_folder

    def ask() -> list[str | None]:
        before = len(world.service.searches)
        assert list(Observer(everywhere, world.ledger, float).named(["a.jpg"])) == []
        return [request.folderid for request in world.service.searches[before:]]

    assert ask()[:2] == [None, ""]
    clock.advance(DAY - 1)
    assert set(ask()) == {""}
    clock.advance(1)
    assert ask()[:2] == [None, ""]
    world.service.refuses = lambda _request: False
    clock.advance(DAY)
    assert set(ask()) == {None}


def test_passing_error_is_no_refusal(clock, world):
    """The answer of a service whose database is down says nothing about the question."""
    everywhere = Everywhere(world.service, clock.steady, [FOLDER])

    def fail(_request):
        raise ServiceRefused("General SQL Error", code="errorCode.sqlError")

    world.service.during_search = fail
    with pytest.raises(ServiceRefused):
        list(Observer(everywhere, world.ledger, float).named(["a.jpg"]))
    assert len(world.service.searches) == 1
    assert not everywhere.is_narrowed("database")


def test_index_is_not_called_without_its_searches(asked):
    world = asked(lambda request: not request.dbdirect)
    world.live(300)
    assert world.service.indexed == []
    assert set(world.states().values()) == {State.VERIFIED}


def tried_in_turn(in_turn: InTurn, items: list[int], look: Callable[[int], None]) -> list[int]:
    tried: list[int] = []
    in_turn.begin()

    def noting(item: int) -> None:
        tried.append(item)
        look(item)

    in_turn.each({item: item for item in items}, noting)
    return tried


def test_oldest_failure_comes_first_of_failures(clock):
    in_turn = InTurn(clock.steady, 60.0)

    def look(item: int) -> None:
        if item != 3:
            raise ServiceUnreachable("no answer")

    assert [tried_in_turn(in_turn, [1, 2, 3], look) for _ in range(4)] == [[1], [2], [3, 1], [3, 2]]


def test_first_look_up_is_made_in_any_case(clock):
    in_turn = InTurn(clock.steady, 60.0)
    assert tried_in_turn(in_turn, [1, 2, 3], lambda _item: clock.advance(61)) == [1]
    assert tried_in_turn(in_turn, [1, 2, 3], lambda _item: clock.advance(30)) == [1, 2]
