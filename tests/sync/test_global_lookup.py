"""What is asked of all folders: by ids, by names, and all of it at once where names say too little.

Covers `sync/lookups.py`.
"""

from contextlib import contextmanager

import pytest

from assetsync.sync.lookups import by_id, is_broad, named


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
    assert len(list(named(world.service, ["写.jpg", "真.jpg", "a.jpg"]))) == 2
    assert [request.searchfor for request in world.service.searches] == ["%", "%"]


def test_doubled_index_rows_show_every_asset(world):
    ids = [world.service.put(b"%d" % number, f"{number}.jpg").id for number in range(3)]
    search = world.service.search

    @contextmanager
    def twice(request):
        with search(request) as assets:
            yield iter([asset for asset in assets for _ in range(2)][: request.maxrows])

    world.service.search = twice
    assert by_id(world.service, ids).keys() == set(ids)
