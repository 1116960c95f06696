"""The simulated time: one true line on which everything happens, and the two clocks that the program reads off it."""

from collections.abc import Callable

START = 4_000_000_000.0
"""Beyond the real clock by decades: what the real disk says of ctime is settled and the same in every run."""


class SimClock:
    """`model.Clock` in simulated time; a wait moves the time on and lets others run (`waited`)."""

    def __init__(self) -> None:
        self.true = 0.0
        self._offset = START
        self._booted = -1000.0
        self._boots = 1
        self.jumped = 0.0
        self.set_back = 0.0
        self.waited: Callable[[float], None] = lambda _seconds: None

    def now(self) -> float:
        return self.true + self._offset

    def steady(self) -> float:
        return self.true - self._booted

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def wait(self, seconds: float) -> bool:
        if seconds > 0:
            self.true += seconds
        self.waited(seconds)
        return False

    def advance(self, seconds: float) -> None:
        self.true += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._offset += seconds
        self.jumped += max(seconds, 0.0)
        self.set_back += max(-seconds, 0.0)

    def reboot(self) -> None:
        self._boots += 1
        self._booted = self.true - 1.0
