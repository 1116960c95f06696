"""Where small files are prepared."""

import pytest

from assetsync.sync.upload.preparation_place import PreparationPlace


@pytest.fixture
def place() -> PreparationPlace:
    return PreparationPlace(lambda: False)


@pytest.mark.parametrize(
    ("seconds", "event_loop", "each_worker"), [(0.0009, True, False), (0.003, False, False), (0.3, True, True)]
)
def test_place_follows_the_seconds_for_a_file(place, seconds, event_loop, each_worker):
    for _ in range(50 if seconds < 0.1 else 1):
        place.note_file(seconds, 100.0)
    assert (place.is_event_loop(100.0), place.is_each_worker(100.0)) == (event_loop, each_worker)
    assert (place.is_event_loop(130.0), place.is_each_worker(130.0)) == (True, False)


@pytest.mark.parametrize(("seconds", "later"), [(0.1, True), (0.11, False)])
def test_long_batch_leaves_the_event_loop(place, seconds, later):
    place.note_batch(seconds, 100.0)
    assert (place.is_event_loop(129.0), place.is_event_loop(130.0)) == (later, True)


def test_file_system_is_asked_about_every_half_minute():
    answers = iter([False, True])
    place = PreparationPlace(lambda: next(answers))
    assert [place.is_event_loop(now) for now in (0.0, 29.0, 30.0, 1e9)] == [True, True, False, False]


def test_unknown_file_system_is_asked_about_again():
    answers = iter([OSError, False])

    def may_hang() -> bool:
        if (answer := next(answers)) is OSError:
            raise OSError
        return bool(answer)

    place = PreparationPlace(may_hang)
    assert [place.is_event_loop(now) for now in (0.0, 29.0, 30.0)] == [False, False, True]
