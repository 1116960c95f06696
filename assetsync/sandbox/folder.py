"""The data folder of a sandbox: create it, lock it for one sandbox, and refuse a folder that is not a sandbox's.

Its contents are left to `store`, which empties the subfolder of incoming bodies at each start.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from assetsync.errors import UsageError

DATABASE: Final = "sandbox.db"
INCOMING: Final = "incoming"
FILES: Final = "files"
_LOCK: Final = "sandbox.lock"


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder; create the folder if it is missing.

    Raise UsageError if another sandbox holds the folder, if it has subfolders with a sandbox's names but no database,
    or if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [name for name in (FILES, INCOMING) if os.path.lexists(folder / name)]
        if others and not (folder / DATABASE).exists():
            raise UsageError(
                f"{folder / others[0]} is not a sandbox's",
                hint="choose a folder that is not there yet, or an empty one",
            )
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise UsageError(
            f"The folder {folder} cannot be used ({exc.strerror})", hint="choose another, or make room there"
        ) from exc
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise UsageError(
                f"Another sandbox uses the folder {folder}", hint="stop it first, or choose another folder"
            ) from exc
        yield
    finally:
        os.close(fd)
