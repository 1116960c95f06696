"""Reaches files below the root without ever being led out of it.

Each component of a path is opened relative to the descriptor of the one before, and none of them may be a link, so a
folder that is swapped for a link between two looks cannot lead anywhere else. Whether a file changed while it was read
is for `body` to say; which files there are is for `scan`.

The root itself is opened anew for each walk, in some 2 µs. A descriptor held for the life of a daemon would go on
showing the folder beneath a disk that was mounted on the root later, and would keep that disk from being unmounted.
"""

import errno
import os
import stat
from types import TracebackType
from typing import Self

from assetsync.errors import FileUnreadable, NotRegular, RootMissing
from assetsync.model import FileStat
from assetsync.text import printable
from assetsync.tree import links

WAYPOINT = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READABLE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

LARGEST = 2**63 - 1

_NO_NAMES = frozenset({b"", b".", b".."})

# A component that became a file or a link is as gone as one that was removed; a name that is too long never was.
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
# ELOOP: a link where none may be, or links in a circle; EXDEV: they lead out of the root; ENXIO: a dead device.
IRREGULAR = frozenset({errno.ELOOP, errno.EXDEV, errno.ENXIO})


def shown(path: bytes) -> str:
    """Spell a path for a message, so that it does nothing where it is read; the root is `.`."""
    return printable(path) or "."


def facts(status: os.stat_result) -> FileStat:
    """Keep of a stat what tells one version of a file from another, as numbers of 64 bits with a sign.

    An inode may have the highest bit set (network file systems make such numbers), a time may lie beyond 2262.
    """
    inode, mtime, ctime = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    # Asked together: each file is looked at twice on its way, and its numbers fit.
    if not (inode <= LARGEST and -LARGEST <= mtime <= LARGEST and -LARGEST <= ctime <= LARGEST):
        inode = inode if inode <= LARGEST else inode - 2**64
        mtime, ctime = (max(-LARGEST, min(time, LARGEST)) for time in (mtime, ctime))
    return FileStat(status.st_size, mtime, ctime, inode)


def open_unmarked(name: bytes, flags: int, dir_fd: int | None = None) -> int:
    """Open without leaving an access time behind where that is allowed (owner or root only); raises OSError."""
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=dir_fd)
    except PermissionError as exc:
        if exc.errno != errno.EPERM:
            raise
        return os.open(name, flags, dir_fd=dir_fd)


