"""How far a run is, on stderr, where that is no terminal: events when a phase begins, goes on and ends.

What the phases are and when they change is `reconcile`'s.
"""

import time
from types import TracebackType
from typing import Self

import structlog

log = structlog.get_logger(__name__)


class Silent:
    """Shows nothing."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Tell how much of the phase is done; `done` is in files, a large one on its way counts by its part."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        """Finish what is shown."""


class Events(Silent):
    """Logs the beginning and the end of each phase, and in a long one how far it is."""

    def __init__(self, *, every: float = 10.0) -> None:
        """Say how far a phase is every so many seconds."""
        self._every = every
        self._next = 0.0
        self._total: int | None = None
        self._name: str | None = None
        self._done = 0.0
        self._bytes = 0
        self._hashed = 0
        self._began = 0.0
        self._first: float | None = None
        self._before = (0, 0)

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase, which ends the one before."""
        self._end()
        self._name, self._total = name, total
        self._done, self._bytes, self._hashed, self._began = 0.0, 0, 0, time.monotonic()
        self._first = None
        self._next = self._began + self._every
        log.info("phase begins", phase=name, **({} if total is None else {"files": total}))

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Keep how much is done, for the event at the end, and say it now and then."""
        if self._first is None:
            # Reading back begins with what was verified and sent before: that is no speed.
            self._first, self._before = done, (bytes_done, bytes_hashed)
        self._done, self._bytes, self._hashed = done, bytes_done - self._before[0], bytes_hashed - self._before[1]
        now = time.monotonic()
        if self._name is not None and now >= self._next:
            self._next = now + self._every
            log.info("phase goes on", phase=self._name, files=int(done), **self._pace(now - self._began))

    def _pace(self, seconds: float) -> dict[str, object]:
        """Give how fast it goes, and how long it takes yet where the end is known."""
        rate = (self._done - (self._first or 0)) / seconds
        said: dict[str, object] = {"files_per_second": round(rate, 1)}
        if self._bytes:
            said["bytes"] = self._bytes
        if self._hashed:
            said["bytes_hashed"] = self._hashed
        if self._total is not None and rate:
            said |= {"of": self._total, "seconds_left": round(max(0, self._total - self._done) / rate)}
        return said

    def _end(self) -> None:
        if self._name is None:
            return
        counted = {"files": int(self._done)} | ({"bytes": self._bytes} if self._bytes else {})
        log.info("phase ends", phase=self._name, seconds=round(time.monotonic() - self._began, 1), **counted)
        self._name = None
