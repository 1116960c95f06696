"""The turn: of the threads that send small files one computes at a time, and the others wait for theirs asleep.

Python runs one thread at a time anyway. Left alone, each short call to the disk or the network hands the interpreter
over and fetches it back, some forty times a file, and a third of the processor's time goes into that. Who has the turn
keeps it until there is something to wait for. It is an economy and no lock: nothing is guarded by it, and who has
waited too long for it goes on without.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.01
"""Seconds to wait for the turn: many times what a holder computes, little beside what it may hang in."""


class Turn:
    """The turn of one process, for any number of threads."""

    def __init__(self, patience: float = PATIENCE) -> None:
        """Begin with nobody having it."""
        self._patience = patience
        self._lock = threading.Lock()
        self._mine = _Mine()

    def is_taken(self) -> bool:
        """Whether a thread has it at this moment."""
        return self._lock.locked()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn inside the block, or go on without it after a while; who has it keeps it to the outer end."""
        if self._mine.has_it:
            yield
            return
        self._take()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Hand the turn on for a block that waits, and take it again; where the thread has none, nothing is done."""
        if not self._mine.has_it:
            yield
            return
        self._leave()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._mine.has_it = self._lock.acquire(timeout=self._patience)

    def _leave(self) -> None:
        if self._mine.has_it:
            self._mine.has_it = False
            self._lock.release()


class _Mine(threading.local):
    has_it = False


TURN = Turn()
"""There is one interpreter, and so there is one turn."""
