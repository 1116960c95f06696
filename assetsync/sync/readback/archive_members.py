"""Recognize assets that the service unpacked from uploaded ZIP archives (interface section 4.3).

The service stores each member of an archive as an asset. Members at the top of the archive lie in the archive's folder.
Members in folders go to sub-folders of the service, which are not mapped. This module compares assets by name and size
with the list of members at the end of the archive, and unpacks nothing.
"""

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress

import structlog

from assetsync.core.mapping import Mappings
from assetsync.core.names import MAX_SENT, may_be, printable, sent_name
from assetsync.errors import SidecarError, TreeError
from assetsync.model import Asset
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.tree.safe_open import OpenFile

log = structlog.get_logger(__name__)

_USUAL = 128 * 1024
_LIST_LIMIT = 16 * 1024 * 1024
"""Bytes at the end of an archive that are read: enough for most lists of members, and at most."""


def top_members(file: OpenFile) -> Iterator[tuple[str, int]]:
    """Yield name and size in bytes of each member that is in no folder and not empty.

    Yield nothing for a file that is not a readable archive. Raise FileUnreadable.
    """
    for most in (_USUAL, _LIST_LIMIT):
        # The list is at the end of the archive.
        end = io.BytesIO(file.read(most, max(0, file.stat.size - most)))
        with suppress(zipfile.BadZipFile, NotImplementedError, ValueError, EOFError), zipfile.ZipFile(end) as archive:
            listed = archive.infolist()
            break
    else:
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
