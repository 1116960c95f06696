"""The turn: of the threads that send small files one computes at a time, and the others wait for theirs asleep.

Python runs one thread at a time anyway. Left alone, each short call to the disk or the network hands the interpreter
over and fetches it back, some forty times a file, and a third of the processor's time goes into that. Who has the turn
keeps it until there is something to wait for. It is an economy and no lock: nothing is guarded by it, and who has
waited too long for it goes on without.
"""

import threading

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

    def taken(self) -> "_Taken":
        """Have the turn inside the block, or go on without it after a while; who has it keeps it to the outer end."""
        return _Taken(self)

    def left(self) -> "_Left":
        """Hand the turn on for a block that waits, and take it again; where the thread has none, nothing is done."""
        return _Left(self)

    def has_it(self) -> bool:
        """Whether the calling thread has it."""
        return self._mine.has_it

    def take(self) -> None:
        """Wait for it, and go on without it after a while; for a thread that has it not."""
        self._mine.has_it = self._lock.acquire(timeout=self._patience)

    def leave(self) -> None:
        """Give it back, if the calling thread has it."""
        if self._mine.has_it:
            self._mine.has_it = False
            self._lock.release()


class _Mine(threading.local):
    has_it = False


class _Taken:
    """One block in which a thread has the turn. A class, because the blocks are many and a generator is dearer."""

    __slots__ = ("_took", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._took = False

    def __enter__(self) -> None:
        self._took = not self._turn.has_it()
        if self._took:
            self._turn.take()

    def __exit__(self, *_raised: object) -> None:
        if self._took:
            self._turn.leave()


class _Left:
    """One block for which a thread hands the turn on."""

    __slots__ = ("_left", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._left = False

    def __enter__(self) -> None:
        self._left = self._turn.has_it()
        if self._left:
            self._turn.leave()

    def __exit__(self, *_raised: object) -> None:
        if self._left:
            self._turn.take()


TURN = Turn()
"""There is one interpreter, and so there is one turn."""
