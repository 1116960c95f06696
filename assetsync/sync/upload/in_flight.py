"""Who sends: one worker has all small uploads under way, as long as nothing keeps it; the others stand by.

What a small file costs, beside itself, is the commit of its intent, and waking the threads that take turns. So one
worker leads: it takes as many small files as may be under way, has their intents written in one commit together with
what became of those before, sends them, and ends each when its answer has come. Who has to wait, for a long file or for
a connection that does not come about, leads no more, and another one does. Never are more under way than there are
workers: a kill leaves no more uploads in doubt than that.
"""

import select
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from assetsync.model import Underway
from assetsync.sync.upload.prepare import Ready

LEAD = 0.05
"""Seconds after which another worker leads where the one that does has not come back."""

AT_ONCE = 0.003
"""Seconds within which answers come at once."""

SLOW = 0.005
"""Seconds from which on it takes so long to read a small file and to hand it over that one worker is too few."""

_APART = 30.0
_ALL = 1.0
_MANY = 50
_TO_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """An upload whose intent is on the disk; `underway` once it was sent, `since` when (steady seconds).

    `first`: the steady time in seconds just before its first byte left.
    """

    attempt: int
    ready: Ready
    underway: Underway | None = None
    since: float = 0.0
    first: float = 0.0


class Crew:
    """Shared by all workers."""

    def __init__(self, workers: int, steady: Callable[[], float], *, together: bool = True) -> None:
        """Begin with nothing under way; not `together`, each upload keeps a worker in any case."""
        self._workers = workers
        self._free = workers
        self._steady = steady
        self._lock = threading.Lock()
        self._relief = threading.Condition(self._lock)
        self._unsent: deque[Begun] = deque()
        self._sent: list[Begun] = []
        self._leader = 0
        self._leads_until = float("-inf")
        # Whether an answer can be waited for together with others; None before anything is known of it.
        self._is_told: bool | None = None if together else False
        self._apart_until = float("-inf")
        self._looks_at_all = float("-inf")
        self._took = 0.0

    @property
    def most(self) -> int:
        """How many files a worker may take at once."""
        return self._workers if self._is_told and not self.is_apart else 1

    @property
    def is_apart(self) -> bool:
        """Whether each upload keeps a worker.

        By a proxy nothing is known of an answer but by waiting for it; and where files are read or handed over slowly,
        workers do so side by side.
        """
        return self._is_told is False or self._steady() < self._apart_until

    @property
    def has_begun(self) -> bool:
        """Whether uploads are under way that are anybody's to end."""
        return bool(self._sent or self._unsent)

    @property
    def has_unsent(self) -> bool:
        """Whether some of them have yet to be sent."""
        return bool(self._unsent)

    def lead(self) -> bool:
        """Ask to lead for a while, or to go on with it; False where another worker leads."""
        me, now = threading.get_ident(), self._steady()
        with self._lock:
            if self._leader != me and now < self._leads_until:
                return False
            self._leader, self._leads_until = me, now + LEAD
            return True

    def step_down(self) -> None:
        """Lead no more: what is to be done now may take its time."""
        with self._lock:
            if self._leader == threading.get_ident():
                self._leads_until = float("-inf")
                self._relief.notify()

    def stand_by(self, seconds: float) -> None:
        """Wait for so long at most until there is nobody who leads."""
        with self._lock:
            if self._steady() < self._leads_until:
                self._relief.wait(seconds)

    def took(self, seconds: float, files: int) -> None:
        """Hear how long it took to read some files and to hand them over."""
        # Over so many files, because a disk may falter for a moment.
        weight = min(1.0, files / _MANY)
        self._took += (seconds / files - self._took) * weight
        if self._took > SLOW:
            self._took = 0.0
            self._apart_until = self._steady() + _APART

    def reserve(self, most: int, lent: int = 0) -> int:
        """Let a worker have some files under way, `most` at most; what is not needed is to be given back.

        `lent` are those of which it has the outcomes, which go into the commit of the next intents.
        """
        with self._lock:
            count = max(0, min(self._free + lent, most))
            self._free -= count
            return count

    def give_back(self, count: int = 1) -> None:
        """Say that so many are not under way, or not any more: what became of them is on the disk."""
        with self._lock:
            self._free += count

    def hand_in(self, begun: Iterable[Begun]) -> None:
        """Put uploads where they are sent and ended by whoever leads."""
        with self._lock:
            for each in begun:
                if each.underway is None:
                    self._unsent.append(each)
                else:
                    self._sent.append(each)

    def next_unsent(self) -> Begun | None:
        """Give the upload that is to be sent next."""
        with self._lock:
            return self._unsent.popleft() if self._unsent else None

    def has_sent(self, underway: Underway) -> bool:
        """Hear of an upload that was sent; False where it is to be ended now, by waiting for it or because it is."""
        if underway.fileno() is not None:
            self._is_told = True
            return True
        if not underway.is_ready():
            self._is_told = False
        return False

    def collect(self, seconds: float) -> list[Begun]:
        """Wait for so long at most until some uploads can be ended without waiting, and give these; for who leads."""
        with self._lock:
            # Meanwhile they are nobody else's: an answer is read by one.
            begun, self._sent = self._sent, []
        ready: list[Begun] = []
        try:
            ready = self._overdue(begun) or _come(begun, seconds)
            while seconds and ready and len(ready) < len(begun):
                # Answers that come at once come together: to go on with one of them would cost a commit for each.
                rest = ready[0].since + AT_ONCE - self._steady()
                more = _come([each for each in begun if each not in ready], rest) if rest > 0 else []
                if not more:
                    break
                ready += more
            return ready
        finally:
            with self._lock:
                self._sent[:0] = [each for each in begun if each not in ready]

    def _overdue(self, begun: Iterable[Begun]) -> list[Begun]:
        """Give, once in a while, those of whose answers nothing comes any more: how long that may be, they know."""
        now = self._steady()
        if now < self._looks_at_all:
            return []
        self._looks_at_all = now + _ALL
        return _ready(begun)


def _ready(begun: Iterable[Begun]) -> list[Begun]:
    return [each for each in begun if each.underway is not None and each.underway.is_ready()]


def _come(begun: Iterable[Begun], seconds: float) -> list[Begun]:
    """Wait for so long until something of an answer has come, and give those of which all has."""
    poll = select.poll()
    known: dict[int, list[Begun]] = {}
    for each in begun:
        fileno = None if each.underway is None else each.underway.fileno()
        if fileno is not None and fileno >= 0:
            known.setdefault(fileno, []).append(each)
            poll.register(fileno, select.POLLIN)
    events = poll.poll(seconds * _TO_MILLISECONDS) if known else []
    return _ready(each for fileno, _event in events for each in known[fileno])
