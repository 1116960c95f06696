"""List one folder in byte order, sorted on disk if it is too large for memory.

The names of folders end in `/`, because the paths below a folder sort that way: `a.jpg`, `a/x`, `a0.jpg`. A walk in
this order yields whole paths in byte order. `scan` decides what happens to each name.
"""

import errno
import heapq
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import IO, NamedTuple

# os.scandir on a descriptor returns text; this codec restores the bytes on disk, whatever they are.
_CODEC = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
# Bytes that a merge reads at a time from all its runs together, and the least that it reads from each.
_MERGED = 1 << 18
_PIECE = 1 << 12
# Names that are converted from text to bytes at once: converting them singly costs three times as much.
_CONVERTED = 1000
_SLASH = ord("/")


class Kind(Enum):
    """The kind of a folder's entry; SPECIAL is everything that a scan neither yields nor enters."""

    FILE = auto()
    FOLDER = auto()
    SPECIAL = auto()


class Listing(NamedTuple):
    """The names of one folder in byte order.

    `held` counts the names in memory, `files` the files that were left out because the caller did not want files,
    `special` the entries of that kind, `folders` the names of folders. `whole` holds the same names as a sequence if
    all of them are in memory and no error occurred, otherwise None. `error` is the error that ended the listing early.
    """

    names: Iterator[bytes]
    held: int
    files: int
    special: int
    error: OSError | None
    whole: Sequence[bytes] | None = None
    folders: int = 0

    def split(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Split `whole` into the names of files and the names of folders."""
        assert self.whole is not None
        if not self.folders:
            return self.whole, ()
        return [n for n in self.whole if n[-1] != _SLASH], [n for n in self.whole if n[-1] == _SLASH]


NOTHING = Listing(iter(()), 0, 0, 0, None)


class Spool:
    """Sorted runs of names in one unnamed temporary file, dropped in the reverse order of their writing.

    The file is created with the first run, in `folder` (None: the system's folder for temporary files), which must be
    outside the tree.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def end(self) -> int:
        """The offset of the next run; pass it to `cut` later to drop that run and all that follow."""
        return self._end

    def write(self, names: Sequence[bytes]) -> tuple[int, int]:
        """Store one sorted run and return its start and end offset; raises OSError."""
        start = at = self._end
        # NUL is the only byte besides `/` that no name can contain.
        rest = memoryview(b"\0".join(names) + b"\0")
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115 - outlives this call
            while rest:
                written = os.pwrite(self._file.fileno(), rest, at)
                at += written
                rest = rest[written:]
        except OSError as exc:
            raise OSError(exc.errno, f"its names cannot be sorted on disk: {exc.strerror}") from exc
        self._end = at
        return start, at

    def read(self, start: int, end: int, *, piece_size: int = _PIECE) -> Iterator[bytes]:
        """Yield the names of the run between two offsets, reading `piece_size` bytes at a time; raises OSError."""
        assert self._file is not None
        left = b""
        while start < end:
            piece = os.pread(self._file.fileno(), min(piece_size, end - start), start)
            if not piece:
                raise OSError(errno.EIO, "its names cannot be sorted on disk: the temporary file was cut off")
            start += len(piece)
            *names, left = (left + piece).split(b"\0")
            yield from names

    def cut(self, end: int) -> None:
        """Drop every run from the offset `end` on."""
        if self._file is not None and end < self._end:
            self._file.truncate(end)
            self._end = end

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Lister:
    """Lists folders with one spool and one limit of names in memory (`room`) for all folders that are not released."""

    def __init__(self, spool: Spool, stop: Callable[[], bool], room: int) -> None:
        self.spool = spool
        self.stop = stop
        self._most = room
        # Each folder may hold this many names, however many the folders above hold: a run of one name sorts nothing.
        self._least = max(1, room // 50)
        self._held = 0

    def names_of(  # noqa: C901, PLR0912 - a call for each entry would cost more than reading it does
        self, fd: int, *, want_files: bool, kind_of_link: Callable[[bytes], Kind] | None = None
    ) -> Listing:
        """List the folder open at `fd`; the caller passes the listing to `release` when it is done.

        `kind_of_link` returns the kind of a link's target by the link's name; with None every link counts as special.
        Never raises OSError: the listing holds the names read before the error, and the error. `stop` is called between
        pieces of a large folder; the listing ends early if it returns True, and the scan must end, too.
        """
        names: list[bytes] = []
        fresh: list[str] = []
        runs: list[tuple[int, int]] = []
        files = folders = special = 0
        error: OSError | None = None
        add = fresh.append
        room = max(self._least, self._most - self._held)
        most = min(room, _CONVERTED)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        if not want_files:
                            files += 1
                            continue
                        add(entry.name)
                    elif entry.is_dir(follow_symlinks=False):
                        folders += 1
                        add(entry.name + "/")
                    elif kind_of_link is None or not entry.is_symlink():
                        special += 1
                    else:
                        kind = kind_of_link(entry.name.encode(_CODEC, _ERRORS))
                        if kind is Kind.SPECIAL:
                            special += 1
                        elif kind is Kind.FOLDER:
                            folders += 1
                            add(entry.name + "/")
                        elif want_files:
                            add(entry.name)
                        else:
                            files += 1
                    if len(fresh) > most:
                        _convert(fresh, names)
                        # A file system that does not list the kinds of entries costs a stat for each of them.
                        if self.stop():
                            break
                        if len(names) > room:
                            names.sort()
                            runs.append(self.spool.write(names))
                            names.clear()
                        most = min(room - len(names), _CONVERTED)
        except OSError as exc:
            error = exc
        _convert(fresh, names)
        names.sort()
        self._held += len(names)
        ordered: Iterator[bytes] = iter(names)
        if runs:
            piece_size = max(_PIECE, _MERGED // len(runs))
            ordered = heapq.merge(*(self.spool.read(*run, piece_size=piece_size) for run in runs), names)
        return Listing(ordered, len(names), files, special, error, None if runs or error else names, folders)

    def release(self, listing: Listing, spooled: int) -> None:
        """Free a listing; `spooled` is the spool's `end` before the listing was made."""
        self._held -= listing.held
        self.spool.cut(spooled)


def _convert(fresh: list[str], names: list[bytes]) -> None:
    """Move names from the list of texts to the list of bytes."""
    if fresh:
        names += "\0".join(fresh).encode(_CODEC, _ERRORS).split(b"\0")
        fresh.clear()
