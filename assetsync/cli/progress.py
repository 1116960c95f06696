"""How far a run is, on stderr: a bar on a terminal, one event at the beginning and end of each phase elsewhere.

What the phases are and when they change is `reconcile`'s.
"""

import time
from types import TracebackType
from typing import Self

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from assetsync.cli.output import amount

log = structlog.get_logger()


class Silent:
    """Shows nothing."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def at(self, done: int, bytes_done: int = 0) -> None:
        """Tell how much of the phase is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        """Finish what is shown."""


class Events(Silent):
    """Logs the beginning and the end of each phase."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._done = 0
        self._bytes = 0
        self._began = 0.0

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase, which ends the one before."""
        self._end()
        self._name, self._done, self._bytes, self._began = name, 0, 0, time.monotonic()
        log.info("phase begins", phase=name, **({} if total is None else {"files": total}))

    def at(self, done: int, bytes_done: int = 0) -> None:
        """Keep how much is done, for the event at the end."""
        self._done, self._bytes = done, bytes_done

    def _end(self) -> None:
        if self._name is None:
            return
        counted = {"files": self._done} | ({"bytes": self._bytes} if self._bytes else {})
        log.info("phase ends", phase=self._name, seconds=round(time.monotonic() - self._began, 1), **counted)
        self._name = None


class Bar(Silent):
    """A bar a phase, with the rate and the time that is left."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<7}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            refresh_per_second=5,
        )
        self._task: TaskID | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a bar in place of the one before."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=total, rate="")
        self._began = time.monotonic()

    def at(self, done: int, bytes_done: int = 0) -> None:
        """Move the bar."""
        if self._task is None:
            return
        seconds = max(time.monotonic() - self._began, 0.001)
        rate = f"{done / seconds:,.0f} files/s" + (f" {amount(bytes_done / seconds)}/s" if bytes_done else "")
        self._bars.update(self._task, completed=done, rate=rate)

    def _end(self) -> None:
        self._bars.stop()
