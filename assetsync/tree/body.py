"""Reads and hashes the bytes of one file, and never completes a body whose file changed meanwhile.

A small file is read whole and checked before a byte of it is handed over; of a larger one the last chunk is held back
until the file was looked at again. Which file to open is for `opening`; what becomes of a body that was given up is for
the sender.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

from assetsync.errors import FileChanged, ReadStopped
from assetsync.model import Body, FileStat
from assetsync.tree.read_ahead import ahead
from assetsync.tree.safe_open import OpenFile, shown

if TYPE_CHECKING:
    from hashlib import _Hash

# Up to here a file is read whole before it is sent, in bytes.
SMALL = 8 * 2**20
CHUNK = 2**20
# Chunks of a large file that are read and hashed before the one on its way has left.
AHEAD = 2


def difference(expected: FileStat, found: FileStat) -> str:
    """Say in what a file is not the version that was promised; "" when it is.

    ctime is left out: a chmod or a new hard link changes it and no byte. A rewrite whose mtime was set back on purpose
    escapes this look, but does no harm: what is recorded is the MD5 of the bytes that were handed over, and the next
    scan sees the ctime and reads the file again.
    """
    if found.inode != expected.inode:
        return "another file has taken its place"
    if found.size != expected.size:
        return f"its size went from {expected.size:,} to {found.size:,} bytes"
    if found.mtime_ns != expected.mtime_ns:
        return "it was written to"
    return ""


class FileBody:
    """The bytes of one file version on their way out (`model.Body`); the open file remains its owner's to close."""

    def __init__(self, open_file: OpenFile, expected: FileStat) -> None:
        self._file = open_file
        self._expected = expected
        self._content: bytes | None = None
        self._whole = ""
        self._handed = 0
        self._md5 = _OF_NOTHING

    @property
    def size(self) -> int:
        """Bytes that will be handed over if nothing goes wrong."""
        return self._expected.size

    @property
    def handed(self) -> int:
        """Bytes handed over so far; a chunk counts from the moment it is given away."""
        return self._handed

    @property
    def md5(self) -> str:
        """MD5 of the bytes handed over so far, upper-case hex."""
        return self._md5

    def load(self) -> str | None:
        """Read a small file whole and give its MD5, so that it is known before anything leaves; None for a large one.

        Raises FileChanged, FileUnreadable. A second call reads nothing.
        """
        if self.size > SMALL:
            return None
        if self._content is None:
            content = self._file.read(self.size + 1, 0)
            _check(self._file, self._expected, len(content))
            self._content = content
            self._whole = _hexdigest(_hasher(content))
        return self._whole

    def small_bytes(self) -> bytes | None:
        """Give the whole content of a small file, None for a large one; raises as `load` does."""
        self.load()
        return self._content

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes once, in order: a small file as one chunk, a larger one in chunks of 1 MiB.

        The file is looked at before the first chunk and before the last. Raises FileChanged or FileUnreadable in place
        of the chunk that would have completed an unsound body.
        """
        content = self.small_bytes()
        if content is None:
            # Before the thread starts: a file that is another one already costs nothing.
            _check(self._file, self._expected, self.size)
            yield from self._stream()
        elif content:
            self._handed, self._md5 = self.size, self._whole
            yield content

    def _stream(self) -> Iterator[bytes]:
        with closing(ahead(_hashed(self._file, self._expected), depth=AHEAD)) as pieces:
            for piece, md5 in pieces:
                self._handed += len(piece)
                self._md5 = md5
                yield piece


class TappedBody:
    """A body that calls `tap` with the length of each chunk before it gives the chunk away (`model.Body`).

    It breaks chunks into pieces of so many bytes at most; `handed` counts what was read for them.
    """

    def __init__(self, body: Body, tap: Callable[[int], None], *, piece: int = CHUNK) -> None:
        self._body = body
        self._tap = tap
        self._piece = piece

    @property
    def size(self) -> int:
        """Bytes that will be handed over if nothing goes wrong."""
        return self._body.size

    @property
    def handed(self) -> int:
        """Bytes handed over so far."""
        return self._body.handed

    @property
    def md5(self) -> str:
        """MD5 of the bytes handed over so far."""
        return self._body.md5

    def chunks(self) -> Iterator[bytes]:
        """Yield what the body yields, each piece after the tap."""
        for chunk in self._body.chunks():
            for start in range(0, len(chunk), self._piece):
                piece = chunk[start : start + self._piece] if len(chunk) > self._piece else chunk
                self._tap(len(piece))
                yield piece


def digest(
    open_file: OpenFile,
    expected: FileStat,
    *,
    stop: Callable[[], bool] = lambda: False,
    tap: Callable[[int], None] = lambda _length: None,
) -> str:
    """Give the MD5 of the whole file, upper-case hex; `tap` is called with the length of each chunk.

    Raises FileChanged when it is not the expected version, before or after; FileUnreadable; ReadStopped when `stop`,
    asked at every chunk, says so.
    """
    _check(open_file, expected, expected.size)
    hasher = _hasher()
    for chunk in _read(open_file, expected):
        if stop():
            raise ReadStopped(f"{shown(open_file.path)} was not read to its end")
        hasher.update(chunk)
        tap(len(chunk))
    return _hexdigest(hasher)


def prefix_digests(
    open_file: OpenFile, lengths: Sequence[int], *, tail: bytes = b"", stop: Callable[[], bool] = lambda: False
) -> dict[int, str]:
    """Give the MD5 of the first n bytes of the file for each n in `lengths`, in one pass over it.

    The file is taken to go on with `tail` (the closing boundary of the body it was sent in). Lengths beyond both are
    left out of the answer. The file need not be the version that was sent: a prefix that fits is proof in itself.
    Raises ValueError for a negative length, FileUnreadable, and ReadStopped as `digest` does.
    """
    wanted = sorted({0, *lengths})
    if wanted[0] < 0:
        raise ValueError(f"no file has a prefix of {wanted[0]} bytes")
    hasher = _hasher()
    found = {0: _hexdigest(hasher)}
    at = 0
    size = open_file.stat.size
    for here, there in pairwise(wanted):
        if there > size + len(tail):
            break
        while at < min(there, size):
            if stop():
                raise ReadStopped(f"{shown(open_file.path)} was not read to its end")
            chunk = open_file.read(min(CHUNK, min(there, size) - at), at)
            if not chunk:
                # Cut off since it was opened: nothing is known of what stood behind.
                return {length: found[length] for length in lengths if length in found}
            hasher.update(chunk)
            at += len(chunk)
        hasher.update(tail[max(0, here - size) : max(0, there - size)])
        found[there] = _hexdigest(hasher)
    return {length: found[length] for length in lengths if length in found}


def _hashed(file: OpenFile, expected: FileStat) -> Iterator[tuple[bytes, str]]:
    hasher = _hasher()
    for chunk in _read(file, expected):
        hasher.update(chunk)
        yield chunk, _hexdigest(hasher)


def _read(file: OpenFile, expected: FileStat) -> Iterator[bytes]:
    """Yield the bytes of the file, the last chunk only after the file was found to be the expected one still."""
    file.expect_sequence()
    at = 0
    while at < expected.size:
        length = min(CHUNK, expected.size - at)
        # One byte more of the last chunk than there should be, to see a file that grew.
        last = at + length == expected.size
        chunk = file.read(length + last, at)
        at += len(chunk)
        if last or len(chunk) < length:
            _check(file, expected, at)
        yield chunk
    if not expected.size:
        _check(file, expected, len(file.read(1, 0)))


def _check(file: OpenFile, expected: FileStat, got: int) -> None:
    """Compare an open file, and the bytes that were got from it, with what was expected; raises FileChanged."""
    changed = difference(expected, file.restat())
    if not changed and got != expected.size:
        changed = f"it gave {got:,} bytes of {expected.size:,}"
    if changed:
        raise FileChanged(f"{shown(file.path)} changed while it was read: {changed}")


def _hasher(content: bytes = b"") -> "_Hash":
    # Compared with what the service says of its assets, not used to keep anything safe.
    return hashlib.md5(content, usedforsecurity=False)


def _hexdigest(hasher: "_Hash") -> str:
    return hasher.hexdigest().upper()


_OF_NOTHING = _hexdigest(_hasher())
