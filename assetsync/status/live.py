"""What only the running process knows of its site, handed in by the daemon: the watcher, the times, the loops."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the watcher can be trusted.

    `watched` and `folders` are as of the last scan: what the kernel watches for this process, and what there is in the
    mapped folders; None before the first. With `polling` the tree is scanned every minute.
    """

    mode: str
    polling: bool = False
    watched: int | None = None
    folders: int | None = None
    limit: int | None = None
    overflows: int = 0
    made_anew: int = 0
    canary_at: float | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """The running process at one time; `next_runs` are wall-clock seconds by job, without those that are off.

    `late` names the loops that missed their deadline, `settling` counts the files that are not at rest yet.
    """

    version: str
    started_at: float
    trust: Trust
    next_runs: dict[str, float] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    settling: int = 0
    adopted: int = 0
