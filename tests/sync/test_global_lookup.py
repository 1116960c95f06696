"""What is asked of all folders: by ids, by names, and all of it at once where names say too little."""

from contextlib import contextmanager

import pytest

from assetsync.sync.global_lookup import by_id, is_broad, named


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("写.jpg", True),
        ("写真", True),
        ("a写.jpg", True),
        ("abc写.jpg", False),
        ("Zürich Rathaus", False),
        ("a.jpg", False),
        ("a", False),
    ],
)
def test_of_a_name_hardly_anything_can_be_asked_for_where_few_of_its_letters_are_sure(name, expected):
    assert is_broad(name) is expected


def test_where_all_is_listed_no_name_is_asked_for_beside_it(world):
    world.service.put(b"content", "a.jpg")
    assert len(list(named(world.service, ["写.jpg", "真.jpg", "a.jpg"]))) == 2
    assert [request.searchfor for request in world.service.searches] == ["%", "%"]


def test_an_index_that_shows_each_asset_twice_shows_all_that_are_asked_for(world):
    ids = [world.service.put(b"%d" % number, f"{number}.jpg").id for number in range(3)]
    search = world.service.search

    @contextmanager
    def twice(request):
        with search(request) as assets:
            yield iter([asset for asset in assets for _ in range(2)][: request.maxrows])

    world.service.search = twice
    assert by_id(world.service, ids).keys() == set(ids)
