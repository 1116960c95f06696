"""Measures commands and functions side by side: time, CPU and peak memory, as ratios of peers in one run.

What is measured, and how its tree or service comes about, is for the modules beside this one. Each of those has a
`run(Bench) -> list[Table]`. A ratio is taken between runs that alternate (ABAB…), because shared machines drift; the
best of each peer counts for time, since what disturbs a run only ever makes it longer.
"""

import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


class Missing(Exception):
    """The machine lacks what a benchmark needs; the text has the command that installs it."""


@dataclass(frozen=True)
class Bench:
    """What a benchmark is handed: whether it should be quick, and a folder that is removed afterwards."""

    small: bool
    scratch: Path

    def size(self, full: int, small: int) -> int:
        return small if self.small else full


@dataclass(frozen=True)
class Run:
    """One run: wall seconds, CPU seconds (its waited-for children included), peak MiB of the process; more by name."""

    seconds: float
    cpu: float
    rss: float
    said: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """What a benchmark found, ready to print; `notes` stand below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [f"### {self.title}", ""]
        widths = [max(len(row[i]) for row in (self.columns, *self.rows)) for i in range(len(self.columns))]
        lines.append(_line(self.columns, widths))
        lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
        lines += [_line(row, widths) for row in self.rows]
        return "\n".join([*lines, "", *self.notes, ""] if self.notes else [*lines, ""])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def command(*argv: str | Path, ok: Sequence[int] = (0,), env: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end, its output thrown away; another exit code than `ok` is an error with what it said."""
    with tempfile.TemporaryFile() as errors, tempfile.NamedTemporaryFile() as figures:
        # A child's peak counts what its parent held when it forked: so a parent that is small starts it.
        launcher = [sys.executable, "-I", "-S", __file__, "launch", figures.name]
        done = subprocess.run(
            [*launcher, *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            check=False,
        )
        if done.returncode not in ok:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-4000:]
            raise RuntimeError(f"{argv[0]} ended with {done.returncode}: {said}")
        return Run(**json.loads(Path(figures.name).read_text()))


def call(target: str, *args: str | float | None) -> Run:
    """Run `module:function` of this folder in a process of its own, timed without its start-up.

    What it gives back, a dict of figures, is kept in `said`; `seconds` and `cpu` in it replace the measured ones.
    """
    with tempfile.NamedTemporaryFile() as figures:
        argv = [sys.executable, "-m", "tests.benchmarks.frame", "call", figures.name, target, json.dumps(args)]
        subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return Run(**json.loads(Path(figures.name).read_text()))


def alternately(peers: Mapping[str, Callable[[], Run]], rounds: int = 5) -> dict[str, list[Run]]:
    """Run the peers in turn, so often."""
    runs: dict[str, list[Run]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, peer in peers.items():
            runs[name].append(peer())
    return runs


def best(runs: Sequence[Run]) -> Run:
    """Give the shortest run."""
    return min(runs, key=lambda run: run.seconds)


def median(runs: Sequence[Run], figure: str) -> float:
    """Give the median of a figure that the runs said, or of `seconds`, `cpu`, `rss`."""
    return statistics.median(getattr(run, figure) if hasattr(run, figure) else run.said[figure] for run in runs)


def beside(
    title: str, runs: Mapping[str, Sequence[Run]], peer: str, said: Sequence[str] = (), notes: Sequence[str] = ()
) -> Table:
    """Tell the best run of each beside that of `peer`: the ratio is its time divided by the peer's."""
    base = best(runs[peer])
    rows = []
    for name, all_of_it in runs.items():
        run = best(all_of_it)
        rows.append(
            [
                name,
                f"{run.seconds:.3f}",
                f"{run.cpu:.2f}",
                f"{max(each.rss for each in all_of_it):.0f}",
                f"{run.seconds / base.seconds:.2f}",
                *(f"{run.said[figure]:,.1f}" if figure in run.said else "" for figure in said),
            ]
        )
    return Table(title, ["what", "seconds", "CPU s", "peak MiB", f"x {peer}", *said], rows, notes)


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """Give k of a cost that grows as n to the k, from two points (n, cost)."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def exponent_of(first: float, last: float) -> dict[str, float]:
    """Give the exponent of what costs its own size: something for `call` to be tried with."""
    return {"exponent": exponent((first, first), (last, last))}


def machine() -> str:
    """Say in a line where the figures come from."""
    now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    return f"{now} UTC, {os.cpu_count()} cores, Linux {os.uname().release}, Python {sys.version.split()[0]}"


def _launch(figures: str, argv: Sequence[str]) -> int:
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - started
    said = {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024}
    Path(figures).write_text(json.dumps(said))
    return os.waitstatus_to_exitcode(status)


def _call(figures: str, target: str, args: Sequence[object]) -> None:
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(f"tests.benchmarks.{module}"), name)
    started, spent = time.perf_counter(), time.process_time()
    said = function(*args) or {}
    seconds, cpu = time.perf_counter() - started, time.process_time() - spent
    # Not ru_maxrss, in which this process would inherit the peak of the one that started it.
    status = Path("/proc/self/status").read_text()
    rss = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu += children.ru_utime + children.ru_stime
    figure = {"seconds": said.pop("seconds", seconds), "cpu": said.pop("cpu", cpu), "rss": rss, "said": said}
    Path(figures).write_text(json.dumps(figure))


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        sys.exit(_launch(sys.argv[2], sys.argv[3:]))
    _call(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
