"""The lanes: so many files are on their way at once, and a few more threads make the next ones ready meanwhile.

An intent takes a while to be on the disk, and a worker that waits for it sends nothing. Where answers take longer than
that, a file goes through all of it first and into the next lane that comes free. Where they come at once, a file is in
its lane from the beginning: then the interpreter is what everybody waits for, and more threads make it no faster.
"""

import threading
from collections.abc import Callable

_SLOW = 0.01
_FLOWS = 0.5
_LOOK = 0.1
_LOOKS = 10


class Lanes:
    """Shared by all threads that send."""

    def __init__(self, count: int, steady: Callable[[], float]) -> None:
        """Begin with all of them free; `steady` gives seconds."""
        self.threads = count + count // 4
        """How many threads keep the lanes busy."""
        self.answer_took = 0.0
        """Seconds that the service took for the last small file."""
        self._steady = steady
        self._free = count
        self._came_free = float("-inf")
        self._change = threading.Condition()

    def pays_ahead(self) -> bool:
        """Whether a file is better made ready before it has a lane, intent and all.

        Not where nothing came free for a while, as with answers that hang: its intent would be taken back in the end.
        """
        return self.answer_took > _SLOW and self._steady() - self._came_free < _FLOWS

    def enter(self) -> bool:
        """Take a lane if one is free; whoever has one must `leave`."""
        with self._change:
            if not self._free:
                return False
            self._free -= 1
            return True

    def wait(self, may_wait: Callable[[], bool]) -> bool:
        """Take a lane, or give up after a second, or once `may_wait` says no, which is asked again and again."""
        for _ in range(_LOOKS):
            if not may_wait():
                return False
            if self.enter():
                return True
            with self._change:
                if not self._free:
                    self._change.wait(_LOOK)
        return False

    def leave(self) -> None:
        """Give the lane back."""
        with self._change:
            self._free += 1
            self._came_free = self._steady()
            self._change.notify()
