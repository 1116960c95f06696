"""Reads the list of members from the end of a ZIP archive; nothing is unpacked.

`sync.readback.archive_members` compares the members with the service's assets.
"""

import io
import zipfile
from collections.abc import Iterator

from assetsync.tree.safe_open import OpenFile

_LIST_LIMIT = 16 * 1024 * 1024
"""Largest read in bytes: the size of the list in an archive may be false."""


class _Seekable(io.RawIOBase):
    """An adapter from an open file to the interface of `zipfile`."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set and return the offset; raises ValueError for an offset before the beginning."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.stat.size}[whence]
        if start + offset < 0:
            raise ValueError("an offset before the beginning")
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read at the offset; raises ValueError for more than `_LIST_LIMIT` bytes, and FileUnreadable."""
        size = max(0, self._file.stat.size - self._at) if size < 0 else size
        if size > _LIST_LIMIT:
            raise ValueError("the list of members is too long")
        piece = self._file.read(size, self._at)
        self._at += len(piece)
        return piece


def top_members(file: OpenFile) -> Iterator[tuple[str, int]]:
    """Yield name and size in bytes of each member that is in no folder and not empty.

    Yield nothing for a file that is not a readable archive. Raises FileUnreadable.
    """
    try:
        with zipfile.ZipFile(_Seekable(file)) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        return
    for info in listed:
        if info.file_size and "/" not in info.filename:
            yield info.filename, info.file_size
