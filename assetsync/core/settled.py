"""Decide whether a file is settled, new or changed, and how long it must rest before it is sent.

Pure: the facts of the file, the ledger's facts on the path, and the time go in. Acting on the decision is left to
`sync.intake.intake` and `sync.upload.prepare`. Whether the content really differs is checked when the file is sent.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from assetsync.model import FileStat

HOUR = 3600.0
"""Seconds. The longest time that changes make a file wait, unless `settle` is longer; also the span in which versions
are counted."""

KEEPS_CHANGING = "keeps_changing"
"""The reason word of a file that is held because changes cut off upload after upload."""

MOST_CUTS = 3
"""Uploads in a row that a change cut off before the file is held: each of them may have left a damaged asset."""

EMPTY = ("empty_file", "the file is empty, and the service rejects empty files: it waits for content")
"""Why an empty file is held: the reason word and the sentence."""


class Change(StrEnum):
    """How a file on disk differs from the current version in the ledger."""

    UNCHANGED = "unchanged"
    NEW = "new"
    CHANGED = "changed"
    TOUCHED = "touched"
    REMAPPED = "remapped"


def compare(seen: FileStat, destfolderid: str, known: FileStat | None, known_folder: str | None) -> Change:
    """Compare a file on disk with the current version of its path.

    TOUCHED: same size and mtime, but the inode or the ctime differs, so the content may have been replaced by a tool
    that restores times. CHANGED takes precedence over REMAPPED: the new version is queued for the new folder anyway.
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
    """Return whether a single look is enough: mtime and ctime are both between the epoch and `now` - `settle` seconds.

    A time in the future or before 1970 proves nothing; such a file is looked at twice.
    """
    horizon = int((now - settle) * 1e9)
    return 0 <= seen.mtime_ns <= horizon and 0 <= seen.ctime_ns <= horizon


class PastUpload(NamedTuple):
    """An upload of a path: when it ended (seconds since the epoch), and whether a change of the file cut it off."""

    at: float
    is_cut: bool = False


class Rest(NamedTuple):
    """Seconds that a file must have rested before it is sent; with `is_blocked` it is blocked until then."""

    seconds: float
    is_blocked: bool = False


def rest_after(uploads: Sequence[PastUpload], settle: float, now: float) -> Rest:
    """Return the rest that a path needs before its next upload.

    `uploads` are those of the path so far, oldest first: one of each version, and each that was cut off. The rest
    begins at `settle` seconds. It doubles, up to an hour, with each cut and with each version from the third within an
    hour on. It halves with each hour without an upload. After three cuts in a row it is an hour.
    """
    rest, cuts = settle, 0
    whole: list[float] = []
    last = now
    for upload in uploads:
        rest = _eased(rest, settle, upload.at - last)
        cuts = cuts + 1 if upload.is_cut else 0
        if upload.is_cut or _is_third(whole, upload.at):
            rest = _doubled(rest, settle)
        if not upload.is_cut:
            whole.append(upload.at)
        last = upload.at
    if cuts >= MOST_CUTS:
        return Rest(HOUR, is_blocked=True)
    rest = _eased(rest, settle, now - last)
    return Rest(_doubled(rest, settle) if _is_third(whole, now) else rest)


def unchanged_for(stat: FileStat, queued_at: float, uploads: Sequence[PastUpload], now: float) -> float:
    """Return for how many seconds a version has not changed.

    The time begins when the version was written or first seen unchanged, whichever is earlier; if a change cut off an
    upload after that, it begins at that moment. `queued_at` is when the version was first seen unchanged, in seconds
    since the epoch. Times in the future come from a clock that was set back later, and are ignored. If no time is left
    to begin from, the result is infinite.
    """
    known = [at for at in (queued_at, max(stat.mtime_ns, stat.ctime_ns) / 1e9) if 0 <= at <= now]
    if not known:
        return float("inf")
    # The clock of a file server may be behind: a file whose change cut off an upload has not rested since before that.
    cuts = [upload.at for upload in uploads if upload.is_cut and upload.at <= now]
    return now - max([min(known), *cuts])


def _eased(rest: float, settle: float, idle: float) -> float:
    """Halve a rest for each whole hour of `idle` seconds."""
    halvings = int(min(max(idle, 0.0) // HOUR, 30.0))
    return max(settle, rest / (1 << halvings))


def _doubled(rest: float, settle: float) -> float:
    return min(2 * rest, max(HOUR, settle))


def _is_third(whole: Sequence[float], at: float) -> bool:
    """Return whether a version sent at this time would be the third within an hour."""
    return len(whole) > 1 and at - whole[-2] < HOUR
