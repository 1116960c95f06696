"""Walk the tree and yield every mapped file in byte order of whole paths; memory does not grow with their number.

Each folder is opened relative to the descriptor of its parent and never through a link, so nothing that is moved or
swapped during the scan leads out of the root. Mount points are crossed: a file server mounts its disks below the root.
The scan does not compare files with the ledger. The consumer decides with the `ScanReport` what a missing file means.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import merge

from assetsync.core.mapping import Plan
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX
from assetsync.model import NOWHERE, CachedFolder, Seen
from assetsync.tree.folder_digest import AT_ONCE, FolderDigest, KnownFolders, is_unchanged
from assetsync.tree.listing import NOTHING, Kind, Lister, Listing, Spool
from assetsync.tree.safe_open import LARGEST, LISTABLE, NO_FILE, Tree, expect_resources, facts, open_unmarked
from assetsync.tree.scan_report import MOVED_AWAY, ScanReport

# Names that all folders on the stack hold in memory together before a folder is sorted on disk.
SPILL_ABOVE = 50_000
MOST_OPEN = 64
_SLASH = ord("/")
_AFTER_SLASH = bytes([_SLASH + 1])
_FORMAT = 0o170000
_REGULAR = stat.S_IFREG


def scan(
    tree: Tree,
    plan: Plan,
    report: ScanReport,
    *,
    known_folders: KnownFolders | None = None,
    stop: Callable[[], bool] = lambda: False,
    spill_above: int = SPILL_ABOVE,
    spill_folder: str | None = None,
) -> Iterator[Seen]:
    """Yield every file under a mapped folder, with its sidecars and those of the folders above, and fill `report`.

    With `known_folders`, the files of unchanged folders are counted but not yielded; its methods are called for every
    folder. `stop` is called at every folder and, in a large folder, between pieces of its names; when it returns True,
    the scan ends and the report stays unfinished, as when the iterator is closed early. A folder of more than
    `spill_above` entries is sorted in `spill_folder` (None: the system's folder for temporary files), which must be
    outside the tree. Links are followed only if `tree.follow_symlinks` is set: a link to a file counts as a file. Below
    a folder that was reached through a link no further link to a folder is followed, which ends every cycle. Raise
    RootMissing on the first `next` or when the root disappears, and OutOfResources.
    """
    return _Walk(tree, plan, report, known_folders, Lister(Spool(spill_folder), stop, spill_above)).files()


@dataclass(slots=True, eq=False)
class _Frame:
    """A folder on the stack of a scan.

    `outer` is the length of the parent's path. `fd` is -1 while the folder is closed to save descriptors.
    """

    fd: int
    outer: int
    covered: int | None
    hidden: bool
    linked: bool
    identity: tuple[int, int] = field(init=False)
    spooled: int = 0
    last: bytes = b""
    listing: Listing = NOTHING
    unchanged: CachedFolder | None = None
    digest: FolderDigest | None = None

    def __post_init__(self) -> None:
        self.identity = _identity_of(self.fd)

    @property
    def mapping(self) -> int | None:
        return None if self.hidden else self.covered

    def close(self) -> None:
        """Close the folder's descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class _Walk:
    """A running scan: the stack of folders from the root to the current folder."""

    def __init__(
        self, tree: Tree, plan: Plan, report: ScanReport, known_folders: KnownFolders | None, lister: Lister
    ) -> None:
        self._tree = tree
        self._plan = plan
        self._report = report
        self._stop = lister.stop
        self._is_stopped = False
        self._lister = lister
        self._known_folders = known_folders
        self._stack: list[_Frame] = []
        # The current folder, with a slash at its end; b"" is the root.
        self._path = b""
        self._entered: set[int] = set()

    def files(self) -> Iterator[Seen]:
        try:
            try:
                root = self._tree.open_folder(b"")
            except OSError as exc:
                self._report.mark_unreadable(b"", reason(exc))
            else:
                self._push(_Frame(root, 0, self._plan.mapping_of(b""), hidden=False, linked=False), b"")
            while self._stack:
                if self._stop():
                    return
                frame = self._stack[-1]
                yield from self._files_of(frame)
                if self._is_stopped:
                    return
                if frame is self._stack[-1]:
                    self._pop()
            self._report.finished = True
            self._report.missing_mappings = [
                position
                for position, folder in enumerate(self._plan.folders())
                if position not in self._entered and self._report.covers(folder)
            ]
        finally:
            for frame in self._stack:
                frame.close()
            self._lister.spool.close()

    def _files_of(self, frame: _Frame) -> Iterator[Seen]:  # noqa: C901, PLR0912, PLR0915 - a million times over
        """Yield files until the folder ends, a subfolder was entered, or the scan is stopped."""
        prefix, fd, mapping, last = self._path, frame.fd, frame.mapping, frame.last
        # The listing of an unmapped folder holds no file but its folder sidecar.
        sidecars = mapping is None or self._plan.sidecars_on(mapping)
        xmp = mapping is not None and self._plan.xmp_on(mapping)
        ignored, look, new = self._plan.ignored, os.stat, tuple.__new__
        position = NOWHERE if mapping is None else mapping
        digest = frame.digest
        files = sidecar_count = left_out = looked_at = 0
        try:
            for name in frame.listing.names:
                # A name that was removed and created again during the listing may be listed twice.
                if name == last:
                    continue
                last = name
                looked_at += 1
                if looked_at == AT_ONCE:
                    # On slow storage, one folder may take longer than a heartbeat may be absent.
                    looked_at = 0
                    if self._stop():
                        self._is_stopped = True
                        return
                if name[-1] == _SLASH:
                    if self._enter(frame, name):
                        frame.last = name
                        return
                    continue
                path = prefix + name
                if is_ignored := ignored(path, False, mapping):
                    left_out += 1
                    if digest is None:
                        continue
                try:
                    status = look(name, dir_fd=fd, follow_symlinks=False)
                    if digest is not None:
                        digest.add(name, status)
                    if is_ignored:
                        continue
                    if (status.st_mode & _FORMAT) != _REGULAR:
                        frame.digest = digest = None
                        if (target := self._linked_file(path, status)) is None:
                            continue
                        status = target
                except OSError as exc:
                    frame.digest = digest = None
                    if not is_ignored and self._blinds(frame, path, exc):
                        return
                    continue
                is_sidecar = (sidecars and name[-5:] == SUFFIX) or (xmp and name[-4:].lower() == b".xmp")
                if is_sidecar:
                    sidecar_count += 1
                else:
                    files += 1
                mtime, inode = status.st_mtime_ns, status.st_ino
                fields = (path, status.st_size, mtime, status.st_ctime_ns, inode, position, is_sidecar)
                if inode > LARGEST or not -LARGEST <= mtime <= LARGEST:
                    fields = (path, *facts(status), position, is_sidecar)
                # Calling `Seen` costs twice as much.
                yield new(Seen, fields)
        except OSError as exc:
            # Only reading the sorted runs on disk can raise here.
            self._report.mark_unreadable(prefix[:-1], reason(exc))
        finally:
            report = self._report
            report.files += files
            report.sidecars += sidecar_count
            report.ignored += left_out
            if mapping is not None:
                report.per_mapping[mapping] += files
            if digest is not None:
                digest.files += files
                digest.sidecars += sidecar_count
                digest.ignored += left_out

    def _linked_file(self, path: bytes, status: os.stat_result) -> os.stat_result | None:
        """Return the stat of the file that a link leads to; count anything else as special and return None.

        Raise OSError.
        """
        if self._tree.follow_symlinks and stat.S_ISLNK(status.st_mode):
            status = self._tree.look(path)
        if stat.S_ISREG(status.st_mode):
            return status
        self._report.special += 1
        return None

    def _blinds(self, frame: _Frame, path: bytes, exc: OSError) -> bool:
        """Report a file whose stat failed; return whether the whole folder cannot be read.

        A file that vanished or is not regular is not reported.
        """
        if exc.errno in NO_FILE:
            return False
        if exc.errno == errno.EACCES and not os.access(b".", os.X_OK, dir_fd=frame.fd, effective_ids=True):
            self._report.mark_unreadable(self._path[:-1], reason(exc))
            return True
        self._report.mark_unreadable(path, reason(exc))
        return False

    def _enter(self, frame: _Frame, name: bytes) -> bool:
        """Enter a folder; return False if it is ignored, unmapped, gone, unreadable or part of a link cycle.

        The report records an unreadable folder. It counts an unmapped folder, a link cycle, and an ignored folder that
        is not below another ignored folder.
        """
        path = self._path + name[:-1]
        covered = self._plan.mapping_of(path)
        hidden = False
        # The configuration names a folder that has its own mapping, so no ignore rule hides it.
        if covered is not None and covered == frame.covered:
            hidden = frame.hidden or self._plan.ignored(path, True, covered)
            if hidden and not frame.hidden:
                self._report.ignored += 1
        if (hidden or covered is None) and not self._plan.descend(path):
            if covered is None:
                self._report.mark_unmapped(path)
            return False
        try:
            fd, linked = self._open_below(frame, name[:-1], path)
        except OSError as exc:
            if exc.errno not in NO_FILE:
                self._report.mark_unreadable(path, reason(exc))
            return False
        below = _Frame(fd, len(self._path), covered, hidden=hidden, linked=linked)
        if linked and any(below.identity == above.identity for above in self._stack):
            below.close()
            self._report.special += 1
            return False
        if self._known_folders is not None:
            self._known_folders.reached(self._path + name, self._path, frame.unchanged)
        self._push(below, name)
        return True

    def _open_below(self, frame: _Frame, name: bytes, path: bytes) -> tuple[int, bool]:
        """Open a folder and return whether a link was followed to it or to one above it; raise OSError."""
        try:
            return open_unmarked(name, LISTABLE, frame.fd), frame.linked
        except OSError as exc:
            # The entry was a link when it was listed, or became a link since.
            if exc.errno not in {errno.ELOOP, errno.ENOTDIR} or frame.linked or not self._tree.follow_symlinks:
                raise
        return self._tree.open_folder(path), True

    def _push(self, frame: _Frame, name: bytes) -> None:
        report = self._report
        self._stack.append(frame)
        self._path += name
        if len(self._stack) > MOST_OPEN:
            self._stack[-1 - MOST_OPEN].close()
        report.reached = self._path
        report.folders += 1
        report.devices.add(frame.identity[0])
        if frame.covered is not None:
            self._entered.add(frame.covered)
        follow = self._kind_of_link if self._tree.follow_symlinks else None
        frame.spooled = self._lister.spool.end
        frame.listing = self._lister.names_of(frame.fd, want_files=frame.mapping is not None, kind_of_link=follow)
        if frame.mapping is not None:
            report.special += frame.listing.special
        else:
            report.unmapped_files += 0 if frame.hidden else frame.listing.files
            # The sidecar of an unmapped folder applies to the mapped folders below it, too.
            frame.listing = frame.listing._replace(names=merge(frame.listing.names, (FOLDER_SIDECAR,)))
        if frame.listing.error is not None:
            report.mark_unreadable(self._path[:-1], reason(frame.listing.error))
        if self._known_folders is not None and frame.mapping is not None and frame.listing.whole is not None:
            self._recall(self._known_folders, frame, frame.mapping)

    def _recall(self, known_folders: KnownFolders, frame: _Frame, mapping: int) -> None:
        """Skip the files of an unchanged folder; start a new digest for any other folder."""
        known = known_folders.recall(self._path)
        if known is not None:
            files, folders = frame.listing.split()
            if is_unchanged(frame.fd, files, known, self._stop):
                frame.unchanged = known
                frame.listing = frame.listing._replace(names=iter(folders))
                report = self._report
                report.files += known.files
                report.sidecars += known.sidecars
                report.ignored += known.ignored
                report.per_mapping[mapping] += known.files
                return
        frame.digest = FolderDigest()

    def _pop(self) -> None:
        """Return to the parent folder; if it has to be opened again, it must be the folder that was listed."""
        frame = self._stack.pop()
        self._lister.release(frame.listing, frame.spooled)
        if self._known_folders is not None:
            path, digest = self._path, frame.digest
            self._known_folders.reached(path[:-1] + _AFTER_SLASH if path else None, path, frame.unchanged)
            if frame.unchanged is None:
                self._known_folders.ended(None if digest is None else digest.state_of(path))
        if self._stack:
            self._report.reached = self._path[:-1] + _AFTER_SLASH
            self._path = self._path[: frame.outer]
            above = self._stack[-1]
            if above.fd < 0:
                above.fd = self._open_again(above, frame)
            if above.fd < 0:
                self._report.mark_unreadable(self._path[:-1], MOVED_AWAY)
                self._lister.release(above.listing, above.spooled)
                above.listing = NOTHING
                above.digest = None
        frame.close()

    def _open_again(self, above: _Frame, below: _Frame) -> int:
        """Open a folder that was closed on the way down, through its child or by its path.

        Return -1 if both lead to another folder or fail.
        """
        ways: list[Callable[[], int]] = [
            lambda: os.open(b"..", LISTABLE, dir_fd=below.fd),
            lambda: self._tree.open_folder(self._path[:-1]),
        ]
        for way in ways:
            try:
                fd = way()
            except OSError:
                continue
            if _identity_of(fd) == above.identity:
                return fd
            os.close(fd)
        return -1

    def _kind_of_link(self, name: bytes) -> Kind:
        path = self._path + name
        try:
            mode = self._tree.look(path).st_mode
        except OSError as exc:
            if exc.errno not in NO_FILE:
                self._report.mark_unreadable(path, reason(exc))
            return Kind.SPECIAL
        if stat.S_ISREG(mode):
            return Kind.FILE
        return Kind.FOLDER if stat.S_ISDIR(mode) and not self._stack[-1].linked else Kind.SPECIAL


def reason(exc: OSError) -> str:
    """Return the reason of a read error for a message; raise OutOfResources, for which nothing counts as unreadable."""
    expect_resources(exc)
    return exc.strerror or str(exc)


def _identity_of(fd: int) -> tuple[int, int]:
    """Return device and inode of an open folder; raises OSError."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
