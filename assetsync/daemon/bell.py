"""Wakes loops that have nothing to do."""

import threading


class Bell:
    """A ring is heard by all that wait, and by those that were about to."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        """Wake all that wait."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """Give the number of rings so far, to be given to `wait`."""
        return self._rings

    def wait(self, heard: int, patience: float) -> None:
        """Return at the first ring after `heard`, or after `patience` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._rings != heard, patience)
