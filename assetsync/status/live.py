"""Values that only the running process knows: watcher, next runs, late loops; `daemon.runtime_info` collects them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the watcher can be trusted.

    `watched` counts the folders that the kernel watches for this process, `folders` the folders of the mapped trees.
    Both are as of the last scan, None before the first. `limit` is fs.inotify.max_user_watches. With `polling` the tree
    is scanned every minute. `canary_at` is the last check that the watcher passed, in seconds since the epoch.
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
    """The state of the running process at one time.

    `next_runs` holds seconds since the epoch by job, without jobs that are off. `late` names the loops that missed
    their deadline. `settling` counts the files that are not settled yet, `adopted` those that got their asset without
    an upload.
    """

    version: str
    started_at: float
    trust: Trust
    next_runs: dict[str, float] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    settling: int = 0
    adopted: int = 0
