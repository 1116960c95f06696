"""The lanes: so many files are on their way at once, and a few more threads make the next ones ready meanwhile.

An intent takes a while to be on the disk, and a worker that waits for it sends nothing. Where answers take longer than
that, a file goes through all of it first and into the next lane that comes free. Where they come at once, a file is in
its lane from the beginning: then the interpreter is what everybody waits for, and more threads make it no faster.
"""

import threading
from collections import deque
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
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def pays_ahead(self) -> bool:
        """Whether a file is better made ready before it has a lane, intent and all.

        Not where nothing came free for a while, as with answers that hang: its intent would be taken back in the end.
        """
        return self.answer_took > _SLOW and self._steady() - self._came_free < _FLOWS

    def enter(self) -> bool:
        """Take a lane if one is free; whoever has one must `leave`."""
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def wait(self, may_wait: Callable[[], bool]) -> bool:
        """Take the next lane that comes free for nobody who waited before.

        Gives up after a second, or once `may_wait` says no, which is asked again and again.
        """
        if not may_wait():
            return False
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            self._waiting.append(mine)
        for _ in range(_LOOKS):
            has_one = mine.wait(_LOOK)
            if has_one or not may_wait():
                break
        with self._lock:
            # It may have been handed over since.
            if not mine.is_set():
                self._waiting.remove(mine)
                return False
        if may_wait():
            return True
        self.leave()
        return False

    def leave(self) -> None:
        """Give the lane back: to whoever has waited longest, so that a large file is not kept from it by small ones."""
        with self._lock:
            self._came_free = self._steady()
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
