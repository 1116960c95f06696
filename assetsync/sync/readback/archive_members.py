"""Recognize assets that the service unpacked from uploaded ZIP archives (interface section 4.3).

The service stores each member of an archive as an asset. Members at the top of the archive lie in the archive's folder.
Members in folders go to sub-folders of the service, which are not mapped. This module compares assets by name and size
with the list of members at the end of the archive, and unpacks nothing.
"""

import io
import zipfile
from collections.abc import Iterator

import structlog

from assetsync.core.mapping import Mappings
from assetsync.core.names import MAX_SENT, may_be, printable, sent_name
from assetsync.errors import SidecarError, TreeError
from assetsync.model import Asset
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.tree.safe_open import OpenFile

log = structlog.get_logger(__name__)

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

    Yield nothing for a file that is not a readable archive. Raise FileUnreadable.
    """
    try:
        with zipfile.ZipFile(_Seekable(file)) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        return
    for info in listed:
        if info.file_size and "/" not in info.filename:
            yield info.filename, info.file_size


_MOST = 100_000


class Members:
    """Names and sizes of the members of all archives in one folder; read again for each audit of a folder."""

    def __init__(self, context: Context, mappings: Mappings, sidecars: Sidecars) -> None:
        self._ledger = context.ledger
        self._tree = context.tree
        self._tick = context.heartbeat.tick
        self._mappings = mappings
        self._sidecars = sidecars
        self._folder: str | None = None
        self._names: dict[int, list[str]] = {}

    def begin(self) -> None:
        """Drop the members that were read, because archives may have changed."""
        self._folder = None

    def holds(self, folder: str, asset: Asset) -> bool:
        """Return whether an asset in the folder is, by its name and size, a member of an archive sent there."""
        if self._folder != folder:
            self._folder, self._names = folder, {}
            self._read(folder)
        return any(may_be(name, asset.filename) for name in self._names.get(asset.size or 0, ()))

    def _read(self, folder: str) -> None:
        count = 0
        for path in self._ledger.audits.archives(folder):
            # Show a sign of life: there may be many archives on a slow disk.
            self._tick()
            for name, size in self._members(path):
                if count >= _MOST:
                    after = "the audit may report others as unknown assets"
                    log.warning(
                        "too many members of archives to compare", destfolderid=folder, compared=count, next=after
                    )
                    return
                count += 1
                self._names.setdefault(size, []).append(name)

    def _members(self, path: bytes) -> Iterator[tuple[str, int]]:
        position = self._mappings.for_directory(path.rpartition(b"/")[0])
        if position is None:
            return
        try:
            if not self._sidecars.metadata_of(path, self._mappings.all[position]).options.zip_extract:
                return
            with self._tree.open(path) as file:
                for name, size in top_members(file):
                    # The service unpacks it, and cuts no name.
                    yield sent_name(name.encode("utf-8", "replace"), MAX_SENT), size
        except (SidecarError, TreeError) as error:
            log.debug("cannot be looked into", path=printable(path), why=str(error))
