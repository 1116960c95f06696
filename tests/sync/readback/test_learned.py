"""What listings have shown saves requests of reading back, and is dropped after a day."""

from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import Paging, every
from assetsync.sync.readback.learned import Learned

PROCESSED = Asset("A", "F1", "a", 1, "0" * 32, "doc")


def test_learned_is_dropped_after_a_day(clock):
    learned = Learned(clock.steady)
    learned.paging.is_ignored = True
    assert list(learned.unprocessed([PROCESSED])) == [PROCESSED]
    assert (learned.paging.is_ignored, learned.shows_unprocessed) == (True, True)
    clock.advance(86_400)
    assert (learned.paging.is_ignored, learned.shows_unprocessed) == (False, False)


def test_second_page_is_asked_for_once(world):
    for number in range(40):
        world.service.put(b"%d" % number, f"{number}")
    paging, request = Paging(), SearchRequest(searchfor="%", folderid="F1", dbdirect=True)
    for searches in (2, 3):
        assert len(list(every(world.service.search, request, paging=paging))) == 40
        assert len(world.service.searches) == searches
    # Where a file may be sent for it, both are asked for.
    assert len(list(every(world.service.search, request))) == 40
    assert len(world.service.searches) == 5
