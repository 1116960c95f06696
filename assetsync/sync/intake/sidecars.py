"""Find changed sidecars, and collect the metadata of a file for the upload form.

A scan's sidecars are compared with the ledger, and single ones that the watcher reported are looked at; their content
is read when their file is sent. A file's metadata come from its mapping, its folders' sidecars, its XMP file and its
own sidecar. The meaning of a sidecar is left to `core.metadata`, that of an XMP file to `core.xmp`. A folder's sidecar
is cached briefly, because the files of a folder come one after another.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import structlog

from assetsync.config.document.metadata import CUSTOM_FIELD, FieldNames
from assetsync.core import metadata
from assetsync.core.kinds import guess_kind
from assetsync.core.mapping import Mappings, Plan
from assetsync.core.metadata import NOTHING, XMP_ENDINGS, FieldMistake, Sendable, is_xmp_name, own_sidecars, xmp_names
from assetsync.core.names import printable
from assetsync.core.sent_texts import UNKNOWN, Texts
from assetsync.core.settled import is_settled
from assetsync.core.xmp import Xmp, parse_xmp, xmp_metadata
from assetsync.errors import FileUnreadable, NotRegular, RootMissing, SidecarError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.versions import SidecarChange
from assetsync.model import Clock, FileStat, Mapping, Metadata, Seen, UploadOptions
from assetsync.sync.context import Context
from assetsync.tree.safe_open import Tree
from assetsync.tree.scan_report import ScanReport

log = structlog.get_logger(__name__)

_SMALL_XMP = 128 * 1024
"""Bytes up to which XMP files are parsed at the same time. Parsing one takes up to a hundred times its size."""

_KEPT_SECONDS = 2.0
_MOST_CACHED = 32
_MOST_READ = 512 * 1024
"""Most bytes of the folder sidecars of one file."""


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The metadata of one file; `digest` covers `fields`, `options` and `language`.

    `fields` are named for `kind`. `sent` has those that are sent: what is left out of them is no drift.
    `folders_written` is when the youngest sidecar of its folders was written (seconds since the epoch), 0 without one.
    `texts`: the description and keywords among `fields`, as far as a search shows them, which is in English.
    `depends_on_kind`: another kind of asset would have other fields. `own`: the paths of its own sidecars, its XMP file
    included.
    """

    fields: tuple[tuple[str, str], ...]
    language: str
    options: UploadOptions
    digest: str
    own: tuple[bytes, ...] = ()
    own_is_empty: bool = False
    folders_written: float = 0.0
    texts: Texts = UNKNOWN
    depends_on_kind: bool = False
    kind: str = "other"
    sent: Sendable = NOTHING

    @property
    def xmp(self) -> bytes | None:
        """The path of the XMP file, None without one."""
        return next((path for path in self.own if is_xmp_name(path)), None)


class Recorded(NamedTuple):
    """What the ledger has recorded: the endings of XMP files, and processed uploads of a kind that had metadata.

    An upload is the path of its file, the digest of the metadata that was sent, and the mapping of the file.
    """

    xmp_endings: Callable[[], Sequence[bytes]] = lambda: XMP_ENDINGS
    processed: Callable[[str], Iterable[tuple[bytes, str, Mapping]]] = lambda _kind: ()


def processed_uploads(ledger: Ledger, mappings: Mappings, kind: str) -> Iterator[tuple[bytes, str, Mapping]]:
    """Yield the uploads for `Recorded.processed`."""
    without = {metadata.digest((), mapping.upload) for mapping in mappings.all}
    for row in ledger.metadata_drift.processed(kind, without):
        position = mappings.for_directory(row.path.rpartition(b"/")[0])
        if position is not None and row.meta_digest is not None:
            yield row.path, row.meta_digest, mappings.all[position]


class MetadataLevel(NamedTuple):
    """The metadata of one level, and the sidecar that gives it; None for the mapping."""

    metadata: Metadata
    sidecar: bytes | None


class _Levels(NamedTuple):
    """All levels of a file, the most general first, and what `FileMetadata` tells of its sidecars."""

    levels: tuple[MetadataLevel, ...] = ()
    own: tuple[bytes, ...] = ()
    own_is_empty: bool = False
    folders_written: float = 0.0


class _FolderSidecar(NamedTuple):
    """A folder sidecar: metadata (None without one), bytes, and time of writing (seconds since the epoch)."""

    level: Metadata | None
    size: int
    written: float


