"""The progress of a run on a terminal: a bar for each phase, with its rate and the time left.

`progress` (beside this module) logs events where there is no terminal; the phases are defined by `reconcile`.
"""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from assetsync.cli.progress import Silent
from assetsync.text import amount


class Bar(Silent):
    """A progress bar for each phase, with its rate and the time left."""

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
        self._first: float | None = None
        self._sent = self._hashed = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def phase(self, name: str, total: int | None = None) -> None:
        """Replace the bar of the previous phase by a new one."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=total, rate="")
        self._began, self._first = time.monotonic(), None

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        """Move the bar, also within a large file."""
        if self._task is None:
            return
        seconds = max(time.monotonic() - self._began, 0.001)
        if self._first is None:
            # The verify phase starts with the files verified and the bytes sent before it: the rate counts from here.
            self._first, self._sent, self._hashed = done, bytes_done, bytes_hashed
        sent, hashed = bytes_done - self._sent, bytes_hashed - self._hashed
        rate = f"{(done - self._first) / seconds:,.0f} files/s"
        rate += f" {amount(sent)} {amount(sent / seconds)}/s" if sent > 0 else ""
        rate += f" {amount(hashed)} hashed" if hashed else ""
        self._bars.update(self._task, completed=done, rate=rate)

    def _end(self) -> None:
        self._bars.stop()
