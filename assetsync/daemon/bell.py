"""Wake idle loops."""

import threading


class Bell:
    """A counter of rings to wait for.

    A ring wakes every waiting thread, and every thread that read the counter before the ring.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        """Wake all waiting threads."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """Return the number of rings so far, the argument of `wait`."""
        return self._rings

    def wait(self, heard: int, patience: float) -> None:
        """Return at the first ring after `heard`, or after `patience` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._rings != heard, patience)
