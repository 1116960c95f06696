"""What is said of a file by its mapping, the sidecars of its folders and its own, ready for the form.

Reads sidecars through the tree; what they mean is `core.sidecar`'s. A folder's sidecar is kept for a moment, because
the files of a folder come one after the other.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass

from assetsync.core import sidecar
from assetsync.core.kinds import guess_kind
from assetsync.core.names import printable
from assetsync.errors import FileUnreadable, NotRegular, SidecarError
from assetsync.model import Clock, Mapping, Metadata, UploadOptions
from assetsync.tree.opening import Tree

_KEPT_SECONDS = 2.0
_KEPT_FOLDERS = 4096


@dataclass(frozen=True, slots=True)
class Told:
    """The form fields of one file; `digest` changes when any of it does."""

    fields: tuple[tuple[str, str], ...]
    language: str
    options: UploadOptions
    digest: str
    has_own: bool


class Sidecars:
    """Reads what is said of files; shared by all workers."""

    def __init__(self, tree: Tree, clock: Clock, fields_table: AnyMapping[str, tuple[str, str]]) -> None:
        self._tree = tree
        self._clock = clock
        self._fields_table = fields_table
        self._lock = threading.Lock()
        self._folders: OrderedDict[bytes, tuple[float, Metadata | None]] = OrderedDict()

    def told(self, path: bytes, mapping: Mapping) -> Told:
        """Merge all levels for the file at `path`; raises SidecarError for the first that cannot be used."""
        levels = [sidecar.expand(mapping.metadata, path)]
        own: Metadata | None = None
        if mapping.sidecars:
            for folder_sidecar in sidecar.folder_sidecars(path):
                level = self._folder(folder_sidecar, mapping)
                if level is not None:
                    levels.append(level)
            own = self._read(sidecar.sidecar_for(path), mapping)
            if own is not None:
                levels.append(own)
        merged = sidecar.merge(levels)
        fields = sidecar.form_fields(merged, guess_kind(path.rpartition(b"/")[2]), self._fields_table)
        options = sidecar.upload_options(merged, mapping.upload)
        language = sidecar.language_of(merged)
        return Told(fields, language, options, sidecar.digest(fields, options, language), own is not None)

    def forget(self) -> None:
        """Read every folder's sidecar anew from here on."""
        with self._lock:
            self._folders.clear()

    def _folder(self, path: bytes, mapping: Mapping) -> Metadata | None:
        now = self._clock.steady()
        with self._lock:
            kept = self._folders.get(path)
        if kept is not None and now - kept[0] < _KEPT_SECONDS:
            return kept[1]
        level = self._read(path, mapping)
        with self._lock:
            self._folders[path] = (now, level)
            while len(self._folders) > _KEPT_FOLDERS:
                self._folders.popitem(last=False)
        return level

    def _read(self, path: bytes, mapping: Mapping) -> Metadata | None:
        try:
            data = self._tree.read_small(path, sidecar.MAX_BYTES)
        except FileUnreadable as error:
            if error.vanished:
                return None
            raise SidecarError(printable(path), "it cannot be read", hint=error.hint or error.message) from error
        except NotRegular as error:
            raise SidecarError(printable(path), "it is no regular file", hint="replace it by a file") from error
        level = sidecar.parse_sidecar(data, printable(path))
        sidecar.check_skip_event(level, mapping.upload, printable(path))
        return level
