"""The progress of a run as log events at the start, during, and at the end of each phase.

Used if stderr is not a terminal; `bar` draws on a terminal. The phases are defined by `reconcile`.
"""

import time
from types import TracebackType
from typing import Self

import structlog

log = structlog.get_logger(__name__)


class Silent:
    """A progress display that shows nothing."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Report how much of the phase is done.

        `done` counts files; a large file in flight counts by the fraction of it that is sent.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        """End the display."""


class Events(Silent):
    """Log events at the start and the end of each phase, and in between in a long phase."""

    def __init__(self, *, every: float = 10.0) -> None:
        """Log the progress of a phase every `every` seconds."""
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
        """Begin a phase and end the previous phase."""
        self._end()
        self._name, self._total = name, total
        self._done, self._bytes, self._hashed, self._began = 0.0, 0, 0, time.monotonic()
        self._first = None
        self._next = self._began + self._every
        log.info("phase begins", phase=name, **({} if total is None else {"files": total}))

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Record how much is done for the event at the end, and log it if `every` seconds have passed."""
        if self._first is None:
            # The verify phase starts with the files verified and the bytes sent before it: the rate leaves them out.
            self._first, self._before = done, (bytes_done, bytes_hashed)
        self._done, self._bytes, self._hashed = done, bytes_done - self._before[0], bytes_hashed - self._before[1]
        now = time.monotonic()
        if self._name is not None and now >= self._next:
            self._next = now + self._every
            log.info("phase goes on", phase=self._name, files=int(done), **self._pace(now - self._began))

    def _pace(self, seconds: float) -> dict[str, object]:
        """Return the rate of the phase, and the seconds left if its total is known, as fields of an event."""
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
