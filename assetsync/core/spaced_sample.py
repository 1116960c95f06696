"""Keep evenly spaced values of a stream whose length is not known before."""

from typing import Generic, TypeVar

T = TypeVar("T")


class SpacedSample(Generic[T]):
    """Values of a stream at equal distances: all of the first, and never `2 * least` or more.

    Once `least` values were added, at least `least` are kept. In a sorted stream each run of neighbours that is longer
    than the distance is represented, so that a part of the values is not mistaken for all of them.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._count = 0
        self._distance = 1
        self.values: list[T] = []

    def add(self, value: T) -> None:
        """Add the next value of the stream; drop every second one if too many are kept."""
        if self._count % self._distance == 0:
            self.values.append(value)
        self._count += 1
        if len(self.values) == 2 * self._least:
            self.values = self.values[::2]
            self._distance *= 2
