"""What a look at a path means: whether it is settled, new, changed.

Pure: the facts of the file, what the ledger last knew of the path, and the time go in. What follows from the answer is
`flow.intake`'s, whether the content is really different is found out when the file is to be sent.
"""

from enum import StrEnum

from assetsync.model import FileStat

EMPTY = ("empty_file", "the file is empty and the service refuses empty files: it waits for content")
"""Why an empty file is held, as a word and for a person."""


class Change(StrEnum):
    """How a file on disk stands to the current version in the ledger."""

    UNCHANGED = "unchanged"
    NEW = "new"
    CHANGED = "changed"
    TOUCHED = "touched"
    REMAPPED = "remapped"


def compare(seen: FileStat, destfolderid: str, known: FileStat | None, known_folder: str | None) -> Change:
    """Compare what is on disk with the current version of the path.

    TOUCHED: same size and mtime, but the inode or the ctime differ, so that the content may have been replaced by a
    tool that sets times back. CHANGED wins over REMAPPED: the new version is queued for the new folder anyway.
    """
    if known is None:
        return Change.NEW
    if (seen.size, seen.mtime_ns) != (known.size, known.mtime_ns):
        return Change.CHANGED
    if destfolderid != known_folder:
        return Change.REMAPPED
    if (seen.inode, seen.ctime_ns) != (known.inode, known.ctime_ns):
        return Change.TOUCHED
    return Change.UNCHANGED


def is_settled(seen: FileStat, now: float, settle: float) -> bool:
    """Whether one look is enough: mtime and ctime both lie between the epoch and `now` - `settle` seconds.

    A time in the future or before 1970 tells nothing; such a file is looked at twice.
    """
    horizon = int((now - settle) * 1e9)
    return 0 <= seen.mtime_ns <= horizon and 0 <= seen.ctime_ns <= horizon


def still_same(earlier: FileStat, later: FileStat) -> bool:
    """Whether two looks, `settle` apart, saw the same version."""
    return earlier == later
