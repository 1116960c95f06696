"""The list of what a ZIP archive holds, read from its end; nothing is unpacked.

What the service makes of the members is `sync.readback.archive_members`'s.
"""

import io
import zipfile
from collections.abc import Iterator

from assetsync.tree.safe_open import OpenFile

_LIST_LIMIT = 16 * 1024 * 1024
"""Bytes of an archive's list that are read at once: an archive may lie about it."""


class _Seekable(io.RawIOBase):
    """An open file as `zipfile` wants it."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def readable(self) -> bool:
        """Say yes."""
        return True

    def tell(self) -> int:
        """Give the offset."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the offset; raises ValueError for one before the beginning."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.stat.size}[whence]
        if start + offset < 0:
            raise ValueError("an offset before the beginning")
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read at the offset; raises ValueError for more than a list of members may have."""
        size = max(0, self._file.stat.size - self._at) if size < 0 else size
        if size > _LIST_LIMIT:
            raise ValueError("the list of members is too long")
        piece = self._file.read(size, self._at)
        self._at += len(piece)
        return piece


def top_members(file: OpenFile) -> Iterator[tuple[str, int]]:
    """Give name and size of each member at the top of an archive, empty ones left out; none of what is no archive.

    Raises FileUnreadable.
    """
    try:
        with zipfile.ZipFile(_Seekable(file)) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        return
    for info in listed:
        if info.file_size and "/" not in info.filename:
            yield info.filename, info.file_size