class OpenFile:
    """One regular file, open for reading; `stat` is what was true when it was opened.

    `is_alone`: whether it was asked for a name beside the file's then, and nothing stood there. Reads carry their own
    offset, so that several passes over one descriptor do not disturb each other.
    """

    __slots__ = ("_fd", "is_alone", "path", "stat")

    def __init__(self, path: bytes, fd: int, status: FileStat, *, is_alone: bool = False) -> None:
        self.path = path
        self.stat = status
        self.is_alone = is_alone
        self._fd = fd

    def restat(self) -> FileStat:
        """Look again at the open file, wherever it has been moved meanwhile; raises FileUnreadable."""
        try:
            return facts(os.fstat(self._fd))
        except OSError as exc:
            raise _unreadable(self.path, exc) from exc

    def read(self, length: int, offset: int) -> bytes:
        """Read up to `length` bytes at `offset`; fewer only at the end of the file. Raises FileUnreadable."""
        try:
            piece = os.pread(self._fd, length, offset)
            if len(piece) == length or not piece:
                return piece
            pieces = [piece]
            got = len(piece)
            while got < length and (piece := os.pread(self._fd, length - got, offset + got)):
                pieces.append(piece)
                got += len(piece)
        except OSError as exc:
            raise _unreadable(self.path, exc) from exc
        return b"".join(pieces)

    def expect_sequence(self) -> None:
        """Tell the kernel that the whole file will be read from front to back; advice, so a refusal is no matter."""
        try:
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        except OSError as exc:
            if exc.errno not in {errno.EINVAL, errno.ENOSYS, errno.ESPIPE}:
                raise _unreadable(self.path, exc) from exc

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Tree:
    """The folder tree of one site, read-only; every path is relative to `root`. Safe for use by many threads."""

    def __init__(self, root: bytes, *, follow_symlinks: bool = False) -> None:
        self.root = root
        self.follow_symlinks = follow_symlinks

    def is_at(self, path: bytes) -> bool:
        """Whether another spelling, through links or mounts, leads to the very folder that the root is."""
        try:
            return os.path.samefile(self.root, path)
        except OSError:
            return False

    def open(self, path: bytes, *, beside: bytes = b"") -> OpenFile:
        """Open the regular file at `path`, and look whether one of its name with the ending `beside` stands there too.

        That saves the walk of a look by itself; where a link may lead elsewhere it is not looked. Raises FileUnreadable
        (`vanished` when nothing is there), NotRegular (also for a link that leads out of the root or is not to be
        followed), RootMissing.
        """
        fd, is_alone = -1, False
        try:
            parent, name = self._reach(path)
            try:
                # Opening a pipe wakes its writer and opening a device may move it: look before touching.
                _expect_regular(path, os.stat(name, dir_fd=parent, follow_symlinks=False))
                fd = open_unmarked(name, READABLE, parent)
                if beside and not self.follow_symlinks:
                    is_alone = _is_absent(parent, name + beside)
            finally:
                os.close(parent)
            status = os.fstat(fd)
            _expect_regular(path, status)
            return OpenFile(path, fd, facts(status), is_alone=is_alone)
        except OSError as exc:
            if fd >= 0:
                os.close(fd)
            raise _translated(path, exc) from exc
        except NotRegular:
            if fd >= 0:
                os.close(fd)
            raise

    def lstat(self, path: bytes) -> FileStat | None:
        """Give the facts of the regular file at `path`, or None when no regular file stands there.

        A link counts as the file it leads to if links are followed, else as nothing. Raises FileUnreadable when it
        cannot be told, RootMissing when there is no root to look in.
        """
        try:
            status = self.look(path)
        except OSError as exc:
            if exc.errno in ABSENT or exc.errno in IRREGULAR:
                return None
            raise _unreadable(path, exc) from exc
        return facts(status) if stat.S_ISREG(status.st_mode) else None

    def look(self, path: bytes) -> os.stat_result:
        """Stat whatever stands at `path`, links followed or not as the tree says; raises OSError, RootMissing."""
        parent, name = self._reach(path)
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)

    def is_absent(self, path: bytes) -> bool:
        """Whether nothing stands at `path`; False also where that cannot be told. Raises RootMissing."""
        try:
            self.look(path)
        except OSError as exc:
            return exc.errno in ABSENT
        except FileUnreadable:
            return False
        return False

    def read_small(self, path: bytes, limit: int) -> bytes:
        """Read the whole of a file of at most `limit` bytes, such as a sidecar; raises as `open` does.

        A longer file raises FileUnreadable.
        """
        with self.open(path) as file:
            content = file.read(limit + 1, 0)
        if len(content) > limit:
            raise FileUnreadable(
                f"{shown(path)} is too long to be read at once", hint=f"it may hold {limit:,} bytes at most"
            )
        return content

    def open_folder(self, path: bytes) -> int:
        """Open the folder at `path`, b"" for the root, and give its descriptor, to be closed by the caller.

        Raises OSError as the system gives it, and RootMissing.
        """
        if not path:
            return self._open_root(os.O_RDONLY)
        parent, name = self._reach(path)
        try:
            return open_unmarked(name, LISTABLE, parent)
        finally:
            os.close(parent)

    def _open_root(self, mode: int) -> int:
        # The root may be reached through links: that is the administrator's word, not the tree's.
        try:
            return os.open(self.root, mode | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            if exc.errno in ABSENT or exc.errno == errno.ELOOP:
                raise RootMissing(
                    f"the root {shown(self.root)} is not there or is no folder",
                    hint="mount or create it, or correct `root` in the configuration",
                ) from exc
            raise

    def _reach(self, path: bytes) -> tuple[int, bytes]:
        """Walk to the folder that holds `path`; gives its descriptor and the last component. Raises OSError."""
        parts = path.split(b"/")
        if b"\0" in path or not _NO_NAMES.isdisjoint(parts):
            raise FileUnreadable(f"{shown(path)!r} is no path below the root")
        if self.follow_symlinks:
            root = self._open_root(os.O_PATH)
            try:
                parts = links.resolve(root, self.root, parts)
            finally:
                os.close(root)
            if not parts:
                # A link to the root itself: a folder, and no file has this name.
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        *folders, name = parts
        fd = self._open_root(os.O_PATH)
        try:
            for folder in folders:
                below = os.open(folder, WAYPOINT, dir_fd=fd)
                os.close(fd)
                fd = below
        except OSError:
            os.close(fd)
            raise
        return fd, name


def _is_absent(folder: int, name: bytes) -> bool:
    """Whether nothing stands there by that name; False also where that cannot be told."""
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
    if exc.errno == errno.EXDEV:
        return NotRegular(f"{shown(path)} is a link that leads out of the root")
    if exc.errno in IRREGULAR:
        return NotRegular(f"{shown(path)} is no regular file: {exc.strerror}")
    return _unreadable(path, exc)


def _unreadable(path: bytes, exc: OSError) -> FileUnreadable:
    if exc.errno in ABSENT:
        return FileUnreadable(f"{shown(path)} is no longer there", vanished=True)
    hint = ""
    if exc.errno == errno.EACCES:
        hint = "let the user that assetsync runs as read it"
    elif exc.errno == errno.EAGAIN:
        hint = "another program holds a lease on it; it is tried again"
    return FileUnreadable(f"{shown(path)} cannot be read: {exc.strerror}", hint=hint)
