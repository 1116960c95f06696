"""Open files below the root and never leave the root.

Each component of a path is opened relative to the descriptor of its parent, and no component may be a link. A folder
that is swapped for a link between two steps therefore cannot lead out of the root. Where links may be followed,
`resolve` examines each component and returns a path without links, which is then walked as strictly: a link that
changes in between makes that walk fail and never leads out of the root. `body` detects files that change while they are
read; `scan` finds the files.

The root itself is opened again for each walk, which costs about 2 µs. A descriptor held for the life of a daemon would
keep showing the folder beneath a disk that was mounted on the root later, and would prevent unmounting of that disk.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from assetsync.errors import FileUnreadable, NotRegular, OutOfResources, RootMissing
from assetsync.model import FileStat
from assetsync.text import printable

WAYPOINT = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READABLE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

LARGEST = 2**63 - 1
_PIECE = 64 * 1024

_NO_NAMES = frozenset({b"", b".", b".."})

# A path counts as absent, too, if a component became a file or a link, or if a name is too long to exist.
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
# ELOOP: a link where none is allowed, or a cycle of links; EXDEV: a link leads out of the root; ENXIO: a dead device.
IRREGULAR = frozenset({errno.ELOOP, errno.EXDEV, errno.ENXIO})
NO_FILE = ABSENT | IRREGULAR


def shown(path: bytes) -> str:
    """Return a path for a message, with control characters escaped; the root is `.`."""
    return printable(path) or "."


def expect_resources(exc: OSError) -> None:
    """Raise OutOfResources if an error is the process's, and so shows nothing about a file."""
    if (lack := OutOfResources.of(exc)) is not None:
        raise lack from exc


def facts(status: os.stat_result) -> FileStat:
    """Return the facts that distinguish file versions, as signed 64-bit numbers.

    An inode may have the highest bit set (network file systems create such numbers); a time may be after 2262.
    """
    inode, mtime, ctime = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    # One test for all three: this runs twice per file, and the numbers fit for usual files.
    if not (inode <= LARGEST and -LARGEST <= mtime <= LARGEST and -LARGEST <= ctime <= LARGEST):
        inode = inode if inode <= LARGEST else inode - 2**64
        mtime, ctime = (max(-LARGEST, min(time, LARGEST)) for time in (mtime, ctime))
    return FileStat(status.st_size, mtime, ctime, inode)


def open_unmarked(name: bytes, flags: int, dir_fd: int | None = None) -> int:
    """Open without updating the access time where that is allowed (owner or root only).

    Raise OSError and OutOfResources, as all that opens below the root does.
    """
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=dir_fd)
    except OSError as exc:
        expect_resources(exc)
        if exc.errno != errno.EPERM:
            raise
        return os.open(name, flags, dir_fd=dir_fd)


