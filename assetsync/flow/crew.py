"""How many uploads may be under way at once, and how many of them one worker takes together.

Where answers come at once, what a file costs is the commit of its intent, and waking the threads that take turns. So
one worker takes several small files then, has their intents written in one commit, and sends them all before it reads
the first answer. Where answers have to be waited for, each worker takes one file. Never are more under way than there
are workers: a kill leaves no more uploads in doubt than that.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from assetsync.flow.prepare import Ready
from assetsync.model import Sent

AT_ONCE = 0.001
"""Seconds within which an answer comes at once."""

OVERDUE = 0.02
"""Seconds after which the answer to one of several uploads is anybody's to read who is free, and the next files too."""

_WEIGHT = 1 / 8
_UNKNOWN = 1.0


@dataclass(frozen=True, slots=True)
class Begun:
    """An upload whose intent is on the disk.

    `answer` waits for it where it is one of several that were sent together, `since` when (steady seconds); without it
    the file has yet to be sent.
    """

    attempt: int
    ready: Ready
    since: float = 0.0
    answer: Callable[[], Sent] | None = None


class Crew:
    """Shared by all workers."""

    def __init__(self, workers: int, steady: Callable[[], float]) -> None:
        """Begin with nothing under way, and with answers that have to be waited for."""
        self._free = workers
        self._steady = steady
        self._lock = threading.Lock()
        self._sent: deque[Begun] = deque()
        self._waited = _UNKNOWN
        # Who takes several, and since when: two would take turns at computing, and each be given fewer.
        self._leader = 0
        self._led = float("-inf")

    def reserve(self) -> int:
        """Let a worker have as many files under way as pay; 0 where there is nothing for it to do beside the others.

        What is not needed is to be given back.
        """
        if self._waited > AT_ONCE:
            return self.reserve_one()
        with self._lock:
            if self._leader != threading.get_ident() and self._steady() - self._led < OVERDUE:
                return 0
            count, self._free = self._free, 0
            return count

    def lead(self) -> None:
        """Say that the calling worker takes several files: for a moment others wait until it takes the next."""
        with self._lock:
            self._leader, self._led = threading.get_ident(), self._steady()

    def reserve_one(self) -> int:
        """Let a worker have one file under way; 0 where the others have all that may be."""
        with self._lock:
            count = min(self._free, 1)
            self._free -= count
            return count

    def give_back(self, count: int = 1) -> None:
        """Say that so many are not under way, or not any more."""
        with self._lock:
            self._free += count

    def waited(self, seconds: float) -> None:
        """Hear for how long the answer to a small file was waited for, the first of those that were sent together."""
        with self._lock:
            # What was measured among threads that compete is too much as a rule, and never too little.
            self._waited = min(seconds, self._waited + (seconds - self._waited) * _WEIGHT)

    def hand_in(self, sent: Iterable[Begun]) -> None:
        """Put uploads where they are ended, one after the other, by whoever comes to it."""
        with self._lock:
            self._sent.extend(sent)

    def next(self) -> Begun | None:
        """Give the upload that is to be ended next."""
        with self._lock:
            return self._sent.popleft() if self._sent else None

    def overdue(self) -> Begun | None:
        """Give an upload that waits behind one whose answer does not come."""
        if not self._sent:
            return None
        with self._lock:
            is_late = self._sent and self._steady() - self._sent[0].since > OVERDUE
            return self._sent.popleft() if is_late else None
