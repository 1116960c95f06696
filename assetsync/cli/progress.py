"""The progress of a run on stderr: a bar for each phase on a terminal, log events elsewhere.

The phases are defined by `reconcile`.
"""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog

from assetsync.text import amount

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

log = structlog.get_logger(__name__)


class Silent:
    """A progress that is measured and not shown."""

    _name: str | None = None
    _total: int | None = None
    _began = 0.0
    _first: tuple[float, int, int] | None = None
    _last: tuple[float, int, int] = (0.0, 0, 0)

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase and end the previous one."""
        self._name, self._total, self._began = name, total, time.monotonic()
        self._first, self._last = None, (0.0, 0, 0)

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Report how much of the phase is done.

        `done` counts files; a large file in flight counts by the fraction of it that is sent.
        """
        self._last = (done, bytes_done, bytes_hashed)
        self._first = self._first or self._last

    def _in_phase(self) -> tuple[float, int, int]:
        """Return the files, bytes sent and bytes hashed of this phase alone.

        The verify phase starts with the files verified and the bytes sent before it.
        """
        first = self._first or (0.0, 0, 0)
        return self._last[0] - first[0], self._last[1] - first[1], self._last[2] - first[2]

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

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase and end the previous one."""
        self._end()
        super().phase(name, total)
        self._next = self._began + self._every
        log.info("phase begins", phase=name, **({} if total is None else {"files": total}))

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Record how much is done for the event at the end, and log it if `every` seconds have passed."""
        super().at(done, bytes_done, bytes_hashed)
        now = time.monotonic()
        if self._name is not None and now >= self._next:
            self._next = now + self._every
            log.info("phase goes on", phase=self._name, files=int(done), **self._pace(now - self._began))

    def _pace(self, seconds: float) -> dict[str, object]:
        """Return the rate of the phase, and the seconds left if its total is known, as fields of an event."""
        files, sent, hashed = self._in_phase()
        rate = files / seconds
        figures: dict[str, object] = {"files_per_second": round(rate, 1)}
        if sent:
            figures["bytes"] = sent
        if hashed:
            figures["bytes_hashed"] = hashed
        if self._total is not None and rate:
            figures |= {"of": self._total, "seconds_left": round(max(0, self._total - self._last[0]) / rate)}
        return figures

    def _end(self) -> None:
        if self._name is None:
            return
        sent = self._in_phase()[1]
        counted = {"files": int(self._last[0])} | ({"bytes": sent} if sent else {})
        log.info("phase ends", phase=self._name, seconds=round(time.monotonic() - self._began, 1), **counted)
        self._name = None


class Bar(Silent):
    """A progress bar for each phase, with its rate and the time left."""

    def __init__(self, console: "Console") -> None:
        # rich is slow to load, and needed only on a terminal.
        from rich import progress  # noqa: PLC0415

        self._bars = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description:<7}"),
            progress.BarColumn(bar_width=30),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            refresh_per_second=5,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def phase(self, name: str, total: int | None = None) -> None:
        """Replace the bar of the previous phase by a new one."""
        super().phase(name, total)
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=total, rate="")

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Move the bar, also within a large file."""
        super().at(done, bytes_done, bytes_hashed)
        if self._task is None:
            return
        seconds = max(time.monotonic() - self._began, 0.001)
        files, sent, hashed = self._in_phase()
        rate = f"{files / seconds:,.0f} files/s"
        rate += f" {amount(sent)} {amount(sent / seconds)}/s" if sent > 0 else ""
        rate += f" {amount(hashed)} hashed" if hashed else ""
        self._bars.update(self._task, completed=done, rate=rate)

    def _end(self) -> None:
        self._bars.stop()


def on_stderr(*, as_bar: bool, quiet: bool = False) -> Silent:
    """Return the progress for stderr: nothing if quiet, else a bar or log events."""
    if quiet:
        return Silent()
    if not as_bar:
        return Events()
    from rich.console import Console  # noqa: PLC0415 - as above

    return Bar(Console(stderr=True))