class OpenFile:
    """One regular file, open for reading; `stat` holds its facts at the time of opening.

    Every read names its own offset, so that several passes over one descriptor do not disturb each other.
    """

    __slots__ = ("_fd", "path", "stat")

    def __init__(self, path: bytes, fd: int, status: FileStat) -> None:
        self.path = path
        self.stat = status
        self._fd = fd

    def restat(self) -> FileStat:
        """Return the current facts of the open file, even if the file was moved; raises FileUnreadable."""
        try:
            return facts(os.fstat(self._fd))
        except OSError as exc:
            raise _unreadable(self.path, exc) from exc

    def read(self, length: int, offset: int) -> bytes:
        """Read `length` bytes at `offset`, fewer only at the end of the file; raises FileUnreadable."""
        got = 0
        try:
            content = os.pread(self._fd, length, offset)
            while 0 < (got := len(content)) < length and (more := os.pread(self._fd, length - got, offset + got)):
                content += more
        except OSError as exc:
            raise self._failed_at(offset + got, exc) from exc
        return content

    def _failed_at(self, offset: int, exc: OSError) -> FileUnreadable:
        """Return the error with the place and the disk, as `lsblk` numbers it, if the disk failed."""
        if exc.errno != errno.EIO:
            return _unreadable(self.path, exc)
        disk = os.fstat(self._fd).st_dev
        return FileUnreadable(
            f"{shown(self.path)} cannot be read: {exc.strerror} at byte {offset:,}, on the disk of the tree"
            f" ({os.major(disk)}:{os.minor(disk)})"
        )

    def expect_sequence(self) -> None:
        """Advise the kernel, which may not support it, that the whole file will be read in order."""
        with suppress(OSError):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Tree:
    """The folder tree of one site, read-only; every path is relative to `root`. Safe for use by many threads.

    Each method that opens or reads raises OutOfResources, too. Errors name `configuration` as the place of the root's
    path.
    """

    def __init__(self, root: bytes, *, follow_symlinks: bool = False, configuration: str = "the configuration") -> None:
        self._configuration = configuration
        self.root = root
        self.follow_symlinks = follow_symlinks

    def is_at(self, path: bytes) -> bool:
        """Return whether `path` (not relative to the root) leads to the root folder, also through links or mounts."""
        try:
            return os.path.samefile(self.root, path)
        except OSError:
            return False

    def open(self, path: bytes) -> OpenFile:
        """Open the regular file at `path`.

        Raise FileUnreadable (`vanished` if nothing exists at `path`), NotRegular (also for a link that leads out of the
        root or must not be followed), RootMissing.
        """
        fd = -1
        try:
            parent, name = self._reach(path)
            try:
                # Check the kind before opening: opening a pipe wakes its writer, and opening a device may move it.
                _expect_regular(path, os.stat(name, dir_fd=parent, follow_symlinks=False))
                fd = open_unmarked(name, READABLE, parent)
            finally:
                os.close(parent)
            status = os.fstat(fd)
            _expect_regular(path, status)
        except (OSError, NotRegular) as exc:
            if fd >= 0:
                os.close(fd)
            if isinstance(exc, OSError):
                raise _translated(path, exc) from exc
            raise
        return OpenFile(path, fd, facts(status))

    def lstat(self, path: bytes) -> FileStat | None:
        """Return the facts of the regular file at `path`, or None if no regular file exists there.

        A link counts as its target if links are followed, otherwise as absent. Raise FileUnreadable if the path cannot
        be examined, RootMissing if the root does not exist.
        """
        try:
            status = self.look(path)
        except OSError as exc:
            if exc.errno in NO_FILE:
                return None
            raise _unreadable(path, exc) from exc
        return facts(status) if stat.S_ISREG(status.st_mode) else None

    def look(self, path: bytes) -> os.stat_result:
        """Return the stat of the entry at `path`, of any kind; raises OSError, FileUnreadable, RootMissing.

        Links are followed only if `follow_symlinks` is set.
        """
        parent, name = self._reach(path)
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)

    def is_absent(self, path: bytes) -> bool:
        """Return whether nothing exists at `path`; False also if the path cannot be examined. Raise RootMissing."""
        try:
            self.look(path)
        except OSError as exc:
            return exc.errno in ABSENT
        except FileUnreadable:
            return False
        return False

    def existing(self, folder: bytes, names: Sequence[bytes]) -> list[bytes]:
        """Return the paths of those of these names, in their order, for which there is an entry in a folder.

        An entry that cannot be examined counts as being there. Raise RootMissing.
        """
        paths = [folder + b"/" + name for name in names] if folder else list(names)
        if self.follow_symlinks or not paths:
            # A link may lead to another folder, so that each path is a walk of its own.
            return [path for path in paths if not self.is_absent(path)]
        try:
            parent, _name = self._reach(paths[0])
        except OSError as exc:
            return [] if exc.errno in ABSENT else paths
        except FileUnreadable:
            return paths
        try:
            return [path for path, name in zip(paths, names, strict=True) if not _is_absent(parent, name)]
        finally:
            os.close(parent)

    def pieces(self, path: bytes) -> Iterator[bytes]:
        """Yield the content of a file in pieces; raises the errors of `open`."""
        with self.open(path) as file:
            offset = 0
            while piece := file.read(_PIECE, offset):
                offset += len(piece)
                yield piece

    def read_small(self, path: bytes, limit: int) -> bytes:
        """Return the content of a file of at most `limit` bytes, such as a sidecar.

        Raises the errors of `open`, and FileUnreadable for a longer file.
        """
        with self.open(path) as file:
            content = file.read(limit + 1, 0)
        if len(content) > limit:
            raise FileUnreadable(f"{shown(path)} is too long", hint=f"the limit is {limit:,} bytes")
        return content

    def open_folder(self, path: bytes) -> int:
        """Open the folder at `path`, b"" for the root, and return its descriptor; the caller closes it.

        Raise OSError, FileUnreadable for a path that cannot be below the root, and RootMissing.
        """
        if not path:
            return self._open_root(os.O_RDONLY)
        parent, name = self._reach(path)
        try:
            return open_unmarked(name, LISTABLE, parent)
        finally:
            os.close(parent)

    @contextmanager
    def listed(self, path: bytes) -> Iterator[tuple[int, Iterator["os.DirEntry[str]"]]]:
        """Open the folder at `path` as `open_folder` does, and yield its descriptor and its entries. Raise OSError."""
        fd = self.open_folder(path)
        try:
            with os.scandir(fd) as entries:
                yield fd, entries
        finally:
            os.close(fd)

    def _open_root(self, mode: int) -> int:
        # The root may be reached through links: the administrator configures this path, not the users of the tree.
        try:
            return os.open(self.root, mode | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            expect_resources(exc)
            if exc.errno in ABSENT or exc.errno == errno.ELOOP:
                raise RootMissing(
                    f"the root {shown(self.root)} is missing or not a folder",
                    hint=f"mount or create it, or correct `root` in {self._configuration}",
                ) from exc
            raise

    def _reach(self, path: bytes) -> tuple[int, bytes]:
        """Open the parent folder of `path`; return its descriptor and the last component.

        Raise OSError, FileUnreadable for a path that cannot be below the root, and RootMissing.
        """
        parts = path.split(b"/")
        if b"\0" in path or not _NO_NAMES.isdisjoint(parts):
            raise FileUnreadable(f"{shown(path)!r} is not a path below the root")
        if self.follow_symlinks:
            root = self._open_root(os.O_PATH)
            try:
                parts = resolve(root, self.root, parts)
            except OSError as exc:
                expect_resources(exc)
                raise
            finally:
                os.close(root)
            if not parts:
                # A link to the root itself is a folder; no file has this name.
                raise _error(errno.EXDEV)
        *folders, name = parts
        return _descend(self._open_root(os.O_PATH), folders), name


def _is_absent(folder: int, name: bytes) -> bool:
    """Return whether the open folder has no entry of that name; False also if that cannot be determined."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as exc:
        return exc.errno in ABSENT
    return False


def _expect_regular(path: bytes, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(f"{shown(path)} is {KINDS.get(stat.S_IFMT(status.st_mode), 'no regular file')}")


KINDS = {
    stat.S_IFDIR: "a folder, not a file",
    stat.S_IFLNK: "a symbolic link, and links are not followed",
    stat.S_IFIFO: "a pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def _translated(path: bytes, exc: OSError) -> FileUnreadable | NotRegular:
    """Return the error for a path; raise OutOfResources."""
    if exc.errno == errno.EXDEV:
        return NotRegular(f"{shown(path)} is a link to a place outside the root")
    if exc.errno in IRREGULAR:
        return NotRegular(f"{shown(path)} is not a regular file: {exc.strerror}")
    return _unreadable(path, exc)


def _unreadable(path: bytes, exc: OSError) -> FileUnreadable:
    """Return the error for a path; raise OutOfResources."""
    expect_resources(exc)
    if exc.errno in ABSENT:
        return FileUnreadable(f"{shown(path)} no longer exists", vanished=True)
    hint = ""
    if exc.errno == errno.EACCES:
        hint = "give the user that assetsync runs as read permission"
    elif exc.errno == errno.EAGAIN:
        hint = "another program holds a lease on it; assetsync tries again"
    return FileUnreadable(f"{shown(path)} cannot be read: {exc.strerror}", hint=hint)


# The limit of links that Linux allows in one path (path_resolution(7)).
_MOST_LINKS = 40


def resolve(root: int, root_path: bytes, parts: list[bytes]) -> list[bytes]:
    """Return the components of the link-free path, relative to the root, that `parts` lead to.

    `root` is a descriptor of the root, `root_path` its absolute path. An absolute link is inside the root if it begins
    with `root_path`, as written or with its own links resolved. Raise OSError: ENOENT or ENOTDIR if a component is
    missing, ELOOP after more than `_MOST_LINKS` links, EXDEV if a link leads out of the root.
    """
    todo = parts[::-1]
    done: list[bytes] = []
    followed = 0
    fd = os.dup(root)
    try:
        while todo:
            part = todo.pop()
            if part == b"..":
                if not done:
                    raise _error(errno.EXDEV)
                done.pop()
                fd = _swap(fd, _descend(os.dup(root), done))
                continue
            status = os.stat(part, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                followed += 1
                if followed > _MOST_LINKS:
                    raise _error(errno.ELOOP)
                target = os.readlink(part, dir_fd=fd)
                if target.startswith(b"/"):
                    target = _inside(root_path, target)
                    done.clear()
                    fd = _swap(fd, os.dup(root))
                todo.extend(step for step in reversed(target.split(b"/")) if step not in {b"", b"."})
                continue
            if todo:
                fd = _swap(fd, os.open(part, WAYPOINT, dir_fd=fd))
            done.append(part)
    finally:
        os.close(fd)
    return done


def _inside(root_path: bytes, target: bytes) -> bytes:
    """Return the part of an absolute target below the root; raises OSError (EXDEV) if the target is outside."""
    for base in (root_path.rstrip(b"/"), os.path.realpath(root_path).rstrip(b"/")):
        if target == base or target.startswith(base + b"/"):
            return target[len(base) :]
    raise _error(errno.EXDEV)


def _descend(fd: int, folders: list[bytes]) -> int:
    """Open a folder below an open one, one component after the other, and close all that are above; raises OSError."""
    try:
        for folder in folders:
            below = os.open(folder, WAYPOINT, dir_fd=fd)
            os.close(fd)
            fd = below
    except OSError as exc:
        os.close(fd)
        expect_resources(exc)
        raise
    return fd


def _swap(old: int, new: int) -> int:
    os.close(old)
    return new


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
