"""Lists one folder in byte order, on disk where it is too large for memory.

A folder's own name carries a trailing `/`, because everything below it sorts as if it did: `a.jpg`, `a/x`, `a0.jpg`.
That is what makes a walk in this order give whole paths in byte order. What to do with the names is for `scan`.
"""

import errno
import heapq
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import IO, NamedTuple, Self

# os.scandir on a descriptor gives text; this is the way back to the bytes on disk, whatever they were.
_CODEC = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
# What a merge reads at a time from all its runs together, and at least from each, in bytes.
_MERGED = 1 << 18
_PIECE = 1 << 12
# Names that are brought from text to bytes at once: one by one costs three times as much.
_CONVERTED = 1000
_SLASH = ord("/")


class Kind(Enum):
    """What an entry of a folder is to a scan."""

    FILE = auto()
    FOLDER = auto()
    SPECIAL = auto()


class Listing(NamedTuple):
    """The names of one folder in byte order; `held` of them stand in memory, `files` were left out as not asked for.

    `whole` are the same names again where all of them are in memory, and `folders` of these are those of folders.
    """

    names: Iterator[bytes]
    held: int
    files: int
    special: int
    error: OSError | None
    whole: Sequence[bytes] | None = None
    folders: int = 0

    def split(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Part the whole names into those of files and those of folders."""
        assert self.whole is not None
        if not self.folders:
            return self.whole, ()
        return [n for n in self.whole if n[-1] != _SLASH], [n for n in self.whole if n[-1] == _SLASH]


NOTHING = Listing(iter(()), 0, 0, 0, None)


class Spool:
    """Sorted runs of names in one unnamed temporary file, given up in the reverse order of their writing.

    The file comes into being with the first run, in `folder` (None: where temporary files go), outside the tree.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def end(self) -> int:
        """Where the next run will begin; give it to `cut` when the runs behind it are done with."""
        return self._end

    def write(self, names: Sequence[bytes]) -> tuple[int, int]:
        """Store one sorted run; gives where it begins and ends. Raises OSError."""
        start = at = self._end
        # No name holds a NUL, whatever else it holds.
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
        """Yield the names of the run that lies there, reading so many bytes at a time; raises OSError."""
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
        """Forget every run from `end` on."""
        if self._file is not None and end < self._end:
            self._file.truncate(end)
            self._end = end

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Lister:
    """Lists folders, with one spool and one allowance of names in memory for all of them."""

    def __init__(self, spool: Spool, stop: Callable[[], bool], room: int) -> None:
        self.spool = spool
        self._stop = stop
        self._most = room
        # However much the folders above hold, sorting a name at a time would be no sorting.
        self._least = max(1, room // 50)
        self._held = 0

    def names_of(  # noqa: C901, PLR0912 - a call for each entry would cost more than reading it does
        self, fd: int, *, want_files: bool, kind_of_link: Callable[[bytes], Kind] | None = None
    ) -> Listing:
        """List the folder open at `fd`; give it to `release` when done with it.

        `kind_of_link` says what a link of that name leads to; None leaves links out. Never raises OSError: what was
        read before the error is given with it. A listing that is sorted on disk ends early when asked to stop.
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
                        if len(names) > room:
                            runs.append(self._spill(names))
                            if self._stop():
                                break
                        most = min(room - len(names), _CONVERTED)
        except OSError as exc:
            error = exc
        _convert(fresh, names)
        names.sort()
        self._held += len(names)
        ordered = heapq.merge(*self._spilled(runs), names) if runs else iter(names)
        return Listing(ordered, len(names), files, special, error, None if runs or error else names, folders)

    def _spilled(self, runs: Sequence[tuple[int, int]]) -> Iterator[Iterator[bytes]]:
        piece_size = max(_PIECE, _MERGED // len(runs))
        return (self.spool.read(*run, piece_size=piece_size) for run in runs)

    def release(self, listing: Listing, spooled: int) -> None:
        """Forget a listing; `spooled` is where the spool ended before it was made."""
        self._held -= listing.held
        self.spool.cut(spooled)

    def _spill(self, names: list[bytes]) -> tuple[int, int]:
        names.sort()
        run = self.spool.write(names)
        names.clear()
        return run


def _convert(fresh: list[str], names: list[bytes]) -> None:
    """Move names from one list to the other."""
    if fresh:
        names += "\0".join(fresh).encode(_CODEC, _ERRORS).split(b"\0")
        fresh.clear()