class SidecarCache:
    """The count of changes up to which a cached sidecar holds, and the turn to parse large ones; for all workers."""

    def __init__(self, tick: Callable[[], bool] = lambda: False) -> None:
        """Begin to count; `tick` is called while an XMP file is parsed, or waits for its turn."""
        self._tick = tick
        self._large = threading.Lock()
        self._lock = threading.Lock()
        self.changes = 0
        """Rises before each recorded change. Metadata that was read at another count may be out of date."""

    def forget(self) -> None:
        """Let each folder sidecar be read again."""
        with self._lock:
            self.changes += 1

    def in_turn(self, pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
        """Yield the pieces of an XMP file, those beyond `_SMALL_XMP` bytes in one thread at a time, to save memory."""
        size = 0
        with ExitStack() as turn:
            for piece in pieces:
                if size <= _SMALL_XMP < size + len(piece):
                    while not self._large.acquire(timeout=1.0):
                        self._tick()
                    turn.callback(self._large.release)
                size += len(piece)
                self._tick()
                yield piece


class Sidecars:
    """Reads and merges the metadata of files; shared by all workers."""

    def __init__(
        self,
        tree: Tree,
        clock: Clock,
        field_names: FieldNames,
        *,
        kind_of: Callable[[bytes], str] = guess_kind,
        cache: SidecarCache | None = None,
        met: Callable[[bytes], None] = lambda _path: None,
        recorded: Recorded = Recorded(),  # noqa: B008 - it holds nothing that changes
    ) -> None:
        """Start with the `cache` that other parts share, or a new one.

        `kind_of` returns the kind of asset that a file at a path is expected to become. `met` is called with the path
        of each sidecar that was read.
        """
        self._kind_of = kind_of
        self._tree = tree
        self._clock = clock
        self._names = field_names
        self.cache = cache or SidecarCache()
        self._met = met
        self._recorded = recorded
        self._proven: dict[str, frozenset[str]] = {}
        # The files of a folder mostly have the same metadata.
        self._cached = lru_cache(maxsize=_MOST_CACHED)(self._merged)
        self._cached_folder = lru_cache(maxsize=_MOST_CACHED)(self._read_folder)

    def metadata_of(
        self, path: bytes, mapping: Mapping, kind: str | None = None, *, with_xmp: bool = True
    ) -> FileMetadata:
        """Merge all levels for the file at `path`. Raise SidecarError for the first level that cannot be used.

        The fields are named for `kind`, else for the kind that the file is expected to become.
        `with_xmp`: whether its XMP file counts.
        """
        return self._merge(path, self._levels(path, mapping, with_xmp=with_xmp), mapping, kind)

    def no_metadata(self, path: bytes, mapping: Mapping) -> FileMetadata:
        """Return what is sent with a file without metadata: the options of its mapping alone."""
        return self._merge(path, _Levels(), mapping)

    def metadata_and_origins(
        self, path: bytes, mapping: Mapping, kind: str | None = None
    ) -> tuple[FileMetadata, dict[str, bytes | None]]:
        """Return `metadata_of`, and the sidecar that gives each field; None for the mapping. Raise SidecarError."""
        found = self._levels(path, mapping)
        merged = self._merge(path, found, mapping, kind)
        values = dict(merged.fields)
        origins: dict[str, bytes | None] = {}
        for level in found.levels:
            fields = metadata.form_fields(level.metadata, merged.kind, self._names.by_kind, self._names.custom)
            origins |= {name: level.sidecar for name, value in fields if values.get(name) == value}
        return merged, origins

    def to_send(self, path: bytes, mapping: Mapping, merged: FileMetadata) -> FileMetadata:
        """Return the merged metadata of the file at `path` as it is sent.

        Raise SidecarError, with the line in the sidecar, for a field that the service is not known to have and for a
        value that is too long.
        """
        sent = merged.sent
        if sent.mistake is not None:
            # Fields that an earlier release sent may be known from what became of them.
            sent = metadata.sendable(merged.fields, merged.kind, self._names, self._proven_of)
        if sent.mistake is not None:
            raise self._error(path, mapping, merged.kind, sent.mistake)
        return merged if sent is merged.sent else replace(merged, sent=sent)

    def _error(self, path: bytes, mapping: Mapping, kind: str, mistake: FieldMistake) -> SidecarError:
        _, origins = self.metadata_and_origins(path, mapping, kind)
        sidecar = origins.get(mistake.name)
        if sidecar is None:
            problem = f"the metadata of its mapping: {mistake.name}: {mistake.problem}"
            return SidecarError(printable(path), problem, hint=mistake.hint)
        if is_xmp_name(sidecar):
            problem = f"{mistake.name} (service.xmp_fields): {mistake.problem}"
            return SidecarError(printable(sidecar), problem, hint=mistake.hint)
        description, keywords = self._names.by_kind[kind]
        keys: dict[str, tuple[str, ...]] = {
            CUSTOM_FIELD + number: ("custom", name) for name, number in self._names.custom.items()
        }
        keys |= {description: ("description",), keywords: ("keywords",), "location": ("location",)}
        try:
            data = self._tree.read_small(sidecar, metadata.MAX_BYTES)
        except (FileUnreadable, NotRegular):
            # It has vanished since.
            data = b""
        return metadata.field_error(data, printable(sidecar), mistake, [keys.get(mistake.name, ())])

    def _proven_of(self, kind: str) -> frozenset[str]:
        """Return the fields that were sent with files of this kind which the service has processed.

        A picture is processed whatever becomes of its metadata, and proves nothing.
        """
        if kind not in self._proven:
            proven: set[str] = set()
            for path, digest, mapping in self._recorded.processed(kind) if kind != "img" else ():
                with suppress(SidecarError, RootMissing):
                    found = self.metadata_of(path, mapping, kind)
                    proven.update(name for name, _ in found.fields if found.digest == digest)
            self._proven[kind] = frozenset(proven)
        return self._proven[kind]

    def _merge(self, path: bytes, found: _Levels, mapping: Mapping, kind: str | None = None) -> FileMetadata:
        named = kind if kind in self._names.by_kind else self._kind_of(path)
        merged = self._cached(found, named, mapping.upload)
        if merged.fields:
            metadata.check_together(merged.fields, printable(path))
        return merged

    def xmp_file(self, path: bytes) -> tuple[bytes, FileStat] | None:
        """Return path and stat of the XMP file that counts for a file by its name, None without one.

        Raise RootMissing, and SidecarError if the XMP file cannot be looked at.
        """
        found = self._xmp_path(path)
        stat = None if found is None else self._lstat(found)
        return None if found is None or stat is None else (found, stat)

    def _xmp_path(self, path: bytes) -> bytes | None:
        folder, _, name = path.rpartition(b"/")
        return next(iter(self._tree.existing(folder, xmp_names(name, self._recorded.xmp_endings()))), None)

    def _levels(self, path: bytes, mapping: Mapping, *, with_xmp: bool = True) -> _Levels:
        levels = [MetadataLevel(metadata.expand(mapping.metadata, path), None)]
        together = 0
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
                    levels.append(MetadataLevel(level, folder_sidecar))
                    folders_written = max(folders_written, written)
        own: list[MetadataLevel] = []
        own_is_empty = False
        folder, _, name = path.rpartition(b"/")
        there = self._tree.existing(folder, own_sidecars(name, mapping, self._recorded.xmp_endings()))
        xmp = next(filter(is_xmp_name, there), None) if with_xmp else None
        if xmp is not None and (described := self._described_by(xmp, path, mapping)) is not None:
            own.append(described)
        sidecar = metadata.sidecar_for(path)
        if sidecar in there:
            level, size = self.read(sidecar, mapping.upload)
            own_is_empty = level is not None and not size and not own
            own += [MetadataLevel(level, sidecar)] if level is not None else []
        paths = tuple(level.sidecar for level in own if level.sidecar is not None)
        return _Levels((*levels, *own), paths, own_is_empty, folders_written)

    def _merged(self, found: _Levels, kind: str, allowed: UploadOptions) -> FileMetadata:
        merged = metadata.merge([level.metadata for level in found.levels])
        fields_of = {
            each: metadata.form_fields(merged, each, self._names.by_kind, self._names.custom)
            for each in self._names.by_kind
        }
        sent_as = {each: metadata.sendable(fields, each, self._names) for each, fields in fields_of.items()}
        fields, sent = fields_of[kind], sent_as[kind]
        options = metadata.upload_options(merged, allowed)
        language = metadata.language_of(merged)
        digest = metadata.digest(fields, options, language)
        named = dict(sent.fields) if language == metadata.DEFAULT_LANGUAGE else {}
        texts = Texts(*(named.get(name) for name in self._names.by_kind[kind]))
        # Which kinds have a field that is not known here is known only once the file is sent.
        depends_on_kind = sent.mistake is not None or any(other.fields != sent.fields for other in sent_as.values())
        return FileMetadata(
            *(fields, language, options, digest, found.own, found.own_is_empty, found.folders_written),
            texts=texts,
            depends_on_kind=depends_on_kind,
            kind=kind,
            sent=sent,
        )

    def _described_by(self, found: bytes, path: bytes, mapping: Mapping) -> MetadataLevel | None:
        """Return what an XMP file gives for the file at `path`; None if it is for others. Raise SidecarError."""
        xmp = self._read_xmp(found, mapping)
        if xmp is None or (metadata.described_by_xmp(found) != path and not xmp.is_for(path)):
            return None
        return MetadataLevel(xmp_metadata(xmp, self._names.xmp, self._names.custom), found)

    def read_xmp(self, path: bytes, mapping: Mapping) -> Metadata:
        """Return the metadata that one XMP file gives. Raise SidecarError."""
        xmp = self._read_xmp(path, mapping)
        return Metadata() if xmp is None else xmp_metadata(xmp, self._names.xmp, self._names.custom)

    def _read_xmp(self, path: bytes, mapping: Mapping) -> Xmp | None:
        """Return the properties in an XMP file, None if it has vanished. Raise SidecarError."""
        language = metadata.language_of(mapping.metadata)
        try:
            # Not left to the garbage collector: an error would keep the turn.
            with closing(self.cache.in_turn(self._tree.pieces(path))) as pieces:
                xmp = parse_xmp(pieces, printable(path), language)
        except (FileUnreadable, NotRegular) as error:
            self._expect_vanished(path, error)
            return None
        self._met(path)
        return xmp

    def read(self, path: bytes, allowed: UploadOptions) -> tuple[Metadata | None, int]:
        """Return the metadata of one sidecar, None without one, and its size in bytes. Raise SidecarError.

        `allowed` are the options of the mapping.
        """
        if self._tree.is_absent(path):
            return None, 0
        try:
            data = self._tree.read_small(path, metadata.MAX_BYTES)
        except (FileUnreadable, NotRegular) as error:
            self._expect_vanished(path, error)
            return None, 0
        self._met(path)
        level = metadata.parse_sidecar(data, printable(path), self._names.custom)
        metadata.check_skip_event(level, allowed, printable(path))
        return level, len(data)

    def _expect_vanished(self, path: bytes, error: FileUnreadable | NotRegular) -> None:
        """Raise SidecarError unless the sidecar could not be read because it has vanished."""
        if isinstance(error, NotRegular):
            raise SidecarError(printable(path), "it is not a regular file", hint="replace it by a file") from error
        if not error.vanished:
            raise SidecarError(printable(path), "it cannot be read", hint=error.hint or error.message) from error

    def _folder(self, path: bytes, mapping: Mapping) -> _FolderSidecar:
        """Return a folder sidecar as it was at most `_KEPT_SECONDS` ago, and after the last recorded change."""
        return self._cached_folder(path, mapping.upload, self.cache.changes, self._clock.steady() // _KEPT_SECONDS)

    def _read_folder(self, path: bytes, allowed: UploadOptions, _changes: int, _period: float) -> _FolderSidecar:
        level, size = self.read(path, allowed)
        # Read the time after the content, so that a write in between shows.
        return _FolderSidecar(level, size, 0.0 if level is None else self._written(path))

    def _lstat(self, path: bytes) -> FileStat | None:
        try:
            return self._tree.lstat(path)
        except FileUnreadable as error:
            raise SidecarError(printable(path), "it cannot be looked at", hint=error.hint or error.message) from error

    def _written(self, path: bytes) -> float:
        found = self._lstat(path)
        return 0.0 if found is None else max(found.mtime_ns, found.ctime_ns) / 1e9


_TICK = 2.5
"""Seconds. FAT times, which some servers pass on, have steps of two seconds."""
_MOST_GONE = 10_000
"""The number of vanished sidecars that are kept until the end of a scan; the next scan finds the others."""


class SidecarDiff:
    """The comparison of one scan's sidecars with the ledger.

    `see` takes them in the order of the scan. `differs` is called with the path of each sidecar that differs from the
    ledger or has vanished. The cache forgets them before changes are recorded.
    """

    def __init__(
        self, context: Context, plan: Plan, report: ScanReport, cache: SidecarCache, differs: Callable[[bytes], None]
    ) -> None:
        self._plan = plan
        self._cache = cache
        self._differs = differs
        self._ledger = context.ledger
        self._clock = context.clock
        self._tree = context.tree
        self._report = report
        self._known = self._ledger.versions.sidecars()
        self._next = next(self._known, None)
        self._changes: list[SidecarChange] = []
        self._gone: list[bytes] = []

    def see(self, seen: Seen) -> None:
        """Compare one sidecar with its row in the ledger."""
        while self._next is not None and self._next.path < seen.path:
            self._missing(self._next.path)
        known = self._next
        if known is not None and known.path == seen.path:
            self._next = next(self._known, None)
            if known.stat == seen.stat:
                return
        self._differs(seen.path)
        self._changes.append(SidecarChange(seen.path, FileStat(*seen.stat)))

    def reached(self, until: bytes | None, folder: bytes, *, is_unchanged: bool) -> None:
        """Note that the scan has passed everything before `until`.

        If `is_unchanged`, the sidecars directly in `folder` were not yielded and are unchanged.
        """
        while self._next is not None and (until is None or self._next.path < until):
            path = self._next.path
            if is_unchanged and path.startswith(folder) and b"/" not in path[len(folder) :]:
                self._next = next(self._known, None)
            else:
                self._missing(path)

    @property
    def pending(self) -> int:
        """The number of changes that are not yet written."""
        return len(self._changes)

    def finish(self) -> None:
        """Take the remaining sidecars as vanished, at the end of the scan; only paths that its report covers count."""
        while self._next is not None:
            self._missing(self._next.path)
        covered = filter(self._report.covers, self._gone)
        self._changes += [SidecarChange(path, None) for path in covered if not self._is_back(path)]

    def _is_back(self, path: bytes) -> bool:
        """Return whether an XMP file is there again: some programs move it away for a moment to write it."""
        if not (is_xmp_name(path) and self._plan.is_sidecar(path)):
            return False
        try:
            return self._tree.lstat(path) is not None
        except (FileUnreadable, RootMissing):
            return True

    def flush(self, *, dry_run: bool) -> None:
        """Write the changes so far, or drop them in a dry run."""
        changes, self._changes = self._changes, []
        if changes and not dry_run:
            # Uploads from here on must carry the metadata that is recorded as seen.
            self._cache.forget()
            self._ledger.versions.sidecars_changed(changes, self._clock.now())

    def _missing(self, path: bytes) -> None:
        self._next = next(self._known, None)
        self._differs(path)
        if len(self._gone) < _MOST_GONE:
            self._gone.append(path)


def look_at_sidecar(context: Context, cache: SidecarCache, path: bytes) -> int:
    """Look at one sidecar that was reported or read; return how many files became due because of it.

    Only a scan decides that a known XMP file is gone: some programs move it away for a moment to write it.
    """
    try:
        stat = context.tree.lstat(path)
    except (FileUnreadable, RootMissing) as error:
        log.warning(
            "a sidecar cannot be examined", path=printable(path), why=str(error), next="the next scan tries again"
        )
        # What was read may be out of date: callers must read again.
        cache.forget()
        return 0
    now, known = context.clock.now(), context.ledger.versions.sidecar(path)
    # Two changes within one tick of the clock that stamps files look alike, so a young sidecar counts as changed.
    # Without a regular file there may be a link, or may have been one, which blocks its file as well.
    is_unchanged = stat is not None and known == stat and is_settled(stat, now, _TICK)
    if is_unchanged or (stat is None and known is not None and is_xmp_name(path)):
        return 0
    cache.forget()
    return context.ledger.versions.sidecars_changed([SidecarChange(path, stat)], now)


def note_sidecar(context: Context, plan: Plan, cache: SidecarCache, path: bytes) -> None:
    """Record a sidecar that was read, if the ledger does not know it; else its removal would not be noticed.

    A path that a scan treats as a file is skipped: the ledger knows it as a file.
    """
    if plan.is_sidecar(path) and context.ledger.versions.sidecar(path) is None:
        look_at_sidecar(context, cache, path)
