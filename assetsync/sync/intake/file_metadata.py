"""Collect the metadata of a file for the upload form: from its mapping, its folders' sidecars and its own sidecar.

This module reads sidecars through the tree; their meaning is left to `core.metadata`. A folder's sidecar is cached
briefly, because the files of a folder come one after another.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from assetsync.core import metadata
from assetsync.core.metadata import guess_kind
from assetsync.core.names import printable
from assetsync.errors import FileUnreadable, NotRegular, SidecarError
from assetsync.model import Clock, Mapping, Metadata, UploadOptions
from assetsync.tree.safe_open import Tree

_KEPT_SECONDS = 2.0
_KEPT_FOLDERS = 4096
_KEPT_FIELDS = 20_000
_KEPT_SAYINGS = 32
_MOST_READ = 512 * 1024


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The metadata of one file; `digest` covers `fields`, `options` and `language`.

    `folders_written` is when the youngest sidecar of its folders was written (seconds since the epoch), 0 without one.
    """

    fields: tuple[tuple[str, str], ...]
    language: str
    options: UploadOptions
    digest: str
    has_own: bool
    own_is_empty: bool = False
    folders_written: float = 0.0


class _Kept(NamedTuple):
    """A cached folder sidecar: metadata (None without one), bytes, and time of writing (seconds since the epoch)."""

    level: Metadata | None
    size: int
    written: float


class Sidecars:
    """Reads and merges the metadata of files; shared by all workers."""

    def __init__(self, tree: Tree, clock: Clock, fields_table: AnyMapping[str, tuple[str, str]]) -> None:
        self._tree = tree
        self._clock = clock
        self._fields_table = fields_table
        self._lock = threading.Lock()
        self._folders: OrderedDict[bytes, tuple[float, _Kept]] = OrderedDict()
        self._fields = 0
        self.changes = 0
        """Rises before each recorded change. Metadata that was read at another count may be out of date."""
        self.met: Callable[[bytes], None] = lambda _path: None
        """Called with the path of each sidecar that was read."""
        # The files of a folder mostly have the same metadata.
        self._said = lru_cache(maxsize=_KEPT_SAYINGS)(self._merged)

    def misnames(self, path: bytes, kind: str) -> bool:
        """Return whether the field names of a file are wrong for `kind`, the kind that the service assigned."""
        return kind in self._fields_table and self._fields_table[kind] != self._fields_table[guess_kind(path)]

    def told(self, path: bytes, mapping: Mapping, kind: str | None = None, *, is_alone: bool = False) -> FileMetadata:
        """Merge all levels for the file at `path`. Raise SidecarError for the first level that cannot be used.

        The fields are named for `kind`, which the service assigned; before the upload the kind is guessed.
        `is_alone`: the file was just seen to have no sidecar of its own.
        """
        levels = [metadata.expand(mapping.metadata, path)]
        own: Metadata | None = None
        own_size = together = 0
        folders_written = 0.0
        if mapping.sidecars:
            for folder_sidecar in metadata.folder_sidecars(path):
                level, size, written = self._folder(folder_sidecar, mapping)
                together += size
                if together > _MOST_READ:
                    # Each sidecar is small enough, but a tree may be deep, and each file in it would read them all.
                    problem = f"the sidecars of its folders together hold over {_MOST_READ // 1024} KiB"
                    raise SidecarError(printable(path), problem, hint="shorten them")
                if level is not None:
                    levels.append(level)
                    folders_written = max(folders_written, written)
            if not is_alone:
                own, own_size = self.read(metadata.sidecar_for(path), mapping)
            if own is not None:
                levels.append(own)
        named = kind if kind in self._fields_table else guess_kind(path)
        has_own = own is not None
        told = self._said(
            tuple(levels), named, mapping.upload, has_own, has_own and not own_size, folders_written=folders_written
        )
        if told.fields:
            metadata.check_together(told.fields, printable(path))
        return told

    def _merged(
        self,
        levels: tuple[Metadata, ...],
        kind: str,
        allowed: UploadOptions,
        has_own: bool,
        is_empty: bool,
        *,
        folders_written: float,
    ) -> FileMetadata:
        merged = metadata.merge(levels)
        fields = metadata.form_fields(merged, kind, self._fields_table)
        options = metadata.upload_options(merged, allowed)
        language = metadata.language_of(merged)
        digest = metadata.digest(fields, options, language)
        return FileMetadata(fields, language, options, digest, has_own, is_empty, folders_written)

    def forget(self) -> None:
        """Drop all cached folder sidecars, so that each is read again."""
        with self._lock:
            self.changes += 1
            self._folders.clear()
            self._fields = 0

    def read(self, path: bytes, mapping: Mapping) -> tuple[Metadata | None, int]:
        """Return the metadata of one sidecar, None without one, and its size in bytes. Raise SidecarError."""
        if self._tree.is_absent(path):
            return None, 0
        try:
            data = self._tree.read_small(path, metadata.MAX_BYTES)
        except FileUnreadable as error:
            if error.vanished:
                return None, 0
            raise SidecarError(printable(path), "it cannot be read", hint=error.hint or error.message) from error
        except NotRegular as error:
            raise SidecarError(printable(path), "it is not a regular file", hint="replace it by a file") from error
        self.met(path)
        level = metadata.parse_sidecar(data, printable(path))
        metadata.check_skip_event(level, mapping.upload, printable(path))
        return level, len(data)

    def _folder(self, path: bytes, mapping: Mapping) -> _Kept:
        now = self._clock.steady()
        with self._lock:
            kept = self._folders.get(path)
        if kept is not None and now - kept[0] < _KEPT_SECONDS:
            return kept[1]
        changes = self.changes
        level, size = self.read(path, mapping)
        # Read the time after the content, so that a write in between shows.
        written = 0.0 if level is None else self._written(path)
        kept_now = _Kept(level, size, written)
        with self._lock:
            if self.changes != changes:
                # The content may predate the change. Return it to this caller, who asked before; do not cache it.
                return kept_now
            before = self._folders.pop(path, None)
            self._fields -= 0 if before is None else _weight(before[1].level)
            self._folders[path] = (now, kept_now)
            self._fields += _weight(level)
            while len(self._folders) > _KEPT_FOLDERS or self._fields > _KEPT_FIELDS:
                self._fields -= _weight(self._folders.popitem(last=False)[1][1].level)
        return kept_now

    def _written(self, path: bytes) -> float:
        try:
            found = self._tree.lstat(path)
        except FileUnreadable as error:
            raise SidecarError(printable(path), "it cannot be looked at", hint=error.hint or error.message) from error
        return 0.0 if found is None else max(found.mtime_ns, found.ctime_ns) / 1e9


def _weight(level: Metadata | None) -> int:
    """Return the rough size of a cached sidecar: a folder's may be as large as any, and there may be many folders."""
    if level is None:
        return 1
    texts = (level.description or "", level.location or "", *(value for _, value in level.meta))
    return 1 + len(level.meta) + len(level.keywords or ()) + sum(map(len, texts)) // 100
