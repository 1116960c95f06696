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

    def taken(self) -> "Block":
        """Have the turn inside the block, or go on without it after a while; who has it keeps it to the outer end."""
        return Block(self, having=True)

    def left(self) -> "Block":
        """Hand the turn on for a block that waits, and take it again; where the thread has none, nothing is done."""
        return Block(self, having=False)

    def has_it(self) -> bool:
        """Whether the calling thread has it."""
        return self._mine.has_it

    def change(self, *, having: bool) -> None:
        """Wait for it, and go on without it after a while; or give it back, if the calling thread has it."""
        if having:
            self._mine.has_it = self._lock.acquire(timeout=self._patience)
        elif self._mine.has_it:
            self._mine.has_it = False
            self._lock.release()


class _Mine(threading.local):
    has_it = False


class Block:
    """A block that a thread goes through with the turn or without it.

    A class, because there are many, and a generator is dearer.
    """

    __slots__ = ("_changes", "_having", "_turn")

    def __init__(self, turn: Turn, *, having: bool) -> None:
        self._turn = turn
        self._having = having
        self._changes = False

    def begin(self) -> None:
        """Enter it where it is to end elsewhere."""
        self._changes = self._turn.has_it() is not self._having
        if self._changes:
            self._turn.change(having=self._having)

    def end(self) -> None:
        """Leave it, if it was entered."""
        if self._changes:
            self._turn.change(having=not self._having)

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_raised: object) -> None:
        self.end()


TURN = Turn()
"""There is one interpreter, and so there is one turn."""
