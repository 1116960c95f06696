"""Threads of which one runs at a time, handed on at marked places: concurrency that is the same in every run.

A fiber runs until it has passed as many marks as it was let, and stands still at the next one until it is let go on.
Whoever runs holds the baton; there is no other scheduling. What a fiber does is the simulation's.
"""

import threading
from collections.abc import Callable


class Crash(BaseException):
    """The process dies here: nothing of the program may catch it."""


class Fiber:
    """One thread that does one piece of work after another, each from mark to mark."""

    def __init__(self, baton: "Baton", name: str) -> None:
        self._baton = baton
        self.name = name
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._work: Callable[[], object] | None = None
        self._marks = 0
        self._killed = False
        self._error: BaseException | None = None
        self._ends = False
        self.result: object = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether it stands in the middle of its work."""
        return self._work is not None

    def start(self, work: Callable[[], object], marks: int) -> bool:
        """Begin a piece of work and let it pass so many marks; True when it is done. Raises what the work raises."""
        self._work, self.result = work, None
        return self.resume(marks)

    def resume(self, marks: int) -> bool:
        """Let it pass so many more marks; True when its work is done. Raises what the work raises."""
        self._marks = marks
        before, self._baton.running = self._baton.running, self
        self._go.release()
        self._back.acquire()
        self._baton.running = before
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return not self.busy

    def mark(self) -> None:
        """Stand still here if the marks are used up; raises Crash when the process died meanwhile."""
        if self._marks > 0:
            self._marks -= 1
            return
        self._back.release()
        self._go.acquire()
        if self._killed:
            raise Crash

    def kill(self) -> None:
        """End the work where it stands."""
        if self.busy:
            self._killed = True
            try:
                self.resume(1_000_000)
            except Crash:
                pass
            finally:
                self._killed = False

    def close(self) -> None:
        """End the thread."""
        self.kill()
        self._ends = True
        self._go.release()
        self._thread.join()

    def _main(self) -> None:
        while True:
            self._go.acquire()
            if self._ends:
                return
            try:
                assert self._work is not None
                self.result = self._work()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever let it run
                self._error = error
            self._work = None
            self._back.release()


class Baton:
    """The fibers of one simulation, and which of them runs."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.running: Fiber | None = None
        self.fibers = {name: Fiber(self, name) for name in names}

    def mark(self, *names: str) -> None:
        """Mark a place at which a fiber, one of these if any are named, may have to stand still."""
        if self.running is not None and (not names or self.running.name in names):
            self.running.mark()

    def busy(self) -> list[Fiber]:
        """Give the fibers that stand in the middle of their work."""
        return [fiber for fiber in self.fibers.values() if fiber.busy]

    def kill(self) -> None:
        """End all work where it stands."""
        for fiber in self.fibers.values():
            fiber.kill()

    def close(self) -> None:
        """End all threads."""
        for fiber in self.fibers.values():
            fiber.close()
