"""What a scan found out besides the files: what it counted, and where it was blind.

Filled by `scan` as it goes. That a file is missing may be concluded only from a report that covers its path.
"""

from collections import Counter
from dataclasses import dataclass, field

# Every path that cannot be read is counted; so many are named.
NAMED = 1000

MOVED_AWAY = "it was moved or replaced during the scan"
"""The reason of what could not be read although everybody was let."""


@dataclass(slots=True)
class ScanReport:
    """Counts of one scan; `files` and `sidecars` are what was yielded, by kind.

    `ignored` counts what rules left out (a folder counts once, with all below it), `unmapped_files` the files beside
    mapped folders, `unmapped_count` the folders there that hold no mapping (`unmapped` names the first), `special` the
    links, pipes, sockets and devices under mapped folders. `per_mapping` counts files by mapping, `missing_mappings`
    lists the mappings whose folder is not there (known at the end). `devices` are the numbers of the file systems that
    were met.
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
        """Whether the scan went to its end, could read everything on the way, and met every mapped folder."""
        return self.finished and not self.unreadable_count and not self.missing_mappings

    def mark_left(self, path: bytes, mapping: int | None) -> None:
        """Note that a folder is not entered: because no mapping covers it or what is below, or by a rule of its own."""
        if mapping is not None:
            return
        self.unmapped_count += 1
        if len(self.unmapped) < NAMED:
            self.unmapped.append(path)

    def mark_unreadable(self, path: bytes, reason: str) -> None:
        """Note that nothing is known of `path`, a file or a folder, and of what is below it."""
        self.unreadable_count += 1
        if len(self.unreadable) < NAMED:
            self.unreadable.append((path, reason))
            self._blind.add(path)
        elif self._blind_from is None or path < self._blind_from:
            # Too many to remember each: the scan goes in byte order, so all before the first unnamed one still stands.
            self._blind_from = path

    def covers(self, path: bytes) -> bool:
        """Whether a file at `path` would have been yielded, were it there and mapped.

        False at and below what could not be read. While the scan runs, and after it was abandoned, true only for what
        sorts before the folder reached last.
        """
        return (self.finished or path < self.reached) and not self.blind_at(path)

    def blind_at(self, path: bytes) -> bool:
        """Whether a file at `path`, which the scan has passed, may be there although it was not yielded."""
        if self._blind_from is not None and path >= self._blind_from:
            return True
        if self._blind:
            if b"" in self._blind or path in self._blind:
                return True
            slash = path.find(b"/")
            while slash >= 0:
                if path[:slash] in self._blind:
                    return True
                slash = path.find(b"/", slash + 1)
        return False
