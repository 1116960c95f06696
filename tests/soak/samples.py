"""What a process holds at a moment, and whether that grows.

A quantity may have any level; its growth is judged. That is a slope times the length of the stretch of samples. The
slope is the median of the slopes of all pairs of samples (Theil and Sen), so that single outliers have no influence. A
quantity fails if the lower end of the slope's 95 % confidence interval (Sen 1968) is over what is allowed: few samples
must all rise, and many may scatter. `QUANTITIES` states what each quantity may gain over a stretch of any length:

- descriptors, threads: pools start threads when they are needed first. A sample may meet a connection that closes soon.
- memory: caches of the interpreter and of SQLite fill up, and the allocator returns memory late.
- ledger: each version stays as history, with its attempt. Its size is compared with the number of files that came.
- write-ahead log: it grows until SQLite's checkpoint, and is then written again from its beginning.
- lines logged, requests: each cycle has the same work. An upload in doubt is looked up again and again, for longer on a
  busy machine: that was up to 150 requests a cycle.
"""

import math
import os
import sqlite3
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
_MOST_PAIRED = 400
"""Samples that are paired, at even distances: all pairs of eight hours would be millions."""
_MOST_SHOWN = 60
_DEVIATIONS = 1.96
"""Standard deviations on each side of an interval of 95 %."""


@dataclass(frozen=True)
class Quantity:
    """Something that must not grow. It may gain `gain` over a stretch, and `share` of its median."""

    name: str
    unit: str
    gain: float
    share: float = 0.0
    by: str = "seconds"
    """The field of a sample over which the slope is taken; with "files", `gain` is for each file."""
    scale: float = 1.0
    """How much of the sampled value is one unit."""

    def allowed(self, values: Sequence[float]) -> float:
        """Return the most that it may gain over the whole stretch."""
        return self.gain + self.share * statistics.median(values)


QUANTITIES = (
    Quantity("descriptors", "", gain=6),
    Quantity("threads", "", gain=3),
    Quantity("memory", "MiB", gain=24 * MIB, scale=MIB),
    Quantity("ledger", "KiB", gain=2 * KIB, by="files", scale=KIB),
    # A checkpoint is due at 4,000 pages of 4 KiB; the transaction that reaches it, and a reader, are above that.
    Quantity("write-ahead log", "MiB", gain=18 * MIB, scale=MIB),
    Quantity("lines a cycle", "", gain=20, share=0.5),
    Quantity("requests a cycle", "", gain=150, share=0.5),
)


@dataclass(frozen=True)
class Sample:
    """The quantities at the end of a cycle; `seconds` since the start, `files` that came since the start."""

    seconds: float
    files: int
    values: Mapping[str, float]
    targets: Mapping[str, int] = field(default_factory=dict)
    """Open descriptors by what they refer to."""


def descriptors(pid: int) -> Counter[str]:
    """Count the open descriptors of a process by target; sockets and pipes without their numbers.

    Raise PermissionError if the process holds a key and the caller is not root.
    """
    found: Counter[str] = Counter()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
        kind, colon, _ = target.partition(":[")
        found[kind if colon else target] += 1
    return found


def memory(pid: int) -> int:
    """Return the proportional set size of a process in bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    return int(text.split("\nPss:")[1].split()[0]) * KIB


def threads(pid: int) -> int:
    """Return the number of threads of a process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def ledger_bytes(ledger: Path) -> int:
    """Return the size of the database with what its write-ahead log still holds."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as conn:
        return conn.execute("PRAGMA page_count").fetchone()[0] * conn.execute("PRAGMA page_size").fetchone()[0]


class Slope(NamedTuple):
    """The median of the slopes of all pairs of samples, and the lower end of its 95 % confidence interval."""

    median: float
    low: float


def slope(samples: Sequence[Sample], quantity: Quantity) -> Slope:
    """Return the slope of a quantity over the samples; (0, 0) if no pair of them has one."""
    chosen = samples[:: -(-len(samples) // _MOST_PAIRED)]
    points = [(getattr(sample, quantity.by), sample.values[quantity.name]) for sample in chosen]
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1)
    if not slopes:
        return Slope(0.0, 0.0)
    n = len(points)
    width = _DEVIATIONS * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return Slope(statistics.median(slopes), slopes[max(0, int((len(slopes) - width) / 2))])


def judge(samples: Sequence[Sample]) -> list[str]:
    """Return a message for each quantity that grows over the samples."""
    return [message for quantity in QUANTITIES if (message := _grows(samples, quantity))]


def _grows(samples: Sequence[Sample], quantity: Quantity) -> str:
    steepness, low = slope(samples, quantity)
    values = [sample.values[quantity.name] for sample in samples]
    stretch = 1.0 if quantity.by == "files" else samples[-1].seconds - samples[0].seconds
    gained, allowed = steepness * stretch, quantity.allowed(values)
    if low * stretch <= allowed:
        return ""

    def text(value: float) -> str:
        return f"{value / quantity.scale:+.2f} {quantity.unit}".strip()

    if quantity.by == "files":
        grown = f"{text(gained)} a file, allowed are {text(allowed)}"
    else:
        grown = f"{text(steepness * 60)} a minute, {text(gained)} in {stretch:.0f} s, allowed are {text(allowed)}"
    shown = " ".join(f"{value / quantity.scale:.4g}" for value in values[-_MOST_SHOWN:])
    lines = [f"{quantity.name} grow: {grown}", f"  samples: {shown}"]
    if quantity.name == "descriptors":
        more = Counter(samples[-1].targets)
        more.subtract(samples[0].targets)
        lines += [f"  {count:+d} {target}" for target, count in more.most_common(10) if count > 0]
    return "\n".join(lines)
