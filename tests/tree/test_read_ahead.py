import threading
import time
from collections.abc import Iterator

import pytest

from assetsync.tree.body import ahead
from tests.scarcity import no_threads


def threads() -> int:
    return sum(thread.name == "read-ahead" for thread in threading.enumerate())


def test_items_come_in_order():
    assert list(ahead(iter(range(100)), depth=2)) == list(range(100))


@pytest.mark.parametrize("depth", [1, 3])
def test_read_ahead_stops_at_depth(depth: int):
    drawn = []

    def source() -> Iterator[int]:
        for item in range(10):
            drawn.append(item)
            yield item

    items = ahead(source(), depth=depth)
    assert next(items) == 0
    deadline = time.monotonic() + 60
    while len(drawn) < depth + 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    assert drawn == list(range(depth + 1))
    items.close()


def test_error_follows_the_items_before_it():
    def source() -> Iterator[int]:
        yield 1
        raise OSError("torn")

    items = ahead(source(), depth=2)
    assert next(items) == 1
    with pytest.raises(OSError, match="torn"):
        next(items)
    assert threads() == 0


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_closing_early_ends_the_thread(taken: int):
    items = ahead(iter(range(1000)), depth=2)
    for _ in range(taken):
        next(items)
    assert threads() == 1
    items.close()
    assert threads() == 0


def test_dropped_iterator_ends_its_thread():
    items = ahead(iter(range(1000)), depth=2)
    next(items)
    del items
    assert threads() == 0


def test_unused_iterator_starts_no_thread():
    ahead(iter(range(10)), depth=2)
    assert threads() == 0


def test_lack_of_threads_only_slows_reading():
    with no_threads():
        assert [*ahead(iter(range(5)), depth=2)] == [*range(5)]
