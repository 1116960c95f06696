"""The turn of the threads that send small files."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assetsync.turn import Turn

LONG = 30.0


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def taker(turn: Turn) -> threading.Event:
    """Let another thread take the turn; gives what tells that it has had it."""
    came = threading.Event()

    def take() -> None:
        with turn.taken():
            came.set()

    in_thread(take)
    return came


def test_of_many_threads_one_has_the_turn_at_a_time():
    turn = Turn(patience=LONG)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(50):
            with turn.taken():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    for thread in [in_thread(work) for _ in range(4)]:
        thread.join(LONG)
    assert len(most) == 200
    assert set(most) == {1}


def test_another_has_the_turn_while_the_first_waits():
    turn = Turn(patience=LONG)
    with turn.taken():
        came = taker(turn)
        assert not came.wait(0.05)
        with turn.left():
            assert came.wait(LONG)


def test_after_its_wait_a_thread_has_the_turn_again():
    turn = Turn(patience=LONG)
    with turn.taken():
        with turn.left():
            pass
        came = taker(turn)
        assert not came.wait(0.05)
    assert came.wait(LONG)


def test_who_waited_too_long_goes_on_without_the_turn_and_takes_it_from_nobody():
    turn = Turn(patience=0.01)
    went_on = threading.Event()

    def without() -> None:
        with turn.taken(), turn.left():
            pass
        went_on.set()

    with turn.taken():
        in_thread(without)
        assert went_on.wait(LONG)
        # Still the first one's: who went on without it has given nothing back.
        assert turn.is_taken()
    assert not turn.is_taken()


def test_who_takes_it_twice_gives_it_back_at_the_outer_end():
    turn = Turn(patience=0.01)
    with turn.taken():
        with turn.taken():
            pass
        assert turn.is_taken()
    assert not turn.is_taken()


def test_a_thread_without_the_turn_waits_for_none():
    turn = Turn(patience=LONG)
    done = threading.Event()

    def outside() -> None:
        with turn.left():
            done.set()

    with turn.taken():
        in_thread(outside)
        assert done.wait(LONG)


def test_an_error_gives_the_turn_back():
    turn = Turn(patience=LONG)

    def failing() -> None:
        with turn.taken(), turn.left():
            Path("/nowhere").read_bytes()

    with pytest.raises(FileNotFoundError):
        failing()
    assert taker(turn).wait(LONG)
