"""The meter of a run that nobody measures."""

from assetsync.model import Sent


class Unmetered:
    """Takes everything and counts nothing (`model.Meter`)."""

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """See `Meter`."""

    def doubted(self, count: int = 1) -> None:
        """See `Meter`."""

    def decided(self, how: str) -> None:
        """See `Meter`."""

    def findable(self, seconds: float) -> None:
        """See `Meter`."""

    def ran(self, job: str, seconds: float) -> None:
        """See `Meter`."""
