"""The result of a scan besides its files: counts, and the paths that it could not read.

`scan` fills the report during the walk. A file counts as missing only if the report covers its path; the consumer
checks this.
"""

from collections import Counter
from dataclasses import dataclass, field

from assetsync.core.mapping import folders_above

# Most paths that a report lists by name; all of them are counted.
NAMED = 1000

MOVED_AWAY = "it was moved or replaced during the scan"
"""The reason for a folder that could not be read although its permissions allow it."""


@dataclass(slots=True)
class ScanReport:
    """Counts of one scan.

    `files` and `sidecars` count what was yielded and what unchanged folders hold; `per_mapping` counts the files by
    mapping. `ignored` counts entries that the rules ignore; a folder counts once, with all below it. `unmapped_files`
    counts the files directly in unmapped folders that lead to a mapping. `unmapped_count` counts the folders that
    neither are mapped nor lead to a mapping; `unmapped` lists the first `NAMED`. `special` counts links, pipes, sockets
    and devices under mapped folders. `missing_mappings` lists the mappings whose folder does not exist; it is set at
    the end. `devices` holds the device numbers of the file systems that the scan entered. `reached` is the path up to
    which the scan came.
    """

    files: int = 0
    sidecars: int = 0
    ignored: int = 0
    unmapped_files: int = 0
    unmapped: list[bytes] = field(default_factory=list)
    unmapped_count: int = 0
    special: int = 0
    folders: int = 0
    unreadable: list[tuple[bytes, str]] = field(default_factory=list)
    unreadable_count: int = 0
    per_mapping: Counter[int] = field(default_factory=Counter)
    missing_mappings: list[int] = field(default_factory=list)
    devices: set[int] = field(default_factory=set)
    finished: bool = False
    reached: bytes = b""
    _blind: set[bytes] = field(default_factory=set, repr=False)
    _blind_from: bytes | None = field(default=None, repr=False)

    @property
    def complete(self) -> bool:
        """Whether the scan reached its end, read everything on the way and found every mapped folder."""
        return self.finished and not self.unreadable_count and not self.missing_mappings

    def mark_unmapped(self, path: bytes) -> None:
        """Count a folder that neither is mapped nor leads to a mapping."""
        self.unmapped_count += 1
        if len(self.unmapped) < NAMED:
            self.unmapped.append(path)

    def mark_unreadable(self, path: bytes, reason: str) -> None:
        """Record that `path`, a file or a folder, and everything below it could not be read."""
        self.unreadable_count += 1
        if len(self.unreadable) < NAMED:
            self.unreadable.append((path, reason))
            self._blind.add(path)
        elif self._blind_from is None or path < self._blind_from:
            # Too many paths to keep. The scan runs in byte order, so paths before the first unkept path stay certain.
            self._blind_from = path

    def covers(self, path: bytes) -> bool:
        """Return whether the scan would have yielded a mapped file at `path` if it existed.

        Return False at and below a path that could not be read. During a scan and after an abandoned one, return True
        only for paths that sort before `reached`.
        """
        return (self.finished or path < self.reached) and not self.blind_at(path)

    def blind_at(self, path: bytes) -> bool:
        """Return whether a file at `path`, which the scan has passed, may exist although it was not yielded."""
        if self._blind_from is not None and path >= self._blind_from:
            return True
        return bool(self._blind) and any(at in self._blind for at in (path, *folders_above(path)))
